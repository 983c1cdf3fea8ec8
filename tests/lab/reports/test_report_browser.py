"""The report in a real browser: headless Chromium, driven by playwright, with no way to the network."""

import shutil
from dataclasses import replace

import pytest

from gradsurgery.lab.reports.report import write_report
from tests.lab.reports.synthetic_runs import ending, run, sweep

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

LAPTOP, PHONE = {"width": 1366, "height": 768}, {"width": 390, "height": 844}


def below_zero(record, name):
    """The same run, with one of its losses lower by 10."""
    return replace(record, metrics=tuple({**row, name: row[name] - 10} for row in record.metrics))


REPORTS = {
    "sweep": sweep(),
    "negative": sweep(negative=True),
    "several rho": sweep() + sweep(methods={"bloop": 0.5, "mgda": None}, lams=(0.1,)),
    "negative on test": [below_zero(record, "aux_test") for record in sweep(seeds=1)],
    "outlier": [*sweep(seeds=1), ending("mixed", 100.0, 1e9, 1e9)],
    "one run": [run()],
    "diverged": [run(diverged=True)],
}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return {name: write_report(runs, tmp_path_factory.mktemp("report"), name) for name, runs in REPORTS.items()}


@pytest.fixture
def visit(browser, paths):
    """Opens a report; at the end of the test, nothing may have gone wrong and nothing may have been loaded."""
    contexts, troubles = [], []

    def open_report(name="sweep", viewport=LAPTOP, **options):
        context = browser.new_context(viewport=viewport, **options)
        contexts.append(context)
        page = context.new_page()
        address = paths[name].as_uri()
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("request", lambda request: request.url == address or troubles.append(f"request: {request.url}"))
        page.goto(address)
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert troubles == []


def traces(page, chart="front", **wanted):
    """The traces that plotly has drawn and that match."""
    fields = "({name, meta, visible, x, y}) => ({name, meta, visible, x, y})"
    drawn = page.evaluate(f"id => document.getElementById(id).data.map({fields})", chart)
    return [trace for trace in drawn if wanted.items() <= trace.items()]


def axis(page, name):
    fields = "({type, range}) => ({type, range})"
    return page.evaluate(f"name => ({fields})(document.getElementById('front')._fullLayout[name])", name)


def pressed(page, selector):
    return [button.get_attribute("aria-pressed") == "true" for button in page.locator(selector).all()]


def symbols(page, chart="front"):
    """How many symbols there are on the screen."""
    return page.locator(f"#{chart} .scatterlayer path.point").count()


def test_it_renders(visit):
    page = visit()
    assert page.title() == "sweep"
    assert page.locator("#front .scatterlayer .trace").count() >= 12
    assert symbols(page) == 59 + 20  # runs that ended, and means
    assert symbols(page, "mixed") == 20
    assert page.locator("table.compared tbody tr").count() == 4


def test_hovering_tells_what_a_symbol_is(visit):
    page = visit()
    page.locator("#front .scatterlayer .trace").last.locator("path.point").nth(4).hover(force=True)
    for part in ("bloop", "λ = ", "ρ = 0.01", "seed", "main 0.", "aux 0."):
        playwright.expect(page.locator("#front .hoverlayer")).to_contain_text(part)


def test_a_method_can_be_hidden_and_shown_again(visit):
    page = visit()
    before = symbols(page)
    button = page.locator("[data-method=bloop]").first
    button.click()
    for chart in ("front", "mixed"):
        assert {trace["visible"] for trace in traces(page, chart, name="bloop")} == {False}
        assert all(trace["visible"] for trace in traces(page, chart) if trace["name"] != "bloop")
    assert pressed(page, "[data-method=bloop]") == [False, False]
    assert symbols(page) == before - 20
    button.press("Space")  # a button is a button
    assert all(trace["visible"] for trace in traces(page))
    assert (pressed(page, "[data-method=bloop]"), symbols(page)) == ([True, True], before)


def test_train_and_test(visit):
    page = visit()
    train, ranges = traces(page, name="bloop", meta="runs"), [axis(page, name)["range"] for name in ("xaxis", "yaxis")]
    page.get_by_role("button", name="test").click()
    assert traces(page, name="bloop", meta="runs")[0]["x"] != train[0]["x"]
    assert [axis(page, name)["range"] for name in ("xaxis", "yaxis")] != ranges
    assert "test" in page.locator("#front .xtitle").text_content()
    assert pressed(page, "[data-split]") == [False, True]
    page.get_by_role("button", name="train").click()
    assert traces(page, name="bloop", meta="runs") == train


def test_logarithmic_axes(visit):
    page = visit()
    assert (axis(page, "xaxis")["type"], axis(page, "yaxis")["type"]) == ("log", "log")
    logarithmic = axis(page, "xaxis")["range"]
    page.get_by_role("button", name="log main").click()
    assert (axis(page, "xaxis")["type"], axis(page, "yaxis")["type"]) == ("linear", "log")
    assert axis(page, "xaxis")["range"] != logarithmic
    page.get_by_role("button", name="log aux").click()
    page.get_by_role("button", name="log main").click()
    assert (axis(page, "xaxis")["type"], axis(page, "yaxis")["type"]) == ("log", "linear")
    assert axis(page, "xaxis")["range"] == logarithmic


def test_negative_losses_stay_on_a_linear_axis(visit):
    page = visit("negative")
    assert axis(page, "yaxis")["type"] == "linear"
    assert page.get_by_role("button", name="log aux").is_disabled()
    assert page.get_by_role("button", name="log main").is_enabled()


def test_an_axis_is_logarithmic_only_where_it_can_be(visit):
    page = visit("negative on test")
    assert axis(page, "yaxis")["type"] == "log"
    page.get_by_role("button", name="test").click()
    assert (axis(page, "yaxis")["type"], pressed(page, "[data-log=aux]")) == ("linear", [False])
    page.get_by_role("button", name="train").click()
    assert (axis(page, "yaxis")["type"], pressed(page, "[data-log=aux]")) == ("log", [True])


def test_trajectories_on_and_off(visit):
    page = visit()
    assert len(traces(page, meta="trajectories")) == 4
    page.get_by_role("button", name="trajectories").click()
    assert traces(page, meta="trajectories") == []
    assert pressed(page, "#trajectories") == [False]


def test_the_slider_mixes_the_losses(visit):
    page = visit()
    main = traces(page, name="bloop", meta="joined")[0]["x"]
    page.locator("#mixture").fill("0")
    assert page.locator("#mixture-text").inner_text() == "t = 0.00"
    assert sorted(traces(page, "mixed", name="bloop", meta="train")[0]["y"]) == pytest.approx(main, rel=1e-4)
    page.locator("#mixture").fill("1")
    aux = traces(page, name="bloop", meta="joined")[0]["y"]
    assert sorted(traces(page, "mixed", name="bloop", meta="train")[0]["y"]) == pytest.approx(sorted(aux), rel=1e-4)
    assert page.locator("#mixed .ytitle").text_content() == "0.00 main + 1.00 aux"


def test_points_far_outside_are_spoken_of(visit):
    assert "1 final point lies far outside" in visit("outlier").locator("#front-note").inner_text()
    assert "outside" not in visit().locator("#front-note").inner_text()


def test_a_report_without_losses_has_no_empty_charts(visit):
    page = visit("diverged")
    assert not any(section.is_visible() for section in page.locator(".needs-losses").all())
    assert "No run has ended with finite losses" in page.locator(".finding").inner_text()


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("name", REPORTS)
def test_nothing_overflows(visit, name, viewport):
    page = visit(name, viewport, is_mobile=viewport is PHONE, has_touch=viewport is PHONE)
    page.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    wide = "e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('svg')"
    found = page.evaluate(f"[...document.querySelectorAll('body *')].filter({wide}).map(e => e.outerHTML.slice(0, 80))")
    assert found == []
    buttons = [button.bounding_box() for button in page.get_by_role("button").all()]
    assert all(button["height"] >= 32 for button in buttons)  # a finger can meet them


def test_dark_pages_have_light_letters(visit):
    page = visit(color_scheme="dark")
    letters = playwright.expect(page.locator("#front .xtick text").first)
    playwright.expect(page.locator("body")).to_have_css("background-color", "rgb(20, 23, 27)")
    letters.to_have_css("fill", "rgb(154, 164, 175)")
    page.emulate_media(color_scheme="light")
    letters.to_have_css("fill", "rgb(93, 102, 113)")
