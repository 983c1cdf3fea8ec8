"""The training loop, on linear regression."""

from dataclasses import replace
from itertools import count

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradsurgery.lab.grid import specs
from gradsurgery.lab.method import make_method
from gradsurgery.lab.run import Run, RunSpec, Sample
from gradsurgery.lab.sweep.resources import Resources
from gradsurgery.lab.sweep.train import train_grid
from tests.paper.runs import Interrupter
from tests.paper.training import regression
from tests.paper.training.regression import make_task, random_batch

RUN = RunSpec("regression", "demo", "bloop", lam=0.1, rho=0.1, seed=3)
SAMPLE = Sample("one", "eins", "zwei")


class Batches:
    """Random batches, and a record of the iterators that were requested."""

    def __init__(self, broken_at=None):
        self.requests, self.broken_at = [], broken_at

    def __call__(self, seed, start):
        self.requests.append((seed, start))
        return self._batches(seed, start)

    def _batches(self, seed, start):
        for step in count(start):
            if step == self.broken_at:
                raise OSError("no more")
            yield random_batch(seed, step)


def train(task, state=None, first=0):
    rows = []
    if state is None:
        state, row = task.start(RUN)
        rows.append(row)
    for chunk in range(first, task.chunks):
        state, row = task.advance(RUN, state, chunk)
        rows.append(row)
    return state, rows


@pytest.mark.parametrize("scan", [True, False])
def test_each_chunk_ends_with_a_row(scan):
    _, rows = train(make_task(Batches(), scan=scan))
    assert [row["step"] for row in rows] == [row["steps"] for row in rows] == [0, 3, 6, 9, 12]
    assert rows[-1]["main_train"] < rows[0]["main_train"]
    assert all(isinstance(value, float) for row in rows for name, value in row.items() if name != "step")
    assert "surgery/cos_main_aux" in rows[0]


def test_steps_inside_and_outside_xla_agree():
    scanned, stepped = (train(make_task(Batches(), scan=scan))[1] for scan in (True, False))
    for row, other in zip(scanned, stepped, strict=True):
        assert row == pytest.approx(other, rel=1e-4, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("scan", [True, False])
def test_a_run_resumes_from_any_chunk(scan):
    task, saved = make_task(Batches(), scan=scan), {}
    state, row = task.start(RUN)
    expected = [row]
    for chunk in range(task.chunks):
        saved[chunk] = jax.device_get(state)
        state, row = task.advance(RUN, state, chunk)
        expected.append(row)
    other = make_task(Batches(), scan=scan)
    for chunk in (3, 1):
        other.advance(RUN, saved[0], 0)  # leaves an iterator for chunk 1
        assert train(other, saved[chunk], first=chunk)[1] == expected[chunk + 1 :]


def test_the_iterator_is_kept_from_chunk_to_chunk():
    batches = Batches()
    train(make_task(batches, scan=False))
    assert batches.requests == [(3, 0)]


def test_an_interrupted_chunk_starts_with_new_batches():
    batches = Batches(broken_at=7)
    task = make_task(batches, scan=False)
    state, _ = task.start(RUN)
    for chunk in range(2):
        state, _ = task.advance(RUN, state, chunk)
    saved = jax.device_get(state)
    with pytest.raises(OSError, match="no more"):
        task.advance(RUN, state, 2)
    batches.broken_at = None
    _, rows = train(task, saved, first=2)
    assert batches.requests == [(3, 0), (3, 6)]
    assert rows == train(make_task(Batches(), scan=False))[1][3:]


def test_final_metrics_are_added_to_the_last_row(tmp_path):
    def final_metrics(params, extra):
        return {"norm": float(jnp.linalg.norm(params))}, (SAMPLE,)

    run = Run(RUN, make_method("bloop", 0.1, 0.1), None, tmp_path)
    *rows, last = make_task(Batches(), scan=True, final_metrics=final_metrics).train(run)
    state, expected = train(make_task(Batches(), scan=True))
    assert rows == expected
    assert last == {**expected[-1], "norm": pytest.approx(float(np.linalg.norm(state.params)))}
    assert run.samples == (SAMPLE,)


def test_one_compilation_serves_all_weights_averages_and_seeds():
    task = make_task(Batches(), scan=True, chunks=1)
    for lam, rho, seed in ((0.0, 0.1, 0), (0.3, 0.5, 1)):
        run = replace(RUN, lam=lam, rho=rho, seed=seed)
        task.advance(run, task.start(run)[0], 0)
    assert task._start._cache_size() == task._loop._cache_size() == 1


def test_a_run_that_continues_is_not_compiled_again(tmp_path):
    (run,) = specs(regression.REGRESSION, "demo")
    loop = regression.build(regression.REGRESSION.typed_settings(run.settings), None)._loop
    loop.clear_cache()
    options = {"folder": tmp_path, "resources": Resources(workers=0), "checkpoint_every": 0.0}
    with pytest.raises(KeyboardInterrupt):
        train_grid(regression.REGRESSION, [run], listener=Interrupter(at=0.5), **options)
    train_grid(regression.REGRESSION, [run], listener=Interrupter(), **options)
    assert loop._cache_size() == 1


def test_a_weight_of_zero_trains_as_main_alone():
    task, losses = make_task(Batches(), scan=True), []
    for method in ("mixed", "dynamic_barrier"):
        run = replace(RUN, method=method, lam=0.0, rho=None)
        losses.append(task.advance(run, task.start(run)[0], 0)[1]["main_train"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
