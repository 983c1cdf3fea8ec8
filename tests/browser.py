"""Headless Chromium for tests of pages, and a record of what pages must not do."""

import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
"""The first is Chromium without its windows, which takes less time."""
LAPTOP, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}


def launch(driver):
    """Start Chromium with a playwright driver."""
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    return driver.chromium.launch(executable_path=CHROMIUM, args=arguments)


def new_context(browser, **options):
    """Start a session that waits as long as a busy machine needs."""
    context = browser.new_context(**options)
    context.set_default_timeout(600_000)
    return context


def watch(page, folder):
    """Return a list that collects console messages, errors, and requests for anything outside the folder."""
    complaints = []
    page.on("console", lambda message: complaints.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on(
        "request",
        lambda request: (
            request.url.startswith((folder.as_uri(), "data:")) or complaints.append(f"request: {request.url}")
        ),
    )
    return complaints
