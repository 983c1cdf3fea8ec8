"""language, ema and translation: what they record, that they learn, and that a run broken off goes on."""

import os
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.grid import specs
from gradsurgery.lab.problems import ema, problem
from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.store import Store
from gradsurgery.lab.sweeps import sweep
from tests.lab.sweeps.recorder import Recorder

DATA = Path(os.environ.get("GRADSURGERY_DATA", Path(__file__).parents[4] / "shared" / "data"))
LOSSES = ("main_train", "aux_train", "main_test", "aux_test")


@pytest.fixture(autouse=True)
def one_device(monkeypatch):
    """Several are tested elsewhere, and take long to compile for."""
    first = jax.devices()[:1]
    monkeypatch.setattr(jax, "devices", lambda: first)


class Breaker(Recorder):
    """Interrupts a sweep when this fraction of a run is trained."""

    def __init__(self, at=2.0):
        super().__init__()
        self.at = at

    def run_advanced(self, run, fraction, metrics):
        if fraction >= self.at:
            raise KeyboardInterrupt


def one_run(name, scale="demo", **settings):
    (run,) = specs(problem(name), scale, methods=["bloop"], lams=[0.3], rhos=[0.1], settings=settings)
    return run


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("language", {"steps": "40", "rows": "4", "evaluated": "2"}),
        ("translation", {"steps": "240", "rows": "4", "translated": "40", "evaluated": "2"}),
    ],
)
def test_a_run_learns_and_broken_off_goes_on_to_the_same_end(name, settings, tmp_path):
    run = one_run(name, **settings)
    task = problem(name).build(run.settings, None)
    built = replace(problem(name), build=lambda *_: task)  # compiled once

    def trained(folder, listener):
        with Store(folder / "store.sqlite") as store:
            return sweep(built, [run], store, folder=folder, listener=listener, workers=0, checkpoint_every=0.0)[0]

    straight = trained(tmp_path / "straight", Breaker())
    assert [row["step"] for row in straight.metrics] == [int(settings["steps"]) * part // 4 for part in range(5)]
    for key in LOSSES:
        assert straight.final[key] < 0.75 * straight.metrics[0][key]
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "broken", Breaker(at=0.5))
    assert list((tmp_path / "broken" / "checkpoints").rglob("*"))
    resumed = trained(tmp_path / "broken", Breaker())
    assert resumed.metrics == straight.metrics
    assert resumed.samples == straight.samples
    if name == "translation":
        assert straight.final["bleu_aux"] > 40
        assert 0 < straight.final["bleu_main"] < 100
        assert "bleu_aux" not in straight.metrics[-2]
        assert len(straight.samples) == 6
        assert all(sample.source and sample.reference and sample.output for sample in straight.samples)


def test_the_two_corpora_are_in_orders_of_their_own():
    run = one_run("language", aux_data="python-sources", aux_documents="1000")
    batches = problem("language").build(run.settings, None)._batches(0, 0)
    assert not np.array_equal(batches["main"], batches["aux"])


@pytest.mark.parametrize("name", ["language", "translation"])
def test_steps_that_do_not_divide_get_one_sentence(name):
    run = one_run(name, steps="7", rows="4")
    with pytest.raises(UserError, match="steps are a multiple of rows, but got 7 steps and 4 rows"):
        problem(name).build(run.settings, None)


def recorded(method, rho, seed, losses):
    (spec,) = specs(problem("ema"), "demo", methods=[method], rhos=[rho], seeds=[seed])
    rows = ({"step": n, "main_train": loss, "aux_train": 2 * loss} for n, loss in enumerate(losses))
    return RunRecord(spec, "done", {}, tuple(rows))


def test_ema_draws_a_curve_for_each_speed_and_one_for_mixed():
    records = [recorded("mixed", 0.1, 0, (4.0, 3.0)), *(recorded("bloop", rho, 0, (3.0, rho)) for rho in (0.01, 0.9))]
    (figure,) = ema.draw(records).values()
    for panel, factor in zip(figure.axes, (1, 2), strict=True):
        lines = {line.get_label(): list(line.get_ydata() / factor) for line in panel.get_lines()}
        assert lines == {"mixed": [4, 3], "bloop, ρ = 0.01": [3, 0.01], "bloop, ρ = 0.9": [3, 0.9]}


def test_ema_draws_the_mean_over_seeds_of_runs_that_have_come_as_far():
    records = [recorded("mixed", 0.1, seed, [2.0 + seed] * rows) for seed, rows in ((0, 5), (1, 5), (2, 3))]
    (figure,) = ema.draw(records).values()
    assert list(figure.axes[0].get_lines()[0].get_ydata()) == [2.5] * 5


def test_ema_does_not_mix_runs_of_different_lengths():
    long, short = (recorded("mixed", 0.1, seed, [2.0] * rows) for seed, rows in ((0, 5), (1, 5)))
    short = replace(short, metrics=tuple({**row, "step": row["step"] / 10, "main_train": 9.0} for row in short.metrics))
    (figure,) = ema.draw([short, long]).values()
    line = figure.axes[0].get_lines()[0]
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([0, 1, 2, 3, 4], [2.0] * 5)


def test_the_paper_is_taken_at_its_word():
    settings = problem("language").scale("paper").settings
    assert [settings[name] for name in ("layers", "heads", "width", "hidden")] == [12, 8, 256, 1024]
    assert [settings[name] for name in ("batch", "learning_rate", "steps")] == [128, 0.002, 300_000]
    settings = problem("translation").scale("paper").settings
    assert [settings[name] for name in ("layers", "heads", "width", "hidden")] == [6, 16, 1024, 4096]
    assert [settings[name] for name in ("batch", "learning_rate", "steps")] == [256, 0.0002, 500_000]
    for name in ("language", "translation"):
        lams = problem(name).scale("paper").lams
        assert len(lams) == 17
        assert (lams[0], lams[1], lams[-1]) == (0.0, pytest.approx(1e-4), pytest.approx(10))
    assert problem("ema").scale("paper").rhos == (0.001, 0.01, 0.1, 0.9)
    assert problem("ema").scale("paper").lams == (0.2,)


@pytest.mark.skipif(not (DATA / "wikipedia").is_dir(), reason="no data folder")
@pytest.mark.parametrize("name", ["language", "translation"])
def test_real_data_at_the_scale_of_a_laptop(name, cache):
    run = one_run(name, "laptop", evaluated="1")
    task = problem(name).build(run.settings, DATA)
    _, (row,) = task.start(run)
    assert all(1 < row[key] < 12 for key in LOSSES)


def test_the_model_of_the_paper_reads_documents_with_the_columns_of_its_data(tmp_path, cache):
    import datasets

    for name, splits in (("c4", ("train", "validation")), ("rcv1", ("train", "test"))):
        (tmp_path / name).mkdir()
        for split in splits:
            rows = {"text": ["some news of the day " * 50] * 20, "url": [""] * 20}
            datasets.Dataset.from_dict(rows).to_parquet(tmp_path / name / f"{split}.parquet")
    run = one_run("language", "paper", batch="2", evaluated="1")
    task = problem("language").build(run.settings, tmp_path)
    _, (row,) = task.start(run)
    assert all(np.isfinite(row[key]) for key in LOSSES)
