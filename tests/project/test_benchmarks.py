"""Every benchmark runs, once and on small inputs. Nothing is timed here."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness import Measure, resnet50


@pytest.mark.slow
def test_a_quick_round_measures_everything_and_leaves_a_record_and_a_chart(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "--quick", "--folder", str(tmp_path)]
    result = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "record.json").read_text())
    files = {path.stem for path in (Path(__file__).parents[2] / "benchmarks").glob("[a-z]*.py")}
    assert set(record["measures"]) == files - {"harness", "chart"}
    lines = [line for benchmark in record["measures"].values() for line in benchmark]
    # some ratios have a difference of two times above or below the line, so their sign is up to the machine
    assert all(math.isfinite(ratio) for line in lines for ratio in line["ratios"])
    assert record["about"]["versions"]["torch"]
    assert (tmp_path / "chart.png").stat().st_size > 10_000
    assert "goal" in result.stdout


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
