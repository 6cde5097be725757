"""Servers and clients of the library behave as each case of the Autobahn test suite demands."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from installation import BUILD
from websocket_cases import (
    FAIL_FAST,
    MALFORMED,
    OFFERS,
    PLAIN_CASES,
    Case,
    compressed_cases,
    more,
    text,
)
from websocket_wire import CLOSE, TEXT, Frame, Heard, Peer, accept, close_payload, connect, field_of

PROGRAM = BUILD / "tests/websocket_stream/websocket_echo"
NORMAL = close_payload(1000)

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="built without tests")

Connect = Callable[[], Peer]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Run a server; yield its port. At the end it must be well."""
    with subprocess.Popen([PROGRAM, "serve"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield int(server.stdout.readline().split()[-1])
            server.terminate()
            assert server.wait(60) == 0
        finally:
            server.kill()


@contextmanager
def client(path: str = "/", *, extension: str = "") -> Iterator[Peer]:
    """Run a client that echoes what the yielded peer, its server, says."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.settimeout(60)
        url = f"ws://127.0.0.1:{listener.getsockname()[1]}{path}"
        command = [PROGRAM, "connect", url]
        process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
        stack.callback(process.kill)
        peer = accept(listener, extension=extension)
        with peer.sock:
            yield peer
        assert process.wait(60) == 0


@contextmanager
def peer_of(role: str, port: int, path: str = "/") -> Iterator[Peer]:
    """Yield a peer of the server or of a client."""
    if role == "client":
        with client(path) as peer:
            yield peer
    else:
        peer = connect(port, path)
        with peer.sock:
            yield peer


def send_and_wait(peer: Peer, case: Case, heard: Heard) -> None:
    """Send each frame when all that is expected of those before has arrived."""
    for frame in case.frames:
        peer.send(frame)
        if frame.fin and frame.opcode <= 9 and len(heard.events) < len(case.events):
            assert peer.event(heard)


def run(peer: Peer, case: Case) -> Heard:
    """Send the frames, and listen to the end."""
    heard = Heard()
    if case.waits_between:
        send_and_wait(peer, case, heard)
    else:
        peer.send(*case.frames, chop=case.chop)
    if not case.fails and case.closes is None:
        while len(heard.events) < len(case.events):
            assert peer.event(heard)
        peer.send(Frame(CLOSE, NORMAL))
    return peer.listen(heard)


def check(heard: Heard, case: Case) -> None:
    """Compare what was heard with what must be."""
    assert heard.events == case.events, case.name
    assert heard.close is not None, case.name
    if case.fails:
        assert int.from_bytes(heard.close[:2], "big") == case.fails
    else:
        assert heard.close == (case.closes if case.closes is not None else NORMAL)
        assert not heard.is_reset


def names(cases: list[Case]) -> list[str]:
    """Return the names of cases."""
    return [case.name for case in cases]


@pytest.mark.parametrize("case", PLAIN_CASES, ids=names(PLAIN_CASES))
def test_server_behaves_as_the_case_demands(port: int, case: Case) -> None:
    with peer_of("server", port) as peer:
        check(run(peer, case), case)


@pytest.mark.parametrize("case", PLAIN_CASES, ids=names(PLAIN_CASES))
def test_client_behaves_as_the_case_demands(case: Case) -> None:
    with peer_of("client", 0) as peer:
        check(run(peer, case), case)


@pytest.mark.parametrize("case", PLAIN_CASES, ids=names(PLAIN_CASES))
def test_server_that_reads_in_parts_behaves_as_the_case_demands(port: int, case: Case) -> None:
    with peer_of("server", port, "/parts") as peer:
        heard = run(peer, case)
    if case.fails:  # parts of a message that turns out to be wrong may have been echoed
        assert heard.close
        assert int.from_bytes(heard.close[:2], "big") == case.fails
    else:
        check(heard, case)


@pytest.mark.parametrize("is_framed", [True, False], ids=["frames", "pieces"])
@pytest.mark.parametrize("name", FAIL_FAST)
@pytest.mark.parametrize("role", ["server", "client"])
def test_text_is_refused_as_soon_as_it_cannot_become_utf8(
    port: int, role: str, name: str, *, is_framed: bool
) -> None:
    first, second, third = FAIL_FAST[name]
    with peer_of(role, port) as peer:
        if is_framed:
            peer.send(text(first, fin=False), more(second))
        else:
            whole = Frame(TEXT, first + second + third).encode(masks=peer.is_client)
            peer.sock.sendall(whole[: -len(third)])
        heard = peer.listen()
    assert heard.close
    assert int.from_bytes(heard.close[:2], "big") == MALFORMED


@pytest.mark.parametrize("name", OFFERS)
def test_server_understands_and_sends_compressed_messages(port: int, name: str) -> None:
    offer, bits = OFFERS[name]
    for case in compressed_cases():
        peer = connect(port, Sec_WebSocket_Extensions=offer)
        answer = field_of(peer.head, "Sec-WebSocket-Extensions")
        assert answer
        assert answer.startswith("permessage-deflate; server_no_context_takeover; client_no_")
        assert (f"server_max_window_bits={bits}" in answer) == (
            "server_max_window_bits" in offer and "strange" not in offer
        )
        with peer.sock:
            heard = run(peer, case)
        check(heard, case)
        assert heard.compressed_count == sum(len(data) >= 64 for _, data in case.events)


@pytest.mark.parametrize("bits", [9, 15])
def test_client_understands_and_sends_compressed_messages(bits: int) -> None:
    extension = f"permessage-deflate; server_no_context_takeover; client_max_window_bits={bits}"
    for case in compressed_cases()[::3]:
        with client(extension=extension) as peer:
            heard = run(peer, case)
        check(heard, case)
        assert heard.compressed_count == sum(len(data) >= 64 for _, data in case.events)
