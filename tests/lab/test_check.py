"""tools/check: what is kept of clang-tidy's answers, and what --changed looks at."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TIDY = shutil.which("clang-tidy-19", path=f"/usr/bin:{os.environ['PATH']}")
sys.path.insert(0, str(ROOT / "tools"))

from checks import changes  # noqa: E402
from checks.kept import Kept  # noqa: E402

RULES = "Checks: '-*,misc-redundant-expression,clang-analyzer-core.*'\nWarningsAsErrors: '*'\n"
SOUND = "static inline int twice(int n)\n{\n    return 2 * n;\n}\n"
REDUNDANT = "static inline int twice(int n)\n{\n    return n - n;\n}\n"
SOURCE = '#include "twice.h"\nint {name}(void)\n{{\n    return twice(1);\n}}\n'
# It notes what it is asked, and answers as the true one does.
COUNTING = '#!/bin/sh\n[ "$1" = --version ] || echo "$@" >>"$ASKED"\nexec "$TRUE_TIDY" "$@"\n'


class Project:
    """A repository with two sources that include a header, and tools/check."""

    def __init__(self, root: Path) -> None:
        """Make it on the branch main, with one commit."""
        self.root = root
        for name in ("check", "checks", "check-exceptions.txt"):
            copy = shutil.copytree if (ROOT / "tools" / name).is_dir() else shutil.copy
            (root / "tools").mkdir(exist_ok=True)
            copy(ROOT / "tools" / name, root / "tools" / name)
        (root / "tools/check-exceptions.txt").write_text("")
        (root / ".venv").symlink_to(ROOT / ".venv")
        self.write(".gitignore", "/build\n/.venv\n/tools\n/bin\n")
        self.write(".clang-tidy", RULES)
        self.write("src/near/twice.h", SOUND)
        for name in ("one", "two"):
            self.write(f"src/near/{name}.c", SOURCE.format(name=name))
        self.write("build/dev/build.ninja", "build build.ninja: phony\n")
        self.compile_with("-Isrc")
        self.write("bin/clang-tidy-19", COUNTING)
        (root / "bin/clang-tidy-19").chmod(0o755)
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit()

    def write(self, name: str, text: str) -> None:
        """Write a file, and the folders that it needs."""
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def compile_with(self, *options: str) -> None:
        """Have both sources compiled with the options."""
        files = [self.root / f"src/near/{name}.c" for name in ("one", "two")]
        commands = [
            {
                "directory": str(self.root),
                "file": str(file),
                "command": f"cc {' '.join(options)} -o {file.stem}.o -c {file}",
            }
            for file in files
        ]
        self.write("build/dev/compile_commands.json", json.dumps(commands))

    def git(self, *words: str) -> None:
        """Run git with an identity."""
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
        subprocess.run(["git", *identity, *words], cwd=self.root, check=True, capture_output=True)

    def commit(self) -> None:
        """Commit all that there is."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=change")

    def check(self, *words: str) -> tuple[int, int, str]:
        """Run tools/check; return its status, how often clang-tidy was asked, and the output."""
        asked = self.root / "build/asked"
        asked.write_text("")
        environment = os.environ | {
            "PATH": f"{self.root}/bin:{os.environ['PATH']}",
            "TRUE_TIDY": TIDY or "",
            "ASKED": str(asked),
        }
        done = subprocess.run(
            [sys.executable, "tools/check", *words],
            cwd=self.root,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        return done.returncode, len(asked.read_text().splitlines()), done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Project:
    if not TIDY:
        pytest.skip("clang-tidy-19 is missing: make setup installs it")
    return Project(tmp_path)


def test_an_unchanged_tree_is_not_linted_again_but_a_changed_header_is(project: Project) -> None:
    assert project.check("sizes", "lint")[:2] == (0, 2)
    assert project.check("sizes", "lint")[:2] == (0, 0)
    project.write("src/near/twice.h", REDUNDANT)
    status, asked, output = project.check("lint")
    assert (status, asked) == (1, 2)
    assert "src/near/twice.h:3: both sides of operator are equivalent" in output
    # An answer that is kept still tells the problem.
    status, asked, output = project.check("lint")
    assert (status, asked) == (1, 0)
    assert "src/near/twice.h:3: both sides of operator are equivalent" in output
    project.write("src/near/twice.h", SOUND)
    assert project.check("lint")[:2] == (0, 0)


CHANGES = {
    "the rules": (2, lambda project: project.write(".clang-tidy", RULES + "# other\n")),
    "rules of a folder": (2, lambda project: project.write("src/.clang-tidy", RULES)),
    "a header": (2, lambda project: project.write("src/near/twice.h", SOUND + "\n")),
    "an added path": (2, lambda project: project.compile_with("-Isrc", "-Iinclude")),
    "a macro that nothing mentions": (
        0,
        lambda project: project.compile_with("-DUNRELATED", "-Isrc", "-Iinclude"),
    ),
    "a macro that the header mentions": (
        2,
        lambda project: project.compile_with("-Dtwice=thrice", "-Isrc", "-Iinclude"),
    ),
}
"""How many files are linted again after each change."""


def test_whatever_an_answer_depends_on_is_noticed_and_nothing_else(project: Project) -> None:
    assert project.check("lint")[:2] == (0, 2)
    found = {}
    for name, (_, change) in CHANGES.items():
        change(project)
        found[name] = project.check("lint")[1]
    assert found == {name: asked for name, (asked, _) in CHANGES.items()}


def test_a_header_earlier_on_the_path_is_noticed(project: Project) -> None:
    project.write("src/near/one.c", SOURCE.format(name="one").replace('"twice.h"', "<twice.h>"))
    project.write("late/twice.h", SOUND)
    project.compile_with("-Iearly", "-Ilate")
    assert project.check("lint")[:2] == (0, 2)
    project.write("early/twice.h", REDUNDANT)
    assert project.check("lint")[:2] == (1, 1)


def test_a_function_that_is_too_long_is_a_matter_of_sizes_only(project: Project) -> None:
    rules = "CheckOptions:\n  readability-function-size.ParameterThreshold: 1\n"
    project.write(".clang-tidy", RULES + rules)
    project.write("src/near/one.c", "int one(int a, int b)\n{\n    return a + b;\n}\n")
    status, _, output = project.check("sizes", "lint")
    assert status == 1
    assert "src/near/one.c:1: one: 2 parameters" in output
    assert "check lint: 2 C and C++, 0 Python, 0 shell files: ok" in output


def test_the_answers_used_last_are_kept(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "tool")
    for number in range(5):
        kept.put(f"key{number}", f"answer {number}")
        os.utime(tmp_path / "build/check/tool" / f"key{number}", (number, number))
    assert kept.get("key0") == "answer 0"  # which makes it the newest
    kept.prune(limit=3)
    assert [kept.get(f"key{number}") for number in range(5)] == [
        "answer 0",
        None,
        None,
        "answer 3",
        "answer 4",
    ]


def test_changes_are_those_of_the_branch_the_work_tree_and_new_files(project: Project) -> None:
    project.git("checkout", "--quiet", "-b", "topic")
    assert changes.changed(project.root) == set()
    project.write("src/near/one.c", "int one;\n")
    project.commit()
    project.write(".clang-tidy", "")
    project.write("new.c", "")
    assert changes.changed(project.root) == {"src/near/one.c", ".clang-tidy", "new.c"}


def test_on_main_the_last_commit_counts_or_what_origin_lacks(project: Project) -> None:
    assert changes.changed(project.root) is None  # there is one commit: every file is new
    project.git("update-ref", "refs/remotes/origin/main", "HEAD")
    for name in ("first.c", "second.c"):
        project.write(name, "")
        project.commit()
    assert changes.changed(project.root) == {"first.c", "second.c"}
    project.git("update-ref", "-d", "refs/remotes/origin/main")
    assert changes.changed(project.root) == {"second.c"}


def test_headers_are_those_included_directly_or_not(project: Project) -> None:
    """A header that nobody includes, and one of the system, are none of them."""
    project.write("include/gossamer/api.h", "#include <stdint.h>\n")
    project.write("src/near/thrice.h", '#include "near/twice.h"\n#include <gossamer/api.h>\n')
    project.write("src/near/unused.h", "")
    project.write("src/near/one.c", '#include "thrice.h"\n')
    expected = {f"src/near/{name}" for name in ("one.c", "thrice.h", "twice.h")}
    found = changes.with_headers(project.root, {"src/near/one.c"})
    assert found == expected | {"include/gossamer/api.h"}


def test_a_changed_header_is_linted_through_one_source(project: Project) -> None:
    project.git("checkout", "--quiet", "-b", "topic")
    project.write("src/near/twice.h", REDUNDANT)
    status, asked, output = project.check("--changed", "lint")
    assert (status, asked) == (1, 1)
    assert "src/near/twice.h:3: both sides" in output
    project.write("src/near/two.c", SOURCE.format(name="three"))
    project.commit()
    assert "check lint: 1 C and C++" in project.check("--changed", "lint")[2]
