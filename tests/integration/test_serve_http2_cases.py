"""The cases and the tests of HTTP/1's requests, over HTTP/2."""

import inspect
import traceback
from collections.abc import Callable

import http2_cases
import pytest
import strict_cases
import test_serve_requests
from http2_wire import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    Http2Wire,
    ResetError,
    frame,
    translate,
)
from server import Server, has_http2
from wire import EndedError, request

pytestmark = pytest.mark.skipif(not has_http2(), reason="built without libnghttp2")

# Tests that use what HTTP/2 has not: fields of a connection, chunks, and streams without a limit.
LEFT_OUT = {
    "test_a_connection_is_closed_when_the_client_wishes",
    "test_http_1_0_keeps_a_connection_only_on_request",
    "test_a_body_is_read_and_forgotten",
    "test_a_thousand_pipelined_requests_are_answered_in_order",
}

for name, item in vars(test_serve_requests).items():
    is_shared = name.startswith("test_") and "shared" in inspect.signature(item).parameters
    if is_shared and name not in LEFT_OUT:
        globals()[name] = item


@pytest.fixture(autouse=True)
def over_http2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests of HTTP/1 speak HTTP/2."""
    monkeypatch.setattr(test_serve_requests, "Wire", Http2Wire)


def end_of(wire: Http2Wire) -> int:
    """Return the status of the next response, or the negated error."""
    try:
        return wire.response().status
    except ResetError as reset:
        return -reset.error


@pytest.mark.parametrize("send", [Http2Wire.send_frames, Http2Wire.send_frames_bytewise])
def test_cases_end_as_in_http_1(shared: Server, send: Callable[[Http2Wire, bytes], None]) -> None:
    failed = []
    with Http2Wire(shared.address) as wire:
        for name, (data, ends) in http2_cases.cases().items():
            head, _, body = data.partition(b"\r\n\r\n")
            try:
                send(wire, wire.request_frames(translate(head), body))
                end = end_of(wire)
                assert end in ends, end
                assert wire.get("/digits.txt").body == b"0123456789" * 10
            except (AssertionError, EndedError, OSError):
                failed.append(f"{name}: {traceback.format_exc()}")
    assert not failed, "\n".join(failed)


def test_each_case_is_tried_or_has_no_meaning() -> None:
    every = {*strict_cases.REFUSED, *strict_cases.ACCEPTED, *strict_cases.ANSWERED}
    without = {name for names in http2_cases.MEANINGLESS.values() for name in names}
    assert without <= every
    assert {*http2_cases.DIFFERENT} <= every - without
    assert len(http2_cases.cases()) == len(every - without)


def test_a_hundred_streams_at_once_are_answered(shared: Server) -> None:
    with Http2Wire(shared.address) as wire:
        targets = ["/a.txt", "/digits.txt", "/nonesuch", "/empty.txt"] * 25
        wire.send(b"".join(request("GET", target) for target in targets))
        expected = [(200, b"hello\n"), (200, b"0123456789" * 10), (404, None), (200, b"")] * 25
        for status, body in expected:
            response = wire.response()
            assert response.status == status
            assert body is None or response.body == body


def test_a_hundred_streams_with_large_cookies_are_answered(shared: Server) -> None:
    with Http2Wire(shared.address) as wire:
        cookies = [f"{i}=" + f"{i:03}" * 700 for i in range(100)]
        wire.send(b"".join(request("GET", "/digits.txt", Cookie=cookie) for cookie in cookies))
        for _ in cookies:
            assert wire.response().body == b"0123456789" * 10


def test_a_body_is_discarded_and_its_trailers_too(shared: Server) -> None:
    with Http2Wire(shared.address) as wire:
        fields = translate(b"POST /a.txt HTTP/1.1\r\nHost: x")
        wire.send_frames(wire.headers(fields, is_last=False))
        wire.send_frames(frame(DATA, 0, 1, b"x" * 5000))
        block = wire.encoder.encode([(b"x-sum", b"1")])
        wire.send_frames(frame(HEADERS, END_STREAM | END_HEADERS, 1, block))
        assert wire.response().status == 405
        assert wire.get("/a.txt").status == 200
