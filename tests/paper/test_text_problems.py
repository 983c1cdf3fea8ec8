"""language, ema and translation: what they record, that they learn, and that an interrupted run resumes."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from gradsurgery.lab.find import find_problem as problem
from gradsurgery.lab.grid import specs
from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.sweep.resources import Resources
from gradsurgery.lab.sweep.train import train_grid
from gradsurgery.paper.ema import figure as ema
from gradsurgery.paper.language import train as language
from gradsurgery.paper.translation import train as translation
from tests.paper.runs import DATA, Interrupter, build, make_run, trace_step

LOSSES = ("main_train", "aux_train", "main_test", "aux_test")


@pytest.mark.slow(seconds=30)
@pytest.mark.parametrize(
    ("module", "settings"),
    [
        (language, {"steps": "40", "rows": "4", "evaluated": "2"}),
        (translation, {"steps": "160", "rows": "4", "translated": "40", "evaluated": "2", "buckets": "1"}),
    ],
)
def test_a_run_learns_and_resumes_to_the_same_end(module, settings, tmp_path, monkeypatch):
    name = module.__name__.split(".")[-2]
    run = make_run(name, **settings)

    def train_in(folder, listener):
        options = {"listener": listener, "resources": Resources(workers=0), "checkpoint_every": 0.0}
        return train_grid(problem(name), [run], folder=folder, **options)[0]

    straight = train_in(tmp_path / "straight", Interrupter())
    assert [row["step"] for row in straight.metrics] == [int(settings["steps"]) * part // 4 for part in range(5)]
    for key in LOSSES:
        assert straight.final[key] < 0.75 * straight.metrics[0][key]
    with pytest.raises(KeyboardInterrupt):
        train_in(tmp_path / "interrupted", Interrupter(at=0.5))
    assert list((tmp_path / "interrupted" / "checkpoints").rglob("*"))
    resumed = train_in(tmp_path / "interrupted", Interrupter())
    assert resumed.metrics == straight.metrics
    assert resumed.samples == straight.samples
    if name == "translation":
        assert straight.final["bleu_aux"] > 40  # about 90 on several CPUs
        assert straight.final["bleu_main"] > 40
        assert "bleu_aux" not in straight.metrics[-2]
        assert len(straight.samples) == 6
        assert all(sample.source and sample.reference and sample.output for sample in straight.samples)


def test_the_two_corpora_are_shuffled_independently():
    run = make_run("language", aux_data="python-sources", aux_documents="1000")
    batch = next(build(run).batches(0, 0))
    assert not np.array_equal(batch["main"], batch["aux"])


@pytest.mark.parametrize("name", ["language", "translation"])
def test_batches_depend_on_the_step_alone(name):
    """So that a resumed run sees what it would have seen."""
    batches = build(make_run(name)).batches
    from_start = batches(3, 0)
    for _ in range(40):
        expected = next(from_start)
    jax.tree.map(np.testing.assert_array_equal, next(batches(3, 39)), expected)


def recorded(method, rho, seed, losses):
    rhos = None if rho is None else [rho]
    (spec,) = specs(problem("ema"), "demo", methods=[method], rhos=rhos, seeds=[seed])
    rows = ({"step": n, "main_train": loss, "aux_train": 2 * loss} for n, loss in enumerate(losses))
    return RunRecord(spec, "done", {}, tuple(rows))


def test_ema_draws_a_curve_for_each_rho_and_one_for_mixed():
    records = [recorded("mixed", None, 0, (4.0, 3.0)), *(recorded("bloop", rho, 0, (3.0, rho)) for rho in (0.01, 0.9))]
    (figure,) = ema.draw(records).values()
    for panel, factor in zip(figure.axes, (1, 2), strict=True):
        lines = {line.get_label(): list(line.get_ydata() / factor) for line in panel.get_lines()}
        assert lines == {"mixed": [4, 3], "bloop, ρ = 0.01": [3, 0.01], "bloop, ρ = 0.9": [3, 0.9]}


def test_ema_draws_the_mean_over_seeds_that_reached_the_last_step():
    records = [recorded("mixed", None, seed, [2.0 + seed] * rows) for seed, rows in ((0, 5), (1, 5), (2, 3))]
    (figure,) = ema.draw(records).values()
    assert list(figure.axes[0].get_lines()[0].get_ydata()) == [2.5] * 5


def test_ema_does_not_mix_runs_of_different_lengths():
    long, short = (recorded("mixed", None, seed, [2.0] * rows) for seed, rows in ((0, 5), (1, 5)))
    short = replace(short, metrics=tuple({**row, "step": row["step"] / 10, "main_train": 9.0} for row in short.metrics))
    (figure,) = ema.draw([short, long]).values()
    line = figure.axes[0].get_lines()[0]
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([0, 1, 2, 3, 4], [2.0] * 5)


def test_paper_scales_have_the_sizes_of_the_paper():
    settings = problem("language").scale("paper").settings
    assert (settings.layers, settings.heads, settings.width, settings.hidden) == (12, 8, 256, 1024)
    assert (settings.batch, settings.learning_rate, settings.steps) == (128, 0.002, 300_000)
    settings = problem("translation").scale("paper").settings
    assert (settings.layers, settings.heads, settings.width, settings.hidden) == (6, 16, 1024, 4096)
    assert (settings.batch, settings.learning_rate, settings.steps) == (256, 0.0002, 500_000)
    for name in ("language", "translation"):
        lams = problem(name).scale("paper").lams
        assert len(lams) == 16
        assert (lams[0], lams[-1]) == (pytest.approx(1e-4), pytest.approx(10))
    assert problem("ema").scale("paper").rhos == (0.001, 0.01, 0.1, 0.9)
    assert problem("ema").scale("paper").lams == (0.2,)


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "wikipedia").is_dir(), reason="no data folder")
@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("language", {"main_documents": "200"}),
        ("translation", {"main_pairs": "2000", "vocabulary": "400", "batch": "8"}),
    ],
)
def test_laptop_scale_starts_on_real_data(name, changed, cache, unoptimised):
    run = make_run(name, "laptop", evaluated="1", layers="1", **changed)
    task = build(run, DATA)
    _, row = task.start(run)
    assert all(1 < row[key] < 12 for key in LOSSES)


@pytest.fixture
def documents(tmp_path, cache):
    """A folder with the columns and splits of the paper's corpora."""
    import datasets

    for name, splits in (("c4", ("train", "validation")), ("rcv1", ("train", "test"))):
        (tmp_path / name).mkdir()
        for split in splits:
            rows = {"text": ["some news of the day " * 50] * 20, "url": [""] * 20}
            datasets.Dataset.from_dict(rows).to_parquet(tmp_path / name / f"{split}.parquet")
    return tmp_path


@pytest.mark.slow
def test_the_model_of_the_paper_reads_documents_with_the_columns_of_its_data(documents):
    """Traced with a batch of these documents: compiling twelve layers takes a minute."""
    run = make_run("language", "paper", batch="2", evaluated="1")
    state = trace_step(build(run, documents), run)
    layers = 12 * (4 * 256**2 + 2 * 256 * 1024)
    assert layers < sum(leaf.size for leaf in jax.tree.leaves(state.params)) < 1.1 * layers


@pytest.mark.slow
def test_paper_scale_starts_on_documents_with_the_columns_of_its_data(documents, unoptimised):
    run = make_run("language", "paper", batch="2", evaluated="1", layers="1")
    _, row = build(run, documents).start(run)
    assert all(np.isfinite(row[key]) for key in LOSSES)
