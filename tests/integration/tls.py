"""TLS for tests: certificates, and sockets that encrypt."""

import atexit
import contextlib
import functools
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from server import program


def make_certificate(folder: Path, name: str, *names: str, days: int = 365) -> tuple[Path, Path]:
    """Make a certificate that signs itself, for these names; return its file and that of its key.

    Those of days below 0 have expired.
    """
    folder.mkdir(exist_ok=True)
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    alternatives = ",".join(f"DNS:{one}" for one in names or ("localhost",))
    command = ["openssl", "req", "-x509", "-nodes", "-newkey", "ec"]
    command += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", f"/CN={name}"]
    command += ["-addext", f"subjectAltName={alternatives}", "-days", str(days)]
    subprocess.run(
        [*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    return certificate, key


def replace(files: tuple[Path, Path], others: tuple[Path, Path]) -> None:
    """Replace the files of a certificate by those of another, as certbot does."""
    for file, other in zip(files, others, strict=True):
        shutil.copy(other, file.with_suffix(".new"))
        file.with_suffix(".new").rename(file)


def make_response(files: tuple[Path, Path], folder: Path) -> bytes:
    """Return the word of the issuer, which the certificate itself is, that it is good."""
    chain, key = (str(file) for file in files)
    shown = ["openssl", "x509", "-in", chain, "-noout", "-serial"]
    serial = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
    index, request, response = folder / "index", folder / "request", folder / "response"
    number = serial.strip().split("=")[1]
    index.write_text(f"V\t491231235959Z\t\t{number}\tunknown\t/CN=test\n")
    ask = ["-issuer", chain, "-cert", chain, "-reqout", str(request)]
    subprocess.run(["openssl", "ocsp", *ask], check=True, capture_output=True)
    answer = ["-index", str(index), "-CA", chain, "-rsigner", chain, "-rkey", key, "-ndays", "1"]
    answer += ["-reqin", str(request), "-respout", str(response)]
    subprocess.run(["openssl", "ocsp", *answer], check=True, capture_output=True)
    return response.read_bytes()


def is_stapled(address: tuple[str, int], name: str = "localhost") -> bool:
    """Return whether a client that asks for a response gets one; it must get a handshake."""
    host, port = address[:2]
    command = ["openssl", "s_client", "-connect", f"{host}:{port}", "-status", "-servername", name]
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, check=True, capture_output=True, text=True
    )
    return "OCSP Response Status: successful" in result.stdout


def is_built_without_tls() -> bool:
    """Return whether the program under test was built without OpenSSL."""
    command = [program(), "load", "--ca", "/dev/null", "https://127.0.0.1:1/"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "needs OpenSSL" in done.stderr


HAS_TLS = not is_built_without_tls()
REASON = "built without OpenSSL"
needs_tls = pytest.mark.skipif(not HAS_TLS, reason=REASON)


@functools.cache
def certificate_files() -> tuple[Path, Path]:
    """Return the files of a certificate for localhost and of its key, for all tests."""
    folder = Path(tempfile.mkdtemp(prefix="gossamer-tls-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return make_certificate(folder, "localhost")


def listen_arguments(certificate: tuple[Path, Path] | None = None) -> list[str]:
    """Return the arguments of a server that listens with TLS, on a free port; skip without TLS."""
    if not HAS_TLS:
        pytest.skip(REASON)
    chain, key = certificate or certificate_files()
    return [
        *("--listen", "https://127.0.0.1:0"),
        *("--certificate", str(chain), "--key", str(key)),
    ]


@functools.cache
def trusting() -> ssl.SSLContext:
    """Return the context of a client that trusts any server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def client_hello() -> bytes:
    """Return the first message of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = trusting().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    return outgoing.read()


class TlsSocket:
    """The part of a socket's interface that a Wire uses, over TLS."""

    def __init__(
        self,
        plain: socket.socket,
        context: ssl.SSLContext | None = None,
        name: str = "localhost",
        session: ssl.SSLSession | None = None,
    ) -> None:
        """Make the handshake on a connected socket."""
        self.plain = plain
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = (context or trusting()).wrap_bio(
            self.incoming, self.outgoing, server_hostname=name, session=session
        )
        self.is_truncated = False
        # One thread may send while another receives, but OpenSSL's object is for one at a time.
        self.lock, self.sending = threading.Lock(), threading.Lock()
        self.run(self.tls.do_handshake)

    def run(self, step: Callable[[], object]) -> object:
        """Make a step of TLS; send and receive as it needs."""
        while True:
            try:
                with self.lock:
                    result = step()
            except ssl.SSLWantReadError:
                self.flush()
                self.take(self.plain.recv(65536))
            else:
                self.flush()
                return result

    def take(self, data: bytes) -> None:
        """Pass what was received to TLS; no bytes: the end."""
        with self.lock:
            if data:
                self.incoming.write(data)
            else:
                self.incoming.write_eof()

    def flush(self) -> None:
        """Send what is encrypted, in order; a thread that sends already takes this, too."""
        while self.outgoing.pending and self.sending.acquire(blocking=False):
            try:
                with self.lock:
                    data = self.outgoing.read()
                self.plain.sendall(data)
            finally:
                self.sending.release()

    def sendall(self, data: bytes) -> None:
        """Encrypt and send all of the data."""
        if data:
            self.run(lambda: self.tls.write(data))

    def recv(self, size: int) -> bytes:
        """Receive some bytes; none at the end of the stream."""
        try:
            return bytes(self.run(lambda: self.tls.read(size)))  # type: ignore[call-overload]
        except ssl.SSLZeroReturnError:
            return b""
        except ssl.SSLEOFError:
            self.is_truncated = True
            return b""

    def shutdown(self, how: int) -> None:
        """Tell the server that nothing more will be sent; also end the stream below."""
        if how == socket.SHUT_WR:
            try:
                self.tls.unwrap()
            except ssl.SSLError:
                self.flush()
        self.plain.shutdown(how)

    def __getattr__(self, name: str) -> object:
        """Do everything else with the socket itself."""
        return getattr(self.plain, name)
