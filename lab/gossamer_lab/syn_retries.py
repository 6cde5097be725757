"""Detects connections that succeed only after the kernel retransmitted their SYN."""

from pathlib import Path

from gossamer_lab.hosts.histograms import read

SYN_RETRY_S = 1.0
"""Initial retransmission timeout of a SYN in today's Linux."""
_RETRY_END = 1.3
"""End of the interval of retried connections, in units of SYN_RETRY_S."""
_BASELINE_START = 0.5
"""Start of the interval before the retransmission that retries are compared with, same unit."""


def syn_retry_ratio(log: Path) -> float | None:
    """Return the ratio of connections after one retransmission to those nearly as late without.

    One is added to both counts, since often there are none. None if the log has no connect times.
    """
    histogram = read(log.read_text()).get("connect") if log.exists() else None
    if histogram is None:
        return None
    first, second = 1, 1
    for step in histogram.get_recorded_iterator():
        tries = step.value_iterated_to / 1e9 / SYN_RETRY_S
        if _BASELINE_START <= tries < 1:
            first += step.count_at_value_iterated_to
        elif 1 <= tries < _RETRY_END:
            second += step.count_at_value_iterated_to
    return second / first
