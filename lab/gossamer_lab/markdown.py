"""The verdicts of a run as a Markdown table."""

from typing import Any

from gossamer_lab.experiment import Experiment
from gossamer_lab.plural import plural
from gossamer_lab.table import span

_HEAD = (
    "| claim | published | verdict | quantity: value (95 % confidence interval) |",
    "|---|---|---|---|",
)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _value(verdict: dict[str, Any]) -> str:
    """Return the value and the expected range, or the reason why there is no value."""
    if verdict["value"] is None:
        return verdict["reason"]
    return f"{verdict['quantity']}: {span(verdict)}; {verdict['reason']}"


def _row(verdict: dict[str, Any]) -> str:
    cells = (verdict["claim"], verdict["published"], f"**{verdict['verdict']}**", _value(verdict))
    return f"| {' | '.join(map(_cell, cells))} |"


def verdict_table(results: dict[str, Any], experiment: Experiment) -> str:
    """Return the verdict on each claim, below the headline and a line that identifies the run."""
    document = experiment.document
    of = f'"{document.title}" ({document.authors}, {document.year})' if document else "no document"
    method = results["method"]
    intro = (
        f"`gossamer lab run {experiment.name} --scale {method['scale']}`, after {of}: "
        f"{plural(results['measured'], 'measurement')} in {plural(method['rounds'], 'round')}, "
        f"on {results['started'][:10]}."
    )
    head = (f"**{results['headline']}**", "") if results["headline"] else ()
    return "\n".join((*head, intro, "", *_HEAD, *map(_row, results["verdicts"])))
