"""Slow disks: those who read from one hold up nobody else."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from conftest import Serve, at_once
from server import attempts
from slow_disk import SlowDisk, is_available
from wire import Wire, request

READERS = 16  # more than the threads that the kernel has for io_uring on two processors
SMALL, LARGE = b"small\n", bytes(range(256)) * 4096


@contextmanager
def mounted(folder: Path, files: dict[str, bytes], is_writable: bool = False) -> Iterator[SlowDisk]:
    """Mount a file system that holds reads and writes of slow.* until they are released."""
    if not is_available():
        pytest.skip("file systems cannot be mounted here")
    folder.mkdir()
    try:
        disk = SlowDisk(folder, files, is_writable)
    except PermissionError:
        pytest.skip("file systems cannot be mounted here")
    with disk:
        yield disk
        disk.release()


@contextmanager
def reading(
    serve: Serve, folder: Path, arch: str, page: str, *arguments: str
) -> Iterator[tuple[SlowDisk, list[Wire], Wire]]:
    """Yield a disk that is being read, those who read a page from it, and another client."""
    if arch == "quad":
        pytest.skip("one thread writes to all sockets, whatever it waits for")
    workers = 4 * READERS if arch == "queue" else 1  # half of those of queue accept
    files = {"a.txt": SMALL, "slow.bin": LARGE, "slow.txt": SMALL}
    with ExitStack() as stack:
        disk = stack.enter_context(mounted(folder / "disk", files))
        server = serve(disk.folder, "--workers", str(workers), *arguments)
        # The file system's process answers fstat at once, or when a busy machine has run it.
        server.allow('^stuck: thread ".*" has been in system call 5 for ')
        readers = [stack.enter_context(Wire(server.address)) for _ in range(READERS)]
        for wire in readers:
            wire.send(request("GET", page))
        assert any(disk.is_used() for _ in attempts())
        yield disk, readers, stack.enter_context(Wire(server.address))


@pytest.mark.parametrize(("page", "body"), [("/slow.bin", LARGE), ("/slow.txt", SMALL)])
def test_readers_of_a_slow_disk_hold_up_nobody(
    serve: Serve, tmp_path: Path, arch: str, page: str, body: bytes
) -> None:
    with reading(serve, tmp_path, arch, page) as (disk, readers, other):
        for _ in range(20):
            assert other.get("/a.txt").body == SMALL
        assert disk.is_used()
        disk.release()
        for wire in readers:
            assert wire.response().body == body


@at_once
def test_the_time_that_a_disk_takes_is_not_the_clients(
    serve: Serve, tmp_path: Path, arch: str
) -> None:
    given = (serve, tmp_path, arch, "/slow.bin", "--rate-grace", "500ms")
    with reading(*given) as (disk, readers, other):
        other.close()
        time.sleep(1.2)
        # All read at the same time, because each must receive some of its page every half second.
        with ThreadPoolExecutor(READERS) as pool:
            bodies = pool.map(lambda wire: wire.response().body, readers)
            disk.release()
            assert all(body == LARGE for body in bodies)


def test_a_client_of_a_slow_disk_may_leave(serve: Serve, tmp_path: Path, arch: str) -> None:
    with reading(serve, tmp_path, arch, "/slow.bin") as (disk, readers, other):
        for wire in readers[1:]:
            wire.reset()
        for _ in range(20):
            assert other.get("/a.txt").body == SMALL
        disk.release()
        assert readers[0].response().body == LARGE


@at_once
def test_a_log_on_a_disk_that_does_not_answer_holds_up_nobody(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "logs"
    with mounted(folder, {"slow.log": b""}, is_writable=True) as disk:
        server = serve(root, "--access-log", str(folder / "slow.log"), "--workers", "2")
        server.expect("the access log can't be written, lines are lost")
        server.expect("lines of the access log were lost")
        server.expect("the last lines of the access log are lost: its disk does not answer")
        with Wire(server.address) as wire:
            assert wire.get("/a.txt").status == 200
            assert any(disk.is_used() for _ in attempts())
            for _ in range(1500):  # more than the pipe before the log takes
                assert wire.get("/a.txt", User_Agent="a" * 900).status == 200
        server.send_signal(signal.SIGTERM)
        lost = "the last lines of the access log are lost"
        assert any(lost in line for _ in attempts() for line in server.stderr_lines())
        disk.release()
        server.wait()
