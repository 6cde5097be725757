"""Slow disks: those who read from one hold up nobody else."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import Serve, at_once
from server import attempts
from slow_disk import SlowDisk, is_available
from wire import Wire, request

READERS = 16  # more than the threads that the kernel has for io_uring on two processors
SMALL, LARGE = b"small\n", bytes(range(256)) * 4096


@pytest.fixture
def disk(tmp_path: Path, arch: str) -> Iterator[SlowDisk]:
    """Return a file system whose reads of slow.* are held until they are released."""
    if not is_available():
        pytest.skip("file systems cannot be mounted here")
    if arch == "quad":
        pytest.skip("one thread writes to all sockets, whatever it waits for")
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        mounted = SlowDisk(folder, {"a.txt": SMALL, "slow.bin": LARGE, "slow.txt": SMALL})
    except PermissionError:
        pytest.skip("file systems cannot be mounted here")
    with mounted as disk:
        yield disk
        disk.release()


def start(
    serve: Serve, disk: SlowDisk, arch: str, page: str, *arguments: str
) -> tuple[list[Wire], Wire]:
    """Start readers of a page, and return them, once the disk is read, with another client."""
    workers = 4 * READERS if arch == "queue" else 1  # half of those of queue accept
    server = serve(disk.folder, "--workers", str(workers), *arguments)
    readers = [Wire(server.address) for _ in range(READERS)]
    for wire in readers:
        wire.send(request("GET", page))
    assert any(disk.is_used() for _ in attempts())
    return readers, Wire(server.address)


@pytest.mark.parametrize(("page", "body"), [("/slow.bin", LARGE), ("/slow.txt", SMALL)])
def test_readers_of_a_slow_disk_hold_up_nobody(
    serve: Serve, disk: SlowDisk, arch: str, page: str, body: bytes
) -> None:
    readers, other = start(serve, disk, arch, page)
    for _ in range(20):
        assert other.get("/a.txt").body == SMALL
    assert disk.is_used()
    disk.release()
    for wire in readers:
        assert wire.response().body == body
        wire.close()
    other.close()


@at_once
def test_the_time_that_a_disk_takes_is_not_the_clients(
    serve: Serve, disk: SlowDisk, arch: str
) -> None:
    readers, other = start(serve, disk, arch, "/slow.bin", "--rate-grace", "500ms")
    other.close()
    time.sleep(1.2)
    # All read at the same time, because each must receive some of its page every half second.
    with ThreadPoolExecutor(READERS) as pool:
        bodies = pool.map(lambda wire: wire.response().body, readers)
        disk.release()
        assert all(body == LARGE for body in bodies)
    for wire in readers:
        wire.close()


def test_a_client_of_a_slow_disk_may_leave(serve: Serve, disk: SlowDisk, arch: str) -> None:
    readers, other = start(serve, disk, arch, "/slow.bin")
    for wire in readers[1:]:
        wire.reset()
    for _ in range(20):
        assert other.get("/a.txt").body == SMALL
    disk.release()
    assert readers[0].response().body == LARGE
    readers[0].close()
    other.close()


@at_once
def test_a_log_on_a_disk_that_does_not_answer_holds_up_nobody(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    if not is_available():
        pytest.skip("file systems cannot be mounted here")
    folder = tmp_path / "logs"
    folder.mkdir()
    try:
        mounted = SlowDisk(folder, {"slow.log": b""}, is_writable=True)
    except PermissionError:
        pytest.skip("file systems cannot be mounted here")
    with mounted as disk:
        server = serve(root, "--access-log", str(folder / "slow.log"), "--workers", "2")
        server.expect("the access log can't be written, lines are lost")
        server.expect("lines of the access log were lost")
        server.expect("the last lines of the access log are lost: its disk does not answer")
        with Wire(server.address) as wire:
            assert wire.get("/a.txt").status == 200
            assert any(disk.is_used() for _ in attempts())
            for _ in range(600):  # more than the pipe before the log takes
                assert wire.get("/a.txt", User_Agent="a" * 4000).status == 200
        server.send_signal(signal.SIGTERM)
        lost = "the last lines of the access log are lost"
        assert any(lost in line for _ in attempts() for line in server.stderr_lines())
        disk.release()
        server.wait()
