"""How often the kernel switches away from a server's threads.

Of a control group it is counted by counters of the kernel's, one a processor: what processes and
threads did that have ended since is in them, too. Elsewhere only those that live can be asked.
"""

import contextlib
import ctypes
import functools
import os
import platform
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gossamer_lab.accounting import family_switches
from gossamer_lab.cgroup import Group, fresh

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_SOFTWARE, _CONTEXT_SWITCHES = 1, 3
_OF_A_GROUP = 1 << 2
_ATTRIBUTES_SIZE = 112


def _opened(group: int, processor: int) -> int:
    """Return a counter's descriptor; less than 0: there is none to be had."""
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        return -1
    settings = struct.pack("=IIQ", _SOFTWARE, _ATTRIBUTES_SIZE, _CONTEXT_SWITCHES)
    attributes = ctypes.create_string_buffer(settings, _ATTRIBUTES_SIZE)
    libc = ctypes.CDLL(None)
    opened: int = libc.syscall(number, attributes, group, processor, -1, _OF_A_GROUP)
    return opened


@dataclass(frozen=True)
class Switches:
    """Counts them."""

    so_far: Callable[[], int]
    has_ended: bool
    """Whether those of threads and processes that have ended are in the number."""


def _sum(counters: list[int]) -> int:
    """Return what the counters say together."""
    values = (struct.unpack("=Q", os.read(counter, 8))[0] for counter in counters)
    return sum(values)


def _opened_for(group: Group) -> list[int]:
    """Return a counter for each processor, as far as there are any to be had."""
    folder = os.open(group.folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        counters = [_opened(folder, processor) for processor in range(os.cpu_count() or 0)]
    finally:
        os.close(folder)
    return [counter for counter in counters if counter >= 0]


@contextlib.contextmanager
def _counters(group: Group | None) -> Iterator[list[int]]:
    """Yield the descriptors of a group's counters; none if they are not permitted."""
    found = _opened_for(group) if group else []
    try:
        yield found if len(found) == os.cpu_count() else []
    finally:
        for counter in found:
            os.close(counter)


@contextlib.contextmanager
def counted(group: Group | None, leader: int) -> Iterator[Switches]:
    """Yield what counts them, of a group or of the processes of a leader."""
    with _counters(group) as counters:
        if counters:
            yield Switches(functools.partial(_sum, counters), has_ended=True)
        else:
            yield Switches(functools.partial(family_switches, leader), has_ended=False)


def are_permitted() -> bool:
    """Tell whether groups and counters of theirs can be had here."""
    with fresh() as group, _counters(group) as counters:
        return bool(counters)
