"""How long Chromium takes to load a page with many small images over HTTP/2."""

import contextlib
import random
import sys
import time
from pathlib import Path

import chromium
from results import Results
from web_points import OURS, PEERS, THREADS

from gossamer_lab.measuring.workspace import Workspace
from gossamer_lab.servers.server import Server, ServerFailedError, Site, serving

IMAGES = 200
IMAGE_SIZE = 1000
NAME = f"h2-page-of-{IMAGES}-images"
ROUNDS = 12
"""Loads from each server, after one that does not count."""
BUDGET_S = 40.0
"""No further round starts after this time, unless there has been none that counts."""
_FOLDER = "images"
_GIF = bytes.fromhex("47494638396101000100800000000000ffffff2c00000000010001000002024401003b")


def make_page(root: Path) -> tuple[str, int]:
    """Make the page with its images; return its path and size."""
    folder = root / _FOLDER
    folder.mkdir()
    for number in range(IMAGES):
        # What follows the end of an image is not looked at.
        (folder / f"{number}.gif").write_bytes(_GIF + bytes(IMAGE_SIZE - len(_GIF)))
    images = "".join(f'<img src="{number}.gif">' for number in range(IMAGES))
    page = f"<!doctype html><title>{IMAGES} images</title>{images}".encode()
    (folder / "page.html").write_bytes(page)
    return f"/{_FOLDER}/page.html", len(page)


def measure_page(results: Results, workspace: Workspace, site: Site, servers: list[Server]) -> None:
    """Load the page from all servers, which run at the same time, in random order."""
    path = chromium.program()
    if not path:
        results.skip(NAME, "all", "chromium is not installed")
        return
    page = make_page(site.root)
    try:
        with contextlib.ExitStack() as stack:
            urls = {
                server.name: stack.enter_context(
                    serving(server, site, workspace.server_core, page)
                ).url
                + page[0]
                for server in servers
            }
            load_in_turn(results, stack.enter_context(chromium.browser(path)), urls)
    except (ServerFailedError, chromium.BrowserFailedError, OSError) as error:
        results.skip(NAME, "all", str(error))


def load_in_turn(results: Results, browser: chromium.Browser, urls: dict[str, str]) -> None:
    """Load each URL once in each round."""
    end = time.monotonic() + BUDGET_S
    for number in range(ROUNDS + 1):
        if number > 1 and time.monotonic() > end:
            break
        for name in random.sample(list(urls), len(urls)):
            loaded = browser.load(urls[name])
            if loaded.images != IMAGES or loaded.protocols != ["h2"]:
                results.skip(NAME, name, f"{loaded.images} images, by {loaded.protocols}")
            elif number:
                results.add(NAME, name, loaded.ms, "ms")
    for name in urls:
        print(f"  {NAME} {name}: {results.summary(NAME, name)}", file=sys.stderr)


def set_page_limits(results: Results) -> None:
    """Set the limits."""
    for ours in (OURS, THREADS):
        results.limit(NAME, ours, PEERS, 1.0)
