"""Tables of a report: other metrics, and samples of model output."""

import json
from dataclasses import replace

import pytest

from gradsurgery.lab.reports.report import write_report
from gradsurgery.lab.reports.series import group_runs
from gradsurgery.lab.reports.tables import metrics_table, samples_section
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


def test_other_metrics_are_means_over_seeds():
    table = metrics_table(group_runs([measured("mixed", 0.1, 0, 10.0), measured("mixed", 0.1, 1, 20.0)]))
    assert '<th scope="col">bleu aux</th>' in table
    assert "<td>0.1</td><td>15</td>" in table
    assert "main" not in table


def test_unfinished_runs_are_ignored_and_missing_metrics_are_a_dash():
    running, without = measured("mixed", 0.1, 0, 10.0, status="running"), run("mixed", 0.1, seed=1)
    table = metrics_table(group_runs([running, without, measured("mixed", 1.0, 0, 7.0)]))
    assert "<td>0.1</td><td>–</td>" in table
    assert "<td>1</td><td>7</td>" in table


def test_runs_without_other_metrics_or_samples_add_nothing():
    groups = group_runs([run("mixed", 0.1), run("bloop", 0.1)])
    assert metrics_table(groups) == samples_section(groups) == ""
    assert metrics_table(group_runs([replace(run(), metrics=())])) == ""


def test_samples_are_grouped_by_source_and_escaped():
    records = [measured("mixed", 0.1, 0, 1.0, "one <b>", "two"), measured("bloop", 0.3, 0, 1.0, "three", "four")]
    page = samples_section(group_runs(records))
    assert page.count("<details>") == 2
    first, second = page.split("<details>")[1:]
    for text in ("source &lt;0&gt;", "reference 0", "one &lt;b&gt;", "three", "mixed", "bloop", "<td>0.3</td>"):
        assert text in first
    assert "two" in second
    assert "four" in second
    assert "three" not in second


def test_only_the_samples_of_the_first_seed_are_shown():
    page = samples_section(group_runs([measured("mixed", 0.1, seed, 1.0, f"seed {seed}") for seed in (0, 1)]))
    assert "seed 0" in page
    assert "seed 1" not in page


def test_a_record_parses_its_samples():
    record = measured("mixed", 0.1, 0, 1.0, "out")
    assert record.samples == [Sample("source <0>", "reference 0", "out")]
    assert run("mixed", 0.1).samples == []


def test_a_report_has_metrics_and_samples(tmp_path):
    page = write_report([measured("mixed", lam, 0, 1.0, "output") for lam in (0.1, 1.0)], tmp_path, "t").read_text(
        "utf-8"
    )
    assert "<summary>Other metrics</summary>" in page
    assert '<h2 id="samples-heading">Samples</h2>' in page
    assert "&quot;source" not in page, "samples are not listed among versions"


WRONG_SHAPES = {
    "not JSON": "{",
    "a number": "3",
    "a list of numbers": "[3]",
    "missing fields": '[{"source": "s"}]',
    "unknown fields": '[{"source": "s", "reference": "r", "output": "o", "extra": 1}]',
    "numbers instead of text": '[{"source": 1, "reference": 2, "output": 3}]',
    "deeply nested": "[" * 100_000,
}


@pytest.mark.parametrize("text", WRONG_SHAPES.values(), ids=WRONG_SHAPES)
def test_unreadable_samples_are_reported_and_do_not_stop_the_report(text):
    record = run("mixed", 0.1, seed=1)
    damaged = replace(record, info={**record.info, "samples": text})
    section = samples_section(group_runs([measured("mixed", 0.1, 0, 1.0, "good output"), damaged]))
    assert "good output" in section
    assert "The stored samples of 1 run could not be read." in section
