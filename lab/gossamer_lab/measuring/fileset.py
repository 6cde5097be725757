"""The SPECweb99 file set, as the client of the SEDA suite requests it.

Directories are requested by Zipf's law; each has four classes of nine files.
"""

import random
from itertools import product
from pathlib import Path

_CLASS_CHANCES = (0.35, 0.50, 0.14, 0.01)
_CLASS_STEPS = (102, 1024, 10_240, 102_400)
"""File i of a class has i times this many bytes."""
_FILE_WEIGHTS = (4, 3, 5, 2, 6, 1, 7, 8, 0)
"""The files of a class by decreasing popularity, by their number less one."""
_REQUESTS = 2000
_SEED = 1999


def size_of(kind: int, number: int) -> int:
    """Return the size of file 1 to 9 of class 0 to 3."""
    return _CLASS_STEPS[kind] * number


def _path(directory: int, kind: int, number: int) -> str:
    return f"/dir{directory:05}/class{kind}_{number}"


def _make_file(root: Path, directory: int, kind: int, number: int) -> None:
    path = root / _path(directory, kind, number).lstrip("/")
    if directory:
        path.hardlink_to(root / _path(0, kind, number).lstrip("/"))
    else:
        path.write_bytes(bytes(size_of(kind, number)))


def make(root: Path, directories: int) -> None:
    """Write the files; all directories after the first hold links to those of the first."""
    numbers = range(1, len(_FILE_WEIGHTS) + 1)
    for directory in range(directories):
        (root / f"dir{directory:05}").mkdir()
        for kind, number in product(range(len(_CLASS_STEPS)), numbers):
            _make_file(root, directory, kind, number)


def requests(directories: int) -> tuple[str, ...]:
    """Return a fixed random sequence of paths to request in turn."""
    rng = random.Random(_SEED)
    ranks = range(1, directories + 1)
    files = range(1, len(_FILE_WEIGHTS) + 1)
    # Zipf's law: the k-th most popular has a weight of 1/k.
    order = [index + 1 for index in _FILE_WEIGHTS]
    drawn = zip(
        rng.choices(range(directories), [1 / rank for rank in ranks], k=_REQUESTS),
        rng.choices(range(len(_CLASS_STEPS)), _CLASS_CHANCES, k=_REQUESTS),
        rng.choices(order, [1 / rank for rank in files], k=_REQUESTS),
        strict=True,
    )
    return tuple(_path(*file) for file in drawn)
