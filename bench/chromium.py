"""A headless Chromium that loads pages, and tells how long each took.

It is driven by the protocol of its developer tools, over two pipes. Each page is loaded in its own
context, without a cache and without connections from before.
"""

import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gossamer_lab.chromium import FLAGS

Json = dict[str, Any]

_FLAGS = (*FLAGS, "--ignore-certificate-errors", "--remote-debugging-pipe")
_RESULT = """
(() => {
    const [page] = performance.getEntriesByType("navigation");
    const files = performance.getEntriesByType("resource");
    return {
        ms: page.loadEventStart - page.fetchStart,
        images: [...document.images].filter(image => image.naturalWidth).length,
        protocols: [...new Set([page, ...files].map(file => file.nextHopProtocol))],
    };
})()
"""
_TIMEOUT_S = 60.0


class BrowserFailedError(Exception):
    """The browser did not do what it was asked; the message says what."""


@dataclass(frozen=True)
class Loaded:
    """A page that has been loaded."""

    ms: float
    """From the start of its request, with connecting, until all of its files were there."""
    images: int
    """Those that could be shown."""
    protocols: list[str]
    """Of all responses."""


class Browser:
    """A running browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        """Take the ends of two pipes."""
        self._to, self._from = to_browser, from_browser
        self._input = b""
        self._number = 0

    def _message(self) -> Json:
        """Return the next message."""
        deadline = time.monotonic() + _TIMEOUT_S
        while b"\0" not in self._input:
            left_s = max(deadline - time.monotonic(), 0)
            if not select.select([self._from], [], [], left_s)[0]:
                raise BrowserFailedError(f"no message of Chromium within {_TIMEOUT_S:.0f} s")
            received = os.read(self._from, 65536)
            if not received:
                raise BrowserFailedError("Chromium has ended")
            self._input += received
        text, _, self._input = self._input.partition(b"\0")
        message: Json = json.loads(text)
        return message

    def _call(self, method: str, session: str | None = None, **parameters: object) -> Json:
        """Call a method of the browser, or of a page, and return its result."""
        self._number += 1
        call: Json = {"id": self._number, "method": method, "params": parameters}
        call |= {"sessionId": session} if session else {}
        os.write(self._to, json.dumps(call).encode() + b"\0")
        while (message := self._message()).get("id") != self._number:
            continue
        if "error" in message:
            raise BrowserFailedError(f"{method}: {message['error']['message']}")
        result: Json = message["result"]
        return result

    def load(self, url: str) -> Loaded:
        """Load a page in a context of its own."""
        context = self._call("Target.createBrowserContext")["browserContextId"]
        target = self._call("Target.createTarget", url="about:blank", browserContextId=context)
        session = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = session["sessionId"]
        self._call("Page.enable", page)
        if error := self._call("Page.navigate", page, url=url).get("errorText"):
            raise BrowserFailedError(f"{url}: {error}")
        while self._message().get("method") != "Page.loadEventFired":
            continue
        found = self._call("Runtime.evaluate", page, expression=_RESULT, returnByValue=True)
        self._call("Target.disposeBrowserContext", browserContextId=context)
        return Loaded(**found["result"]["value"])

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(BrowserFailedError, OSError):
            self._call("Browser.close")


def program() -> str | None:
    """Return the path of Chromium, None if it is not installed."""
    return shutil.which("chromium")


@contextlib.contextmanager
def browser(path: str) -> Iterator[Browser]:
    """Run a browser with a new profile for the duration of a ``with`` block."""
    with contextlib.ExitStack() as stack:
        profile = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="gossamer-chromium-", ignore_cleanup_errors=True)
        )
        (its_input, ours_out), (ours_in, its_output) = os.pipe(), os.pipe()
        # It reads from descriptor 3 and writes to 4.
        shell = ("sh", "-c", f'exec "$0" "$@" 3<&{its_input} 4>&{its_output}')
        child = subprocess.Popen(
            (*shell, path, *_FLAGS, f"--user-data-dir={profile}"),
            pass_fds=(its_input, its_output),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_input)
        os.close(its_output)
        running = Browser(ours_out, ours_in)
        try:
            yield running
        finally:
            running.close()
            os.close(ours_out)
            os.close(ours_in)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(10)
            child.kill()
            child.wait()
