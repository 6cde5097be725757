"""Describes an experiment: its claims and rules, its durations, what cannot be tested here."""

import resource
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point, Scale
from gossamer_lab.hosts.network import RELAY, refusal
from gossamer_lab.measuring import task_limit
from gossamer_lab.measuring.plan import is_measured_at, point_limit
from gossamer_lab.measuring.schedule import STEP_OVERHEAD_S, seconds_per_load
from gossamer_lab.measuring.workspace import two_cores
from gossamer_lab.servers.peers import absent_peers


def _wan_refusal(experiment: Experiment) -> str | None:
    """Return why WAN hosts cannot be emulated here, None if they can or are not needed."""
    if not any(isinstance(point, Point) and point.is_wan for point in experiment.points):
        return None
    with tempfile.TemporaryDirectory() as folder:
        return refusal(paths.programs() / RELAY, two_cores()[1], Path(folder))


def _untestable_points(experiment: Experiment) -> list[str]:
    """Return the points that exceed the limits of this machine, with the limit."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wan = _wan_refusal(experiment)
    limits = ((point.label, point_limit(point, files, wan)) for point in experiment.points)
    return [f"{label}: {limit}" for label, limit in limits if limit]


def untestable(experiment: Experiment) -> list[str]:
    """Return what of an experiment this machine cannot measure, each with the reason."""
    unbuilt = [
        f"{program.name}: {program.file} is not built"
        + (f"; it needs {program.needs}" if program.needs else "")
        for program in (*experiment.programs, *experiment.toys)
        if not (paths.programs() / program.file).is_file()
    ]
    absent = [f"{name} is not installed" for name in absent_peers(experiment.peers)]
    limited = [one.name for one in experiment.architectures or () if one.max_tasks]
    if limited and task_limit.is_permitted():
        limited = []
    unlimited = [f"{name}: the number of its threads cannot be limited" for name in limited]
    return [*absent, *unbuilt, *unlimited, *_untestable_points(experiment)]


def expected_seconds(experiment: Experiment, scale: Scale) -> float:
    """Return the expected duration of a run of all subjects, of a scale of an experiment."""
    programs = {program.name: program for program in experiment.programs}
    servers = (*(experiment.architectures or ()), *experiment.toys)
    names = [*(one.name for one in servers), *experiment.peers, *programs]
    steps = [
        (point, name)
        for point in experiment.points_of(scale)
        for name in names
        if is_measured_at(point, name, programs)
    ]
    loads = [(point, name) for point, name in steps if isinstance(point, Point)]
    minimums = [scale.load_seconds(point, 0, name) for point, name in loads]
    each_s = seconds_per_load(scale, minimums * scale.rounds)
    overhead_s = scale.warmup_s + STEP_OVERHEAD_S
    loads_s = sum(
        scale.load_seconds(point, each_s, name) + scale.ramp_up_seconds(point) + overhead_s
        for point, name in loads
    )
    return scale.rounds * (loads_s + (len(steps) - len(loads)) * scale.program_s)


def duration(seconds: float) -> str:
    """Return a duration in words."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 90 else f"about {minutes / 60:.1f} h"


def show_experiment(experiment: Experiment, console: Console) -> None:
    """Print the description."""
    document = experiment.document
    after = f", after {document.authors} {document.year}" if document else ""
    console.print(f"{experiment.name}{after}", style="bold", highlight=False)
    console.print(experiment.summary, highlight=False)
    scales = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("scale", "rounds", "duration"):
        scales.add_column(name)
    for scale in experiment.scales:
        scales.add_row(scale.name, str(scale.rounds), duration(expected_seconds(experiment, scale)))
    console.print(scales)
    if experiment.claims:
        claims = Table(box=None, padding=(0, 2, 1, 0))
        for name in ("claim", "published, our reading", "rule"):
            claims.add_column(name)
        for claim in experiment.claims:
            said = "\n".join(filter(None, (claim.published or "(ours)", claim.reading)))
            claims.add_row(claim.text, said, claim.rule)
        console.print(claims)
    missing = untestable(experiment)
    console.print("Not measured on this machine:" if missing else "All is measured here.")
    for line in missing:
        console.print(f"- {line}", highlight=False)
