"""Tables that stand alone: what the servers used, and our load generator beside others."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from gossamer_lab.amount import amount
from gossamer_lab.report.figures import Cell, FigureTable, table
from gossamer_lab.store import Run
from gossamer_lab.table import duration, rate

_RESOURCES = {
    "measurements": pl.len(),
    "void": pl.col("void").is_not_null().sum(),
    "server_cpu_us_per_request": pl.col("server_cpu_us_per_request").median(),
    "server_busy": pl.col("server_busy").median(),
    "client_busy": pl.col("client_busy").median(),
    "server_switches_per_s": pl.col("server_switches_per_s").median(),
    "server_memory_kb": pl.col("server_memory_kb").max(),
    "accept_queue_overflows": pl.col("accept_queue_overflows").sum(),
    "errors": pl.col("errors").sum(),
}


@dataclass(frozen=True)
class Told:
    """A table with the words around it."""

    key: str
    title: str
    caption: str
    table: FigureTable
    commands: tuple[str, ...] = ()
    """Command lines behind it."""


def _count(value: float | None) -> Cell:
    return Cell("-" if value is None else f"{value:,.0f}")


def _share(value: float | None) -> Cell:
    return Cell("-" if value is None else f"{value:.0%}")


def _used(row: dict[str, Any]) -> list[Cell]:
    """Return the line of a server."""
    memory = row["server_memory_kb"]
    void = f"{row['void']} void" if row["void"] else ""
    return [
        Cell(row["server"]),
        Cell(str(row["measurements"]), void),
        Cell(duration(row["server_cpu_us_per_request"])),
        _share(row["server_busy"]),
        _share(row["client_busy"]),
        _count(row["server_switches_per_s"]),
        Cell("-" if memory is None else f"{memory / 1024:,.1f} MiB"),
        _count(row["accept_queue_overflows"]),
        _count(row["errors"]),
    ]


def _resources(run: Run) -> list[Told]:
    """Return what each server used; nothing if there are no servers."""
    if not set(_RESOURCES) - {"measurements"} <= set(run.raw.columns):
        return []
    used = [
        expression.alias(name) if name in {"measurements", "void"} else expression
        for name, expression in _RESOURCES.items()
    ]
    grouped = run.raw.filter(pl.col("server_busy").is_not_null()).group_by("server").agg(used)
    found = {row["server"]: row for row in grouped.to_dicts()}
    names = [server["name"] for server in run.results["servers"]]
    rows = [found[name] for name in names if name in found]
    columns = ("server", "measurements", "CPU a request", "server busy", "client busy")
    columns += ("switches a second", "memory", "accept queue full", "errors")
    caption = (
        "Over all loads: medians; of memory, without pages of files, the most; of connections that "
        "found the accept queue full (ListenOverflows) and of failed requests the sums."
    )
    shown = table(columns, [_used(row) for row in rows], rows)
    return [Told("resources", "What the servers used", caption, shown)] if rows else []


def _client(row: dict[str, Any]) -> list[Cell]:
    """Return the line of a load generator."""
    ratio = row["server_cpu_ratio"]
    return [
        Cell(row["name"], row["version"]),
        Cell(rate(row["throughput_per_s"])),
        Cell(duration(row["server_cpu_us_per_request"])),
        Cell("-" if ratio is None else f"×{ratio:.2f}"),
        Cell(duration(row["client_cpu_us_per_request"])),
    ]


def _cross_check(run: Run) -> list[Told]:
    """Return our load generator beside others; nothing if there were none."""
    check = run.results.get("cross_check")
    if not check or not check["clients"]:
        return []
    columns = ("client", "requests", "server's CPU a request", "against ours")
    columns += ("client's CPU a request",)
    low, high = check["explained"]
    caption = (
        f"The same load on {check['server']} ({check['point']}) by each client in turn, "
        f"{amount(check['rounds'], 'round')} of {check['seconds']:g} s. What a request costs the "
        f"server may differ by a factor from {low:g} to {high:g}: requests differ in length, and "
        "slower clients let the server sleep more often."
    )
    lines = [_client(row) for row in check["clients"]]
    shown = table(columns, lines, check["clients"])
    title = "The load generator beside others"
    commands = tuple(row["command"] for row in check["clients"])
    return [Told("cross-check", title, caption, shown, commands)]


def told_tables(run: Run) -> list[Told]:
    """Return the tables of a run."""
    return _resources(run) + _cross_check(run)
