"""Paths: only files below the root are served, however a path is encoded, and no hidden ones."""

import os
import threading
from pathlib import Path

import pytest
from conftest import Serve
from server import Server
from wire import Wire, get

SECRET = b"secret: not below the root\n"


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root with hidden files, special names and links, and with secrets beside it."""
    base = tmp_path_factory.mktemp("paths")
    root = base / "root"
    (root / "sub" / "deep").mkdir(parents=True)
    (base / "secret").write_bytes(SECRET)
    (base / "rootsecret").write_bytes(SECRET)
    (root / "a.txt").write_bytes(b"hello\n")
    (root / "with space.txt").write_bytes(b"space\n")
    (root / "p%41.txt").write_bytes(b"percent\n")
    (root / "d\u00e4.txt").write_bytes(b"umlaut\n")
    (root / "\u00fc").mkdir()
    (root / "sub" / "index.html").write_bytes(b"sub\n")
    (root / ".hidden").write_bytes(b"hidden\n")
    (root / "..name").write_bytes(b"hidden too\n")
    (root / "sub" / ".git").mkdir()
    (root / "sub" / ".git" / "config").write_bytes(b"hidden\n")
    (root / ".well-known").mkdir()
    (root / ".well-known" / "known.txt").write_bytes(b"known\n")
    (root / ".well-known" / ".hidden").write_bytes(b"hidden\n")
    (root / "sub" / ".well-known").mkdir()
    (root / "sub" / ".well-known" / "known.txt").write_bytes(b"hidden\n")
    (root / "inside").symlink_to("a.txt")
    (root / "sub" / "inside").symlink_to("../a.txt")
    (root / "out").symlink_to("../secret")
    (root / "out-by-name").symlink_to(base / "secret")
    (root / "out-by-folder").symlink_to("..")
    (root / "in-by-name").symlink_to(root / "a.txt")
    (root / "sub-by-name").symlink_to(root / "sub")
    (root / "root-by-name").symlink_to(root)
    (root / "etc").symlink_to("/etc")
    (root / "circle").symlink_to("circle")
    (root / "self").symlink_to("/proc/self")
    os.mkfifo(root / "pipe")
    return root


OUTSIDE = [
    "/../secret",
    "/..",
    "/../",
    "/../root/a.txt",
    "/./../secret",
    "/sub/../../secret",
    "/sub/deep/../../../secret",
    "/nonesuch/../../secret",
    "/a.txt/../../secret",
    "//../secret",
    "/..//secret",
    "/.././secret",
    "/%2e%2e/secret",
    "/%2E%2E/secret",
    "/.%2e/secret",
    "/%2e./secret",
    "/sub/%2e%2e/%2e%2e/secret",
    "/%2e%2e%2fsecret",
    "/..%2fsecret",
    "/..%2Fsecret",
    "/sub/..%2f..%2fsecret",
    "/%252e%252e/secret",
    "/..%252fsecret",
    "/..\\secret",
    "/..%5csecret",
    "/%5c..%5csecret",
    "\\..\\secret",
    "/sub\\..\\..\\secret",
    "/%c0%ae%c0%ae/secret",
    "/%c0%ae%c0%ae%c0%afsecret",
    "/%e0%80%ae%e0%80%ae/secret",
    "/%u002e%u002e/secret",
    "/..;/secret",
    "/..%00/secret",
    "/..%00",
    "/%2e%2e%00/secret",
    "/..secret",
    "/.../secret",
    "/..%09/secret",
    "/%2f%2e%2e%2fsecret",
    "//secret",
    "///secret",
    "/%2fsecret",
    "/out",
    "/out-by-name",
    "/out-by-folder/secret",
    "/out-by-folder/",
    "/sub-by-name/../out-by-name",
    "/root-by-name/out-by-name",
    "/root-by-name/rootsecret",
    "/etc/nonesuch",
    "/sub/../out-by-folder/secret",
    "/circle",
    "/self/cwd/secret",
    "/self/root/etc/passwd",
    "/self/fd/0",
    "/proc/self/environ",
    "/etc/passwd",
    "//etc/passwd",
    "/%2fetc/passwd",
    "http://x/../secret",
    "http://x/%2e%2e/secret",
    "http://x/out",
    "/a.txt/",
    "/a.txt/.",
    "/a.txt%00",
    "/a.txt%00.html",
    "/a%00.txt",
    "/a.txt%",
    "/a.txt%4",
    "/a.txt%zz",
    "/a.txt%0d%0aX:y",
    "/pipe",
]


@pytest.mark.parametrize("target", OUTSIDE)
def test_nothing_outside_the_root_is_served(shared: Server, target: str) -> None:
    with Wire(shared.address) as wire:
        response = wire.get(target)
        assert 400 <= response.status < 500, response
        assert SECRET not in response.body
        assert b"root:" not in response.body


HIDDEN = [
    "/.hidden",
    "/%2ehidden",
    "/%2Ehidden",
    "//.hidden",
    "/./.hidden",
    "/sub/../.hidden",
    "/..name",
    "/sub/.git/config",
    "/sub/.git/",
    "/sub/.git",
    "/sub/%2egit/config",
    "/.well-known/.hidden",
    "/sub/.well-known/known.txt",
    "/.well-known/../.hidden",
    "/.well-knownx",
]


@pytest.mark.parametrize("target", HIDDEN)
def test_hidden_files_are_as_if_they_were_not_there(shared: Server, target: str) -> None:
    assert get(shared.address, target).status == 404


SERVED = {
    "/a.txt": b"hello\n",
    "//a.txt": b"hello\n",
    "/./a.txt": b"hello\n",
    "/%61.txt": b"hello\n",
    "/%61%2etxt": b"hello\n",
    "/sub/../a.txt": b"hello\n",
    "/sub/%2e%2e/a.txt": b"hello\n",
    "/sub//..///a.txt": b"hello\n",
    "/nonesuch/../a.txt": b"hello\n",
    "/a.txt?../secret": b"hello\n",
    "/a.txt?": b"hello\n",
    "http://other/a.txt": b"hello\n",
    "HTTP://OTHER:80/a.txt": b"hello\n",
    "/inside": b"hello\n",
    "/sub/inside": b"hello\n",
    "/in-by-name": b"hello\n",
    "/sub-by-name/": b"sub\n",
    "/sub-by-name/inside": b"hello\n",
    "/root-by-name/a.txt": b"hello\n",
    "/root-by-name/sub-by-name/": b"sub\n",
    "/with%20space.txt": b"space\n",
    "/p%2541.txt": b"percent\n",
    "/d%c3%a4.txt": b"umlaut\n",
    "/sub/": b"sub\n",
    "/sub/.": b"sub\n",
    "/sub/deep/..": b"sub\n",
    "/.well-known/known.txt": b"known\n",
    "/%2ewell-known/known.txt": b"known\n",
}


@pytest.mark.parametrize("target", SERVED)
def test_a_name_may_be_spelled_in_many_ways(shared: Server, target: str) -> None:
    response = get(shared.address, target)
    assert (response.status, response.body) == (200, SERVED[target])


REDIRECTED = {
    "/sub": "/sub/",
    "/sub-by-name": "/sub-by-name/",
    "/sub?a=b": "/sub/?a=b",
    "//sub": "/sub/",
    "/%73ub": "/%73ub/",
}


RAW = {
    b"/d\xc3\xa4.txt": b"umlaut\n",
    b"/d%c3\xa4.txt": None,
    b"/a.txt?\xe2\x82\xac": b"hello\n",
    b"http://x/d\xc3\xa4.txt": b"umlaut\n",
    b"/d\xe4.txt": None,
    b"/..\xc0\xafsecret": None,
    b"/\xc0\xae\xc0\xae/secret": None,
}


@pytest.mark.parametrize("target", RAW)
def test_raw_utf8_means_its_escaped_form(shared: Server, target: bytes) -> None:
    with Wire(shared.address) as wire:
        wire.send(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        response = wire.response()
    assert (response.status, response.body if RAW[target] else None) == (
        200 if RAW[target] else 400,
        RAW[target],
    )


def test_a_redirect_has_the_escaped_form(shared: Server) -> None:
    with Wire(shared.address) as wire:
        wire.send(b"GET /\xc3\xbc?\xe2\x82\xac HTTP/1.1\r\nHost: x\r\n\r\n")
        response = wire.response()
    assert (response.status, response.fields["location"]) == (301, "/%C3%BC/?%E2%82%AC")


@pytest.mark.parametrize("target", REDIRECTED)
def test_a_folder_without_its_slash_is_redirected(shared: Server, target: str) -> None:
    response = get(shared.address, target)
    assert (response.status, response.fields["location"]) == (301, REDIRECTED[target])


def test_a_folder_without_an_index_is_not_listed(shared: Server) -> None:
    assert get(shared.address, "/sub/deep/").status == 403


def test_names_behind_a_link_exist_for_clients_only_inside(shared: Server) -> None:
    assert get(shared.address, "/sub-by-name/nonesuch").status == 404
    assert get(shared.address, "/sub-by-name/nonesuch/below").status == 404
    assert get(shared.address, "/etc/passwd").status == 403
    assert get(shared.address, "/etc/nonesuch").status == 403
    assert get(shared.address, "/etc/nonesuch/below").status == 403


def test_dotfiles_are_served_on_request(serve: Serve, shared_root: Path) -> None:
    server = serve(shared_root, "--dotfiles")
    assert get(server.address, "/.hidden").body == b"hidden\n"
    assert get(server.address, "/sub/.git/config").body == b"hidden\n"
    assert get(server.address, "/../secret").status == 400


def test_symbolic_links_out_are_followed_on_request(serve: Serve, shared_root: Path) -> None:
    server = serve(shared_root, "--follow-symlinks")
    for target in ("/out", "/out-by-name", "/out-by-folder/secret"):
        assert get(server.address, target).body == SECRET
    assert get(server.address, "/in-by-name").body == b"hello\n"
    assert get(server.address, "/../secret").status == 400
    assert get(server.address, "/circle").status == 403
    assert get(server.address, "/self/root/etc/passwd").status == 403


def test_a_link_that_is_turned_outwards_is_not_followed(serve: Serve, root: Path) -> None:
    (root.parent / "secret").write_bytes(SECRET)
    link = root / "link"
    link.symlink_to("a.txt")
    server = serve(root, "--workers", "1")
    with Wire(server.address) as wire:
        for i in range(200):
            (root / "next").symlink_to("../secret" if i % 2 else "a.txt")
            (root / "next").rename(link)
            response = wire.get(f"/link?{i}")
            assert SECRET not in response.body
            assert response.status in (200, 403)


def turn_until(done: threading.Event, link: Path, targets: list[Path]) -> None:
    """Let the link lead to each target in turn, until the event."""
    following = link.with_name("following")
    while not done.is_set():
        for target in targets:
            following.symlink_to(target)
            following.rename(link)


def test_a_directory_that_is_turned_outwards_meanwhile_is_not_entered(
    serve: Serve, root: Path
) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "index.html").write_bytes(SECRET)
    (root / "link").symlink_to(root / "sub")
    (root / "entry").symlink_to(root / "link")
    server = serve(root, "--page-cache", "0", "--workers", "1")
    done = threading.Event()
    turner = threading.Thread(
        target=turn_until, args=(done, root / "link", [outside, root / "sub", root / "sub/.."])
    )
    turner.start()
    try:
        with Wire(server.address) as wire:
            for i in range(300):
                response = wire.get(f"/entry/?{i}")
                assert SECRET not in response.body
                assert response.status in (200, 403, 404)
    finally:
        done.set()
        turner.join()
