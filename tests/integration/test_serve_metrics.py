"""The metrics page counts for all workers and processes together."""

from pathlib import Path

import pytest
from conftest import Serve
from metrics import PATH, Samples, parse, read, value
from server import PROCESSES, Server, attempts, is_built_with
from wire import Wire, get

STACKS = 128  # of each worker, see src/thread/stack/shared_stack.h
WITH_STAGES = {
    "quad": {"read", "write", "application"},
    "stage": {"sockets", "http", "send", "load", "disk"},
}


def read_until(server: Server, name: str, least: int) -> Samples:
    """Request the page until the sample has this value, plus the requests of the page itself."""
    for others in attempts():
        samples = read(server)
        if value(samples, name) >= least + others:
            return samples
    raise AssertionError(f"{name} has less")


def test_it_counts_all_workers(serve: Serve, root: Path) -> None:
    server = serve(root, "--workers", "2", "--metrics", PATH)
    for target in ["/a.txt", "/nonesuch", "/large.bin"] * 10:
        get(server.address, target, Connection="close")
    samples = read_until(server, "sent_bytes_total", 10 << 20)
    for _ in attempts():
        # A process may publish its counts later than another one that answers after it.
        if value(samples, "errors_total", **{"class": "4xx"}) >= 10:
            break
        samples = read(server)
    assert value(samples, "requests_total") >= 30
    assert value(samples, "connections_total") >= 30
    assert value(samples, "errors_total", **{"class": "4xx"}) == 10
    assert value(samples, "errors_total", **{"class": "5xx"}) == 0
    assert value(samples, "responses_total", **{"class": "2xx"}) >= 20
    assert value(samples, "responses_total", **{"class": "4xx"}) == 10
    assert value(samples, "timeouts_total") == 0
    assert value(samples, "workers") == server.workers


def test_they_may_have_a_listener_of_their_own(serve: Serve, root: Path) -> None:
    (root / PATH.strip("/")).write_text("a file")
    server = serve(root, "--metrics", PATH, "--metrics-listen", "127.0.0.1:0")
    (line,) = [line for line in server.stdout_lines() if line.startswith("metrics on http://")]
    own = ("127.0.0.1", int(line.rpartition(":")[2]))
    assert get(server.address, PATH).body == b"a file"
    stalled = [Wire(own) for _ in range(15)]
    for wire in stalled:
        wire.send(b"GET /met")
    with Wire(own) as wire:
        for _ in range(3):
            samples = parse(wire.get(PATH).body.decode())
            assert value(samples, "requests_total") <= 1  # not those for the page itself
        assert wire.get("/a.txt").status == 404
        assert wire.request("HEAD", PATH).status == 200
        wire.send(b"nonsense\r\n\r\n")
        assert wire.response().status == 400
    for wire in stalled:
        wire.close()
    get(own, PATH, Connection="close")
    server.stop()


def test_times_are_a_histogram_of_all_that_was_sent(serve: Serve, root: Path) -> None:
    server = serve(root, "--workers", "2", "--metrics", PATH)
    for _ in range(20):
        get(server.address, "/a.txt", Connection="close")
    samples = read_until(server, "request_seconds_count", 20)
    buckets = {
        float(dict(labels)["le"]): number
        for (name, labels), number in samples.items()
        if name == "gossamer_request_seconds_bucket"
    }
    counts = [number for _, number in sorted(buckets.items())]
    assert counts == sorted(counts)
    assert counts[-1] == buckets[float("inf")] == value(samples, "request_seconds_count")
    assert counts[-1] >= 20
    assert value(samples, "request_seconds_sum") >= 0


def test_open_connections_are_those_that_are_open(serve: Serve, root: Path) -> None:
    server = serve(root, "--workers", "2", "--metrics", PATH)
    wires = [Wire(server.address) for _ in range(5)]
    for wire in wires:
        assert wire.get("/a.txt").status == 200
    mine = (0, 1)  # the process that serves this page may not have published its own connection yet
    assert any(value(read(server), "connections") - 5 in mine for _ in attempts())
    for wire in wires:
        wire.close()
    assert any(value(read(server), "connections") in mine for _ in attempts())


def test_processes_threads_and_switches_are_read_from_the_kernel(
    serve: Serve, root: Path, arch: str
) -> None:
    server = serve(root, "--workers", "2", "--metrics", PATH)
    samples = read(server)
    assert (value(samples, "processes") > 1) == (arch in PROCESSES)
    assert value(samples, "threads") >= 2
    before = value(samples, "context_switches_total", kind="voluntary")
    for _ in attempts():
        if value(read(server), "context_switches_total", kind="voluntary") > before:
            break
    else:
        raise AssertionError("there are no voluntary context switches")


def test_stages_export_metrics(serve: Serve, root: Path, arch: str) -> None:
    server = serve(root, "--workers", "2", "--metrics", PATH)
    for _ in range(10):
        assert get(server.address, "/a.txt", Connection="close").status == 200
    samples = read(server)
    stages = {
        dict(labels)["stage"] for name, labels in samples if name == "gossamer_stage_events_total"
    }
    assert stages == WITH_STAGES.get(arch, set())
    for stage in stages - {"disk"}:  # all files are in memory
        assert value(samples, "stage_events_total", stage=stage) > 0
        assert value(samples, "stage_batches_total", stage=stage) > 0
        assert value(samples, "stage_queue", stage=stage) >= 0
        assert value(samples, "stage_refused_total", stage=stage, reason="full") == 0


def test_idle_connections_of_user_level_threads_share_stacks(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch != "user":
        pytest.skip("others have no user-level threads")
    if is_built_with("address") or is_built_with("thread"):
        pytest.skip("with a sanitizer each thread has a stack of its own")
    server = serve(root, "--workers", "1", "--poller", "epoll", "--metrics", PATH)
    wires = [Wire(server.address) for _ in range(STACKS + 50)]
    for wire in wires:
        assert wire.get("/a.txt").body == b"hello\n"
    samples = read(server)
    assert value(samples, "stack_evictions_total") >= 50
    assert value(samples, "stack_evicted_bytes_total") >= 50 * 100
    assert value(samples, "threads_live") >= STACKS + 50
    for wire in wires:
        wire.close()
    assert any(value(read(server), "threads_live") < 50 for _ in attempts())


def test_without_the_option_there_is_no_such_page(serve: Serve, root: Path) -> None:
    server = serve(root)
    assert get(server.address, PATH).status == 404
