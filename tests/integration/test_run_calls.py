"""The document of the system calls under `gossamer run` says what the table of the library says."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = {
    "CALL_EMULATED": "done by the library, at least for some arguments",
    "CALL_NONBLOCKING": "tried without waiting; the thread waits for readiness, and the call is "
    "tried again",
    "CALL_IN_POOL": "executed by a kernel thread of the pool while the thread waits",
    "CALL_MAY_WAIT": "executed by the worker, which it may block for a while",
    "CALL_PASSED": "executed by the worker; it does not wait for others",
}


def calls_in_table() -> dict[str, str]:
    """Return what becomes of each call."""
    source = (ROOT / "compat/pthread/start/calls.c").read_text()
    lines = re.findall(r"^    \[SYS_(\w+)\] = \{\"(\w+)\", \w+, (CALL_\w+)\},$", source, re.M)
    assert len(lines) == source.count("[SYS_")
    assert all(number == name for number, name, _ in lines)
    return {name: KINDS[kind] for _, name, kind in lines}


def test_the_document_lists_each_system_call_with_what_becomes_of_it() -> None:
    document = (ROOT / "docs/design/run-calls.md").read_text()
    rows = re.findall(r"^\| (.*) \| (`.*`) \|$", document, re.M)
    listed = [(name, what) for what, names in rows for name in re.findall(r"`(\w+)`", names)]
    in_table = calls_in_table()
    assert len(in_table) > 300
    assert len(listed) == len(dict(listed))
    assert dict(listed) == in_table
