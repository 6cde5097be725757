"""Peers: how each is found, configured and started; and the toy servers."""

import http.client
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gossamer_lab import paths
from gossamer_lab.experiments import EXPERIMENTS
from gossamer_lab.experiments.are_events_fast import ARE_EVENTS_FAST
from gossamer_lab.experiments.manifest import Experiment, Point, Program
from gossamer_lab.measuring import program
from gossamer_lab.measuring.accounting import tree_pids
from gossamer_lab.measuring.plan import RunOptions, make_plan
from gossamer_lab.measuring.workspace import Workspace, open_workspace
from gossamer_lab.servers import peers, server
from gossamer_lab.servers.configurations import apache
from gossamer_lab.servers.server import Launch, Server, ServerFailedError, serving
from gossamer_lab.servers.toys import toy_server

PAGE = Point("page", 305, 1, 1)
NAMES = ("nginx", "lighttpd", "h2o", "apache-prefork", "apache-worker", "apache-event")
NAMES += ("mini-httpd", "stunnel", "tinyproxy", "go")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """Return a workspace with one page."""
    with open_workspace(Experiment("peers", "", (PAGE,), ()), tmp_path / "program") as found:
        yield found


def start(workspace: Workspace, subject: Server) -> tuple[Launch, int]:
    """Start a server until its first response; return its launch and its process id."""
    with serving(subject, workspace.site, workspace.server_core, (PAGE.path, PAGE.size)) as running:
        return running.launch, running.pid


@pytest.mark.parametrize("name", NAMES)
def test_a_peer_serves_the_page_and_leaves_no_process(name: str, workspace: Workspace) -> None:
    present = peers.present_peers((name,))
    if not present:
        pytest.skip(f"{name} is not on this machine")
    assert "unknown" not in present[0].version
    launch, pid = start(workspace, present[0])
    assert launch.argv[0] == str(peers.peer_program(name))
    assert tree_pids(pid) == []


@pytest.mark.parametrize("name", ["nginx", "lighttpd", "h2o"])
def test_a_peer_serves_the_page_over_tls(name: str, workspace: Workspace) -> None:
    present = peers.present_peers((name,))
    if not present:
        pytest.skip(f"{name} is not on this machine")
    site = replace(workspace.site, certificate=peers.certificate(workspace.site.folder))
    launch, _ = start(replace(workspace, site=site), present[0])
    assert str(launch.url).startswith("https://")


def test_every_peer_in_a_manifest_is_known() -> None:
    named = {name for known in EXPERIMENTS.values() for name in known.peers}
    stock = {f"apache-{model}, stock" for model in ("prefork", "worker", "event")}
    assert named <= {*NAMES, *stock}
    assert {"nginx", "apache-prefork", "apache-worker"} <= named


@pytest.mark.usefixtures("fake")
def test_missing_peers_are_listed() -> None:
    assert peers.present_peers(NAMES) == []
    assert peers.absent_peers(NAMES) == NAMES


@pytest.mark.usefixtures("fake")
def test_the_version_of_a_peer_is_its_own_output(tmp_path: Path) -> None:
    path = tmp_path / "peers" / "mini_httpd"
    path.write_text('#!/bin/sh\n[ "$1" = -V ] && echo "mini_httpd/9.9 of today" >&2\nexit 1\n')
    path.chmod(0o755)
    (found,) = peers.present_peers(("mini-httpd",))
    assert (found.name, found.version) == ("mini-httpd", "mini_httpd/9.9 of today")


@pytest.mark.parametrize(
    ("model", "word"), [("prefork", "StartServers 256"), ("event", "ThreadsPerChild 64")]
)
def test_an_mpm_of_apache_has_its_module_and_its_limits(model: str, word: str) -> None:
    template = apache(model)
    assert f"LoadModule mpm_{model}_module ${{{{MODULES}}}}/mod_mpm_{model}.so" in template
    assert word in template
    assert "MODEL" not in template


@pytest.mark.parametrize("model", ["prefork", "worker", "event"])
def test_a_stock_apache_has_the_limits_that_are_compiled_into_it(model: str) -> None:
    stock = apache(model, is_stock=True)
    assert f"mod_mpm_{model}.so" in stock
    raised = apache(model).removeprefix(stock).split()[::2]
    assert {"ListenBacklog", "KeepAliveTimeout", "ServerLimit", "MaxRequestWorkers"} <= set(raised)
    assert not set(stock.split()) & {*raised, "StartServers"}


def test_a_server_that_resets_its_first_connection_is_retried(
    workspace: Workspace, tmp_path: Path
) -> None:
    body = workspace.site.root / "page-305.html"
    script = tmp_path / "resets.py"
    script.write_text(
        "import socket, struct, sys\n"
        "listener = socket.create_server(('127.0.0.1', 0))\n"
        "print(f'listening on http://127.0.0.1:{listener.getsockname()[1]}', flush=True)\n"
        "for number in range(99):\n"
        "    one, _ = listener.accept()\n"
        "    if number == 0:\n"
        "        reset = struct.pack('ii', 1, 0)\n"
        "        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)\n"
        "    else:\n"
        "        one.recv(4096)\n"
        "        body = open(sys.argv[1], 'rb').read()\n"
        "        one.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\n' + body)\n"
        "    one.close()\n"
    )
    argv = (sys.executable, str(script), str(body))
    launch, _ = start(workspace, Server("resets", False, "", "", lambda _site: Launch(argv)))
    assert launch.argv == argv


def test_a_server_that_accepts_but_does_not_respond_times_out(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_READY_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        silent = Server("silent", False, "", "", lambda _site: Launch(("sleep", "60"), url=url))
        with pytest.raises(ServerFailedError, match=r"no response to GET /page-305\.html"):
            start(workspace, silent)


@pytest.mark.parametrize("toy", ARE_EVENTS_FAST.toys, ids=lambda toy: toy.name)
def test_a_toy_serves_the_page(toy: Program, workspace: Workspace) -> None:
    if not (workspace.programs / toy.file).is_file():
        pytest.skip(f"{toy.file} is not built here")
    with serving(
        toy_server(toy, workspace.programs, ""),
        workspace.site,
        workspace.server_core,
        (PAGE.path, PAGE.size),
    ) as running:
        port = int(running.url.rsplit(":", 1)[1])
        codes = []

        def ask() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", PAGE.path, headers={"Connection": "close"})
            answer = connection.getresponse()
            codes.append((answer.status, len(answer.read())))
            connection.close()

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert codes == [(200, 305)] * 8


def fake_toy(folder: Path, name: str) -> None:
    """Install a toy that serves 305 bytes."""
    path = folder / "toys" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!{sys.executable}\n"
        "import http.server\n"
        "class Handler(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200)\n"
        "        self.end_headers()\n"
        "        self.wfile.write(b'x' * 305)\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), Handler)\n"
        "print(f'listening on http://127.0.0.1:{server.server_port}', flush=True)\n"
        "server.serve_forever()\n"
    )
    path.chmod(0o755)


def test_toys_are_measured_and_those_without_their_library_are_skipped(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOSSAMER_BENCH", str(tmp_path / "bench"))
    for name in ("fork", "kernel", "threads", "loop"):
        fake_toy(tmp_path / "bench", name)
    experiment = replace(ARE_EVENTS_FAST, architectures=())
    with open_workspace(experiment, fake) as workspace:
        plan = make_plan(experiment, experiment.scale("smoke"), workspace, RunOptions(1))
    known, _ = plan.servers["toy-fork"]
    assert (known.ours, known.version) == (True, "this checkout")
    assert {"toy-fork", "toy-kernel", "toy-user", "toy-event"} <= set(plan.servers)
    skipped = {one.name: one for one in plan.skipped}
    assert skipped["toy-st"].reason == "toys/st is not built: it needs libst-dev"
    assert skipped["toy-cpc"].reason == (
        "toys/cpc is not built: it needs llvm-19-dev, to build gossamer cc"
    )
    assert not skipped["toy-st"].is_error
    assert not skipped["toy-cpc"].is_error


def test_the_toy_compiled_by_gossamer_cc_is_ours(tmp_path: Path) -> None:
    toys = {toy.name: toy for toy in EXPERIMENTS["are-events-fast"].toys}
    server = toy_server(toys["toy-cpc"], tmp_path, program.version_of(toys["toy-cpc"]))
    assert (server.ours, server.version) == (True, "this checkout")


def test_a_library_unpacked_by_make_peers_has_the_version_of_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    unpacked = tmp_path / "peers/root/.unpacked"
    unpacked.mkdir(parents=True)
    (unpacked / "libother-dev").write_text("1:4.33-1\n")
    one = Program("one", "loops/one", (), "", "libother-dev")
    assert program.version_of(one) == "libother-dev 1:4.33-1"
    assert program.version_of(replace(one, package="")) == "this checkout"
