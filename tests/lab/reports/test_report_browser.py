"""The report in a real browser: headless Chromium, driven by playwright."""

import itertools
from dataclasses import replace

import pytest

from gradsurgery import lab
from gradsurgery.lab import recommend
from gradsurgery.lab.reports.allowance_slider import POSITIONS
from tests.browser import CHROMIUM, launch, new_context
from tests.lab.analysis.synthetic_runs import ending, main_alone, run, sweep

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]

LAPTOP, PHONE = {"width": 1366, "height": 768}, {"width": 390, "height": 844}
MOBILE = {"is_mobile": True, "has_touch": True}


def with_negative(record, name):
    """The same run with one of its losses lowered by 10."""
    return replace(record, metrics=tuple({**row, name: row[name] - 10} for row in record.metrics))


REPORTS = {
    "sweep": sweep(),
    "main alone": sweep() + main_alone(),
    "several rho and main alone": sweep(seeds=1) + sweep(seeds=1, methods={"bloop": 0.5, "mgda": None}) + main_alone(1),
    "negative": sweep(negative=True),
    "several rho": sweep() + sweep(methods={"bloop": 0.5, "mgda": None}, lams=(0.1,)),
    "negative on test": [with_negative(record, "aux_test") for record in sweep(seeds=1)],
    "outlier": [*sweep(seeds=1), ending("mixed", 100.0, 1e9, 1e9)],
    "one run": [run()],
    "one row": [ending("mixed", lam, 1.0 + lam, 2.0 - lam) for lam in (0.1, 0.2)],
    "diverged": [run(diverged=True)],
    "only main alone": main_alone(),
}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = launch(driver)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def open_pages(browser, tmp_path_factory, no_figures_in_module):
    """Opens a report, or returns the page on which it is open: loading takes longer than most tests."""
    pages = {}

    def open_report(name, viewport, **options):
        key = (name, *viewport.values(), *options.items())
        if key not in pages:
            path = lab.report(REPORTS[name], tmp_path_factory.mktemp("report"), title=name)
            pages[key] = Visit(new_context(browser, viewport=viewport, **options).new_page(), path.as_uri())
        return pages[key]

    return open_report


class Visit:
    """An open report. Records console messages, errors, and requests for anything but the page itself."""

    def __init__(self, page, address):
        self.page, self.complaints = page, []
        page.on("console", lambda message: self.complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", lambda request: request.url == address or self.complaints.append(f"request: {request.url}"))
        page.goto(address)
        self.initial = self.controls()

    def controls(self):
        pressed = "[...document.querySelectorAll('button')].map(e => e.ariaPressed)"
        opened = "document.querySelectorAll('details[open]').length"
        sliders = "[...document.querySelectorAll('input')].map(e => e.value)"
        return self.page.evaluate(f"[{pressed}, {opened}, {sliders}]")


@pytest.fixture
def visit(open_pages):
    """Opens a report, on a phone unless it is the sweep.

    After the test no error may have occurred, and the controls must be as they were before.
    """
    visits = []

    def visit_report(name="sweep", viewport=None):
        viewport = viewport or (LAPTOP if name == "sweep" else PHONE)
        visits.append(open_pages(name, viewport, **(MOBILE if viewport is PHONE else {})))
        return visits[-1].page

    yield visit_report
    for visited in visits:
        assert visited.complaints == []
        assert visited.controls() == visited.initial, "pages are shared: a test puts the controls back"


def traces(page, chart="front", **filters):
    """The traces that plotly has drawn, filtered by their fields."""
    fields = "({meta, visible, x, y}) => ({name: meta.series, meta: meta.layer, visible, x, y})"
    drawn = page.evaluate(f"id => document.getElementById(id).data.map({fields})", chart)
    return [trace for trace in drawn if filters.items() <= trace.items()]


def axis(page, name):
    fields = "({type, range}) => ({type, range})"
    return page.evaluate(f"name => ({fields})(document.getElementById('front')._fullLayout[name])", name)


def pressed(page, selector):
    return [button.get_attribute("aria-pressed") == "true" for button in page.locator(selector).all()]


def count_markers(page, chart="front"):
    """The number of markers on the screen."""
    return page.locator(f"#{chart} .scatterlayer path.point").count()


def test_a_report_renders(visit):
    page = visit()
    assert page.title() == "sweep"
    assert page.locator("#front .scatterlayer .trace").count() == 8  # runs and front of each method
    assert count_markers(page) == 59 + 20  # runs with finite losses, and means
    assert count_markers(page, "mixed") == 20
    assert page.locator("table.comparison tbody tr").count() == 4


def test_hovering_over_a_marker_shows_its_run(visit):
    page = visit()
    page.locator("#front .scatterlayer .trace").last.locator("path.point").nth(4).hover(force=True)
    for part in ("bloop", "λ = ", "ρ = 0.01", "seed", "main 0.", "aux 0."):
        playwright.expect(page.locator("#front .hoverlayer")).to_contain_text(part)


def test_a_method_can_be_hidden_and_shown_again(visit):
    page = visit()
    before = count_markers(page)
    button = page.locator("[data-method=bloop]").first
    button.click()
    for chart in ("front", "mixed"):
        assert {trace["visible"] for trace in traces(page, chart, name="bloop")} == {False}
        assert all(trace["visible"] for trace in traces(page, chart) if trace["name"] != "bloop")
    assert pressed(page, "[data-method=bloop]") == [False, False, False]
    assert count_markers(page) == before - 20
    button.press("Space")
    assert all(trace["visible"] for trace in traces(page))
    assert (pressed(page, "[data-method=bloop]"), count_markers(page)) == ([True, True, True], before)


def test_switching_between_train_and_test(visit):
    page = visit()
    train, ranges = traces(page, name="bloop", meta="runs"), [axis(page, name)["range"] for name in ("xaxis", "yaxis")]
    page.get_by_role("button", name="test").first.click()
    assert traces(page, name="bloop", meta="runs")[0]["x"] != train[0]["x"]
    assert [axis(page, name)["range"] for name in ("xaxis", "yaxis")] != ranges
    assert "test" in page.locator("#front .xtitle").text_content()
    assert pressed(page, "[data-split]") == [False, True] * 2
    page.get_by_role("button", name="train").first.click()
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
    page.get_by_role("button", name="log aux").click()


def test_negative_losses_stay_on_a_linear_axis(visit):
    page = visit("negative")
    assert axis(page, "yaxis")["type"] == "linear"
    assert page.get_by_role("button", name="log aux").is_disabled()
    assert page.get_by_role("button", name="log main").is_enabled()


def test_an_axis_is_logarithmic_only_where_it_can_be(visit):
    page = visit("negative on test")
    assert axis(page, "yaxis")["type"] == "log"
    page.get_by_role("button", name="test").first.click()
    assert (axis(page, "yaxis")["type"], pressed(page, "[data-log=aux]")) == ("linear", [False])
    page.get_by_role("button", name="train").first.click()
    assert (axis(page, "yaxis")["type"], pressed(page, "[data-log=aux]")) == ("log", [True])


def test_trajectories_are_off_by_default(visit):
    page = visit()
    assert (traces(page, meta="trajectories"), pressed(page, "#trajectories")) == ([], [False])
    page.get_by_role("button", name="trajectories").click()
    assert len(traces(page, meta="trajectories")) == 4
    assert pressed(page, "#trajectories") == [True]
    page.get_by_role("button", name="trajectories").click()
    assert traces(page, meta="trajectories") == []


def test_the_slider_mixes_the_losses(visit):
    page = visit()
    main = traces(page, name="bloop", meta="front")[0]["x"]
    page.locator("#mixture").fill("0")
    assert page.locator("#mixture-text").inner_text() == "t = 0.00"
    assert sorted(traces(page, "mixed", name="bloop", meta="train")[0]["y"]) == pytest.approx(main, rel=1e-4)
    page.locator("#mixture").fill("20")
    aux = traces(page, name="bloop", meta="front")[0]["y"]
    assert sorted(traces(page, "mixed", name="bloop", meta="train")[0]["y"]) == pytest.approx(sorted(aux), rel=1e-4)
    assert page.locator("#mixed .ytitle").text_content() == "0.00 main + 1.00 aux"
    page.locator("#mixture").fill("2")


@pytest.mark.parametrize("name", ["main alone", "several rho and main alone"])
def test_the_page_recommends_what_recommend_does(visit, name):
    page = visit(name)
    slider = page.locator("#allowance")
    assert page.locator("#allowance-text").inner_text() == "2 %"
    seen = set()
    for position, allow in enumerate(POSITIONS):
        slider.fill(str(position))
        expected = recommend(REPORTS[name], allow)
        assert page.locator("#chosen li").all_inner_texts() == [each.text for each in expected]
        marked = traces(page, meta="recommended")
        assert len(marked) == sum(each.aux is not None for each in expected)
        fronts = [(x, y) for trace in traces(page) if trace["meta"] in ("front", "dominated") for x, y in points(trace)]
        assert all(point in fronts for trace in marked for point in points(trace))
        seen.add(tuple(each.lam for each in expected))
    assert len(seen) > 2, "the slider changes the recommendation"
    slider.fill(str(POSITIONS.index(0.02)))


def points(trace):
    return list(zip(trace["x"], trace["y"], strict=True))


def test_main_alone_is_a_star_with_a_label(visit):
    page = visit("main alone", LAPTOP)
    (star,) = traces(page, meta="main alone")
    ends = [record.final["main_test"] for record in main_alone()]
    assert star["x"] == [pytest.approx(sum(ends) / 3, rel=1e-4)]
    assert "main alone" in [text for text, _ in label_boxes(page)]
    assert traces(visit(), meta="main alone") == []


def test_a_report_without_main_alone_has_no_slider_for_the_allowance(visit):
    assert not visit().locator("#allowance").is_visible()
    assert not visit().locator("[data-curves]").first.is_visible()


PANELS = ("main", "aux", "removed", "conflict")


def curves(page, panel, name):
    """The number of curves of a method in a panel: each ends with a gap."""
    (trace,) = traces(page, f"curve-{panel}", name=name)
    return trace["x"].count(None)


def test_training_curves_show_the_recommended_runs_or_all(visit):
    page = visit("main alone", LAPTOP)
    for panel in PANELS:
        assert [curves(page, panel, name) for name in ("bloop", "mixed", "pcgrad", "main alone")] == [3, 3, 0, 3]
    page.get_by_role("button", name="all runs").click()
    for panel in PANELS:
        assert [curves(page, panel, name) for name in ("bloop", "mixed", "pcgrad", "main alone")] == [15, 15, 15, 3]
    page.get_by_role("button", name="recommended runs").click()
    assert curves(page, "main", "bloop") == 3


def test_training_curves_follow_the_split_and_the_methods(visit):
    page = visit("main alone", LAPTOP)
    test = traces(page, "curve-main", name="bloop")[0]
    page.get_by_role("button", name="train").last.click()
    assert traces(page, "curve-main", name="bloop")[0]["y"] != test["y"]
    page.get_by_role("button", name="test").last.click()
    button = page.locator("[data-method=bloop]").last
    button.click()
    assert [trace["visible"] for trace in traces(page, "curve-aux", name="bloop")] == [False]
    button.click()


def test_panels_without_data_are_hidden(visit):
    page = visit("outlier")
    assert page.locator("#curve-removed").is_visible()
    page = visit("one row", LAPTOP)
    assert [page.locator(f"#curve-{panel}").is_visible() for panel in PANELS] == [True, True, False, False]


def test_points_far_outside_the_chart_are_mentioned(visit):
    assert "1 final point is far outside the chart" in visit("outlier").locator("#front-note").inner_text()
    assert "outside" not in visit().locator("#front-note").inner_text()


def test_a_report_without_losses_has_no_empty_charts(visit):
    page = visit("diverged")
    assert page.locator(".chart").count() == 0
    assert "No run ended with finite losses" in page.locator("header").inner_text()


def label_boxes(page):
    fields = "e => [e.textContent, e.getBoundingClientRect().toJSON()]"
    labels = page.evaluate(f"[...document.querySelectorAll('#front .textpoint text')].map({fields})")
    return [(text, box) for text, box in labels if text]


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_labels_of_lam_stand_beside_the_front_and_do_not_overlap(visit, viewport):
    labels = label_boxes(visit(viewport=viewport))
    assert {text for text, _ in labels} == {"0.001", "0.01", "0.1", "1", "10"}
    for (_, a), (_, b) in itertools.combinations(labels, 2):
        apart = a["left"] >= b["right"] or b["left"] >= a["right"] or a["top"] >= b["bottom"] or b["top"] >= a["bottom"]
        assert apart


def test_error_bars_are_drawn_where_there_are_several_seeds(visit):
    assert visit().locator("#front .errorbar").count() == 20  # 4 methods, 5 weights
    assert visit("negative on test").locator("#front .errorbar").count() == 0


@pytest.mark.parametrize("name", REPORTS)
def test_nothing_overflows(visit, name):
    page = visit(name, PHONE)
    for summary in page.locator("summary").all():
        summary.click()
    for viewport in (LAPTOP, PHONE):
        page.set_viewport_size(viewport)
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        overflows = "e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('svg')"
        elements = f"[...document.querySelectorAll('body *')].filter({overflows}).map(e => e.outerHTML.slice(0, 80))"
        assert page.evaluate(elements) == []
        buttons = [button.bounding_box() for button in page.get_by_role("button").all()]
        assert all(button["height"] >= 32 for button in buttons)  # large enough to tap
    for summary in page.locator("summary").all():
        summary.click()


def test_dark_pages_have_light_text(visit):
    page = visit()
    page.emulate_media(color_scheme="dark")
    tick_label = playwright.expect(page.locator("#front .xtick text").first)
    playwright.expect(page.locator("body")).to_have_css("background-color", "rgb(20, 23, 27)")
    tick_label.to_have_css("fill", "rgb(154, 164, 175)")
    page.emulate_media(color_scheme="light")
    tick_label.to_have_css("fill", "rgb(93, 102, 113)")
