"""The verdicts of a run as a Markdown table, for documents and discussions."""

from typing import Any

from gossamer_lab.amount import amount
from gossamer_lab.experiment import Experiment
from gossamer_lab.table import span

_HEAD = (
    "| claim | published | here | the figure that decides, and between which limits it lies |",
    "|---|---|---|---|",
)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _figure(verdict: dict[str, Any]) -> str:
    """Return the figure and what was wanted; where there is none, why."""
    if verdict["value"] is None:
        return verdict["because"]
    return f"{verdict['figure']}: {span(verdict)}; {verdict['because']}"


def _row(verdict: dict[str, Any]) -> str:
    cells = (verdict["claim"], verdict["published"], f"**{verdict['verdict']}**", _figure(verdict))
    return f"| {' | '.join(map(_cell, cells))} |"


def verdict_table(results: dict[str, Any], experiment: Experiment) -> str:
    """Return what became of each claim, below a line that says of what and how it was found."""
    document = experiment.document
    of = f'"{document.title}" ({document.authors}, {document.year})' if document else "no document"
    method = results["method"]
    intro = (
        f"`gossamer lab run {experiment.name} --scale {method['scale']}`, after {of}: "
        f"{amount(results['measured'], 'measurement')} in {amount(method['rounds'], 'round')}, "
        f"on {results['started'][:10]}."
    )
    return "\n".join((intro, "", *_HEAD, *map(_row, results["verdicts"])))
