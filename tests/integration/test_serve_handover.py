"""A supervisor and its generations: reload and upgrade, which no client notices."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from conftest import Serve, at_once
from server import Server, attempts, open_files, program
from wire import Wire, get, request, wait_until_received

from tls import make_certificate

ENDED = r"^gossamer serve: ended; "
SERVES = re.compile(r"^gossamer serve: generation (\d+) serves, process (\d+)$")


def supervised(serve: Serve, root: Path, *arguments: str, clients: int = 8) -> Server:
    """Start a supervised server, each of whose generations reports its end."""
    given = ("--supervise", "--log-level", "info", *arguments)
    server = serve(root, *given, clients=clients)
    server.allow(ENDED)
    server.allow(SERVES.pattern)
    server.allow("--poller auto")
    server.allow("there is no sandbox: the program is built with a sanitizer")
    wait_for_generation(server, 1)
    return server


def generations(server: Server) -> list[tuple[int, int]]:
    """Return the numbers and processes of the generations that have become ready."""
    found = [match for line in server.stderr_lines() if (match := SERVES.match(line))]
    return [(int(match[1]), int(match[2])) for match in found]


def wait_for(condition: Callable[[], bool], server: Server) -> None:
    """Wait until the condition holds."""
    assert any(condition() for _ in attempts()), server.all_output()


def wait_for_generation(server: Server, number: int) -> int:
    """Wait until this generation or a later one serves; return its process."""
    wait_for(lambda: bool(generations(server)) and generations(server)[-1][0] >= number, server)
    return generations(server)[-1][1]


def reload(server: Server, number: int = signal.SIGHUP) -> int:
    """Have another generation started, wait until it serves, and return its process."""
    before = generations(server)[-1][0]
    server.send_signal(number)
    return wait_for_generation(server, before + 1)


def is_alive(pid: int) -> bool:
    """Return whether this process runs."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def living(server: Server) -> int:
    """Return how many generations there are."""
    return len(Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split())


# ---- Load ----


@dataclass
class Load:
    """Clients that ask until they are stopped, and what went wrong."""

    address: tuple[str, int]
    is_over: bool = False
    answers: list[int] = field(default_factory=lambda: [0])
    failures: list[str] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, client: Callable[["Load"], None]) -> None:
        """Start a client, which returns after one answer or a few, again and again."""

        def run() -> None:
            while not self.is_over:
                try:
                    client(self)
                except Exception as error:  # noqa: BLE001: whatever it is, it is reported
                    self.failures.append(f"{client.__name__}: {error!r}")
                with self.lock:
                    self.answers[0] += 1

        thread = threading.Thread(target=run)
        thread.start()
        self.threads.append(thread)

    def stop(self) -> None:
        """Wait for all clients."""
        self.is_over = True
        for thread in self.threads:
            thread.join()


def ask_anew(load: Load) -> None:
    """Ask over a new connection."""
    assert get(load.address, "/digits.txt").body == b"0123456789" * 10


def ask_often(load: Load) -> None:
    """Ask over one connection, until the server says that it is the last answer."""
    with Wire(load.address) as wire:
        while not load.is_over:
            answer = wire.get("/a.txt")
            assert answer.body == b"hello\n"
            if answer.closes:
                break
            time.sleep(0.002)


def ask_slowly(load: Load) -> None:
    """Send a request a byte at a time."""
    with Wire(load.address) as wire:
        for byte in request("GET", "/a.txt"):
            wire.send(bytes([byte]))
            time.sleep(0.005)
        assert wire.response().body == b"hello\n"


def read_slowly(load: Load) -> None:
    """Read a large page in parts."""
    with Wire(load.address, receive_buffer=65536) as wire:
        wire.send(request("GET", "/large.bin"))
        assert wire.head().status == 200
        for _ in range(16):
            assert len(wire.body(65536)) == 65536
            time.sleep(0.01)


def upload(load: Load) -> None:
    """Send a body in parts."""
    with Wire(load.address) as wire:
        wire.send(request("GET", "/a.txt", Content_Length="40000"))
        for _ in range(20):
            wire.send(bytes(2000))
            time.sleep(0.01)
        assert wire.response().body == b"hello\n"


def stay_idle(load: Load) -> None:
    """Ask, be idle for a while, and ask again."""
    with Wire(load.address) as wire:
        assert wire.get("/a.txt").status == 200
        for _ in range(10):
            time.sleep(0.03)
            if load.is_over:
                return
        assert wire.get("/a.txt").status == 200


CLIENTS = (ask_anew, ask_anew, ask_often, ask_often, ask_slowly, read_slowly, upload, stay_idle)


@contextlib.contextmanager
def loaded(server: Server) -> Iterator[Load]:
    """Run all kinds of clients meanwhile; none of them may fail."""
    load = Load(server.address)
    for client in CLIENTS:
        load.add(client)
    try:
        wait_for(lambda: load.answers[0] > len(CLIENTS), server)
        yield load
        answers = load.answers[0]
        wait_for(lambda: load.answers[0] > answers + len(CLIENTS), server)
    finally:
        load.stop()
    assert not load.failures, (load.failures[:10], server.all_output())


def start_load(url: str, *arguments: str) -> subprocess.Popen[str]:
    """Start the load generator, until SIGINT."""
    command = [program(), "load", "--json", "-d", "60s", "--think", "3ms", *arguments, url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


# ---- Tests ----


@at_once
def test_reloads_and_upgrades_disturb_no_client(serve: Serve, root: Path) -> None:
    server = supervised(serve, root, "--workers", "2", "--no-defer-accept", clients=40)
    with loaded(server):
        for i in range(6):
            reload(server, signal.SIGUSR2 if i % 3 == 2 else signal.SIGHUP)
    assert server.process_ids()[0] == server.pid
    server.stop()


def test_a_generation_that_fails_or_hangs_leaves_the_one_before(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    chain, key = make_certificate(tmp_path / "keys", "site")
    arguments = ("--certificate", str(chain), "--key", str(key), "--listen", "https://127.0.0.1:0")
    server = supervised(serve, root, *arguments, "--workers", "2", "--start-timeout", "2s")
    server.allow(r"certificate|site\.pem")
    server.expect(r"generation 2 ended with status 2 before it was ready; generation 1 goes on")
    server.expect(r"generation 3 was not ready within 2 s; generation 1 goes on serving")
    good = chain.read_bytes()
    chain.write_bytes(b"none")
    server.send_signal(signal.SIGUSR2)
    wait_for(lambda: "generation 2 ended" in server.all_output(), server)
    chain.unlink()
    os.mkfifo(chain)
    server.send_signal(signal.SIGHUP)
    wait_for(lambda: "generation 3 was not ready" in server.all_output(), server)
    chain.unlink()
    chain.write_bytes(good)
    reload(server)
    assert [number for number, _ in generations(server)] == [1, 4]
    server.stop()


def secure(tmp_path: Path) -> tuple[Path, tuple[str, ...]]:
    """Return a certificate, and the arguments that serve with it."""
    chain, key = make_certificate(tmp_path / "keys", "site")
    return chain, (
        "--certificate",
        str(chain),
        "--key",
        str(key),
        "--listen",
        "https://127.0.0.1:0",
    )


def replace_by_fifo(file: Path) -> bytes:
    """Have the next open of the file wait; return what it had."""
    content = file.read_bytes()
    file.unlink()
    os.mkfifo(file)
    return content


def open_fifo(file: Path) -> int:
    """Open it to write, once a generation waits for that."""
    for _ in attempts():
        with contextlib.suppress(OSError):
            return os.open(file, os.O_WRONLY | os.O_NONBLOCK)
    raise AssertionError(f"nobody reads {file}")


def test_a_stop_while_a_generation_starts_waits_for_the_one_that_serves(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    chain, arguments = secure(tmp_path)
    server = supervised(serve, root, *arguments, "--no-defer-accept")
    with Wire(server.address) as wire:
        wire.send(request("POST", "/a.txt", Content_Length="5"))
        wait_until_received(wire)
        replace_by_fifo(chain)
        server.send_signal(signal.SIGHUP)
        writer = open_fifo(chain)
        server.send_signal(signal.SIGTERM)
        wait_for(lambda: living(server) == 1, server)
        wire.send(b"hello")
        assert wire.response("POST").status == 405
    os.close(writer)
    server.stop()


def test_a_reload_that_is_asked_for_during_an_upgrade_follows_it(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    chain, arguments = secure(tmp_path)
    server = supervised(serve, root, *arguments)
    content = replace_by_fifo(chain)
    server.send_signal(signal.SIGUSR2)
    writer = open_fifo(chain)
    server.send_signal(signal.SIGHUP)
    chain.unlink()
    chain.write_bytes(content)
    # The supervisor takes the signal before the generation is ready.
    pending = re.compile(r"ShdPnd:\t0+\n")
    wait_for(lambda: bool(pending.search(Path(f"/proc/{server.pid}/status").read_text())), server)
    with os.fdopen(writer, "wb") as out:
        out.write(content)
    wait_for_generation(server, 3)
    server.stop()


def test_it_works_with_few_descriptors(serve: Serve, root: Path) -> None:
    few = ("prlimit", "--nofile=32")
    server = serve(root, "--supervise", "--log-level", "info", prefix=few)
    server.allow(ENDED)
    server.allow(SERVES.pattern)
    server.allow("--poller auto")
    server.allow("there is no sandbox: the program is built with a sanitizer")
    wait_for_generation(server, 1)
    server.stop()


def test_a_crash_is_followed_by_another_generation(serve: Serve, root: Path) -> None:
    server = supervised(serve, root, "--workers", "2")
    server.expect("generation 1 was killed by signal 9")
    server.expect("another generation is started in 1 s")
    os.kill(generations(server)[0][1], signal.SIGKILL)
    wait_for(lambda: "generation 1 was killed" in server.all_output(), server)
    # Clients wait meanwhile, because the supervisor keeps the listeners; except for those that an
    # io_uring of the dead process, which the kernel frees later, has still accepted.
    for _ in attempts():
        with contextlib.suppress(ConnectionResetError):
            assert get(server.address, "/a.txt").body == b"hello\n"
            break
    else:
        raise AssertionError("no client is served")
    wait_for_generation(server, 2)
    server.stop()


def test_generations_end_with_their_supervisor(serve: Serve, root: Path) -> None:
    server = supervised(serve, root, "--workers", "2")
    pid = generations(server)[0][1]
    server.was_checked = True
    server.kill()
    wait_for(lambda: not is_alive(pid), server)
    assert "the supervisor is gone" in server.all_output()


def test_many_reloads_leave_no_descriptor_and_no_process(serve: Serve, root: Path) -> None:
    arguments = ("--drain-timeout", "1s", "--metrics", "/m", "--metrics-listen", "127.0.0.1:0")
    server = supervised(serve, root, "--workers", "2", *arguments)
    reload(server)
    wait_for(lambda: living(server) == 1, server)
    before = len(list(open_files(server.pid)))
    for i in range(20):
        reload(server, signal.SIGUSR2 if i % 5 == 0 else signal.SIGHUP)
    wait_for(lambda: living(server) == 1, server)
    assert len(list(open_files(server.pid))) == before
    assert get(server.address, "/a.txt").body == b"hello\n"
    metrics = [line for line in server.stdout_lines() if line.startswith("metrics on")]
    assert len(metrics) == 22
    assert len(set(metrics)) == 1
    # Signals in quick succession are joined.
    first = generations(server)[-1][0]
    for _ in range(50):
        server.send_signal(signal.SIGHUP)
    wait_for(lambda: living(server) == 1 and generations(server)[-1][0] > first, server)
    assert generations(server)[-1][0] <= first + 10
    server.stop()


def test_the_file_of_a_unix_socket_stays_until_the_end(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    path = tmp_path / "socket"
    server = supervised(serve, root, f"--listen=unix:{path}", "--workers", "2")
    inode = path.stat().st_ino
    for _ in range(2):
        reload(server)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b"GET /a.txt HTTP/1.0\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
    wait_for(lambda: living(server) == 1, server)
    assert path.stat().st_ino == inode
    server.stop()
    assert not path.exists()


def test_all_generations_reopen_the_log_and_are_counted(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    log, old = tmp_path / "log", tmp_path / "old"
    arguments = ("--access-log", str(log), "--metrics", "/metrics", "--workers", "2")
    server = supervised(serve, root, *arguments)
    with Wire(server.address) as wire:
        wire.send(request("GET", "/a.txt", Content_Length="5"))
        wait_until_received(wire)
        reload(server)
        pattern = re.compile(rb"gossamer_(generation|draining_\w+)\{[^}]*\} (\d+)\n")
        expected = {(b"generation", b"2")}
        expected |= {(b"draining_" + name, b"1") for name in (b"generations", b"connections")}
        # The generation that drains may have accepted a connection before it hands over.
        wait_for(
            lambda: set(pattern.findall(get(server.address, "/metrics").body)) == expected, server
        )
        log.rename(old)
        server.send_signal(signal.SIGUSR1)
        wait_for(log.exists, server)
        # The generation that drains looks for the signal regularly.
        time.sleep(0.5)
        wire.send(b"12345")
        assert wire.response().body == b"hello\n"
    wait_for(lambda: living(server) == 1, server)
    wait_for(lambda: "GET /a.txt" in log.read_text(), server)
    server.stop()
