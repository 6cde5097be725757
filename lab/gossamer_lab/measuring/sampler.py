"""Samples, halfway through a load, what the kernel no longer reports at its end."""

import time
from dataclasses import replace
from typing import Any

from gossamer_lab.measuring.accounting import (
    Threads,
    tree_descriptors,
    tree_memory_kb,
    tree_threads,
)
from gossamer_lab.measuring.context_switches import Switches
from gossamer_lab.measuring.load import Generator, Load

SAMPLED = (
    *("server_memory_kb", "server_memory_per_connection", "server_connections"),
    *("server_kernel_threads", "server_whole_memory_kb"),
)
"""Columns of a row that are sampled."""


class MidLoadSampler:
    """Samples once, halfway through a load, what the kernel no longer reports at its end."""

    def __init__(self, pid: int, switches: Switches, generator: Generator, load: Load) -> None:
        """Count context switches over the whole load if the counter includes exited threads."""
        self.pid, self.switches = pid, switches
        self.generator = replace(generator, tick=self._tick)
        self.tick = generator.tick
        self.before, self.began = switches.total(), time.monotonic()
        self.due = self.began + load.ramp_up_s + load.seconds / 2
        self.switches_per_s: float | None = None
        self.memory_kb: int | None = None
        self.idle_descriptors = tree_descriptors(pid)
        self.connections: int | None = None
        self.threads: Threads | None = None

    def _tick(self) -> None:
        self.tick()
        if self.memory_kb is None and time.monotonic() >= self.due:
            if not self.switches.includes_exited:
                self._count(time.monotonic() - self.began)
            self._sample()

    def _sample(self) -> None:
        self.connections = max(tree_descriptors(self.pid) - self.idle_descriptors, 0)
        self.threads = tree_threads(self.pid)
        self.memory_kb = tree_memory_kb(self.pid)

    def _count(self, seconds: float) -> None:
        self.switches_per_s = max(self.switches.total() - self.before, 0) / seconds

    def memory_since(self, idle_kb: int, connections: int) -> dict[str, Any]:
        """Return the server's memory, and how many bytes it has grown for each connection.

        Nothing if the load ended before the sample: that of an idle server would be another value.
        """
        if self.memory_kb is None or self.threads is None:
            return dict.fromkeys(SAMPLED)
        grown = (self.memory_kb - idle_kb) * 1024 / connections
        return {
            "server_memory_kb": self.memory_kb,
            "server_memory_per_connection": grown,
            "server_connections": self.connections,
            "server_kernel_threads": self.threads.number,
            "server_whole_memory_kb": self.threads.memory_kb,
        }

    def run(self, load: Load) -> dict[str, Any]:
        """Apply the load to the server; return the report."""
        report = self.generator.run(load)
        if self.switches.includes_exited:
            self._count(report["seconds"] + load.ramp_up_s)
        return report
