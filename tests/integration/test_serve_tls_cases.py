"""What tests of requests and of strict parsing send to a shared server, over TLS."""

import inspect

import pytest
import test_serve_requests
import test_serve_strict

from tls import listen_arguments

for module in (test_serve_requests, test_serve_strict):
    for name, item in vars(module).items():
        if name.startswith("test_") and "shared" in inspect.signature(item).parameters:
            globals()[name] = item


@pytest.fixture(scope="module")
def shared_arguments() -> list[str]:
    """Let the shared server listen with TLS."""
    return listen_arguments()
