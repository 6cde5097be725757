"""The sentences and facts of the report, derived from the results."""

import math
from collections import Counter
from typing import Any

from gossamer_lab.claims.verdict import FAILS, HOLDS, INCONCLUSIVE
from gossamer_lab.report.plural import plural


def _span(values: list[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def peer_comparison(results: dict[str, Any]) -> list[str]:
    """Compare each of our servers with the best peer, in a sentence each."""
    sentences = []
    for server in results["servers"]:
        ratios = [
            cell["ratio"]
            for cell in results["cells"]
            if cell["server"] == server["name"] and cell["ratio"] is not None and cell["error_free"]
        ]
        if server["ours"] and ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            below = sum(ratio < 1 for ratio in ratios)
            sentences.append(
                f"{server['name']} needs {_span(ratios)} times the CPU time per request of the "
                f"best peer, {mean:.2f} in the geometric mean; less than every peer at {below} of "
                f"{plural(len(ratios), 'point')}."
            )
    return sentences


def verdict_counts(results: dict[str, Any]) -> str:
    """Return the number of claims by verdict, in words."""
    counts = Counter(verdict["verdict"] for verdict in results["verdicts"])
    parts = [f"{word}: {counts[word]}" for word in (HOLDS, FAILS, INCONCLUSIVE)]
    return f"{plural(len(results['verdicts']), 'claim')}; {', '.join(parts)}."


_COUNTERS = {
    True: "a control group of its own (resolution 1 µs)",
    False: "/proc/PID/stat (resolution 10 ms)",
}


def duration_range(seconds: list[float]) -> str:
    """Return the minimum and maximum duration of loads, in words."""
    shortest, longest = f"{min(seconds):g}", f"{max(seconds):g}"
    return f"{shortest} s" if shortest == longest else f"{shortest} to {longest} s"


def _of_loads(results: dict[str, Any]) -> list[str]:
    """Describe how servers were measured."""
    how = results["method"]
    seconds = [point["seconds"] for point in results["points"] if "seconds" in point]
    sentences = [
        f"Every measurement starts a new server on core {how['server_core']}, warms it up for "
        f"{how['warmup_s']:g} s, and applies a load from core {how['client_core']} for "
        f"{duration_range(seconds or [how['seconds']])}, over the loopback interface.",
        "CPU time is user and system time of all processes of the server, read from "
        f"{_COUNTERS[how['exact_cpu']]} before and after the load, divided by the number of "
        "requests. It includes accepting and closing the connections.",
    ]
    if slow := how.get("slow_servers"):
        longer = ", ".join(f"{name} ({times:g} times as long)" for name, times in slow.items())
        sentences.append(f"Loads with a minimum duration last longer for slow servers: {longer}.")
    if how["drop"]:
        sentences.append(f"The times of a load exclude its first and last {how['drop']} responses.")
    if results["cpu_limit"]["is_active"]:
        sentences.append(
            "The server is limited to "
            f"{results['cpu_limit']['measured']:.0%} of its core, so that the server and not its "
            "client is the bottleneck: a calibration loop, a process that repeats a fixed amount "
            "of work, uses the rest. Its CPU time per iteration measures the speed of the core."
        )
    return sentences


def _of_programs(results: dict[str, Any]) -> list[str]:
    """Describe how programs were measured."""
    how = results["method"]
    priority = "with" if how["realtime"] else "without"
    return [
        f"Programs run alone on core {how['client_core']}, {priority} real-time priority, "
        f"{how['repeats']} times for each measurement, of which the minimum counts. They measure "
        "themselves."
    ]


def method(results: dict[str, Any]) -> list[str]:
    """Describe the method of the run."""
    how = results["method"]
    sentences = _of_loads(results) if results["has_loads"] else []
    sentences += _of_programs(results) if results["has_programs"] else []
    sentences.append(
        f"{plural(how['rounds'], 'round')}: the subjects of a point are measured directly one "
        f"after another, in random order (seed {how['seed']}); every second round mirrors the "
        "previous one, so that drift of the machine affects all subjects equally."
    )
    if results["cells"]:
        sentences.append(
            "Values of a cell are geometric means over its rounds, so that their ratios are those "
            "of consecutive measurements. A cell with errors has a ratio, but is neither the best "
            "nor the reference."
        )
    else:
        sentences.append(
            "A round gives one value of each quantity; means over rounds are geometric. Confidence "
            "intervals (95 %) are over rounds: by Student's t distribution for fewer than eight, "
            "by the bootstrap-t from eight on; on the logarithm of ratios. Correlations and other "
            "shapes of curves are those of the means over rounds, with intervals by the jackknife. "
            "A round without all points of a quantity has no value of it. The number of rounds "
            "was fixed before the run."
        )
    return sentences


def memory_size(meminfo: str | None) -> str:
    """Return a size of /proc/meminfo, which counts units of 1024 bytes and calls them kB."""
    if meminfo is None:
        return "unknown"
    kib = int(meminfo.split()[0])
    return f"{kib / 2**20:.1f} GiB" if kib >= 2**20 else f"{kib / 2**10:.0f} MiB"


def facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the machine's description as names and values."""
    machine = results["machine"]
    source = machine["source"]
    virtual = " (virtual machine)" if machine["virtual"] else ""
    state = {True: ", modified", False: ", unmodified", None: ""}[source["dirty"]]
    found = [
        ("processor", machine["processor"] + virtual),
        ("cores", f"{machine['cores']}, allowed: {machine['cores_allowed']}"),
        ("frequency governor", machine["governor"] or "unknown"),
        ("memory", memory_size(machine["memory"])),
        ("kernel", machine["kernel"]),
        ("system", machine["system"]),
        ("load average at start", ", ".join(f"{load:.2f}" for load in machine["load_average"])),
        ("commit", (source["commit"] or "unknown") + state),
        ("program, SHA-256", source["program_sha256"]),
    ]
    found += [(f"limit: {name}", value) for name, value in machine["limits"].items()]
    found += list(machine["sysctls"].items())
    return [(name, value or "unknown") for name, value in found]
