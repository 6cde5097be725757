"""Fixtures of the integration tests: a directory to serve, and servers that are always stopped."""

import inspect
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from installation import PROGRAM, output
from server import CLIENTS, Server, arguments_for, configurations, is_selected

SMALL = b"<!doctype html>\n<title>small</title>\n" * 8

# For tests of manual pages and of the reference: its generator, and a browser.
TREE = Path(__file__).resolve().parents[2]
sys.path += [str(TREE / "tools"), str(TREE / "tests/lab")]

FAILED = pytest.StashKey[bool]()

Serve = Callable[..., Server]


def fill(folder: Path) -> Path:
    """Create the pages that every test may use."""
    (folder / "sub").mkdir(parents=True)
    (folder / "index.html").write_bytes(SMALL)
    (folder / "a.txt").write_bytes(b"hello\n")
    (folder / "empty.txt").write_bytes(b"")
    (folder / "digits.txt").write_bytes(b"0123456789" * 10)
    (folder / "large.bin").write_bytes(bytes(range(256)) * 4096)
    (folder / "sub" / "index.html").write_bytes(b"<title>sub</title>\n")
    return folder


def sparse(file: Path, size: int) -> Path:
    """Create a sparse file: a few marks with holes between them."""
    with file.open("wb") as out:
        for offset in range(0, size, size // 13):
            out.seek(offset)
            out.write(b"mark %d" % offset)
        out.truncate(size)
    return file


def names_of(descriptors: tuple[int, ...]) -> set[object]:
    """Return the addresses of IPv4 at which the descriptors listen."""
    names = set()
    for fd in descriptors:
        with socket.socket(fileno=socket.dup(fd)) as one:
            if one.family == socket.AF_INET:
                names.add(one.getsockname())
    return names


class Starter:
    """Starts servers, and stops those that are still running at the end."""

    def __init__(self, folder: Path, configuration: str) -> None:
        """Keep the output of the servers in `folder`; start them in this configuration."""
        self.folder = folder
        self.configuration = configuration
        self.servers: list[Server] = []

    def __call__(
        self,
        root: Path,
        *arguments: str,
        exact: bool = False,
        clients: int = CLIENTS,
        prefix: tuple[str, ...] = (),
        inherits: tuple[int, ...] = (),
    ) -> Server:
        """Start a server for root, on a free port unless the arguments contain an address.

        The prefix is a command that executes the server. It inherits listening descriptors, which
        take the place of an address.

        If a worker serves one connection at a time, the server has as many workers as it may have
        clients at a time, not as requested, unless `exact`.
        """
        listens = arguments.count("--listen")
        address = () if listens or inherits else ("--listen", "127.0.0.1:0")
        output = self.folder / f"server-{len(self.servers)}"
        given = [*self.configuration.split(), *address, *arguments]
        if not exact:
            given = arguments_for(self.configuration, (*address, *arguments), clients)
        server = Server.start(output, ["--arch", *given, str(root)], prefix, inherits)
        self.servers.append(server)
        server.wait_until_ready(listens or len(names_of(inherits)) or 1)
        return server

    def stop(self) -> None:
        """Stop the servers that are still running; each must end without an error."""
        for server in self.servers:
            if not server.was_checked:
                server.stop()

    def clean(self) -> None:
        """Kill the servers that are still running."""
        for server in self.servers:
            server.kill()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[pytest.TestReport]:
    """Make the result of a test visible to its fixtures."""
    report = yield
    if call.when == "call":
        item.stash[FAILED] = report.failed
    return report


def pytest_configure() -> None:
    """Let SIGINT reach the servers, also if the tests run in the background of a shell."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# The modules whose single tests take longest; they begin, so that all processes end together.
LONGEST = (
    "recipes",
    "packages",
    "cc_stacks",
    "slow",
    "linger",
    "install",
    "reference",
    "cc_debugging",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that are not run in their configuration, and order those that are."""
    kept, deselected = [], []
    for item in items:
        callspec = getattr(item, "callspec", None)
        configuration = callspec.params.get("configuration") if callspec else None
        is_kept = not configuration or is_selected(configuration, item.path.stem)
        (kept if is_kept else deselected).append(item)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
    items[:] = sorted(kept, key=place)


def place(item: pytest.Item) -> int:
    """Return the place of a test in the order: of its module, or behind those that are named."""
    name = item.path.stem.removeprefix("test_").removeprefix("serve_")
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


@pytest.fixture(scope="session", params=configurations())
def configuration(request: pytest.FixtureRequest) -> str:
    """Return the arguments after --arch: every architecture in turn, also with io_uring."""
    return str(request.param)


@pytest.fixture(scope="session")
def arch(configuration: str) -> str:
    """Return the concurrency architecture under test."""
    return configuration.split(maxsplit=1)[0]


@pytest.fixture
def serve(tmp_path: Path, configuration: str, request: pytest.FixtureRequest) -> Iterator[Serve]:
    """Return a starter of servers, each of which must end without an error if the test passes."""
    starter = Starter(tmp_path / "servers", configuration)
    try:
        yield starter
        if not request.node.stash.get(FAILED, True):
            starter.stop()
    finally:
        starter.clean()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a new directory to serve."""
    return fill(tmp_path / "root")


Test = Callable[..., None]


def outcome(test: Test, folder: Path, configuration: str, others: dict[str, object]) -> str | None:
    """Run a test in a configuration; return how it failed, "" if not, or None if it skipped."""
    folder.mkdir()
    starter = Starter(folder / "servers", configuration)
    given = {"serve": starter, "root": fill(folder / "root"), "configuration": configuration}
    given |= {"arch": configuration.split(maxsplit=1)[0], "tmp_path": folder, **others}
    try:
        test(**{name: given[name] for name in inspect.signature(test).parameters})
        starter.stop()
    except pytest.skip.Exception:
        return None
    except BaseException:
        return f"{configuration}: {traceback.format_exc()}"
    finally:
        starter.clean()
    return ""


def at_once(test: Test) -> Test:
    """Run a test that mostly waits in all its configurations at the same time.

    In each, it has a directory to serve and servers of its own; each that fails is named.
    """
    module = test.__module__
    own = ("serve", "root", "configuration", "arch")
    parameters = inspect.signature(test).parameters
    others = [name for name in parameters if name not in (*own, "tmp_path")]

    def run(tmp_path: Path, **given: object) -> None:
        chosen = [name for name in configurations() if is_selected(name, module)]
        with ThreadPoolExecutor(len(chosen)) as pool:
            running = [
                pool.submit(outcome, test, tmp_path / f"{i}", name, given)
                for i, name in enumerate(chosen)
            ]
        outcomes = [one.result() for one in running]
        if all(text is None for text in outcomes):
            pytest.skip("for none of these configurations")
        failed = [text for text in outcomes if text]
        assert not failed, "\n".join(failed)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    wanted = [inspect.Parameter(name, kind) for name in ("tmp_path", *others)]
    run.__signature__ = inspect.Signature(wanted)
    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, module
    return run


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that the tests of a module share and only read."""
    return fill(tmp_path_factory.mktemp("shared") / "root")


@pytest.fixture(scope="module")
def shared_arguments() -> list[str]:
    """Return the arguments of the shared server; a module may have others."""
    return []


@pytest.fixture(scope="module")
def shared(
    shared_root: Path,
    shared_arguments: list[str],
    configuration: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """Return a server that the tests of a module share."""
    starter = Starter(tmp_path_factory.mktemp("shared") / "servers", configuration)
    try:
        yield starter(shared_root, *shared_arguments)
        starter.stop()
    finally:
        starter.clean()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that everything was installed in, and then moved to."""
    folder = tmp_path_factory.mktemp("installed")
    output("cmake", "--install", PROGRAM.parent, "--prefix", folder / "before")
    return (folder / "before").rename(folder / "after")
