"""The tests of requests and of strict parsing, over TLS."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Starter
from server import Server
from test_serve_requests import *  # noqa: F403
from test_serve_strict import *  # noqa: F403

from tls import listen_arguments


@pytest.fixture(scope="module")
def shared(
    shared_root: Path, configuration: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Return a server with TLS that the tests share."""
    starter = Starter(tmp_path_factory.mktemp("shared") / "servers", configuration)
    try:
        yield starter(shared_root, *listen_arguments())
        starter.stop()
    finally:
        starter.clean()
