"""The web server under attack by HTTP/2: the times of others, and its memory.

100 connections send a request every 4 ms, alone and beside each attack of http2_attackers.py. The
attackers share a core with them, and go second.
"""

import json
import sys
import urllib.parse
from pathlib import Path
from typing import Any

from points import BEHIND
from results import Results, options
from slow import ALONE, LARGE, OURS, SHORT, Setup, attempt, run_load

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point
from gossamer_lab.measuring import process
from gossamer_lab.measuring.accounting import tree_memory_kb
from gossamer_lab.measuring.load import LoadFailedError
from gossamer_lab.measuring.workspace import open_workspace
from gossamer_lab.servers.server import Running, serving

ATTACKS = (
    *("resets", "continuation", "settings", "ping", "empty data", "window updates", "bombs"),
    *("closed windows", "slow bodies"),
)
HELD = ("closed windows", "slow bodies")
CONNECTIONS = 200
"""That attacks of HELD have open."""
NORMAL = Point("305-keep-100", 305, 100, 0, think_ms=4)
P99_RATIO = 2.0
MEMORY_MAX = 72 << 10
"""Resident, of a connection: 64 KiB, and what the allocator cannot give to another one."""
EXPECTED = "expected"


class Memory:
    """The most memory that the server has had."""

    def __init__(self, running: Running) -> None:
        """Record the memory before the attack."""
        self.pid = running.pid
        self.before = tree_memory_kb(self.pid)
        self.most = self.before

    def tick(self) -> None:
        """Look again; called several times per second."""
        self.most = max(self.most, tree_memory_kb(self.pid))

    @property
    def growth(self) -> int:
        """How much it has grown, in bytes."""
        return (self.most - self.before) << 10


def attack_command(setup: Setup, attack: str, url: str) -> tuple[str, ...]:
    """Return the command line of the attackers."""
    script = Path(__file__).with_name("http2_attackers.py")
    port = str(urllib.parse.urlsplit(url).port)
    arguments = (attack, port, LARGE[0], f"{setup.seconds - 1:.0f}")
    return (*BEHIND, sys.executable, str(script), *arguments)


def measure_beside(setup: Setup, attack: str) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return the reports of the normal load and of the attackers, and the growth of the memory."""
    folder, core = setup.workspace.site.folder, setup.workspace.client_core
    output, errors = folder / "attack.out", folder / "attack.err"
    with serving(
        setup.server(), setup.workspace.site, setup.workspace.server_core, LARGE
    ) as running:
        run_load(setup, running, lambda: None)
        memory = Memory(running)
        argv = attack_command(setup, attack, running.url)
        with process.started(argv, core, output, errors) as child:
            report = run_load(setup, running, memory.tick)
            if child.wait(timeout=30):
                raise LoadFailedError(f"attackers: {process.stderr_tail(errors)}")
    return report, json.loads(output.read_text()), memory.growth


def measure_alone(setup: Setup) -> dict[str, Any]:
    """Return the report of the normal load."""
    with serving(
        setup.server(), setup.workspace.site, setup.workspace.server_core, LARGE
    ) as running:
        return run_load(setup, running, lambda: None)


def measure(setup: Setup, attack: str) -> None:
    """Measure the normal load without and with an attack."""
    results = setup.results
    alone = measure_alone(setup)
    report, made, growth = measure_beside(setup, attack)
    for name, found in ((ALONE, alone), (OURS, report)):
        results.add(f"{attack}: p99 of others", name, found["response_us"]["p99"], "us")
    results.add(f"{attack}: connections", OURS, made["connections"], "")
    results.add(f"{attack}: ended by the server", OURS, made["ended"], "")
    if attack in HELD:
        results.add(f"{attack}: memory", OURS, growth / CONNECTIONS, "bytes each")
        results.add(f"{attack}: memory", EXPECTED, MEMORY_MAX, "bytes each")


def set_limits(results: Results, attack: str) -> None:
    """Set the limits."""
    results.limit(f"{attack}: p99 of others", OURS, (ALONE,), P99_RATIO)
    if attack in HELD:
        results.limit(f"{attack}: memory", OURS, (EXPECTED,), 1.0)


def main() -> int:
    """Run every attack; return 1 if a limit is not met."""
    parser = options(__doc__ or "")
    parser.set_defaults(rounds=1)
    chosen = parser.parse_args()
    results = Results()
    attacks = [attack for attack in ATTACKS if chosen.only in attack]
    with open_workspace(Experiment("attacks", "", (NORMAL,), (), ()), paths.program()) as workspace:
        with (workspace.site.root / LARGE[0].lstrip("/")).open("wb") as large:
            large.truncate(LARGE[1])
        setup = Setup(workspace, results, SHORT, CONNECTIONS, NORMAL)
        for attack in attacks * chosen.rounds:
            attempt(setup, attack, 3, measure)
    for attack in attacks:
        set_limits(results, attack)
    return results.finish(chosen.json)


if __name__ == "__main__":
    sys.exit(main())
