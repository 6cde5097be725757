"""The sentences and facts of the report, derived from the results."""

import math
from collections import Counter
from typing import Any

from gossamer_lab.amount import amount
from gossamer_lab.rounds import PRECISE, has_as_many_rounds_as_it_takes
from gossamer_lab.verdict import FAILS, HOLDS, UNTESTED


def _span(values: list[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def headlines(results: dict[str, Any]) -> list[str]:
    """Say in a sentence for each of our servers how it stands against the best peer."""
    sentences = []
    for server in results["servers"]:
        ratios = [
            cell["ratio"]
            for cell in results["cells"]
            if cell["server"] == server["name"] and cell["ratio"] is not None and cell["clean"]
        ]
        if server["ours"] and ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            below = sum(ratio < 1 for ratio in ratios)
            sentences.append(
                f"{server['name']} needs {_span(ratios)} times the CPU time a request of the best "
                f"peer, {mean:.2f} in the geometric mean; less than every peer at {below} of "
                f"{amount(len(ratios), 'point')}."
            )
    return sentences


def tally(results: dict[str, Any]) -> str:
    """Say how many claims hold."""
    counts = Counter(verdict["verdict"] for verdict in results["verdicts"])
    parts = [f"{word}: {counts[word]}" for word in (HOLDS, FAILS, UNTESTED)]
    return f"{amount(len(results['verdicts']), 'claim')}; {', '.join(parts)}."


_COUNTERS = {
    True: "a control group of its own (steps of 1 µs)",
    False: "/proc/PID/stat (steps of 10 ms)",
}


def lengths(seconds: list[float]) -> str:
    """Say how long loads last, the shortest and the longest."""
    shortest, longest = f"{min(seconds):g}", f"{max(seconds):g}"
    return f"{shortest} s" if shortest == longest else f"{shortest} to {longest} s"


def _of_loads(results: dict[str, Any]) -> list[str]:
    """Say how servers were measured."""
    how = results["method"]
    seconds = [point["seconds"] for point in results["points"] if "seconds" in point]
    sentences = [
        f"Every measurement of a server starts a fresh one on core {how['server_core']}, warms it "
        f"up for {how['warmup_s']:g} s, and puts it under load from core {how['client_core']} for "
        f"{lengths(seconds or [how['seconds']])}, over the loopback interface.",
        "CPU time is user and system time of all processes of the server, read from "
        f"{_COUNTERS[how['exact_cpu']]} before and after the load, divided by all requests of "
        "the load. It includes accepting and closing the connections.",
    ]
    if slow := how.get("slow"):
        longer = ", ".join(f"{name} ({times:g} times as long)" for name, times in slow.items())
        sentences.append(
            f"Loads that need a certain time last longer with who answers slowly: {longer}."
        )
    if how["drop"]:
        sentences.append(
            f"The first and the last {how['drop']} answers of each load are left out of its times."
        )
    if results["brake"]["is_on"]:
        sentences.append(
            "A brake, a process that always does the same work, shares the server's core, so that "
            "the server and not its client is the limit: a busy server gets "
            f"{results['brake']['found']:.0%} of the core. What the same work takes tells how fast "
            "the core is meanwhile."
        )
    return sentences


def _of_programs(results: dict[str, Any]) -> list[str]:
    """Say how programs were measured."""
    how = results["method"]
    priority = "with" if how["realtime"] else "without"
    return [
        f"Programs run alone on core {how['client_core']}, {priority} real-time priority, "
        f"{how['repeats']} times for each measurement; the least of each figure counts. They "
        "measure themselves."
    ]


def method(results: dict[str, Any]) -> list[str]:
    """Say how the figures came about."""
    how = results["method"]
    sentences = _of_loads(results) if results["has_loads"] else []
    sentences += _of_programs(results) if results["has_programs"] else []
    if has_as_many_rounds_as_it_takes(how):
        sentences.append(
            f"As many rounds, up to {how['most_rounds']}, as it takes to know what a request costs "
            f"to {PRECISE:.1%}, the standard error of the median subject in the mean of its points."
        )
    sentences.append(
        f"{amount(how['rounds'], 'round')}: subjects follow each other directly at each point, in "
        f"random order (seed {how['seed']}); every second round mirrors the one before it, so that "
        "a drift of the machine meets all alike."
    )
    if results["cells"]:
        sentences.append(
            "Figures of a cell are geometric means over its rounds, so that their ratios are those "
            "of measurements made next to each other. A cell with errors is compared, but never "
            "the best, nor compared against."
        )
    else:
        sentences.append(
            "A round is one value of each figure; means over rounds are geometric. Intervals are "
            "over rounds: Student's distribution below eight of them, the bootstrap of Student's "
            "t from there; on the logarithm of ratios, and on Fisher's z of correlations. Void "
            "measurements take no part."
        )
    return sentences


def facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the machine's description as names and values."""
    machine = results["machine"]
    source = machine["source"]
    virtual = " (virtual machine)" if machine["virtual"] else ""
    state = {True: ", with changes", False: ", clean", None: ""}[source["dirty"]]
    found = [
        ("processor", machine["processor"] + virtual),
        ("cores", f"{machine['cores']}, allowed: {machine['cores_allowed']}"),
        ("frequency governor", machine["governor"] or "not shown"),
        ("memory", machine["memory"]),
        ("kernel", machine["kernel"]),
        ("system", machine["system"]),
        ("load average at start", ", ".join(f"{load:.2f}" for load in machine["load_average"])),
        ("commit", (source["commit"] or "unknown") + state),
        ("program, SHA-256", source["program_sha256"]),
    ]
    found += [(f"limit: {name}", value) for name, value in machine["limits"].items()]
    found += list(machine["sysctls"].items())
    return [(name, value or "unknown") for name, value in found]
