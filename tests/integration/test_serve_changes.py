"""Large files that are changed in place, replaced or deleted while they are cached.

All architectures are tested at once, because descriptors are released only after two seconds.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Starter
from server import Server, attempts, configurations, open_files
from wire import Wire

SIZE = 200_000


@pytest.fixture
def servers(tmp_path: Path, root: Path) -> Iterator[list[Server]]:
    """Return a server of each architecture."""
    (root / "large.bin").write_bytes(b"A" * SIZE)
    starters = [
        Starter(tmp_path / f"servers-{index}", configuration)
        for index, configuration in enumerate(configurations())
    ]
    try:
        yield [starter(root, "--workers", "1") for starter in starters]
        for starter in starters:
            starter.stop()
    finally:
        for starter in starters:
            starter.clean()


def has_deleted_file(server: Server) -> bool:
    """Return whether a process of the server has a file open that was deleted."""
    links = [link for pid in server.process_ids() for link in open_files(pid)]
    return any(link.endswith("large.bin (deleted)") for link in links)


def test_answers_and_descriptors(servers: list[Server], root: Path) -> None:
    large = root / "large.bin"
    wires = [Wire(server.address) for server in servers]
    assert {len(wire.get("/large.bin").body) for wire in wires} == {SIZE}
    with large.open("r+b") as file:
        file.truncate(SIZE // 2)
    assert {wire.get("/large.bin").body for wire in wires} == {b"A" * (SIZE // 2)}
    with large.open("r+b") as file:
        file.write(b"B" * SIZE)
    assert {wire.get("/large.bin").body for wire in wires} == {b"B" * SIZE}
    # Nobody asks for anything any more; the connections stay open.
    large.unlink()
    assert any(not any(map(has_deleted_file, servers)) for _ in attempts())
    for wire in wires:
        assert wire.get("/a.txt").status == 200
        wire.close()
