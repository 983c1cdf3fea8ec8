"""What a report shows besides the losses."""

import json
from dataclasses import replace

from gradsurgery.lab.reports.measures import html_measures, html_samples
from gradsurgery.lab.reports.report import write_report
from gradsurgery.lab.reports.series import series
from gradsurgery.lab.run import Sample
from tests.lab.reports.synthetic_runs import run


def measured(method, lam, seed, bleu, *outputs, status="done"):
    record = run(method, lam, seed=seed, status=status)
    samples = [
        {"source": f"source <{n}>", "reference": f"reference {n}", "output": output} for n, output in enumerate(outputs)
    ]
    last = {**record.final, "bleu_aux": bleu}
    info = {**record.info, "samples": json.dumps(samples)} if samples else record.info
    return replace(record, metrics=(*record.metrics[:-1], last), info=info)


def test_other_measures_are_means_over_seeds():
    table = html_measures(series([measured("mixed", 0.1, 0, 10.0), measured("mixed", 0.1, 1, 20.0)]))
    assert '<th scope="col">bleu aux</th>' in table
    assert "<td>0.1</td><td>15</td>" in table
    assert "main" not in table


def test_a_run_under_way_is_no_measure_and_one_without_it_is_a_dash():
    running, without = measured("mixed", 0.1, 0, 10.0, status="running"), run("mixed", 0.1, seed=1)
    table = html_measures(series([running, without, measured("mixed", 1.0, 0, 7.0)]))
    assert "<td>0.1</td><td>–</td>" in table
    assert "<td>1</td><td>7</td>" in table


def test_runs_without_other_measures_or_samples_add_nothing():
    groups = series([run("mixed", 0.1), run("bloop", 0.1)])
    assert html_measures(groups) == html_samples(groups) == ""


def test_samples_stand_together_by_source_and_are_escaped():
    records = [measured("mixed", 0.1, 0, 1.0, "one <b>", "two"), measured("bloop", 0.3, 0, 1.0, "three", "four")]
    page = html_samples(series(records))
    assert page.count("<details>") == 2
    first, second = page.split("<details>")[1:]
    for text in ("source &lt;0&gt;", "reference 0", "one &lt;b&gt;", "three", "mixed", "bloop", "<td>0.3</td>"):
        assert text in first
    assert "two" in second
    assert "four" in second
    assert "three" not in second


def test_the_first_seed_speaks_for_a_weight():
    page = html_samples(series([measured("mixed", 0.1, seed, 1.0, f"seed {seed}") for seed in (0, 1)]))
    assert "seed 0" in page
    assert "seed 1" not in page


def test_a_record_tells_its_samples():
    record = measured("mixed", 0.1, 0, 1.0, "out")
    assert record.samples == [Sample("source <0>", "reference 0", "out")]
    assert run("mixed", 0.1).samples == []


def test_a_report_has_both(tmp_path):
    page = write_report([measured("mixed", lam, 0, 1.0, "said") for lam in (0.1, 1.0)], tmp_path, "t").read_text(
        "utf-8"
    )
    assert "What else was measured" in page
    assert '<h2 id="samples-heading">Samples</h2>' in page
    assert "&quot;source" not in page, "the JSON of samples is no version"
