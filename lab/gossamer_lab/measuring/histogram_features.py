"""Features of a load's histograms that documents describe: retransmitted SYNs, and a hump."""

from pathlib import Path

from hdrh.histogram import HdrHistogram

from gossamer_lab.hosts.histograms import read, recorded

SYN_RETRY_S = 1.0
"""Initial retransmission timeout of a SYN in today's Linux; the second one is twice as long."""
SECOND_SYN_RETRY_S = 3 * SYN_RETRY_S
"""Time at which the SYN is retransmitted once more."""
_AFTER_S = 0.3
"""Length of the interval of retried connections."""
_BEFORE_S = 0.5
"""Length of the interval before a retransmission that retries are compared with."""
_STEPS_PER_DOUBLING = 4
"""Resolution of the search for a hump."""


def _counts(histogram: HdrHistogram) -> list[tuple[float, int]]:
    """Return the recorded times in seconds, with their numbers."""
    return [(time_ns / 1e9, count) for time_ns, count in recorded(histogram)]


def retry_ratio(connect: HdrHistogram, at_s: float) -> float:
    """Return the ratio of connections just after a retransmission to those just before.

    One is added to both counts, since often there are none.
    """
    before, after = 1, 1
    for time_s, count in _counts(connect):
        if at_s - _BEFORE_S <= time_s < at_s:
            before += count
        elif at_s <= time_s < at_s + _AFTER_S:
            after += count
    return after / before


def hump(response: HdrHistogram) -> tuple[float, float] | None:
    """Return the most frequent response time in seconds, and the share within a factor of two.

    Times are compared on a logarithmic scale, in quarters of doublings. None if there are none.
    """
    counts = _counts(response)
    total = sum(count for _, count in counts)
    if not total:
        return None

    def near(middle_s: float, width: float) -> int:
        return sum(n for t, n in counts if middle_s / width <= t < middle_s * width)

    step = 2 ** (1 / _STEPS_PER_DOUBLING)
    first, last = max(counts[0][0], 1e-7), counts[-1][0]
    middles = [first]
    while middles[-1] < last:
        middles.append(middles[-1] * step)
    mode_s = max(middles, key=lambda middle: near(middle, step))
    return mode_s, near(mode_s, 2.0) / total


def features(log: Path) -> dict[str, float | None]:
    """Return the features of a load's histograms, as the raw data contain them."""
    found = read(log.read_text()) if log.exists() else {}
    connect, response = found.get("connect"), found.get("response")
    shape = hump(response) if response else None
    return {
        "syn_retry_ratio": retry_ratio(connect, SYN_RETRY_S) if connect else None,
        "second_syn_retry_ratio": retry_ratio(connect, SECOND_SYN_RETRY_S) if connect else None,
        "hump_us": shape[0] * 1e6 if shape else None,
        "hump_share": shape[1] if shape else None,
    }
