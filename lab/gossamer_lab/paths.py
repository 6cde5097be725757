"""Paths: the checkout, our program, the peers, the folder of runs."""

import os
import shutil
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
RUNS = CHECKOUT / "runs"
DOCS = CHECKOUT / "docs"


def program() -> Path:
    """Return the path of the ``gossamer`` program: GOSSAMER_PROGRAM, or the release build."""
    given = os.environ.get("GOSSAMER_PROGRAM")
    return Path(given).resolve() if given else CHECKOUT / "build" / "release" / "gossamer"


def programs() -> Path:
    """Return the folder of the benchmark programs: GOSSAMER_BENCH, or beside our program."""
    given = os.environ.get("GOSSAMER_BENCH")
    return Path(given).resolve() if given else program().parent / "bench"


def peer(name: str) -> Path | None:
    """Return a peer's program, if there is one: in GOSSAMER_PEERS, or in peers/bin and the path.

    If GOSSAMER_PEERS names a folder, no other folder is searched.
    """
    system = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    found = shutil.which(
        name, path=os.environ.get("GOSSAMER_PEERS") or f"{CHECKOUT}/peers/bin:{system}"
    )
    return Path(found).absolute() if found else None
