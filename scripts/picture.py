"""Takes the README's picture from the report of `make demo`, for light and for dark pages.

build/demo/report.html -> docs/img/demo.png and docs/img/demo-dark.png.
"""

from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent

with sync_playwright() as playwright:
    browser = playwright.chromium.launch(
        executable_path="/usr/bin/chromium",
        args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
    )
    for scheme, name in (("light", "demo.png"), ("dark", "demo-dark.png")):
        page = browser.new_page(viewport={"width": 1000, "height": 900}, color_scheme=scheme)
        page.goto((ROOT / "build/demo/report.html").as_uri())
        # Nothing can be opened in a picture.
        page.add_style_tag(content="#distributions { padding: 12px } #distributions > :first-child { margin-top: 0 }")
        page.add_style_tag(content="#distributions details { display: none }")
        page.locator("#distributions").screenshot(path=ROOT / "docs/img" / name)
    browser.close()
