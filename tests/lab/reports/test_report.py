import itertools
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib
import pytest
from matplotlib.figure import Figure
from PIL import Image

import gradsurgery as gs
from gradsurgery import lab
from gradsurgery.lab.grid import powers_of_ten
from gradsurgery.lab.reports.report import write_report
from tests.lab.reports.synthetic_runs import LAMS, METHODS, ending, main_alone, run, sweep


class Page(HTMLParser):
    """A parsed page: tags with their attributes, visible text, and the text of each script."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.scripts, self.text, self.inside = [], [], [], None
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, text):
        (self.scripts if self.inside == "script" else [] if self.inside == "style" else self.text).append(text)

    def find(self, tag, **attributes):
        return [present for name, present in self.tags if name == tag and attributes.items() <= present.items()]

    @property
    def data(self):
        return next(json.loads(script) for script in self.scripts if script.startswith('{"splits"'))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return write_report(sweep(), tmp_path_factory.mktemp("report") / "new" / "folder", "lipschitz, demo")


@pytest.fixture(scope="module")
def page(report):
    return Page(report)


def test_the_page_and_the_figures_are_written(report):
    assert report.name == "report.html"
    assert sorted(path.name for path in (report.parent / "figures").iterdir()) == [
        "fronts.pdf",
        "fronts.png",
        "mixed-loss.pdf",
        "mixed-loss.png",
    ]


@pytest.mark.parametrize("name", ["fronts", "mixed-loss"])
def test_figures_meet_the_requirements_of_a_journal(report, name):
    with Image.open(report.parent / "figures" / f"{name}.png") as image:
        image.verify()
        assert image.info["dpi"] == pytest.approx((200, 200), abs=0.1)
        assert image.width == 6.75 * 200
    pdf = (report.parent / "figures" / f"{name}.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")
    assert b"/FontFile2" in pdf  # TrueType, embedded
    assert b"/Type3" not in pdf


@pytest.mark.slow
def test_the_same_runs_give_the_same_files(report, tmp_path):
    rc_params = dict(matplotlib.rcParams)
    again = write_report(sweep(), tmp_path, "lipschitz, demo")
    for file in ("report.html", "figures/fronts.pdf", "figures/mixed-loss.png"):
        assert (again.parent / file).read_bytes() == (report.parent / file).read_bytes()
    assert dict(matplotlib.rcParams) == rc_params


def test_the_page_loads_nothing(page):
    for tag, attributes in page.tags:
        assert "src" not in attributes
        assert "srcset" not in attributes
        if tag == "link":
            assert attributes["href"] == "data:,"
        if tag == "a":
            assert attributes["href"].startswith("figures/")
    policy = page.find("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
    assert "default-src 'none'" in policy


def test_the_style_loads_nothing(report):
    style = report.read_text("utf-8").split("<style>")[1].split("</style>")[0]
    assert not re.search(r"url\(|@import|https?:", style)


def test_every_method_is_in_the_controls_the_table_and_the_data(page):
    names = ["bloop", "mixed", "dynamic_barrier", "pcgrad"]
    assert [button["data-method"] for button in page.find("button") if "data-method" in button] == names * 3
    assert len(page.find("th", scope="row")) >= len(METHODS)
    assert [series["label"] for series in page.data["series"]] == names
    assert len({series["colour"] for series in page.data["series"]}) == len(names)


def test_the_data_hold_every_run_with_finite_losses(page):
    for series in page.data["series"]:
        for split in ("train", "test"):
            diverged = series["label"] == "pcgrad"
            assert len(series["layers"][split]["runs"]["x"]) == 15 - diverged
            assert len(series["by_lam"][split]) == len(LAMS)
    hover = next(series for series in page.data["series"] if series["label"] == "pcgrad")["layers"]["train"]["front"][
        "hovertext"
    ]
    assert any("λ = 10, mean of 2 of 3 seeds" in text for text in hover)
    bloop = page.data["series"][0]["layers"]["train"]["runs"]
    assert bloop["hovertext"][0].startswith("<b>bloop</b><br>λ = 0.001, ρ = 0.01, seed 0<br>main ")


def test_the_header_states_what_was_run(page):
    text = " ".join("".join(page.text).split())
    for fact in ("Problem lipschitz", "Scale demo", "Runs 60", "Seeds 3", "λ 5 values from 0.001 to 10", "ρ 0.01"):
        assert fact.replace(" ", "") in text.replace(" ", "")
    assert "On train losses bloop has the largest hypervolume" in text
    assert "1 of 60 runs diverged: the final losses are not finite. The first is pcgrad, λ = 10, seed 1." in text
    assert "learning_rate0.0003" in text.replace(" ", "")
    assert "commitf392914" in text.replace(" ", "")


def test_a_title_cannot_break_the_page(tmp_path, no_figures):
    path = write_report([run()], tmp_path, "</script><b>&\"'")
    assert "</script>&lt;" not in path.read_text("utf-8").split("</title>")[0]
    assert "&lt;/script&gt;&lt;b&gt;&amp;" in path.read_text("utf-8")


def test_a_name_cannot_break_the_script(tmp_path, no_figures):
    record = run()
    path = write_report([replace(record, spec=replace(record.spec, method="</script>"))], tmp_path, "title")
    assert Page(path).data["series"][0]["label"] == "</script>"


def test_long_curves_are_thinned_and_keep_their_ends(tmp_path, no_figures):
    record = run(steps=2000)
    (curves,) = Page(write_report([record], tmp_path, "long")).data["series"][0]["curves"]
    assert len(curves["step"]) == len(curves["main_train"]) == 200
    assert [curves["step"][index] for index in (0, -1)] == [0.0, 100_000.0]
    assert curves["main_train"][-1] == pytest.approx(record.final["main_train"], rel=1e-3)


def test_diagnostics_are_averaged_over_a_tenth_of_the_run(tmp_path, no_figures):
    rows = tuple({"step": float(k), "main_train": 1.0, "aux_train": 1.0, "surgery/conflict": k % 2} for k in range(60))
    (curves,) = Page(write_report([replace(run(), metrics=rows)], tmp_path, "s")).data["series"][0]["curves"]
    assert curves["surgery/conflict"][:6] == [0.0, 0.5, 0.3333, 0.5, 0.4, 0.5], "as many rows as there are"
    assert set(curves["surgery/conflict"][6:]) == {0.5}, "six rows"
    assert "surgery/removed" not in curves


def test_recommendations_are_on_top_of_the_page(tmp_path, no_figures):
    points = [("mixed", 0.0, 1.0, 10.0), ("mixed", 0.1, 1.03, 8.0), ("bloop", 0.3, 1.0, 6.0)]
    records = [ending(*point, seed) for point in points for seed in (0, 1)]
    page = write_report(records, tmp_path, "s").read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    section = page.split('<h2 id="advice-heading">')[1].split("</section>")[0]
    assert section.count("<tr>") == 3, "a heading, and allowances that say the same in one row"
    low, high = section.split("<tr>")[2:]
    assert low.startswith('<th scope="row">1 %, 2 %</th>')
    assert "mixed: no λ keeps main within the allowance (closest: λ = 0.1, main +3.0 ± 0.0 %)" in low
    assert "bloop, λ = 0.3: main +0.0 ± 0.0 %, aux −40.0 ± 0.0 %" in low
    assert high.startswith('<th scope="row">5 %, 10 %</th>')
    assert "<strong>bloop wins: its aux is lower than that of mixed" in high


def test_a_sweep_that_cannot_be_compared_says_why(tmp_path, no_figures):
    records = [ending("mixed", 0.0, 0.0, 1.0), ending("mixed", 0.1, 0.0, 1.0)]
    page = write_report(records, tmp_path, "s").read_text("utf-8")
    assert "No recommendation: main alone ends with a main loss of 0" in page
    assert "advice-heading" not in write_report([run()], tmp_path, "s").read_text("utf-8")


def test_main_alone_by_itself_and_beside_diverged_runs_has_no_slider(tmp_path, no_figures):
    for name, others in {"alone": [], "diverged": [run(diverged=True), run("mixed", diverged=True)]}.items():
        assert Page(write_report(main_alone() + others, tmp_path, name)).data["recommend"] is None


@pytest.mark.slow
def test_a_page_for_2000_runs_is_small(tmp_path, no_figures):
    grid = itertools.product(gs.METHODS, powers_of_ten(-4, 0, 20), range(10))
    records = [run(method, lam, seed=seed, steps=100) for method, lam, seed in grid]
    assert len(records) == 2000
    assert write_report(records + main_alone(10), tmp_path, "large").stat().st_size < 10e6


UNUSUAL = {
    "one run": ([run()], 1),
    "no test data": (sweep(test=False), 2),
    "negative losses": (sweep(negative=True), 2),
    "no weight": ([run("mgda", lam=None), run("mixed", lam=0.1), run("mixed", lam=0.2)], 2),
    "weight 0": ([run(lam=lam) for lam in (0.0, 0.1)], 2),
    "infinite weight": ([run(lam=0.1), replace(run(), spec=replace(run().spec, lam=float("inf")))], 2),
    "one row per run": ([ending("mixed", lam, 1.0, 1.0) for lam in (0.1, 0.2)], 2),
    "diverged": ([run(diverged=True)], 0),
    "unfinished": ([run(status="running"), replace(run(seed=1, status="running"), metrics=())], 0),
    "failed before its first row": ([replace(run(status="failed"), metrics=()), run(seed=1)], 1),
    "several rho": ([run(rho=rho, lam=lam) for rho in (None, 0.01, 0.9) for lam in (0.1, 0.2)], 2),
    "no losses": ([replace(run(), metrics=({"step": 0.0, "distance": 1.0},))], 0),
    "equal losses": ([ending("mixed", 0.1, 0.0, 0.0), ending("bloop", 0.1, 0.0, 0.0)], 1),
}


def test_a_report_from_python_has_the_losses_and_the_figures_of_the_problem(tmp_path):
    records = lab.sweep("noise", folder=tmp_path, settings={"samples": 1000}, seeds=[0], workers=0, quiet=True)
    page = lab.report(records, tmp_path / "report")
    assert (tmp_path / "report" / "figures" / "noise.pdf").exists()
    assert "a Gaussian gradient with noise σ" in page.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("case", UNUSUAL)
def test_unusual_runs_make_a_report(tmp_path, png_only, case):
    records, figures = UNUSUAL[case]
    path = write_report(records, tmp_path, case)
    assert len(list((tmp_path / "figures").iterdir())) == figures
    assert len(Page(path).data["series"]) == len({(record.spec.method, record.spec.rho) for record in records})


def test_runs_with_different_settings_or_conditions_are_pointed_out(tmp_path, no_figures):
    other = run(steps=30, seed=1)
    other = replace(other, info={**other.info, "jax": "0.7.0"})
    text = write_report([run(), other], tmp_path, "mixed up").read_text("utf-8")
    assert "These runs have different settings, compare with care: steps (1000, 1500)." in text
    assert "trained under different conditions, compare with care: jax (0.6.2, 0.7.0)." in text
    assert "<code>1000, 1500</code>" in text


def test_figures_of_a_problem_are_embedded_and_drawn_from_finished_runs(tmp_path):
    records = [run(), replace(run(seed=1, status="failed"), metrics=()), run(seed=2, status="running")]
    path = write_report(records, tmp_path, "own", draw=lambda records: {f"own-{len(records)}": Figure()})
    assert (tmp_path / "figures" / "own-1.pdf").exists()
    assert [image["src"][:22] for image in Page(path).find("img", alt="own-1")] == ["data:image/png;base64,"]


FINDINGS = {
    "a single run": ([run()], "No verdict on train losses: there is only one run."),
    "a single seed": (sweep(seeds=1), "(a single seed: the spread is unknown)."),
    "a single seed of one method": (
        [*sweep(seeds=1, methods={"mixed": None}), *sweep(seeds=3, methods={"bloop": 0.01})],
        "(a single seed: the spread is unknown).",
    ),
    "all diverged": ([run(diverged=True)], "No run ended with finite losses, so there is nothing to draw."),
    "within the spread": (
        [
            ending(method, lam, main + shift + 5 * seed, aux + 5 * seed, seed=seed)
            for method, shift in (("mixed", 0.01), ("bloop", 0.0))
            for lam, main, aux in ((0.1, 1.0, 3.0), (0.2, 2.0, 2.0), (0.3, 3.0, 1.0))
            for seed in range(3)
        ],
        ", within their spread over seeds.",
    ),
}


@pytest.mark.parametrize(("records", "finding"), FINDINGS.values(), ids=FINDINGS)
def test_the_summary_is_a_verdict_or_the_reason_why_there_is_none(tmp_path, no_figures, records, finding):
    page = write_report(records, tmp_path, "finding").read_text("utf-8")
    assert finding in page.split('<p class="finding">')[1].split("</p>")[0]


def test_failed_and_missing_runs_are_warned_about(tmp_path, no_figures):
    failed = run(seed=9, status="failed")
    failed = replace(failed, info={"reason": "ValueError: <no data>"}, metrics=())
    page = write_report([run(), failed], tmp_path, "failed", missing=2).read_text("utf-8")
    assert "1 of 4 runs failed. The first is bloop, λ = 0.1, seed 9: ValueError: &lt;no data&gt;" in page
    assert "2 of 4 runs are missing: not trained yet." in page


def test_a_report_without_runs_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one run"):
        write_report([], tmp_path, "nothing")
