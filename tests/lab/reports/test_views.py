"""The charts of the user's metrics: true values on axes along which left and below is better."""

import json
import re
from dataclasses import replace

import pytest

from gradsurgery import lab
from gradsurgery.lab.objective import judge_by, read_objectives
from tests.lab.analysis.synthetic_runs import ending

ENDS = [("mixed", 0.0, 0.90, 10.0), ("bloop", 0.1, 0.89, 5.0), ("bloop", 1.0, 0.70, 4.0), ("bloop", 10.0, 0.60, 4.5)]


@pytest.fixture
def data(tmp_path, no_figures):
    records = [
        replace(
            ending(method, lam, 1.0, aux),
            metrics=({"step": 1.0, "main_train": 1.0, "aux_train": aux, "accuracy": end},),
        )
        for method, lam, end, aux in ENDS
    ]
    judged = judge_by(read_objectives({"main": "accuracy"}, None), records)
    page = lab.report(judged, tmp_path, title="accuracy").read_text("utf-8")
    assert '<button type="button" data-split="metrics">accuracy</button>' in page
    return json.loads(re.search(r'id="data">(.*?)</script>', page)[1])


def test_the_front_has_the_true_values_and_is_of_the_better_ones(data):
    traces = {trace["meta"]["layer"]: trace for trace in data["fronts"]["metrics"]["traces"]}
    assert (traces["front"]["x"], traces["front"]["y"]) == ([0.89, 0.7], [5.0, 4.0])
    assert traces["dominated"]["x"] == [0.6]
    assert traces["front"]["hovertext"][0].endswith("accuracy 0.89<br>aux 5")


def test_an_axis_of_which_more_is_better_runs_backwards(data):
    axes = data["fronts"]["metrics"]["axes"]
    left, right = axes["main"]["linear_range"]
    assert left > 0.9 > 0.7 > right
    assert axes["main"]["title"] == "accuracy"
    assert axes["aux"]["title"] == "aux loss, train"
    assert not axes["main"]["can_be_logarithmic"]


def test_the_page_opens_with_the_metrics_and_their_allowance(data):
    allowances = data["allowances"]
    assert allowances["split"] == "metrics"
    position = allowances["positions"][allowances["first"]]
    assert position["limit"] == pytest.approx(0.9 * 0.98)
    assert position["chosen"][0]["points"]["metrics"] == [0.89, 5.0]


def test_curves_have_the_metrics(data):
    bloop = next(curves for curves in data["curves"] if curves["series"] == "bloop")
    assert bloop["runs"][0]["main_metrics"] == [0.89]
    assert bloop["runs"][0]["aux_metrics"] == [5.0]
