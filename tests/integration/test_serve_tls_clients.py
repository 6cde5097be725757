"""Clients of others over TLS: pages small and large, both versions, ALPN, resumption, and the end.

A client that is not installed is skipped.
"""

import base64
import hashlib
import http.client
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import SMALL, Starter
from installation import output
from metrics import PATH, read, value
from server import TIMEOUT_S, Server

from tls import certificate_files, listen_arguments

LARGE = bytes(range(256)) * 4096
PAGES = ("/", "/large.bin")
PAGE = """<!doctype html>
<h1>waiting</h1>
<script>
    fetch("/large.bin").then(answer => answer.arrayBuffer()).then(bytes =>
        crypto.subtle.digest("SHA-256", bytes)).then(digest =>
        document.querySelector("h1").textContent =
            Array.from(new Uint8Array(digest), byte => byte.toString(16).padStart(2, "0")).join(""))
</script>
"""


@pytest.fixture(scope="module")
def server(shared_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server with TLS that the tests share, and whose counts are read without TLS."""
    (shared_root / "page.html").write_text(PAGE)
    starter = Starter(tmp_path_factory.mktemp("clients") / "servers", "user")
    plain = ("--listen", "127.0.0.1:0")
    try:
        yield starter(shared_root, *plain, *listen_arguments(), "--metrics", PATH)
        starter.stop()
    finally:
        starter.clean()


@dataclass
class Run:
    """What a client needs to know."""

    port: int
    version: str  # "1.2" or "1.3"
    folder: Path

    @property
    def authority(self) -> str:
        """Return the file of the certificate that the client trusts."""
        return str(certificate_files()[0])


def request(page: str) -> bytes:
    """Return a request, after which the server closes the connection."""
    return f"GET {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


def answer_of(command: list[str], given: bytes = b"") -> bytes:
    """Run a client that reads a request, and must succeed; return all that it prints."""
    done = subprocess.run(
        command,
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


def ask_with_curl(run: Run) -> None:
    command = ["curl", "--http1.1", "--verbose", "--cacert", run.authority]
    command += ["--header", "Connection: close"]
    command += [f"--tlsv{run.version}", "--tls-max", run.version, "--no-progress-meter"]
    for page, file in zip(PAGES, ("small", "large"), strict=True):
        command += ["--output", str(run.folder / file), f"https://localhost:{run.port}{page}"]
    said = answer_of(command)
    assert said.count(b"ALPN: server accepted http/1.1") == 2
    assert (run.folder / "small").read_bytes() == SMALL
    assert (run.folder / "large").read_bytes() == LARGE


def ask_with_openssl(run: Run) -> None:
    session = str(run.folder / "session")
    command = ["openssl", "s_client", "-connect", f"localhost:{run.port}", "-ign_eof"]
    command += ["-CAfile", run.authority, "-verify_return_error", "-verify_hostname", "localhost"]
    command += ["-alpn", "http/1.1", f"-tls{run.version.replace('.', '_')}"]
    first = answer_of([*command, "-sess_out", session], request(PAGES[0]))
    second = answer_of([*command, "-sess_in", session], request(PAGES[1]))
    assert b"\nReused, TLSv" in second
    for said, body in (first, SMALL), (second, LARGE):
        assert body in said
        assert b"ALPN protocol: http/1.1" in said
        assert b"unexpected eof" not in said


def ask_with_gnutls(run: Run) -> None:
    command = ["gnutls-cli", "--x509cafile", run.authority, "--port", str(run.port), "localhost"]
    command += ["--priority", f"NORMAL:-VERS-ALL:+VERS-TLS{run.version}", "--alpn", "http/1.1"]
    for page, body in zip(PAGES, (SMALL, LARGE), strict=True):
        said = answer_of([*command, "--resume", "--waitresumption"], request(page))
        assert body in said
        assert b"This is a resumed session" in said
        assert b"Application protocol: http/1.1" in said
        assert b"Peer has closed the GnuTLS connection" in said


def ask_with_go(run: Run) -> None:
    program, source = run.folder / "tls_client", Path(__file__).with_name("tls_client.go")
    output("go", "build", "-o", program, source)
    command = [str(program), f"localhost:{run.port}", run.authority, run.version, *PAGES]
    digests = [hashlib.sha256(body).hexdigest() for body in (SMALL, LARGE)]
    expected = f"http/1.1 false {digests[0]}\nhttp/1.1 true {digests[1]}\n"
    assert answer_of(command).decode() == expected


def ask_with_python(run: Run) -> None:
    context = ssl.create_default_context(cafile=run.authority)
    context.set_alpn_protocols(["http/1.1"])
    context.minimum_version = context.maximum_version = {
        "1.2": ssl.TLSVersion.TLSv1_2,
        "1.3": ssl.TLSVersion.TLSv1_3,
    }[run.version]
    session = None
    for page, body in zip(PAGES, (SMALL, LARGE), strict=True):
        plain = socket.create_connection(("localhost", run.port), TIMEOUT_S)
        with context.wrap_socket(plain, server_hostname="localhost", session=session) as secure:
            secure.sendall(request(page))
            answer = http.client.HTTPResponse(secure)
            answer.begin()
            assert answer.read() == body
            assert secure.selected_alpn_protocol() == "http/1.1"
            assert secure.session_reused == bool(session)
            session = secure.session
            secure.unwrap().close()  # waits for close_notify


def ask_with_chromium(run: Run) -> None:
    """Show a page that asks for the large one; only this certificate is accepted."""
    certificate = ssl.PEM_cert_to_DER_cert(Path(run.authority).read_text())
    key = subprocess.run(
        ["openssl", "x509", "-inform", "DER", "-pubkey", "-noout"],
        input=certificate,
        capture_output=True,
        check=True,
    ).stdout.decode()
    encoded = base64.b64decode("".join(key.splitlines()[1:-1]))
    name = base64.b64encode(hashlib.sha256(encoded).digest()).decode()
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--ignore-certificate-errors-spki-list={name}", "--virtual-time-budget=20000"]
    command += [f"--user-data-dir={run.folder / 'profile'}", f"--ssl-version-max=tls{run.version}"]
    said = answer_of([*command, f"https://localhost:{run.port}/page.html"])
    assert hashlib.sha256(LARGE).hexdigest().encode() in said


@dataclass(frozen=True)
class Client:
    """A client, and how it is used."""

    program: str  # "": it is always there
    ask: Callable[[Run], None]
    resumes: tuple[str, ...] = ("1.2", "1.3")  # versions with which it surely does


CLIENTS = {
    # Without tickets in TLS 1.2.
    "curl": Client("curl", ask_with_curl, resumes=("1.3",)),
    "openssl": Client("openssl", ask_with_openssl),
    "gnutls": Client("gnutls-cli", ask_with_gnutls),
    "go": Client("go", ask_with_go),
    "python": Client("", ask_with_python),
    "chromium": Client("chromium", ask_with_chromium, resumes=()),
}


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("name", CLIENTS)
def test_pages_are_served_to(server: Server, tmp_path: Path, name: str, version: str) -> None:
    client = CLIENTS[name]
    if client.program and not shutil.which(client.program):
        pytest.skip(f"no {client.program}")
    before = read(server)
    client.ask(Run(server.addresses[1][1], version, tmp_path))
    after = read(server)

    def more(metric: str, **labels: str) -> float:
        return value(after, metric, **labels) - value(before, metric, **labels)

    assert more("tls_handshakes_total", version=version) >= 1
    assert more("tls_handshakes_total", version="1.3" if version == "1.2" else "1.2") == 0
    assert more("tls_resumed_total") > 0 or version not in client.resumes
