"""The library's parsers and httptools parse streams of requests identically."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("GOSSAMER_PROGRAM") or ROOT / "build/dev/gossamer")


def test_accepted_requests_are_parsed_identically_by_another_parser() -> None:
    command = [sys.executable, ROOT / "tests/fuzz/differential.py"]
    command += [PROGRAM.parent / "tests/fuzz/parse_stream", "--count", "20000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 disagreements" in done.stdout
