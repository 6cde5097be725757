"""TLS in all architectures: handshakes, certificates that change, and the ends of connections."""

import os
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SMALL, Serve, Starter, at_once
from metrics import PATH, read, value
from server import PROCESSES, Server, attempts, run_serve
from wire import Wire, get, request

from tls import TlsSocket, certificate_files, listen_arguments, make_certificate, trusting

LARGE = bytes(range(256)) * 4096
PLAIN = ("--listen", "127.0.0.1:0")


@pytest.fixture(scope="module")
def shared(
    shared_root: Path, configuration: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Return a server with TLS that the tests share."""
    starter = Starter(tmp_path_factory.mktemp("shared") / "servers", configuration)
    try:
        yield starter(shared_root, *listen_arguments(), *PLAIN, "--metrics", PATH)
        starter.stop()
    finally:
        starter.clean()


def connect(server: Server, **options: object) -> Wire:
    """Return a connection to the server's first address; the options are those of TlsSocket."""
    wire = Wire(tuple(server.address))
    wire.socket = TlsSocket(wire.socket, **options)
    return wire


def name_of(server: Server, name: str = "localhost") -> str:
    """Return the name in the certificate that a client of this name gets."""
    with connect(server, name=name) as wire:
        der = wire.socket.tls.getpeercert(binary_form=True)
    names = [one for one in (b"first", b"second", b"localhost") if one in der]
    return names[0].decode()


# ---- Answers ----


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_pages_are_served_to_clients_that_check_the_certificate(
    shared: Server, version: ssl.TLSVersion
) -> None:
    context = ssl.create_default_context(cafile=str(certificate_files()[0]))
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    with connect(shared, context=context) as wire:
        assert wire.socket.tls.selected_alpn_protocol() == "http/1.1"
        for target, body in [("/", SMALL), ("/large.bin", LARGE), ("/a.txt", b"hello\n")] * 2:
            assert wire.get(target).body == body


def test_large_pages_small_ones_and_ranges_may_be_pipelined(shared: Server) -> None:
    targets = ["/large.bin", "/a.txt", "/nonesuch", "/empty.txt"] * 4
    with Wire(shared.address) as wire:
        data = b"".join(request("GET", target) for target in targets)
        wire.send(data + request("GET", "/large.bin", Range="bytes=70000-900000"))
        bodies = [wire.response().body for _ in targets]
        assert bodies == [LARGE, b"hello\n", b"404 Not Found\n", b""] * 4
        assert wire.response().body == LARGE[70000:900001]


def test_records_may_arrive_in_bytes(shared: Server) -> None:
    with socket.create_connection(tuple(shared.address)) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire = Wire(tuple(shared.address))
        wire.close()
        send_all = plain.sendall

        class Slow:
            """A socket that sends a byte at a time."""

            def sendall(self, data: bytes) -> None:
                for i in range(len(data)):
                    send_all(data[i : i + 1])

            def __getattr__(self, name: str) -> object:
                return getattr(plain, name)

        wire.socket = TlsSocket(Slow())  # type: ignore[arg-type]
        assert wire.get("/a.txt").body == b"hello\n"
        assert wire.get("/large.bin").body == LARGE


def test_a_client_that_reads_slowly_gets_all(shared: Server) -> None:
    with Wire(shared.address, receive_buffer=4096) as wire:
        wire.send(request("GET", "/large.bin") * 3)
        for _ in range(3):
            assert wire.response().body == LARGE


def test_listeners_with_and_without_tls_serve_the_same(shared: Server) -> None:
    assert shared.addresses[0] != shared.addresses[1]
    assert [get(address, "/a.txt").body for address in shared.addresses] == [b"hello\n"] * 2


# ---- Ends ----


def test_the_end_is_announced(shared: Server) -> None:
    with Wire(shared.address) as wire:
        assert wire.get("/large.bin", Connection="close").body == LARGE
        assert wire.rest() == b""
        assert not wire.socket.is_truncated


def test_a_client_that_ends_its_side_still_gets_its_answers(shared: Server) -> None:
    with Wire(shared.address) as wire:
        wire.send(request("GET", "/large.bin") + request("GET", "/a.txt"))
        wire.end()
        assert wire.response().body == LARGE
        assert wire.response().body == b"hello\n"
        assert wire.rest() == b""
        assert not wire.socket.is_truncated


def test_a_client_may_end_without_an_announcement(shared: Server) -> None:
    with Wire(shared.address) as wire:
        wire.send(request("GET", "/a.txt"))
        wire.socket.plain.shutdown(socket.SHUT_WR)
        assert wire.response().body == b"hello\n"
        assert wire.rest() == b""


# ---- What is no TLS ----


def test_plain_http_is_told_what_to_do(shared: Server) -> None:
    with Wire(tuple(shared.address)) as wire:
        wire.send(request("GET", "/a.txt"))
        response = wire.head()
        assert response.status == 400
        assert b"https://" in wire.body(int(response.fields["content-length"]))
        assert wire.rest() == b""


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x00\x05hello", b"\xff" * 100, b"\x15\x03\x03\x00"])
def test_garbage_ends_the_connection(shared: Server, data: bytes) -> None:
    with Wire(tuple(shared.address)) as wire:
        wire.send(data)
        wire.end()
        assert len(wire.rest()) < 100


def test_a_client_of_an_old_version_is_refused(shared: Server) -> None:
    with socket.create_connection(tuple(shared.address)) as plain:
        # A ClientHello of TLS 1.0, with one cipher.
        hello = b"\x03\x01" + bytes(32) + b"\x00\x00\x02\xc0\x13\x01\x00"
        message = b"\x01" + len(hello).to_bytes(3, "big") + hello
        plain.sendall(b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message)
        assert plain.recv(100)[:1] == b"\x15"


# ---- Sessions and counts ----


def test_a_session_is_resumed_and_counted(serve: Serve, root: Path) -> None:
    server = serve(root, *listen_arguments(), "--metrics", PATH)
    with connect(server) as wire:
        assert wire.get("/a.txt").status == 200
        session = wire.socket.tls.session
        assert session.has_ticket
        wire.end()
        wire.rest()
    with connect(server, session=session) as wire:
        assert wire.get("/a.txt").status == 200
        assert wire.socket.tls.session_reused
    with Wire(tuple(server.address)) as wire:
        wire.send(request("GET", "/"))
        wire.rest()
    for _ in attempts():
        samples = read(server)
        if value(samples, "tls_failed_total", reason="http") == 1:
            break
    assert value(samples, "tls_resumed_total") >= 1
    assert value(samples, "tls_handshakes_total", version="1.3") >= 3


# ---- Certificates ----


def test_a_client_gets_the_certificate_of_the_name_it_asks_for(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    first = make_certificate(tmp_path / "tls", "first", "first.example")
    second = make_certificate(tmp_path / "tls", "second", "*.second.example", "second.example")
    server = serve(
        root,
        *listen_arguments(first),
        *("--certificate", str(second[0]), "--key", str(second[1])),
    )
    assert name_of(server, "first.example") == "first"
    assert name_of(server, "second.example") == "second"
    assert name_of(server, "www.second.example") == "second"
    assert name_of(server, "other.example") == "first"


def replace(files: tuple[Path, Path], others: tuple[Path, Path]) -> None:
    """Replace the files of a certificate by those of another, as certbot does."""
    for file, other in zip(files, others, strict=True):
        shutil.copy(other, file.with_suffix(".new"))
        file.with_suffix(".new").rename(file)


def test_a_certificate_that_changes_is_loaded_and_a_broken_one_is_not(
    serve: Serve, root: Path, tmp_path: Path, arch: str
) -> None:
    files = make_certificate(tmp_path / "tls", "first")
    kept = tuple(shutil.copy(file, f"{file}.kept") for file in files)
    second = make_certificate(tmp_path / "tls", "second")
    server = serve(root, *listen_arguments(files), "--metrics", PATH)
    with connect(server) as old:
        assert old.get("/a.txt").status == 200
        files[0].write_text("no certificate")
        server.send_signal(1)
        server.expect("the certificate in use stays, since a new one can't be used: .*first.pem")
        assert any(value(read(server), "tls_failed_loads_total") == 1 for _ in attempts())
        assert name_of(server) == "first"
        replace(files, second)
        server.send_signal(1)
        assert any(name_of(server) == "second" for _ in attempts())
        assert old.get("/a.txt").status == 200
    if arch in PROCESSES:
        return
    # It is also noticed without a signal.
    replace(files, (Path(kept[0]), Path(kept[1])))
    assert any(name_of(server) == "first" for _ in attempts())


def test_no_handshake_fails_while_a_certificate_changes(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    files = make_certificate(tmp_path / "tls", "first")
    others = [make_certificate(tmp_path / "tls", name) for name in ("second", "localhost")]
    server = serve(root, *listen_arguments(files), "--workers", "2")
    is_over = threading.Event()
    seen: set[str] = set()
    failed: list[str] = []

    def ask() -> None:
        while not is_over.is_set():
            try:
                seen.add(name_of(server))
            except OSError as error:
                failed.append(repr(error))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for other, name in zip(others, ("second", "localhost"), strict=True):
        replace(files, other)
        server.send_signal(1)
        assert any(name in seen for _ in attempts())
    is_over.set()
    for thread in threads:
        thread.join()
    assert not failed


# ---- Limits and draining ----


@at_once
def test_clients_that_do_not_complete_the_handshake_are_closed_in_time(
    serve: Serve, root: Path
) -> None:
    server = serve(root, *listen_arguments(), "--header-timeout", "500ms", "--no-defer-accept")
    with socket.create_connection(tuple(server.address)) as silent:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        hello = trusting().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            hello.do_handshake()
        silent.sendall(outgoing.read())
        while silent.recv(65536):
            pass


@at_once
def test_a_request_in_progress_is_answered_when_the_server_drains(serve: Serve, root: Path) -> None:
    server = serve(root, *listen_arguments(), "--workers", "1")
    with Wire(server.address) as idle, Wire(server.address, receive_buffer=4096) as busy:
        assert idle.get("/a.txt").status == 200
        busy.send(request("GET", "/large.bin"))
        assert busy.head().status == 200
        server.send_signal(15)
        assert idle.rest() == b""
        assert not idle.socket.is_truncated
        assert busy.body(len(LARGE)) == LARGE
        assert busy.rest() == b""
        assert not busy.socket.is_truncated
        server.wait()


# ---- Redirects and HSTS ----


def test_requests_without_tls_are_redirected(serve: Serve, root: Path) -> None:
    server = serve(root, *listen_arguments(), *PLAIN, "--redirect-https", "--hsts", "1h")
    port = server.address[1]
    with Wire(server.addresses[1]) as wire:
        for method in ("GET", "POST", "HEAD"):
            response = wire.request(method, "/sub/a?b=%20&c")
            assert response.status == 308
            assert response.fields["location"] == f"https://test:{port}/sub/a?b=%20&c"
            assert "strict-transport-security" not in response.fields
        wire.send(b"GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n")
        assert wire.response().fields["location"] == f"https://[::1]:{port}/"
        wire.send(b"GET / HTTP/1.1\r\nHost: :80\r\n\r\n")
        assert wire.response().status == 400
    with Wire(server.address) as wire:
        for target in ("/a.txt", "/large.bin", "/nonesuch", "/sub"):
            assert wire.get(target).fields["strict-transport-security"] == "max-age=3600"
        assert "strict-transport-security" in wire.get("/a.txt", Range="bytes=0-1").fields


# ---- The command line ----


def fails(*arguments: str) -> str:
    """Return the line with which a server does not start."""
    result = run_serve(*arguments)
    assert result.returncode == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_what_is_wrong_with_certificates_is_said_in_a_line(tmp_path: Path) -> None:
    chain, key = (str(file) for file in certificate_files())
    tls = ("--listen", "https://127.0.0.1:0")
    root = str(tmp_path)
    _, other = make_certificate(tmp_path / "tls", "other")
    assert "needs --certificate" in fails(*tls, root)
    assert "no --listen" in fails("--certificate", chain, "--key", key, root)
    assert "no --listen" in fails("--redirect-https", root)
    assert "--hsts needs" in fails(*tls, *PLAIN, "--certificate", chain, "--hsts", "1h", root)
    assert "--key" in fails(*tls, "--certificate", chain, "--key", key, "--key", key, root)
    assert "nonesuch" in fails(*tls, "--certificate", f"{root}/nonesuch", root)
    assert other.name in fails(*tls, "--certificate", chain, "--key", str(other), root)


def test_a_key_may_be_in_the_file_of_its_certificate(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    chain, key = certificate_files()
    both = tmp_path / "both.pem"
    both.write_bytes(chain.read_bytes() + key.read_bytes())
    os.chmod(both, 0o600)
    server = serve(root, "--listen", "https://127.0.0.1:0", "--certificate", str(both))
    assert get(server.address, "/a.txt").status == 200
    both.chmod(0o644)
    server.send_signal(1)
    server.expect("every user can read the key .*both.pem: chmod o-r")
    assert any("every user" in line for _ in attempts() for line in server.stderr_lines())
