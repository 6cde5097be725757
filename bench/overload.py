"""Twice the load that saturates the overload page: stages with admission, and without.

A point of the lab's experiment `overload`, once.
"""

import sys
from dataclasses import replace

from figures import Figures, options
from points import bench

from gossamer_lab import paths
from gossamer_lab.experiments.overload import ADMISSION, OVERLOAD, TARGET_S, TWICE
from gossamer_lab.measure import Row, measure
from gossamer_lab.schedule import Step
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.server import ServerFailedError
from gossamer_lab.workshop import workshop

SATURATION_S = 6.0
TARGET, WORST = "target", "worst p90 of a sixth of the load, after its first half"
RATES = {
    "saturation": "saturation_per_s",
    "asked for": "offered_per_s",
    "accepted": "accepted_per_s",
}


def add(figures: Figures, name: str, row: Row) -> None:
    """Add what was measured of one server."""
    for kind, column in RATES.items():
        figures.add(kind, name, row[column], "a second")
    figures.add("refused", name, row["refused_share"] or 0.0, "of 1")
    figures.add("longest queue", name, row["queue_most"] or 0, "requests")
    if row["worst_p90_s"] is None:
        figures.miss(WORST, name, "none was accepted")
    else:
        figures.add(WORST, name, row["worst_p90_s"], "s")
    if name == ADMISSION:
        figures.limit(WORST, ADMISSION, (TARGET,), 1.2)


def main() -> int:
    """Measure all; 1 if a limit is not kept."""
    parser = options(__doc__ or "")
    parser.set_defaults(seconds=60.0)
    settings = parser.parse_args()
    figures = Figures()
    figures.add(WORST, TARGET, TARGET_S, "s")
    with workshop(OVERLOAD, paths.program()) as shop:
        how = bench(shop, settings.seconds)
        how = replace(how, scale=replace(how.scale, warmup_s=SATURATION_S))
        for server in our_servers(shop.program, OVERLOAD.architectures):
            if settings.only not in server.name:
                continue
            row = measure(Step(0, 1, TWICE, server.name), server, how)
            if row["failure"]:
                raise ServerFailedError(row["failure"])
            add(figures, server.name, row)
    return figures.finish(settings.json)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ServerFailedError as failure:
        sys.exit(f"overload: {failure}")
