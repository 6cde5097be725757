"""Programs of `gossamer cc` under sanitizers, in gdb and in dumps."""

import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from installation import PROGRAM, ROOT, needs_plugin

SOURCES = ROOT / "tests/compiler/debugging"

pytestmark = needs_plugin


def compile_program(name: str, folder: Path, *options: str) -> Path:
    """Compile a program of SOURCES, which must succeed without a word."""
    command = [PROGRAM, "cc", "-g", *options, "-pthread", SOURCES / name, "-o", folder / "program"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "program"


@pytest.fixture(scope="module")
def parked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what compiles parked.c at a level, once for all tests that look at it."""

    @cache
    def compile_at(level: str) -> Path:
        return compile_program("parked.c", tmp_path_factory.mktemp("parked"), level)

    return compile_at


def line_of(name: str, text: str) -> int:
    """Return the number of the line with the text."""
    lines = (SOURCES / name).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that may fail."""
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=120
    )


# ---- Sanitizers ----

FAULTS = {
    "address": {"heap": "heap-buffer-overflow", "frame": "buffer-overflow", "return": "use-after"},
    "undefined": {"overflow": "signed integer overflow"},
}


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("sanitizer", FAULTS)
def test_a_sanitizer_finds_faults_behind_a_wait_and_no_others(
    sanitizer: str, level: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.txt"
    program = compile_program(
        "faults.c", tmp_path, level, f"-fsanitize={sanitizer}", "--report", str(report)
    )
    reasons = "because (it is variadic|it is the first thread|only functions on stacks call it)"
    said = re.sub(reasons, "", report.read_text())
    assert "stack, because" not in said
    done = run(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "103\n", "")
    for fault, said in FAULTS[sanitizer].items():
        done = run(program, fault)
        assert said in done.stderr
        line = line_of("faults.c", f"fault: {fault}")
        assert re.search(rf"faults\.c:{line}\b", done.stderr), done.stderr


def test_a_jump_out_of_a_handler_frees_what_the_wait_has_kept(tmp_path: Path) -> None:
    source = "../programs/interrupted_stacks.c"
    done = run(compile_program(source, tmp_path, "-O1", "-w", "-fsanitize=address"))
    assert (done.returncode, done.stderr) == (0, "")


def test_loops_that_wait_let_others_run_with_sanitizers(tmp_path: Path) -> None:
    program = compile_program("checked.c", tmp_path, "-O1", "-fsanitize=address,undefined")
    done = run(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "over 1\n", "")


@pytest.mark.parametrize("sanitizer", ["memory", "thread"])
def test_a_sanitizer_that_the_runtime_does_not_know_is_refused(
    sanitizer: str, tmp_path: Path
) -> None:
    command = [PROGRAM, "cc", f"-fsanitize={sanitizer}", SOURCES / "faults.c"]
    command += ["-o", tmp_path / "program"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "-fsanitize=: " in done.stderr
    assert not (tmp_path / "program").exists()


# ---- In gdb ----

HAS_GDB = pytest.mark.skipif(not shutil.which("gdb"), reason="there is no gdb")


def gdb(program: Path, *commands: str) -> str:
    """Run the program in gdb, with the script; return what gdb writes."""
    script = ROOT / "tools/gdb/gossamer.py"
    all_commands = ["set debuginfod enabled off", f"source {script}", *commands]
    options = [word for command in all_commands for word in ("-ex", command)]
    done = subprocess.run(
        ["gdb", "-q", "-nx", "-batch", *options, program],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout + done.stderr


@HAS_GDB
def test_gdb_shows_lines_and_variables_behind_a_wait(parked: Callable[[str], Path]) -> None:
    program = parked("-O0")
    here, end = line_of("parked.c", "/* here */"), line_of("parked.c", "sum + line")
    said = gdb(
        program,
        f"break parked.c:{here}",
        "run",
        "backtrace 1",
        "info args",
        "info locals",
        "delete",
        f"break parked.c:{end}",
        "continue",
        "info locals",
    )
    assert re.search(rf"#0 +get \(client=0x\w+, want=7\) at .*parked\.c:{here}", said), said
    assert "byte = 97 'a'" in said
    assert re.search(r'^client = {number = 41, name = 0x\w+ "first"}$', said, re.M), said
    assert re.search(r'^line = "a line", ', said, re.M), said
    assert re.search(r"^sum = \d+$", said, re.M), said


@HAS_GDB
@pytest.mark.parametrize("level", ["-O0", "-O1"])
def test_the_script_shows_the_calls_of_a_parked_thread_with_variables(
    level: str, parked: Callable[[str], Path]
) -> None:
    program = parked(level)
    said = gdb(program, "break stop_here", "run", "gossamer threads", "gossamer bt all")
    assert re.search(r'^ +\d+ +0x\w+ +"" +compiled, waits for read at descriptor \d+$', said, re.M)
    waits, calls = line_of("parked.c", "/* waits */"), line_of("parked.c", "/* calls */")
    shown = said[said.index("#0  read\n") :]
    assert re.match(rf"#0  read\n#1  get \(\) at .*parked\.c:{waits}\n", shown), said
    assert re.search(rf"^#2  work \(\) at .*parked\.c:{calls}\n", shown, re.M), said
    assert re.search(r"^ +want = 7$", shown, re.M), said
    assert re.search(r"^ +sum = 5$", shown, re.M), said
    assert re.search(r'^ +client = {number = 41, name = 0x\w+ "first"}$', shown, re.M), said
    if level == "-O0":  # otherwise what is needed of it is a constant
        assert re.search(r'^ +line = "a line", ', shown, re.M), said


@HAS_GDB
def test_gdb_shows_variables_of_a_long_function_behind_a_wait(tmp_path: Path) -> None:
    program = compile_program("long.c", tmp_path, "-O0")
    symbols = subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True)
    sizes = {
        line.split()[-1]: int(line.split()[1], 16)
        for line in symbols.stdout.splitlines()
        if len(line.split()) == 4
    }
    assert sizes["compute"] > 8 * sizes["compute.resume"], "it has its body twice"
    here, waits = line_of("long.c", "/* here */"), line_of("long.c", "/* waits */")
    said = gdb(
        program,
        "break stop_here",
        "run",
        "gossamer bt all",
        f"break long.c:{here}",
        "continue",
        "backtrace 1",
        "info args",
        "info locals",
        "print *client",
    )
    parked, _, running = said.partition("Breakpoint 2, ")
    running = running[running.index("#0 ") :]
    assert re.search(rf"^#0  read\n#1  compute \(\) at .*long\.c:{waits}$", parked, re.M), said
    assert re.search(rf"^#0 +compute \(client=0x\w+, number=42\) at .*:{here}$", running, re.M), (
        said
    )
    for shown in (parked, running):
        assert re.search(r"^ *sum = 99$", shown, re.M), said
        assert re.search(r"^ *number = 42$", shown, re.M), said
        assert re.search(r'^ *line = "a line\\000"$', shown, re.M), said
    assert re.search(r"^byte = 97 'a'$", running, re.M), said
    assert re.search(r'^\$1 = {number = 41, name = 0x\w+ "first"}$', running, re.M), said


@HAS_GDB
def test_gdb_shows_memory_in_optimised_code_behind_a_wait(tmp_path: Path) -> None:
    program = compile_program("joined.c", tmp_path, "-O2")
    said = gdb(program, "break look", "run", "up", "info locals")
    assert re.search(r'^line = "a", ', said, re.M), said
    assert re.search(r"^sum = 41$", said, re.M), said


@HAS_GDB
def test_gdb_shows_an_inlined_function_in_optimised_code_behind_a_wait(tmp_path: Path) -> None:
    program = compile_program("kept.c", tmp_path, "-O2")
    here = line_of("kept.c", "/* here */")
    said = gdb(program, f"break kept.c:{here}", "run", "info args", "info locals", "info frame")
    assert re.search(r'^bytes = 0x\w+ "a"$', said, re.M), said
    assert re.search(r"^client = 0x\w+$", said, re.M), said
    assert re.search(r"^base = 5$", said, re.M), said
    assert re.search(r'^name = "none", ', said, re.M), said
    assert re.search(r"^step = 7$", said, re.M), said


@HAS_GDB
def test_a_dump_names_compiled_threads_and_their_calls(parked: Callable[[str], Path]) -> None:
    program = parked("-O2")
    said = gdb(program, "break stop_here", "run", "call (void)gs_threads_dump(2)")
    waits, calls = line_of("parked.c", "/* waits */"), line_of("parked.c", "/* calls */")
    assert re.search(
        r"^1 compiled threads: wait\n"
        r'  thread 0x\w+ "" at descriptor \d+\n'
        rf"      read\n      get \(\S*parked\.c:{waits}\)\n      work \(\S*parked\.c:{calls}\)\n",
        said,
        re.M,
    ), said


def test_functions_that_resume_have_names_for_perf(parked: Callable[[str], Path]) -> None:
    program = parked("-O0")
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    assert {"get", "get.resume", "work.resume"} <= {
        line.split()[-1] for line in symbols.splitlines()
    }


def test_a_signal_has_the_program_write_a_dump(tmp_path: Path) -> None:
    program = compile_program("reader.c", tmp_path, "-O1")
    with subprocess.Popen(
        [program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"GOSSAMER_DUMP_SIGNAL": str(int(signal.SIGUSR1))},
    ) as reader:
        assert reader.stdout
        assert reader.stderr
        assert reader.stdout.readline() == "ready\n"
        reader.send_signal(signal.SIGUSR1)
        waits = line_of("reader.c", "/* waits */")
        said = ""
        while f"reader.c:{waits})\n" not in said:
            line = reader.stderr.readline()
            assert line, said
            said += line
        reader.communicate("end", timeout=60)
    assert reader.returncode == 0
    assert "1 compiled threads: wait\n" in said
    assert "      read\n      work (" in said
