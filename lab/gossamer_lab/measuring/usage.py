"""Resources used during a load: by the server, and by others on the cores of server and client."""

import time
from dataclasses import dataclass

from gossamer_lab.measuring.accounting import (
    CpuTime,
    accept_queue_overflows,
    core_busy_s,
    exited_children_cpu_s,
)
from gossamer_lab.measuring.cpu_limit import CpuLimiter, LoopCount
from gossamer_lab.measuring.load import Generator


@dataclass(frozen=True)
class Usage:
    """Resources used during a load."""

    cpu: CpuTime
    """CPU time of the server."""
    core_s: float
    """Busy time of the server's core: the server and anything else."""
    wall_s: float
    calibration_ns: float | None = None
    """CPU time per iteration of the calibration loop."""
    switches_per_s: float | None = None
    """Context switches of the server's threads by the kernel."""
    overflows: int | None = None
    """Accept queue overflows of the whole machine."""
    limiter_s: float = 0.0
    """CPU time of the limiter, which is always busy; 0: there is none."""
    client_core_s: float = 0.0
    """Busy time of the client's core: the client and anything else.

    0: it is the server's core, too, or one of another machine.
    """
    load_process_s: float = 0.0
    """CPU time of the load generator with what is not the load, such as its start."""

    def others_beside_client(self, client_cpu_s: float) -> float:
        """Return the share of the client's core that neither it nor its own spinning used."""
        others_s = self.client_core_s - max(client_cpu_s, self.load_process_s)
        return max(others_s, 0.0) / self.wall_s


@dataclass(frozen=True)
class Counters:
    """A snapshot of the counters."""

    cpu: CpuTime
    core_s: float
    iterations: LoopCount
    overflows: int
    clock_s: float
    limiter_s: float
    client_core_s: float
    load_process_s: float

    @classmethod
    def read(cls, cpu: CpuTime, core: int, limiter: CpuLimiter, generator: Generator) -> "Counters":
        """Read the counters of the cores of server and client.

        The limiter's own CPU time does not count as use of the core.
        """
        limiter_s, hosts = limiter.used_s(), generator.hosts
        is_apart = generator.core != core and not (hosts and hosts.cluster)
        return cls(
            cpu,
            core_busy_s(core) - limiter_s,
            limiter.iterations(),
            accept_queue_overflows(),
            time.monotonic(),
            limiter_s,
            core_busy_s(generator.core) if is_apart else 0.0,
            exited_children_cpu_s() + (hosts.cpu_s() if hosts else 0.0),
        )

    def until(self, after: "Counters", switches_per_s: float | None) -> Usage:
        """Return the resources used between this snapshot and a later one."""
        return Usage(
            after.cpu - self.cpu,
            after.core_s - self.core_s,
            after.clock_s - self.clock_s,
            after.iterations.ns_per_iteration(self.iterations),
            switches_per_s=switches_per_s,
            overflows=after.overflows - self.overflows,
            limiter_s=after.limiter_s - self.limiter_s,
            client_core_s=after.client_core_s - self.client_core_s,
            load_process_s=after.load_process_s - self.load_process_s,
        )
