"""The folder of a run: raw rows as Parquet, everything else as JSON."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from gossamer_lab import paths
from gossamer_lab.measuring.measure import Row

_RESULTS = "results.json"
_RAW = "raw.parquet"
_HOSTS = "hosts.parquet"
_INTEGERS = ("order", "round", "requests", "errors", "server_memory_kb", "accept_queue_overflows")
_STRINGS = (
    "point",
    "server",
    "started",
    "failure",
    "errors_by_kind",
    "invalid",
    "histograms",
    "timeline",
    "host",
    "hosts_died",
)

FORMAT = 5
"""Version of the layout of results.json."""


class NoSuchRunError(Exception):
    """There is no such run, or another version of the lab made it."""


@dataclass(frozen=True)
class Run:
    """A stored run: everything that its report is made from."""

    folder: Path
    results: dict[str, Any]
    raw: pl.DataFrame

    @property
    def report(self) -> Path:
        """Path of the report."""
        return self.folder / "report.html"

    def save(self) -> None:
        """Write results and raw rows."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.results, indent=1, ensure_ascii=False) + "\n"
        _replace(self.folder / _RAW, self.raw.write_parquet)
        _replace(self.folder / _RESULTS, lambda path: path.write_text(text))


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file atomically."""
    temporary = path.with_name(f".{path.name}.new")
    write(temporary)
    temporary.replace(path)


def raw_frame(rows: list[Row]) -> pl.DataFrame:
    """Return the rows as a table whose column types do not depend on missing values."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    kinds: dict[str, Any] = dict.fromkeys(names, pl.Float64)
    kinds |= {name: pl.Int64 for name in _INTEGERS if name in kinds}
    kinds |= {name: pl.String for name in _STRINGS if name in kinds}
    kinds |= {"ours": pl.Boolean} if "ours" in kinds else {}
    whole = [{name: row.get(name) for name in names} for row in rows]
    return pl.DataFrame(whole, schema=kinds, orient="row")


def host_rows(folder: Path) -> pl.DataFrame | None:
    """Return a row for each client host of each measurement; None if no load had many hosts."""
    path = folder / _HOSTS
    return pl.read_parquet(path) if path.exists() else None


def save_host_rows(folder: Path, row: Row, hosts: list[Row]) -> None:
    """Store the metrics of each client host of a measurement."""
    measurement = {name: row[name] for name in ("order", "round", "point", "server")}
    new = raw_frame([measurement | host for host in hosts])
    kept = host_rows(folder)
    if kept is not None:
        others = kept.filter(pl.col("order") != row["order"])
        new = pl.concat([others, new], how="diagonal")
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / _HOSTS, new.write_parquet)


def is_finished(folder: Path) -> bool | None:
    """Return whether the run in a folder is finished; None if the folder contains no run."""
    path = folder / _RESULTS
    return bool(json.loads(path.read_text()).get("complete")) if path.exists() else None


def load_run(name: str) -> Run:
    """Load a run: by its folder, its name in the folder of runs, or "latest"."""
    if name == "latest":
        kept = sorted(path.parent for path in paths.RUNS.glob(f"*/{_RESULTS}"))
        folder = kept[-1] if kept else paths.RUNS / name
    else:
        folder = Path(name) if Path(name).is_dir() else paths.RUNS / name
    try:
        results = json.loads((folder / _RESULTS).read_text())
        raw = pl.read_parquet(folder / _RAW).with_columns(cs.float().cast(pl.Float64))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoSuchRunError(f"no run {name!r}: {error.filename or folder} is missing") from error
    if results.get("format") != FORMAT:
        raise NoSuchRunError(f"the run {name!r} was made by another version of the lab")
    return Run(folder, results, raw)
