"""What a run will do: which servers and points take part, in which order, for how long."""

from dataclasses import dataclass

from gossamer_lab.experiment import Experiment, Point, Scale
from gossamer_lab.schedule import STEP_OVERHEAD_S, Step, interleaved, seconds_each
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.peers import absent_peers, present_peers
from gossamer_lab.servers.server import Launch, Server, ServerFailedError, serving
from gossamer_lab.workshop import Workshop

_DESCRIPTORS_SPARED = 64


@dataclass(frozen=True)
class LeftOut:
    """A server or a point that is not measured, and why."""

    name: str
    reason: str
    is_fault: bool
    """Whether something is broken, rather than limited or absent."""


@dataclass(frozen=True)
class Plan:
    """All that is decided before the first measurement."""

    experiment: Experiment
    scale: Scale
    points: tuple[Point, ...]
    servers: dict[str, tuple[Server, Launch]]
    """By name, in the order of the tables; the launch is that of the trial."""
    left_out: tuple[LeftOut, ...]
    absent_peers: tuple[str, ...]
    steps: tuple[Step, ...]
    seconds: float
    seed: int

    @property
    def step_s(self) -> float:
        """How long one measurement takes, all included."""
        return self.seconds + self.scale.warmup_s + STEP_OVERHEAD_S


def _on_trial(
    candidates: list[Server], shop: Workshop, trial: Point
) -> tuple[dict[str, tuple[Server, Launch]], list[LeftOut]]:
    """Start each server once and have it answer; part those that cannot from those that can."""
    good: dict[str, tuple[Server, Launch]] = {}
    bad: list[LeftOut] = []
    for server in candidates:
        try:
            page = (trial.path, trial.size)
            with serving(server, shop.site, shop.server_core, page) as running:
                launch = running.launch
            good[server.name] = (server, launch)
        except ServerFailedError as error:
            bad.append(LeftOut(server.name, str(error), is_fault=True))
    return good, bad


def make_plan(experiment: Experiment, scale: Scale, shop: Workshop, seed: int) -> Plan:
    """Find the servers, try each, and set the order and length of the measurements.

    ServerFailedError if the program has no architecture to offer.
    """
    candidates = our_servers(shop.program) + present_peers(experiment.peers)
    good, bad = _on_trial(candidates, shop, experiment.points[0])
    most = shop.site.open_files - _DESCRIPTORS_SPARED
    points = tuple(point for point in experiment.points if point.connections <= most)
    too_large = [
        LeftOut(point.label, f"{most + _DESCRIPTORS_SPARED} open files allowed", is_fault=False)
        for point in experiment.points
        if point.connections > most
    ]
    steps = interleaved(points, list(good), scale.rounds, seed)
    return Plan(
        experiment=experiment,
        scale=scale,
        points=points,
        servers=good,
        left_out=tuple(bad + too_large),
        absent_peers=absent_peers(experiment.peers),
        steps=tuple(steps),
        seconds=seconds_each(scale, len(steps)),
        seed=seed,
    )
