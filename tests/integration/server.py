"""A server under test: it gets a free port, is stopped by process id, and its output is checked."""

import contextlib
import ctypes
import functools
import os
import re
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
READY = re.compile(r"^listening on https?://(\S+):(\d+) \((\w+), (\d+) workers\)$")
ENDED = re.compile(
    r"^gossamer serve: ended; (?P<requests>\d+) requests \((?P<refused>\d+) refused, "
    r"(?P<failed>\d+) failed\) on (?P<connections>\d+) connections \((?P<slow>\d+) too slow\), "
    r"(?P<bytes>\d+) bytes$"
)

# Tests may run as root: this line is checked by one test, and hidden from the others.
ROOT_WARNING = (
    "gossamer serve: running as root without --user: permissions of files are not respected"
)

# A sanitizer's allocator has locks, whose holder may wait for a processor.
WAITS_FOR_SANITIZER = r"^stuck: thread .* has been in system call futex for "

# A server says so at level info.
NO_SANDBOX = r"^gossamer serve: there is no sandbox: the program is built with a sanitizer$"

# Only a hanging server takes this long, even with a sanitizer or on a busy machine.
TIMEOUT_S = 30.0


class TlsAddress(tuple[str, int]):
    """The address of a listener with TLS: a Wire makes a handshake there."""

    __slots__ = ()


def program() -> str:
    """Return the path of the program under test."""
    return os.environ.get("GOSSAMER_PROGRAM") or str(ROOT / "build" / "dev" / "gossamer")


@functools.cache
def is_built_with(sanitizer: str) -> bool:
    """Return whether the program under test was built with the address or thread sanitizer."""
    mark = {"address": b"__asan_init", "thread": b"__tsan_func_entry"}[sanitizer]
    return mark in Path(program()).read_bytes()


@functools.cache
def has_http2() -> bool:
    """Return whether the program under test was built with libnghttp2."""
    return b"nghttp2_session_server_new3" in Path(program()).read_bytes()


@functools.cache
def has_yaml() -> bool:
    """Return whether the program under test was built with libyaml."""
    return b"yaml_parser_parse" in Path(program()).read_bytes()


def allowed_by_build() -> tuple[str, ...]:
    """Return patterns of lines that any server may write because of how it was built."""
    is_sanitized = is_built_with("address") or is_built_with("thread")
    return (WAITS_FOR_SANITIZER, NO_SANDBOX) if is_sanitized else ()


def unassigned_port() -> int:
    """Return a free port that the kernel gives to nobody who asks for any port."""
    ports = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    low = int(ports.split()[0])
    while True:
        port = low // 2 + secrets.randbelow(low - low // 2)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("", port))
                return port


def architectures() -> list[str]:
    """Return the names of the concurrency architectures; the default is first."""
    listed = subprocess.run(
        [program(), "serve", "--arch", "list"], capture_output=True, text=True, check=True
    )
    return [line.split()[0] for line in listed.stdout.splitlines()]


def has_io_uring() -> bool:
    """Return whether we may use io_uring, with the features of Linux 6.1."""
    io_uring_setup, single_issuer, defer_taskrun = 425, 1 << 12, 1 << 13
    parameters = (ctypes.c_uint32 * 30)(0, 0, single_issuer | defer_taskrun)
    fd: int = ctypes.CDLL(None).syscall(io_uring_setup, 1, parameters)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


# Architectures whose workers serve one connection at a time, and how many of them a test starts for
# each of its clients.
ONE_AT_A_TIME = {"prefork": 1, "pool": 1, "queue": 2}

# Most tests have fewer clients. Others say how many: a process for each takes time to start.
CLIENTS = 64

# The server raises lower values, with a warning.
MIN_WORKERS = {"queue": 2}

# Architectures with a process for each connection.
PROCESSES = ("fork", "prefork")

# All tests are run in these configurations; in the others, only those in CORE_MODULES.
FULL_CONFIGURATIONS = ("user", "event", "event --poller io_uring")
CORE_MODULES = (
    "strict",
    "http2",
    "http2_cases",
    "requests",
    "slow",
    "stop",
    "linger",
    "limits",
    "roles",
    "workers",
    "metrics",
    "root",
    "overload",
    "unix",
    "disk",
    "error_log",
    "tls",
    "half_open",
    "compression",
    "sandbox",
)

# On a connection, these run the code of another architecture, and differ in who accepts it: they
# are left out where only what is sent over a connection matters.
ALIKE = ("eager", "fork", "prefork", "pool")
CONNECTION_MODULES = ("strict", "requests", "http2_cases")

# The modules that are run in the other configurations under a sanitizer, which is slow.
SANITIZED_MODULES = ("strict", "stop", "roles", "workers", "metrics")

# This environment variable selects configurations, separated by commas, for all tests; "all"
# selects every one.
SELECTION_VARIABLE = "GOSSAMER_ARCHS"


def configurations() -> list[str]:
    """Return the arguments after --arch for each configuration to test; the default is first."""
    known = architectures()
    known += ["queue --nonblocking"] if "queue" in known else []
    known += ["event --poller io_uring"] if has_io_uring() else []
    if is_built_with("thread"):  # it does not detect races between processes
        known = [name for name in known if name not in PROCESSES]
    chosen = os.environ.get(SELECTION_VARIABLE, "all")
    return known if chosen == "all" else [name.strip() for name in chosen.split(",")]


def is_selected(configuration: str, module: str) -> bool:
    """Return whether the tests of this module, test_serve_..., are run in this configuration."""
    if configuration in FULL_CONFIGURATIONS or SELECTION_VARIABLE in os.environ:
        return True
    is_sanitized = is_built_with("address") or is_built_with("thread")
    name = module.removeprefix("test_serve_")
    is_alike = configuration in ALIKE and name in CONNECTION_MODULES
    return name in (SANITIZED_MODULES if is_sanitized else CORE_MODULES) and not is_alike


def serves_one_at_a_time(configuration: str) -> bool:
    """Return whether a worker serves one connection at a time."""
    arch = configuration.split(maxsplit=1)[0]
    return arch in ONE_AT_A_TIME and "--nonblocking" not in configuration


def worker_count(configuration: str, requested: int, clients: int = CLIENTS) -> int:
    """Return the number of workers for a test that requests this many, and has so many clients."""
    arch = configuration.split(maxsplit=1)[0]
    if serves_one_at_a_time(configuration):
        return ONE_AT_A_TIME[arch] * clients
    return max(requested, MIN_WORKERS.get(arch, 1))


def arguments_for(
    configuration: str, arguments: tuple[str, ...], clients: int = CLIENTS
) -> list[str]:
    """Return the arguments after --arch for a test with these arguments, and so many clients."""
    given = list(arguments)
    if "--workers" in given:
        at = given.index("--workers") + 1
        given[at] = str(worker_count(configuration, int(given[at]), clients))
    elif serves_one_at_a_time(configuration):
        given += ["--workers", str(worker_count(configuration, 0, clients))]
    unlimited = ["--requests-per-connection", "0"] if configuration == "pool" else []
    return [*configuration.split(), *unlimited, *given]


def run_serve(*arguments: str, timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """Run `gossamer serve` with arguments with which it exits at once."""
    return subprocess.run(
        [program(), "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@dataclass
class Server:
    """A running `gossamer serve`."""

    process: subprocess.Popen[bytes]
    folder: Path
    expected: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    addresses: list[tuple[str, int]] = field(default_factory=list)
    arch: str = ""
    workers: int = 0
    was_checked: bool = False

    @classmethod
    def start(
        cls,
        folder: Path,
        arguments: Iterable[str],
        prefix: Iterable[str] = (),
        inherits: Iterable[int] = (),
    ) -> "Server":
        """Start a server with these arguments; its output is written to files in the folder.

        The prefix is a command that executes it, and inherits these descriptors.
        """
        folder.mkdir(parents=True)
        # Without --poller, event loops are on epoll: io_uring has configurations of its own.
        environment = {"GS_POLLER": "epoll", **os.environ}
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            process = subprocess.Popen(
                [*prefix, program(), "serve", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                pass_fds=tuple(inherits),
            )
        return cls(process, folder)

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self.process.pid

    @property
    def address(self) -> tuple[str, int]:
        """Return the first address on which it listens."""
        return self.addresses[0]

    def stdout_lines(self) -> list[str]:
        """Return the lines of the standard output so far."""
        return (self.folder / "stdout").read_text().splitlines()

    def stderr_lines(self) -> list[str]:
        """Return the lines of the standard error so far, without the warning for root."""
        return [line for line in self.all_stderr_lines() if line != ROOT_WARNING]

    def all_stderr_lines(self) -> list[str]:
        """Return the lines of the standard error so far."""
        return (self.folder / "stderr").read_text(errors="replace").splitlines()

    def wait_until_ready(self, addresses: int = 1) -> None:
        """Wait for its lines on stdout, and parse its addresses."""
        for _ in attempts():
            lines = [match for line in self.stdout_lines() if (match := READY.match(line))]
            if len(lines) == addresses:
                break
            if self.process.poll() is not None:
                raise AssertionError(
                    f"it ended with {self.process.returncode}: {self.all_output()}"
                )
        else:
            self.kill()
            raise AssertionError(f"it did not become ready: {self.all_output()}")
        for match in lines:
            address = (match[1].strip("[]"), int(match[2]))
            has_tls = match[0].startswith("listening on https:")
            self.addresses.append(TlsAddress(address) if has_tls else address)
        self.arch, self.workers = lines[0][3], int(lines[0][4])

    def all_output(self) -> str:
        """Return the whole output so far."""
        return "\n".join(self.stdout_lines() + self.stderr_lines())

    def expect(self, pattern: str) -> None:
        """Allow, and require, a line on stderr that matches."""
        self.expected.append(pattern)

    def allow(self, pattern: str) -> None:
        """Allow lines on stderr that match."""
        self.allowed.append(pattern)

    def send_signal(self, number: int) -> None:
        """Send a signal to the server."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the server."""
        self.process.kill()
        self.process.wait()

    def exit_status(self) -> int:
        """Wait until the server has exited; return its status."""
        self.was_checked = True
        try:
            return self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end: {self.all_output()}") from None

    def wait(self, expected_status: int = 0) -> dict[str, int]:
        """Wait until the server has exited with this status; return its counters."""
        status = self.exit_status()
        assert status == expected_status, f"exit status {status}: {self.all_output()}"
        *others, last = self.stderr_lines() or [""]
        ended = ENDED.match(last)
        assert ended, self.all_output()
        for pattern in self.expected:
            assert any(re.search(pattern, line) for line in others), (pattern, self.all_output())
        for line in others:
            known = (*self.expected, *self.allowed, *allowed_by_build())
            assert any(re.search(pattern, line) for pattern in known), self.all_output()
        return {name: int(value) for name, value in ended.groupdict().items()}

    def stop(self, number: int = signal.SIGTERM) -> dict[str, int]:
        """Stop the server with a signal, and wait until it has exited."""
        self.send_signal(number)
        return self.wait()

    def process_ids(self) -> list[int]:
        """Return the ids of its processes: its own first, each before its children."""
        pids = [self.pid]
        for pid in pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    pids += [int(child) for child in (task / "children").read_text().split()]
        return pids

    def cpu_s(self) -> float:
        """Return the CPU time of all its processes."""
        ticks = 0
        for pid in self.process_ids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += sum(int(field) for field in fields[11:15])
        return ticks / os.sysconf("SC_CLK_TCK")

    def descriptors(self, kind: str = "") -> int:
        """Return how many descriptors all its processes have; of a kind: how many files."""
        found = [link for pid in self.process_ids() for link in open_files(pid)]
        return len({link for link in found if link.startswith(kind)}) if kind else len(found)

    def has_at_most_sockets(self, limit: int) -> bool:
        """Wait until it has at most this many sockets; return whether that happened."""
        # To look at many processes takes time.
        return any(self.descriptors("socket:") <= limit for _ in attempts(pause_s=0.05))

    def refuses_connections(self) -> bool:
        """Wait until its address refuses connections; return whether that happened.

        A reset is not a refusal: one worker has closed its listening socket, but others may still
        accept.
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
    """Return the targets of the links in /proc/PID/fd."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                yield str(link.readlink())


def statuses(server: Server, field: str) -> set[str]:
    """Return a field of /proc/PID/status, of all processes of the server."""
    found = set()
    for pid in server.process_ids():
        text = Path(f"/proc/{pid}/status").read_text()
        found |= {line.split()[1] for line in text.splitlines() if line.startswith(f"{field}:")}
    return found


def attempts(limit_s: float = TIMEOUT_S, pause_s: float = 0.01) -> Iterable[int]:
    """Count attempts, with pauses in between, until the time limit."""
    end = time.monotonic() + limit_s
    count = 0
    while time.monotonic() < end:
        yield count
        count += 1
        time.sleep(pause_s)
