"""The table of a run on the terminal."""

import math
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gossamer_lab.report.notes import notes
from gossamer_lab.report.plural import plural


def duration(us: float | None) -> str:
    """Return a time in the unit that suits it."""
    if us is None:
        return "-"
    for limit, unit in ((1e3, "µs"), (1e6, "ms")):
        if us < limit:
            value = us / limit * 1e3
            return f"{value:.{0 if value >= 100 else 1}f} {unit}"
    return f"{us / 1e6:.2f} s"


def number(value: float | None) -> str:
    """Return a number with four significant digits."""
    if value is None:
        return "-"
    magnitude = abs(value)
    if 0 < magnitude < 1e-3:
        return f"{value:.{1 - math.floor(math.log10(magnitude))}f}"
    if magnitude >= 1000:
        return f"{value:,.0f}"
    if 0.99 < magnitude < 1:
        return f"{value:.5f}"
    return f"{value:.{4 if magnitude < 1 else 3 if magnitude < 10 else 1}f}"


def span(verdict: dict[str, Any]) -> str:
    """Return the value of a verdict with its confidence interval."""
    if verdict["value"] is None:
        return "-"
    low, high = number(verdict["low"]), number(verdict["high"])
    return f"{number(verdict['value'])} ({low} to {high})"


def uncorrected(verdict: dict[str, Any]) -> str:
    """Return verdict and value without the correction for the speed of the core.

    Empty if the claim has no such correction. Of a claim about every point another one may decide.
    """
    other = verdict["uncorrected"]
    if not other:
        return ""
    of_other = other["quantity"] != verdict["quantity"] and other["value"] is not None
    name = f"{other['quantity']}: " if of_other else ""
    return f"uncorrected: {other['verdict']}, {name}{span(other)}"


def rate(per_s: float | None) -> str:
    """Return a rate with its unit."""
    return "-" if per_s is None else f"{per_s:,.0f}/s"


def cost(cell: dict[str, Any]) -> str:
    """Return the CPU time per request, with its ratio and mark."""
    if cell["cpu_us"] is None:
        return "-"
    decimals = 2 if cell["cpu_us"] < 9.995 else 1 if cell["cpu_us"] < 99.95 else 0
    ratio = "" if cell["ratio"] is None else f" ×{cell['ratio']:.2f}"
    return f"{'*' if cell['is_best'] else ''}{cell['cpu_us']:.{decimals}f} µs{ratio}"


def problems(cell: dict[str, Any]) -> str:
    """Return what went wrong in a cell, empty if nothing did."""
    words = []
    if cell["failures"]:
        words.append(f"{cell['failures']} failed!")
    if cell["errors"]:
        words.append(f"{plural(cell['errors'], 'error')}!")
    return ", ".join(words)


def _style(cell: dict[str, Any]) -> str:
    if problems(cell):
        return "bold red"
    return "bold green" if cell["is_best"] else ""


def _cells(results: dict[str, Any]) -> Table:
    """Return a table with a row for each point and server."""
    cells = {(cell["point"], cell["server"]): cell for cell in results["cells"]}
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("point", "server"):
        table.add_column(name)
    for name in ("requests", "CPU/request", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    for point in results["points"]:
        for server in results["servers"]:
            cell = cells.get((point["key"], server["name"]))
            if cell:
                limited = "~" if cell["client_bound"] else ""
                failed = f"\n{problems(cell)}" if problems(cell) else ""
                table.add_row(
                    point["label"],
                    server["name"],
                    limited + rate(cell["throughput_per_s"]),
                    Text(cost(cell) + failed, style=_style(cell)),
                    duration(cell["p99_us"]),
                )
        table.add_section()
    return table


def _legend(results: dict[str, Any]) -> str:
    """Explain the values, and those marks that occur."""
    cells = results["cells"]
    method = results["method"]
    where = (
        f"server and load generator share core {method['server_core']}"
        if method["shared_core"]
        else f"server on core {method['server_core']}, client on core {method['client_core']}"
    )
    loads = f"{plural(method['rounds'], 'round')} of {method['seconds']:g} s"
    lines = [
        f"Requests per second; CPU time (user and system) of the server per request; 99th "
        f"percentile of the response time. {loads}, {where}."
    ]
    if any(cell["ratio"] is not None for cell in cells):
        lines.append("×: CPU time relative to the best peer at this point. *: the minimum.")
    if any(cell["client_bound"] for cell in cells) and not method["shared_core"]:
        lines.append("~: limited by the load generator, not the server. Trust the CPU time.")
    if any(problems(cell) for cell in cells):
        lines.append("!: requests failed: excluded as best and as reference.")
    return "\n".join(lines)


def _series(series: dict[str, Any]) -> Table:
    """Return a table of a chart, with a row for each subject."""
    found = {(at["server"], at["x"]): at["value"] for at in series["values"]}
    table = Table(title=f"{series['title']}: {series['y_title']}", box=box.HORIZONTALS)
    table.add_column(series["x_title"])
    places = sorted({x for _, x in found})
    for x in places:
        table.add_column(number(x), justify="right")
    for server in dict.fromkeys(server for server, _ in found):
        table.add_row(server, *(number(found.get((server, x))) for x in places))
    return table


_VERDICT_STYLES = {"holds": "bold green", "does not hold": "bold red"}


def _verdicts(results: dict[str, Any]) -> Table:
    """Return a table with a row for each claim."""
    table = Table(box=box.HORIZONTALS, show_lines=True, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("claim", "verdict", "quantity (95 % CI)"):
        table.add_column(name, ratio=3 if name == "claim" else 2)
    for verdict in results["verdicts"]:
        word = Text(verdict["verdict"], style=_VERDICT_STYLES.get(verdict["verdict"], "yellow"))
        word.append(f"\n{verdict['reason']}", style="dim")
        decided = Text(f"{verdict['quantity']}: {span(verdict)}")
        if beside := uncorrected(verdict):
            decided.append(f"\n{beside}", style="dim")
        table.add_row(Text(verdict["claim"]), word, decided)
    return table


def render(results: dict[str, Any]) -> RenderableType:
    """Return a run for a console: verdicts, charts as tables, or the table."""
    head = [Text(results["headline"], style="bold yellow")] if results["headline"] else []
    lines = [
        Text(note.text, style="bold red" if note.is_error else "yellow") for note in notes(results)
    ]
    if results["verdicts"]:
        return Group(*head, _verdicts(results), *lines)
    if results["series"]:
        return Group(*head, *map(_series, results["series"]), *lines)
    return Group(*head, _cells(results), Text(_legend(results), style="dim"), *lines)


def show(results: dict[str, Any], console: Console) -> None:
    """Print the results of a run."""
    console.print(render(results))
