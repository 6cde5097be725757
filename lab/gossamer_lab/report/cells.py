"""Computes the cells of the table from raw rows: means over rounds, ratios, marks."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

SATURATED = 0.9
"""A server busy for a smaller share of its core waited for the load generator."""

_MEANS = {
    "cpu_us": "server_cpu_us_per_request",
    "throughput_per_s": "throughput_per_s",
    "p50_us": "response_p50_us",
    "p90_us": "response_p90_us",
    "p99_us": "response_p99_us",
    "p999_us": "response_p999_us",
    "server_busy": "server_busy",
}


@dataclass(frozen=True)
class Cell:
    """One server at one point: geometric means over all rounds, so ratios are those of pairs."""

    point: str
    server: str
    ours: bool
    cpu_us: float | None
    throughput_per_s: float | None
    p50_us: float | None
    p90_us: float | None
    p99_us: float | None
    p999_us: float | None
    server_busy: float | None
    rounds: int
    failures: int
    errors: int
    ratio: float | None = None
    """CPU time per request, relative to the best peer at this point."""
    is_best: bool = False
    """Whether this cell has the minimum CPU time per request of all cells without errors."""

    @property
    def is_error_free(self) -> bool:
        """Whether all requests of all rounds succeeded."""
        return self.failures == 0 and self.errors == 0 and self.cpu_us is not None

    @property
    def is_client_bound(self) -> bool:
        """Whether the load generator limited the throughput, not the server."""
        return self.server_busy is not None and self.server_busy < SATURATED

    def as_dict(self) -> dict[str, Any]:
        """Return all fields and marks."""
        return asdict(self) | {
            "client_bound": self.is_client_bound,
            "error_free": self.is_error_free,
        }


def _geometric_mean(column: str) -> pl.Expr:
    """Return the geometric mean of the positive values, null if there are none."""
    values = pl.col(column).cast(pl.Float64)
    return values.filter(values > 0).log().mean().exp()


def _cheapest(cells: Sequence[Cell]) -> Cell | None:
    """Return the cell with the minimum CPU time per request, of those without errors."""
    error_free = [cell for cell in cells if cell.is_error_free]
    return min(error_free, key=lambda cell: cell.cpu_us or 0.0) if error_free else None


def _compared(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells of one point with their ratios and marks."""
    best = _cheapest(cells)
    peer = _cheapest([cell for cell in cells if not cell.ours])
    return [
        Cell(
            **asdict(cell)
            | {
                "ratio": cell.cpu_us / peer.cpu_us
                if cell.cpu_us and peer and peer.cpu_us
                else None,
                "is_best": cell is best,
            }
        )
        for cell in cells
    ]


def cells(raw: pl.DataFrame, points: Sequence[str], servers: Sequence[str]) -> list[Cell]:
    """Aggregate the raw rows: a cell for each point and server, in the given orders.

    Combinations that were not measured have no cell.
    """
    grouped = raw.group_by("point", "server").agg(
        pl.col("ours").first(),
        *(_geometric_mean(column).alias(name) for name, column in _MEANS.items()),
        pl.len().alias("rounds"),
        pl.col("failure").is_not_null().sum().alias("failures"),
        pl.col("errors").sum(),
    )
    found = {(row["point"], row["server"]): Cell(**row) for row in grouped.iter_rows(named=True)}
    result: list[Cell] = []
    for point in points:
        result += _compared(
            [found[point, server] for server in servers if (point, server) in found]
        )
    return result


def mean_and_max(raw: pl.DataFrame, share: str) -> dict[str, float]:
    """Return the mean and maximum of a column; 0 if it has no values."""
    if share not in raw.columns or raw[share].drop_nulls().is_empty():
        return {"mean": 0.0, "max": 0.0}
    shares = raw[share].drop_nulls()
    return {"mean": float(shares.mean()), "max": float(shares.max())}
