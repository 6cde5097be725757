"""tools/nightly: it goes on after a failed step, stops one that hangs, and reports each."""

import json
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools/nightly"
STEPS = r"""
[[step]]
name = "sound"
what = "what passes"
command = ["sh", "-c", "echo begin; printf '\u001b[1m3 passed, 0 failed\u001b[0m\n'"]

[[step]]
name = "broken"
what = "what fails"
command = ["sh", "-c", "echo the reason >&2; exit 3"]

[[step]]
name = "hanging"
what = "what does not end"
command = ["sh", "-c", "setsid sleep 1000 & echo $!; wait"]
limit_s = 0.3

[[step]]
name = "absent"
what = "what is skipped"
command = ["sh", "-c", "exit 77"]

[[step]]
name = "long"
what = "what has an amount"
command = ["echo", "{amount} s"]
amount = 300
"""


class Nightly:
    """The tool with its own table and folder."""

    def __init__(self, folder: Path) -> None:
        """Write the table."""
        self.folder = folder
        (folder / "steps.toml").write_text(STEPS)

    def run(self, *words: str) -> subprocess.CompletedProcess:
        """Run it."""
        places = ["--table", self.folder / "steps.toml", "--folder", self.folder / "runs"]
        return subprocess.run(
            [TOOL, *places, *words], check=False, capture_output=True, text=True, timeout=60
        )

    def results(self) -> dict[str, dict]:
        """Return the results that it has written, by step."""
        report = json.loads((self.folder / "runs/report.json").read_text())
        return {result["step"]: result for result in report["results"]}


@pytest.fixture
def nightly(tmp_path: Path) -> Nightly:
    return Nightly(tmp_path)


def _has_ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"  # nobody has waited for it yet


def test_steps_that_fail_or_hang_are_reported_and_the_others_run(nightly: Nightly) -> None:
    done = nightly.run("--scale", "0.1")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "3 passed, 2 failed; failed: broken, hanging"
    results = nightly.results()
    assert {name: result["verdict"] for name, result in results.items()} == {
        "sound": "ok",
        "broken": "FAILED with status 3",
        "hanging": "stopped after 0 s",
        "absent": "skipped",
        "long": "ok",
    }
    assert results["sound"]["counts"] == "3 passed, 0 failed"
    assert results["long"]["counts"] == "30 s"
    assert _has_ended(int(results["hanging"]["counts"]))
    report = (nightly.folder / "runs/REPORT.md").read_text()
    assert "## broken: FAILED with status 3\n\n```\nthe reason\n```" in report


def test_a_step_that_is_not_run_again_keeps_its_result(nightly: Nightly) -> None:
    assert nightly.run("broken", "sound").returncode == 1
    assert nightly.run("sound").returncode == 0
    assert nightly.results()["broken"]["verdict"] == "FAILED with status 3"
    assert nightly.run("--without", "broken", "--without", "hanging").returncode == 0


def test_the_document_names_what_was_not_run(nightly: Nightly) -> None:
    document = nightly.folder / "nightly.md"
    nightly.run("sound", "long")
    assert nightly.run("--publish", "--into", str(document)).returncode == 0
    text = document.read_text()
    assert "| broken | what fails | not run | | | | |" in text
    assert "| sound | what passes | ok | 0 s | 3 passed, 0 failed |" in text
    assert "| long | what has an amount; amount 300 of 300 | ok |" in text
    assert "2 of 2 steps passed, in 0 s; 3 steps were not run." in text


def test_an_unknown_step_is_refused(nightly: Nightly) -> None:
    done = nightly.run("sond")
    assert done.returncode == 2
    assert 'unknown step "sond": there are sound, broken, hanging, absent, long' in done.stderr


def test_its_own_table_can_be_listed() -> None:
    done = subprocess.run([TOOL, "--list"], check=True, capture_output=True, text=True)
    assert "mutants" in done.stdout
