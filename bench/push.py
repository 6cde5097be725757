"""Compares the memory of idle WebSockets: examples/push.c, two packages of Go, and tungstenite.

Each subject serves 100,000 connections, by as many processes as the limit of open files needs;
tungstenite, which has a buffer of 128 KiB for each, serves a tenth of them. The memory is all that
the processes have, with page tables, less what they have with a hundredth of the connections; Go
has collected its garbage and given the rest back. It counts only if each connection then answers a
ping. The peers keep no list of the connections, ours does. The limit is for peers as their
documentation shows them; two more are tuned for little memory. Configure and build the release
preset first; this script builds the programs in Go and Rust, with the packages golang and cargo,
and gets their packages.
"""

import contextlib
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from building import build_cargo, build_go
from results import Results, options
from running import running

from gossamer_lab import paths
from gossamer_lab.measuring.accounting import tree_threads
from gossamer_lab.measuring.workspace import two_cores

HERE = Path(__file__).resolve().parent
OURS, GORILLA, CODER, TOKIO = "ours", "gorilla", "coder", "tokio"
TUNED_GORILLA, TUNED_TOKIO = "go-tuned", "rust-tuned"
LIMITED = {GORILLA: "golang", CODER: "golang", TOKIO: "cargo"}
COLLECTING = (GORILLA, CODER, TUNED_GORILLA)
LIMIT = 0.5
SHARE = {TOKIO: 0.1}
"""The part of the connections that a subject has room for, if it is not all."""
FILES_KEPT = 100
"""Open files of a process that are no connections."""


def build(folder: Path) -> None:
    """Build the programs whose compilers are installed."""
    build_go(HERE / "push/go", folder / "go", "-mod=readonly")
    build_cargo(HERE / "push/tokio", folder / TOKIO)


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the command of each server that exists."""
    found = {
        OURS: [str(paths.program().parent / "examples/push")],
        GORILLA: [str(folder / "go"), "gorilla"],
        CODER: [str(folder / "go"), "coder"],
        TOKIO: [str(folder / TOKIO)],
        TUNED_GORILLA: [str(folder / "go"), "tuned"],
        TUNED_TOKIO: [str(folder / TOKIO), "1024"],
    }
    return {name: command for name, command in found.items() if Path(command[0]).exists()}


def tell(child: subprocess.Popen[str], line: str) -> str:
    """Give a program a line, and return its answer."""
    child.stdin.write(f"{line}\n")
    child.stdin.flush()
    return child.stdout.readline().strip()


class Subject:
    """The processes of a server, and those of its clients."""

    def __init__(
        self, stack: contextlib.ExitStack, name: str, command: list[str], count: int
    ) -> None:
        """Start so many of both."""
        server_core, client_core = two_cores()
        self.name = name
        self.servers = [stack.enter_context(running(command, server_core)) for _ in range(count)]
        script = [sys.executable, str(HERE / "push_clients.py")]
        self.clients = [
            stack.enter_context(running([*script, self.port(server)], client_core))
            for server in self.servers
        ]

    @staticmethod
    def port(server: subprocess.Popen[str]) -> str:
        """Return the port of the URL that a server prints."""
        return server.stdout.readline().split(":")[2].split("/")[0].strip()

    def ask(self, line: str) -> int:
        """Give the clients of each process a line; return the sum of the answers."""
        return sum(int(tell(client, line)) for client in self.clients)

    def memory(self) -> int:
        """Return the bytes that the servers have."""
        if self.name in COLLECTING:
            for server in self.servers:
                tell(server, "")
        return sum(tree_threads(server.pid).memory_kb for server in self.servers) * 1024


def processes(connections: int) -> int:
    """Return how many processes the connections need."""
    return -(-connections // (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - FILES_KEPT))


def measure(subject: Subject, connections: int) -> float:
    """Open the connections of each process; return the memory of one."""
    first = subject.ask(f"open {connections // 100}")
    before = subject.memory()
    total = subject.ask(f"open {connections - connections // 100}")
    growth = subject.memory() - before
    if subject.ask("ping") != total:
        raise RuntimeError(f"{subject.name} has lost connections")
    return growth / (total - first)


def measure_all(results: Results, name: str, found: dict[str, list[str]], total: int) -> None:
    """Measure each subject once, with so many connections in all."""
    for subject, command in found.items():
        connections = round(total * SHARE.get(subject, 1.0))
        count = processes(connections)
        with contextlib.ExitStack() as stack:
            cost = measure(Subject(stack, subject, command, count), connections // count)
        print(f"  {name}, {subject}, {count} processes: {cost:.0f}", file=sys.stderr)
        results.add_cost(name, subject, cost, "bytes each")


def main() -> int:
    """Measure; return 1 if the limit is not met."""
    parser = options(__doc__ or "")
    parser.add_argument("--connections", type=int, default=100_000, metavar="N")
    settings = parser.parse_args()
    results = Results()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    name = f"memory of {settings.connections} idle WebSockets"
    with tempfile.TemporaryDirectory(prefix="gossamer-push-") as folder:
        build(Path(folder))
        found = commands(Path(folder))
        for absent, package in LIMITED.items():
            if absent not in found:
                results.skip(name, absent, f"not built: {package}")
        for _ in range(settings.rounds):
            measure_all(results, name, found, settings.connections)
    for peer in LIMITED:
        if peer in found:
            results.limit(name, OURS, (peer,), LIMIT)
    return results.finish(settings.json)


if __name__ == "__main__":
    sys.exit(main())
