"""The built site: a strict build, and pages that work from a folder, without a server or a network."""

import re
import subprocess
import sys
from functools import cache
from urllib.parse import unquote

import pytest

from tests.browser import CHROMIUM, LAPTOP, PHONE, launch, new_context, watch
from tests.project.snippets import ROOT

pytest.importorskip("sphinx")
pytestmark = pytest.mark.slow

PAGES = sorted(path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(folder / "cache")]
    result = subprocess.run(
        [*command, "docs", str(folder / "html")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as driver:
        browser = launch(driver)
        yield browser
        browser.close()


def test_every_page_is_built_and_in_the_navigation(site):
    landing = (site / "index.html").read_text()
    assert [str(page) for page in PAGES if not (site / page).is_file()] == []
    assert [str(page) for page in PAGES if page.name != "index.html" and f'href="{page}"' not in landing] == []


def test_every_internal_link_leads_to_a_page_and_a_place_on_it(site):
    @cache
    def places(path):
        return set(re.findall(r'\bid="([^"]+)"', path.read_text()))

    broken, count = [], 0
    for page in PAGES:
        for link in re.findall(r'<a\b[^>]*?href="([^"]+)"', (site / page).read_text()):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, place = unquote(link).partition("#")
            target = (site / page).parent / name if name else site / page
            count += 1
            if not target.is_file() or (place and place not in places(target.resolve())):
                broken.append(f"{page}: {link}")
    assert broken == []
    assert count > 1000


def test_the_landing_page_fits_the_narrowest_window_with_both_sidebars(site, browser):
    page = new_context(browser, viewport={"width": 1320, "height": 900}).new_page()
    page.goto((site / "index.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 1320
    page.context.close()


def test_pages_fit_a_laptop_and_a_phone_and_request_nothing_from_elsewhere(site, browser):
    page = new_context(browser).new_page()
    complaints = watch(page, site)
    for name in PAGES:
        page.goto((site / name).as_uri())
        for viewport in (LAPTOP, PHONE):
            page.set_viewport_size(viewport)
            assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], name
        broken = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)"
        assert page.evaluate(broken) == [], name
    page.context.close()
    assert complaints == []


def test_the_search_works_without_a_server(site, browser):
    page = new_context(browser).new_page()
    complaints = watch(page, site)
    page.goto((site / "index.html").as_uri())
    page.get_by_placeholder("Search").fill("dynamic_barrier")
    page.keyboard.press("Enter")
    page.locator("#search-results a[href*='methods/dynamic_barrier.html']").first.wait_for()
    page.context.close()
    assert complaints == []


def test_the_playground_is_on_its_page(site, browser):
    page = new_context(browser).new_page()
    page.goto((site / "choose.html").as_uri())
    assert page.locator(".playground svg [data-vector=main]").is_visible()
    assert "make docs" not in page.locator(".playground").inner_text()
    page.context.close()
