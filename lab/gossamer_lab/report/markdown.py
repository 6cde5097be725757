"""The verdicts of a run as a Markdown table."""

from typing import Any

from gossamer_lab.experiments.manifest import Experiment
from gossamer_lab.report.plural import plural
from gossamer_lab.report.table import span, uncorrected

_HEAD = (
    "| claim | published | our reading | verdict | quantity: value (95 % confidence interval) |",
    "|---|---|---|---|---|",
)


def cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def value(verdict: dict[str, Any]) -> str:
    """Return the value and the expected range, or the reason why there is no value."""
    if verdict["value"] is None:
        return verdict["reason"]
    found = f"{verdict['quantity']}: {span(verdict)}; {verdict['reason']}"
    return "; ".join(filter(None, (found, uncorrected(verdict))))


def _row(verdict: dict[str, Any]) -> str:
    said = verdict["published"] or "(ours)"
    cells = (
        verdict["claim"],
        said,
        verdict["reading"],
        f"**{verdict['verdict']}**",
        value(verdict),
    )
    return f"| {' | '.join(map(cell, cells))} |"


def chance_text(results: dict[str, Any]) -> str:
    """Return how many intervals miss by chance, and how many verdicts stand together."""
    chance = results["chance"]
    return (
        f"About {chance['misses']:.1f} of the {chance['intervals']} intervals can be expected to "
        f"miss their value by chance; {chance['jointly']} of the {chance['decided']} decided "
        "verdicts rest on intervals that hold jointly at 95 %."
    )


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
    rows = map(_row, results["verdicts"])
    return "\n".join((*head, intro, "", *_HEAD, *rows, "", chance_text(results)))
