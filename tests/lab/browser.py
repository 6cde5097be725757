"""A headless Chromium that records the network requests and console messages of a page."""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from gossamer_lab.chromium import FLAGS


def programs() -> tuple[str, str] | None:
    """Return the paths of Chromium and its driver, None if either is missing."""
    found = shutil.which("chromium"), shutil.which("chromedriver")
    return (found[0], found[1]) if found[0] and found[1] else None


@contextlib.contextmanager
def browser(chromium: str, driver: str) -> Iterator[webdriver.Chrome]:
    """Run a browser with a new profile for the duration of a ``with`` block."""
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in (*FLAGS, "--hide-scrollbars", f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        chrome = webdriver.Chrome(options=options, service=Service(driver))
        try:
            yield chrome
        finally:
            chrome.quit()


def show(chrome: webdriver.Chrome, page: Path, width: int, dark: bool = False) -> None:
    """Open a page in a window of that width, in the light or dark colour scheme."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    chrome.get(page.as_uri())


def requests(chrome: webdriver.Chrome) -> list[str]:
    """Return the URLs that pages have requested since the last call.

    The page that the browser shows first, "chrome://newtab", may be loading still.
    """
    messages: list[dict[str, Any]] = [
        json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")
    ]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
        and not message["params"]["documentURL"].startswith("chrome://")
    ]
