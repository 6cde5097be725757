"""What surrounds the server: units of systemd, log rotation, a dashboard, and other web servers."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Serve
from installation import PROGRAM, output
from metrics import PATH, read
from server import Server, run_serve
from wire import get

from tls import HAS_TLS, listen_arguments

TREE = Path(__file__).resolve().parents[2]
PACKAGING = TREE / "packaging"
UNITS = ("gossamer.service", "gossamer.socket")
DOCUMENT = (TREE / "docs/serve-behind.md").read_text()
EXPOSURE_MAX = 2.0
METRIC = re.compile(r"\bgossamer_\w+")
PROGRAMS = f"{os.environ['PATH']}:/usr/sbin"


def needs(tool: str) -> pytest.MarkDecorator:
    """Skip a test without this tool."""
    found = shutil.which(tool, path=PROGRAMS)
    return pytest.mark.skipif(not found, reason=f"{tool} is not installed")


def run(tool: str, *arguments: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a tool, with a text on its standard input."""
    program = shutil.which(tool, path=PROGRAMS) or tool
    return subprocess.run(
        [program, *arguments], input=text, capture_output=True, text=True, check=False
    )


def block(language: str, containing: str = "") -> str:
    """Return the only block of code in this language in the document that contains a text."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    (found,) = [text for text in blocks if containing in text]
    return str(found)


# ---- systemd ----


@needs("systemd-analyze")
def test_the_unit_is_exposed_little() -> None:
    unit = PACKAGING / "systemd/gossamer.service"
    said = output("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
    found = re.search(r"Overall exposure level for gossamer.service: (\d+\.\d+)", said)
    assert found
    assert float(found[1]) <= EXPOSURE_MAX


@needs("systemd-analyze")
def test_systemd_understands_the_units(installed: Path, tmp_path: Path) -> None:
    for name in UNITS:
        text = (installed / "lib/systemd/system" / name).read_text()
        text = text.replace("ExecStart=gossamer", f"ExecStart={installed}/bin/gossamer")
        (tmp_path / name).write_text(text)
    done = run("systemd-analyze", "verify", "--man=no", *(tmp_path / name for name in UNITS))
    assert [line for line in done.stderr.splitlines() if "gossamer" in line] == []
    user = (installed / "lib/sysusers.d/gossamer.conf").read_text()
    assert user.startswith("u gossamer ")


@pytest.mark.skipif(
    b"yaml_parser_parse" not in PROGRAM.read_bytes(), reason="built without libyaml"
)
def test_the_configuration_of_the_unit_is_right(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    text = block("yaml", "hosts:").replace("/srv/www", str(root))
    file.write_text(text.replace("/var/log/gossamer", str(tmp_path)))
    done = run_serve("--config", str(file), "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "OK\n", "")


@needs("logrotate")
@pytest.mark.skipif(os.geteuid() != 0, reason="logrotate reads only files of root")
def test_logrotate_understands_its_file(installed: Path, tmp_path: Path) -> None:
    text = (installed / "share/gossamer/logrotate").read_text()
    file = tmp_path / "logrotate"
    file.write_text(text.replace("gossamer gossamer", "root root"))  # that user may not exist here
    file.chmod(0o644)
    done = run("logrotate", "--debug", file)
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr
    assert "rotating pattern: /var/log/gossamer/*.log" in done.stderr


# ---- Monitoring ----


@pytest.fixture
def measured(serve: Serve, root: Path) -> Server:
    """Return a server that has answered requests, and has metrics."""
    secure = ("--listen", "127.0.0.1:0", *listen_arguments()) if HAS_TLS else ()
    server = serve(root, *secure, "--metrics", PATH)
    for path in ("/a.txt", "/none", "/sub"):
        get(server.address, path)
    return server


@needs("promtool")
def test_prometheus_finds_nothing_to_complain_about(measured: Server) -> None:
    page = get(measured.address, PATH).body.decode()
    done = run("promtool", "check", "metrics", text=page)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs("promtool")
def test_prometheus_understands_what_the_document_says(tmp_path: Path) -> None:
    file = tmp_path / "prometheus.yml"
    file.write_text(block("yaml", "scrape_configs:"))
    assert run("promtool", "check", "config", file).returncode == 0


@pytest.mark.skipif(not HAS_TLS, reason="the dashboard shows metrics of TLS, too")
def test_each_metric_of_the_dashboard_exists(measured: Server) -> None:
    dashboard = json.loads((PACKAGING / "grafana/gossamer.json").read_text())
    queries = [str(one["query"]) for one in dashboard["templating"]["list"]]
    for panel in dashboard["panels"]:
        queries += [target["expr"] for target in panel["targets"]]
    named = {name for query in queries for name in METRIC.findall(query)}
    assert named >= {"gossamer_responses_total", "gossamer_request_seconds_bucket"}
    assert named - {name for name, _ in read(measured)} == set()
    places = [tuple(panel["gridPos"][name] for name in "xy") for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)


# ---- Other web servers ----


@needs("nginx")
def test_nginx_understands_what_the_document_says(tmp_path: Path) -> None:
    names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{name}_temp_path {tmp_path}/{name};" for name in names)
    file = tmp_path / "nginx.conf"
    file.write_text(
        f"error_log stderr; pid {tmp_path}/pid; events {{}}\n"
        f"http {{ access_log off; {paths}\n{block('nginx')}\n}}\n"
    )
    done = run("nginx", "-t", "-c", file)
    assert done.returncode == 0, done.stderr
    assert "test is successful" in done.stderr


@needs("caddy")
def test_caddy_understands_what_the_document_says(tmp_path: Path) -> None:
    file = tmp_path / "Caddyfile"
    file.write_text(block("caddy"))
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    output("caddy", "validate", "--adapter", "caddyfile", "--config", file, **home)
