"""A server under test: started on free ports, stopped by process id, and judged by what it said."""

import contextlib
import ctypes
import functools
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


@functools.cache
def is_built_with(sanitizer: str) -> bool:
    """Return whether the program under test was built with the address or thread sanitizer."""
    mark = {"address": b"__asan_init", "thread": b"__tsan_init"}[sanitizer]
    return mark in Path(program()).read_bytes()


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


# Where a worker that serves a connection serves no other meanwhile: more than any test has.
ONE_AT_A_TIME = {"prefork": 320, "pool": 320, "queue": 640}

# What is less is raised, with a notice.
LEAST_WORKERS = {"queue": 2}

# Where connections have processes of their own.
PROCESSES = ("fork", "prefork")

# All tests are run with these; with other architectures, those in CORE_MODULES.
FULL_WAYS = ("user", "event", "event --poller io_uring")
CORE_MODULES = (
    "strict",
    "requests",
    "slow",
    "stop",
    "limits",
    "roles",
    "workers",
    "metrics",
    "overload",
)

# And of these, which are run under a sanitizer, where all takes longer.
SANITIZED_MODULES = ("strict", "stop", "roles", "workers", "metrics")

# Which ways are tested, a comma between them, each then with all tests; "all": every way.
CHOICE = "GOSSAMER_ARCHS"


def ways() -> list[str]:
    """Return the words after --arch for all that is to be tested, the default first."""
    known = architectures()
    known += ["queue --nonblocking"] if "queue" in known else []
    known += ["event --poller io_uring", "user --poller io_uring"] if has_io_uring() else []
    if is_built_with("thread"):  # which does not see what processes share
        known = [way for way in known if way not in PROCESSES]
    chosen = os.environ.get(CHOICE, "all")
    return known if chosen == "all" else [way.strip() for way in chosen.split(",")]


def has_turn(way: str, module: str) -> bool:
    """Tell whether the tests of this module, test_serve_..., are run this way."""
    is_sanitized = is_built_with("address") or is_built_with("thread")
    core = SANITIZED_MODULES if is_sanitized else CORE_MODULES
    is_core = module.removeprefix("test_serve_") in core
    return is_core or way in FULL_WAYS or CHOICE in os.environ


def serves_one_at_a_time(way: str) -> bool:
    """Tell whether a worker that serves a connection serves no other meanwhile."""
    return way.split(maxsplit=1)[0] in ONE_AT_A_TIME and "--nonblocking" not in way


def workers_of(way: str, asked: int) -> int:
    """Return how many workers a test gets that asks for so many."""
    arch = way.split(maxsplit=1)[0]
    if serves_one_at_a_time(way):
        return ONE_AT_A_TIME[arch]
    return max(asked, LEAST_WORKERS.get(arch, 1))


def words_for(way: str, words: tuple[str, ...]) -> list[str]:
    """Return the words after --arch for a test that asks for these words."""
    given = list(words)
    if "--workers" in given:
        at = given.index("--workers") + 1
        given[at] = str(workers_of(way, int(given[at])))
    elif serves_one_at_a_time(way):
        given += ["--workers", str(workers_of(way, 0))]
    unlimited = ["--requests-per-connection", "0"] if way == "pool" else []
    return [*way.split(), *unlimited, *given]


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

    def family(self) -> list[int]:
        """Return the ids of its processes, its own first, each before its children."""
        pids = [self.pid]
        for pid in pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    pids += [int(child) for child in (task / "children").read_text().split()]
        return pids

    def cpu_s(self) -> float:
        """Return the processor time that its processes have used."""
        ticks = 0
        for pid in self.family():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += sum(int(field) for field in fields[11:15])
        return ticks / os.sysconf("SC_CLK_TCK")

    def descriptors(self, kind: str = "") -> int:
        """Return how many descriptors it has open; of a kind, "socket:", how many such things."""
        found = [link for pid in self.family() for link in open_files(pid)]
        return len({link for link in found if link.startswith(kind)}) if kind else len(found)

    def falls_to_sockets(self, most: int) -> bool:
        """Tell whether it comes to have no more sockets than that, waiting until it does."""
        return any(self.descriptors("socket:") <= most for _ in attempts())

    def refuses_connections(self) -> bool:
        """Tell whether nobody listens at its address any more, waiting until that is so.

        A connection that is reset was at a worker that has stopped to listen: others may go on.
        """
        for _ in attempts():
            try:
                socket.create_connection(self.address, timeout=1).close()
            except ConnectionRefusedError:
                return True
            except (ConnectionResetError, TimeoutError):
                continue
        return False


def open_files(pid: int) -> Iterable[str]:
    """Return what the descriptors of a process stand for, as /proc tells it."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                yield str(link.readlink())


def attempts(limit_s: float = PATIENCE_S, pause_s: float = 0.01) -> Iterable[int]:
    """Count attempts, with pauses between, as long as patience lasts."""
    end = time.monotonic() + limit_s
    count = 0
    while time.monotonic() < end:
        yield count
        count += 1
        time.sleep(pause_s)
