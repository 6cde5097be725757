"""Compares echo servers over TLS: user threads, Go's crypto/tls, and tokio with rustls.

The subjects serve the same client, which is written in Go, in alternating pieces of a run; without
Go nothing is measured. The packages are golang and cargo. Configure and build the release preset
first; this script builds the programs in Go and Rust.
"""

import contextlib
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from building import build_cargo, build_go
from results import Results, options
from running import cpu_us, running

from gossamer_lab import paths
from gossamer_lab.measuring.workspace import two_cores
from gossamer_lab.servers.peers import certificate

HERE = Path(__file__).resolve().parent
OURS, GO, TOKIO = "ours", "go", "tokio"
CONNECTIONS = 1000
NAME = f"echo over TLS, {CONNECTIONS} connections"
PACKAGES = {OURS: "the release preset", GO: "golang", TOKIO: "cargo"}
LIMITS = {GO: 0.8, TOKIO: 1.0}
PIECES_PER_ROUND = 5


def build(folder: Path) -> None:
    """Build the programs whose compilers are installed."""
    build_go(HERE / "echo/go", folder / GO)
    build_cargo(HERE / "echo/tokio", folder / TOKIO)


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the command of each server that exists."""
    found = {
        OURS: [str(paths.program().parent / "examples/tls_echo")],
        GO: [str(folder / GO), "serve"],
        TOKIO: [str(folder / TOKIO)],
    }
    return {name: command for name, command in found.items() if Path(command[0]).exists()}


@dataclass(frozen=True)
class Subject:
    """A running server, and the client with connections to it."""

    name: str
    server: subprocess.Popen[str]
    client: subprocess.Popen[str]

    def piece(self, milliseconds: int) -> float:
        """Exchange messages for a time; return the server's CPU time per echo."""
        before = cpu_us(self.server.pid)
        self.client.stdin.write(f"{milliseconds}\n")
        self.client.stdin.flush()
        echoes = int(self.client.stdout.readline())
        return (cpu_us(self.server.pid) - before) / echoes


def started(stack: contextlib.ExitStack, folder: Path) -> list[Subject]:
    """Start each server that exists, with a client."""
    server_core, client_core = two_cores()
    pem = str(certificate(folder))
    subjects = []
    for name, command in commands(folder).items():
        server = stack.enter_context(running([*command, pem, pem], server_core))
        port = server.stdout.readline().split()[-1]
        client = [str(folder / GO), "load", port, str(CONNECTIONS)]
        subjects.append(Subject(name, server, stack.enter_context(running(client, client_core))))
    return subjects


def measure(results: Results, folder: Path, rounds: int, seconds: float) -> None:
    """Measure all subjects; their order is random in each turn."""
    with contextlib.ExitStack() as stack:
        subjects = started(stack, folder)
        piece_ms = round(seconds * 1000 / PIECES_PER_ROUND)
        for one in subjects:
            one.piece(piece_ms)  # the handshakes do not count
        for _ in range(rounds * PIECES_PER_ROUND):
            for one in random.sample(subjects, len(subjects)):
                cost = one.piece(piece_ms)
                print(f"  {NAME} {one.name}: {cost:.2f}", file=sys.stderr)
                results.add_cost(NAME, one.name, cost, "us per echo")


def main() -> int:
    """Measure; return 1 if a limit is not met."""
    settings = options(__doc__ or "").parse_args()
    results = Results()
    with tempfile.TemporaryDirectory(prefix="gossamer-echo-") as name:
        folder = Path(name)
        build(folder)
        found = commands(folder)
        for absent in PACKAGES.keys() - found.keys():
            results.skip(NAME, absent, f"not built: {PACKAGES[absent]}")
        if GO in found:
            measure(results, folder, settings.rounds, settings.seconds)
    for peer, limit in LIMITS.items():
        if peer in found:
            results.limit(NAME, OURS, (peer,), limit)
    return results.finish(settings.json)


if __name__ == "__main__":
    sys.exit(main())
