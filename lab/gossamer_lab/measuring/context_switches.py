"""Counts the context switches of a server's threads.

In a control group they are counted by perf events of the kernel, one per processor, which include
processes and threads that have exited. Without one, only those of living threads can be read.
Switches that others force, such as the CPU limit, are subtracted, as far as threads still live.
"""

import contextlib
import ctypes
import os
import platform
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gossamer_lab.measuring.accounting import tree_switches
from gossamer_lab.measuring.cgroup import Group, new_group

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_SOFTWARE, _CONTEXT_SWITCHES = 1, 3
_FLAG_PID_CGROUP = 1 << 2
_ATTRIBUTES_SIZE = 112


def _open_counter(group: int, processor: int) -> int:
    """Return a counter's descriptor; negative if it cannot be opened."""
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        return -1
    settings = struct.pack("=IIQ", _SOFTWARE, _ATTRIBUTES_SIZE, _CONTEXT_SWITCHES)
    attributes = ctypes.create_string_buffer(settings, _ATTRIBUTES_SIZE)
    libc = ctypes.CDLL(None)
    descriptor: int = libc.syscall(number, attributes, group, processor, -1, _FLAG_PID_CGROUP)
    return descriptor


@dataclass(frozen=True)
class Switches:
    """A counter of context switches."""

    total: Callable[[], int]
    includes_exited: bool
    """Whether threads and processes that have exited are included."""


def _sum(counters: list[int]) -> int:
    """Return the sum of the counters."""
    values = (struct.unpack("=Q", os.read(counter, 8))[0] for counter in counters)
    return sum(values)


def _open_group_counters(group: Group) -> list[int]:
    """Return a counter for each processor, as far as they can be opened."""
    folder = os.open(group.folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        counters = [_open_counter(folder, processor) for processor in range(os.cpu_count() or 0)]
    finally:
        os.close(folder)
    return [counter for counter in counters if counter >= 0]


@contextlib.contextmanager
def _counters(group: Group | None) -> Iterator[list[int]]:
    """Yield the descriptors of a group's counters; none if they are not permitted."""
    found = _open_group_counters(group) if group else []
    try:
        yield found if len(found) == os.cpu_count() else []
    finally:
        for counter in found:
            os.close(counter)


@contextlib.contextmanager
def context_switch_counter(group: Group | None, leader: int) -> Iterator[Switches]:
    """Yield a counter for a group, or for the processes of a leader."""
    with _counters(group) as counters:
        if counters:
            yield Switches(lambda: _sum(counters) - tree_switches(leader).forced, True)
        else:
            yield Switches(lambda: tree_switches(leader).voluntary, False)


def are_permitted() -> bool:
    """Return whether groups and their counters are permitted here."""
    with new_group() as group, _counters(group) as counters:
        return bool(counters)
