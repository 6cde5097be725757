"""Each architecture has its own roles: which task accepts, reads, loads and writes.

strace traces the server while three clients are connected at the same time, request two pages each,
and disconnect.
"""

import contextlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import Serve
from server import Server, attempts
from wire import Wire

CLIENTS = 3
WORKERS = {"prefork": 4, "pool": 4, "queue": 8}
CALLS = "accept4,recvfrom,recvmsg,sendto,sendmsg,sendfile,openat,openat2"
BEGINNING = re.compile(r"^(\d+) +(\w+)\((.*)$")
RESUMPTION = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")
RESULT = re.compile(r"= (-?\d+)")


@dataclass
class Call:
    """A successful system call."""

    task: int
    name: str
    fd: int
    text: str
    result: int


@dataclass
class Trace:
    """What the tasks of a server, its kernel threads, did."""

    calls: list[Call]
    processes: dict[int, int]
    """The process of each task."""
    accepting: set[int] = field(default_factory=set)
    readers: list[list[int]] = field(default_factory=list)
    """The tasks that read, and those that wrote, for each client, in the order of its requests."""
    writers: list[list[int]] = field(default_factory=list)
    loaders: list[set[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Determine the roles of the tasks."""
        self.accepting = {call.task for call in self.calls if call.name == "accept4"}
        for client in range(CLIENTS):
            mark = f"/page{client}.txt"
            reads = [i for i, call in enumerate(self.calls) if f'"GET {mark} ' in call.text]
            self.readers.append([self.calls[i].task for i in reads])
            self.writers.append([self.writer_after(i) for i in reads])
            self.loaders.append(
                {
                    call.task
                    for call in self.calls
                    if call.name.startswith("openat") and f'"{mark[1:]}"' in call.text
                }
            )

    def writer_after(self, read: int) -> int:
        """Return the task that wrote to the socket that this call read from; 0: none yet."""
        call = self.calls[read]
        for later in self.calls[read + 1 :]:
            if (
                later.name.startswith("send")
                and later.fd == call.fd
                and self.processes[later.task] == self.processes[call.task]
            ):
                return later.task
        return 0

    def all_readers(self) -> set[int]:
        """Return the tasks that read a request."""
        return {task for tasks in self.readers for task in tasks}

    def all_writers(self) -> set[int]:
        """Return the tasks that wrote a response."""
        return {task for tasks in self.writers for task in tasks}

    def owners(self) -> list[int]:
        """Return, for each client, the only task that read, loaded and wrote for it."""
        found = []
        for tasks in zip(self.readers, self.writers, self.loaders, strict=True):
            (owner,) = {task for some in tasks for task in some}
            found.append(owner)
        return found

    def processes_of(self, tasks: set[int]) -> set[int]:
        """Return the processes of these tasks."""
        return {self.processes[task] for task in tasks}


def process_of(task: int) -> int:
    """Return the process of a running task."""
    status = Path(f"/proc/{task}/status").read_text()
    return int(status.partition("\nTgid:")[2].split()[0])


def parse(lines: list[str]) -> Iterator[Call]:
    """Return the successful calls in the order in which they returned."""
    begun: dict[int, str] = {}
    for line in lines:
        if found := RESUMPTION.match(line):
            task, name = int(found[1]), found[2]
            text = begun.pop(task, "") + found[3]
        elif found := BEGINNING.match(line):
            task, name, text = int(found[1]), found[2], found[3]
            if text.endswith("<unfinished ...>"):
                begun[task] = text
                continue
        else:
            continue
        results = RESULT.findall(text)
        if results and int(results[-1]) >= 0:
            number = re.match(r"-?\d+", text)
            yield Call(task, name, int(number[0]) if number else -1, text, int(results[-1]))


def start_strace(server: Server, folder: Path) -> subprocess.Popen[bytes]:
    """Start strace; return once it is attached to all processes."""
    pids = server.process_ids()
    arguments = [word for pid in pids for word in ("-p", str(pid))]
    errors = folder / "strace.err"
    with errors.open("wb") as err:
        process = subprocess.Popen(
            [
                "strace",
                "-f",
                "-s",
                "64",
                "-e",
                f"trace={CALLS}",
                "-o",
                folder / "calls",
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stderr=err,
        )
    for _ in attempts():
        messages = errors.read_text()
        if all(f"rocess {pid} attached" in messages for pid in pids):
            return process
        if process.poll() is not None:
            pytest.skip(f"strace cannot trace here: {messages}")
    raise AssertionError(messages)


def wait_for_trace(calls: Path, processes: dict[int, int]) -> Trace:
    """Return the trace once it is complete: strace reports a call after it has returned."""
    for _ in attempts():
        found = Trace(list(parse(calls.read_text().splitlines())), processes)
        writers = [task for tasks in found.writers for task in tasks]
        if len(writers) == 2 * CLIENTS and all(writers):
            return found
    raise AssertionError(calls.read_text())


def trace(serve: Serve, root: Path, folder: Path, arch: str) -> Trace:
    """Trace a server that serves the clients."""
    for client in range(CLIENTS):
        (root / f"page{client}.txt").write_text(f"page {client}\n")
    server = serve(root, "--workers", str(WORKERS.get(arch, 1)), exact=True)
    strace = start_strace(server, folder)
    try:
        return send_requests(server, folder / "calls")
    finally:
        # strace detaches at once when it is killed; after SIGTERM it may wait for exiting tasks.
        strace.kill()
        strace.wait()


def send_requests(server: Server, calls: Path) -> Trace:
    """Send the clients' requests; all clients stay connected until the trace is complete."""
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.address)) for _ in range(CLIENTS)]
        for _ in range(2):
            for client, wire in enumerate(wires):
                assert wire.get(f"/page{client}.txt").body == f"page {client}\n".encode()
        tasks = [
            int(task.name)
            for pid in server.process_ids()
            for task in Path(f"/proc/{pid}/task").iterdir()
        ]
        return wait_for_trace(calls, {task: process_of(task) for task in tasks})


def check_fork(found: Trace) -> None:
    """One process accepts, and each client has a process of its own."""
    owners = found.owners()
    assert len(found.processes_of(set(owners))) == CLIENTS
    assert len(found.accepting) == 1
    assert not found.processes_of(found.accepting) & found.processes_of(set(owners))


def check_prefork(found: Trace) -> None:
    """Each process accepts and serves a client."""
    owners = set(found.owners())
    assert len(found.processes_of(owners)) == CLIENTS
    assert found.accepting == owners


def check_thread(found: Trace) -> None:
    """One thread accepts, and each client has a thread of its own in the same process."""
    owners = set(found.owners())
    assert len(owners) == CLIENTS
    assert len(found.accepting) == 1
    assert not found.accepting & owners
    assert len(found.processes_of(owners | found.accepting)) == 1


def check_pool(found: Trace) -> None:
    """Each thread of one process accepts and serves a client."""
    owners = set(found.owners())
    assert len(owners) == CLIENTS
    assert found.accepting == owners
    assert len(found.processes_of(owners)) == 1


def check_queue(found: Trace) -> None:
    """Some threads accept, and other threads each read a request and write its response."""
    assert found.readers == found.writers
    assert not found.accepting & found.all_readers()
    assert len(found.processes_of(found.accepting | found.all_readers())) == 1


def check_one(found: Trace) -> None:
    """One kernel thread does everything."""
    tasks = found.accepting | found.all_readers() | found.all_writers()
    assert len(tasks) == 1


def check_quad(found: Trace) -> None:
    """One thread accepts, one reads, one loads, and one writes."""
    loaders = {task for tasks in found.loaders for task in tasks}
    roles = [found.accepting, found.all_readers(), loaders, found.all_writers()]
    assert [len(tasks) for tasks in roles] == [1] * 4
    assert len(set.union(*roles)) == 4
    assert len(found.processes_of(set.union(*roles))) == 1


def check_stage(found: Trace) -> None:
    """One thread accepts and reads, one writes, and others load."""
    loaders = {task for tasks in found.loaders for task in tasks}
    assert len(found.accepting) == 1
    assert found.accepting == found.all_readers()
    assert len(found.all_writers()) == 1
    assert loaders
    assert not loaders & (found.all_readers() | found.all_writers())
    assert not found.all_readers() & found.all_writers()


ROLES: dict[str, Callable[[Trace], None]] = {
    "user": check_one,
    "event": check_one,
    "eager": check_one,
    "quad": check_quad,
    "stage": check_stage,
    "fork": check_fork,
    "prefork": check_prefork,
    "thread": check_thread,
    "pool": check_pool,
    "queue": check_queue,
}


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_each_architecture_has_its_roles(
    serve: Serve, root: Path, tmp_path: Path, configuration: str, arch: str
) -> None:
    if "io_uring" in configuration:
        pytest.skip("the kernel executes the calls")
    assert arch in ROLES, f"who does what in {arch}?"
    ROLES[arch](trace(serve, root, tmp_path, arch))
