"""Many concurrent requests: each gets its own page, all workers serve, nothing leaks."""

import contextlib
import http.client
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Serve
from server import Server, attempts, serves_one_at_a_time
from wire import Wire, get_in_turn, request

CLIENTS = 5
PAGES = 20


def write_pages(root: Path) -> dict[str, bytes]:
    """Create pages of many sizes in root; each page consists of a byte of its own."""
    pages = {}
    for i in range(PAGES):
        name, size = f"/page{i}.html", 2 if i == 0 else 100 * i * i
        pages[name] = bytes([65 + i]) * size
        (root / name[1:]).write_bytes(pages[name])
    return pages


def in_threads(work: Callable[[int], None]) -> None:
    """Call work with each client's number, in a thread for each; raise the threads' errors."""
    errors: list[BaseException] = []

    def call(client: int) -> None:
        try:
            work(client)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def switches(server: Server) -> dict[str, int]:
    """Return the number of voluntary context switches of each of the server's threads."""
    counts = {}
    tasks = [task for pid in server.process_ids() for task in Path("/proc").glob(f"{pid}/task/*")]
    for task in tasks:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            status = (task / "status").read_text()
            count = status.partition("\nvoluntary_ctxt_switches:")[2].split()[0]
            counts[task.name] = int(count)
    return counts


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ten_thousand_requests_through_kept_connections(
    serve: Serve, root: Path, workers: str
) -> None:
    pages = write_pages(root)
    names = list(pages)
    server = serve(root, "--workers", workers, "--page-cache", "100k", "--cached-file", "20k")

    def ask(client: int) -> None:
        dice = random.Random(client)
        wires = [Wire(server.address) for _ in range(10)]
        for _ in range(200):
            requested = [dice.choice(names) for _ in wires]
            for wire, name in zip(wires, requested, strict=True):
                wire.send(request("GET", name))
            for wire, name in zip(wires, requested, strict=True):
                assert wire.response().body == pages[name]
        for wire in wires:
            wire.close()

    in_threads(ask)
    counts = server.stop()
    assert (counts["requests"], counts["connections"]) == (CLIENTS * 2000, CLIENTS * 10)
    assert (counts["refused"], counts["failed"]) == (0, 0)


def test_a_thousand_requests_of_a_client_library(serve: Serve, root: Path) -> None:
    pages = write_pages(root)
    server = serve(root, "--workers", "2")

    def ask(client: int) -> None:
        connection = http.client.HTTPConnection(*server.address, timeout=30)
        for i in range(200):
            name = f"/page{(client + i) % PAGES}.html"
            connection.request("GET", name, headers={"Accept": "*/*"})
            response = connection.getresponse()
            assert response.status == 200
            assert response.read() == pages[name]
        connection.close()

    in_threads(ask)
    assert server.stop()["requests"] == CLIENTS * 200


def test_a_thousand_connections_of_one_request_each(serve: Serve, root: Path) -> None:
    server = serve(root, "--workers", "2")
    before = server.descriptors("socket:")

    def ask(_: int) -> None:
        for _ in range(200):
            with Wire(server.address) as wire:
                assert wire.get("/digits.txt", Connection="close").body == b"0123456789" * 10
                assert wire.rest() == b""

    in_threads(ask)
    assert server.has_at_most_sockets(before)
    assert server.stop()["connections"] == CLIENTS * 200


def test_all_workers_accept_connections(serve: Serve, root: Path, configuration: str) -> None:
    if serves_one_at_a_time(configuration):
        pytest.skip("there are more workers than connections")
    server = serve(root, "--workers", "2")
    before = switches(server)
    for _ in attempts():
        wires = [Wire(server.address) for _ in range(32)]
        for _ in range(2):
            assert all(response.status == 200 for response in get_in_turn(wires, "/a.txt"))
        for wire in wires:
            wire.close()
        woken = [count - before.get(task, 0) for task, count in switches(server).items()]
        if sum(count >= 10 for count in woken) >= 2:
            return
    raise AssertionError(woken)


def test_connections_come_and_go_without_leaks(serve: Serve, root: Path) -> None:
    server = serve(root, "--workers", "1", clients=300)
    before = server.descriptors("socket:")
    for _ in range(3):
        wires = [Wire(server.address) for _ in range(300)]
        assert all(response.body == b"hello\n" for response in get_in_turn(wires, "/a.txt"))
        assert server.descriptors("socket:") == before + 300
        for wire in wires:
            wire.close()
        assert server.has_at_most_sockets(before)


def test_pages_beyond_the_cache_are_served_too(serve: Serve, root: Path) -> None:
    pages = write_pages(root)
    server = serve(root, "--page-cache", "0", "--workers", "1")
    with Wire(server.address) as wire:
        for _ in range(3):
            for name, body in pages.items():
                assert wire.get(name).body == body
    for _ in attempts():
        if server.descriptors("socket:") == 1:
            break
    assert server.descriptors(str(root)) <= 1
