"""Builds the tests in each way, and runs them."""

import filecmp
import hashlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, product
from pathlib import Path
from threading import Event

from mutation.mutants import ROOT, Mutant, files

MODULES = ("base", "loop", "thread")
PLACE = ROOT / "build/mutants"
TREE = PLACE / "tree"
KNOWN = PLACE / "known.json"
BUILT = ("CMakeLists.txt", "cmake/", "include/", "src/", *(f"tests/{name}" for name in MODULES))
AT_ONCE = 3
# The programs of the quickest tests are built and run first: most mutants are found by them.
FIRST = 12
HANGS = "does not end"
NEVER = Event()
# What a test, an assertion or a sanitizer says of a failure.
TOLD = re.compile(
    r"^.*(not true|, expected|Assertion|deadlock:|SUMMARY|malloc|DEADLYSIGNAL).*$", re.MULTILINE
)


def output_of(*command: object) -> str:
    """Return what a command prints, which must succeed."""
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def copy_tree() -> str:
    """Make the copy equal to the tree, and return what tells its sources from others.

    What is equal keeps its time: it is not built again.
    """
    listed = output_of("git", "ls-files", "-z").split("\0")
    names = {name for name in listed if (ROOT / name).is_file()}
    for copy in TREE.rglob("*"):
        if copy.is_file() and copy.relative_to(TREE).as_posix() not in names:
            copy.unlink()
    for name in names:
        copy = TREE / name
        if not copy.exists() or not filecmp.cmp(ROOT / name, copy, shallow=False):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy)
    sources = hashlib.sha256()
    for name in sorted(name for name in names if name.startswith(BUILT)):
        sources.update(name.encode() + (TREE / name).read_bytes())
    return sources.hexdigest()


@dataclass(frozen=True)
class Test:
    """What ctest runs by this name."""

    name: str
    command: list[str]
    environment: dict[str, str]
    max_s: float


def tests_of(listing: str) -> dict[str, Test]:
    """Read a list of ctest's."""
    tests = {}
    for entry in json.loads(listing)["tests"]:
        name = entry["name"]
        if "command" not in entry:
            sys.exit(f"mutate: the program of {name} was not built")
        properties = {one["name"]: one["value"] for one in entry["properties"]}
        environment = dict(one.split("=", 1) for one in properties.get("ENVIRONMENT", []))
        tests[name] = Test(name, entry["command"], environment, properties["TIMEOUT"])
    return tests


def lines_of(lcov: str) -> dict[tuple[str, int], bool]:
    """Read a report of coverage: whether a line was run, for each line that is code."""
    file, lines = "", {}
    for word, _, rest in (row.partition(":") for row in lcov.splitlines()):
        if word == "SF":
            file = rest.rpartition("tree/")[2]
        elif word == "DA":
            number, count = rest.split(",")[:2]
            lines[file, int(number)] = count != "0"
    return lines


def ended(running: subprocess.Popen[bytes], end: float, stop: Event) -> int | None:
    """Wait for a process, and return its status; kill it at the end, or if it shall stop."""
    while not stop.is_set() and time.monotonic() < end:
        with suppress(subprocess.TimeoutExpired):
            return running.wait(0.2)
    os.killpg(running.pid, signal.SIGKILL)
    return None


class Stage:
    """A way to build the tests and to run them, and what is known of them in the unchanged tree."""

    def __init__(self, name: str, seeds: tuple[int, ...], compiler: str, *options: str) -> None:
        """Name it. The options are CMake's."""
        self.name, self.seeds, self.place = name, seeds, PLACE / name
        self.configure = ["cmake", "-G", "Ninja", "-S", TREE, "-B", self.place, *options]
        self.configure += [f"-DCMAKE_C_COMPILER={compiler}", "-DCMAKE_BUILD_TYPE=Debug"]
        self.tests: dict[str, Test] = {}
        self.seconds: dict[str, float] = {}
        self.originals: dict[str, bytes] = {}

    def prepare(self) -> None:
        """Build every test, and ask ctest for them."""
        output_of(*self.configure)
        if not self.builds(f"tests/{module}/all" for module in MODULES):
            sys.exit(f"mutate: {self.name} does not build")
        labels = f"^({'|'.join(MODULES)})(_checked)?$"
        listing = ["ctest", "--test-dir", self.place, "-L", labels, "--show-only=json-v1"]
        self.tests = tests_of(output_of(*listing))
        self.originals = {name: self.digest(name) for name in self.tests}

    def builds(self, targets: Iterable[object]) -> bool:
        """Build programs; return whether they do."""
        command = ["ninja", "-C", self.place, *targets]
        return not subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode

    def digest(self, name: str) -> bytes:
        """Return what tells the program of a test from a changed one."""
        return hashlib.sha256(Path(self.tests[name].command[0]).read_bytes()).digest()

    def run(self, name: str, seed: int, stop: Event = NEVER, **more: str) -> str:
        """Run a test, unless it shall stop; say how it failed, or nothing."""
        test = self.tests[name]
        own = {"GS_CHAOS_SEED": str(seed), "GOSSAMER_HAND_OVERS": "8000"}
        command = test.command
        if self.name == "chaos-tsan":
            command = ["setarch", "--addr-no-randomize", *command]
        end = time.monotonic() + min(test.max_s, 15 + 10 * self.seconds.get(name, math.inf))
        with (
            tempfile.TemporaryFile() as output,
            subprocess.Popen(
                command,
                env=os.environ | test.environment | own | more,
                stdout=output,
                stderr=output,
                start_new_session=True,
            ) as running,
        ):
            status = ended(running, end, stop)
            if status is None and not stop.is_set():
                return f"{self.name}: {name} {HANGS}"
            if status in {0, 77, None}:
                return ""
            output.seek(0)
            said = TOLD.search(output.read().decode(errors="replace"))
            return f"{self.name}: {name} fails: {said.group().strip() if said else status}"

    def first_failure(self, names: list[str], seeds: tuple[int, ...]) -> str:
        """Run tests with each seed, some at a time; say which failed, or nothing."""
        stop = Event()

        def failure(seed: int, name: str) -> str:
            how = self.run(name, seed, stop)
            return self.run(name, seed, stop) if how.endswith(HANGS) else how

        with ThreadPoolExecutor(AT_ONCE) as pool:
            waiting = [pool.submit(failure, *run) for run in product(seeds, names)]
            found = (done.result() for done in as_completed(waiting) if done.result())
            how = next(found, "")
            stop.set()
            pool.shutdown(cancel_futures=True)
        return how

    def measure(self, names: list[str]) -> None:
        """Run the tests in the unchanged tree. What fails twice is left out here."""

        def seconds(name: str) -> float:
            start = time.monotonic()
            if not self.run(name, self.seeds[0]):
                return time.monotonic() - start
            how = self.run(name, self.seeds[0])
            if how:
                print(f"left out, since it fails in the unchanged tree: {how}", flush=True)
            return math.inf if how else time.monotonic() - start

        with ThreadPoolExecutor(AT_ONCE) as pool:
            taken = zip(names, pool.map(seconds, names), strict=True)
            self.seconds = {name: taken_s for name, taken_s in taken if taken_s < math.inf}
        spent = sum(self.seconds.values())
        print(f"{self.name}: {len(self.seconds)} tests take {spent:.0f} s", flush=True)

    def judge(self, names: set[str], max_s: float) -> str:
        """Build and run tests of a mutant; return how it was found, or that it does not build.

        With a limit, only the quickest tests are run that together take no longer, with one seed.
        """
        seeds = self.seeds if max_s == math.inf else self.seeds[:1]
        quickest = sorted(names & set(self.seconds), key=self.seconds.__getitem__)
        sums = accumulate(self.seconds[name] for name in quickest)
        quickest = quickest[: max(1, sum(spent <= max_s for spent in sums))]
        for some in (quickest[:FIRST], quickest[FIRST:]):
            programs = {self.tests[name].command[0] for name in some}
            if some and not self.builds(os.path.relpath(path, self.place) for path in programs):
                return "does not build"
            # The order of an access may make no difference to the compiler.
            changed = [name for name in some if self.digest(name) != self.originals[name]]
            how = self.first_failure(changed, seeds)
            if how:
                return how
        return ""


CHAOS = ("clang-19", "-DCMAKE_C_FLAGS_DEBUG=-O1 -g", "-DGS_CHAOS=ON")
STAGES = (
    Stage("plain", (0,), "gcc", "-DCMAKE_C_FLAGS_DEBUG=-O1 -g"),
    Stage("chaos", (1, 2), *CHAOS, "-DGS_SANITIZE=address,undefined"),
    Stage("chaos-tsan", (3, 4), *CHAOS, "-DGS_SANITIZE=thread"),
)
# The counters are in a file that is mapped, so that a process which is killed leaves them, too.
COUNTERS = "-fprofile-instr-generate -fcoverage-mapping -mllvm -runtime-counter-relocation"


def runners() -> dict[tuple[str, int], set[str]]:
    """Return for each line that is code which tests run it."""
    stage = Stage("coverage", (), *CHAOS, f"-DCMAKE_C_FLAGS_DEBUG=-O1 -g {COUNTERS}")
    stage.prepare()
    profiles = PLACE / "profiles"
    shutil.rmtree(profiles, ignore_errors=True)

    def lines(name: str) -> dict[tuple[str, int], bool]:
        raw, merged = profiles / name, profiles / f"{name}.profdata"
        raw.mkdir(parents=True)
        stage.run(name, 5, LLVM_PROFILE_FILE=f"{raw}/%p%c.profraw")
        output_of("llvm-profdata-19", "merge", "-sparse", "-o", merged, *raw.iterdir())
        command = ["llvm-cov-19", "export", "-format=lcov", f"-instr-profile={merged}"]
        return lines_of(output_of(*command, stage.tests[name].command[0]))

    found: dict[tuple[str, int], set[str]] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, ran in zip(stage.tests, pool.map(lines, stage.tests), strict=True):
            for line, is_run in ran.items():
                found.setdefault(line, set()).update({name} if is_run else ())
    shutil.rmtree(profiles)
    return found


def measure(sources: str) -> dict[tuple[str, int], set[str]]:
    """Return which tests run a line, and measure them in every stage; or recall what was found."""
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    if known.get("sources") == sources:
        for stage in STAGES:
            stage.seconds = known["seconds"][stage.name]
        return {(file, line): set(tests) for file, line, tests in known["lines"]}
    found = runners()
    of_files = set(files())
    needed = set().union(*(tests for (file, _), tests in found.items() if file in of_files))
    for stage in STAGES:
        missing = needed - set(stage.tests)
        if missing:
            sys.exit(f"mutate: {stage.name} has no test {' '.join(sorted(missing))}")
        stage.measure(sorted(needed))
    lines = [(file, line, sorted(tests)) for (file, line), tests in found.items()]
    seconds = {stage.name: stage.seconds for stage in STAGES}
    KNOWN.write_text(json.dumps({"sources": sources, "lines": lines, "seconds": seconds}))
    return found


def prepare() -> dict[tuple[str, int], set[str]]:
    """Build all stages, and return which tests run a line."""
    sources = copy_tree()
    for stage in STAGES:
        stage.prepare()
    return measure(sources)


def judge(mutant: Mutant, names: set[str], max_s: float) -> str:
    """Build and test; return how it was found, "" if it was not, or that it does not build."""
    path = TREE / mutant.file
    original = path.read_text()
    path.write_text(mutant.text)
    try:
        # The thread sanitizer is the first to find what only another order can tell.
        is_order = mutant.kind == "order"
        stages = sorted(STAGES, key=lambda stage: is_order and stage.name == "chaos")
        return next(filter(None, (stage.judge(names, max_s) for stage in stages)), "")
    finally:
        path.write_text(original)
