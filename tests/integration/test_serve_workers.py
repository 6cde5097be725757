"""Processes and threads: how many there are, what they are refused, and what if they crash."""

import os
import pwd
import resource
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import Serve, sparse
from server import PROCESSES, Server, attempts, open_files, serves_one_at_a_time
from wire import Wire, get, request

THOUSAND = 1000


def state(pid: int) -> str:
    """Return the state of a process, as /proc tells it; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def lives(pid: int) -> bool:
    """Tell whether a process has not ended."""
    return state(pid) not in ("", "Z", "X")


def comes_to_have(server: Server, processes: int) -> bool:
    """Wait until it has so many processes, and no remains of others."""
    for _ in attempts():
        now = [state(pid) for pid in server.family()]
        if len(now) == processes and "Z" not in now:
            return True
    return False


def raise_descriptors() -> None:
    """Let this process have as many sockets as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def test_a_thousand_clients_at_a_time_are_all_served(serve: Serve, root: Path, way: str) -> None:
    raise_descriptors()
    server = serve(root, "--workers", "2")
    fields = {"Connection": "close"} if serves_one_at_a_time(way) else {}
    wires = [Wire(server.address) for _ in range(THOUSAND)]
    for _ in range(1 if fields else 2):
        for wire in wires:
            wire.send(request("GET", "/digits.txt", **fields))
        for wire in wires:
            assert wire.response().body == b"0123456789" * 10
    for wire in wires:
        wire.close()
    counts = server.stop()
    assert counts["requests"] == THOUSAND * (1 if fields else 2)
    assert (counts["refused"], counts["failed"], counts["slow"]) == (0, 0, 0)


def test_a_pool_closes_a_connection_after_a_hundred_requests(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch != "pool":
        pytest.skip("others have no such limit of their own")
    server = serve(root, exact=True)
    assert server.workers == 150
    with Wire(server.address) as wire:
        for _ in range(99):
            assert not wire.get("/a.txt").closes
        assert wire.get("/a.txt").closes
        assert wire.rest() == b""


def fall_silent(server: Server, how: str) -> Wire:
    """Connect, and then do nothing: at once, between requests, within one, or within an answer."""
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
def test_who_falls_silent_holds_up_only_the_worker_whose_only_client_it_is(
    serve: Serve, root: Path, way: str, arch: str, how: str
) -> None:
    sparse(root / "huge.bin", 100 << 20)
    workers = "4" if arch == "queue" else "2"
    patient = ("--header-timeout", "60s", "--idle-timeout", "60s", "--rate-grace", "60s")
    server = serve(root, "--workers", workers, "--no-defer-accept", *patient, exact=True)
    silent = [fall_silent(server, how) for _ in range(2)]
    with Wire(server.address) as good:
        good.send(request("GET", "/digits.txt"))
        if serves_one_at_a_time(way):
            # In a queue the last to come may be the first to be put there.
            assert arch == "queue" or not good.is_readable(0.05)
            silent.pop().reset()
        assert good.response().body == b"0123456789" * 10
    for wire in silent:
        wire.reset()


def test_a_queue_without_blocking_serves_more_clients_than_it_has_workers(
    serve: Serve, root: Path, way: str
) -> None:
    if way != "queue --nonblocking":
        pytest.skip("this is for workers that wait for nobody")
    server = serve(root, "--workers", "2", exact=True)
    wires = [Wire(server.address) for _ in range(100)]
    for _ in range(3):
        for wire in wires:
            assert wire.get("/a.txt").status == 200
    for wire in wires:
        wire.close()


def test_processes_that_have_ended_leave_nothing(serve: Serve, root: Path, arch: str) -> None:
    if arch != "fork":
        pytest.skip("processes do not end with connections")
    server = serve(root, "--workers", "2")
    assert comes_to_have(server, 3)
    for _ in range(50):
        assert get(server.address, "/a.txt").status == 200
    wires = [Wire(server.address) for _ in range(5)]
    for wire in wires:
        assert wire.get("/a.txt").status == 200
    assert comes_to_have(server, 3 + 5)
    for wire in wires:
        wire.close()
    assert comes_to_have(server, 3)


def test_a_process_that_crashes_is_reported_and_replaced(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch not in PROCESSES:
        pytest.skip("there is one process")
    server = serve(root, "--workers", "2", "--max-connections", "2", exact=True)
    server.expect(r"process \d+ was ended by signal 9")
    assert comes_to_have(server, 3)
    before = server.family()
    for pid in before[1:]:
        os.kill(pid, signal.SIGKILL)
        assert any(pid not in server.family() for _ in attempts())
        assert comes_to_have(server, 3)
    assert not set(before[1:]) & set(server.family())
    assert get(server.address, "/a.txt").status == 200
    server.stop()
    assert sum("signal 9" in line for line in server.complaints()) == 2


def test_a_process_that_crashes_gives_its_place_back(serve: Serve, root: Path, arch: str) -> None:
    if arch not in PROCESSES:
        pytest.skip("there is one process")
    server = serve(root, "--workers", "2", "--max-connections", "1", exact=True)
    server.expect(r"process \d+ was ended by signal 9")
    for _ in range(3):
        with Wire(server.address) as wire:
            assert wire.get("/a.txt").status == 200
            serving = [pid for pid in server.family() if serves(pid)]
            assert len(serving) == 1
            os.kill(serving[0], signal.SIGKILL)
            assert wire.rest() == b""
    assert get(server.address, "/a.txt").status == 200


def test_processes_that_end_with_the_one_that_accepts_give_their_places_back(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch != "fork":
        pytest.skip("no process is begun by another than the first")
    server = serve(root, "--workers", "1", "--max-connections", "2", exact=True)
    server.expect(r"process \d+ was ended by signal 9")
    for _ in range(3):
        with Wire(server.address) as one, Wire(server.address) as other:
            assert one.get("/a.txt").status == other.get("/a.txt").status == 200
            os.kill(server.family()[1], signal.SIGKILL)
            assert one.rest() == other.rest() == b""


def serves(pid: int) -> bool:
    """Tell whether a process has a connection, which is a socket that has a peer."""
    lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    established = {fields[9] for fields in map(str.split, lines) if fields[3] == "01"}
    return any(link.removeprefix("socket:[")[:-1] in established for link in open_files(pid))


def limit_processes(server: Server, limit: int) -> None:
    """Set how many processes and threads its user may have, as only that user can."""
    accepting = str(server.family()[-1])
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
        pids = server.family()
        server.judged = True
        server.kill()
        assert wire.rest() == b""
    assert any(not any(lives(pid) for pid in pids) for _ in attempts())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_who_finds_no_thread_or_process_waits_until_there_is_one(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch not in ("thread", "fork"):
        pytest.skip("none is begun for a connection")
    for folder in root.parents:
        if folder == Path("/tmp"):
            break
        folder.chmod(folder.stat().st_mode | 0o011)
    server = serve(root, "--workers", "1", "--user", "nobody")
    server.expect("can be begun, new connections wait: Resource temporarily unavailable")
    limit_processes(server, 0)
    with Wire(server.address) as wire:
        wire.send(request("GET", "/a.txt"))
        for _ in attempts():
            if server.complaints():
                break
        assert not wire.is_readable(0.1)
        limit_processes(server, resource.getrlimit(resource.RLIMIT_NPROC)[0])
        assert wire.response().body == b"hello\n"
    server.stop()
