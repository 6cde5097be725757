"""What `gossamer cc --report` writes of a program, and functions that must not wait."""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from installation import PROGRAM, ROOT, needs_plugin

SOURCES = ROOT / "tests/compiler/report"

pytestmark = needs_plugin


def compile_program(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Compile a program to `folder/program`."""
    command = [PROGRAM, "cc", "-O1", "-g", "-w", "-pthread", *options, source]
    return subprocess.run(
        [*command, "-o", folder / "program"],
        capture_output=True,
        text=True,
        cwd=SOURCES,
        check=False,
    )


def line_of(text: str) -> str:
    """Return the place of the line of the server that begins with a text."""
    lines = (SOURCES / "server.c").read_text().splitlines()
    number = next(i for i, line in enumerate(lines, 1) if line.strip().startswith(text))
    return f"server.c:{number}"


@dataclass(frozen=True)
class Reports:
    """The reports of one compilation, and its program."""

    program: Path
    text: str
    json: dict[str, Any]

    def thread(self, entry: str) -> dict[str, Any]:
        """Return what is said of a thread."""
        return next(one for one in self.json["threads"] if one["entry"] == entry)

    def function(self, name: str) -> dict[str, Any]:
        """Return what is said of a function."""
        return next(one for one in self.json["converted"] if one["name"] == name)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    folder = tmp_path_factory.mktemp("reports")
    names = ("r.txt", "r.json")
    done = compile_program(folder, "server.c", *(f"--report={folder / name}" for name in names))
    assert (done.returncode, done.stderr) == (0, "")
    text, data = ((folder / name).read_text() for name in names)
    return Reports(folder / "program", text, json.loads(data))


def test_a_program_with_a_report_does_what_it_does_without(reports: Reports) -> None:
    done = subprocess.run([reports.program], capture_output=True, text=True, check=True)
    assert done.stdout == "depth 3\n1 line: hello\n"


def test_all_functions_that_start_as_threads_are_named(reports: Reports) -> None:
    names = [one["entry"] for one in reports.json["threads"]]
    assert sorted(names) == ["compute", "main", "serve", "walk"]


def test_the_bound_of_a_thread_is_the_sum_of_its_frames(reports: Reports) -> None:
    serve = reports.thread("serve")
    assert [one["function"] for one in serve["frames"]] == ["serve", "receive"]
    assert serve["bytes"] == sum(one["bytes"] for one in serve["frames"])
    assert 512 < serve["bytes"] < 700
    assert serve["unknown"] == []


def test_recursion_and_calls_on_stacks_have_no_bound_and_are_named(reports: Reports) -> None:
    gaps = ["a call on a stack in summarise", "the recursion of descend"]
    assert reports.thread("walk")["unknown"] == gaps
    assert f"; and {gaps[0]}; and {gaps[1]}\n" in reports.text


def test_a_thread_that_never_waits_needs_nothing(reports: Reports) -> None:
    compute = reports.thread("compute")
    assert (compute["waits"], compute["bytes"]) == (False, 0)
    assert f"compute ({line_of('static void *compute')}): never waits\n" in reports.text


def test_each_function_has_the_calls_by_which_it_waits(reports: Reports) -> None:
    assert reports.function("receive")["chain"] == "receive -> read"
    assert reports.function("walk")["chain"] == "walk -> descend -> usleep"
    chain = "summarise -> say -> pthread_mutex_lock"
    assert reports.function("summarise")["chain"] == chain
    assert [one["callee"] for one in reports.function("receive")["waits"]] == ["read"]
    assert reports.function("receive")["waits"][0]["place"] == line_of("ssize_t got = read")


def test_large_variables_that_live_across_a_wait_are_named_with_advice(reports: Reports) -> None:
    (line,) = reports.function("serve")["objects"]
    assert (line["name"], line["bytes"]) == ("line", 512)
    assert "its address is known outside of the function" in line["advice"]
    assert f"serve: line ({line_of('char line[512]')}), 512 bytes; " in reports.text


def test_small_variables_get_no_advice(reports: Reports) -> None:
    objects = reports.function("walk")["objects"]
    assert objects
    assert all("advice" not in one for one in objects)


def test_what_runs_on_a_stack_is_named_with_the_reason(reports: Reports) -> None:
    reasons = {one["name"]: one["reason"] for one in reports.json["on_stacks"]}
    first = "it is the first thread, which has one"
    assert reasons == {"say": "it is variadic", "main": first}
    assert "say -> pthread_mutex_lock\n    on a stack, because it is variadic\n" in reports.text
    assert f"main ({line_of('int main')}): runs on a stack, because {first}\n" in reports.text


def test_what_functions_need_of_stacks_is_a_bound_or_has_a_reason(reports: Reports) -> None:
    say, main = (
        {one["name"]: one for one in reports.json["on_stacks"]}[k] for k in ("say", "main")
    )
    # The C library puts what it converts on the stack, up to three times, of up to 64 KiB each.
    assert 3 << 16 < say["stack_bytes"] < 1 << 18
    assert say["stack_unknown"] == ""
    assert f"    it needs at most {say['stack_bytes']} bytes of stack\n" in reports.text
    assert main["stack_bytes"] is None
    assert main["stack_unknown"] == "main calls socketpair, whose need is not known"


def test_what_threads_need_of_the_stack_of_their_worker(reports: Reports) -> None:
    serve, walk = reports.thread("serve"), reports.thread("walk")
    assert 1024 < serve["worker_stack_bytes"] < 4096
    assert serve["worker_stack_unknown"] == ""
    assert f"of which it needs at most {serve['worker_stack_bytes']} bytes\n" in reports.text
    assert walk["worker_stack_bytes"] is None
    reason = "the recursion of descend"
    assert walk["worker_stack_unknown"] == reason
    assert f"of which it needs an unknown number of bytes ({reason})\n" in reports.text
    assert "@{" not in reports.text + json.dumps(reports.json)


def test_the_sections_of_a_lock_are_named_with_their_threads(reports: Reports) -> None:
    (lock,) = reports.json["locks"]
    sections = {one["function"]: one["threads"] for one in lock["sections"]}
    assert (lock["name"], sections) == ("lock", {"count": ["serve"], "say": ["walk"]})
    assert "its 2 sections exclude each other" in reports.text


def test_data_that_is_read_after_its_writer_was_joined_is_not_warned_of(reports: Reports) -> None:
    assert reports.json["races"] == []
    assert "without a common lock" not in reports.text


WAYS = {
    "WAITS": ("update calls enter", "enter calls pthread_mutex_lock, which may wait"),
    "INLINE": (
        "update calls enter_inline",
        "enter_inline calls pthread_mutex_lock, which may wait",
    ),
    "BY_POINTER": ("update calls a function through a pointer, which may be enter",),
    "FOREIGN": ("update calls qsort, which may call a function that waits",),
    "LOOP": ("update calls a loop that waits for memory to change",),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_atomic_function_that_may_wait_is_an_error_with_the_calls(
    tmp_path: Path, way: str
) -> None:
    done = compile_program(tmp_path, "atomic.c", f"-D{way}")
    assert done.returncode != 0
    assert "the atomic function update (atomic.c:" in done.stderr
    for line in WAYS[way]:
        assert re.search(rf"\n    atomic.c:\d+: {line}\n", done.stderr), done.stderr
    assert "Make the call before or after update, or remove GS_ATOMIC." in done.stderr
    assert not (tmp_path / "program").exists()


def test_an_atomic_function_that_does_not_wait_is_compiled(tmp_path: Path) -> None:
    done = compile_program(tmp_path, "atomic.c")
    assert (done.returncode, done.stderr) == (0, "")
    subprocess.run([tmp_path / "program"], check=True)
