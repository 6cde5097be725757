"""The load generator as a program: its processes, the signals it gets, and when a run is void."""

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
from server import PATIENCE_S, program

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Answers:
    """A server that counts the requests it answers, and calls ``act`` before one of them."""

    at: int = 0
    act: Callable[[], None] = lambda: None
    listener: socket.socket = field(
        default_factory=lambda: socket.create_server(("127.0.0.1", 0), backlog=1024)
    )
    seen: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """Return where it is."""
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}/"

    def count(self) -> None:
        """Count a request, and act if it is the one."""
        with self.lock:
            self.seen += 1
            is_time = self.seen == self.at
        if is_time:
            self.act()

    def answer(self, connection: socket.socket) -> None:
        """Answer what comes on a connection, each request whole in one receive or more."""
        with connection, contextlib.suppress(OSError):
            text = b""
            while received := connection.recv(4096):
                text += received
                while (end := text.find(b"\r\n\r\n")) >= 0:
                    text = text[end + 4 :]
                    self.count()
                    connection.sendall(ANSWER)

    def run(self) -> None:
        """Accept connections until the listener is closed."""
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.answer, args=(connection,), daemon=True).start()


@pytest.fixture
def answers() -> Iterator[Answers]:
    """Return a server that runs."""
    server = Answers()
    threading.Thread(target=server.run, daemon=True).start()
    yield server
    server.listener.shutdown(socket.SHUT_RDWR)
    server.listener.close()


@dataclass
class Load:
    """A run of the load generator."""

    report: Path
    process: subprocess.Popen[str]

    def end(self) -> tuple[int, dict[str, Any]]:
        """Wait for its end; return its status and its report."""
        try:
            status = self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
        return status, json.loads(self.report.read_text())

    def children(self) -> list[int]:
        """Return the processes that it made, in their order."""
        pid = self.process.pid
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def start(tmp_path: Path, answers: Answers) -> Callable[..., Load]:
    """Return what starts a run against the server, with so many files if a number is given."""

    def run(*words: str, stderr: int = subprocess.DEVNULL, files: int = 0) -> Load:
        report = tmp_path / "load.json"

        limit = ["prlimit", f"--nofile={files}"] if files else []
        command = [*limit, program(), "load", *words, "--json", str(report), answers.url]
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
        return Load(report, process)

    return run


def when(answers: Answers, at: int, act: Callable[[], None]) -> None:
    """Have something done before a request is answered."""
    with answers.lock:
        answers.at, answers.act = at, act


def test_a_client_that_is_held_up_declares_its_run_void(
    answers: Answers, start: Callable[..., Load]
) -> None:
    runs: list[Load] = []
    started = threading.Event()

    def hold_up() -> None:
        started.wait()
        runs[0].process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        runs[0].process.send_signal(signal.SIGCONT)

    when(answers, 20, hold_up)
    runs.append(start("-c", "100", "-r", "200", "-n", "300"))
    started.set()
    status, report = runs[0].end()
    assert status == 3
    assert report["void"] is True
    assert "one request in a hundred was sent" in report["void_reason"]
    assert report["requests"] == 300
    assert report["lag_us"]["max"] > 400_000
    assert report["response_us"]["max"] > 400_000


def test_a_process_that_dies_is_reported_and_the_others_go_on(
    answers: Answers, start: Callable[..., Load]
) -> None:
    runs: list[Load] = []
    started = threading.Event()

    def kill_the_first() -> None:
        started.wait()
        os.kill(runs[0].children()[0], signal.SIGKILL)

    when(answers, 20, kill_the_first)
    runs.append(start("-c", "6", "-n", "1000", "-r", "1000", "--processes", "3"))
    started.set()
    status, report = runs[0].end()
    assert status == 3
    assert report["void"] is True
    assert report["void_reason"].startswith("process 1 of 3 ended early, with signal 9")
    assert report["requests"] == report["response_us"]["count"] == 666
    assert report["processes"] == 3


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_for_all", [False, True])
def test_a_signal_ends_the_run_with_what_was_measured(
    answers: Answers,
    start: Callable[..., Load],
    processes: str,
    number: signal.Signals,
    is_for_all: bool,
) -> None:
    runs: list[Load] = []
    started = threading.Event()

    def interrupt() -> None:
        started.wait()
        (os.killpg if is_for_all else os.kill)(runs[0].process.pid, number)

    when(answers, 20, interrupt)
    words = ("-c", "4", "-d", "1h", "--processes", processes)
    runs.append(start(*words))
    started.set()
    status, report = runs[0].end()
    assert status == 0
    assert report["interrupted"] is True
    assert report["void"] is False
    assert 10 <= report["requests"] <= answers.seen
    assert report["response_us"]["count"] == report["requests"]


def test_more_connections_than_one_process_may_have_make_more_processes(
    answers: Answers, start: Callable[..., Load]
) -> None:
    status, report = start("-c", "60", "-n", "600", files=64).end()
    assert (status, report["processes"], report["requests"]) == (0, 2, 600)
    assert sum(report["errors"].values()) == 0
    assert answers.seen == 600


def test_a_terminal_shows_how_the_run_goes_on(start: Callable[..., Load]) -> None:
    ours, theirs = pty.openpty()
    run = start("-c", "2", "-d", "700ms", stderr=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert run.end()[0] == 0
    assert b" requests  " in shown
    assert b" errors" in shown
