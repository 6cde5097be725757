"""Tables without a chart: resources used by the servers, and the cross-check of load generators."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from gossamer_lab.report.data_tables import Cell, DataTable, table
from gossamer_lab.report.plural import plural
from gossamer_lab.report.table import duration, rate
from gossamer_lab.store import Run

_RESOURCES = {
    "measurements": pl.len(),
    "invalid": pl.col("invalid").is_not_null().sum(),
    "server_cpu_us_per_request": pl.col("server_cpu_us_per_request").median(),
    "server_busy": pl.col("server_busy").median(),
    "client_busy": pl.col("client_busy").median(),
    "server_switches_per_s": pl.col("server_switches_per_s").median(),
    "server_memory_kb": pl.col("server_memory_kb").max(),
    "accept_queue_overflows": pl.col("accept_queue_overflows").sum(),
    "errors": pl.col("errors").sum(),
}


@dataclass(frozen=True)
class ReportTable:
    """A table with its title and caption."""

    key: str
    title: str
    caption: str
    table: DataTable
    commands: tuple[str, ...] = ()
    """The command lines that produced it."""


def _count(value: float | None) -> Cell:
    return Cell("-" if value is None else f"{value:,.0f}")


def _share(value: float | None) -> Cell:
    return Cell("-" if value is None else f"{value:.0%}")


def _resource_line(row: dict[str, Any]) -> list[Cell]:
    """Return the line of a server."""
    memory = row["server_memory_kb"]
    invalid = f"{row['invalid']} invalid" if row["invalid"] else ""
    return [
        Cell(row["server"]),
        Cell(str(row["measurements"]), invalid),
        Cell(duration(row["server_cpu_us_per_request"])),
        _share(row["server_busy"]),
        _share(row["client_busy"]),
        _count(row["server_switches_per_s"]),
        Cell("-" if memory is None else f"{memory / 1024:,.1f} MiB"),
        _count(row["accept_queue_overflows"]),
        _count(row["errors"]),
    ]


def _resources(run: Run) -> list[ReportTable]:
    """Return the resources that each server used; nothing if there are no servers."""
    if not set(_RESOURCES) - {"measurements"} <= set(run.raw.columns):
        return []
    columns_used = [
        expression.alias(name) if name in {"measurements", "invalid"} else expression
        for name, expression in _RESOURCES.items()
    ]
    grouped = (
        run.raw.filter(pl.col("server_busy").is_not_null()).group_by("server").agg(columns_used)
    )
    found = {row["server"]: row for row in grouped.to_dicts()}
    names = [server["name"] for server in run.results["servers"]]
    rows = [found[name] for name in names if name in found]
    columns = ("server", "measurements", "CPU per request", "server busy", "client busy")
    columns += ("switches per second", "memory", "accept queue overflows", "errors")
    caption = (
        "Over all loads: medians; the maximum of memory (anonymous and shared); sums of accept "
        "queue overflows (ListenOverflows) and of failed requests."
    )
    shown = table(columns, [_resource_line(row) for row in rows], rows)
    return (
        [ReportTable("resources", "Resources used by the servers", caption, shown)] if rows else []
    )


def _times_ours(ratio: float | None) -> str:
    """Return a ratio to our load generator."""
    return "-" if ratio is None else f"×{ratio:.2f}"


def _client(row: dict[str, Any]) -> list[Cell]:
    """Return the line of a load generator."""
    return [
        Cell(row["name"], row["version"]),
        Cell(row["point"], f"{row['seconds']} s"),
        Cell(rate(row["throughput_per_s"])),
        Cell(duration(row["server_cpu_us_per_request"]), _times_ours(row["server_cpu_ratio"])),
        Cell(duration(row["client_cpu_us_per_request"])),
        Cell(duration(row["mean_us"]), _times_ours(row["mean_ratio"])),
        Cell(_times_ours(row["median_ratio"])),
    ]


def _cross_check(run: Run) -> list[ReportTable]:
    """Return the cross-check of load generators; nothing if there was none."""
    check = run.results.get("cross_check")
    if not check or not check["clients"]:
        return []
    columns = ("client", "load", "requests", "server CPU per request", "client CPU per request")
    columns += ("mean time", "median, relative to ours")
    low, high = check["expected_ratio"]
    least, most = check["expected_time_ratio"]
    caption = (
        f"The same load on {check['server']} by each client in turn, "
        f"{plural(check['rounds'], 'round')}. With persistent "
        "connections the server's CPU time per request is expected to differ by a factor from "
        f"{low:g} to {high:g}: requests differ in length, and slower clients let the server sleep "
        "more often. With a connection for each request a CPU limit makes the server the "
        f"bottleneck, and times are expected to differ by a factor from {least:g} to {most:g}; "
        "ab's and ours include the connect, wrk's are compared with ours without it."
    )
    lines = [_client(row) for row in check["clients"]]
    shown = table(columns, lines, check["clients"])
    title = "Cross-check of the load generator"
    commands = tuple(row["command"] for row in check["clients"])
    return [ReportTable("cross-check", title, caption, shown, commands)]


def report_tables(run: Run) -> list[ReportTable]:
    """Return the tables of a run."""
    return _resources(run) + _cross_check(run)
