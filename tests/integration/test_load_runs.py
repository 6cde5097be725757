"""The load generator as a program: processes, signals, and invalid runs."""

import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from server import TIMEOUT_S, program

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class CountingServer:
    """A server that counts requests, and calls ``action`` before the response to one of them."""

    action_count: int = 0
    action: Callable[[], None] = lambda: None
    listener: socket.socket = field(
        default_factory=lambda: socket.create_server(("127.0.0.1", 0), backlog=1024)
    )
    request_count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """Return the URL of the server."""
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}/"

    def count(self) -> None:
        """Count a request, and call ``action`` if its number is ``action_count``."""
        with self.lock:
            self.request_count += 1
            is_reached = self.request_count == self.action_count
        if is_reached:
            self.action()

    def serve(self, connection: socket.socket) -> None:
        """Respond to each request of a connection."""
        with connection, contextlib.suppress(OSError):
            text = b""
            while received := connection.recv(4096):
                text += received
                while (end := text.find(b"\r\n\r\n")) >= 0:
                    text = text[end + 4 :]
                    self.count()
                    connection.sendall(RESPONSE)

    def run(self) -> None:
        """Accept connections until the listener is closed."""
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()


@pytest.fixture
def counting_server() -> Iterator[CountingServer]:
    """Run a server."""
    server = CountingServer()
    threading.Thread(target=server.run, daemon=True).start()
    yield server
    server.listener.shutdown(socket.SHUT_RDWR)
    server.listener.close()


@dataclass
class Load:
    """A running load generator."""

    report: Path
    process: subprocess.Popen[str]

    def wait(self) -> tuple[int, dict[str, Any]]:
        """Wait for the run to end; return the exit status and the report."""
        try:
            status = self.process.wait(TIMEOUT_S)
        finally:
            self.process.kill()
        return status, json.loads(self.report.read_text())

    def children(self) -> list[int]:
        """Return the child processes in the order of their creation."""
        pid = self.process.pid
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def start(tmp_path: Path, counting_server: CountingServer) -> Callable[..., Load]:
    """Return a function that starts a run against the server; ``files`` limits its open files."""

    def run(*arguments: str, stderr: int = subprocess.DEVNULL, files: int = 0) -> Load:
        report = tmp_path / "load.json"

        limit = ["prlimit", f"--nofile={files}"] if files else []
        command = [
            *limit,
            program(),
            "load",
            *arguments,
            "--json",
            str(report),
            counting_server.url,
        ]
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
        return Load(report, process)

    return run


def call_before(server: CountingServer, count: int, action: Callable[[], None]) -> None:
    """Have ``action`` called before the response to the ``count``-th request."""
    with server.lock:
        server.action_count, server.action = count, action


def test_a_run_whose_client_was_stopped_is_invalid(
    counting_server: CountingServer, start: Callable[..., Load]
) -> None:
    runs: list[Load] = []
    started = threading.Event()

    def stop_for_a_while() -> None:
        started.wait()
        runs[0].process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        runs[0].process.send_signal(signal.SIGCONT)

    call_before(counting_server, 20, stop_for_a_while)
    runs.append(start("-c", "100", "-r", "200", "-n", "300"))
    started.set()
    status, report = runs[0].wait()
    assert status == 3
    assert report["invalid"] is True
    assert "the 99th percentile of the send delay" in report["invalid_reason"]
    assert report["requests"] == 300
    assert report["send_delay_us"]["max"] > 400_000
    assert report["response_us"]["max"] > 400_000


def test_a_process_that_dies_is_reported_and_the_others_continue(
    counting_server: CountingServer, start: Callable[..., Load]
) -> None:
    runs: list[Load] = []
    started = threading.Event()

    def kill_the_first() -> None:
        started.wait()
        os.kill(runs[0].children()[0], signal.SIGKILL)

    call_before(counting_server, 20, kill_the_first)
    runs.append(start("-c", "6", "-n", "1000", "-r", "1000", "--processes", "3"))
    started.set()
    status, report = runs[0].wait()
    assert status == 3
    assert report["invalid"] is True
    assert report["invalid_reason"].startswith("process 1 of 3 ended early with signal 9")
    assert report["requests"] == report["response_us"]["count"] == 666
    assert report["processes"] == 3


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_for_group", [False, True])
def test_a_run_ended_by_a_signal_reports_what_was_measured(
    counting_server: CountingServer,
    start: Callable[..., Load],
    processes: str,
    number: signal.Signals,
    is_for_group: bool,
) -> None:
    runs: list[Load] = []
    started = threading.Event()

    def interrupt() -> None:
        started.wait()
        (os.killpg if is_for_group else os.kill)(runs[0].process.pid, number)

    call_before(counting_server, 20, interrupt)
    runs.append(start("-c", "4", "-d", "1h", "--processes", processes))
    started.set()
    status, report = runs[0].wait()
    assert status == 0
    assert report["interrupted"] is True
    assert report["invalid"] is False
    assert 10 <= report["requests"] <= counting_server.request_count
    assert report["response_us"]["count"] == report["requests"]


def test_connections_beyond_the_file_limit_are_divided_among_processes(
    counting_server: CountingServer, start: Callable[..., Load]
) -> None:
    status, report = start("-c", "60", "-n", "600", files=64).wait()
    assert (status, report["processes"], report["requests"]) == (0, 2, 600)
    assert sum(report["errors"].values()) == 0
    assert counting_server.request_count == 600


def test_the_progress_is_shown_on_a_terminal(start: Callable[..., Load]) -> None:
    controller, terminal = pty.openpty()
    run = start("-c", "2", "-d", "1500ms", stderr=terminal)
    os.close(terminal)
    output = b""
    with contextlib.suppress(OSError):
        while part := os.read(controller, 4096):
            output += part
    os.close(controller)
    assert run.wait()[0] == 0
    assert b" requests  " in output
    assert b" errors" in output


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_run_without_any_response_is_given_up_with_an_error(
    tmp_path: Path, processes: str
) -> None:
    report = tmp_path / "load.json"
    options = ("-d", "1h", "--give-up", "200ms", "--timeout", "100ms", "--processes", processes)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else gets the port
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        done = subprocess.run(
            [program(), "load", *options, "--json", str(report), url],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == (
        "gossamer load: gave up: no response has arrived: Connection refused "
        "(--give-up 0 keeps trying)\n"
    )
    assert "(given up)" in done.stdout
    result = json.loads(report.read_text())
    assert result["gave_up"] is True
    assert result["interrupted"] is False
