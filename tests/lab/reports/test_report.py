import itertools
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

import gradsurgery as gs
from gradsurgery import lab
from tests.lab.analysis.synthetic_runs import LAMS, METHODS, ending, main_alone, run, sweep


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
        return next(json.loads(script) for script in self.scripts if script.lstrip().startswith('{"splits"'))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return lab.report(sweep(), tmp_path_factory.mktemp("report") / "new" / "folder", title="lipschitz, demo")


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
    again = lab.report(sweep(), tmp_path, title="lipschitz, demo")
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
    assert [curves["series"] for curves in page.data["curves"]] == names
    assert len({curves["colour"] for curves in page.data["curves"]}) == len(names)


def trace(page, split, series, layer):
    [found] = [
        trace for trace in page.data["fronts"][split]["traces"] if trace["meta"] == {"series": series, "layer": layer}
    ]
    return found


def test_the_data_hold_every_run_with_finite_losses(page):
    for split, method in itertools.product(("train", "test"), METHODS):
        assert len(trace(page, split, method, "runs")["x"]) == 15 - (method == "pcgrad")
        assert sum(len(trace(page, split, method, layer)["x"]) for layer in ("front", "dominated")) == len(LAMS)
    hover = trace(page, "train", "pcgrad", "front")["hovertext"]
    assert any("λ = 10, mean of 2 of 3 seeds" in text for text in hover)
    hover = trace(page, "train", "bloop", "runs")["hovertext"]
    assert hover[0].startswith("<b>bloop</b><br>λ = 0.001, ρ = 0.01, seed 0<br>main ")


def test_the_mixed_loss_has_a_frame_for_each_weight(page):
    mixture = page.data["mixture"]
    assert [frame["label"] for frame in mixture["frames"]][:3] == ["t = 0.00", "t = 0.05", "t = 0.10"]
    assert {len(frame["traces"]) for frame in mixture["frames"]} == {len(mixture["traces"])}
    position = [trace["meta"] for trace in mixture["traces"]].index({"series": "bloop", "layer": "test"})
    ends = [record.final for record in sweep() if (record.spec.method, record.spec.lam) == ("bloop", LAMS[0])]
    expected = sum(0.75 * row["main_test"] + 0.25 * row["aux_test"] for row in ends) / 3
    assert mixture["frames"][5]["traces"][position]["y"][0] == pytest.approx(expected, rel=1e-3)


def test_the_header_states_what_was_run(page):
    text = " ".join("".join(page.text).split())
    for fact in ("Problem lipschitz", "Scale demo", "Runs 60", "Seeds 3", "λ 5 values from 0.001 to 10", "ρ 0.01"):
        assert fact.replace(" ", "") in text.replace(" ", "")
    assert "1 of 60 runs diverged: the final losses are not finite. The first is pcgrad, λ = 10, seed 1." in text
    assert "learning_rate0.0003" in text.replace(" ", "")
    assert "commitf392914" in text.replace(" ", "")


def test_a_title_cannot_break_the_page(tmp_path, no_figures):
    path = lab.report([run()], tmp_path, title="</script><b>&\"'")
    assert "</script>&lt;" not in path.read_text("utf-8").split("</title>")[0]
    assert "&lt;/script&gt;&lt;b&gt;&amp;" in path.read_text("utf-8")


def test_a_name_cannot_break_the_script(tmp_path, no_figures):
    record = run()
    path = lab.report([replace(record, spec=replace(record.spec, method="</script>"))], tmp_path, title="title")
    assert Page(path).data["curves"][0]["series"] == "</script>"


def test_long_curves_are_thinned_and_keep_their_ends(tmp_path, no_figures):
    record = run(steps=2000)
    (curves,) = Page(lab.report([record], tmp_path, title="long")).data["curves"][0]["runs"]
    assert len(curves["step"]) == len(curves["main_train"]) == 200
    assert [curves["step"][index] for index in (0, -1)] == [0.0, 100_000.0]
    assert curves["main_train"][-1] == pytest.approx(record.final["main_train"], rel=1e-3)


def test_diagnostics_are_averaged_over_a_tenth_of_the_run(tmp_path, no_figures):
    rows = tuple({"step": float(k), "main_train": 1.0, "aux_train": 1.0, "surgery/conflict": k % 2} for k in range(60))
    (curves,) = Page(lab.report([replace(run(), metrics=rows)], tmp_path, title="s")).data["curves"][0]["runs"]
    assert curves["surgery/conflict"][:6] == [0.0, 0.5, 0.3333, 0.5, 0.4, 0.5], "as many rows as there are"
    assert set(curves["surgery/conflict"][6:]) == {0.5}, "six rows"
    assert "surgery/removed" not in curves


def test_the_answer_is_on_top_of_the_page(tmp_path, no_figures):
    points = [("mixed", 0.0, 1.0, 10.0), ("mixed", 0.1, 1.03, 8.0), ("bloop", 0.3, 1.0, 6.0)]
    records = [ending(*point[:3], point[3] + 0.1 * seed, seed) for point in points for seed in (0, 1, 2)]
    page = lab.report(records, tmp_path, title="s").read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    before, section = page.split("<body")[1].split('<h2 id="answer-heading">')
    assert "<section" not in before.rsplit("<section", 1)[0], "no section is above it"
    opened, *folded = section.split("</section>")[0].split('<details class="answer">')
    assert "If main may be 2 % worse than main alone, on training losses:" in opened
    assert '<pre class="code"><code>gs.bloop(lam=0.3)</code></pre>' in opened
    assert "Against main alone: main +0.0 % [+0.0, +0.0], aux −39.6 % [−4" in opened
    assert "bloop wins: no other method keeps main within the allowance." in opened
    assert "mixed: no λ keeps main within the allowance (closest: λ = 0.1, main +3.0 % [+3.0, +3.0])" in opened
    assert [answer.split("<summary>")[1].split(":")[0] for answer in folded] == ["1 %", "5 %", "10 %"]
    assert "bloop wins (its aux against mixed, λ = 0.1: −2" in folded[1]


def test_a_sweep_that_cannot_be_compared_says_why(tmp_path, no_figures):
    records = [ending("mixed", 0.0, 0.0, 1.0), ending("mixed", 0.1, 0.0, 1.0)]
    page = lab.report(records, tmp_path, title="s").read_text("utf-8")
    assert "No recommendation: main alone ends with main = 0" in page
    assert "answer-heading" not in lab.report([run()], tmp_path, title="s").read_text("utf-8")


def test_main_alone_by_itself_has_no_slider(tmp_path, no_figures):
    assert Page(lab.report(main_alone(), tmp_path, title="alone")).data["allowances"] is None


def test_main_alone_beside_diverged_runs_has_no_charts(tmp_path, no_figures):
    diverged = [run(diverged=True), run("mixed", diverged=True)]
    assert Page(lab.report(main_alone() + diverged, tmp_path, title="diverged")).scripts == []


@pytest.mark.slow
def test_a_page_for_2000_runs_is_small(tmp_path, no_figures):
    grid = itertools.product(list(gs.METHODS)[:10], np.geomspace(1e-4, 1, 20).tolist(), range(10))
    records = [run(method, lam, seed=seed, steps=100) for method, lam, seed in grid]
    assert len(records) == 2000
    assert lab.report(records + main_alone(10, steps=100), tmp_path, title="large").stat().st_size < 10e6


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
    path = lab.report(records, tmp_path, title=case)
    assert len(list((tmp_path / "figures").iterdir())) == figures
    series = {(record.spec.method, record.spec.rho) for record in records}
    buttons = [button["data-method"] for button in Page(path).find("button") if "data-method" in button]
    assert len(set(buttons)) == (len(series) if figures else 0)


def test_runs_with_different_conditions_are_pointed_out(tmp_path, no_figures):
    other = run(steps=30, seed=1)
    other = replace(other, info={**other.info, "jax": "0.7.0"})
    text = lab.report([run(), other], tmp_path, title="mixed up").read_text("utf-8")
    assert "trained under different conditions, compare with care: jax (0.6.2, 0.7.0)." in text
    assert "<code>1000, 1500</code>" in text


def test_figures_of_a_problem_are_embedded_and_drawn_from_finished_runs(tmp_path):
    records = [run(), replace(run(seed=1, status="failed"), metrics=()), run(seed=2, status="running")]
    problem = replace(lab.find_problem("lipschitz"), draw=lambda records: {f"own-{len(records)}": Figure()})
    path = lab.report(records, tmp_path, problem=problem)
    assert (tmp_path / "figures" / "own-1.pdf").exists()
    assert [image["src"][:22] for image in Page(path).find("img", alt="own-1")] == ["data:image/png;base64,"]


def test_a_sweep_that_diverged_says_that_there_is_nothing_to_draw(tmp_path, no_figures):
    page = lab.report([run(diverged=True)], tmp_path, title="diverged").read_text("utf-8")
    assert "No run ended with finite losses, so there is nothing to draw." in page
    assert "<script" not in page


def test_a_single_method_has_no_comparison(tmp_path, no_figures):
    page = lab.report(sweep(methods={"bloop": 0.01}), tmp_path, title="one").read_text("utf-8")
    assert "comparison-heading" not in page


def test_failed_runs_are_warned_about(tmp_path, no_figures):
    failed = run(seed=9, status="failed")
    failed = replace(failed, info={"reason": "ValueError: <no data>"}, metrics=())
    page = lab.report([run(), failed], tmp_path, title="failed").read_text("utf-8")
    assert "1 of 2 runs failed. The first is bloop, λ = 0.1, seed 9: ValueError: &lt;no data&gt;" in page
    assert "<td>9</td><td>ValueError: &lt;no data&gt;</td>" in page


def test_a_report_without_runs_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one run"):
        lab.report([], tmp_path)


@pytest.mark.parametrize(("allow", "label"), [(0.1, "10 %"), (0.04, "4 %")])
def test_the_page_opens_with_the_given_allowance(allow, label, tmp_path, no_figures):
    page = Page(lab.report(sweep() + main_alone(), tmp_path, allow=allow))
    allowances = page.data["allowances"]
    assert allowances["positions"][allowances["first"]]["label"] == label
    text = (tmp_path / "report.html").read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert f"If main may be {label} worse than main alone" in text
    assert "<summary>2 %: " in text
    assert f"<summary>{label}: " not in text


def test_a_page_can_open_with_a_difference(tmp_path, no_figures):
    page = Page(lab.report(sweep() + main_alone(), tmp_path, allow=0.01, absolute=True))
    (position,) = page.data["allowances"]["positions"]
    alone = [record.final["main_test"] for record in main_alone()]
    assert position["limit"] == pytest.approx(sum(alone) / len(alone) + 0.01)


def test_a_difference_is_answered_where_main_alone_ends_with_0(tmp_path, no_figures):
    records = [ending("mixed", 0.0, 0.0, 5.0), ending("bloop", 0.1, 0.002, 3.0), ending("bloop", 1.0, 0.2, 1.0)]
    page = Page(lab.report(records, tmp_path, allow=0.01, absolute=True))
    assert "gs.bloop(lam=0.1)" in page.text
    assert len(page.data["allowances"]["positions"]) == 1
