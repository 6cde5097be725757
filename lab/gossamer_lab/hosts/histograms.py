"""HdrHistogram logs, as ``gossamer load`` writes them: read, added up, written again."""

from collections.abc import Iterable

from hdrh.histogram import HdrHistogram

_TAG = "Tag="
_QUANTILES = {"p50": 50.0, "p75": 75.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}


def read(log: str) -> dict[str, HdrHistogram]:
    """Return the histograms of a log by their tags; they count nanoseconds."""
    lines = [line.split(",") for line in log.splitlines() if line.startswith(_TAG)]
    return {fields[0].removeprefix(_TAG): HdrHistogram.decode(fields[-1]) for fields in lines}


def recorded(histogram: HdrHistogram) -> list[tuple[int, int]]:
    """Return the recorded values, each the maximum of those that count as equal, with their counts.

    The library's own iterator takes a third of a second for the empty places.
    """
    return [
        (histogram.get_highest_equivalent_value(histogram.get_value_from_index(place)), count)
        for place, count in enumerate(histogram.counts)
        if count
    ]


def merged(logs: Iterable[str]) -> tuple[dict[str, HdrHistogram], str]:
    """Return what logs of the same load hold together, by tags, and as a log with the first's head.

    Maxima are to three digits.
    """
    total: dict[str, HdrHistogram] = {}
    head: list[str] = []
    for log in logs:
        head = head or [line for line in log.splitlines() if not line.startswith(_TAG)]
        for tag, histogram in read(log).items():
            if tag in total:
                total[tag].add(histogram)
            else:
                total[tag] = histogram
    lines = [
        f"{_TAG}{tag},0.000,0.000,{histogram.get_max_value() / 1e6:.3f},"
        f"{histogram.encode().decode()}"
        for tag, histogram in total.items()
    ]
    return total, "\n".join([*head, *lines]) + "\n"


def quantiles_us(histogram: HdrHistogram) -> dict[str, float]:
    """Return the quantiles that reports have, in microseconds."""
    found = histogram.get_percentile_to_value_dict(list(_QUANTILES.values()))
    return {name: found.get(percent, 0) / 1000 for name, percent in _QUANTILES.items()}
