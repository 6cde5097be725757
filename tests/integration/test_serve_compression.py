"""Compressed variants in all architectures, over HTTP/1.1, HTTP/2 and TLS; curl decodes them."""

import gzip
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import Serve, fill
from metrics import PATH, read, value
from server import PROCESSES, Server, attempts, has_http2, run_serve
from wire import Wire

from tls import listen_arguments

BROWSER = "gzip, deflate, br, zstd"
TEXT = b"p { color: black; background: white }\n" * 200
SCRIPT = b"document.write('a line of a script');\n" * 5000
KINDS = {"h1": ("--http1.1",), "h2": ("--http2-prior-knowledge",), "tls": ("--insecure",)}


@dataclass
class Answer:
    """What curl received."""

    status: int
    fields: dict[str, str]
    body: bytes


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with siblings, and with files to compress."""
    root = fill(tmp_path_factory.mktemp("shared") / "root")
    (root / "sibling.css").write_bytes(TEXT)
    (root / "sibling.css.gz").write_bytes(gzip.compress(TEXT))
    (root / "only.js.gz").write_bytes(gzip.compress(SCRIPT))
    (root / "a.css").write_bytes(TEXT)
    (root / "large.js").write_bytes(SCRIPT)
    (root / "photo.jpg").write_bytes(TEXT)
    return root


@pytest.fixture(scope="module")
def shared_arguments(arch: str) -> list[str]:
    """Let the server listen with TLS, too, and compress, where one memory serves all."""
    compress = [] if arch in PROCESSES else ["--compress", "all", "--metrics", PATH]
    return [*listen_arguments(), "--listen", "127.0.0.1:0", "--precompressed", *compress]


def can_compress() -> bool:
    """Return whether the program was built with all codings."""
    return "built without" not in run_serve("--compress", "br,zstd,gzip", "/nonesuch").stderr


def get(server: Server, kind: str, target: str, accept: str | None, *arguments: str) -> Answer:
    """Return the answer to a request; its body is decoded."""
    address = server.addresses[kind != "tls"]
    url = f"{'https' if kind == 'tls' else 'http'}://{address[0]}:{address[1]}{target}"
    field = "Accept-Encoding:" if accept is None else f"Accept-Encoding: {accept}"
    words = ["curl", "-sS", "-m20", "-i", *KINDS[kind], "--compressed", "-H", field]
    result = subprocess.run([*words, *arguments, url], capture_output=True, check=True)
    head, _, body = result.stdout.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(first.split()[1]), fields, body)


def check(answer: Answer, coding: str | None, body: bytes) -> str:
    """Check an answer with a variant; return its entity tag."""
    assert (answer.status, answer.fields.get("content-encoding")) == (200, coding)
    assert answer.fields["vary"] == "accept-encoding"
    assert answer.body == body
    return answer.fields["etag"]


def wait_for(server: Server, kind: str, target: str, accept: str, coding: str) -> Answer:
    """Request a file until it is compressed, two seconds after its change."""
    for _ in attempts():
        answer = get(server, kind, target, accept)
        if answer.fields.get("content-encoding") == coding:
            return answer
        assert answer.status == 200
    raise AssertionError(f"{target} is not compressed")


@pytest.mark.parametrize("kind", KINDS if has_http2() else ["h1", "tls"])
def test_siblings_are_sent_to_clients_that_accept_them(shared: Server, kind: str) -> None:
    plain = check(get(shared, kind, "/sibling.css", None), None, TEXT)
    coded = check(get(shared, kind, "/sibling.css", BROWSER), "gzip", TEXT)
    assert plain != coded
    again = get(shared, kind, "/sibling.css", BROWSER, "-H", f"If-None-Match: {coded}")
    assert (again.status, again.fields["vary"]) == (304, "accept-encoding")
    refused = get(shared, kind, "/sibling.css", "br, identity;q=0")
    assert (refused.status, refused.fields["vary"]) == (406, "accept-encoding")
    check(get(shared, kind, "/only.js", "x-gzip"), "gzip", SCRIPT)
    assert get(shared, kind, "/only.js", "br").status == 406
    assert "vary" not in get(shared, kind, "/photo.jpg", BROWSER).fields


@pytest.mark.skipif(not can_compress(), reason="built without codings")
def test_files_are_compressed_once(shared: Server, arch: str) -> None:
    if arch in PROCESSES:
        pytest.skip("its processes share no memory")
    kinds = KINDS if has_http2() else ["h1", "tls"]
    for target, body in (("/a.css", TEXT), ("/large.js", SCRIPT)):
        tags = {check(get(shared, "h1", target, None), None, body)}
        for accept, coding in ((BROWSER, "br"), ("zstd, gzip;q=0.9", "zstd"), ("gzip", "gzip")):
            wait_for(shared, "h1", target, accept, coding)
            (tag,) = {
                check(wait_for(shared, kind, target, accept, coding), coding, body)
                for kind in kinds
            }
            tags.add(tag)
        assert len(tags) == 4
    samples = read(shared)
    assert value(samples, "compressed_total", saves="enough") == 6
    assert value(samples, "compressed_bytes") > 0
    with Wire(shared.addresses[1]) as wire:
        fields = {"Accept-Encoding": "br", "Range": "bytes=1-5"}
        part = wire.get("/a.css", **fields)
        assert (part.status, len(part.body)) == (206, 5)
        assert part.fields["content-encoding"] == "br"


def test_processes_compress_nothing(serve: Serve, root: Path, arch: str) -> None:
    if arch not in PROCESSES:
        pytest.skip("it has one process")
    server = serve(root, "--compress", "all")
    server.expect(r"gossamer serve: --compress: the processes of \w+ share no memory")
    assert "vary" not in get_plain(server)


def get_plain(server: Server) -> dict[str, str]:
    """Return the fields of an answer to a browser."""
    with Wire(server.address) as wire:
        return wire.get("/", **{"Accept-Encoding": BROWSER}).fields


def test_unknown_codings_are_refused() -> None:
    result = run_serve("--compress", "br,deflate", "/nonesuch")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--compress deflate: it is br, zstd, gzip or all" in result.stderr
