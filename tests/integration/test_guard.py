"""A test that hangs, or leaves a process behind, fails by its name, and the others go on."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"

TESTS = """
import subprocess, threading, time
import pytest

def test_good():
    subprocess.run(["true"], check=True)

def test_sleeps():
    time.sleep(1000)

def test_waits_for_a_thread():
    with subprocess.Popen(["sleep", "1003"]) as process:
        thread = threading.Thread(target=process.wait, daemon=True)
        thread.start()
        try:
            thread.join()
        finally:
            process.kill()

@pytest.fixture(scope="module")
def server():
    with subprocess.Popen(["sleep", "1001"]) as process:
        yield process
        process.kill()

@pytest.mark.usefixtures("server")
def test_with_a_server_of_the_module():
    pass

def test_leaks():
    subprocess.Popen(["sleep", "1002"])

def test_leaks_what_lost_its_parent():
    subprocess.run(["sh", "-c", "setsid sleep 1004 & exit"], check=True)

def test_good_again(server):
    assert server.poll() is None
"""


def test_hanging_and_leaking_tests_are_named_and_the_others_pass(tmp_path: Path) -> None:
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "test_bad.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "1", tmp_path]
    variables = {"GOSSAMER_TEST_LIMIT_S": "1", "GOSSAMER_TEST_GRACE_S": "0.2"}
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **variables}, check=False
    )
    faults = {
        line.partition("test_bad.py::")[2].partition(" - ")[0]
        for line in done.stdout.splitlines()
        if line.startswith(("FAILED", "ERROR"))
    }
    assert faults == {
        "test_sleeps",
        "test_waits_for_a_thread",
        "test_leaks",
        "test_leaks_what_lost_its_parent",
    }, done.stdout
    assert done.stdout.count("it hangs: it was still running after 1 s") >= 2
    for command in ("sleep 1002", "sleep 1004"):
        assert f": {command} \n" in done.stdout
    assert "2 failed, 5 passed, 2 errors" in done.stdout
