"""CPU time and memory of a server's processes, against programs that measure their own."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gossamer_lab.measuring import accounting, process
from gossamer_lab.measuring.accounting import (
    CpuTime,
    core_busy_s,
    steal_s,
    tree_cpu,
    tree_memory_kb,
    tree_pids,
    tree_threads,
)

_BURN = """
import sys, time
def burn(seconds):
    while time.process_time() < seconds:
        sum(range(1000))
"""
_TOLERANCE_S = 0.05
"""The kernel's counters advance in steps of 10 ms, separately for each process."""


def burning(program: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start a program that prints "done" and then waits to be killed."""
    code = _BURN + program + "\nprint('done', flush=True)\ntime.sleep(60)"
    return process.start((sys.executable, "-c", code), 0, folder / "out", folder / "err")


def await_done(child: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until the program has used its CPU time."""
    while child.poll() is None and "done" not in (folder / "out").read_text():
        time.sleep(0.005)
    assert child.poll() is None, (folder / "err").read_text()


def cpu_of(program: str, folder: Path) -> CpuTime:
    """Return the CPU time of a program once it has printed "done"."""
    child = burning(program, folder)
    try:
        await_done(child, folder)
        return tree_cpu(child.pid)
    finally:
        process.stop(child)


def test_time_of_one_process_is_what_it_measures_itself(tmp_path: Path) -> None:
    assert abs(cpu_of("burn(0.4)", tmp_path).total_s - 0.4) < _TOLERANCE_S


def test_living_children_and_those_waited_for_are_included(tmp_path: Path) -> None:
    program = """
import os
for waited_for in (True, False):
    child = os.fork()
    if not child:
        burn(0.3 + time.process_time())
        if waited_for:
            os._exit(0)
        print('done', flush=True)
        time.sleep(60)
    if waited_for:
        os.waitpid(child, 0)
time.sleep(60)
"""
    assert 0.6 <= cpu_of(program, tmp_path).total_s + 2 * _TOLERANCE_S < 0.6 + 6 * _TOLERANCE_S


def test_memory_excludes_files_and_counts_shared_pages_once(
    tmp_path: Path,
) -> None:
    size = 32 << 20
    (tmp_path / "file").write_bytes(b"x" * size)
    program = f"""
import mmap, os
shared = bytearray({size})
file = mmap.mmap(os.open({str(tmp_path / "file")!r}, os.O_RDONLY), 0, access=mmap.ACCESS_READ)
seen = sum(file[at] for at in range(0, {size}, 4096))
if not os.fork():
    own = bytearray({size})
    print('done', flush=True)
    time.sleep(60)
time.sleep(60)
"""
    child = burning(program, tmp_path)
    try:
        await_done(child, tmp_path)
        assert 2 * size <= tree_memory_kb(child.pid) * 1024 < 2 * size + (24 << 20)
    finally:
        process.stop(child)


def test_time_of_all_threads_is_included(tmp_path: Path) -> None:
    program = """
import threading
threads = [threading.Thread(target=burn, args=(0.3,)) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    # time.process_time covers all threads: 0.3 s in total.
    assert abs(cpu_of(program, tmp_path).total_s - 0.3) < _TOLERANCE_S + 0.03


def test_user_and_system_time_are_separate(tmp_path: Path) -> None:
    used = cpu_of("import os\nwhile time.process_time() < 0.4: os.stat('/')", tmp_path)
    assert used.system_s > 0.05
    assert abs(used.total_s - 0.4) < _TOLERANCE_S


def test_cpu_times_are_subtracted_by_component() -> None:
    assert CpuTime(3.0, 1.5) - CpuTime(1.0, 1.0) == CpuTime(2.0, 0.5)


def test_a_process_tree_includes_orphans_of_its_session_and_no_others(tmp_path: Path) -> None:
    program = "import os\nif not os.fork():\n    os.fork(); time.sleep(60)\n"
    child = burning(program, tmp_path)
    stranger = burning("", tmp_path)
    try:
        await_done(child, tmp_path)
        while len(tree_pids(child.pid)) < 3:
            pass
        child.kill()
        child.wait()
        orphans = tree_pids(child.pid)
        assert len(orphans) == 2
        assert stranger.pid not in orphans
    finally:
        process.stop(child)
        process.stop(stranger)
    assert tree_pids(child.pid) == []


def test_a_core_is_busy_while_a_process_burns_it(tmp_path: Path) -> None:
    before = core_busy_s(0)
    used = cpu_of("burn(0.4)", tmp_path)
    assert core_busy_s(0) - before > used.total_s - 2 * _TOLERANCE_S
    with pytest.raises(OSError, match="no core 9999"):
        core_busy_s(9999)


def test_steal_time_is_that_of_the_given_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = (
        "cpu  9 9 9 9 9 9 9 999 9 9",
        "cpu0 1 2 3 4 5 6 7 150 0 0",
        "cpu1 1 2 3 4 5 6 7 30 0 0",
    )
    stat = tmp_path / "stat"
    stat.write_text("\n".join((*cores, "intr 17 1", "")))
    monkeypatch.setattr(accounting, "_CORES", stat)
    second = os.sysconf("SC_CLK_TCK")
    assert steal_s({0}) == pytest.approx(150 / second)
    assert steal_s({0, 1}) == pytest.approx(180 / second)


def test_memory_with_kernel_threads_includes_their_stacks(tmp_path: Path) -> None:
    program = """
import threading
threading.stack_size(64 << 10)
end = threading.Event()
for _ in range(50):
    threading.Thread(target=end.wait, daemon=True).start()
"""
    child = burning(program, tmp_path)
    try:
        await_done(child, tmp_path)
        found = tree_threads(child.pid)
        assert found.number == 51
        of_kernel_kb = found.number * accounting.KERNEL_STACK_KB
        assert found.memory_kb > tree_memory_kb(child.pid) + of_kernel_kb
    finally:
        process.stop(child)
    assert tree_threads(child.pid).number == 0
