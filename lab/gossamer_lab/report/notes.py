"""Limitations of a run's results, shown by both the table and the report.

The headline precedes the results, the notes follow them.
"""

from dataclasses import dataclass
from typing import Any

from gossamer_lab.report.plural import plural

_MAX_INTERFERENCE = 0.05
_MAX_STEAL = 0.01


@dataclass(frozen=True)
class Note:
    """A sentence; an error is something broken, rather than limited or absent."""

    text: str
    is_error: bool = False


def headline(results: dict[str, Any]) -> str | None:
    """Return what limits all results of a run, in a sentence; None if nothing does."""
    if results["method"]["scale"] == "smoke":
        return "Smoke run: it only tests that everything works; its results decide nothing."
    return None


def _cross_check_notes(check: dict[str, Any]) -> list[Note]:
    """Return the notes on the comparison with other load generators."""
    found = [Note(f"Cross-check: {warning}.") for warning in check["warnings"]]
    if check["absent"]:
        *first, last = check["absent"]
        absent = f"{', '.join(first)} and {last}" if first else last
        found.append(
            Note(f"The load generator was not checked against {absent}. To install: make peers")
        )
    return found


def _run_notes(results: dict[str, Any]) -> list[Note]:
    """Return the notes on the course of the run."""
    found = []
    if results["resumed"]:
        found.append(Note(f"Resumed at {results['resumed']} after an interruption."))
    if not results["complete"]:
        count = f"{results['measured']} of {results['planned']} measurements were made"
        found.append(Note(f"Interrupted: {count}."))
    for name, share in results["method"]["injected_overhead"].items():
        words = f"{name} was made to use {share:.0%} more CPU time"
        found.append(Note(f"Injected overhead: {words}.", is_error=True))
    if died := results["hosts_died"]:
        words = f"{plural(len(died), 'measurement')} had to be repeated: {', '.join(died)}"
        found.append(Note(f"Client hosts died during the run; {words}."))
    return found


def _machine_notes(results: dict[str, Any]) -> list[Note]:
    """Return the notes on the conditions of the measurements."""
    found = []
    if results["method"]["shared_core"]:
        words = "Only one core is available: server and load generator share it."
        found.append(Note(words))
    interference = results["interference"]
    if interference["mean"] > _MAX_INTERFERENCE:
        consequence = (
            ". Repeat the run on an idle machine"
            if interference["matters"]
            else ", on which the memory of connections does not depend"
        )
        found.append(
            Note(
                f"Interference: other processes used {interference['mean']:.0%} of the server's "
                f"core (at most {interference['max']:.0%}){consequence}."
            )
        )
    steal = results["steal"]
    if steal["mean"] > _MAX_STEAL:
        found.append(
            Note(
                f"Noisy host: steal time was {steal['mean']:.1%} of the time of both cores "
                f"(at most {steal['max']:.0%})."
            )
        )
    if results["invalid"]:
        reasons = "; ".join(
            f"{plural(n, 'time')}: {reason.removeprefix('invalid: ')}"
            for reason, n in results["invalid"].items()
        )
        count = sum(results["invalid"].values())
        found.append(Note(f"{count} of {results['measured']} measurements are invalid: {reasons}."))
    if results["cpu_limit"]["target"] is not None and not results["cpu_limit"]["is_active"]:
        words = "this kernel does not share a core between sessions as required"
        found.append(Note(f"No CPU limit: {words}. The client may have been the limit."))
    return found


def notes(results: dict[str, Any]) -> list[Note]:
    """Return the notes of a run."""
    found = _run_notes(results) + _machine_notes(results)
    found += _cross_check_notes(results.get("cross_check") or {"warnings": [], "absent": []})
    found += [
        Note(f"Skipped: {skipped['name']}: {skipped['reason']}", skipped["is_error"])
        for skipped in results["skipped"]
    ]
    if results["absent_peers"]:
        absent = ", ".join(results["absent_peers"])
        found.append(Note(f"Not installed: {absent}. To install: make peers"))
    return found
