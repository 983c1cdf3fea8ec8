"""Two processes under FSDP2 match one process, or raise an error with advice; with tensor parallelism, four do."""

from functools import partial

import pytest
import torch

from tests.torch_front.comparison import (
    TWO_AUX,
    assert_matches_or_is_refused,
    assert_same_numbers,
    expected_gradients,
    one_process,
)
from tests.torch_front.tasks import step_with_plain_gradients, train_with_tensor_parallelism
from tests.torch_front.workers import WORLD, run_tasks, train
from tests.torch_front.wrappers import (
    replicated_without_all_reduce,
    sharded,
    sharded_by_fsdp1,
    sharded_by_layer,
    sharded_over_two_meshes,
    sharded_with_unsynchronised_root,
    sharded_without_root,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without torch.distributed"),
]

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
    "trunk, by layer, two aux": {"wrap": sharded_by_layer, "losses": TWO_AUX, "trunk_only": True},
    "trunk, whole, micro-batches": {"wrap": sharded, "trunk_only": True, "micro_batches": 2},
    "two passes for one loss": {"wrap": sharded_by_layer, "losses": ("fit", "evenness")},
    "parameters only, whole": {"wrap": sharded, "losses": ("fit", "weights")},
    "parameters only, by layer": {"wrap": sharded_by_layer, "losses": ("fit", "weights", "quartic")},
    "parameters only with two heads": {"wrap": sharded_by_layer, "losses": ("fit", "weights"), "heads": 2},
    "parameters only, a tensor": {
        "wrap": sharded,
        "losses": ("fit", "weights"),
        "order": "parameters-only losses as tensors",
    },
    "parameters only, micro-batches": {"wrap": sharded, "losses": ("fit", "weights"), "micro_batches": 2},
    "parameters only as main": {"wrap": sharded, "losses": ("weights", "fit")},
    "parameters only with a whole gradient": {"wrap": sharded, "losses": ("fit", "sums", "quartic")},
    "mesh of 1 x 2": {"wrap": partial(sharded, shape=(1, 2), names=("replicate", "shard")), "losses": TWO_AUX},
    "mesh of 2 x 1": {"wrap": partial(sharded, shape=(2, 1), names=("replicate", "shard")), "losses": TWO_AUX},
    "two meshes": {"wrap": sharded_over_two_meshes, "losses": TWO_AUX},
}
PARAMETERS_ONLY = {
    "parameters only first": ("fit", "weights", "quartic"),
    "parameters only last": ("fit", "quartic", "weights"),
    "parameters only as main": ("weights", "fit"),
}
WRONG_UNDER_FSDP = {
    f"{order}, {losses}, {wrap}": {"wrap": WRAPS[wrap], "order": order, "losses": PARAMETERS_ONLY[losses]}
    for order in ("one forward", "forwards first", "aux as tensors")
    for losses in PARAMETERS_ONLY
    for wrap in WRAPS
}
UNSYNCHRONISED_UNDER_FSDP = {
    "every pass": {"wrap": sharded_by_layer, "unsynchronised": (0,)},
    "every pass, tensors": {"wrap": sharded, "unsynchronised": (0,), "order": "forwards first"},
    "the first micro-batch": {"wrap": sharded, "unsynchronised": (0,), "micro_batches": 2},
    "the last micro-batch": {"wrap": sharded, "unsynchronised": (1,), "micro_batches": 2},
    "the root": {"wrap": sharded_with_unsynchronised_root},
    "the replicas": {"wrap": replicated_without_all_reduce},
}
UNDER_FSDP1 = {
    "flat parameters": {"wrap": partial(sharded_by_fsdp1, use_orig_params=False)},
    "original parameters": {"wrap": partial(sharded_by_fsdp1, use_orig_params=True)},
}


@pytest.fixture(scope="module")
def under_fsdp(tmp_path_factory):
    """The outcomes of all FSDP tasks, by name and rank."""
    folder = tmp_path_factory.mktemp("fsdp")
    resumed = {"wrap": sharded_by_layer, "losses": TWO_AUX, "optimizer": "plain"}
    tasks = {
        **{name: partial(train, **case) for name, case in UNDER_FSDP.items()},
        "uninterrupted": partial(train, **resumed),
        "resumed": partial(train, **resumed, checkpoint=folder / "checkpoint"),
        "uninterrupted, bfloat16": partial(train, **resumed, average_dtype=torch.bfloat16),
        "resumed, bfloat16": partial(
            train, **resumed, average_dtype=torch.bfloat16, checkpoint=folder / "bfloat16", attached=True
        ),
        "uninterrupted, adam": partial(train, **{**resumed, "optimizer": "adam"}),
        "resumed, adam": partial(
            train, **{**resumed, "optimizer": "adam"}, checkpoint=folder / "attached", attached=True
        ),
        **{name: partial(train, **case) for name, case in UNSYNCHRONISED_UNDER_FSDP.items()},
        **{name: partial(train, **case) for name, case in WRONG_UNDER_FSDP.items()},
        **{name: partial(train, **case) for name, case in UNDER_FSDP1.items()},
        "without root": partial(train, wrap=sharded_without_root),
        **{
            f"plain gradients {position}": partial(step_with_plain_gradients, wrap=sharded_by_layer, position=position)
            for position in ("before", "after")
        },
    }
    return run_tasks(tasks, folder)


@pytest.mark.parametrize("name", UNDER_FSDP)
def test_two_processes_match_one(under_fsdp, name):
    for outcome in under_fsdp[name]:
        assert_same_numbers(outcome, one_process(UNDER_FSDP[name]))


@pytest.mark.parametrize("name", [name for name in UNDER_FSDP if name not in ("mesh of 2 x 1", "two meshes")])
def test_each_process_holds_its_shard_of_the_average(under_fsdp, name):
    for level, averages in enumerate(one_process(UNDER_FSDP[name]).averages):
        for index, average in enumerate(averages):
            shards = [*average.chunk(WORLD), average[:0]]  # a single row makes one chunk
            for rank, outcome in enumerate(under_fsdp[name]):
                torch.testing.assert_close(outcome.shards[level][index], shards[rank], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", WRONG_UNDER_FSDP)
def test_any_other_order_matches_or_is_refused_with_advice(under_fsdp, name):
    assert_matches_or_is_refused(under_fsdp[name], WRONG_UNDER_FSDP[name])


@pytest.mark.parametrize("name", UNSYNCHRONISED_UNDER_FSDP)
def test_unsynchronised_gradients_are_refused(under_fsdp, name):
    for outcome in under_fsdp[name]:
        assert outcome.error is not None
        assert outcome.error.startswith("RuntimeError: ")
        assert "set_requires_gradient_sync(True)" in outcome.error
        assert outcome.steps == 0


@pytest.mark.parametrize("name", UNDER_FSDP1)
def test_fsdp1_is_refused(under_fsdp, name):
    for outcome in under_fsdp[name]:
        assert outcome.error is not None
        assert outcome.error.startswith("ValueError: Surgery works under DistributedDataParallel and FSDP2; got ")
        assert outcome.steps == 0


@pytest.mark.parametrize(
    "name",
    ["", ", bfloat16", ", adam"],
    ids=["surgery saved", "averages in bfloat16", "optimiser saved, surgery attached"],
)
def test_a_run_resumes_from_a_distributed_checkpoint_bit_for_bit(under_fsdp, name):
    for actual, expected in zip(under_fsdp[f"resumed{name}"], under_fsdp[f"uninterrupted{name}"], strict=True):
        assert_same_numbers(actual, expected)
        assert all(map(torch.equal, actual.parameters, expected.parameters))
        for level, expected_level in zip(actual.averages, expected.averages, strict=True):
            assert all(map(torch.equal, level, expected_level))


def test_a_root_that_is_not_sharded_is_refused(under_fsdp):
    for outcome in under_fsdp["without root"]:
        assert outcome.error is not None
        assert outcome.error.startswith(
            "ValueError: fully_shard must cover all trainable parameters of the surgery; 2 "
        )


def test_with_tensor_parallelism_four_processes_match_one(tmp_path):
    for outcome in run_tasks({"strided": train_with_tensor_parallelism}, tmp_path, world=4)["strided"]:
        assert outcome.error is None
        torch.testing.assert_close(outcome.parameters, outcome.averages[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("position", ["before", "after"])
def test_the_gradients_of_a_plain_backward_are_kept(under_fsdp, position):
    for outcome in under_fsdp[f"plain gradients {position}"]:
        assert outcome.error is None
        torch.testing.assert_close(outcome.parameters, expected_gradients(), rtol=1e-9, atol=1e-12)
