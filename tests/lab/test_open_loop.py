"""Open-loop loads of a server with known behaviour, and their metrics."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gossamer_lab import paths
from gossamer_lab.experiments.overload import ADMISSION, OVERLOAD, TWICE
from gossamer_lab.measuring.load import Generator
from gossamer_lab.measuring.open_loop import (
    WAITING,
    LoadRecord,
    OpenLoad,
    Request,
    Sample,
    run_open_load,
    saturation_rate,
    success_rate,
)
from gossamer_lab.measuring.open_loop_stats import BINS, p90, summary, timeline
from gossamer_lab.report.derived import with_derived
from gossamer_lab.store import Run, raw_frame

_METRICS = """\
# TYPE gossamer_stage_queue gauge
gossamer_stage_queue{arch="stage",stage="http"} 99
gossamer_stage_queue{arch="stage",stage="make"} 7
gossamer_stage_threads{arch="stage",stage="make"} 3
"""


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers every second request for the page with 503; some paths never or late."""

    lock = threading.Lock()
    requests = 0

    def do_GET(self) -> None:
        assert isinstance(self.server, _Server)
        if self.path == "/never":
            self.server.is_finished.wait()
            return
        if self.path == "/slow":
            self.server.is_finished.wait(0.5)
        status, text = 200, _METRICS
        if self.path == "/page":
            with _Handler.lock:
                _Handler.requests += 1
                status = 200 if _Handler.requests % 2 else 503
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.is_finished = threading.Event()

    def handle_error(self, *_: object) -> None:
        """Ignore clients that have disconnected."""


@pytest.fixture
def url() -> Iterator[str]:
    """Serve for the duration of a test."""
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.is_finished.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def generator(tmp_path: Path) -> Generator:
    """Return the real load generator."""
    if not paths.program().is_file():
        pytest.skip("the program is not built")
    return Generator(paths.program(), 0, tmp_path, lambda: None, lambda _: ())


def an_open_load(path: str, rate: float, seconds: float) -> OpenLoad:
    return OpenLoad(path, "/metrics", rate, seconds, sample_s=0.1, connections=64)


def test_every_request_of_an_open_load_is_recorded(url: str, generator: Generator) -> None:
    record = run_open_load(url, an_open_load("/page", 20.0, 2.0), generator)
    kinds = {one.status for one in record.requests}
    assert {"200", "503"} <= kinds <= {"200", "503", WAITING}
    assert {(sample.queue, sample.threads) for sample in record.samples} == {(7, 3)}


def test_requests_without_a_response_are_recorded_with_their_wait(
    url: str, generator: Generator
) -> None:
    record = run_open_load(url, an_open_load("/never", 50.0, 0.8), generator)
    assert record.requests
    assert {one.status for one in record.requests} == {WAITING}
    metrics = summary(record)
    assert (metrics["requests"], metrics["errors"]) == (len(record.requests), 0)
    assert metrics["unanswered"] == sum(one.time_s < 0.4 for one in record.requests)


def test_the_saturation_rate_counts_successful_requests_only(
    url: str, generator: Generator
) -> None:
    assert saturation_rate(url, "/page", 1.0, generator) > 0
    requests = [Request(1.0, 1.0, "200"), Request(2.0, 2.0, "200"), Request(2.0, 7.0, "503")]
    assert success_rate(requests) == pytest.approx(0.5)


def known_record() -> LoadRecord:
    """Return a load of 60 s: one request a second, with known response times."""
    record = LoadRecord(60.0)
    record.requests = [
        Request(float(at), at / 10, "503" if at % 4 == 0 else "200") for at in range(60)
    ]
    record.samples = [Sample(float(at), at, 1 + at // 20) for at in range(60)]
    return record


def test_the_percentile_includes_accepted_requests_and_those_without_a_response() -> None:
    requests = [Request(0.0, float(duration), "200") for duration in range(1, 11)]
    assert p90(requests) == 9.0
    assert p90([*requests, *(Request(0.0, 50.0, WAITING) for _ in range(10))]) == 50.0
    assert p90([Request(0.0, 0.1, "503")]) is None


def test_metrics_are_of_the_second_half_and_the_worst_of_its_windows() -> None:
    metrics = summary(known_record())
    assert metrics["worst_p90_s"] == 5.9
    assert metrics["rejected_share"] == pytest.approx(7 / 30)
    assert metrics["unanswered"] == 0
    assert (metrics["max_queue"], metrics["max_threads"]) == (59, 3)
    assert metrics["throughput_per_s"] == pytest.approx(45 / 60)
    assert metrics["rejection_p90_s"] == pytest.approx(5.2)


def test_the_time_series_has_a_value_for_each_interval() -> None:
    line = timeline(known_record())
    assert [at["time_s"] for at in line] == [2.0 * (i + 1) for i in range(BINS)]
    assert line[5]["p90_s"] == pytest.approx(1.1)
    assert [at["queue"] for at in line] == [2 * i + 1 for i in range(BINS)]
    assert sum(at["accepted_per_s"] or 0 for at in line) * 2 == pytest.approx(41)


def test_time_series_are_means_over_the_rounds(tmp_path: Path) -> None:
    lines = [
        [{"time_s": 1.0, "queue": 2.0 * n, "p90_s": None}, {"time_s": 2.0, "queue": 8.0}]
        for n in (1, 4)
    ]
    rows = [
        {
            "order": n,
            "round": n,
            "point": TWICE.key,
            "server": ADMISSION,
            "failure": None,
            "timeline": json.dumps(line),
        }
        for n, line in enumerate(lines)
    ]
    results = {
        "points": [TWICE.as_dict()],
        "skipped_points": [],
        "servers": [{"name": ADMISSION}],
        "skipped": [],
        "absent_peers": [],
        "method": {"scale": "normal"},
    }
    run = with_derived(Run(tmp_path, results, raw_frame(rows)), OVERLOAD)
    series = {found["key"]: found["values"] for found in run.results["series"]}
    assert [(at["x"], at["runs"]) for at in series["queue"]] == [(1.0, 2), (2.0, 2)]
    assert series["queue"][0]["value"] == pytest.approx(4.0)
    assert series["queue"][1]["value"] == pytest.approx(8.0)
    assert series["p90"] == []
