"""Servers of kernel threads under ``gossamer run``, and the programs that stand beside a server."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import FAKE
from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point
from gossamer_lab.experiments.unchanged_binaries import UNCHANGED_BINARIES
from gossamer_lab.measuring.accounting import tree_pids, tree_threads
from gossamer_lab.measuring.plan import RunOptions, make_plan
from gossamer_lab.measuring.workspace import open_workspace
from gossamer_lab.servers import peers
from gossamer_lab.servers.server import Launch, Server, serving
from gossamer_lab.servers.toys import toy_server
from gossamer_lab.servers.unchanged import by_run, with_runs

PAGE = Point("page", 305, 1, 1)


def server(name: str, *, ours: bool = False) -> Server:
    """Return a server that is never started."""
    return Server(name, ours, "a server", "1", lambda _site: Launch(("a", "b"), "text", "http://x"))


def test_a_named_server_is_followed_by_the_same_one_under_run(tmp_path: Path) -> None:
    program = tmp_path / "gossamer"
    first, second, third = with_runs([server("one"), server("two")], ("one",), program)
    assert [first.name, second.name, third.name] == ["one", "one, run", "two"]
    assert (first.ours, second.ours) == (False, True)
    with open_workspace(Experiment("e", "", (PAGE,), ()), program) as workspace:
        launch = second.configure(workspace.site)
    assert launch == Launch((str(program), "run", "a", "b"), "text", "http://x")


def test_what_stands_beside_a_server_runs_on_another_core_and_ends_with_it(tmp_path: Path) -> None:
    helper = (
        "import os, time; print(os.getpid(), *os.sched_getaffinity(0), flush=True); time.sleep(60)"
    )
    page = (
        "import http.server\n"
        "class Handler(http.server.SimpleHTTPRequestHandler):\n"
        "    def log_message(self, *_): pass\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), Handler)\n"
        "print(f'listening on http://127.0.0.1:{server.server_port}', flush=True)\n"
        "server.serve_forever()\n"
    )
    with open_workspace(Experiment("e", "", (PAGE,), ()), tmp_path) as workspace:
        argv = ("sh", "-c", 'cd "$1" && exec "$2" -c "$3"', "sh", str(workspace.site.root))
        launch = Launch((*argv, sys.executable, page), beside=((sys.executable, "-c", helper),))
        subject = Server("with-helper", False, "", "", lambda _site: launch)
        core, output = workspace.server_core, workspace.site.folder / "beside-0.out"
        with serving(subject, workspace.site, core, (PAGE.path, PAGE.size)) as running:
            while len(words := output.read_text().split()) < 2:
                pass
            pid, *cores = map(int, words)
            assert cores == [workspace.client_core]
            assert pid not in tree_pids(running.pid)
        assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("name", UNCHANGED_BINARIES.also_by_run)
def test_a_server_under_run_serves_the_page_with_few_kernel_threads(name: str) -> None:
    program = paths.program()
    if not program.is_file():
        pytest.skip(f"{program} is not built")
    toys = {toy.name: toy for toy in UNCHANGED_BINARIES.toys}
    found = peers.present_peers((name,)) if name not in toys else []
    if name in toys and (paths.programs() / toys[name].file).is_file():
        found = [toy_server(toys[name], paths.programs(), "")]
    if not found:
        pytest.skip(f"{name} is not on this machine")
    subject = by_run(found[0], program)
    with open_workspace(Experiment("e", "", (PAGE,), ()), program) as workspace:
        core = workspace.server_core
        with serving(subject, workspace.site, core, (PAGE.path, PAGE.size)) as running:
            assert 2 <= tree_threads(running.pid).number <= 16


@pytest.mark.usefixtures("fake")
def test_no_architecture_of_ours_is_measured_if_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOSSAMER_BENCH", str(tmp_path))
    experiment = replace(UNCHANGED_BINARIES, points=(PAGE,))
    scale = replace(experiment.scale("smoke"), points=())
    with open_workspace(experiment, FAKE) as workspace:
        plan = make_plan(experiment, scale, workspace, RunOptions(1))
    assert plan.servers == {}
    assert plan.absent_peers == ("stunnel", "tinyproxy")
    (skipped,) = (one for one in plan.skipped if one.name == "microhttpd")
    assert "it needs libmicrohttpd-dev" in skipped.reason
