"""The page of findings, written from the published rows of all experiments."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gossamer_lab.claims.claim import Claim
from gossamer_lab.claims.verdict import FAILS, HOLDS, INCONCLUSIVE
from gossamer_lab.experiments import EXPERIMENTS
from gossamer_lab.experiments.manifest import Document, Experiment
from gossamer_lab.report.charts import Chart
from gossamer_lab.report.description import duration, expected_seconds
from gossamer_lab.report.line_charts import line_charts
from gossamer_lab.report.notes import notes
from gossamer_lab.report.page import svg
from gossamer_lab.report.plural import plural
from gossamer_lab.report.publish import AGAIN, published
from gossamer_lab.report.table import span, uncorrected
from gossamer_lab.report.text import memory_size, peer_comparison
from gossamer_lab.statistics.comparison import compare
from gossamer_lab.store import Run

PAGE = "findings.md"
ROWS = "findings"
"""Folder of the rows and charts, beside the page."""
METHOD = "method.md"
"""In that folder: changes of the method, written by hand."""

_HEAD = """\
# Results

<!-- Written by `gossamer lab publish` from the rows in findings/. Changes here are lost. -->

"""
WORDS = {HOLDS: "Holds", FAILS: "Does not hold", INCONCLUSIVE: "Undecided"}


@dataclass(frozen=True)
class _Finding:
    """An experiment with its published run, if there is one."""

    experiment: Experiment
    run: Run | None

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.experiment.name

    def verdicts(self, *, ours: bool) -> list[dict[str, Any]]:
        """Return the verdicts on the document's claims, or on ours."""
        found: list[dict[str, Any]] = self.run.results["verdicts"] if self.run else []
        return [verdict for verdict in found if verdict["is_ours"] == ours]

    def chart(self) -> Chart | None:
        """Return the chart that shows what the document says."""
        document = self.experiment.document
        key = document.chart if document else None
        wanted = tuple(spec for spec in self.experiment.charts if key in {None, spec.key})
        shown = replace(self.experiment, charts=wanted)
        return next(iter(line_charts(self.run, shown)), None) if self.run else None


def _findings(rows: Path) -> list[_Finding]:
    return [_Finding(one, published(rows, one.name)) for one in EXPERIMENTS.values()]


def _cell(text: str) -> str:
    """Return a text for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table."""
    rows = [head, ["---"] * len(head), *lines]
    return [f"| {' | '.join(map(_cell, row))} |" for row in rows] + [""]


def _where(findings: Sequence[_Finding]) -> list[str]:
    """Return where and when the published runs were made."""
    machines: dict[str, list[str]] = {}
    for one in findings:
        if one.run:
            machine, source = one.run.results["machine"], one.run.results["machine"]["source"]
            kind = " (virtual)" if machine["virtual"] else ""
            words = (
                f"{machine['processor']}{kind}, {plural(machine['cores'], 'core')}, "
                f"{memory_size(machine['memory'])}, {machine['kernel']}, "
                f"commit {(source['commit'] or '?')[:12]}"
            )
            machines.setdefault(words, []).append(one.name)
    if not machines:
        return ["No run by the present method is published yet.", ""]
    lines = [f"- {', '.join(names)}: on {machine}" for machine, names in machines.items()]
    return [
        "One run of each experiment, the server on one core and the load on another:",
        "",
        *lines,
        "",
    ]


def _counts(findings: Sequence[_Finding]) -> list[str]:
    """Return the table of counts."""
    lines = []
    for one in findings:
        if one.experiment.claims:
            of_document, ours = (
                Counter(v["verdict"] for v in one.verdicts(ours=o)) for o in (False, True)
            )
            numbers = [str(of_document[word]) if one.run else "-" for word in WORDS]
            mine = f"{ours[HOLDS]} of {ours.total()}" if ours else "-"
            lines.append([one.name, *numbers, mine])
    return _table(
        ("experiment", *map(str.lower, WORDS.values()), "our own claims that hold"), lines
    )


def _share(count: int, total: int) -> str:
    return f"all {total}" if count == total else f"{count or 'none'} of the {total}"


def _main(document: Document, one: _Finding) -> list[str]:
    """Return the verdicts on a document's main claims, a line for each verdict.

    Each line counts the other claims with this verdict.
    """
    claims: dict[str, Claim] = {claim.key: claim for claim in one.experiment.claims}
    words = {verdict["key"]: verdict["verdict"] for verdict in one.verdicts(ours=False)}
    lines = []
    for verdict, label in WORDS.items():
        texts = [claims[key].text for key in document.main_claims if words.get(key) == verdict]
        count = sum(word == verdict for word in words.values()) - len(texts)
        line = f"- **{label}:** {'; '.join(texts) or 'none of the main claims'}"
        if other_count := len(words) - len(document.main_claims):
            line += f"; {_share(count, other_count)} other claims"
        lines.append(f"{line}.")
    return lines


def _short(one: _Finding) -> list[str]:
    """Return the part of the first page on a document."""
    document = one.experiment.document
    assert document
    lines = [
        f"### {document.title}",
        "",
        f"{document.authors}, {document.year}: [{one.name}](#{one.name})",
        "",
    ]
    lines.append(f"- **It says:** {document.says}")
    if one.run:
        lines += _main(document, one)
    else:
        seconds = expected_seconds(one.experiment, one.experiment.scale("normal"))
        lines.append(
            "- **Not published yet** by the present method: the rows come with the next published "
            f"run. `gossamer lab run {one.name}` takes {duration(seconds)}."
        )
    lines += [f"- **Different here:** {document.differs}", ""]
    if chart := one.chart():
        lines += [f"![{chart.title}]({ROWS}/{one.name}.svg)", ""]
    return lines


def _names(findings: Sequence[_Finding]) -> list[str]:
    """Return the table of names."""
    rows = [[one.name, name, words] for one in findings for name, words in one.experiment.names]
    return ["## Names", "", *_table(("experiment", "name", "what it is"), rows)]


def _value(verdict: dict[str, Any]) -> str:
    """Return the value, with the reason if it does not decide, or the reason why there is none."""
    if verdict["value"] is None:
        return verdict["reason"]
    parts = [f"{verdict['quantity']}: {span(verdict)}", uncorrected(verdict)]
    if verdict["verdict"] == INCONCLUSIVE:
        parts.append(verdict["reason"])
    return "; ".join(filter(None, parts))


def _claims(one: _Finding, *, ours: bool) -> list[str]:
    """Return the table of the document's claims, or of ours."""
    rows = []
    for verdict in one.verdicts(ours=ours):
        rule = "; ".join(filter(None, (verdict["reading"], f"expected: {verdict['expected']}")))
        said = [] if ours else [f"{verdict['published']} ({verdict['section']})"]
        rows.append([verdict["claim"], *said, rule, f"**{verdict['verdict']}**", _value(verdict)])
    if not rows:
        return []
    said = () if ours else ("published text",)
    head = ("claim", *said, "our rule", "verdict", "quantity: value (95 % confidence interval)")
    return ["**Our own claims**", "", *_table(head, rows)] if ours else _table(head, rows)


def _chance(run: Run) -> str:
    """Return how many intervals miss by chance, and how many verdicts stand together."""
    chance = run.results["chance"]
    return (
        f"About {chance['misses']:.1f} of the {chance['intervals']} intervals can be expected to "
        f"miss their value by chance; {chance['jointly']} of the {chance['decided']} decided "
        "verdicts rest on intervals that hold jointly at 95 %."
    )


def _full(one: _Finding) -> list[str]:
    """Return the part on an experiment, with all its verdicts."""
    run = one.run
    if not run:
        return []
    method = run.results["method"]
    lines = [f"## {one.name}", ""]
    if run.results["headline"]:
        lines += [f"**{run.results['headline']}**", ""]
    lines += [
        f"`gossamer lab run {one.name} --scale {method['scale']}`: "
        f"{plural(run.results['measured'], 'measurement')} in {plural(method['rounds'], 'round')}, "
        f"on {run.results['started'][:10]}.",
        "",
    ]
    lines += [*_claims(one, ours=False), *_claims(one, ours=True)]
    if one.experiment.claims:
        lines += [_chance(run), ""]
    elif chart := one.chart():
        lines += [f"![{chart.title}]({ROWS}/{one.name}.svg)", ""]
    lines += [f"- {sentence}" for sentence in peer_comparison(run.results)]
    lines += [f"- {note.text}" for note in notes(run.results)]
    lines += [f"- {words}" for words in one.experiment.notes]
    return [*lines, ""]


def _again(findings: Sequence[_Finding], rows: Path) -> list[str]:
    """Return how second runs compare with the first ones."""
    lines = []
    for one in findings:
        other = published(rows, f"{one.name}/{AGAIN}")
        if not one.run or not other:
            continue
        found = compare(one.run, other)
        largest = max(found.changes, key=lambda change: max(change.ratio, 1 / change.ratio))
        changed = [claim.claim for claim in found.claims if claim.verdict_changed]
        words = ""
        if found.claims:
            same = len(found.claims) - len(changed)
            words = f" {same} of {plural(len(found.claims), 'verdict')} are the same."
        if changed:
            words += f" Verdicts that differ: {'; '.join(changed)}."
        lines.append(
            f"- `{one.name}`: {len(found.significant)} of {len(found.changes)} changes are "
            f"significant; the largest is {largest.ratio:.3f} ({largest.server}, {largest.point})."
            f"{words}"
        )
    return ["## Reproducibility", "", *lines, ""] if lines else []


def page_of(rows: Path, method: str) -> str:
    """Return the page for the rows in a folder; `method` is its last part."""
    findings = _findings(rows)
    lines = _where(findings)
    lines += [
        "Results on your machine may differ: run `gossamer lab run EXPERIMENT`. "
        "[lab.md](lab.md) explains the verdicts; `gossamer lab report EXPERIMENT` shows all charts "
        "and tables of the published rows.",
        "",
        *_counts(findings),
    ]
    for one in findings:
        if one.experiment.document:
            lines += _short(one)
    lines += _names(findings)
    for one in findings:
        lines += _full(one)
    lines += _again(findings, rows)
    return _HEAD + "\n".join(lines) + "\n" + method


def write_findings(folder: Path, method: str) -> Path:
    """Write the page into a folder, and the charts beside the rows; return the page's path."""
    rows = folder / ROWS
    rows.mkdir(parents=True, exist_ok=True)
    for one in _findings(rows):
        if chart := one.chart():
            (rows / f"{one.name}.svg").write_text(svg(chart))
    page = folder / PAGE
    page.write_text(page_of(rows, method))
    return page
