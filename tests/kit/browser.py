"""A real browser for the tests of the page: Debian's Chromium without a window, driven by Playwright.

Promise: `chromium` ends the browser with its block. A page of `opened` has noted every error of its console and every
request to another host. Chromium comes by `scripts/setup.sh chromium`, or from `TENURE_TEST_CHROMIUM`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.kit.servers.programs import need
from tests.kit.waiting import NEVER_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_UNPACKED: Final = Path(sys.prefix) / "chromium"
_NAME: Final = "chromium-headless-shell"


@dataclass
class Opened:
    """A page, and its troubles so far."""

    page: Page
    troubles: list[str] = field(default_factory=list)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser. Raises NotInstalled."""
    from playwright.sync_api import sync_playwright

    unpacked = _UNPACKED / "usr" / "lib" / "chromium" / _NAME
    built = str(unpacked) if unpacked.exists() else None
    found = os.environ.get("TENURE_TEST_CHROMIUM") or built or shutil.which(_NAME)
    path = need(found, "Chromium", fix="sh scripts/setup.sh chromium, or set TENURE_TEST_CHROMIUM")
    libraries = [
        str(one) for where in ("*-linux-*", "*-linux-*/pulseaudio") for one in (_UNPACKED / "usr/lib").glob(where)
    ]
    environment: dict[str, str | float | bool] = {**os.environ}
    if libraries and path == built:
        environment["LD_LIBRARY_PATH"] = ":".join(libraries)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], env=environment)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, *, width: int = 1280, dark: bool = False) -> Iterator[Opened]:
    """A page of this width. Its scheme of colours is light, or dark."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", timezone_id="UTC"
    )
    context.set_default_timeout(NEVER_S * 1000)
    found = Opened(context.new_page())
    found.page.on("console", lambda said: found.troubles.append(said.text) if said.type == "error" else None)
    found.page.on("pageerror", lambda error: found.troubles.append(str(error)))
    found.page.on(
        "request",
        lambda asked: None if asked.url.startswith("http://127.0.0.1:") else found.troubles.append(asked.url),
    )
    try:
        yield found
    finally:
        context.close()
