"""language, ema and translation: what they record, that they learn, and that a killed run goes on."""

import os
from pathlib import Path

import jax
import numpy as np
import pytest

from gradsurgery.lab.grid import specs
from gradsurgery.lab.problems import ema, problem
from gradsurgery.lab.record import RunRecord
from gradsurgery.lab.store import Store
from gradsurgery.lab.sweep import sweep

DATA = Path(os.environ.get("GRADSURGERY_DATA", Path(__file__).parents[3] / "shared" / "data"))
LOSSES = ("main_train", "aux_train", "main_test", "aux_test")
SHORT = {"steps": "40", "rows": "4", "evaluated": "2"}


class Quiet:
    """Watches a sweep; with a share, breaks it off there."""

    def __init__(self, until=2.0):
        self.until = until

    def begin(self, runs):
        pass

    def training(self, run, share, metrics):
        if share > self.until:
            raise KeyboardInterrupt

    def done(self, run, metrics, trained):
        pass


def swept(folder, name, watcher=None, scale="demo", data_dir=None, methods=("bloop",), rhos=(0.1,), **settings):
    runs = specs(problem(name), scale, methods=methods, lams=[0.3], rhos=rhos, settings={**SHORT, **settings})
    with Store(folder / "store.sqlite") as store:
        watcher = watcher or Quiet()
        options = {"folder": folder, "watcher": watcher, "data_dir": data_dir, "checkpoint_every": 0.0}
        return sweep(problem(name), runs, store, **options)


@pytest.mark.parametrize("name", ["language", "translation"])
def test_a_run_learns_and_broken_off_goes_on_to_the_same_end(name, tmp_path):
    (straight,) = swept(tmp_path / "straight", name)
    assert [row["step"] for row in straight.metrics] == [0, 10, 20, 30, 40]
    for key in LOSSES:
        assert straight.final[key] < 0.75 * straight.metrics[0][key]
    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path / "broken", name, Quiet(until=0.6))
    (resumed,) = swept(tmp_path / "broken", name)
    assert resumed.metrics == straight.metrics
    assert resumed.samples == straight.samples


def test_a_translation_run_ends_with_bleu_and_samples(tmp_path):
    (record,) = swept(tmp_path, "translation", translated="5")
    assert 0 <= record.final["bleu_main"] <= 100
    assert 0 <= record.final["bleu_aux"] <= 100
    assert "bleu_aux" not in record.metrics[0]
    assert len(record.samples) == 6
    assert all(sample.source and sample.reference for sample in record.samples)


def test_a_good_translator_gets_a_high_bleu(tmp_path):
    (record,) = swept(tmp_path, "translation", steps="240", rows="1", translated="40")
    assert record.final["bleu_aux"] > 40


@pytest.mark.parametrize("name", ["language", "translation"])
def test_steps_that_do_not_divide_get_one_sentence(name, tmp_path):
    from gradsurgery.lab.errors import UserError

    with pytest.raises(UserError, match="steps are a multiple of rows, but got 7 steps and 4 rows"):
        swept(tmp_path, name, steps="7")


def test_ema_draws_a_curve_for_each_speed_and_one_for_mixed(tmp_path):
    records = swept(tmp_path, "ema", methods=("mixed", "bloop"), rhos=(0.01, 0.9))
    (figure,) = ema.draw(records).values()
    for panel, key in zip(figure.axes, ("main_train", "aux_train"), strict=True):
        lines = {line.get_label(): line.get_ydata() for line in panel.get_lines()}
        assert list(lines) == ["mixed", "bloop, ρ = 0.01", "bloop, ρ = 0.9"] or len(lines) == 3
        found = {tuple(np.asarray(line)) for line in lines.values()}
        assert found == {tuple(row[key] for row in record.metrics) for record in records}


def test_ema_draws_runs_under_way_of_several_seeds():
    def run(seed, rows):
        (spec,) = specs(problem("ema"), "demo", methods=["mixed"], seeds=[seed])
        metrics = tuple({"step": n, "main_train": 2.0 + seed, "aux_train": 1.0} for n in range(rows))
        return RunRecord(spec, "done", {}, metrics)

    (figure,) = ema.draw([run(0, 5), run(1, 5), run(2, 2)]).values()
    assert list(figure.axes[0].get_lines()[0].get_ydata()) == [2.5] * 5


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
@pytest.mark.parametrize(
    ("name", "corpora"),
    [("language", ("wikipedia", "reuters")), ("translation", ("europarl-en-de", "wmt-news-en-de"))],
)
def test_real_data_at_the_sizes_of_a_laptop(name, corpora, tmp_path):
    assert tuple(problem(name).scale("laptop").settings[f"{which}_data"] for which in ("main", "aux")) == corpora
    (record,) = swept(tmp_path, name, scale="laptop", data_dir=DATA, steps="2", rows="1", evaluated="1", batch="8")
    assert all(np.isfinite(record.final[key]) for key in LOSSES)


def test_the_model_of_the_paper_takes_a_step(tmp_path, monkeypatch):
    """All layers, widths and heads; on a few short windows of documents in the columns of c4 and RCV-1."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for name, splits in (("c4", ("train", "validation")), ("rcv1", ("train", "test"))):
        (tmp_path / name).mkdir()
        for split in splits:
            datasets.Dataset.from_dict({"text": ["some news of the day " * 20] * 20}).to_parquet(
                tmp_path / name / f"{split}.parquet"
            )
    few = {"batch": "8", "length": "32", "steps": "2", "rows": "1", "evaluated": "1"}
    (record,) = swept(tmp_path, "language", scale="paper", data_dir=tmp_path, **few)
    assert record.final["main_train"] < record.metrics[0]["main_train"]
    assert jax.device_count() == 8
