"""Bursts of connections that succeed at their second try: the kernel dropped their first packet."""

from pathlib import Path

from gossamer_lab.hosts.histograms import read

RETRY_S = 1.0
"""After which today's Linux sends the first packet of a connection again."""
_LATE = 1.3
"""A second try is done so long after the first at the most, in times of RETRY_S."""
_EARLY = 0.5
"""From here to RETRY_S is what a burst stands out from, the same unit."""


def connect_burst(log: Path) -> float | None:
    """Return how many times as many connections took a second try as took nearly as long.

    One is added to both, since often there are none. None if the log tells nothing.
    """
    histogram = read(log.read_text()).get("connect") if log.exists() else None
    if histogram is None:
        return None
    first, second = 1, 1
    for step in histogram.get_recorded_iterator():
        tries = step.value_iterated_to / 1e9 / RETRY_S
        if _EARLY <= tries < 1:
            first += step.count_at_value_iterated_to
        elif 1 <= tries < _LATE:
            second += step.count_at_value_iterated_to
    return second / first
