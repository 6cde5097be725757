"""Stores the raw rows of runs beside the page of findings, small enough for a repository."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from gossamer_lab.experiments import EXPERIMENTS
from gossamer_lab.report.derived import DERIVED, with_derived
from gossamer_lab.store import NoSuchRunError, Run, load_run

AGAIN = "again"
"""Folder of the second run of an experiment, inside that of the first."""
_IN_CHECKOUT = re.compile(r"(?:/[\w.-]+)+?/(?=(?:build|lab|peers)/)")
"""What precedes the path of a file inside a checkout."""
_LOCAL = ("histograms",)
"""Columns that name files of the run's folder."""


class NotPublishableError(Exception):
    """A run is no basis of findings; the message says why."""


def _without_places(text: str) -> str:
    """Return a text without the paths of a checkout and of temporary folders."""
    text = _IN_CHECKOUT.sub("", text)
    temporary = re.escape(tempfile.gettempdir())
    return re.sub(rf"{temporary}/[^/\s\"',;:]+", "FOLDER", text)


def _places_removed(value: Any) -> Any:  # noqa: ANN401 (any JSON)
    if isinstance(value, str):
        return _without_places(value)
    if isinstance(value, list):
        return [_places_removed(one) for one in value]
    if isinstance(value, dict):
        return {name: _places_removed(one) for name, one in value.items()}
    return value


def _small(raw: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with seven digits of each number, in the order of their measurement."""
    texts = cs.string().map_elements(_without_places, return_dtype=pl.String)
    kept = raw.drop(_LOCAL, strict=False).sort("order")
    return kept.with_columns(cs.float().cast(pl.Float32), texts)


def check(run: Run) -> None:
    """NotPublishableError unless the run is complete, of all subjects, as the program is."""
    method = run.results["method"]
    if not run.results["complete"]:
        raise NotPublishableError(f"{run.folder} is not complete")
    if method["only"] or method["injected_overhead"]:
        raise NotPublishableError(f"{run.folder} has only some subjects, or injected overhead")


def publish(runs: list[Run], folder: Path) -> None:
    """Store the rows of runs in a folder for each experiment: a second run as the first's repeat.

    Rows that were stored before are replaced.
    """
    for run in runs:
        check(run)
    seen: set[str] = set()
    for run in runs:
        name = run.results["experiment"]
        place = folder / name / AGAIN if name in seen else folder / name
        if name not in seen:
            for old in (folder / name / AGAIN).glob("*"):
                old.unlink()
        seen.add(name)
        kept = {key: value for key, value in run.results.items() if key not in DERIVED}
        place.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_places_removed(kept), indent=1, ensure_ascii=False) + "\n"
        (place / "results.json").write_text(text)
        _small(run.raw).write_parquet(
            place / "raw.parquet", compression="zstd", compression_level=19
        )


def published(folder: Path, name: str) -> Run | None:
    """Return a published run, with the results derived from its rows; None if there is none."""
    try:
        run = load_run(str(folder / name))
    except NoSuchRunError:
        return None
    return with_derived(run, EXPERIMENTS[run.results["experiment"]])
