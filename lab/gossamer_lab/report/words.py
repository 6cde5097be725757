"""The sentences and facts of the report, derived from the results."""

import math
from typing import Any


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
                f"{len(ratios)} points."
            )
    return sentences


def method(results: dict[str, Any]) -> list[str]:
    """Say how the figures came about."""
    how = results["method"]
    return [
        f"Every measurement starts a fresh server on core {how['server_core']}, warms it up for "
        f"{how['warmup_s']:g} s, and puts it under load from core {how['client_core']} for "
        f"{how['seconds']:g} s, over the loopback interface.",
        f"{how['rounds']} rounds: servers follow each other directly at each point, in random "
        f"order (seed {how['seed']}); every second round mirrors the one before it, so that a "
        "drift of the machine meets all alike.",
        "CPU time is user and system time of all processes of the server, read from "
        "/proc/PID/stat (steps of 10 ms) before and after the load, divided by all requests of "
        "the load. It includes accepting and closing the connections.",
        "Figures of a cell are geometric means over its rounds, so that their ratios are those of "
        "measurements made next to each other. A cell with errors is compared, but never the "
        "best, nor compared against.",
    ]


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
