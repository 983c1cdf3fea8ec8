"""The problems themselves: numbers of the paper's analysis, and what a run records."""

import os
from pathlib import Path

import numpy as np
import pytest

from gradsurgery.lab.grid import specs
from gradsurgery.lab.problems import PROBLEMS, lipschitz, problem

DATA = Path(os.environ.get("GRADSURGERY_DATA", Path(__file__).parents[4] / "shared" / "data"))


def trained(name, method, lam, rho=None, seed=0, **settings):
    one = problem(name)
    (run,) = specs(
        one, "demo", methods=[method], lams=[lam], rhos=[] if rho is None else [rho], seeds=[seed], settings=settings
    )
    task = one.build(run.settings, None)
    state, rows = task.start(run)
    for chunk in range(task.chunks):
        state, more = task.advance(run, state, chunk)
        rows = [*rows, *more]
    return rows


def test_conditioning_ends_where_the_paper_says():
    for lam in (0.1, 1.0):
        mixed, bloop = (trained("conditioning", method, lam)[-1] for method in ("mixed", "bloop"))
        assert (mixed["a"], mixed["b"]) == pytest.approx((lam / (1 + lam), 0), abs=1e-5)
        assert (bloop["a"], bloop["b"]) == pytest.approx((0, 0), abs=1e-5)


def test_conditioning_counts_the_iterations_of_the_analysis():
    """b shrinks by 1 - rate lam a step, a by 1 - rate: the slower of the two decides."""
    found = trained("conditioning", "bloop", 0.1)[-1]["iterations"]
    assert found == pytest.approx(np.log(0.01) / np.log(1 - 0.1 * 0.1), abs=2)
    assert np.isnan(trained("conditioning", "mixed", 0.1)[-1]["iterations"])


def test_noise_turns_the_projection_into_mixed_training():
    rows = trained("noise", "bloop", 1.0, samples="2000")
    bloop, mixed = ([row[key] for row in rows] for key in ("to_bloop", "to_mixed"))
    assert bloop[0] < 0.05 * bloop[-1]
    assert mixed[-1] < 0.2 * mixed[0]


def test_a_run_records_losses_on_both_splits_and_diagnostics_at_least_20_times():
    rows = trained("lipschitz", "bloop", 0.1, rho=0.1)
    assert len(rows) >= 20
    assert [row["step"] for row in rows] == sorted({row["step"] for row in rows})
    for key in ("main_train", "aux_train", "main_test", "aux_test", "surgery/cos_main_aux", "surgery/removed"):
        assert all(np.isfinite(row[key]) for row in rows)
    assert rows[-1]["main_train"] < 0.1 < rows[0]["main_train"]
    assert rows[-1]["accuracy_test"] > 0.95


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_the_larger_scales_record_often_enough(scale):
    settings = problem("lipschitz").scale(scale).settings
    assert settings["epochs"] * settings["rows_per_epoch"] >= 20


def test_one_compilation_serves_all_weights_averages_and_seeds():
    one = problem("lipschitz")
    runs = specs(one, "demo", methods=["bloop"], lams=[0.0, 0.3], rhos=[0.1, 0.5], seeds=[0, 1])
    task = one.build(runs[0].settings, None)
    for run in runs:
        state, _ = task.start(run)
        for chunk in range(2):
            state, _ = task.advance(run, state, chunk)
    assert task._begin._cache_size() == task._advance._cache_size() == 1


def test_weights_of_zero_train_as_main_alone():
    methods = [
        trained("lipschitz", method, 0.0, epochs="2")[-1]["main_train"] for method in ("mixed", "dynamic_barrier")
    ]
    assert methods[0] == pytest.approx(methods[1], rel=1e-5)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_has_a_demo_and_a_title(name):
    assert "demo" in PROBLEMS[name].scales
    assert PROBLEMS[name].title


@pytest.mark.skipif(not (DATA / "mnist").is_dir(), reason="no data folder")
def test_mnist_comes_from_the_folder():
    data = lipschitz.mnist(DATA)
    assert data["train_images"].shape == (60_000, 784)
    assert data["test_images"].shape == (10_000, 784)
    assert float(data["train_images"].max()) == 1.0
    assert set(np.unique(data["test_labels"])) == set(range(10))
