"""Processes and threads: their number, failures to start them, and crashes."""

import contextlib
import os
import pwd
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import Serve, sparse
from server import PROCESSES, Server, attempts, open_files, program, serves_one_at_a_time
from wire import Wire, get, request

CLIENTS = 1000


def state(pid: int) -> str:
    """Return the state of a process from /proc, or "" if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_running(pid: int) -> bool:
    """Return whether a process is running."""
    return state(pid) not in ("", "Z", "X")


def has_processes(server: Server, processes: int) -> bool:
    """Wait until it has this many processes and no zombies; return whether that happened."""
    for _ in attempts():
        now = [state(pid) for pid in server.process_ids()]
        if len(now) == processes and "Z" not in now:
            return True
    return False


def raise_descriptor_limit() -> None:
    """Raise this process's limit of descriptors to its maximum."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def test_a_thousand_clients_at_a_time_are_all_served(
    serve: Serve, root: Path, configuration: str
) -> None:
    raise_descriptor_limit()
    server = serve(root, "--workers", "2")
    fields = {"Connection": "close"} if serves_one_at_a_time(configuration) else {}
    wires = [Wire(server.address) for _ in range(CLIENTS)]
    for _ in range(1 if fields else 2):
        for wire in wires:
            wire.send(request("GET", "/digits.txt", **fields))
        for wire in wires:
            assert wire.response().body == b"0123456789" * 10
    for wire in wires:
        wire.close()
    counts = server.stop()
    assert counts["requests"] == CLIENTS * (1 if fields else 2)
    assert (counts["refused"], counts["failed"], counts["slow"]) == (0, 0, 0)


def test_a_pool_closes_a_connection_after_a_hundred_requests(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch != "pool":
        pytest.skip("the architecture does not have this limit")
    server = serve(root, exact=True)
    assert server.workers == 150
    with Wire(server.address) as wire:
        for _ in range(99):
            assert not wire.get("/a.txt").closes
        assert wire.get("/a.txt").closes
        assert wire.rest() == b""


def connect_and_stall(server: Server, how: str) -> Wire:
    """Connect and stall: at once, between requests, within a request, or within a response."""
    wire = Wire(server.address, receive_buffer=4096)
    if how == "between":
        assert wire.get("/a.txt").status == 200
    elif how == "request":
        wire.send(request("GET", "/a.txt")[:-10])
    elif how == "answer":
        wire.send(request("GET", "/huge.bin"))
        assert wire.head().status == 200
    return wire


@pytest.mark.parametrize("how", ["once", "between", "request", "answer"])
def test_a_stalled_client_blocks_only_a_worker_that_serves_one_client_at_a_time(
    serve: Serve, root: Path, configuration: str, arch: str, how: str
) -> None:
    sparse(root / "huge.bin", 100 << 20)
    workers = "4" if arch == "queue" else "2"
    long_timeouts = ("--header-timeout", "60s", "--idle-timeout", "60s", "--rate-grace", "60s")
    server = serve(root, "--workers", workers, "--no-defer-accept", *long_timeouts, exact=True)
    stalled = [connect_and_stall(server, how) for _ in range(2)]
    with Wire(server.address) as good:
        good.send(request("GET", "/digits.txt"))
        if serves_one_at_a_time(configuration):
            # In a queue, the connection that arrived last may be the first one to be queued.
            assert arch == "queue" or not good.is_readable(0.05)
            stalled.pop().reset()
        assert good.response().body == b"0123456789" * 10
    for wire in stalled:
        wire.reset()


def test_a_queue_without_blocking_serves_more_clients_than_it_has_workers(
    serve: Serve, root: Path, configuration: str
) -> None:
    if configuration != "queue --nonblocking":
        pytest.skip("only for queue with --nonblocking")
    server = serve(root, "--workers", "2", exact=True)
    wires = [Wire(server.address) for _ in range(100)]
    for _ in range(3):
        for wire in wires:
            assert wire.get("/a.txt").status == 200
    for wire in wires:
        wire.close()


def test_processes_that_have_ended_leave_nothing(serve: Serve, root: Path, arch: str) -> None:
    if arch != "fork":
        pytest.skip("there is no process per connection")
    server = serve(root, "--workers", "2")
    assert has_processes(server, 3)
    for _ in range(50):
        assert get(server.address, "/a.txt").status == 200
    wires = [Wire(server.address) for _ in range(5)]
    for wire in wires:
        assert wire.get("/a.txt").status == 200
    assert has_processes(server, 3 + 5)
    for wire in wires:
        wire.close()
    assert has_processes(server, 3)


def test_a_process_that_crashes_is_reported_and_replaced(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch not in PROCESSES:
        pytest.skip("there is one process")
    server = serve(root, "--workers", "2", "--max-connections", "2", exact=True)
    server.expect(r"process \d+ was killed by signal 9")
    assert has_processes(server, 3)
    before = server.process_ids()
    for pid in before[1:]:
        os.kill(pid, signal.SIGKILL)
        assert any(pid not in server.process_ids() for _ in attempts())
        assert has_processes(server, 3)
    assert not set(before[1:]) & set(server.process_ids())
    assert get(server.address, "/a.txt").status == 200
    server.stop()
    assert sum("signal 9" in line for line in server.stderr_lines()) == 2


def test_a_process_that_is_stopped_holds_nobody_up(serve: Serve, root: Path, arch: str) -> None:
    if arch not in PROCESSES:
        pytest.skip("there is one process")
    server = serve(root, "--workers", "2", exact=True)
    server.expect(r"process \d+ was stopped by signal 19, and goes on")
    assert has_processes(server, 3)
    with Wire(server.address) as kept:
        assert kept.get("/a.txt").status == 200
        for pid in server.process_ids()[1:]:
            os.kill(pid, signal.SIGSTOP)
        assert kept.get("/a.txt").status == 200
        assert get(server.address, "/a.txt").status == 200


def fill(pipe: int) -> None:
    """Write to a pipe until it has no more room."""
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(pipe, b"x" * 512):
            pass
    os.set_blocking(pipe, True)


def test_processes_that_crash_at_once_are_started_again_with_pauses(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch != "fork":
        pytest.skip("only the processes that accept connections of fork need descriptors at once")
    pause_s, processes = 0.1, 4
    server = serve(root, "--workers", str(processes), exact=True)
    server.expect(r"process \d+ was killed by signal 9")
    server.expect(r"process \d+ ended with status 1")
    assert has_processes(server, processes + 1)
    hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (3, hard))
    start = time.monotonic()
    for pid in server.process_ids()[1:]:
        os.kill(pid, signal.SIGKILL)
    for _ in attempts():
        if sum("status 1" in line for line in server.stderr_lines()) >= 3 * processes:
            break
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (hard, hard))
    server.stop()
    crashes = sum("status 1" in line for line in server.stderr_lines())
    assert 3 * processes <= crashes
    assert crashes <= processes * ((time.monotonic() - start) / pause_s + 2)


def test_a_process_that_crashes_is_replaced_if_nobody_reads_the_messages(
    root: Path, arch: str, tmp_path: Path
) -> None:
    if arch not in PROCESSES:
        pytest.skip("there is one process")
    reader, writer = os.pipe()
    command = [program(), "serve", "--arch", arch, "--workers", "2", "--listen", "127.0.0.1:0"]
    with (tmp_path / "stdout").open("wb") as stdout:
        process = subprocess.Popen([*command, str(root)], stdout=stdout, stderr=writer)
    server = Server(process, tmp_path)
    try:
        (tmp_path / "stderr").touch()
        server.wait_until_ready()
        fill(writer)
        crashed = server.process_ids()[1]
        os.kill(crashed, signal.SIGKILL)
        assert any(crashed not in server.process_ids() for _ in attempts())
        assert has_processes(server, 3)
        server.send_signal(signal.SIGTERM)
        assert server.exit_status() == 0
    finally:
        server.kill()
        os.close(reader)
        os.close(writer)


def test_a_process_that_crashes_releases_its_slot(serve: Serve, root: Path, arch: str) -> None:
    if arch not in PROCESSES:
        pytest.skip("there is one process")
    server = serve(root, "--workers", "2", "--max-connections", "1", exact=True)
    server.expect(r"process \d+ was killed by signal 9")
    for _ in range(3):
        with Wire(server.address) as wire:
            assert wire.get("/a.txt").status == 200
            serving = wait_for_the_one_that_serves(server)
            os.kill(serving, signal.SIGKILL)
            assert wire.rest() == b""
    assert get(server.address, "/a.txt").status == 200


def test_processes_that_end_with_their_parent_release_their_slots(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch != "fork":
        pytest.skip("only fork has processes that create other processes")
    server = serve(root, "--workers", "1", "--max-connections", "2", exact=True)
    server.expect(r"process \d+ was killed by signal 9")
    for _ in range(3):
        with Wire(server.address) as one, Wire(server.address) as other:
            assert one.get("/a.txt").status == other.get("/a.txt").status == 200
            os.kill(server.process_ids()[1], signal.SIGKILL)
            assert one.rest() == other.rest() == b""


def serves(pid: int) -> bool:
    """Return whether a process has a connected socket."""
    lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    established = {fields[9] for fields in map(str.split, lines) if fields[3] == "01"}
    return any(link.removeprefix("socket:[")[:-1] in established for link in open_files(pid))


def wait_for_the_one_that_serves(server: Server) -> int:
    """Return the process that serves the only connection.

    The process that accepted the connection may close its own descriptor after the answer.
    """
    for _ in attempts():
        serving = [pid for pid in server.process_ids() if serves(pid)]
        if len(serving) == 1:
            return serving[0]
    raise AssertionError(f"these serve one connection: {serving}")


def limit_processes(server: Server, limit: int) -> None:
    """Limit the number of processes and threads of the server's user, as that user."""
    accepting = str(server.process_ids()[-1])
    user = pwd.getpwnam("nobody")
    subprocess.run(
        ["prlimit", "--pid", accepting, f"--nproc={limit}:"],
        user=user.pw_uid,
        group=user.pw_gid,
        check=True,
    )


def test_no_process_outlives_the_first(serve: Serve, root: Path, arch: str) -> None:
    if arch not in PROCESSES:
        pytest.skip("there is one process")
    server = serve(root, "--workers", "2", exact=True)
    with Wire(server.address) as wire:
        assert wire.get("/a.txt").status == 200
        pids = server.process_ids()
        server.was_checked = True
        server.kill()
        assert wire.rest() == b""
    assert any(not any(is_running(pid) for pid in pids) for _ in attempts())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_connections_wait_until_a_thread_or_process_can_be_created(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch not in ("thread", "fork"):
        pytest.skip("the architecture creates no thread or process per connection")
    for folder in root.parents:
        if folder == Path("/tmp"):
            break
        folder.chmod(folder.stat().st_mode | 0o011)
    server = serve(root, "--workers", "1", "--user", "nobody")
    server.expect("new connections wait: Resource temporarily unavailable")
    limit_processes(server, 0)
    with Wire(server.address) as wire:
        wire.send(request("GET", "/a.txt"))
        for _ in attempts():
            if server.stderr_lines():
                break
        assert not wire.is_readable(0.1)
        limit_processes(server, resource.getrlimit(resource.RLIMIT_NPROC)[0])
        assert wire.response().body == b"hello\n"
    server.stop()
