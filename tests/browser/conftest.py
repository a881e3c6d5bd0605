"""The report under test, opened offline in Debian's chromium."""

import json
import os
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def report():
    path = os.environ.get("SOLOCORE_REPORT")
    if not path:
        pytest.fail("set SOLOCORE_REPORT to the path of a report, as `solocore report -o report.html` writes it")
    if not Path(path).is_file():
        pytest.fail(f"SOLOCORE_REPORT={path} is not a file")
    return Path(path).resolve()


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser, report):
    """The report, offline; fails the test when it asks for anything or says anything on the console."""
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    requests, noise = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: noise.append(f"console: {message.type}: {message.text}"))
    page.on("pageerror", lambda error: noise.append(f"page error: {error}"))
    page.goto(report.as_uri(), wait_until="load")
    yield page
    context.close()
    assert requests == [report.as_uri()]
    assert noise == []


@pytest.fixture
def data(page):
    return json.loads(page.locator("#solocore-data").text_content())


@pytest.fixture
def opened(browser):
    """Opens a file in a colour scheme at a width, and closes it after the test."""
    contexts = []

    def open_(path, scheme="light", width=1280, media=None):
        context = browser.new_context(offline=True, color_scheme=scheme, viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.goto(Path(path).resolve().as_uri())
        page.emulate_media(media=media, color_scheme=scheme)
        return page

    yield open_
    for context in contexts:
        context.close()
