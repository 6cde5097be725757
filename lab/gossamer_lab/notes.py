"""What limits the meaning of a run's figures: said by the table and by the report alike."""

from dataclasses import dataclass
from typing import Any

from gossamer_lab.amount import amount
from gossamer_lab.rounds import PRECISE, has_as_many_rounds_as_it_takes

_DISTURBED = 0.05
_STOLEN = 0.01


@dataclass(frozen=True)
class Note:
    """A sentence; a fault is something broken, rather than limited or absent."""

    text: str
    is_fault: bool = False


def _of_cross_check(check: dict[str, Any]) -> list[Note]:
    """Return what is to be said of the load generator beside others."""
    found = [Note(f"Cross-check: {warning}.") for warning in check["warnings"]]
    if check["absent"]:
        absent = " and ".join(check["absent"])
        found.append(Note(f"The load was not checked against {absent}. To add them: make peers"))
    return found


def _of_run(results: dict[str, Any]) -> list[Note]:
    """Return what is to be said of how the run went."""
    found = []
    if results["resumed"]:
        found.append(Note(f"Resumed at {results['resumed']} after an interruption."))
    if not results["complete"]:
        count = f"{results['measured']} of {results['planned']} measurements were made"
        found.append(Note(f"Interrupted: {count}."))
    for name, share in results["method"]["handicaps"].items():
        words = f"{name} was made to need {share:.0%} more CPU time than it does"
        found.append(Note(f"Handicap: {words}.", is_fault=True))
    if died := results["hosts_died"]:
        words = f"{amount(len(died), 'measurement')} had to be repeated: {', '.join(died)}"
        found.append(Note(f"Client hosts died in mid-run, and {words}."))
    return found


def _of_machine(results: dict[str, Any]) -> list[Note]:
    """Return what is to be said of the conditions under which it was measured."""
    found = []
    if results["method"]["shared_core"]:
        words = "This machine offers one core: throughput and times are those of both sides."
        found.append(Note(words))
    lost = results["lost"]
    if lost["mean"] > _DISTURBED:
        found.append(
            Note(
                f"Disturbed: other work took {lost['mean']:.0%} of the server's core "
                f"(at worst {lost['max']:.0%}). Repeat this on a quiet machine."
            )
        )
    stolen = results["stolen"]
    if stolen["mean"] > _STOLEN:
        found.append(
            Note(
                f"Restless: the host of this virtual machine took {stolen['mean']:.1%} of the time "
                f"of its cores (at worst {stolen['max']:.0%})."
            )
        )
    if has_as_many_rounds_as_it_takes(results["method"]) and (results["precision"] or 0) > PRECISE:
        words = f"{results['precision']:.1%} in the median subject, not {PRECISE:.1%}"
        found.append(Note(f"Costs are known less well than they should be: to {words}."))
    if results["void"]:
        reasons = "; ".join(
            f"{amount(n, 'time')}: {reason}" for reason, n in results["void"].items()
        )
        count = sum(results["void"].values())
        found.append(
            Note(f"{count} of {results['measured']} measurements do not count: {reasons}.")
        )
    if results["brake"]["wanted"] is not None and not results["brake"]["is_on"]:
        words = "this kernel does not share a core between sessions as asked"
        found.append(Note(f"The server was not slowed down: {words}. Its client may be the limit."))
    return found


def notes(results: dict[str, Any]) -> list[Note]:
    """Return the notes of a run."""
    found = _of_run(results) + _of_machine(results)
    found += _of_cross_check(results.get("cross_check") or {"warnings": [], "absent": []})
    found += [
        Note(f"Left out: {left_out['name']}: {left_out['reason']}", left_out["is_fault"])
        for left_out in results["left_out"]
    ]
    if results["absent_peers"]:
        absent = ", ".join(results["absent_peers"])
        found.append(Note(f"Not on this machine: {absent}. To add them: make peers"))
    return found
