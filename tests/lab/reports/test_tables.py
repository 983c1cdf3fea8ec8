"""Tables of a report: other metrics, and samples of model output."""

import json
from dataclasses import replace

from gradsurgery import lab
from gradsurgery.lab.analysis import compare_methods, group_runs
from gradsurgery.lab.reports.style import assign_looks
from gradsurgery.lab.reports.tables import comparison_rows, failed_seeds, metric_names, metric_rows, sample_rows
from gradsurgery.lab.run import Sample
from tests.lab.analysis.synthetic_runs import run, sweep


def measured(method, lam, seed, bleu, *outputs, status="done"):
    record = run(method, lam, seed=seed, status=status)
    samples = [
        {"source": f"source <{n}>", "reference": f"reference {n}", "output": output} for n, output in enumerate(outputs)
    ]
    last = {**record.final, "bleu_aux": bleu}
    info = {**record.info, "samples": json.dumps(samples)} if samples else record.info
    return replace(record, metrics=(*record.metrics[:-1], last), info=info)


def metrics(records):
    groups = group_runs(records)
    return metric_names(groups), [(row.lam, *row.cells) for row in metric_rows(groups, assign_looks(groups))]


def samples(records):
    groups = group_runs(records)
    return sample_rows(groups, assign_looks(groups))


def test_other_metrics_are_means_over_seeds():
    records = [measured("mixed", 0.1, 0, 10.0), measured("mixed", 0.1, 1, 20.0)]
    assert metrics(records) == (["bleu_aux"], [("0.1", "15")])


def test_a_metric_may_begin_like_a_loss():
    record = run("mixed", 0.1)
    last = {**record.final, "main_accuracy": 0.9, "steps_per_second": 4.0, "seed": 1.0, "lam": 2.0}
    names = ["main_accuracy", "steps_per_second", "seed", "lam"]
    assert metrics([replace(record, metrics=(last,))]) == (names, [("0.1", "0.9", "4", "1", "2")])


def test_unfinished_runs_are_ignored_and_missing_metrics_are_a_dash():
    running, without = measured("mixed", 0.1, 0, 10.0, status="running"), run("mixed", 0.1, seed=1)
    assert metrics([running, without, measured("mixed", 1.0, 0, 7.0)])[1] == [("0.1", "–"), ("1", "7")]


def test_runs_without_other_metrics_or_samples_add_nothing():
    records = [run("mixed", 0.1), run("bloop", 0.1)]
    assert metrics(records)[0] == []
    assert samples(records) == {}
    assert metrics([replace(run(), metrics=())]) == ([], [])


def test_samples_are_grouped_by_source():
    records = [measured("mixed", 0.1, 0, 1.0, "one", "two"), measured("bloop", 0.3, 0, 1.0, "three", "four")]
    tables = samples(records)
    assert list(tables) == [("source <0>", "reference 0"), ("source <1>", "reference 1")]
    first, second = tables.values()
    assert [(row.look.label, row.lam, *row.cells) for row in first] == [
        ("bloop", "0.3", "three"),
        ("mixed", "0.1", "one"),
    ]
    assert [row.cells for row in second] == [["four"], ["two"]]


def test_only_the_samples_of_the_first_seed_are_shown():
    [rows] = samples([measured("mixed", 0.1, seed, 1.0, f"seed {seed}") for seed in (0, 1)]).values()
    assert [row.cells for row in rows] == [["seed 0"]]


def test_the_fronts_of_each_method_beside_mixed():
    records = sweep()
    groups = group_runs(records)
    comparisons = {split: compare_methods(records, split) for split in ("train", "test")}
    bloop, mixed, _, pcgrad = comparison_rows(comparisons, assign_looks(groups))
    assert bloop.leads == [
        fronts.reason or fronts.lead.describe()
        for fronts in (comparison.methods[0].fronts for comparison in comparisons.values())
    ]
    assert (mixed.leads, mixed.mains, mixed.runs) == (["", ""], ["", ""], "15 runs")
    assert pcgrad.runs == "14 of 15 runs"


def test_a_record_parses_its_samples():
    record = measured("mixed", 0.1, 0, 1.0, "out")
    assert record.samples == [Sample("source <0>", "reference 0", "out")]
    assert run("mixed", 0.1).samples == []


def test_a_report_has_metrics_and_samples(tmp_path):
    records = [measured("mixed", lam, 0, 1.0, "output <b>") for lam in (0.1, 1.0)]
    page = lab.report(records, tmp_path, title="t").read_text("utf-8")
    assert '<th scope="col">bleu aux</th>' in page
    assert "source &lt;0&gt;" in page
    assert "output &lt;b&gt;" in page
    assert "<summary>Other metrics</summary>" in page
    assert '<h2 id="samples-heading">Samples</h2>' in page
    assert "&quot;source" not in page, "samples are not listed among versions"


def test_failed_runs_are_listed_by_reason():
    failed = [
        replace(run("bloop", 0.1, 0.01, seed, status="failed"), info={"reason": reason})
        for seed, reason in enumerate(("ValueError: no", "ValueError: no", "killed by signal 9"))
    ]
    name = "bloop, λ = 0.1, ρ = 0.01"
    expected = {(name, "ValueError: no"): [0, 1], (name, "killed by signal 9"): [2]}
    assert failed_seeds([run(), *failed]) == expected
