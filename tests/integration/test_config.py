"""The configuration file: docs/serve.md, whose examples are tried, and files that are refused."""

import importlib.util
import json
import re
import ssl
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from server import ROOT, Server, TlsAddress, architectures, arguments_for, program, run_serve

from tls import make_certificate, make_response

PAGE = ROOT / "docs/serve.md"
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)

pytestmark = pytest.mark.skipif(
    b"yaml_parser_parse" not in Path(program()).read_bytes(), reason="built without libyaml"
)

# What else stands in a file that has a setting of the server.
TLS = 'listen: ["https://*:443"]'
LOG = "access_log: /var/log/gossamer/access.log"
BESIDE = {
    "nonblocking": "arch: queue",
    "controllers": "arch: stage",
    "admission": "arch: stage",
    "log_format": LOG,
    "log_fields": f"{LOG}\nlog_format: json",
    "metrics_listen": "metrics: /metrics",
    "forwarded_field": 'trusted_proxy: ["127.0.0.1"]',
    "log_tls": f"{LOG}\n{TLS}",
    "tls_modern": TLS,
    "redirect_https": TLS,
    "hsts": TLS,
    "passphrase_file": TLS,
}
SITE = "hosts:\n  - root: /srv/www\n"
CERTIFICATE = "    certificate: /etc/ssl/fullchain.pem\n    key: /etc/ssl/privkey.pem\n"
# The same of a host.
BESIDE_IN_HOST = {
    "certificate": "    key: /etc/ssl/privkey.pem\n",
    "key": "    certificate: /etc/ssl/fullchain.pem\n",
    "ocsp": CERTIFICATE,
}


def load_tool() -> ModuleType:
    """Return tools/serve-settings as a module."""
    loader = SourceFileLoader("serve_settings", str(ROOT / "tools/serve-settings"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with what the examples name."""
    top = tmp_path_factory.mktemp("machine")
    for name in ("www", "users", "other", "app", "docs"):
        (top / "srv" / name).mkdir(parents=True)
        (top / "srv" / name / "index.html").write_text(name)
    (top / "srv/www/about.html").write_text("about")
    (top / "srv/www/404.html").write_text("missing")
    (top / "etc").mkdir()
    chain, key = make_certificate(top / "etc/ssl", "example", "example.org")
    response = make_response((chain, key), top)
    (top / "etc/ssl/ocsp.der").write_bytes(response)
    (top / "etc/ssl/passphrase").write_text("not needed")
    chain.rename(top / "etc/ssl/fullchain.pem")
    key.rename(top / "etc/ssl/privkey.pem")
    (top / "var/log/gossamer").mkdir(parents=True)
    return top


def on(machine: Path, text: str) -> str:
    """Return the file with paths of the test's own, and without an address that is taken."""
    text = re.sub(r"(?<![\w/.])/(?=(?:srv|etc|var)/)", f"{machine}/", text)
    return text.replace("www-data", "root")


def check(folder: Path, text: str, *options: str) -> tuple[int, str]:
    """Check the file. Returns the exit status, and what was printed."""
    file = folder / "site.yaml"
    file.write_text(text)
    done = run_serve("--config", str(file), "--check", *options)
    return done.returncode, (done.stdout + done.stderr).replace(str(file), "FILE")


def schema() -> dict[str, Any]:
    """Return what the program says of its settings."""
    properties: dict[str, Any] = json.loads(run_serve("--print-schema").stdout)["properties"]
    return properties


def test_the_schema_and_the_tables_of_the_page_are_up_to_date() -> None:
    tool, printed = load_tool(), run_serve("--print-schema").stdout
    remedy = "run tools/serve-settings build/dev/gossamer"
    assert tool.SCHEMA.read_text() == printed, remedy
    assert tool.MARKS.findall(PAGE.read_text()) == [tool.tables(printed)], remedy


def of_server(tool: ModuleType, properties: dict[str, Any]) -> Iterator[str]:
    """Yield a file for the example of each setting of the server."""
    for name, setting in properties.items():
        line = f"{name}: {tool.example(setting)}\n"
        beside = BESIDE.get(name, "")
        has_tls = "https:" in f"{line}{beside}"
        site = f"{SITE}{CERTIFICATE if has_tls else ''}"
        yield f"{beside}\n{line}{'' if name == 'hosts' else site}"


def of_host(tool: ModuleType, properties: dict[str, Any]) -> Iterator[str]:
    """Yield a file for the example of each setting of a host, and of what is in these."""
    for name, setting in properties.items():
        inner = setting.get("items", {}).get("properties", {})
        whole = ", ".join(f"{key}: {tool.example(value)}" for key, value in inner.items())
        for example in [tool.example(setting), f"[{{{whole}}}]"][: 1 + bool(inner)]:
            root = "root: /srv/www\n    " if name != "root" else ""
            beside = BESIDE_IN_HOST.get(name, "")
            listen = f"{TLS}\n" if beside else ""
            yield f"{listen}hosts:\n  - {root}{name}: {example}\n{beside}"


def test_the_example_of_each_setting_is_accepted(machine: Path, tmp_path: Path) -> None:
    tool, properties = load_tool(), schema()
    host = properties["hosts"]["items"]["properties"]
    files = [*of_server(tool, properties), *of_host(tool, host)]
    assert len(files) > len(properties) + len(host) - 1
    for text in files:
        status, output = check(tmp_path, on(machine, text))
        assert (status, output.splitlines()[:1]) == (0, ["OK"]), f"{text}\n{output}"


def test_the_examples_of_the_page_are_accepted(machine: Path, tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    assert blocks
    for text in blocks:
        whole = text if re.search("^hosts:", text, re.MULTILINE) else f"{text}{SITE}"
        assert check(tmp_path, on(machine, whole)) == (0, "OK\n"), text


SITES = """
listen: ["127.0.0.1:0", "https://127.0.0.1:0"]
hosts:
  - names: [www.example.org]
    root: /srv/www
    certificate: /etc/ssl/fullchain.pem
    key: /etc/ssl/privkey.pem
    headers:
      - {path: "**", set: {X-All: "1", Cache-Control: no-cache}}
      - {path: "*.html", set: {Cache-Control: max-age=60, X-Html: "2"}}
    redirects: [{from: /old/**, to: /new/$1, status: 302}]
    clean_urls: true
    error_pages: {404: /404.html}
  - {names: ["*.example.org"], root: /srv/users, fallback: /index.html}
  - root: /srv/other
"""

# Of each: the host, the path, the status, the body, and fields.
ANSWERS: list[tuple[str, str, int, str, dict[str, str | None]]] = [
    ("www.example.org", "/", 200, "www", {"Cache-Control": "max-age=60", "X-All": "1"}),
    ("WWW.example.org:80", "/about", 200, "about", {"X-Html": "2"}),
    ("www.example.org", "/about.html", 301, "", {"Location": "/about"}),
    ("www.example.org", "/old/a/b?c", 302, "", {"Location": "/new/a/b?c"}),
    ("www.example.org", "/none", 404, "missing", {"X-All": "1", "X-Html": "2"}),
    ("me.example.org", "/a/route", 200, "users", {"X-All": None}),
    ("example.net", "/", 200, "other", {"X-All": None}),
    ("example.net", "/none", 404, "", {}),
]


def get(server: Server, at: int, host: str, path: str) -> HTTPResponse:
    """Request a page at one of the server's addresses."""
    address = server.addresses[at]
    connection: HTTPConnection = HTTPConnection(*address, timeout=30)
    if isinstance(address, TlsAddress):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = HTTPSConnection(*address, timeout=30, context=context)
    connection.request("GET", path, headers={"Host": host, "Connection": "close"})
    return connection.getresponse()


@pytest.mark.parametrize("arch", architectures())
def test_several_sites_are_served(arch: str, machine: Path, tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(on(machine, SITES))
    arguments = ["--config", str(file), *arguments_for(arch, (), clients=4)]
    server = Server.start(tmp_path / "server", ["--arch", *arguments[2:], *arguments[:2]])
    try:
        server.wait_until_ready(addresses=2)
        for host, path, status, body, fields in ANSWERS:
            for at in range(2):
                response = get(server, at, host, path)
                content = response.read().decode()
                assert response.status == status, (host, path)
                assert not body or content == body
                assert {name: response.getheader(name) for name in fields} == fields
        server.stop()
    finally:
        server.kill()


def test_options_take_precedence_over_the_file(machine: Path, tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(on(machine, f"listen: [1, 2]\nidle_timeout: 5\nrate: 2k\n{SITE}"))
    done = run_serve(
        *("--config", str(file), "--print-config"), *("--listen", "3", "--idle-timeout", "7")
    )
    assert done.returncode == 0
    assert 'listen: ["3"]\n' in done.stdout
    assert "idle_timeout: 7s\nrate: 2k\n" in done.stdout


def test_what_is_printed_reads_back_to_the_same(machine: Path, tmp_path: Path) -> None:
    first = run_serve("--print-config", str(machine / "srv/www")).stdout
    file = tmp_path / "site.yaml"
    file.write_text(first)
    assert run_serve("--config", str(file), "--print-config").stdout == first
    assert "hosts:\n" in first


def test_what_options_refuse_of_a_file_is_said_with_its_line(machine: Path, tmp_path: Path) -> None:
    for text, message in (
        ("arch: event\nfavor: accept\n", "FILE:2: favor: event has no threads for connections\n"),
        ("user: nobody-has-this-name\n", "FILE:1: user nobody-has-this-name: there is no such"),
        ("listen: 1.2.3:x\n", "FILE:1: listen 1.2.3:x "),
    ):
        status, output = check(tmp_path, on(machine, f"{text}{SITE}"))
        assert status == 2
        assert output.startswith(message)


def test_a_directory_beside_a_file_is_refused(machine: Path, tmp_path: Path) -> None:
    status, output = check(tmp_path, on(machine, SITE), "/srv")
    assert (status, output) == (
        2,
        "gossamer serve: FILE: the file says what is served: leave out /srv\n",
    )
