"""Takes the README's picture from the report of `make demo`: build/demo/report.html -> docs/img/demo.png."""

from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent

with sync_playwright() as playwright:
    browser = playwright.chromium.launch(
        executable_path="/usr/bin/chromium",
        args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
    )
    page = browser.new_page(viewport={"width": 1000, "height": 900}, color_scheme="light")
    page.goto((ROOT / "build/demo/report.html").as_uri())
    page.locator("#distributions").screenshot(path=ROOT / "docs/img/demo.png")
    browser.close()
