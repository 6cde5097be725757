"""The folder of a run: raw rows in Parquet, all else in JSON, and what is derived from them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from gossamer_lab import paths
from gossamer_lab.measure import Row

_RESULTS = "results.json"
_RAW = "raw.parquet"
_WHOLE = ("order", "round", "requests", "errors")
_WORDS = ("point", "server", "started", "failure", "errors_by_kind")


class NoSuchRunError(Exception):
    """There is no run of that name."""


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
        self.raw.write_parquet(self.folder / _RAW)
        text = json.dumps(self.results, indent=1, ensure_ascii=False)
        (self.folder / _RESULTS).write_text(text + "\n")


def raw_frame(rows: list[Row]) -> pl.DataFrame:
    """Return the rows as a table whose types do not depend on which values are missing."""
    names = list(rows[0]) if rows else []
    kinds: dict[str, Any] = dict.fromkeys(names, pl.Float64)
    kinds |= {name: pl.Int64 for name in _WHOLE if name in kinds}
    kinds |= {name: pl.String for name in _WORDS if name in kinds}
    kinds |= {"ours": pl.Boolean} if "ours" in kinds else {}
    return pl.DataFrame(rows, schema=kinds, orient="row")


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
    return Run(folder, results, raw)
