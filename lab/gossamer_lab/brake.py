"""A brake: takes most of the server's core, so that the server is the limit and not its client.

The document's server had its clock turned down to the same end. The kernel shares the core between
sessions by their niceness (autogroups), so that a server of many processes gets no more than one
of a single thread.

What takes the core is a metronome (metronome.py), which tells how fast the core is at the time.
"""

import contextlib
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gossamer_lab import process
from gossamer_lab.accounting import family_cpu
from gossamer_lab.metronome import SIZE, told_in

_NICE_STEP = 1.25
"""The weight of a session against one that is nicer by one."""
_SPIN = (sys.executable, "-S", "-c", "while True: pass")
_METRONOME = Path(__file__).with_name("metronome.py")
_TRIAL_S = 0.4


def niceness(share: float) -> int:
    """Return the niceness that leaves a session such a share of a core beside one of niceness 0."""
    return round(math.log((1 - share) / share) / math.log(_NICE_STEP))


@dataclass(frozen=True)
class Beats:
    """How often a metronome has beaten."""

    count: int
    cpu_ns: int
    """That they took."""

    def each_ns(self, before: "Beats") -> float | None:
        """Return what a beat took since then; None if there was none."""
        count = self.count - before.count
        return (self.cpu_ns - before.cpu_ns) / count if count > 0 else None


class Brake:
    """One that is put on, or none: then it uses nothing."""

    def __init__(self, pid: int | None = None, told: memoryview | None = None) -> None:
        """Know the process, and what it tells of its beats."""
        self._pid = pid
        self._told = told

    def used_s(self) -> float:
        """Return the CPU time that it has used so far."""
        return family_cpu(self._pid).total_s if self._pid else 0.0

    def beats(self) -> Beats:
        """Return how often it has beaten, up to its last look at the clock."""
        return Beats(self._told[0], self._told[1]) if self._told else Beats(0, 0)


def _make_nicer(pid: int, share: float) -> None:
    """Give the session of a process its weight; OSError where that is not possible."""
    Path(f"/proc/{pid}/autogroup").write_text(str(niceness(share)))


def trial(share: float, core: int, folder: Path) -> float | None:
    """Return what share a busy process really gets; None where the kernel cannot share cores so."""
    paths = (folder / "brake.out", folder / "brake.err")
    with (
        process.started(_SPIN, core, *paths) as braked,
        process.started(_SPIN, core, *paths) as other,
    ):
        try:
            _make_nicer(braked.pid, share)
        except OSError:
            return None
        before = [family_cpu(child.pid).total_s for child in (braked, other)]
        time.sleep(_TRIAL_S)
        after = [family_cpu(child.pid).total_s for child in (braked, other)]
    used = [end - begin for begin, end in zip(before, after, strict=True)]
    return used[0] / sum(used) if sum(used) else None


@contextlib.contextmanager
def put_on(server: int, share: float | None, core: int, folder: Path) -> Iterator[Brake]:
    """Leave a server such a share of its core for the length of a ``with`` block; None: all."""
    if share is None:
        yield Brake()
        return
    _make_nicer(server, share)
    counts = folder / "brake.beats"
    counts.write_bytes(bytes(SIZE))
    argv = (sys.executable, "-S", str(_METRONOME), str(counts))
    with process.started(argv, core, folder / "brake.out", folder / "brake.err") as child:
        yield Brake(child.pid, told_in(counts))
