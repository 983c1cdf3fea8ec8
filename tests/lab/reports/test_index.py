"""Several sweeps side by side on one page."""

import re
from dataclasses import replace

from gradsurgery import lab
from gradsurgery.lab.reports.index import write_index
from tests.lab.analysis.synthetic_runs import main_alone, sweep

RECORDS = sweep() + main_alone()


def test_each_sweep_has_a_link_its_fronts_and_its_recommendations(tmp_path, png_only):
    other = [replace(record, spec=replace(record.spec, problem="a<b")) for record in sweep(seeds=1)]
    reports = {
        lab.report(RECORDS, tmp_path / "first", title="lipschitz, demo"): ("lipschitz, demo", RECORDS),
        lab.report(other, tmp_path / "second", title="a<b, demo"): ("a<b, demo", other),
    }
    path = write_index(reports, tmp_path)
    page = path.read_text("utf-8")
    first, second = page.split("<section>")[1:]
    assert '<h2><a href="first/report.html">lipschitz, demo</a></h2>' in first
    assert '<h2><a href="second/report.html">a&lt;b, demo</a></h2>' in second
    assert '<pre class="code"><code>gs.bloop(lam=' in first
    assert '<pre class="code">' not in second, "there is no main alone to compare with"
    assert page.count('src="data:image/png;base64,') == 2
    assert not re.search(r'(src|href)="(?!data:|first/|second/)', page), "the page loads nothing"


def test_a_sweep_without_fronts_has_no_image(tmp_path, png_only):
    diverged = sweep(seeds=1, methods={"mixed": None}, lams=(10.0,), steps=4)
    diverged = [replace(record, metrics=({"step": 0.0, "main_train": float("nan")},)) for record in diverged]
    page = write_index({lab.report(diverged, tmp_path / "first", title="t"): ("t", diverged)}, tmp_path)
    assert "<img" not in page.read_text("utf-8")
