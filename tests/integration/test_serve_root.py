"""The root's path may come to name another directory, as deployments make it do."""

import shutil
from pathlib import Path

from conftest import Serve, at_once
from server import Server, attempts
from wire import Wire, get

LARGE = 200_000


def make_release(folder: Path, content: bytes) -> Path:
    """Make a directory with a small and a large page."""
    folder.mkdir()
    (folder / "small").write_bytes(content)
    (folder / "large").write_bytes(content * LARGE)
    return folder


def link_to(link: Path, target: Path) -> None:
    """Point a symbolic link at another target, without a moment in which there is no link."""
    fresh = link.with_name("fresh")
    fresh.symlink_to(target)
    fresh.rename(link)


def wait_for(server: Server, target: str, status: int, body: bytes | None = None) -> bool:
    """Return whether a worker answers with this status and body."""
    for _ in attempts():
        response = get(server.address, target)
        if response.status == status and body in (None, response.body):
            return True
    return False


@at_once
def test_a_link_that_is_turned_to_another_directory_is_followed(
    serve: Serve, tmp_path: Path
) -> None:
    first = make_release(tmp_path / "first", b"1")
    second = make_release(tmp_path / "second", b"2")
    (second / "new").write_bytes(b"new")
    current = tmp_path / "current"
    current.symlink_to(first)
    server = serve(current)
    with Wire(server.address) as kept:
        assert kept.get("/small").body == b"1"
        assert kept.get("/large").body == b"1" * LARGE
        assert kept.get("/new").status == 404
        link_to(current, second)
        assert wait_for(server, "/small", 200, b"2")
        assert wait_for(server, "/large", 200, b"2" * LARGE)
        link_to(current, first)
        assert wait_for(server, "/small", 200, b"1")


@at_once
def test_no_request_fails_while_releases_change(serve: Serve, tmp_path: Path) -> None:
    releases = [make_release(tmp_path / name, name.encode()) for name in "ab"]
    current = tmp_path / "current"
    current.symlink_to(releases[0])
    server = serve(current, "--workers", "2")
    bodies: set[bytes] = set()
    for i in attempts():
        link_to(current, releases[i % 2])
        response = get(server.address, "/small")
        assert response.status == 200
        bodies.add(response.body)
        if i > 50 and len(bodies) == len(releases):
            break
    assert bodies == {b"a", b"b"}


@at_once
def test_a_directory_that_was_removed_and_made_again_is_served(
    serve: Serve, tmp_path: Path
) -> None:
    folder = make_release(tmp_path / "folder", b"1")
    server = serve(folder)
    assert get(server.address, "/small").body == b"1"
    shutil.rmtree(folder)
    assert wait_for(server, "/small", 404)
    make_release(folder, b"2")
    assert wait_for(server, "/small", 200, b"2")


@at_once
def test_a_path_that_names_a_file_changes_nothing(serve: Serve, tmp_path: Path) -> None:
    folder = make_release(tmp_path / "folder", b"1")
    (tmp_path / "file").write_bytes(b"no directory")
    current = tmp_path / "current"
    current.symlink_to(folder)
    server = serve(current)
    assert get(server.address, "/small").body == b"1"
    link_to(current, tmp_path / "file")
    for _ in attempts(1):
        response = get(server.address, "/small")
        assert (response.status, response.body) == (200, b"1")
