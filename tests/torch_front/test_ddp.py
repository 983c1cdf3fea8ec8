"""Two processes under DistributedDataParallel match one process, or raise an error with advice.

This holds for every order of forward and backward passes: unsynchronised gradients are never used silently.
"""

from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.torch_front.comparison import (
    ADVICE,
    TWO_AUX,
    assert_matches_or_is_refused,
    assert_same_numbers,
    expected_gradients,
    one_process,
)
from tests.torch_front.tasks import (
    step_with_plain_gradients,
    train_beside_ddp,
    train_inside_join,
    train_on_gradients_of_equal_length,
    train_with_unequal_threads,
    train_without_naming_the_model,
)
from tests.torch_front.workers import WORLD, fork_server, run_tasks, train
from tests.torch_front.wrappers import replicated_with_compression, replicated_with_powersgd

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without torch.distributed"),
]


def ddp(**options):
    return partial(DistributedDataParallel, **options)


FINDS_UNUSED = ddp(find_unused_parameters=True)
BUCKETS = ddp(gradient_as_bucket_view=True, bucket_cap_mb=1e-5)
"""Some parameters fill a whole bucket, which DDP writes to again."""

UNDER_DDP = {
    "one aux": {},
    "one aux, adam": {"optimizer": "adam"},
    "two aux": {"losses": TWO_AUX},
    "two aux, adam": {"losses": TWO_AUX, "optimizer": "adam"},
    "main as a tensor": {"losses": TWO_AUX, "order": "main as a tensor"},
    "micro-batches": {"losses": TWO_AUX, "micro_batches": 2},
    "micro-batches, no_sync": {"losses": TWO_AUX, "micro_batches": 2, "unsynchronised": (0,)},
    "bucket views": {"losses": TWO_AUX, "wrap": ddp(gradient_as_bucket_view=True)},
    "bucket views, micro-batches": {
        "losses": TWO_AUX,
        "wrap": ddp(gradient_as_bucket_view=True),
        "micro_batches": 2,
    },
    "bucket views, micro-batches, no_sync": {
        "losses": TWO_AUX,
        "wrap": ddp(gradient_as_bucket_view=True),
        "micro_batches": 2,
        "unsynchronised": (0,),
    },
    "one bucket for each parameter": {"losses": TWO_AUX, "wrap": BUCKETS},
    "one bucket for each parameter, micro-batches": {"losses": TWO_AUX, "wrap": BUCKETS, "micro_batches": 2},
    "static graph": {"losses": TWO_AUX, "wrap": ddp(static_graph=True)},
    "compiled": {"losses": TWO_AUX, "compiled": True},
    "two heads": {"heads": 2, "wrap": FINDS_UNUSED},
    "two heads, two aux": {"heads": 2, "losses": TWO_AUX, "wrap": FINDS_UNUSED, "optimizer": "adam"},
    "two heads, micro-batches": {"heads": 2, "wrap": FINDS_UNUSED, "micro_batches": 2},
    "trunk": {"trunk_only": True},
    "trunk, two aux, adam": {"trunk_only": True, "losses": TWO_AUX, "optimizer": "adam"},
    "trunk, bucket views, micro-batches, no_sync": {
        "trunk_only": True,
        "wrap": BUCKETS,
        "micro_batches": 2,
        "unsynchronised": (0,),
    },
    "trunk, two heads": {"trunk_only": True, "heads": 2, "wrap": FINDS_UNUSED},
    "trunk, parameters only, two heads": {
        "trunk_only": True,
        "heads": 2,
        "losses": ("fit", "weights"),
        "wrap": FINDS_UNUSED,
    },
    "a communication hook": {"wrap": replicated_with_compression},
    "two passes for one loss": {"losses": ("fit", "evenness")},
    "parameters only": {"losses": ("fit", "weights")},
    "parameters only, micro-batches, no_sync": {
        "losses": ("fit", "weights"),
        "micro_batches": 2,
        "unsynchronised": (0,),
    },
    "parameters only, a tensor": {"losses": ("fit", "weights"), "order": "parameters-only losses as tensors"},
    "parameters only second": {"losses": ("fit", "quartic", "weights")},
    "parameters only second, a tensor": {
        "losses": ("fit", "quartic", "weights"),
        "order": "parameters-only losses as tensors",
    },
    "parameters only before another": {"losses": ("fit", "weights", "quartic")},
    "parameters only as main": {"losses": ("weights", "fit")},
    "parameters only with two heads": {"losses": ("fit", "weights", "quartic"), "heads": 2, "wrap": FINDS_UNUSED},
}

MISTAKES = {
    "one forward": {"order": "one forward"},
    "one forward, parameters only": {"order": "one forward", "losses": ("fit", "weights")},
    "one forward, parameters only as main": {"order": "one forward", "losses": ("weights", "fit")},
    "one forward, parameters only second": {"order": "one forward", "losses": ("fit", "quartic", "weights")},
    "forwards first": {"order": "forwards first"},
    "forwards first, parameters only as main": {"order": "forwards first", "losses": ("weights", "fit")},
    "aux as tensors": {"order": "aux as tensors", "losses": TWO_AUX},
}
WRAPPERS = {
    "plain": {"wrap": ddp()},
    "bucket views": {"wrap": BUCKETS},
    "static graph": {"wrap": ddp(static_graph=True)},
    "find unused": {"wrap": FINDS_UNUSED},
    "find unused, two heads": {"wrap": FINDS_UNUSED, "heads": 2},
}
WRONG_UNDER_DDP = {
    f"{mistake}, {wrapper}, from step {start}": {**MISTAKES[mistake], **WRAPPERS[wrapper], "start": start}
    for mistake in MISTAKES
    for wrapper in WRAPPERS
    for start in (0, 3)
} | {
    "no_sync around everything": {"unsynchronised": (0,)},
    "no_sync around everything, static graph": {"unsynchronised": (0,), "wrap": ddp(static_graph=True)},
    "no_sync around everything, two heads": {"unsynchronised": (0,), "heads": 2, "wrap": FINDS_UNUSED},
    "no_sync around the last micro-batch": {"unsynchronised": (1,), "micro_batches": 2},
    "two heads, no_sync around the first micro-batch": {
        "heads": 2,
        "wrap": FINDS_UNUSED,
        "micro_batches": 2,
        "unsynchronised": (0,),
    },
    "two heads, functions": {"heads": 2},
    "two heads, functions, static graph": {"heads": 2, "wrap": ddp(static_graph=True)},
    "two heads, parameters only": {"heads": 2, "losses": ("fit", "weights")},
    "two heads, one forward": {"heads": 2, "order": "one forward"},
    "two heads, one forward, static graph": {
        "heads": 2,
        "order": "one forward",
        "wrap": ddp(static_graph=True),
    },
    "two heads, forwards first": {"heads": 2, "order": "forwards first"},
}


@pytest.fixture(scope="module")
def under_ddp(tmp_path_factory):
    """The outcomes of all DDP tasks, by name and rank."""
    tasks = {
        **{name: partial(train, **{"wrap": ddp(), **case}) for name, case in (UNDER_DDP | WRONG_UNDER_DDP).items()},
        "independent processes": train_beside_ddp,
        "averages in bfloat16": partial(train, wrap=ddp(), average_dtype=torch.bfloat16),
        "powersgd": partial(train, wrap=replicated_with_powersgd),
        "join": train_inside_join,
        **{
            f"unnamed model, {form}, {given}": partial(
                train_without_naming_the_model, synchronised=form == "functions", as_module=given == "module"
            )
            for form in ("functions", "tensors")
            for given in ("module", "parameters")
        },
        "unequal threads": train_with_unequal_threads,
        "equal length": train_on_gradients_of_equal_length,
        **{
            f"plain gradients {position}, {wrapper}": partial(
                step_with_plain_gradients, wrap=WRAPPERS[wrapper]["wrap"], position=position
            )
            for position in ("before", "after")
            for wrapper in ("plain", "bucket views")
        },
    }
    return run_tasks(tasks, tmp_path_factory.mktemp("ddp"))


@pytest.mark.parametrize("name", UNDER_DDP)
def test_two_processes_match_one(under_ddp, name):
    for outcome in under_ddp[name]:
        assert_same_numbers(outcome, one_process(UNDER_DDP[name]))


@pytest.mark.parametrize("name", UNDER_DDP)
def test_every_process_holds_the_same_average(under_ddp, name):
    first, second = (outcome.averages for outcome in under_ddp[name])
    assert len(first) == len(UNDER_DDP[name].get("losses", TWO_AUX[:2])) - 1
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize("name", WRONG_UNDER_DDP)
def test_any_other_order_matches_or_is_refused_with_advice(under_ddp, name):
    assert_matches_or_is_refused(under_ddp[name], WRONG_UNDER_DDP[name])


def test_different_gradients_of_equal_length_are_refused(under_ddp):
    for outcome in under_ddp["equal length"]:
        assert outcome.error is not None
        assert outcome.error.startswith("RuntimeError: the gradients of aux differ between the processes")


def test_rounding_differences_raise_no_false_alarm(under_ddp):
    assert [(outcome.error, outcome.steps) for outcome in under_ddp["unequal threads"]] == [(None, 3)] * WORLD


def test_processes_that_train_independently_are_left_alone(under_ddp):
    for rank, outcome in enumerate(under_ddp["independent processes"]):
        assert_same_numbers(outcome, train(rank))
    first, second = (outcome.parameters[0] for outcome in under_ddp["independent processes"])
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("given", ["module", "parameters"])
def test_a_model_that_is_not_named_is_asked_for(under_ddp, given):
    for outcome in under_ddp[f"unnamed model, functions, {given}"]:
        assert outcome.steps == 1
        assert "2 processes are running" in outcome.error
        assert "model=model" in outcome.error
    for outcome in under_ddp[f"unnamed model, tensors, {given}"]:
        assert outcome.error.startswith("RuntimeError: the gradients of ")
        assert ADVICE in outcome.error


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("powersgd", "ValueError: DDP's communication hooks must be stateless"),
        ("join", "RuntimeError: surgery.backward() must run outside DDP.join()"),
    ],
)
def test_what_cannot_work_is_refused(under_ddp, name, sentence):
    for outcome in under_ddp[name]:
        assert outcome.error is not None
        assert outcome.error.startswith(sentence)


def test_averages_in_bfloat16_are_rounded_alike(under_ddp):
    first, second = (outcome.averages for outcome in under_ddp["averages in bfloat16"])
    assert {average.dtype for level in first for average in level} == {torch.bfloat16}
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize("wrapper", ["plain", "bucket views"])
@pytest.mark.parametrize("position", ["before", "after"])
def test_the_gradients_of_a_plain_backward_are_kept(under_ddp, position, wrapper):
    for outcome in under_ddp[f"plain gradients {position}, {wrapper}"]:
        assert outcome.error is None
        torch.testing.assert_close(outcome.parameters, expected_gradients(), rtol=1e-9, atol=1e-12)


def gradients_in_one_process(folder):
    """The gradients of a third loss, main and aux, without DDP and with it, in a group of one process."""
    torch.distributed.init_process_group("gloo", f"file://{folder / 'store'}", rank=0, world_size=1)
    x, results = torch.randn(8, 6, generator=torch.Generator().manual_seed(0)), []
    for parallel in (False, True):
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Linear(4, 1))
        model = DistributedDataParallel(network, gradient_as_bucket_view=True) if parallel else network
        surgery = gst.Surgery(network[0], gs.mixed(lam=1.0), model=model)
        model(x).sin().mean().backward()
        surgery.backward(lambda: model(x).square().mean(), lambda: (model(x) - 1).abs().mean())  # noqa: B023
        surgery.apply()
        results.append([parameter.grad.clone() for parameter in network.parameters()])
    torch.distributed.destroy_process_group()
    return results


def test_one_process_under_ddp_trains_as_without(tmp_path):
    """Its gradients are views of buckets, too, which the next backward pass overwrites."""
    with ProcessPoolExecutor(1, mp_context=fork_server()) as process:
        plain, parallel = process.submit(gradients_in_one_process, tmp_path).result()
    torch.testing.assert_close(parallel, plain)
