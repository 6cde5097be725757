"""WAN emulation: the relay drops and delivers packets as configured, and leaves nothing behind."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conftest import FAKE
from gossamer_lab import cli, paths
from gossamer_lab.experiments.manifest import Link
from gossamer_lab.experiments.quick import QUICK
from gossamer_lab.hosts import network
from gossamer_lab.hosts.network import Network, NetworkUnavailableError, wan_hosts

_CORE = min(os.sched_getaffinity(0))
_TIMEOUT_S = 120.0
_MANY = 50
_SEND = """
import socket, sys
address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    for i in range(count):
        out.sendto(str(i).encode(), (address, port))
"""


@pytest.fixture
def relay(tmp_path: Path) -> Path:
    """Return the relay, if a WAN can be emulated here."""
    program = paths.programs() / network.RELAY
    if refusal := network.refusal(program, _CORE, tmp_path):
        pytest.skip(refusal)
    return program


def send(namespace: str, address: str, port: int) -> None:
    """Send numbered packets from a host."""
    arguments = (sys.executable, "-S", "-c", _SEND, address, str(port), str(_MANY))
    subprocess.run(("nsenter", f"--net={namespace}", *arguments), check=True, timeout=_TIMEOUT_S)


def known_devices() -> dict[str, int]:
    """Return the network devices of this namespace and their numbers, which are never reused."""
    return {name: number for number, name in socket.if_nameindex()}


def device_of(server: str) -> str:
    return f"gs-wan{server.split('.')[2]}"


def received(inbox: socket.socket, count: int) -> list[int]:
    """Return the numbers of this many packets, in the order of their arrival."""
    inbox.settimeout(_TIMEOUT_S)
    return [int(inbox.recv(100)) for _ in range(count)]


def packets(folder: Path) -> list[list[int]]:
    """Return the relay's final counts: passed, lost and cut off, in both directions."""
    lines = re.findall(r"^packets \S+ (.*)$", (folder / "relay.out").read_text(), re.MULTILINE)
    return [[int(number) for number in line.split()] for line in lines]


def lost_of_many(relay: Path, links: Sequence[Link], seed: int, folder: Path) -> list[int]:
    """Return how many packets are lost from each host."""
    with wan_hosts(relay, links, seed, _CORE, folder) as wan:
        for namespace in wan.namespaces:
            send(namespace, wan.server, 9)
    return [forth for _, forth, *_ in packets(folder)]


def test_packets_arrive_in_order_and_from_the_host_that_sent_them(
    relay: Path, tmp_path: Path
) -> None:
    with (
        wan_hosts(relay, (Link(3.0), Link(1.0)), 1, _CORE, tmp_path) as wan,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inbox,
    ):
        inbox.bind((wan.server, 0))
        for namespace, last in zip(wan.namespaces, (2, 3), strict=True):
            send(namespace, wan.server, inbox.getsockname()[1])
            inbox.settimeout(_TIMEOUT_S)
            first, sender = inbox.recvfrom(100)
            assert first == b"0"
            assert sender[0] == wan.server.rpartition(".")[0] + f".{last}"
            assert received(inbox, _MANY - 1) == list(range(1, _MANY))


def test_a_direction_with_total_loss_delivers_nothing(relay: Path, tmp_path: Path) -> None:
    links = (Link(1.0, loss=1.0), Link(1.0, return_loss=1.0))
    with (
        wan_hosts(relay, links, 1, _CORE, tmp_path) as wan,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inbox,
    ):
        inbox.bind((wan.server, 0))
        send(wan.namespaces[0], wan.server, inbox.getsockname()[1])
        send(wan.namespaces[1], wan.server, inbox.getsockname()[1])
        assert received(inbox, _MANY) == list(range(_MANY))
        reply_to = wan.server.rpartition(".")[0] + ".3"
        inbox.sendto(b"lost", (reply_to, 9))
    (first, second) = packets(tmp_path)
    assert first[:2] == [0, _MANY]
    assert second == [_MANY, 0, 0, 0, 1, 0]


def test_the_seed_determines_which_packets_are_lost(relay: Path, tmp_path: Path) -> None:
    links = (Link(1.0, loss=0.5),) * 4
    first = lost_of_many(relay, links, 1, tmp_path)
    assert first == lost_of_many(relay, links, 1, tmp_path)
    assert first != lost_of_many(relay, links, 2, tmp_path)
    assert len(set(first)) > 1


def test_hosts_are_removed_when_an_exception_is_raised(relay: Path, tmp_path: Path) -> None:
    seen: list[Network] = []

    def break_off() -> None:
        with wan_hosts(relay, (Link(1.0),), 1, _CORE, tmp_path) as wan:
            seen.append(wan)
            assert Path(wan.namespaces[0]).exists()
            assert device_of(wan.server) in known_devices()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert not Path(seen[0].namespaces[0]).exists()
    assert not Path(f"/proc/{seen[0].pid}").exists()


_LAB = """
import time
from pathlib import Path
from gossamer_lab.experiments.manifest import Link
from gossamer_lab.hosts.network import wan_hosts
folder = Path({folder!r})
with wan_hosts(Path({relay!r}), (Link(1.0),), 1, {core}, folder) as wan:
    (folder / "up.new").write_text(f"{{wan.pid}} {{wan.server}}")
    (folder / "up.new").rename(folder / "up")
    time.sleep(600)
"""


def has_ended(pid: str) -> bool:
    """Return whether a process has ended; one whose parent was killed may be a zombie of ours."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] in {"Z", "X"}


def test_nothing_is_left_behind_when_the_lab_is_killed(relay: Path, tmp_path: Path) -> None:
    script = _LAB.format(folder=str(tmp_path), relay=str(relay), core=_CORE)
    lab = subprocess.Popen((sys.executable, "-c", script))
    try:
        deadline = time.monotonic() + _TIMEOUT_S
        while not (tmp_path / "up").exists():
            assert lab.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        pid, server = (tmp_path / "up").read_text().split()
        device = known_devices()[device_of(server)]
        lab.send_signal(signal.SIGKILL)
    finally:
        lab.kill()
        lab.wait()
    while not has_ended(pid) or device in known_devices().values():
        assert time.monotonic() < deadline + _TIMEOUT_S
        time.sleep(0.02)


def refusing(folder: Path) -> Path:
    """Return a fake relay that lacks permission."""
    program = folder / network.RELAY
    program.parent.mkdir(parents=True)
    arguments = "relay: requires CAP_NET_ADMIN and CAP_SYS_ADMIN"
    program.write_text(f"#!/bin/sh\necho '{arguments}' >&2\nexit 3\n")
    program.chmod(0o755)
    return program


def test_a_relay_without_permission_reports_what_it_needs() -> None:
    real = paths.programs() / network.RELAY
    if not real.is_file():
        pytest.skip("the relay is not built")
    bare = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--reuid", "65534")
    dropped = (*bare, "--clear-groups") if os.geteuid() == 0 else ()
    if subprocess.run((*dropped, "test", "-x", str(real)), check=False).returncode:
        pytest.skip("the user `nobody` cannot execute the relay at its path")
    done = subprocess.run(
        (*dropped, str(real), "1", "1000,0,0"),
        check=False,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    assert (done.returncode, done.stderr) == (
        3,
        "relay: requires CAP_NET_ADMIN and CAP_SYS_ADMIN\n",
    )


def test_wan_points_are_refused_with_a_reason_and_the_others_are_measured(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fake == FAKE
    refusing(tmp_path / "bench")
    monkeypatch.setenv("GOSSAMER_BENCH", str(tmp_path / "bench"))
    near = QUICK.points[0]
    wan = replace(near, key="wan", hosts=2, is_wan=True)
    scale = replace(QUICK.scale("smoke"), budget_s=1.0, warmup_s=0.0, points=())
    short = replace(QUICK, points=(near, wan), scales=(scale,), architectures=None)
    monkeypatch.setitem(cli.EXPERIMENTS, "quick", short)
    arguments = ["run", "quick", "--scale", "smoke", "--json", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    results = json.loads(result.stdout)
    reasons = {left["name"]: left["reason"] for left in results["skipped"]}
    assert reasons[wan.label] == "refused: requires CAP_NET_ADMIN and CAP_SYS_ADMIN"
    assert [point["key"] for point in results["points"]] == [near.key]
    assert results["complete"]


def test_without_the_relay_the_network_is_unavailable(tmp_path: Path) -> None:
    with (
        pytest.raises(NetworkUnavailableError, match="cannot be run"),
        wan_hosts(tmp_path / "absent", (), 1, _CORE, tmp_path),
    ):
        pass
