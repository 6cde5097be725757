"""The access log: one line in the combined format for each request, for every kind of log."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest
from conftest import Serve
from server import Server, arguments_for, attempts, open_files, program
from wire import Wire, get, request

LINE = re.compile(
    r"(?P<host>\S+) - - \[(?P<date>[^]]+)\] "
    r'"(?P<request>(?:[^"\\]|\\x[0-9A-F]{2})*)" (?P<status>\d{3}) (?P<bytes>\d+) '
    r'"(?P<referer>(?:[^"\\]|\\x[0-9A-F]{2})*)" "(?P<agent>(?:[^"\\]|\\x[0-9A-F]{2})*)"'
)


def parse(lines: list[str]) -> list[dict[str, str]]:
    """Parse the lines, each of which must be in the combined format."""
    entries = []
    for line in lines:
        match = LINE.fullmatch(line)
        assert match, line
        entries.append(match.groupdict())
    return entries


def wait_for_lines(file: Path, count: int) -> list[dict[str, str]]:
    """Wait until the log has this many lines."""
    text = ""
    for _ in attempts():
        text = file.read_text() if file.exists() else ""
        if text.count("\n") >= count and text.endswith("\n"):  # a write may be seen in part
            break
    lines = text.splitlines()
    assert len(lines) == count, lines
    return parse(lines)


def test_each_request_is_a_line_in_the_combined_format(serve: Serve, root: Path) -> None:
    log = root.parent / "log"
    server = serve(root, "--access-log", str(log), "--workers", "1")
    before = int(time.time())
    with Wire(server.address) as wire:
        tag = wire.get("/a.txt?a=b", Referer="http://x/y", User_Agent="tests/1.0").fields["etag"]
        wire.get("/nonesuch")
        wire.request("HEAD", "/a.txt")
        wire.get("/a.txt", If_None_Match=tag)
        wire.get("/digits.txt", Range="bytes=0-9")
        wire.get("/large.bin")
        wire.send(b"BREW /a.txt HTTP/1.0\r\n\r\n")
        refused = wire.response()
    entries = wait_for_lines(log, 7)
    assert {entry["host"] for entry in entries} == {"127.0.0.1"}
    assert [(e["request"], int(e["status"]), int(e["bytes"])) for e in entries] == [
        ("GET /a.txt?a=b HTTP/1.1", 200, 6),
        ("GET /nonesuch HTTP/1.1", 404, len("404 Not Found\n")),
        ("HEAD /a.txt HTTP/1.1", 200, 0),
        ("GET /a.txt HTTP/1.1", 304, 0),
        ("GET /digits.txt HTTP/1.1", 206, 10),
        ("GET /large.bin HTTP/1.1", 200, 1 << 20),
        ("BREW /a.txt HTTP/1.0", 501, len(refused.body)),
    ]
    assert [(e["referer"], e["agent"]) for e in entries[:2]] == [
        ("http://x/y", "tests/1.0"),
        ("-", "-"),
    ]
    for entry in entries:
        date = datetime.strptime(entry["date"], "%d/%b/%Y:%H:%M:%S %z")
        assert before <= date.timestamp() <= time.time()


def test_a_line_may_be_an_object(serve: Serve, root: Path) -> None:
    log = root.parent / "log"
    server = serve(root, "--access-log", str(log), "--log-format", "json", "--workers", "1")
    with Wire(server.address) as wire:
        wire.get("/a.txt?a=b", Referer='http://x/\u00fc"y')
        wire.get("/nonesuch")
        wire.send(b"BREW \xff HTTP/1.0\r\n\r\n")
        wire.response()
    server.stop()
    found, missing, refused = (json.loads(line) for line in log.read_text().splitlines())
    assert datetime.fromisoformat(found["time"]).tzinfo
    assert (found["method"], found["target"], found["status"]) == ("GET", "/a.txt?a=b", 200)
    assert found["referer"] == 'http://x/\u00c3\u00bc"y'  # the bytes of UTF-8
    assert 0 <= found["duration"] < 60
    assert (missing["status"], missing["user_agent"]) == (404, None)
    assert (refused["method"], refused["target"]) == ("BREW", "\u00ff")


def test_what_could_forge_a_line_is_escaped(serve: Serve, root: Path) -> None:
    log = root.parent / "log"
    server = serve(root, "--access-log", str(log))
    with Wire(server.address) as wire:
        wire.send(
            b'GET /a.txt HTTP/1.1\r\nHost: x\r\nUser-Agent: a"b\\c\xc3\xa9\td\r\n'
            b'Referer: " 200 1 "-" "-\r\n\r\n'
        )
        assert wire.response().status == 200
        wire.send(b'GET /a"b HTTP/1.1\r\nHost: x\r\n\r\n')
        assert wire.response().status == 400
    first, second = wait_for_lines(log, 2)
    assert first["agent"] == r"a\x22b\x5Cc\xC3\xA9\x09d"
    assert first["referer"] == r"\x22 200 1 \x22-\x22 \x22-"
    assert second["request"] == r"GET /a\x22b HTTP/1.1"


def test_unparsable_requests_are_logged_too(serve: Serve, root: Path) -> None:
    log = root.parent / "log"
    server = serve(root, "--access-log", str(log))
    with Wire(server.address) as wire:
        wire.send(b"\x16\x03\x01\x00\xa5\x01\n\n")
        assert wire.response().status == 400
    with Wire(server.address) as wire:
        wire.send(b"\n")
        assert wire.response().status == 400
    logged = [(line["request"], line["status"]) for line in wait_for_lines(log, 2)]
    assert sorted(logged) == [("-", "400"), (r"\x16\x03\x01\x00\xA5\x01", "400")]


def test_very_long_texts_leave_lines_whole(serve: Serve, root: Path) -> None:
    log = root.parent / "log"
    server = serve(root, "--access-log", str(log), "--workers", "1")
    with Wire(server.address) as wire:
        data = request("GET", "/" + "x" * 8000, User_Agent='"' * 9000, Referer="y" * 9000)
        wire.send(data * 20)
        for _ in range(20):
            assert wire.response().status == 404
    entries = wait_for_lines(log, 20)
    for entry in entries:
        assert entry["request"].startswith("GET /xxx")
        assert entry["agent"].startswith(r"\x22\x22")
        assert len(entry["request"]) > 2000


def test_a_transfer_that_broke_is_logged_with_what_was_sent(serve: Serve, root: Path) -> None:
    log = root.parent / "log"
    with (root / "huge.bin").open("wb") as file:
        file.truncate(64 << 20)
    server = serve(root, "--access-log", str(log))
    with Wire(server.address, receive_buffer=65536) as wire:
        wire.send(request("GET", "/huge.bin"))
        wire.head()
        wire.body(100_000)
        wire.reset()
    (entry,) = wait_for_lines(log, 1)
    assert entry["status"] == "200"
    assert 100_000 <= int(entry["bytes"]) < 64 << 20


def test_an_address_of_ipv6_is_logged(serve: Serve, root: Path) -> None:
    log = root.parent / "log"
    server = serve(root, "--listen", "[::1]:0", "--access-log", str(log))
    get(server.address, "/a.txt")
    assert wait_for_lines(log, 1)[0]["host"] == "::1"


def test_a_dash_logs_to_stdout_after_the_ready_line(serve: Serve, root: Path) -> None:
    server = serve(root, "--access-log", "-")
    for _ in range(10):
        get(server.address, "/a.txt")
    server.send_signal(signal.SIGUSR1)
    server.stop()
    ready, *lines = server.stdout_lines()
    assert ready.startswith("listening on ")
    assert len(parse(lines)) == 10


def test_a_log_is_appended_to(serve: Serve, root: Path) -> None:
    log = root.parent / "log"
    log.write_text("before\n")
    get(serve(root, "--access-log", str(log)).address, "/a.txt")
    for _ in attempts():
        if log.read_text().count("\n") == 2:
            break
    assert log.read_text().startswith("before\n127.0.0.1 - - [")


def ask_numbered(server: Server, client: int, is_over: threading.Event) -> list[str]:
    """Request pages that can be distinguished in the log, and return the expected entries."""
    asked: list[str] = []
    with Wire(server.address) as wire:
        while not is_over.is_set():
            paths = [f"/a.txt?{client}-{len(asked) + i}" for i in range(10)]
            wire.send(b"".join(request("GET", path) for path in paths))
            for path in paths:
                assert wire.response().status == 200
                asked.append(f"GET {path} HTTP/1.1")
    return asked


def test_no_line_is_lost_while_logs_are_rotated(serve: Serve, root: Path) -> None:
    log, clients, is_over = root.parent / "log", 6, threading.Event()
    server = serve(root, "--access-log", str(log), "--workers", "2")
    with ThreadPoolExecutor(clients) as pool:
        try:
            asking = [pool.submit(ask_numbered, server, i, is_over) for i in range(clients)]
            for turn in range(10):
                assert any(log.exists() and log.stat().st_size for _ in attempts())
                log.rename(log.with_name(f"log.{turn}"))
                server.send_signal(signal.SIGUSR1)
        finally:
            is_over.set()
        expected = [entry for asked in asking for entry in asked.result()]
    server.stop()
    lines = [line for file in log.parent.glob("log*") for line in file.read_text().splitlines()]
    seen = Counter(entry["request"] for entry in parse(lines))
    assert seen == Counter(expected)


REOPENING = pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGHUP])


@REOPENING
def test_a_waiting_process_closes_a_rotated_log(
    serve: Serve, root: Path, number: signal.Signals
) -> None:
    log, aside = root.parent / "log", root.parent / "log.1"
    server = serve(root, "--access-log", str(log), "--workers", "4", exact=True)
    log.rename(aside)
    server.send_signal(number)
    for _ in attempts():
        if not any(str(aside) in open_files(pid) for pid in server.process_ids()):
            break
    else:
        raise AssertionError("a process still has the old log open")
    get(server.address, "/a.txt")
    assert len(wait_for_lines(log, 1)) == 1
    assert aside.read_bytes() == b""


def test_a_log_that_cannot_be_reopened_continues_in_the_old_file(serve: Serve, root: Path) -> None:
    folder = root.parent / "logs"
    folder.mkdir()
    server = serve(root, "--access-log", str(folder / "log"))
    server.expect("can't reopen the access log")
    folder.rename(root.parent / "moved")
    server.send_signal(signal.SIGUSR1)
    for _ in attempts():
        if server.stderr_lines():
            break
    get(server.address, "/a.txt")
    assert len(wait_for_lines(root.parent / "moved" / "log", 1)) == 1


@REOPENING
def test_without_a_log_the_signal_changes_nothing(
    serve: Serve, root: Path, number: signal.Signals
) -> None:
    server = serve(root)
    server.send_signal(number)
    assert get(server.address, "/a.txt").status == 200


def test_a_full_disk_loses_lines_but_no_requests(serve: Serve, root: Path) -> None:
    server = serve(root, "--access-log", "/dev/full", "--workers", "1")
    server.expect("the access log can't be written, lines are lost .*: No space left")
    server.expect("5 lines of the access log were lost")
    for _ in range(5):
        assert get(server.address, "/a.txt").status == 200
    server.stop()
    assert len(server.stderr_lines()) == 3


def test_a_reader_of_the_log_may_go_away(root: Path) -> None:
    command = [program(), "serve", "--listen", "127.0.0.1:0", "--access-log", "-", str(root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout
        ready = process.stdout.readline().decode()
        address = ("127.0.0.1", int(ready.split()[2].rpartition(":")[2]))
        process.stdout.close()
        for _ in range(5):
            assert get(address, "/a.txt").status == 200
        process.terminate()
        assert process.wait(30) == 0
        assert process.stderr
        assert b"Broken pipe" in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()


def test_a_log_may_be_a_pipe_with_a_name(serve: Serve, root: Path) -> None:
    pipe = root.parent / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    server = serve(root, "--access-log", str(pipe))
    get(server.address, "/a.txt")
    server.stop()
    assert len(parse(os.read(reader, 65536).decode().splitlines())) == 1
    os.close(reader)


def ask_often(address: tuple[str, int], count: int) -> None:
    """Request a page so often over one connection."""
    with Wire(address) as wire:
        for _ in range(count // 50):
            wire.send(request("GET", "/a.txt") * 50)
            for _ in range(50):
                assert wire.response().status == 200


def read_lines(fd: int, lines: list[str]) -> None:
    """Read lines to the end of a pipe."""
    with os.fdopen(fd) as pipe:
        lines += pipe.read().splitlines()


def test_a_log_that_nobody_reads_does_not_stop_the_server(serve: Serve, root: Path) -> None:
    pipe = root.parent / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    server = serve(root, "--access-log", str(pipe), "--workers", "1", "--metrics", "/metrics")
    server.expect("the access log can't be written, lines are lost .*: its reader is too slow")
    server.expect(r"\d+ lines of the access log were lost")
    ask_often(server.address, 4000)
    with Wire(server.address) as wire:
        page = wire.get("/metrics").body.decode()
    found = re.search(r"gossamer_access_log_lost_lines_total\{.*\} (\d+)", page)
    assert found
    assert int(found[1]) > 0
    os.set_blocking(reader, True)
    lines: list[str] = []
    thread = threading.Thread(target=read_lines, args=(reader, lines))
    thread.start()
    server.stop()
    thread.join()
    (lost,) = [line for line in server.stderr_lines() if "log were lost" in line]
    assert len(parse(lines)) + int(lost.split()[2]) == 4001


def test_standard_output_that_nobody_reads_does_not_stop_the_server(
    configuration: str, root: Path
) -> None:
    given = ("--listen", "127.0.0.1:0", "--access-log", "-", "--workers", "2")
    process = subprocess.Popen(
        [program(), "serve", "--arch", *arguments_for(configuration, given), str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout
        assert process.stderr
        ready = process.stdout.readline().decode()
        ask_often(("127.0.0.1", int(ready.split()[2].rpartition(":")[2])), 4000)
        process.terminate()
        assert process.wait(30) == 0
        assert b"its reader is too slow" in process.stderr.read()
    finally:
        process.kill()
        process.communicate()


@REOPENING
def test_a_pipe_in_place_of_the_log_is_not_waited_for(
    serve: Serve, root: Path, number: signal.Signals
) -> None:
    log, aside = root.parent / "log", root.parent / "aside"
    server = serve(root, "--access-log", str(log))
    server.expect("can't reopen the access log .*: nobody reads this pipe")
    log.rename(aside)
    os.mkfifo(log)
    server.send_signal(number)
    for _ in attempts():
        if server.stderr_lines():
            break
    get(server.address, "/a.txt")
    assert len(wait_for_lines(aside, 1)) == 1
