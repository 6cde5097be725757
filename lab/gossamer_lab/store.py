"""The folder of a run: raw rows in Parquet, all else in JSON, and what is derived from them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from gossamer_lab import paths
from gossamer_lab.measure import Row

_RESULTS = "results.json"
_RAW = "raw.parquet"
_WHOLE = ("order", "round", "requests", "errors", "server_memory_kb", "accept_queue_overflows")
_WORDS = ("point", "server", "started", "failure", "errors_by_kind", "void", "histograms")


FORMAT = 2
"""Version of the layout of results.json."""


class NoSuchRunError(Exception):
    """There is no run of that name, or another version of the lab made it."""


@dataclass(frozen=True)
class Run:
    """A run as it is kept: everything that its report is made from."""

    folder: Path
    results: dict[str, Any]
    raw: pl.DataFrame

    @property
    def report(self) -> Path:
        """Where the report of this run is."""
        return self.folder / "report.html"

    def save(self) -> None:
        """Write results and raw rows."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.results, indent=1, ensure_ascii=False) + "\n"
        self._replace(_RAW, self.raw.write_parquet)
        self._replace(_RESULTS, lambda path: path.write_text(text))

    def _replace(self, name: str, write: Callable[[Path], object]) -> None:
        """Write a file so that at any time the old one or the new one is whole."""
        fresh = self.folder / f".{name}.new"
        write(fresh)
        fresh.replace(self.folder / name)


def raw_frame(rows: list[Row]) -> pl.DataFrame:
    """Return the rows as a table whose types do not depend on which values are missing."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    kinds: dict[str, Any] = dict.fromkeys(names, pl.Float64)
    kinds |= {name: pl.Int64 for name in _WHOLE if name in kinds}
    kinds |= {name: pl.String for name in _WORDS if name in kinds}
    kinds |= {"ours": pl.Boolean} if "ours" in kinds else {}
    whole = [{name: row.get(name) for name in names} for row in rows]
    return pl.DataFrame(whole, schema=kinds, orient="row")


def load_run(name: str) -> Run:
    """Read a run again: its folder, its name in the folder of runs, or "latest"."""
    if name == "latest":
        kept = sorted(path.parent for path in paths.RUNS.glob(f"*/{_RESULTS}"))
        folder = kept[-1] if kept else paths.RUNS / name
    else:
        folder = Path(name) if Path(name).is_dir() else paths.RUNS / name
    try:
        results = json.loads((folder / _RESULTS).read_text())
        raw = pl.read_parquet(folder / _RAW)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoSuchRunError(f"no run {name!r}: {error.filename or folder} is missing") from error
    if results.get("format") != FORMAT:
        raise NoSuchRunError(f"the run {name!r} was made by another version of the lab")
    return Run(folder, results, raw)
