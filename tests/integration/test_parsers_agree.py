"""The library's parsers and those of PyPI accept the same requests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from server import has_http2

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("GOSSAMER_PROGRAM") or ROOT / "build/dev/gossamer")


def test_accepted_requests_are_parsed_identically_by_another_parser() -> None:
    command = [sys.executable, ROOT / "tests/fuzz/differential.py"]
    command += [PROGRAM.parent / "tests/fuzz/parse_stream", "--count", "20000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 disagreements" in done.stdout


@pytest.mark.skipif(not has_http2(), reason="built without libnghttp2")
def test_another_implementation_of_http_2_judges_connections_alike() -> None:
    command = [sys.executable, ROOT / "tests/fuzz/http2_differential.py"]
    command += [PROGRAM.parent / "tests/fuzz/http2_stream", "--count", "2000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 others" in done.stdout
