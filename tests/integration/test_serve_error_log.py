"""The messages on standard error, and their levels."""

import os
import re
from pathlib import Path

from conftest import Serve
from server import run_serve
from wire import Wire, get

REFUSED = r'^gossamer serve: 40[34] "|^gossamer serve: \d+ more refusals are not shown$'
SHOWN_PER_SECOND = 10


def test_at_info_each_refusal_has_its_reason(serve: Serve, root: Path) -> None:
    (root / "out").symlink_to("/etc/passwd")
    (root / "bare").mkdir()
    os.mkfifo(root / "pipe")
    server = serve(root, "--log-level", "info", "--workers", "2")
    server.expect(REFUSED)
    for path in ("/none", "/.git/config", "/out", "/bare/", "/pipe", "/%22%C3%A4%20"):
        assert get(server.address, path).status in (403, 404)
    assert get(server.address, "/a.txt").status == 200
    server.stop()
    lines = [line for line in server.stderr_lines() if re.search(REFUSED, line)]
    assert sorted(lines) == sorted(
        f"gossamer serve: {text}"
        for text in (
            '404 "/none": not found',
            '404 "/.git/config": a name begins with a dot (see --dotfiles)',
            '403 "/out": a symbolic link leads out of ROOT (see --follow-symlinks)',
            '403 "/bare/": the directory has no index.html (see --list)',
            '403 "/pipe": not a regular file',
            r'404 "/\x22\xC3\xA4 ": not found',
        )
    )


MALFORMED = {
    b"GET /a\x01b HTTP/1.1\r\nHost: x\r\n\r\n": (
        r'400 "GET /a\x01b HTTP/1.1": a control character, or a line that does not end with CR LF'
    ),
    b'GET /a"b HTTP/1.1\r\nHost: x\r\n\r\n': (
        r'400 "GET /a\x22b HTTP/1.1": the request line is malformed'
    ),
    b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n": (
        '400 "GET /%zz HTTP/1.1": the path has a malformed escape, or leads above ROOT'
    ),
    b"GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n": (
        '400 "GET / HTTP/1.1": a header field is malformed'
    ),
    b"GET / HTTP/1.1\r\n\r\n": '400 "GET / HTTP/1.1": there is no Host field',
}


def test_at_info_malformed_requests_have_their_line_and_reason(serve: Serve, root: Path) -> None:
    server = serve(root, "--log-level", "info", "--workers", "2")
    server.expect(r'^gossamer serve: 400 "')
    for sent in MALFORMED:
        with Wire(server.address) as wire:
            wire.send(sent)
            assert wire.response().status == 400
    server.stop()
    lines = [line for line in server.stderr_lines() if ": 400 " in line]
    assert sorted(lines) == sorted(f"gossamer serve: {text}" for text in MALFORMED.values())


def test_a_flood_of_refusals_is_counted_and_not_shown(serve: Serve, root: Path) -> None:
    server = serve(root, "--log-level", "info", "--workers", "4")
    server.expect(REFUSED)
    count = 0
    for _ in range(8):
        with Wire(server.address) as wire:
            for _ in range(50):
                assert wire.get("/nonesuch").status == 404
                count += 1
    server.stop()
    lines = server.stderr_lines()
    shown = sum('404 "/nonesuch": not found' in line for line in lines)
    others = [
        re.match(r"gossamer serve: (\d+) more refusals are not shown", line) for line in lines
    ]
    assert shown + sum(int(match[1]) for match in others if match) == count
    assert shown >= SHOWN_PER_SECOND


def test_by_default_no_refusal_is_shown(serve: Serve, root: Path) -> None:
    server = serve(root)
    assert get(server.address, "/nonesuch").status == 404
    assert server.stop()["refused"] == 1
    assert len(server.stderr_lines()) == 1


def test_at_error_the_server_ends_without_a_summary(root: Path, serve: Serve) -> None:
    server = serve(root, "--log-level", "error")
    assert get(server.address, "/nonesuch").status == 404
    server.was_checked = True
    server.process.terminate()
    assert server.process.wait() == 0
    assert server.stderr_lines() == []


def test_an_unknown_level_is_refused(root: Path) -> None:
    done = run_serve("--log-level", "debug", str(root))
    assert done.returncode == 2
    assert done.stderr == "gossamer serve: --log-level debug: it is error, warn or info\n"
