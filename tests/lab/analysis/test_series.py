"""The final losses of a run."""

import math
from dataclasses import replace

import pytest

from gradsurgery.lab.analysis import final_point
from gradsurgery.lab.analysis.outcomes import has_diverged, has_losses
from tests.lab.analysis.synthetic_runs import run

TRAIN = {"main_train": 1.0, "aux_train": 2.0}
TEST = {"main_test": 3.0, "aux_test": 4.0}


def with_rows(*rows):
    return replace(run(), metrics=tuple({"step": float(step), **row} for step, row in enumerate(rows)))


def test_the_last_row_that_has_the_losses_counts():
    """A problem that evaluates every other epoch may end in between."""
    record = with_rows({**TRAIN, **TEST}, TRAIN | {"main_train": 0.5}, {"accuracy": 0.9})
    assert final_point(record, "train") == (0.5, 2.0)
    assert final_point(record, "test") == (3.0, 4.0)
    assert has_losses(record)
    assert not has_diverged(record)


def test_one_loss_is_no_point():
    record = with_rows({"main_train": 1.0}, {"aux_train": 2.0})
    assert final_point(record, "train") is None
    assert not has_losses(record)


@pytest.mark.parametrize("status", ["running", "failed"])
def test_a_run_that_did_not_finish_has_no_point(status):
    assert final_point(replace(with_rows(TRAIN), status=status), "train") is None


def test_a_run_that_diverged_has_no_point():
    record = with_rows(TRAIN, TRAIN | {"aux_train": math.nan})
    assert final_point(record, "train") is None
    assert has_diverged(record)
