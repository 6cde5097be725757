"""Addresses and memory: few are needed at the start, and memory is given back after a peak."""

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Serve
from server import Server, attempts, is_built_with, program
from wire import Wire, get_in_turn

pytestmark = pytest.mark.skipif(
    is_built_with("address") or is_built_with("thread"), reason="a sanitizer needs addresses"
)

ADDRESSES_KB = 262144
PEAK = 5000
KEPT_KB = 4608


@pytest.fixture
def few_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start servers under a limit of the address space."""
    script = tmp_path / "limited"
    script.write_text(f'#!/bin/sh\nulimit -v {ADDRESSES_KB}\nexec {program()} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("GOSSAMER_PROGRAM", str(script))


@pytest.fixture
def many_files() -> Iterator[None]:
    """Allow this process as many descriptors as it may have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < PEAK + 1000:
        pytest.skip("the limit of open files is too low")
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def resident_kb(server: Server) -> int:
    """Return the resident memory of the server's process."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("\nVmRSS:")[2].split()[0])


@pytest.mark.usefixtures("few_addresses")
def test_it_starts_and_serves_with_few_addresses(serve: Serve, root: Path, arch: str) -> None:
    if arch not in ("user", "event"):
        pytest.skip("kernel threads and processes take addresses for each connection")
    server = serve(root)
    limits = Path(f"/proc/{server.pid}/limits").read_text()
    assert str(ADDRESSES_KB * 1024) in limits
    wires = [Wire(server.address) for _ in range(50)]
    for _ in range(20):
        assert all(response.body == b"hello\n" for response in get_in_turn(wires, "/a.txt"))
    for wire in wires:
        wire.close()
    assert server.stop()["requests"] == 1000


@pytest.mark.usefixtures("few_addresses", "many_files")
def test_connections_that_find_no_addresses_harm_no_other(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch != "user":
        pytest.skip("only user-level threads take addresses for each connection")
    server = serve(root, "--no-defer-accept")
    server.allow("new connections wait: Cannot allocate memory")
    first = Wire(server.address)
    others = []
    with contextlib.suppress(OSError):
        for i in range(9000):
            others.append(Wire(server.address))
            if i % 500 == 0:
                assert first.get("/a.txt").body == b"hello\n"
    assert first.get("/a.txt").body == b"hello\n"
    for wire in others:
        wire.close()
    for _ in attempts():
        with contextlib.suppress(OSError), Wire(server.address) as wire:
            assert wire.get("/a.txt").body == b"hello\n"
            break


@pytest.mark.usefixtures("many_files")
def test_memory_is_given_back_after_a_peak(serve: Serve, root: Path, arch: str) -> None:
    if arch != "user":
        pytest.skip("the other architectures have no stacks of their own")
    server = serve(root)
    with Wire(server.address) as wire:
        assert wire.get("/a.txt").status == 200
    before = resident_kb(server)
    for _ in range(2):
        wires = [Wire(server.address) for _ in range(PEAK)]
        assert all(response.body == b"hello\n" for response in get_in_turn(wires, "/a.txt"))
        assert resident_kb(server) > before + 3 * KEPT_KB // 2  # even if all have been idle
        for wire in wires:
            wire.close()
        assert any(resident_kb(server) <= before + KEPT_KB for _ in attempts(pause_s=0.1))
