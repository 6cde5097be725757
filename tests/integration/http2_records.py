"""HTTP/2 over TLS by a client that decides which records it sends together."""

import socket
import ssl
from collections.abc import Iterator

from http2_wire import END_HEADERS, END_STREAM, HEADERS, frame


def get_frame(stream: int, path: bytes) -> bytes:
    """Return the frame of a request."""
    block = b"\x82\x87\x04" + bytes([len(path)]) + path + b"\x01\x01a"
    return frame(HEADERS, END_STREAM | END_HEADERS, stream, block)


def frames_in(received: bytes) -> Iterator[tuple[int, int]]:
    """Yield the kind and stream of each complete frame."""
    while len(received) >= 9:
        n = int.from_bytes(received[:3], "big")
        if len(received) < 9 + n:
            return
        yield received[3], int.from_bytes(received[5:9], "big")
        received = received[9 + n :]


class Records:
    """A client of TLS that decides what it sends together."""

    def __init__(self, address: tuple[str, int]) -> None:
        """Connect, and shake hands."""
        self.socket = socket.create_connection(address, timeout=10)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        self.tls = context.wrap_bio(self.incoming, self.outgoing)
        self.received = b""
        while True:
            try:
                self.tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self.send()
                self.incoming.write(self.socket.recv(65536))

    def send(self, *records: bytes) -> None:
        """Send what a record each contains, in one segment."""
        for record in records:
            self.tls.write(record)
        self.socket.sendall(self.outgoing.read())

    def wait_for(self, kind: int, stream: int) -> None:
        """Wait for a frame."""
        while (kind, stream) not in frames_in(self.received):
            received = self.socket.recv(65536)
            assert received, f"no frame {kind} of stream {stream}"
            self.incoming.write(received)
            try:
                while True:
                    self.received += self.tls.read(65536)
            except ssl.SSLWantReadError:
                pass
