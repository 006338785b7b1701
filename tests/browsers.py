"""A real browser for pages: the system's Chromium, driven by Playwright; where it is missing the test is skipped.

AIOKAFKAPY_REQUIRE_BROWSER=1 says that CI must not pass without it. Nothing is fetched: the browsers that Playwright
has of its own are not used.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.async_api import Page

__all__ = ["opened_page", "require_browser"]

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def require_browser() -> str:
    """The browser's program; skips the test, or fails it where it is required."""
    program = next((found for name in _NAMES if (found := shutil.which(name))), None)
    reason = None if program else f"none of {', '.join(_NAMES)} is installed"
    if importlib.util.find_spec("playwright") is None:
        reason = "the library playwright is not installed"
    if reason is None and program is not None:
        return program
    if os.environ.get("AIOKAFKAPY_REQUIRE_BROWSER") == "1":
        pytest.fail(f"a real browser is required here: {reason}", pytrace=False)
    pytest.skip(f"NO BROWSER: {reason}")


@asynccontextmanager
async def opened_page(url: str, *, server_ends: bool = False, **options: Any) -> AsyncIterator[Page]:
    """The page at this address. Fails at the end for an error of its scripts, and for a request to anywhere else.

    With ``server_ends`` requests may fail, which a browser reports as errors. ``options`` are those of Playwright's
    ``new_context``.
    """
    program = require_browser()
    from playwright.async_api import async_playwright

    troubles: list[str] = []
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    async with async_playwright() as playwright:
        # Tests often run as root, where Chromium has no sandbox; the page is ours.
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            context = await browser.new_context(**{"viewport": {"width": 1280, "height": 800}} | options)
            page = await context.new_page()
            page.set_default_timeout(60_000)
            page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
            page.on("console", lambda line: troubles.append(line.text) if line.type == "error" else None)
            page.on("request", lambda request: _note_elsewhere(request.url, origin, troubles))
            await page.goto(url)
            yield page
        finally:
            await browser.close()
    assert [each for each in troubles if not (server_ends and "ERR_" in each)] == []


def _note_elsewhere(url: str, origin: str, troubles: list[str]) -> None:
    if not url.startswith((f"{origin}/", "blob:", "data:")):
        troubles.append(f"a request to {url}")
