"""What tests of requests and of strict parsing send to a shared server, over TLS."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
import test_serve_requests
import test_serve_strict
from conftest import Starter
from server import Server

from tls import listen_arguments

for module in (test_serve_requests, test_serve_strict):
    for name, test in vars(module).items():
        if name.startswith("test_") and "shared" in inspect.signature(test).parameters:
            globals()[name] = test


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
