"""Two real processes: DDP and FSDP2 give the numbers of one process, or say what would.

Every order of forward and backward passes is right or refused: no gradient that was not synchronised is used silently.
"""

from functools import cache, partial

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from tests.torch_front.workers import (
    WORLD,
    replicated_without_all_reduce,
    sharded,
    sharded_by_layer,
    sharded_over_two_meshes,
    sharded_with_silent_root,
    together,
    train,
    train_beside_ddp,
    train_on_gradients_of_one_length,
    train_with_unequal_threads,
)

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without torch.distributed")

TWO_AUX = ("fit", "quartic", "wave")
WAY = "surgery.backward(main_fn, aux_fn)"


def ddp(**options):
    return partial(DistributedDataParallel, **options)


FINDS_UNUSED = ddp(find_unused_parameters=True)
BUCKETS = ddp(gradient_as_bucket_view=True, bucket_cap_mb=1e-5)
"""Some parameters have a bucket of their own, so that ``.grad`` is all of what DDP writes to again."""

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
    "a bucket for a parameter": {"losses": TWO_AUX, "wrap": BUCKETS},
    "a bucket for a parameter, micro-batches": {"losses": TWO_AUX, "wrap": BUCKETS, "micro_batches": 2},
    "static graph": {"losses": TWO_AUX, "wrap": ddp(static_graph=True)},
    "compiled": {"losses": TWO_AUX, "compiled": True},
    "two heads": {"heads": 2, "wrap": FINDS_UNUSED},
    "two heads, two aux": {"heads": 2, "losses": TWO_AUX, "wrap": FINDS_UNUSED, "optimizer": "adam"},
    "two heads, micro-batches": {"heads": 2, "wrap": FINDS_UNUSED, "micro_batches": 2},
    "two passes for a loss": {"losses": ("fit", "evenness")},
    "closed form": {"losses": ("fit", "weights")},
    "closed form, micro-batches, no_sync": {
        "losses": ("fit", "weights"),
        "micro_batches": 2,
        "unsynchronised": (0,),
    },
    "closed form, a tensor": {"losses": ("fit", "weights"), "order": "closed forms as tensors"},
    "closed form second": {"losses": ("fit", "quartic", "weights")},
    "closed form second, a tensor": {"losses": ("fit", "quartic", "weights"), "order": "closed forms as tensors"},
    "closed form before another": {"losses": ("fit", "weights", "quartic")},
    "closed form as main": {"losses": ("weights", "fit")},
    "closed form, two heads": {"losses": ("fit", "weights", "quartic"), "heads": 2, "wrap": FINDS_UNUSED},
}

MISTAKES = {
    "one forward": {"order": "one forward"},
    "one forward, closed form": {"order": "one forward", "losses": ("fit", "weights")},
    "one forward, closed form as main": {"order": "one forward", "losses": ("weights", "fit")},
    "one forward, closed form second": {"order": "one forward", "losses": ("fit", "quartic", "weights")},
    "forwards first": {"order": "forwards first"},
    "forwards first, closed form as main": {"order": "forwards first", "losses": ("weights", "fit")},
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
    f"{mistake}, {wrapper}, from step {start}": {**MISTAKES[mistake], **WRAPPERS[wrapper], "start": start, "steps": 6}
    for mistake in MISTAKES
    for wrapper in WRAPPERS
    for start in (0, 3)
} | {
    "no_sync around everything": {"unsynchronised": (0,), "steps": 6},
    "no_sync around everything, static graph": {"unsynchronised": (0,), "wrap": ddp(static_graph=True), "steps": 6},
    "no_sync around everything, two heads": {"unsynchronised": (0,), "heads": 2, "wrap": FINDS_UNUSED, "steps": 6},
    "no_sync around the last micro-batch": {"unsynchronised": (1,), "micro_batches": 2, "steps": 6},
    "two heads, no_sync around the first micro-batch": {
        "heads": 2,
        "wrap": FINDS_UNUSED,
        "micro_batches": 2,
        "unsynchronised": (0,),
        "steps": 6,
    },
    "two heads, functions": {"heads": 2, "steps": 6},
    "two heads, functions, static graph": {"heads": 2, "wrap": ddp(static_graph=True), "steps": 6},
    "two heads, closed form": {"heads": 2, "losses": ("fit", "weights"), "steps": 6},
    "two heads, one forward": {"heads": 2, "order": "one forward", "steps": 6},
    "two heads, one forward, static graph": {
        "heads": 2,
        "order": "one forward",
        "wrap": ddp(static_graph=True),
        "steps": 6,
    },
    "two heads, forwards first": {"heads": 2, "order": "forwards first", "steps": 6},
}

WRAPS = {"whole": sharded, "by layer": sharded_by_layer}
UNDER_FSDP = {
    f"{wrap}, {order}, {count} aux": {"wrap": WRAPS[wrap], "order": order, "losses": TWO_AUX[: 1 + count]}
    for wrap in WRAPS
    for order in ("functions", "one forward", "forwards first")
    for count in (1, 2)
} | {
    "adam": {"wrap": sharded_by_layer, "losses": TWO_AUX, "optimizer": "adam"},
    "compiled": {"wrap": sharded_by_layer, "losses": TWO_AUX, "compiled": True},
    "resharded after forward": {"wrap": partial(sharded, reshard_after_forward=True), "losses": TWO_AUX},
    "micro-batches": {"wrap": sharded_by_layer, "losses": TWO_AUX, "micro_batches": 2},
    "micro-batches, forwards first": {"wrap": sharded, "order": "forwards first", "micro_batches": 2},
    "two heads": {"wrap": sharded_by_layer, "losses": TWO_AUX, "heads": 2},
    "two heads, one forward": {"wrap": sharded, "losses": TWO_AUX, "heads": 2, "order": "one forward"},
    "two passes for a loss": {"wrap": sharded_by_layer, "losses": ("fit", "evenness")},
    "closed form, whole": {"wrap": sharded, "losses": ("fit", "weights")},
    "closed form, by layer": {"wrap": sharded_by_layer, "losses": ("fit", "weights", "quartic")},
    "closed form, two heads": {"wrap": sharded_by_layer, "losses": ("fit", "weights"), "heads": 2},
    "closed form, a tensor": {"wrap": sharded, "losses": ("fit", "weights"), "order": "closed forms as tensors"},
    "closed form, micro-batches": {"wrap": sharded, "losses": ("fit", "weights"), "micro_batches": 2},
    "closed form as main": {"wrap": sharded, "losses": ("weights", "fit")},
    "closed form with a whole gradient": {"wrap": sharded, "losses": ("fit", "sums", "quartic")},
    "mesh of 1 x 2": {"wrap": partial(sharded, shape=(1, 2), names=("replicate", "shard")), "losses": TWO_AUX},
    "mesh of 2 x 1": {"wrap": partial(sharded, shape=(2, 1), names=("replicate", "shard")), "losses": TWO_AUX},
    "two meshes": {"wrap": sharded_over_two_meshes, "losses": TWO_AUX},
}
CLOSED = {
    "closed form first": ("fit", "weights", "quartic"),
    "closed form last": ("fit", "quartic", "weights"),
    "closed form as main": ("weights", "fit"),
}
WRONG_UNDER_FSDP = {
    f"{order}, {losses}, {wrap}": {"wrap": WRAPS[wrap], "order": order, "losses": CLOSED[losses], "steps": 6}
    for order in ("one forward", "forwards first", "aux as tensors")
    for losses in CLOSED
    for wrap in WRAPS
}
UNSYNCHRONISED_UNDER_FSDP = {
    "every pass": {"wrap": sharded_by_layer, "unsynchronised": (0,)},
    "every pass, tensors": {"wrap": sharded, "unsynchronised": (0,), "order": "forwards first"},
    "the first micro-batch": {"wrap": sharded, "unsynchronised": (0,), "micro_batches": 2},
    "the last micro-batch": {"wrap": sharded, "unsynchronised": (1,), "micro_batches": 2},
    "the root": {"wrap": sharded_with_silent_root},
    "the replicas": {"wrap": replicated_without_all_reduce},
}


@pytest.fixture(scope="module")
def under_ddp(tmp_path_factory):
    """The outcomes of all tasks that need two processes and DDP, by name and rank."""
    tasks = {
        **{name: partial(train, **{"wrap": ddp(), **case}) for name, case in (UNDER_DDP | WRONG_UNDER_DDP).items()},
        "each for itself": train_beside_ddp,
        "unequal threads": train_with_unequal_threads,
        "one length": train_on_gradients_of_one_length,
    }
    return together(tasks, tmp_path_factory.mktemp("ddp"))


@pytest.fixture(scope="module")
def under_fsdp(tmp_path_factory):
    """The outcomes of all tasks that need two processes and FSDP2, by name and rank."""
    folder = tmp_path_factory.mktemp("fsdp")
    resumed = {"wrap": sharded_by_layer, "losses": TWO_AUX, "optimizer": "plain"}
    tasks = {
        **{name: partial(train, **case) for name, case in UNDER_FSDP.items()},
        "not interrupted": partial(train, **resumed),
        "resumed": partial(train, **resumed, checkpoint=folder / "checkpoint"),
        **{name: partial(train, **case, steps=6) for name, case in UNSYNCHRONISED_UNDER_FSDP.items()},
        **{name: partial(train, **case) for name, case in WRONG_UNDER_FSDP.items()},
    }
    return together(tasks, folder)


def one_process(case):
    """The outcome of one process that has all the data; how the losses are given is all the same to it."""
    return _one_process(**{name: case[name] for name in ("losses", "heads", "optimizer", "steps") if name in case})


_one_process = cache(partial(train, 0, 1))


def assert_same_numbers(found, wanted):
    assert found.error is None
    assert found.steps == wanted.steps
    torch.testing.assert_close(found.parameters, wanted.parameters, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found.averages, wanted.averages, rtol=1e-9, atol=1e-12)


def assert_right_or_refused(outcomes, case, way=WAY):
    """The numbers of one process, or an error before the first step that would not have them."""
    for found in outcomes:
        if found.error is None:
            assert_same_numbers(found, one_process(case))
        else:
            assert found.error.startswith("RuntimeError: ")
            assert way in found.error
            assert found.steps <= case.get("start", 0)


@pytest.mark.parametrize("name", UNDER_DDP)
def test_under_ddp_two_processes_get_the_numbers_of_one(under_ddp, name):
    for found in under_ddp[name]:
        assert_same_numbers(found, one_process(UNDER_DDP[name]))


@pytest.mark.parametrize("name", UNDER_DDP)
def test_under_ddp_every_process_holds_the_same_average(under_ddp, name):
    first, second = (found.averages for found in under_ddp[name])
    assert len(first) == len(UNDER_DDP[name].get("losses", TWO_AUX[:2])) - 1
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize("name", WRONG_UNDER_DDP)
def test_under_ddp_any_other_order_is_right_or_refused_with_the_way_that_works(under_ddp, name):
    assert_right_or_refused(under_ddp[name], WRONG_UNDER_DDP[name])


def test_under_ddp_gradients_that_agree_in_length_only_are_refused(under_ddp):
    for found in under_ddp["one length"]:
        assert found.error is not None
        assert found.error.startswith("RuntimeError: the gradients of aux differ between the processes")


def test_under_ddp_rounding_that_differs_between_processes_is_no_false_alarm(under_ddp):
    assert [(found.error, found.steps) for found in under_ddp["unequal threads"]] == [(None, 3)] * WORLD


def test_processes_that_train_each_for_itself_are_left_alone(under_ddp):
    for rank, found in enumerate(under_ddp["each for itself"]):
        assert_same_numbers(found, train(rank))
    first, second = (found.parameters[0] for found in under_ddp["each for itself"])
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("name", UNDER_FSDP)
def test_under_fsdp_two_processes_get_the_numbers_of_one(under_fsdp, name):
    for found in under_fsdp[name]:
        assert_same_numbers(found, one_process(UNDER_FSDP[name]))


@pytest.mark.parametrize("name", [name for name in UNDER_FSDP if name not in ("mesh of 2 x 1", "two meshes")])
def test_under_fsdp_each_process_holds_its_shard_of_the_average(under_fsdp, name):
    for level, averages in enumerate(one_process(UNDER_FSDP[name]).averages):
        for index, average in enumerate(averages):
            shares = [*average.chunk(WORLD), average[:0]]  # one row makes one share
            for rank, found in enumerate(under_fsdp[name]):
                torch.testing.assert_close(found.parts[level][index], shares[rank], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", WRONG_UNDER_FSDP)
def test_under_fsdp_any_other_order_is_right_or_refused_with_the_way_that_works(under_fsdp, name):
    assert_right_or_refused(under_fsdp[name], WRONG_UNDER_FSDP[name])


@pytest.mark.parametrize("name", UNSYNCHRONISED_UNDER_FSDP)
def test_under_fsdp_gradients_that_are_held_back_are_refused(under_fsdp, name):
    for found in under_fsdp[name]:
        assert found.error is not None
        assert found.error.startswith("RuntimeError: ")
        assert "set_requires_gradient_sync(True)" in found.error
        assert found.steps == 0


def test_under_fsdp_a_run_resumes_from_a_distributed_checkpoint_bit_for_bit(under_fsdp):
    for found, wanted in zip(under_fsdp["resumed"], under_fsdp["not interrupted"], strict=True):
        assert_same_numbers(found, wanted)
        assert all(map(torch.equal, found.parameters, wanted.parameters))
        for level, wanted_level in zip(found.averages, wanted.averages, strict=True):
            assert all(map(torch.equal, level, wanted_level))
