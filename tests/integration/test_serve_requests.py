"""Requests over sockets: keep-alive, pipelining, ranges, and files that change."""

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SMALL, Serve, at_once, sparse
from server import Server, attempts
from wire import EndedError, Wire, get, request

LARGE = bytes(range(256)) * 4096


def test_a_connection_is_kept_for_further_requests(shared: Server) -> None:
    with Wire(shared.address) as wire:
        for _ in range(50):
            assert wire.get("/a.txt").body == b"hello\n"
            assert wire.get("/").body == SMALL


def test_a_connection_is_closed_when_the_client_wishes(shared: Server) -> None:
    with Wire(shared.address) as wire:
        response = wire.get("/a.txt", Connection="close")
        assert response.closes
        assert wire.rest() == b""


@pytest.mark.parametrize("kept", [False, True])
def test_http_1_0_keeps_a_connection_only_on_request(shared: Server, kept: bool) -> None:
    field = b"Connection: keep-alive\r\n" if kept else b""
    with Wire(shared.address) as wire:
        wire.send(b"GET /a.txt HTTP/1.0\r\n" + field + b"\r\n")
        response = wire.response()
        assert response.body == b"hello\n"
        if kept:
            assert response.fields["connection"] == "keep-alive"
            assert wire.get("/a.txt").status == 200
        else:
            assert wire.rest() == b""


def test_a_connection_ends_after_the_most_requests_that_it_may_have(
    serve: Serve, root: Path
) -> None:
    server = serve(root, "--requests-per-connection", "3")
    with Wire(server.address) as wire:
        assert [wire.get("/a.txt").closes for _ in range(3)] == [False, False, True]
        assert wire.rest() == b""


def test_a_thousand_pipelined_requests_are_answered_in_order(shared: Server) -> None:
    with Wire(shared.address) as wire:
        targets = ["/a.txt", "/digits.txt", "/nonesuch", "/empty.txt"] * 250
        data = b"".join(request("GET", target) for target in targets)
        sender = threading.Thread(target=wire.send, args=(data,))
        sender.start()
        expected = [(200, b"hello\n"), (200, b"0123456789" * 10), (404, None), (200, b"")] * 250
        for status, body in expected:
            response = wire.response()
            assert response.status == status
            assert body is None or response.body == body
        sender.join()
        assert not wire.is_readable(0.01)


def test_large_and_small_pages_may_be_pipelined(shared: Server) -> None:
    with Wire(shared.address) as wire:
        targets = ["/large.bin", "/a.txt"] * 4
        wire.send(b"".join(request("GET", target) for target in targets))
        for target in targets:
            assert wire.response().body == (LARGE if target == "/large.bin" else b"hello\n")


def test_requests_may_arrive_byte_by_byte(shared: Server) -> None:
    with Wire(shared.address) as wire:
        for _ in range(3):
            wire.send_bytewise(request("GET", "/a.txt", X_Some="thing"))
            assert wire.response().body == b"hello\n"


def test_head_is_answered_like_get_but_without_the_body(shared: Server) -> None:
    with Wire(shared.address) as wire:
        for target in ("/a.txt", "/large.bin", "/nonesuch", "/sub"):
            whole, head = wire.get(target), wire.request("HEAD", target)
            assert head.status == whole.status
            whole.fields.pop("date")
            head.fields.pop("date")
            assert head.fields == whole.fields
        assert wire.get("/a.txt").body == b"hello\n"


def test_a_large_file_arrives_whole(serve: Serve, root: Path) -> None:
    size = 24 << 20
    digest = hashlib.sha1()
    with sparse(root / "huge.bin", size).open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    server = serve(root)
    received = hashlib.sha1()
    with Wire(server.address) as wire:
        wire.send(request("GET", "/huge.bin", Connection="close"))
        assert wire.head().fields["content-length"] == str(size)
        left = size
        while part := wire.receive():
            received.update(part)
            left -= len(part)
    assert left == 0
    assert received.digest() == digest.digest()


RANGES = {
    "bytes=0-9": (0, 10),
    "bytes=10-": (10, None),
    "bytes=-7": (-7, None),
    "bytes=1048575-": (1048575, None),
    "bytes=500000-600000": (500000, 600001),
    "bytes=1048570-99999999": (1048570, None),
}


@pytest.mark.parametrize("value", RANGES)
def test_a_range_is_sent_of_a_large_file(shared: Server, value: str) -> None:
    first, end = RANGES[value]
    with Wire(shared.address) as wire:
        response = wire.get("/large.bin", Range=value)
        assert response.status == 206
        assert response.body == LARGE[first:end]
        start = first if first >= 0 else len(LARGE) + first
        last = start + len(response.body) - 1
        assert response.fields["content-range"] == f"bytes {start}-{last}/{len(LARGE)}"
        assert wire.get("/a.txt").status == 200


@pytest.mark.parametrize("target", ["/digits.txt", "/large.bin"])
def test_several_ranges_are_sent_in_parts(shared: Server, target: str) -> None:
    whole = b"0123456789" * 10 if target == "/digits.txt" else LARGE
    with Wire(shared.address) as wire:
        response = wire.get(target, Range="bytes=0-3,50-59,-5")
        assert response.status == 206
        boundary = response.fields["content-type"].partition("boundary=")[2].encode()
        _, *parts, end = response.body.split(b"--" + boundary)
        assert end == b"--\r\n"
        bodies = [re.split(b"\r\n\r\n", part, maxsplit=1)[1][:-2] for part in parts]
        assert bodies == [whole[0:4], whole[50:60], whole[-5:]]
        assert wire.get("/a.txt").status == 200


def test_a_range_behind_the_end_is_refused(shared: Server) -> None:
    with Wire(shared.address) as wire:
        response = wire.get("/digits.txt", Range="bytes=100-")
        assert response.status == 416
        assert response.fields["content-range"] == "bytes */100"
        assert wire.get("/a.txt").status == 200


def test_a_page_that_the_client_has_cached_is_not_sent(shared: Server) -> None:
    with Wire(shared.address) as wire:
        first = wire.get("/a.txt")
        tag, date = first.fields["etag"], first.fields["last-modified"]
        assert wire.get("/a.txt", If_None_Match=tag).status == 304
        assert wire.get("/a.txt", If_None_Match=f'"other", W/{tag}').status == 304
        assert wire.get("/a.txt", If_None_Match='"other"').body == b"hello\n"
        assert wire.get("/a.txt", If_Modified_Since=date).status == 304
        assert wire.get("/a.txt", If_Match='"other"').status == 412
        assert wire.get("/a.txt", If_Match=tag).status == 200
        assert wire.get("/a.txt", Range="bytes=0-0", If_Range='"other"').status == 200


@at_once
def test_a_changed_file_is_served_within_a_second(serve: Serve, root: Path) -> None:
    server = serve(root, "--workers", "1")
    with Wire(server.address) as wire:
        former = wire.get("/a.txt")
        large = wire.get("/large.bin")
        (root / "a.txt").write_bytes(b"other\n")
        (root / "large.bin").write_bytes(LARGE[::-1])
        (root / "sub" / "index.html").unlink()
        time.sleep(1)
        assert wire.get("/a.txt").body == b"other\n"
        assert wire.get("/large.bin").body == LARGE[::-1]
        assert wire.get("/a.txt", If_None_Match=former.fields["etag"]).status == 200
        assert wire.get("/large.bin", If_None_Match=large.fields["etag"]).status == 200
        assert wire.get("/sub/").status == 403
        (root / "new.txt").write_bytes(b"new")
        assert wire.get("/new.txt").body == b"new"


@pytest.mark.parametrize("size", [600, 200_000])
def test_a_file_replaced_by_rename_is_served_as_one_or_the_other(
    serve: Serve, root: Path, size: int
) -> None:
    server = serve(root, "--workers", "2")
    page, bodies = root / "page.txt", [b"A" * size, b"B" * (size + 1)]
    page.write_bytes(bodies[0])
    stop = threading.Event()
    seen: list[set[int]] = [set(), set(), set()]

    def read(i: int) -> None:
        with Wire(server.address) as wire:
            while not stop.wait(0.001):
                body = wire.get("/page.txt").body
                seen[i].add(bodies.index(body) if body in bodies else -1)

    readers = [threading.Thread(target=read, args=(i,)) for i in range(len(seen))]
    for reader in readers:
        reader.start()
    for i in attempts(pause_s=0.021):
        (root / "next").write_bytes(bodies[i % 2])
        (root / "next").rename(page)
        if i > 15 and all(len(numbers) >= len(bodies) for numbers in seen):
            break
    stop.set()
    for reader in readers:
        reader.join()
    assert seen == [{0, 1}] * 3


def cut(file: Path) -> None:
    os.truncate(file, 1 << 20)


def rewrite_shorter(file: Path) -> None:
    file.write_bytes(b"short")


def grow(file: Path) -> None:
    os.truncate(file, 65 << 20)


@pytest.mark.parametrize("change", [cut, rewrite_shorter, grow])
def test_a_file_changed_in_mid_transfer_closes_the_connection(
    serve: Serve, root: Path, change: Callable[[Path], None]
) -> None:
    sparse(root / "huge.bin", 64 << 20)
    server = serve(root)
    server.expect('an answer was broken off: "/huge.bin": the file has changed')
    with Wire(server.address, receive_buffer=65536) as wire:
        wire.send(request("GET", "/huge.bin") + request("GET", "/a.txt"))
        length = int(wire.head().fields["content-length"])
        wire.body(65536)
        change(root / "huge.bin")
        with pytest.raises((EndedError, ConnectionResetError)):
            wire.body(length - 65536)
    assert get(server.address, "/a.txt").body == b"hello\n"


def test_a_body_is_read_and_forgotten(shared: Server) -> None:
    with Wire(shared.address) as wire:
        body = b"GET /nonesuch HTTP/1.1\r\nHost: x\r\n\r\n" * 100
        head = b"GET /a.txt HTTP/1.1\r\nHost: x\r\n"
        wire.send(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert wire.response().body == b"hello\n"
        chunk = b"%x\r\n%s\r\n" % (len(body), body)
        wire.send(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 5 + b"0\r\n\r\n")
        assert wire.response().body == b"hello\n"
        assert wire.get("/digits.txt").status == 200


def test_expect_100_continue_is_answered(shared: Server) -> None:
    with Wire(shared.address) as wire:
        wire.send(request("GET", "/a.txt", Content_Length="3", Expect="100-continue"))
        assert wire.response().status == 100
        wire.send(b"abc")
        assert wire.response().body == b"hello\n"
