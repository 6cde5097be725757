"""The reverse proxy of the examples passes requests and responses on, and survives its servers."""

import http.client
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from installation import EXAMPLES

LARGE = b"0123456789abcdef" * 65536


class Origin(BaseHTTPRequestHandler):
    """Answers with the fields of a GET, or with the body of a POST."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        """Write no log."""

    def do_GET(self) -> None:
        """Answer with the fields."""
        body = LARGE if self.path == "/large" else str(self.headers).encode()
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Length", str(len(body) + (self.path == "/cut")))
        self.send_header("Set-Cookie", "a=1")
        self.send_header("Set-Cookie", "b=2")
        self.send_header("Connection", "X-Hop")
        self.send_header("X-Hop", "for the proxy only")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.path == "/cut"

    def do_POST(self) -> None:
        """Answer with the body."""
        chunked = self.headers["Transfer-Encoding"] == "chunked"
        while chunked and (n := int(self.rfile.readline(), 16)):
            self.body = getattr(self, "body", b"") + self.rfile.read(n)
            self.rfile.readline()
        body = self.body if chunked else self.rfile.read(int(self.headers["Content-Length"]))
        if chunked:
            self.rfile.readline()
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def proxying() -> Iterator[tuple[subprocess.Popen[str], Callable[[], http.client.HTTPConnection]]]:
    """Run a server and the proxy, for which each second server refuses connections."""
    with socket.socket() as refusing, socket.socket() as place:
        refusing.bind(("127.0.0.1", 0))
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
        place.close()
        origin = ThreadingHTTPServer(("127.0.0.1", 0), Origin)
        origin.daemon_threads = True
        threading.Thread(target=origin.serve_forever, daemon=True).start()
        servers = [refusing.getsockname()[1], origin.server_address[1]]
        command = [EXAMPLES / "reverse_proxy", f"127.0.0.1:{port}"]
        command += [f"http://127.0.0.1:{server}" for server in servers]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
            try:
                assert proxy.stdout
                assert proxy.stdout.readline() == "proxying\n"
                yield proxy, lambda: http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            finally:
                proxy.kill()
                origin.shutdown()
                origin.server_close()


def test_reverse_proxy_passes_requests_and_responses_on() -> None:
    with proxying() as (proxy, connect):
        client = connect()
        for _ in range(4):
            fields = {"X-Forwarded-For": "192.0.2.1", "Connection": "X-Secret", "X-Secret": "x"}
            client.request("GET", "/?a=b", headers={"Host": "example.org", **fields})
            response = client.getresponse()
            seen = response.read().decode()
            assert response.status == 200
            assert "X-Forwarded-For: 192.0.2.1, 127.0.0.1\n" in seen.replace("\r", "")
            assert "Host: example.org" in seen
            assert "X-Secret" not in seen
            assert response.headers.get_all("Set-Cookie") == ["a=1", "b=2"]
            assert "X-Hop" not in response.headers
        client.request("GET", "/large")
        assert client.getresponse().read() == LARGE
        client.request("GET", "/missing")
        assert client.getresponse().status == 404
        proxy.send_signal(signal.SIGINT)
        assert proxy.wait(60) == 0


def test_reverse_proxy_passes_bodies_on_and_does_not_send_them_twice() -> None:
    with proxying() as (_, connect):
        statuses = set()
        for body in (LARGE, iter([b"in", b"parts"])) * 2:
            client = connect()
            client.request("POST", "/", body)
            response = client.getresponse()
            answer = response.read()
            statuses.add(response.status)
            if response.status == 201:
                assert answer in (LARGE, b"inparts")
        assert statuses == {201, 502}


def test_reverse_proxy_does_not_take_a_response_that_is_cut_off_for_a_whole_one() -> None:
    with proxying() as (_, connect):
        client = connect()
        client.request("GET", "/cut")
        try:
            client.getresponse().read()
            complete = True
        except (http.client.IncompleteRead, ConnectionError):
            complete = False
        assert not complete
