"""Every benchmark runs, once and on small inputs. Nothing is timed here."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.accelerator import summarize_record, summarize_tests
from benchmarks.harness import Measure, resnet50


@pytest.mark.slow(seconds=50)
def test_a_quick_round_measures_everything_and_leaves_a_record_and_a_chart(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "--quick", "--folder", str(tmp_path)]
    environment = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}  # compiles faster, and no time counts here
    root = Path(__file__).parents[2]
    result = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "record.json").read_text())
    files = {path.stem for path in (root / "benchmarks").glob("[a-z]*.py")}
    assert set(record["measures"]) == files - {"harness", "chart", "accelerator", "bfloat16_fronts"}
    lines = [line for benchmark in record["measures"].values() for line in benchmark]
    # some ratios have a difference of two times above or below the line, so their sign is up to the machine
    assert all(math.isfinite(ratio) for line in lines for ratio in line["ratios"])
    assert record["about"]["versions"]["torch"]
    assert (tmp_path / "chart.png").stat().st_size > 10_000
    assert "goal" in result.stdout


def test_a_summary_names_the_tests_that_failed_and_has_every_median(tmp_path):
    results = tmp_path / "tests.xml"
    results.write_text(
        '<testsuites><testsuite><testcase classname="tests.a" name="test_good"/>'
        '<testcase classname="tests.a" name="test_bad"><failure>1 != 2</failure></testcase>'
        '<testcase classname="tests.b" name="test_rest"><skipped/></testcase></testsuite></testsuites>'
    )
    assert summarize_tests(results) == "Tests: 1 passed, 1 failed, 1 skipped.\n- `tests.a::test_bad`"
    record = json.loads((Path(__file__).parents[2] / "docs" / "speed" / "record.json").read_text())
    summary = summarize_record(record)
    assert all(line["name"] in summary for measures in record["measures"].values() for line in measures)


def test_the_tensors_are_those_of_a_resnet50():
    shapes = resnet50()
    assert (len(shapes), sum(map(_size, shapes))) == (161, 25_557_032)


def _size(shape):
    return shape[0] * _size(shape[1:]) if shape else 1


def test_a_goal_is_a_bound_on_the_median():
    assert Measure("", [1.0, 1.2, 9.0], "", at_most=1.2).reaches_goal
    assert not Measure("", [1.0, 1.3, 1.3], "", at_most=1.2).reaches_goal
    assert not Measure("", [9.0, 7.0, 7.5], "", at_least=8).reaches_goal
    assert Measure("", [0.1], "").reaches_goal
