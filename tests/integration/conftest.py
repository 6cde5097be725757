"""What the integration tests share: a directory to serve, and servers that are always stopped."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from server import Server, has_turn, ways, words_for

SMALL = b"<!doctype html>\n<title>small</title>\n" * 8

FAILED = pytest.StashKey[bool]()

Serve = Callable[..., Server]


def fill(folder: Path) -> Path:
    """Put the pages that every test may count on into the folder."""
    (folder / "sub").mkdir(parents=True)
    (folder / "index.html").write_bytes(SMALL)
    (folder / "a.txt").write_bytes(b"hello\n")
    (folder / "empty.txt").write_bytes(b"")
    (folder / "digits.txt").write_bytes(b"0123456789" * 10)
    (folder / "large.bin").write_bytes(bytes(range(256)) * 4096)
    (folder / "sub" / "index.html").write_bytes(b"<title>sub</title>\n")
    return folder


def sparse(file: Path, size: int) -> Path:
    """Make a file with a few marks in it and nothing between."""
    with file.open("wb") as out:
        for offset in range(0, size, size // 13):
            out.seek(offset)
            out.write(b"mark %d" % offset)
        out.truncate(size)
    return file


class Starter:
    """Starts servers, and stops those that are still running in the end."""

    def __init__(self, folder: Path, way: str) -> None:
        """Keep the servers' output in this folder; way: what they are where no word says so."""
        self.folder = folder
        self.way = way
        self.servers: list[Server] = []

    def __call__(self, root: Path, *words: str, exact: bool = False) -> Server:
        """Start a server for root, at a free port if the words name no address.

        Where connections need workers of their own, it has more than the words say; not if exact.
        """
        listens = words.count("--listen")
        address = () if listens else ("--listen", "127.0.0.1:0")
        output = self.folder / f"server-{len(self.servers)}"
        given = [*self.way.split(), *address, *words]
        if not exact:
            given = words_for(self.way, (*address, *words))
        server = Server.start(output, ["--arch", *given, str(root)])
        self.servers.append(server)
        server.wait_until_ready(listens or 1)
        return server

    def stop(self) -> None:
        """Stop those that are running, each of which must end well."""
        for server in self.servers:
            if not server.judged:
                server.stop()

    def clean(self) -> None:
        """See to it that nothing is left running."""
        for server in self.servers:
            server.kill()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[pytest.TestReport]:
    """Let fixtures see whether their test failed."""
    report = yield
    if call.when == "call":
        item.stash[FAILED] = report.failed
    return report


def pytest_configure() -> None:
    """Let servers be interrupted, also where the tests run in the background of a shell."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not run with every architecture; see server.has_turn."""
    left_out = []
    for item in items:
        callspec = getattr(item, "callspec", None)
        way = callspec.params.get("way") if callspec else None
        if way and not has_turn(way, item.path.stem):
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(scope="session", params=ways())
def way(request: pytest.FixtureRequest) -> str:
    """Return the words after --arch under test: every architecture in turn, and with io_uring."""
    return str(request.param)


@pytest.fixture(scope="session")
def arch(way: str) -> str:
    """Return the concurrency architecture under test."""
    return way.split(maxsplit=1)[0]


@pytest.fixture
def serve(tmp_path: Path, way: str, request: pytest.FixtureRequest) -> Iterator[Serve]:
    """Return what starts a server; each must end well, unless the test failed anyway."""
    starter = Starter(tmp_path / "servers", way)
    try:
        yield starter
        if not request.node.stash.get(FAILED, True):
            starter.stop()
    finally:
        starter.clean()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory of the test's own to serve."""
    return fill(tmp_path / "root")


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that the tests of a module only read."""
    return fill(tmp_path_factory.mktemp("shared") / "root")


@pytest.fixture(scope="module")
def shared(
    shared_root: Path, way: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Return a server that the tests of a module share."""
    starter = Starter(tmp_path_factory.mktemp("shared") / "servers", way)
    try:
        yield starter(shared_root)
        starter.stop()
    finally:
        starter.clean()
