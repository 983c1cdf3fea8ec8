"""noise, conditioning and lipschitz: numbers of the paper's analysis, and what a run records."""

from itertools import islice
from pathlib import Path

import jax
import numpy as np
import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.find import find_problem as problem
from gradsurgery.lab.find import installed_problems
from gradsurgery.lab.grid import specs
from gradsurgery.lab.method import make_method
from gradsurgery.lab.run import Run, RunRecord
from gradsurgery.paper.models import mlp
from tests.paper.runs import DATA, build, make_run, train


def descend(method, lam, **settings):
    """The rows of a run of ``conditioning``."""
    spec = make_run("conditioning", method=method, lam=lam, rho=None, **settings)
    descent = problem("conditioning")
    run = Run(spec, make_method(method, lam, None), descent.typed_settings(spec.settings), Path())
    return list(descent.train(run))


def test_conditioning_ends_where_the_paper_says():
    for lam in (0.1, 1.0):
        mixed, bloop = descend("mixed", lam)[-1], descend("bloop", lam)[-1]
        assert (mixed["a"], mixed["b"]) == pytest.approx((lam / (1 + lam), 0), abs=1e-5)
        assert (bloop["a"], bloop["b"]) == pytest.approx((0, 0), abs=1e-5)


def test_conditioning_counts_the_iterations_of_the_analysis():
    """In each step b shrinks by 1 - rate lam and a by 1 - rate: the slower of the two decides."""
    iterations = descend("bloop", 0.1)[-1]["iterations"]
    assert iterations == pytest.approx(np.log(0.01) / np.log(1 - 0.1 * 0.1), abs=2)
    assert np.isnan(descend("mixed", 0.1)[-1]["iterations"])


@pytest.mark.parametrize(("steps", "rows"), [(7, 1), (10, 10), (700, 100), (1000, 500)])
def test_conditioning_divides_any_number_of_steps_into_rows(steps, rows):
    recorded = [row["step"] for row in descend("mixed", 1.0, steps=steps)]
    assert recorded == list(range(0, steps + 1, steps // rows))


@pytest.mark.parametrize("methods", [["mixed", "bloop"], ["mgda"]])
def test_conditioning_draws_methods_with_and_without_lam(methods):
    runs = specs(problem("conditioning"), "demo", methods=methods)
    row = {"a": 0.5, "b": 0.5, "iterations": 7.0}
    (figure,) = problem("conditioning").draw([RunRecord(run, "done", {}, (row,)) for run in runs]).values()
    _, needed = figure.axes
    labels = [line.get_label() for line in needed.get_lines()]
    assert labels == (["mixed, measured", "bloop, measured", "Hessian diag(1, λ)"] if "bloop" in methods else [])


@pytest.mark.slow
@pytest.mark.parametrize("lam", [1.0, 0.5])
def test_noise_turns_the_projection_into_mixed_training(lam):
    spec = make_run("noise", lam=lam, rho=None, samples="2000")
    noise = problem("noise")
    rows = list(noise.train(Run(spec, make_method("bloop", lam, None), noise.typed_settings(spec.settings), Path())))
    assert len({row["step"] for row in rows}) == len(rows) == 17
    bloop, mixed = ([row[key] for row in rows] for key in ("to_bloop", "to_mixed"))
    assert bloop[0] < 0.05 * bloop[-1]
    assert mixed[-1] < 0.2 * mixed[0]


@pytest.mark.slow
def test_a_run_records_losses_on_both_splits_and_diagnostics_at_least_20_times():
    run = make_run("lipschitz", lam=0.1)
    _, rows = train(build(run), run)
    assert len(rows) >= 20
    assert [row["step"] for row in rows] == sorted({row["step"] for row in rows})
    for key in ("main_train", "aux_train", "main_test", "aux_test", "surgery/cos_main_aux", "surgery/removed"):
        assert all(np.isfinite(row[key]) for row in rows)
    assert rows[-1]["main_train"] < 0.1 < rows[0]["main_train"]
    assert rows[-1]["accuracy_test"] > 0.9


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_the_larger_scales_record_often_enough(scale):
    settings = problem("lipschitz").scale(scale).settings
    assert settings.epochs * settings.rows_per_epoch >= 20


def test_batches_resume_within_an_epoch():
    def first(start):
        return list(islice(mlp.shuffled_epochs(examples=35, batch=10, steps=3, seed=0, start=start), 5))

    whole = list(islice(mlp.shuffled_epochs(examples=35, batch=10, steps=3, seed=0, start=0), 9))
    for start in range(4):
        np.testing.assert_array_equal(first(start), whole[start : start + 5])
    epochs = np.sort(np.reshape(whole, (3, 30)))
    assert all(len(set(epoch)) == 30 for epoch in epochs.tolist()), "no example is seen twice in an epoch"


@pytest.mark.parametrize("name", installed_problems())
def test_every_problem_has_a_demo_and_a_title(name):
    assert "demo" in problem(name).scales
    assert problem(name).title


@pytest.mark.skipif(not (DATA / "mnist").is_dir(), reason="no data folder")
@pytest.mark.slow
def test_mnist_comes_from_the_folder():
    data, classes = mlp.load_data("ylecun/mnist", DATA, train_images=2000, test_images=1000)
    assert data["train_images"].shape == (2000, 784)
    assert data["test_images"].shape == (1000, 784)
    assert float(data["train_images"].max()) == 1.0
    assert classes == 10
    assert set(np.unique(data["test_labels"])) == set(range(10))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lipschitz", "weights"])
def test_an_mlp_takes_any_dataset_of_images(name):
    """Four classes of colour photographs, flattened."""
    scale = {"lipschitz": "demo", "weights": "laptop"}[name]
    changes = {} if name == "lipschitz" else {"train_images": "300", "test_images": "100", "evaluated": "100"}
    run = make_run(name, scale, main_data="photographs", epochs="2", batch="100", **changes)
    state, rows = train(build(run), run)
    assert [layer["weight"].shape for layer in state.params] == [(16 * 16 * 3, 256), (256, 128), (128, 4)]
    assert rows[-1]["main_train"] < rows[0]["main_train"]
    assert rows[-1]["aux_train"] == rows[-1]["aux_test"]


@pytest.mark.slow
def test_the_mlp_of_weights_records_the_length_of_all_parameters():
    run = make_run("weights", "laptop", main_data="digits", train_images="512", test_images="100", evaluated="100")
    state, (row,) = train(build(run), run, chunks=0)
    expected = sum(float(np.sum(np.square(leaf, dtype=np.float64))) for leaf in jax.tree.leaves(state.params)) / 2
    assert row["aux_train"] == row["aux_test"] == pytest.approx(expected, rel=1e-5)


def test_a_dataset_that_is_too_small_for_a_batch_is_one_sentence():
    run = make_run("lipschitz", main_data="photographs", batch="10000")
    with pytest.raises(UserError, match="too few for rows_per_epoch=1 and batch=10000"):
        build(run)
