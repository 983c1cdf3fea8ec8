"""Headless Chromium for tests of pages, and what they must not do."""

import shutil

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LAPTOP, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}


def launch(driver):
    """Start Chromium with a playwright driver."""
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    return driver.chromium.launch(executable_path=CHROMIUM, args=arguments)


def watch(page, folder):
    """A list that fills with errors, and with requests of anything outside the folder."""
    troubles = []
    page.on("console", lambda message: troubles.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    page.on(
        "request",
        lambda request: (
            request.url.startswith((folder.as_uri(), "data:")) or troubles.append(f"request: {request.url}")
        ),
    )
    return troubles
