"""Limits the share of its core that a server gets, so that the server is the bottleneck.

In the published experiment the server's clock frequency was lowered to the same end. Here a
competing process takes the rest of the core. The kernel divides the core between sessions by their
niceness (autogroups), so a server of many processes gets no more than a single-threaded one.

The competing process runs a calibration loop (calibration_loop.py), which measures how fast the
core is at the time.
"""

import contextlib
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gossamer_lab.measuring import process
from gossamer_lab.measuring.accounting import tree_cpu
from gossamer_lab.measuring.calibration_loop import SIZE, map_counters

_NICE_STEP = 1.25
"""Ratio of the scheduling weights of two sessions whose niceness differs by one."""
_SPIN = (sys.executable, "-S", "-c", "while True: pass")
_LOOP = Path(__file__).with_name("calibration_loop.py")
_TEST_S = 0.4


def niceness(share: float) -> int:
    """Return the niceness that leaves a session this share of a core beside one of niceness 0."""
    return round(math.log((1 - share) / share) / math.log(_NICE_STEP))


@dataclass(frozen=True)
class LoopCount:
    """Iterations of the calibration loop."""

    count: int
    cpu_ns: int
    """CPU time of these iterations."""

    def ns_per_iteration(self, before: "LoopCount") -> float | None:
        """Return the CPU time per iteration since an earlier count; None if there was none."""
        count = self.count - before.count
        return (self.cpu_ns - before.cpu_ns) / count if count > 0 else None


class CpuLimiter:
    """A running limiter, or none, which uses no CPU time."""

    def __init__(self, pid: int | None = None, counters: memoryview | None = None) -> None:
        """Keep the process id, and the counters that it shares."""
        self._pid = pid
        self._counters = counters

    def used_s(self) -> float:
        """Return the CPU time used so far; exact to a microsecond if the kernel tells."""
        if not self._pid:
            return 0.0
        try:
            return int(Path(f"/proc/{self._pid}/schedstat").read_text().split()[0]) / 1e9
        except (OSError, IndexError):
            return tree_cpu(self._pid).total_s

    def iterations(self) -> LoopCount:
        """Return the number of iterations, up to the loop's last reading of the clock."""
        return (
            LoopCount(self._counters[0], self._counters[1]) if self._counters else LoopCount(0, 0)
        )


def _set_share(pid: int, share: float) -> None:
    """Set the scheduling weight of a process's session; OSError if the kernel does not allow it."""
    Path(f"/proc/{pid}/autogroup").write_text(str(niceness(share)))


def measured_share(share: float, core: int, folder: Path) -> float | None:
    """Return the share that a busy process actually gets; None if sessions do not share cores."""
    paths = (folder / "limiter.out", folder / "limiter.err")
    with (
        process.started(_SPIN, core, *paths) as limited,
        process.started(_SPIN, core, *paths) as other,
    ):
        try:
            _set_share(limited.pid, share)
        except OSError:
            return None
        before = [tree_cpu(child.pid).total_s for child in (limited, other)]
        time.sleep(_TEST_S)
        after = [tree_cpu(child.pid).total_s for child in (limited, other)]
    used = [end - begin for begin, end in zip(before, after, strict=True)]
    return used[0] / sum(used) if sum(used) else None


@contextlib.contextmanager
def applied(server: int, share: float | None, core: int, folder: Path) -> Iterator[CpuLimiter]:
    """Limit a server to a share of its core during a ``with`` block; None: no limit."""
    if share is None:
        yield CpuLimiter()
        return
    _set_share(server, share)
    file = folder / "cpu_limit.iterations"
    file.write_bytes(bytes(SIZE))
    argv = (sys.executable, "-S", str(_LOOP), str(file))
    with process.started(argv, core, folder / "cpu_limit.out", folder / "cpu_limit.err") as child:
        yield CpuLimiter(child.pid, map_counters(file))
