"""The examples that push to their clients behave as they document."""

import http.client
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from installation import EXAMPLES
from websocket_wire import CLOSE, PING, PONG, TEXT, Frame, Heard, Peer, close_payload, connect


@contextmanager
def running(name: str) -> Iterator[int]:
    """Run an example; yield its port."""
    with subprocess.Popen([EXAMPLES / name], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield int(server.stdout.readline().split(":")[2].split("/")[0])
        finally:
            server.kill()


def publish(port: int, message: bytes) -> int:
    """Return the status of the answer."""
    publisher = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    publisher.request("POST", "/publish", message)
    return publisher.getresponse().status


def next_event(peer: Peer) -> tuple[int, bytes]:
    """Return the next message or pong."""
    heard = Heard()
    assert peer.event(heard)
    return heard.events[0]


def test_push_sends_messages_to_those_who_are_subscribed() -> None:
    with running("push") as port, ExitStack() as stack:
        peers = [connect(port, "/push") for _ in range(50)]
        for peer in peers:
            stack.enter_context(peer.sock)
            peer.send(Frame(TEXT, b"ignored"), Frame(PING, b"are you there?"))
            assert next_event(peer) == (PONG, b"are you there?")
        assert publish(port, b"first") == 204
        assert {next_event(peer) for peer in peers} == {(TEXT, b"first")}
        for peer in peers[:25]:
            peer.send(Frame(CLOSE, close_payload(1000)))
            assert peer.listen().close == close_payload(1000)
        assert publish(port, b"second") == 204
        assert {next_event(peer) for peer in peers[25:]} == {(TEXT, b"second")}
        assert publish(port, b"x" * 1001) == 500


def test_events_are_sent_until_the_client_leaves() -> None:
    with running("events") as port:
        client = socket.create_connection(("127.0.0.1", port), timeout=60)
        with client, client.makefile("rb") as lines:
            client.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while b"id: 2\n" not in answer:
                line = lines.readline()
                assert line
                answer += line
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"\r\nContent-Type: text/event-stream\r\n" in answer
            assert b"\nid: 1\ndata: " in answer
