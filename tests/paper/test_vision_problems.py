"""weights, cifar10mnist and imagenet-cifar10: what they record, that they learn, and that runs resume."""

import jax
import numpy as np
import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.find import find_problem as problem
from gradsurgery.lab.sweep.resources import Resources
from gradsurgery.lab.sweep.train import train_grid
from tests.paper.runs import DATA, Interrupter, build, make_run, trace_step, train

NAMES = ("weights", "cifar10mnist", "imagenet-cifar10")
SMALL = {"train_images": "256", "epochs": "4", "rows_per_epoch": "1", "evaluated": "64", "blocks": "1", "width": "4"}


def assert_rows(name, rows):
    assert [row["step"] for row in rows] == [0, 4, 8, 12, 16]
    losses = ["main", "aux", "accuracy_main"] + ([] if name == "weights" else ["accuracy_aux"])
    for row in rows:
        for split in ("train", "test"):
            assert all(np.isfinite(row[f"{loss}_{split}"]) for loss in losses)
            assert 0 <= row[f"accuracy_main_{split}"] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weights", "imagenet-cifar10"])
def test_a_run_records_losses_and_accuracies(name, unoptimised):
    run = make_run(name, **SMALL)
    assert_rows(name, train(build(run), run)[1])


@pytest.mark.slow
def test_a_run_resumes_with_its_batch_statistics_to_the_same_end(tmp_path, unoptimised):
    run = make_run("cifar10mnist", **SMALL)

    def train_in(folder, listener):
        options = {"listener": listener, "resources": Resources(workers=0), "checkpoint_every": 0.0}
        return train_grid(problem("cifar10mnist"), [run], folder=folder, **options)[0]

    straight = train_in(tmp_path / "straight", Interrupter())
    assert_rows("cifar10mnist", straight.metrics)
    with pytest.raises(KeyboardInterrupt):
        train_in(tmp_path / "interrupted", Interrupter(at=0.5))
    assert train_in(tmp_path / "interrupted", Interrupter()).metrics == straight.metrics


@pytest.mark.slow
def test_the_demo_of_cifar10mnist_learns_both_labels():
    """With wide margins, as training amplifies rounding: on several CPUs main ends at 0.46 and aux at 0.93."""
    run = make_run("cifar10mnist", lam=3.0, rows_per_epoch="1")
    _, rows = train(build(run), run)
    assert rows[-1]["main_train"] < 0.8 * rows[0]["main_train"]
    assert rows[-1]["accuracy_aux_train"] > 0.5


@pytest.mark.slow
def test_the_aux_of_weights_is_half_the_square_of_all_trained_parameters():
    run = make_run("weights", **SMALL)
    state, (row,) = train(build(run), run, chunks=0)
    expected = sum(float(np.sum(np.square(leaf, dtype=np.float64))) for leaf in jax.tree.leaves(state.params)) / 2
    assert row["aux_train"] == row["aux_test"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_each_dataset_updates_its_own_statistics(unoptimised):
    """Other images for aux change aux's statistics, and not main's."""
    extras = []
    for classes in ("all", "5-9"):
        run = make_run("imagenet-cifar10", lam=0.0, aux_classes=classes, **SMALL)
        state, _ = train(build(run), run, chunks=1)
        extras.append(jax.device_get(state.extra))
    close = jax.tree.map(lambda a, b: np.allclose(a, b, rtol=1e-3, atol=1e-4), *extras)
    assert all(jax.tree.leaves(close["main"]))
    assert not any(jax.tree.leaves(close["aux"]))


@pytest.mark.slow
def test_both_losses_of_cifar10mnist_update_its_statistics_once(unoptimised):
    """As main alone does, which at lam = 0 trains the same network."""
    run = make_run("cifar10mnist", lam=0.0, **SMALL)
    task = build(run)
    both, _ = train(task, run, chunks=1)
    task.losses = (task.losses[0], lambda params, extra, data, batch: (0 * jax.tree.leaves(params)[0].sum(), extra))
    task._step.clear_cache()
    alone, _ = train(task, run, chunks=1)
    for leaf, expected in zip(jax.tree.leaves(both.extra), jax.tree.leaves(alone.extra), strict=True):
        np.testing.assert_allclose(leaf, expected, rtol=1e-3, atol=1e-4)


def test_a_dataset_smaller_than_one_batch_is_refused():
    run = make_run("weights", train_images="100000", batch="2000", evaluated="64")
    with pytest.raises(UserError, match="1664 examples are too few for rows_per_epoch=1 and batch=2000"):
        build(run)


def test_paper_scales_have_the_sizes_of_the_paper():
    for name, batch, rate, count, ends in (
        ("weights", 2048, 0.8, 14, (1e-6, 1e-2)),
        ("cifar10mnist", 256, 0.1, 13, (1e-3, 1e3)),
        ("imagenet-cifar10", 2048, 0.8, 9, (1e-3, 10)),
    ):
        scale = problem(name).scale("paper")
        settings = scale.settings
        assert (settings.batch, settings.learning_rate, settings.width) == (batch, rate, 64)
        assert (settings.epochs, settings.warmup_epochs) == (100, 5)
        assert (len(scale.lams), scale.lams[0], scale.lams[-1]) == (count, *map(pytest.approx, ends))
    assert problem("cifar10mnist").scale("paper").rhos == (0.001,)
    assert problem("cifar10mnist").scale("paper").settings.blocks == "2,2,2,2"
    assert problem("weights").scale("paper").settings.blocks == "3,4,6,3"


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "cifar10").is_dir(), reason="no data folder")
@pytest.mark.parametrize("name", NAMES)
def test_laptop_scale_starts_on_real_data(name, unoptimised):
    changed = {"train_images": "200", "test_images": "100", "rows_per_epoch": "1", "evaluated": "20"}
    run = make_run(name, "laptop", **changed, batch="20", blocks="1", width="4")
    _, (row,) = train(build(run, DATA), run, chunks=0)
    assert 1 < row["main_train"] < 4
    assert 1 < row["main_test"] < 4


@pytest.mark.slow
def test_the_network_of_the_paper_fits_a_folder_like_imagenet(imagenet):
    """ResNet50 at 224 pixels, traced with a batch from worker processes: training it takes an accelerator."""
    run = make_run("weights", "paper", lam=1e-4, batch="4", evaluated="4")
    task = build(run, imagenet)
    assert (task.chunks, task.steps) == (100, 3)
    state = trace_step(task, run)
    assert sum(leaf.size for leaf in jax.tree.leaves(state.params)) == 25_557_032


@pytest.mark.slow
def test_paper_scale_takes_steps_on_a_folder_like_imagenet(imagenet, unoptimised):
    """With a small network, and batches from worker processes."""
    changed = {"batch": "4", "evaluated": "4", "width": "4", "blocks": "1"}
    run = make_run("imagenet-cifar10", "paper", lam=1e-4, **changed)
    task = build(run, imagenet)
    assert (task.chunks, task.steps) == (100, 3)
    task.steps = 2
    _, rows = train(task, run, chunks=1)
    assert rows[1]["main_train"] != rows[0]["main_train"]
    assert all(np.isfinite(value) for row in rows for value in row.values())
