"""Open loads: what a server that is known does to them, and the figures that come of it."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gossamer_lab import interruption
from gossamer_lab.arrivals import Asked, Fate, Sample, Stream, answered_per_s, saturated, stream
from gossamer_lab.derived import with_derived
from gossamer_lab.experiments.overload import ADMISSION, OVERLOAD, TWICE
from gossamer_lab.overtime import BINS, p90, summed_up, timeline
from gossamer_lab.store import Run, raw_frame

_METRICS = """\
# TYPE gossamer_stage_queue gauge
gossamer_stage_queue{arch="stage",stage="http"} 99
gossamer_stage_queue{arch="stage",stage="make"} 7
gossamer_stage_threads{arch="stage",stage="make"} 3
"""


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers every second request for the page with 503, or never."""

    lock = threading.Lock()
    asked = 0

    def do_GET(self) -> None:
        assert isinstance(self.server, _Server)
        if self.path == "/never":
            self.server.is_over.wait()
            return
        if self.path == "/slow":
            self.server.is_over.wait(0.5)
        status, text = 200, _METRICS
        if self.path == "/page":
            with _Handler.lock:
                _Handler.asked += 1
                status = 200 if _Handler.asked % 2 else 503
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
        self.is_over = threading.Event()

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that have gone."""


@pytest.fixture
def url() -> Iterator[str]:
    """Serve for the length of a test."""
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.is_over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def nothing() -> None:
    """What is called meanwhile."""


def test_every_request_of_an_open_load_has_its_fate(url: str) -> None:
    fate = stream(url, Stream("/page", "/metrics", rate=20.0, seconds=2.0, sample_s=0.1), nothing)
    kinds = {one.status for one in fate.asked}
    assert {"200", "503"} <= kinds <= {"200", "503", ""}
    assert {(sample.queue, sample.threads) for sample in fate.samples} == {(7, 3)}


def test_the_times_of_an_open_load_are_the_same_in_every_run(url: str) -> None:
    load = Stream("/page", "/metrics", rate=30.0, seconds=0.5, sample_s=0.1)
    assert len(stream(url, load, nothing).asked) == len(stream(url, load, nothing).asked) > 5


def test_what_is_never_answered_is_counted_and_waited_for_no_longer(url: str) -> None:
    fate = stream(url, Stream("/never", "/metrics", rate=20.0, seconds=0.4, sample_s=0.1), nothing)
    assert fate.asked
    assert {one.status for one in fate.asked} == {""}
    figures = summed_up(fate)
    assert (figures["requests"], figures["errors"]) == (len(fate.asked), 0)
    assert figures["answered_share"] == 0.0
    assert figures["worst_p90_s"] is None or figures["worst_p90_s"] > 0


def test_a_server_that_is_not_there_gives_errors_by_kind() -> None:
    nowhere = "http://127.0.0.1:1"
    fate = stream(nowhere, Stream("/page", "/m", rate=50.0, seconds=0.3, sample_s=0.1), nothing)
    figures = summed_up(fate)
    assert figures["errors"] == figures["requests"] > 0
    assert figures["errors_by_kind"] == f"ConnectionRefusedError: {figures['requests']}"
    assert saturated(nowhere, "/page", 0.2, nothing) == 0.0


def test_saturation_counts_the_right_answers_alone(url: str) -> None:
    assert saturated(url, "/page", 1.0, nothing) > 0
    fate = Fate(10.0)
    fate.asked = [Asked(1.0, 1.0, "200"), Asked(2.0, 2.0, "200"), Asked(2.0, 7.0, "503")]
    assert answered_per_s(fate) == pytest.approx(0.5)


def test_the_first_answer_to_clients_that_saturate_is_waited_for(url: str) -> None:
    assert saturated(url, "/slow", 0.05, nothing) > 0


def test_an_open_load_ends_when_the_end_is_asked_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_up() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(interruption, "check", give_up)
    with pytest.raises(KeyboardInterrupt):
        stream(url, Stream("/page", "/metrics", rate=20.0, seconds=60.0, sample_s=1.0), nothing)


def known_fate() -> Fate:
    """Return a load of 60 s: one request a second, each answered after a tenth of its time."""
    fate = Fate(60.0)
    fate.asked = [Asked(float(at), at / 10, "503" if at % 4 == 0 else "200") for at in range(60)]
    fate.samples = [Sample(float(at), at, 1 + at // 20) for at in range(60)]
    return fate


def test_the_percentile_is_of_the_accepted_and_of_those_without_an_answer() -> None:
    asked = [Asked(0.0, float(took), "200") for took in range(1, 11)]
    assert p90(asked) == 9.0
    assert p90([*asked, *(Asked(0.0, 50.0, "") for _ in range(10))]) == 50.0
    assert p90([Asked(0.0, 0.1, "503")]) is None


def test_figures_are_of_the_settled_half_and_the_worst_of_its_windows() -> None:
    figures = summed_up(known_fate())
    assert figures["worst_p90_s"] == 5.9
    assert figures["refused_share"] == pytest.approx(7 / 30)
    assert figures["answered_share"] == 1.0
    assert (figures["queue_most"], figures["threads_most"]) == (59, 3)
    assert figures["throughput_per_s"] == pytest.approx(45 / 60)
    assert figures["refusal_p90_s"] == pytest.approx(5.2)


def test_the_line_over_time_has_a_place_for_each_part_of_the_load() -> None:
    line = timeline(known_fate())
    assert [at["time_s"] for at in line] == [2.0 * (i + 1) for i in range(BINS)]
    assert line[5]["p90_s"] == pytest.approx(1.1)
    assert [at["queue"] for at in line] == [2 * i + 1 for i in range(BINS)]
    assert sum(at["accepted_per_s"] or 0 for at in line) * 2 == pytest.approx(41)


def test_charts_over_time_are_means_over_the_rounds(tmp_path: Path) -> None:
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
        "points": [TWICE.described()],
        "points_left_out": [],
        "servers": [{"name": ADMISSION}],
        "left_out": [],
        "absent_peers": [],
    }
    run = with_derived(Run(tmp_path, results, raw_frame(rows)), OVERLOAD)
    series = {found["key"]: found["shown"] for found in run.results["series"]}
    assert [(at["x"], at["runs"]) for at in series["queue"]] == [(1.0, 2), (2.0, 2)]
    assert series["queue"][0]["value"] == pytest.approx(4.0)
    assert series["queue"][1]["value"] == pytest.approx(8.0)
    assert series["p90"] == []
