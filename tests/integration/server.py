"""A server under test: started on free ports, stopped by process id, and judged by what it said."""

import ctypes
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
READY = re.compile(r"^listening on http://(\S+):(\d+) \((\w+), (\d+) workers\)$")
ENDED = re.compile(
    r"^gossamer serve: ended; (?P<requests>\d+) requests \((?P<refused>\d+) refused, "
    r"(?P<failed>\d+) failed\) on (?P<connections>\d+) connections \((?P<slow>\d+) too slow\), "
    r"(?P<bytes>\d+) bytes$"
)

# Only what hangs takes as long: sanitizers and a busy machine have room.
PATIENCE_S = 30.0


def program() -> str:
    """Return the path of the program under test."""
    return os.environ.get("GOSSAMER_PROGRAM") or str(ROOT / "build" / "dev" / "gossamer")


def architectures() -> list[str]:
    """Return the names of the concurrency architectures, the default first."""
    listed = subprocess.run(
        [program(), "serve", "--arch", "list"], capture_output=True, text=True, check=True
    )
    return [line.split()[0] for line in listed.stdout.splitlines()]


def has_io_uring() -> bool:
    """Return whether the kernel has an io_uring for us, as of Linux 6.1."""
    io_uring_setup, single_issuer, defer_taskrun = 425, 1 << 12, 1 << 13
    parameters = (ctypes.c_uint32 * 30)(0, 0, single_issuer | defer_taskrun)
    fd: int = ctypes.CDLL(None).syscall(io_uring_setup, 1, parameters)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def ways() -> list[str]:
    """Return the words after --arch for all that is to be tested, the default first."""
    return [*architectures(), *(["event --poller io_uring"] if has_io_uring() else [])]


def run_serve(*words: str, timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
    """Run `gossamer serve` with words that are expected to end it at once."""
    return subprocess.run(
        [program(), "serve", *words], capture_output=True, text=True, timeout=timeout_s, check=False
    )


@dataclass
class Server:
    """A running `gossamer serve`."""

    process: subprocess.Popen[bytes]
    folder: Path
    expected: list[str] = field(default_factory=list)
    addresses: list[tuple[str, int]] = field(default_factory=list)
    arch: str = ""
    workers: int = 0
    judged: bool = False

    @classmethod
    def start(cls, folder: Path, words: Iterable[str]) -> "Server":
        """Start with these words; its output goes to files of the folder."""
        folder.mkdir(parents=True)
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            process = subprocess.Popen(
                [program(), "serve", *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        return cls(process, folder)

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self.process.pid

    @property
    def address(self) -> tuple[str, int]:
        """Return the first address that it listens at."""
        return self.addresses[0]

    def output(self) -> list[str]:
        """Return the lines of its standard output so far."""
        return (self.folder / "stdout").read_text().splitlines()

    def complaints(self) -> list[str]:
        """Return the lines of its standard error so far."""
        return (self.folder / "stderr").read_text(errors="replace").splitlines()

    def wait_until_ready(self, addresses: int = 1) -> None:
        """Wait for its lines on stdout, and learn from them where it listens."""
        for _ in attempts():
            lines = [match for line in self.output() if (match := READY.match(line))]
            if len(lines) == addresses:
                break
            if self.process.poll() is not None:
                raise AssertionError(f"it ended with {self.process.returncode}: {self.said()}")
        else:
            self.kill()
            raise AssertionError(f"it did not become ready: {self.said()}")
        self.addresses = [(match[1].strip("[]"), int(match[2])) for match in lines]
        self.arch, self.workers = lines[0][3], int(lines[0][4])

    def said(self) -> str:
        """Return all that it printed."""
        return "\n".join(self.output() + self.complaints())

    def expect(self, pattern: str) -> None:
        """Allow, and demand, a line on stderr that matches."""
        self.expected.append(pattern)

    def tell(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()

    def wait(self) -> dict[str, int]:
        """Wait until it has ended by itself, as it should; return what it counted."""
        self.judged = True
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end: {self.said()}") from None
        assert status == 0, f"exit status {status}: {self.said()}"
        *others, last = self.complaints() or [""]
        ended = ENDED.match(last)
        assert ended, self.said()
        for pattern in self.expected:
            assert any(re.search(pattern, line) for line in others), (pattern, self.said())
        for line in others:
            assert any(re.search(pattern, line) for pattern in self.expected), self.said()
        return {name: int(value) for name, value in ended.groupdict().items()}

    def stop(self, number: int = signal.SIGTERM) -> dict[str, int]:
        """Ask it to end, and wait until it has."""
        self.tell(number)
        return self.wait()

    def cpu_s(self) -> float:
        """Return the processor time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self, kind: str = "") -> int:
        """Return how many descriptors it has open, for instance of the kind "socket:"."""
        count = 0
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                count += str(link.readlink()).startswith(kind)
            except FileNotFoundError:
                continue
        return count

    def falls_to_sockets(self, most: int) -> bool:
        """Tell whether it comes to have no more sockets than that, waiting until it does."""
        return any(self.descriptors("socket:") <= most for _ in attempts())

    def refuses_connections(self) -> bool:
        """Tell whether nobody listens at its address any more, waiting until that is so."""
        for _ in attempts():
            try:
                socket.create_connection(self.address, timeout=1).close()
            except (ConnectionRefusedError, ConnectionResetError):
                return True
            except TimeoutError:
                continue
        return False


def attempts(limit_s: float = PATIENCE_S, pause_s: float = 0.01) -> Iterable[int]:
    """Count attempts, with pauses between, as long as patience lasts."""
    end = time.monotonic() + limit_s
    count = 0
    while time.monotonic() < end:
        yield count
        count += 1
        time.sleep(pause_s)
