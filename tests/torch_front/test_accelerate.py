"""Accelerate: inside ``accelerator.accumulate``, micro-batches match the large batch."""

import os
import warnings
from functools import partial

import pytest
import torch
from torch.nn import Linear, Sequential, Tanh

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.torch_front.workers import WORLD, Outcome, run_tasks

accelerate = pytest.importorskip("accelerate")

METHOD = gs.bloop(lam=0.5, rho=0.3)
PARTS, STEPS = 4, 3
X = torch.randn(STEPS, 16, 4, generator=torch.Generator().manual_seed(0))


def make_model():
    torch.manual_seed(0)
    return Sequential(Linear(4, 8), Tanh(), Linear(8, 3))


def main_of(model, x):
    return model(x).square().mean()


def aux_of(model, x):
    return (model(x) - 1).pow(4).mean()


def reset_accelerate():
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


@pytest.fixture(autouse=True)
def fresh_accelerate():
    reset_accelerate()
    yield
    reset_accelerate()


def make_accelerated(precision="no", scaler=None, pass_accelerator=True, parts=PARTS):
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=parts, mixed_precision=precision)
    accelerator.scaler = scaler
    plain = make_model()
    model, optimiser = accelerator.prepare(plain, torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9))
    if scaler is not None:  # what Accelerate sets up on a GPU for fp16, without its rounding
        accelerator.native_amp, accelerator.state._mixed_precision = True, "fp16"
    surgery = gst.Surgery(model.parameters(), METHOD, accelerator=accelerator if pass_accelerator else None)
    surgery.attach(optimiser)
    return accelerator, model, optimiser, surgery


def train(run, rank=0, world=1, parts=PARTS, functions=True):
    """The loop that users of Accelerate write, with ``surgery.backward`` in place of ``accelerator.backward``."""
    accelerator, model, optimiser, surgery = run
    for batch in X:
        for x in batch.chunk(parts):
            x = x[rank::world]
            with accelerator.accumulate(model):
                losses = partial(main_of, model, x), partial(aux_of, model, x)
                main, _ = surgery.backward(*(losses if functions else [loss() for loss in losses]))
                with torch.no_grad():
                    torch.testing.assert_close(main, main_of(model, x), rtol=1e-4, atol=1e-6)  # not scaled, not divided
                surgery.apply()
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
                optimiser.zero_grad()
    return [parameter.detach().clone() for parameter in model.parameters()]


def train_on_large_batches():
    """The parameters after training in plain PyTorch, on whole batches."""
    model = make_model()
    surgery, optimiser = (
        gst.Surgery(model.parameters(), METHOD),
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    )
    for x in X:
        surgery.backward(main_of(model, x), aux_of(model, x))
        surgery.apply()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize("functions", [True, False], ids=["functions", "tensors"])
@pytest.mark.parametrize("scale", [None, 1024.0], ids=["no scaler", "scaler"])
def test_micro_batches_match_the_large_batch(functions, scale):
    scaler = None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale)
    actual = train(make_accelerated(scaler=scaler), functions=functions)
    torch.testing.assert_close(actual, train_on_large_batches(), rtol=1e-5, atol=1e-6)


def test_bfloat16_comes_close_to_the_large_batch():
    torch.testing.assert_close(
        train(make_accelerated(precision="bf16")), train_on_large_batches(), rtol=0.05, atol=0.01
    )


def test_without_the_accelerator_an_early_apply_is_refused():
    with pytest.raises(RuntimeError, match=r"before the last micro-batch: .* Surgery\(..., accelerator=accelerator\)"):
        train(make_accelerated(pass_accelerator=False))


def test_a_forgotten_apply_is_refused():
    accelerator, model, optimiser, surgery = make_accelerated(parts=1)
    with accelerator.accumulate(model):
        surgery.backward(main_of(model, X[0]), aux_of(model, X[0]))
        with pytest.raises(RuntimeError, match=r"call surgery.apply\(\) before optimizer.step"):
            optimiser.step()


def test_bad_arguments_get_one_sentence():
    with pytest.raises(TypeError, match=r"must be an accelerate.Accelerator; got 3"):
        gst.Surgery(make_model().parameters(), METHOD, accelerator=3)
    _, model, _, surgery = make_accelerated(parts=1)
    surgery.backward(main_of(model, X[0]), aux_of(model, X[0]))
    with pytest.raises(ValueError, match=r"apply\(\) must be called without scaler"):
        surgery.apply(scaler=torch.amp.GradScaler("cpu"))
    with pytest.raises(RuntimeError, match="apply needs gradients"):  # they are dropped, as after any exception
        surgery.apply()
    with pytest.raises(TypeError, match="a scalar tensor or a function that returns one; got 3"):
        surgery.backward(3, 4)


def train_in_process(rank, scale):
    warnings.simplefilter("default")
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD), MASTER_ADDR="localhost", MASTER_PORT="0",
        ACCELERATE_USE_CPU="1",
    )  # fmt: skip
    reset_accelerate()
    run = make_accelerated(scaler=None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale))
    assert isinstance(run[1], torch.nn.parallel.DistributedDataParallel)
    return Outcome(steps=STEPS, parameters=train(run, rank, WORLD))


@pytest.mark.slow
def test_two_processes_match_the_large_batch(tmp_path):
    tasks = {scale: partial(train_in_process, scale=scale) for scale in (None, 1024.0)}
    outcomes = run_tasks(tasks, tmp_path)
    for ranks in outcomes.values():
        for outcome in ranks:
            assert outcome.error is None
            torch.testing.assert_close(outcome.parameters, train_on_large_batches(), rtol=1e-5, atol=1e-6)
