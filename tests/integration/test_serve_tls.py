"""TLS in all architectures: handshakes, certificates that change, and the ends of connections."""

import re
import select
import shutil
import signal
import socket
import ssl
import time
from pathlib import Path

import pytest
import test_serve_strict
from conftest import SMALL, Serve, at_once
from metrics import PATH, read, value
from server import FULL_CONFIGURATIONS, PROCESSES, Server, attempts
from test_serve_strict import whole
from wire import Wire, connect, get, name_of, request

from tls import (
    TlsSocket,
    certificate_files,
    client_hello,
    is_stapled,
    listen_arguments,
    make_certificate,
    make_response,
    replace,
)

LARGE = bytes(range(256)) * 4096
PLAIN = ("--listen", "127.0.0.1:0")
METRICS = ("--metrics", PATH)


@pytest.fixture(scope="module")
def shared_arguments() -> list[str]:
    """Let the shared server listen with TLS."""
    return [*listen_arguments(), *PLAIN, "--metrics", PATH]


def speaking_1_2() -> ssl.SSLContext:
    """Return the context of a client that trusts any server, and does not know TLS 1.3."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


# ---- Answers ----


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_pages_are_served_to_clients_that_check_the_certificate(
    shared: Server, version: ssl.TLSVersion
) -> None:
    context = ssl.create_default_context(cafile=str(certificate_files()[0]))
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["http/1.1"])
    with connect(shared.address, context=context) as wire:
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


@at_once
def test_strict_parsing_is_the_same_in_the_other_architectures(
    serve: Serve, root: Path, configuration: str
) -> None:
    """Check all cases; test_serve_tls_cases.py does so where all tests are run, also in pieces."""
    if configuration in FULL_CONFIGURATIONS:
        pytest.skip("it is checked there")
    server = serve(root, *listen_arguments(), clients=8)
    test_serve_strict.test_it_is_refused_and_the_connection_closed(server, whole)
    test_serve_strict.test_it_is_served_and_the_connection_kept(server, whole)
    test_serve_strict.test_it_is_answered_and_the_connection_kept(server, whole)


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


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x00\x05hello", request("POST", "/")])
def test_the_reason_arrives_whatever_the_client_sends_behind(shared: Server, data: bytes) -> None:
    with socket.create_connection(tuple(shared.address)) as plain:
        plain.sendall(data + bytes(1 << 20))
        plain.shutdown(socket.SHUT_WR)
        received = b""
        while more := plain.recv(1000):
            received += more
    assert received.startswith((b"\x15", b"HTTP/1.1 400"))


def test_a_client_of_an_old_version_is_refused(shared: Server) -> None:
    with socket.create_connection(tuple(shared.address)) as plain:
        # A ClientHello of TLS 1.0, with one cipher.
        hello = b"\x03\x01" + bytes(32) + b"\x00\x00\x02\xc0\x13\x01\x00"
        message = b"\x01" + len(hello).to_bytes(3, "big") + hello
        plain.sendall(b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message)
        assert plain.recv(100)[:1] == b"\x15"


# ---- The log ----


@at_once
def test_the_log_names_what_was_agreed_on(serve: Serve, root: Path) -> None:
    log = root.parent / "log"
    options = ("--access-log", str(log), "--log-tls", "--workers", "1")
    server = serve(root, *listen_arguments(), *PLAIN, *options)
    for name, context in (("first.test", None), ('a"b', speaking_1_2())):
        with connect(server.address, context=context, name=name) as wire:
            assert wire.get("/a.txt").status == 200
    assert get(server.addresses[1], "/a.txt").status == 200
    # The answer that this one gets is never complete.
    with Wire(server.address, receive_buffer=4096) as wire:
        wire.send(request("GET", "/large.bin") * 8)
        wire.head()
        wire.reset()
    for _ in attempts():
        lines = log.read_text().splitlines()
        if len(lines) >= 4:
            break
    endings = {" ".join(line.split()[-3:]) for line in lines}
    ciphers = "TLS_AES_(128|256)_GCM_SHA(256|384)", "ECDHE-ECDSA-AES(128|256)-GCM-SHA(256|384)"
    for ending in (
        f'"TLSv1.3" "{ciphers[0]}" "first.test"',
        f'"TLSv1.2" "{ciphers[1]}" "a\\\\x22b"',
        '"-" "-" "-"',
        f'"TLSv1.3" "{ciphers[0]}" "localhost"',
    ):
        assert any(re.fullmatch(ending, found) for found in endings), (ending, lines)


# ---- Sessions and counts ----


def test_a_session_is_resumed_and_counted(serve: Serve, root: Path) -> None:
    server = serve(root, *listen_arguments(), "--metrics", PATH)
    with connect(server.address) as wire:
        assert wire.get("/a.txt").status == 200
        session = wire.socket.tls.session
        assert session.has_ticket
        wire.end()
        wire.rest()
    with connect(server.address, session=session) as wire:
        assert wire.get("/a.txt").status == 200
        assert wire.socket.tls.session_reused
    with Wire(tuple(server.address)) as wire:
        wire.send(request("GET", "/"))
        wire.rest()
    with connect(server.address, context=speaking_1_2()) as wire:
        assert wire.get("/a.txt").status == 200
    for _ in attempts():
        samples = read(server)
        if value(samples, "tls_failed_total", reason="http") == 1:
            break
    assert value(samples, "tls_handshakes_total", version="1.2") == 1
    days = (value(samples, "tls_certificate_expiry_seconds") - time.time()) / 86400
    assert 360 < days < 366
    assert value(samples, "tls_resumed_total") >= 1
    assert value(samples, "tls_handshakes_total", version="1.3") >= 3


# ---- Certificates ----


def test_a_certificate_that_changes_is_loaded_and_a_broken_one_is_not(
    serve: Serve, root: Path, tmp_path: Path, arch: str
) -> None:
    files = make_certificate(tmp_path / "tls", "first")
    kept = tuple(shutil.copy(file, f"{file}.kept") for file in files)
    second = make_certificate(tmp_path / "tls", "second")
    server = serve(root, *listen_arguments(files), "--metrics", PATH)
    with connect(server.address) as old:
        assert old.get("/a.txt").status == 200
        files[0].write_text("no certificate")
        server.send_signal(1)
        server.expect("the certificate in use stays, since a new one can't be used: .*first.pem")
        assert any(value(read(server), "tls_failed_loads_total") == 1 for _ in attempts())
        assert name_of(server.address) == "first"
        replace(files, second)
        server.send_signal(1)
        assert any(name_of(server.address) == "second" for _ in attempts())
        assert old.get("/a.txt").status == 200
    if arch not in ("user", "event"):
        return
    # It is also noticed without a signal; the other architectures have the same code for that.
    replace(files, (Path(kept[0]), Path(kept[1])))
    assert any(name_of(server.address) == "first" for _ in attempts())


def test_processes_load_a_response_of_ocsp_that_changes(
    serve: Serve, root: Path, tmp_path: Path, arch: str
) -> None:
    if arch not in PROCESSES:
        pytest.skip("its certificates are those of the first process")
    files = make_certificate(tmp_path / "tls", "first")
    file, response = tmp_path / "ocsp", make_response(files, tmp_path)
    file.write_bytes(b"broken")
    server = serve(root, *listen_arguments(files), "--ocsp", str(file), clients=2)
    server.expect("no response of OCSP is stapled")
    assert not is_stapled(server.address)
    for content in (response, b"", response):
        file.write_bytes(content)
        server.send_signal(signal.SIGHUP)
        assert any(is_stapled(server.address) == bool(content) for _ in attempts())
        # Of prefork, another process may serve the next connection.
        assert all(is_stapled(server.address) == bool(content) for _ in range(4))
    server.expect("no response of OCSP is stapled")


# ---- Limits and draining ----


@at_once
def test_clients_that_do_not_complete_the_handshake_are_closed_in_time(
    serve: Serve, root: Path
) -> None:
    options = ("--header-timeout", "500ms", "--no-defer-accept", *METRICS)
    server = serve(root, *listen_arguments(), *options)
    with socket.create_connection(tuple(server.address)) as silent:
        silent.sendall(client_hello())
        while silent.recv(65536):
            pass
    with socket.create_connection(tuple(server.address)) as leaving:
        leaving.sendall(client_hello())
        leaving.recv(1)
    for _ in attempts():
        if value(samples := read(server), "tls_failed_total", reason="incomplete") == 2:
            break
    assert value(samples, "tls_failed_total", reason="incomplete") == 2


# Architectures whose kernel threads make few steps of handshakes before they look for events again.
IN_TURNS = ("user", "event", "eager", "quad")


def test_many_handshakes_do_not_delay_other_connections(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch not in IN_TURNS:
        pytest.skip("handshakes have turns elsewhere")
    server = serve(root, *listen_arguments(), "--workers", "1", "--no-defer-accept", *METRICS)
    # So many take the server longer than this process may be kept from looking at them.
    many = [Wire(tuple(server.address)) for _ in range(400)]
    with Wire(server.address) as kept:
        are_open = f'connections{{arch="{arch}"}} {len(many) + 1}\n'
        assert any(are_open in kept.get(PATH).body.decode() for _ in attempts())
        server.send_signal(signal.SIGSTOP)
        for wire in many:
            wire.send(client_hello())
        kept.send(request("GET", "/a.txt"))
        server.send_signal(signal.SIGCONT)
        assert kept.response().body == b"hello\n"
        answered, _, _ = select.select([wire.socket for wire in many], [], [], 0)
        assert len(answered) < len(many) / 2
    for wire in many:
        assert wire.socket.recv(1) == b"\x16"
        wire.close()


def test_handshakes_have_a_stage_of_their_own(shared: Server) -> None:
    if shared.arch != "stage":
        pytest.skip("there are no stages")
    handled = value(read(shared), "stage_events_total", stage="handshake")
    assert handled > 0
    with Wire(shared.addresses[1]) as wire:
        assert wire.get("/a.txt").status == 200
    get(shared.address, "/a.txt")
    assert value(read(shared), "stage_events_total", stage="handshake") > handled


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
