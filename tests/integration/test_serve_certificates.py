"""Certificates and options of TLS that have nothing to do with the architecture."""

import re
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest
from conftest import Serve
from metrics import PATH, read, value
from server import attempts, run_serve
from wire import Wire, get, name_of

from tls import (
    TlsSocket,
    certificate_files,
    is_stapled,
    listen_arguments,
    make_certificate,
    make_response,
    needs_tls,
    replace,
)

pytestmark = needs_tls
PLAIN = ("--listen", "127.0.0.1:0")


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
    assert name_of(server.address, "first.example") == "first"
    assert name_of(server.address, "second.example") == "second"
    assert name_of(server.address, "www.second.example") == "second"
    assert name_of(server.address, "other.example") == "first"


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
                seen.add(name_of(server.address))
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


# ---- Versions of TLS ----


def test_a_modern_server_refuses_tls_1_2(serve: Serve, root: Path) -> None:
    server = serve(root, *listen_arguments(), "--tls-modern")
    with Wire(server.address) as wire:
        assert wire.socket.tls.version() == "TLSv1.3"
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(server.address) as plain, pytest.raises(ssl.SSLError):
        TlsSocket(plain, old)


# ---- Responses of OCSP ----


def make_old(response: bytes) -> bytes:
    """Return the response with an earlier end; nobody verifies what it is signed with."""
    end = re.findall(rb"\x18\x0f(\d{14}Z)", response)[-1]
    return response.replace(end, b"20200101000000Z")


def test_a_response_of_ocsp_is_stapled_while_it_can_be_used(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    files = make_certificate(tmp_path / "tls", "first", "first.example")
    other = make_certificate(tmp_path / "tls", "second", "second.example")
    response = make_response(files, tmp_path)
    file, missing = tmp_path / "ocsp", tmp_path / "missing"
    file.write_bytes(response)
    server = serve(
        root,
        *(*listen_arguments(files), "--ocsp", str(file)),
        *("--certificate", str(other[0]), "--key", str(other[1]), "--ocsp", str(missing)),
    )
    server.expect("no response of OCSP is stapled: .*missing")
    assert is_stapled(server.address, "first.example")
    assert not is_stapled(server.address, "second.example")
    for content, line in (
        (b"broken", "no response of OCSP is stapled: .*ocsp has no"),
        (make_old(response), "a response of OCSP has expired"),
    ):
        file.write_bytes(content)
        server.send_signal(signal.SIGHUP)
        server.expect(line)
        assert any(not is_stapled(server.address, "first.example") for _ in attempts())
        file.write_bytes(response)
        missing.write_bytes(make_response(other, tmp_path))
        server.send_signal(signal.SIGHUP)
        assert any(is_stapled(server.address, "first.example") for _ in attempts())
        assert any(is_stapled(server.address, "second.example") for _ in attempts())


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
    assert "--ocsp" in fails(*tls, "--certificate", chain, "--ocsp", key, "--ocsp", key, root)
    assert "no --listen" in fails("--tls-modern", root)
    assert "nonesuch" in fails(*tls, "--certificate", f"{root}/nonesuch", root)
    assert other.name in fails(*tls, "--certificate", chain, "--key", str(other), root)


def test_an_encrypted_key_has_its_passphrase_in_a_file(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    chain, key = certificate_files()
    encrypted, passphrase = tmp_path / "encrypted.key", tmp_path / "passphrase"
    passphrase.write_text("word\n")
    command = ["openssl", "pkey", "-in", str(key), "-aes256", "-passout", f"file:{passphrase}"]
    subprocess.run([*command, "-out", str(encrypted)], check=True)
    arguments = [*listen_arguments((chain, encrypted)), "--passphrase-file", str(passphrase)]
    assert get(serve(root, *arguments).address, "/a.txt").status == 200
    passphrase.write_text("another\n")
    assert str(encrypted) in fails(*arguments, str(root))


def test_a_certificate_that_expires_soon_is_reported(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    files = make_certificate(tmp_path / "tls", "first", days=10)
    server = serve(root, *listen_arguments(files), "--metrics", PATH)
    server.expect("a certificate expires in (9|10) days")
    expiry = value(read(server), "tls_certificate_expiry_seconds")
    assert 9 < (expiry - time.time()) / 86400 < 11


def test_a_key_may_be_in_the_file_of_its_certificate(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    chain, key = certificate_files()
    both = tmp_path / "both.pem"
    both.write_bytes(chain.read_bytes() + key.read_bytes())
    both.chmod(0o600)
    server = serve(root, "--listen", "https://127.0.0.1:0", "--certificate", str(both))
    assert get(server.address, "/a.txt").status == 200
    both.chmod(0o644)
    server.send_signal(1)
    server.expect("every user can read the key .*both.pem: chmod o-r")
    assert any("every user" in line for _ in attempts() for line in server.stderr_lines())
