"""Twice the saturating load, on stages with and without admission control.

This is one point of the lab's experiment `overload`, measured once.
"""

import sys
from dataclasses import replace

from points import bench
from results import Results, options

from gossamer_lab import paths
from gossamer_lab.experiments.overload import ADMISSION, OVERLOAD, TARGET_S, TWICE
from gossamer_lab.measuring.measure import Row, measure
from gossamer_lab.measuring.schedule import Step
from gossamer_lab.measuring.workspace import open_workspace
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.server import ServerFailedError

SATURATION_S = 6.0
TARGET, WORST = "target", "worst p90 of a sixth of the load, in its second half"
RATES = {
    "saturation": "saturation_per_s",
    "offered": "offered_per_s",
    "accepted": "accepted_per_s",
}


def add(results: Results, name: str, row: Row) -> None:
    """Add the results of one server."""
    for kind, column in RATES.items():
        results.add(kind, name, row[column], "per second")
    results.add("refused", name, row["rejected_share"] or 0.0, "share")
    results.add("longest queue", name, row["max_queue"] or 0, "requests")
    if row["worst_p90_s"] is None:
        results.skip(WORST, name, "no request was accepted")
    else:
        results.add(WORST, name, row["worst_p90_s"], "s")
    if name == ADMISSION:
        results.limit(WORST, ADMISSION, (TARGET,), 1.2)


def main() -> int:
    """Measure all; return 1 if a limit is not met."""
    parser = options(__doc__ or "")
    parser.set_defaults(seconds=60.0)
    settings = parser.parse_args()
    results = Results()
    results.add(WORST, TARGET, TARGET_S, "s")
    with open_workspace(OVERLOAD, paths.program()) as workspace:
        setup = bench(workspace, settings.seconds)
        setup = replace(setup, scale=replace(setup.scale, warmup_s=SATURATION_S))
        for server in our_servers(workspace.program, OVERLOAD.architectures):
            if settings.only not in server.name:
                continue
            row = measure(Step(0, 1, TWICE, server.name), server, setup)
            if row["failure"]:
                raise ServerFailedError(row["failure"])
            add(results, server.name, row)
    return results.finish(settings.json)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ServerFailedError as failure:
        sys.exit(f"overload: {failure}")
