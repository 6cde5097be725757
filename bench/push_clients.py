"""Idle clients of WebSocket: push_clients.py PORT.

For each line of its input, "open N" or "ping", it opens N connections more, or sends a ping on each
connection and waits for the answers; then it prints how many there are. In between it answers the
server's pings.
"""

import resource
import select
import socket
import sys

REQUEST = (
    b"GET /push HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
PING = b"\x89\x80\0\0\0\0"
PONG = b"\x8a\0"
OWN_PONG = b"\x8a\x80\0\0\0\0"
TIMEOUT_S = 60.0


AT_ONCE = 100
"""Connections that are opened together, fewer than any server lets wait."""


def hear_answer(client: socket.socket) -> None:
    """Receive the answer to the request."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and (part := client.recv(4096)):
        head += part
    if not head.startswith(b"HTTP/1.1 101 "):
        raise RuntimeError(f"the server has answered {head!r}")


def connect(port: int, count: int) -> list[socket.socket]:
    """Open connections."""
    clients = []
    while len(clients) < count:
        few = min(AT_ONCE, count - len(clients))
        new = [socket.create_connection(("127.0.0.1", port), TIMEOUT_S) for _ in range(few)]
        for client in new:
            client.sendall(REQUEST)
        for client in new:
            hear_answer(client)
        clients += new
    return clients


def ping(clients: list[socket.socket]) -> int:
    """Return how many of the connections answer a ping; the server may have sent pings, too."""
    for client in clients:
        client.sendall(PING)
    count = 0
    for client in clients:
        answer = b""
        while not answer.endswith(PONG) and (part := client.recv(64)):
            answer += part
        count += answer.endswith(PONG)
    return count


def wait_for_line(clients: dict[int, socket.socket], poll: select.epoll) -> str:
    """Return the next line of the input; meanwhile answer pings."""
    while True:
        ready = [fd for fd, _ in poll.poll()]
        for client in (clients[fd] for fd in ready if fd in clients):
            if client.recv(64):
                client.sendall(OWN_PONG)
            else:
                poll.unregister(client)
        if sys.stdin.fileno() in ready:
            return sys.stdin.readline()


def main() -> None:
    """Do what the input says."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    port = int(sys.argv[1])
    clients: dict[int, socket.socket] = {}
    poll = select.epoll()
    poll.register(sys.stdin, select.EPOLLIN)
    while line := wait_for_line(clients, poll):
        command, *counts = line.split()
        for client in connect(port, int(counts[0])) if counts else ():
            clients[client.fileno()] = client
            poll.register(client, select.EPOLLIN)
        print(ping(list(clients.values())) if command == "ping" else len(clients), flush=True)


if __name__ == "__main__":
    main()
