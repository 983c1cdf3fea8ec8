"""The playground in a real browser: its formulas are those of the library, and it works by mouse, touch and keys."""

import shutil

import numpy as np
import pytest

import gradsurgery as gs
from tests.browser import CHROMIUM, LAPTOP, PHONE, launch, new_context, watch
from tests.project.snippets import ROOT

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]

PAGE = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="site.css"><div class="playground"></div><script src="playground.js"></script>"""


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = launch(driver)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("playground")
    for name in ("playground.js", "site.css"):
        shutil.copy(ROOT / "docs/_static" / name, folder)
    (folder / "page.html").write_text(PAGE)
    return folder


@pytest.fixture
def visit(browser, folder):
    """Opens the playground; after the test no error and no request may have occurred."""
    contexts, complaints = [], []

    def open_page(viewport=LAPTOP, **options):
        contexts.append(new_context(browser, viewport=viewport, **options))
        page = contexts[-1].new_page()
        complaints.append(watch(page, folder))
        page.goto((folder / "page.html").as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == [[]] * len(contexts)


def direction(name, main, aux, lam, average=None):
    """What the library computes, after a step that sets the average."""
    has = gs.METHODS[name].__dataclass_fields__
    options = {"lam": lam} if "lam" in has else {}
    if name == "pcd":
        options["tau"] = 0.3
    if "rho" in has:
        options["rho"] = None if average is None else 0.01
    step = gs.Reference(gs.METHODS[name](**options))
    if options.get("rho"):
        step(average, [0.0, 0.0])
    return step(main, aux)


PAIRS = {
    "conflict": ([1.1, 0.0], [-1.3, 0.9]),
    "agreement": ([1.1, 0.2], [1.3, 0.8]),
    "orthogonal": ([0.0, 2.0], [1.0, 0.0]),
    "opposite": ([1.0, -1.0], [-2.0, 2.0]),
    "same": ([0.3, 0.4], [0.3, 0.4]),
    "main is zero": ([0.0, 0.0], [1.0, -0.5]),
    "aux is zero": ([0.7, 0.1], [0.0, 0.0]),
    "both are zero": ([0.0, 0.0], [0.0, 0.0]),
}


@pytest.mark.parametrize("average", [None, [0.2, 1.0], [0.0, 0.0]], ids=["no average", "average", "zero average"])
@pytest.mark.parametrize("relative", [False, True], ids=["plain", "relative"])
def test_directions_are_those_of_the_library(visit, average, relative):
    page = visit()
    for label, (main, aux) in PAIRS.items():
        for lam in (0.0, 0.4, 1.0, 3.0):
            inputs = {"main": main, "aux": aux, "lam": lam, "relative": relative, "average": average}
            drawn = page.evaluate("step => playground.directions(step)", inputs)
            assert list(drawn) == list(gs.METHODS)
            for name, result in drawn.items():
                expected = direction(name, main, aux, gs.relative(lam) if relative else lam, average)
                np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12, err_msg=f"{name}, {label}, {lam}")


def changes(page, name):
    """The changes of both losses in the table."""
    cells = page.locator(f"tr[data-method={name}] td").all_inner_texts()
    return [float(cell.replace("−", "-")) for cell in cells]


def expected_changes(name, main, aux, lam, average=None):
    result = direction(name, main, aux, lam, average)
    return pytest.approx([-result @ np.array(main), -result @ np.array(aux)], abs=0.0051)


def vector(page, name):
    return [float(part) for part in page.locator(f"[data-vector={name}]").get_attribute("aria-valuetext").split(",")]


def test_the_table_has_the_first_order_changes_of_both_losses(visit):
    page = visit()
    for button in ("conflict", "agreement", "orthogonal", "opposite"):
        page.get_by_role("button", name=button, exact=True).click()
        for name in gs.METHODS:
            assert changes(page, name) == expected_changes(name, vector(page, "main"), vector(page, "aux"), 1.0)


def test_lam_relative_lam_and_the_average_are_controls(visit):
    page = visit()
    main, aux = vector(page, "main"), vector(page, "aux")
    page.get_by_label("λ", exact=True).fill("0.5")
    assert changes(page, "mixed") == expected_changes("mixed", main, aux, 0.5)
    page.get_by_label("relative").check()
    assert changes(page, "mixed") == expected_changes("mixed", main, aux, gs.relative(0.5))
    page.get_by_label("relative").uncheck()
    page.get_by_label("average").check()
    for name in ("bloop", "dynamic_barrier", "pcgrad"):
        assert changes(page, name) == expected_changes(name, main, aux, 0.5, vector(page, "average"))


def test_a_gradient_is_dragged_by_the_mouse(visit):
    page = visit()
    handle = page.locator("[data-vector=aux] circle").last
    before, box = vector(page, "aux"), handle.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y - 30, steps=4)
    page.mouse.up()
    page.mouse.move(x, y)  # after the release nothing moves
    after = vector(page, "aux")
    assert after[0] - before[0] == pytest.approx(2 * (after[1] - before[1]), abs=0.03)
    assert after[0] > before[0] + 0.2
    assert changes(page, "bloop") == expected_changes("bloop", vector(page, "main"), after, 1.0)


def test_a_gradient_is_dragged_by_a_finger(visit):
    page = visit(PHONE, has_touch=True, is_mobile=True)
    before, box = vector(page, "main"), page.locator("[data-vector=main] circle").last.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch = page.context.new_cdp_session(page)
    for kind, points in (("touchStart", [(x, y)]), ("touchMove", [(x - 20, y - 40)]), ("touchEnd", [])):
        touches = [{"x": a, "y": b} for a, b in points]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})
    after = vector(page, "main")
    assert after[0] < before[0] - 0.1
    assert after[1] > before[1] + 0.2
    assert page.evaluate("scrollY") == 0, "dragging does not scroll the page"


def test_a_gradient_is_moved_by_the_arrow_keys(visit):
    page = visit()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.vector") == "main"
    main = vector(page, "main")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Shift+ArrowLeft")
    assert vector(page, "main") == pytest.approx([main[0] - 0.01, main[1] + 0.1])


def test_a_gradient_stays_in_the_plot(visit):
    page = visit()
    page.locator("[data-vector=aux]").focus()
    for _ in range(60):
        page.keyboard.press("ArrowDown")
    assert vector(page, "aux")[1] == -2.1


def test_methods_are_drawn_when_selected(visit):
    page = visit()
    directions = page.locator("svg line.direction")
    assert directions.count() == 2
    page.get_by_role("button", name="pcgrad").click()
    assert directions.count() == 3
    page.get_by_role("button", name="mixed").press("Space")
    assert directions.count() == 2
    assert page.get_by_role("button", name="mixed").get_attribute("aria-pressed") == "false"


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_nothing_overflows(visit, viewport):
    page = visit(viewport)
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    assert all(button.bounding_box()["height"] >= 32 for button in page.get_by_role("button").all())


def test_changes_are_lighter_on_a_dark_page(visit):
    colors = []
    for scheme in ("light", "dark"):
        page = visit(color_scheme=scheme)
        colors.append(page.locator("td.better").first.evaluate("cell => getComputedStyle(cell).color"))
    assert colors == ["rgb(11, 128, 83)", "rgb(47, 196, 137)"]
