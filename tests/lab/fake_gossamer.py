#!/usr/bin/env -S python3 -I -S
"""Fake of the gossamer program: the same command line, at a hundredth of its speed.

Environment: FAKE_ARCHS (names to list), FAKE_BROKEN (an architecture that does not start),
FAKE_ERRORS (errors that a load reports), FAKE_MUTE (a file: while it exists, loads have no report),
FAKE_VOID (why a load is invalid), FAKE_OLD (keys missing from a load's report), FAKE_DEADLY (a
folder: a load that can remove a file there kills its parent), FAKE_HELD (a file: the first load
creates it, later ones do not end), FAKE_MAX_S (the maximum duration of a load).
"""

import http.client
import http.server
import json
import os
import signal
import sys
import time
import urllib.parse
from pathlib import Path


def serve(arguments: list[str]) -> int:
    """Serve the pages of a folder until SIGTERM, or list the architectures."""
    names = os.environ.get("FAKE_ARCHS", "event").split()
    if arguments == ["--arch", "list"]:
        for name in names:
            print(f"{name:10}a fake of {name}\tworkers: threads")
        return 0
    arch, root = arguments[1], arguments[-1]
    if arch == os.environ.get("FAKE_BROKEN"):
        print("fake: cannot listen: no such luck", file=sys.stderr)
        return 2

    class Handler(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def log_message(self, *_: object) -> None:
            pass

    def handler(*given: object) -> Handler:
        return Handler(*given, directory=root)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    address = f"http://127.0.0.1:{server.server_port}"
    print(f"listening on {address} ({arch}, 1 workers)", flush=True)
    server.serve_forever()
    return 0


KINDS = ("connect", "first_byte", "response", "total")
# A histogram of one value, 100 us.
HISTOGRAM = "HISTFAAAACN4nJNpmSzMwMDAzAABMJoRyHQz2LGAwf4DRGBzBRMAXpEFew=="


def is_deadly() -> bool:
    """Return whether this load is to kill its parent."""
    for path in Path(os.environ.get("FAKE_DEADLY", "/nonexistent")).glob("*"):
        try:
            path.unlink()
        except FileNotFoundError:
            continue
        return True
    return False


def wait_or_kill() -> None:
    """Kill the parent or wait for a signal, if this load is to."""
    if is_deadly():
        os.kill(os.getppid(), signal.SIGKILL)
    if held := os.environ.get("FAKE_HELD"):
        if Path(held).exists():
            signal.pause()
        Path(held).touch()


def load(arguments: list[str]) -> int:
    """Request a page repeatedly over one connection, and report."""
    wait_or_kill()
    pairs = [argument for argument in arguments[1:] if argument != "--idle-spin"]
    options = dict(zip(pairs[::2], pairs[1::2], strict=True))
    address = urllib.parse.urlsplit(arguments[0])
    connection = http.client.HTTPConnection(str(address.hostname), address.port)
    began = time.monotonic()
    times: list[float] = []
    end = began + min(float(options["-d"]), float(os.environ.get("FAKE_MAX_S", "inf")))
    while time.monotonic() < end:
        sent = time.monotonic()
        connection.request("GET", address.path)
        connection.getresponse().read()
        times.append((time.monotonic() - sent) * 1e6)
    seconds = time.monotonic() - began
    times.sort()
    quantiles = {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
    response = {name: times[int(q * (len(times) - 1))] for name, q in quantiles.items()}
    response |= {"mean": sum(times) / len(times), "count": len(times)}
    report = {
        "requests": len(times),
        "errors": {"connect": 0, "timeout": int(os.environ.get("FAKE_ERRORS", "0"))},
        "seconds": seconds,
        "throughput_per_s": len(times) / seconds,
        "bytes_per_s": 1000.0 * len(times) / seconds,
        "offered_load": int(options["-c"]),
        "measured_load": 1.0,
        "response_us": response,
        "connect_us": response,
        "first_byte_us": response,
        "total_us": response,
        "waiting_to_connect": {"count": 0, "mean_us": 0.0, "longest_us": 0.0},
        "waiting_for_response": {"count": 0, "mean_us": 0.0, "longest_us": 0.0},
        "client_cpu_s": time.process_time(),
        "keeps_awake": "--idle-spin" in arguments,
        "invalid": "FAKE_VOID" in os.environ,
        "invalid_reason": os.environ.get("FAKE_VOID"),
    }
    for name in os.environ.get("FAKE_OLD", "").split():
        del report[name]
    if Path(os.environ.get("FAKE_MUTE", "/nonexistent")).exists():
        print("fake: nothing to say", file=sys.stderr)
        return 1
    Path(options["--json"]).write_text(json.dumps(report))
    if "--hdr-log" in options:
        lines = [f"Tag={kind},0,1,1,{HISTOGRAM}" for kind in KINDS]
        head = "#[Histogram log format version 1.3]"
        Path(options["--hdr-log"]).write_text("\n".join([head, *lines]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit({"serve": serve, "load": load}[sys.argv[1]](sys.argv[2:]))
