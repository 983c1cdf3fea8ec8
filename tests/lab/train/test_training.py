"""The training loop on a toy: linear regression, with a penalty on the weights as aux."""

from itertools import count

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.train.chunked import Outcome
from gradsurgery.lab.train.training import Training

RUN = RunSpec("toy", "demo", "bloop", lam=0.1, rho=0.1, seed=3)


@pytest.fixture(autouse=True)
def one_device(monkeypatch):
    """Several devices are tested elsewhere, and take longer to compile for."""
    first = jax.devices()[:1]
    monkeypatch.setattr(jax, "devices", lambda: first)


class Batches:
    """Random inputs, and a record of the iterators that were asked for."""

    def __init__(self, broken_at=None):
        self.asked, self.broken_at = [], broken_at

    def __call__(self, seed, start):
        self.asked.append((seed, start))
        return self._batches(seed, start)

    def _batches(self, seed, start):
        for step in count(start):
            if step == self.broken_at:
                raise OSError("no more")
            yield np.random.default_rng([seed, step]).normal(size=(8, 4)).astype(np.float32)


def make_task(batches, *, scan, chunks=4, steps=3):
    def main(params, extra, data, batch):
        return jnp.mean((batch @ (params - data)) ** 2), {"steps": extra["steps"] + 1}

    def aux(params, extra, data, batch):
        return jnp.sum(params**2), extra

    return Training(
        init=lambda key: (jax.random.normal(key, (4,)), {"steps": jnp.zeros((), int)}),
        losses=(main, aux),
        data=np.arange(4, dtype=np.float32),
        batches=batches,
        optimiser=lambda lam: optax.sgd(0.1),
        evaluate=lambda params, extra, data: {"distance": jnp.linalg.norm(params - data), "steps": extra["steps"]},
        chunks=chunks,
        steps=steps,
        scan=scan,
        final_metrics=lambda params, extra: Outcome({"norm": float(jnp.linalg.norm(params))}),
    )


def train(task, state=None, first=0):
    rows = []
    if state is None:
        state, rows = task.start(RUN)
    for chunk in range(first, task.chunks):
        state, more = task.advance(RUN, state, chunk)
        rows += more
    return state, rows


@pytest.mark.parametrize("scan", [True, False])
def test_each_chunk_ends_with_a_row(scan):
    _, rows = train(make_task(Batches(), scan=scan))
    assert [row["step"] for row in rows] == [row["steps"] for row in rows] == [0, 3, 6, 9, 12]
    assert rows[-1]["distance"] < rows[0]["distance"]
    assert all(isinstance(value, float) for row in rows for name, value in row.items() if name != "step")
    assert "surgery/cos_main_aux" in rows[0]


def test_steps_inside_and_outside_xla_agree():
    scanned, stepped = (train(make_task(Batches(), scan=scan))[1] for scan in (True, False))
    for row, other in zip(scanned, stepped, strict=True):
        assert row == pytest.approx(other, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("scan", [True, False])
def test_a_run_resumes_from_any_chunk(scan):
    _, expected = train(make_task(Batches(), scan=scan))
    for stop in (1, 3):
        task = make_task(Batches(), scan=scan)
        state, _ = task.start(RUN)
        for chunk in range(stop):
            state, _ = task.advance(RUN, state, chunk)
        saved = jax.device_get(state)
        _, rows = train(make_task(Batches(), scan=scan), saved, first=stop)
        assert rows == expected[stop + 1 :]


def test_the_iterator_is_kept_from_chunk_to_chunk():
    batches = Batches()
    train(make_task(batches, scan=False))
    assert batches.asked == [(3, 0)]


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
    assert batches.asked == [(3, 0), (3, 6)]
    assert rows == train(make_task(Batches(), scan=False))[1][3:]


def test_final_metrics_come_from_the_last_state():
    task = make_task(Batches(), scan=True)
    state, _ = train(task)
    assert task.final_metrics(state).metrics == {"norm": pytest.approx(float(np.linalg.norm(state.params)))}
