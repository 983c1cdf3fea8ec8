"""Two processes under DDP and FSDP2 match one process, or raise an error with advice.

This holds for every order of forward and backward passes: unsynchronised gradients are never used silently.
"""

from functools import cache, partial

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.torch_front.workers import (
    OF_OUTPUT,
    WORLD,
    batch,
    network,
    replicated_with_compression,
    replicated_with_powersgd,
    replicated_without_all_reduce,
    run_tasks,
    sharded,
    sharded_by_fsdp1,
    sharded_by_layer,
    sharded_over_two_meshes,
    sharded_with_unsynchronised_root,
    sharded_without_root,
    step_with_plain_gradients,
    train,
    train_beside_ddp,
    train_inside_join,
    train_on_gradients_of_equal_length,
    train_with_tensor_parallelism,
    train_with_unequal_threads,
    train_without_naming_the_model,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without torch.distributed"),
]

TWO_AUX = ("fit", "quartic", "wave")
ADVICE = "surgery.backward(main_fn, aux_fn)"


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


def one_process(case):
    """The outcome of one process with all the data, for which the form of the losses makes no difference."""
    return _one_process(**{name: case[name] for name in ("losses", "heads", "optimizer", "trunk_only") if name in case})


_one_process = cache(partial(train, 0, 1))


def assert_same_numbers(actual, expected):
    assert actual.error is None
    assert actual.steps == expected.steps
    torch.testing.assert_close(actual.parameters, expected.parameters, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(actual.averages, expected.averages, rtol=1e-9, atol=1e-12)


def assert_matches_or_is_refused(outcomes, case, advice=ADVICE):
    """Equal to one process, or an error before the first step that would differ."""
    for outcome in outcomes:
        if outcome.error is None:
            assert_same_numbers(outcome, one_process(case))
        else:
            assert outcome.error.startswith("RuntimeError: ")
            assert advice in outcome.error
            assert outcome.steps <= case.get("start", 0)


@pytest.mark.parametrize("name", UNDER_DDP)
def test_under_ddp_two_processes_match_one(under_ddp, name):
    for outcome in under_ddp[name]:
        assert_same_numbers(outcome, one_process(UNDER_DDP[name]))


@pytest.mark.parametrize("name", UNDER_DDP)
def test_under_ddp_every_process_holds_the_same_average(under_ddp, name):
    first, second = (outcome.averages for outcome in under_ddp[name])
    assert len(first) == len(UNDER_DDP[name].get("losses", TWO_AUX[:2])) - 1
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize("name", WRONG_UNDER_DDP)
def test_under_ddp_any_other_order_matches_or_is_refused_with_advice(under_ddp, name):
    assert_matches_or_is_refused(under_ddp[name], WRONG_UNDER_DDP[name])


def test_under_ddp_different_gradients_of_equal_length_are_refused(under_ddp):
    for outcome in under_ddp["equal length"]:
        assert outcome.error is not None
        assert outcome.error.startswith("RuntimeError: the gradients of aux differ between the processes")


def test_under_ddp_rounding_differences_raise_no_false_alarm(under_ddp):
    assert [(outcome.error, outcome.steps) for outcome in under_ddp["unequal threads"]] == [(None, 3)] * WORLD


def test_processes_that_train_independently_are_left_alone(under_ddp):
    for rank, outcome in enumerate(under_ddp["independent processes"]):
        assert_same_numbers(outcome, train(rank))
    first, second = (outcome.parameters[0] for outcome in under_ddp["independent processes"])
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("name", UNDER_FSDP)
def test_under_fsdp_two_processes_match_one(under_fsdp, name):
    for outcome in under_fsdp[name]:
        assert_same_numbers(outcome, one_process(UNDER_FSDP[name]))


@pytest.mark.parametrize("name", [name for name in UNDER_FSDP if name not in ("mesh of 2 x 1", "two meshes")])
def test_under_fsdp_each_process_holds_its_shard_of_the_average(under_fsdp, name):
    for level, averages in enumerate(one_process(UNDER_FSDP[name]).averages):
        for index, average in enumerate(averages):
            shards = [*average.chunk(WORLD), average[:0]]  # a single row makes one chunk
            for rank, outcome in enumerate(under_fsdp[name]):
                torch.testing.assert_close(outcome.shards[level][index], shards[rank], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", WRONG_UNDER_FSDP)
def test_under_fsdp_any_other_order_matches_or_is_refused_with_advice(under_fsdp, name):
    assert_matches_or_is_refused(under_fsdp[name], WRONG_UNDER_FSDP[name])


@pytest.mark.parametrize("name", UNSYNCHRONISED_UNDER_FSDP)
def test_under_fsdp_unsynchronised_gradients_are_refused(under_fsdp, name):
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
def test_under_fsdp_a_run_resumes_from_a_distributed_checkpoint_bit_for_bit(under_fsdp, name):
    for actual, expected in zip(under_fsdp[f"resumed{name}"], under_fsdp[f"uninterrupted{name}"], strict=True):
        assert_same_numbers(actual, expected)
        assert all(map(torch.equal, actual.parameters, expected.parameters))
        for level, expected_level in zip(actual.averages, expected.averages, strict=True):
            assert all(map(torch.equal, level, expected_level))


def expected_gradients():
    """The direction and the gradient of the plain loss, by one process with all the data."""
    model = network()
    surgery = gst.Surgery(model.parameters(), gs.bloop(lam=0.5, rho=0.1))
    x, y = batch(0, 0, 1)
    fit, quartic, wave = (OF_OUTPUT[name](model(x)[0], y) for name in ("fit", "quartic", "wave"))
    surgery.backward(fit, quartic)
    surgery.apply()
    wave.backward()
    return [parameter.grad for parameter in model.parameters()]


PLAIN_GRADIENTS = [
    ("under_ddp", f"plain gradients {position}, {wrapper}")
    for position in ("before", "after")
    for wrapper in ("plain", "bucket views")
] + [("under_fsdp", f"plain gradients {position}") for position in ("before", "after")]


@pytest.mark.parametrize(("fixture", "name"), PLAIN_GRADIENTS)
def test_the_gradients_of_a_plain_backward_are_kept(fixture, name, request):
    for outcome in request.getfixturevalue(fixture)[name]:
        assert outcome.error is None
        torch.testing.assert_close(outcome.parameters, expected_gradients(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("given", ["module", "parameters"])
def test_under_ddp_a_model_that_is_not_named_is_asked_for(under_ddp, given):
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
def test_under_ddp_what_cannot_work_is_refused(under_ddp, name, sentence):
    for outcome in under_ddp[name]:
        assert outcome.error is not None
        assert outcome.error.startswith(sentence)


def test_under_fsdp_a_root_that_is_not_sharded_is_refused(under_fsdp):
    for outcome in under_fsdp["without root"]:
        assert outcome.error is not None
        assert outcome.error.startswith(
            "ValueError: fully_shard must cover all trainable parameters of the surgery; 2 "
        )


def test_under_fsdp_with_tensor_parallelism_four_processes_match_one(tmp_path):
    for outcome in run_tasks({"strided": train_with_tensor_parallelism}, tmp_path, world=4)["strided"]:
        assert outcome.error is None
        torch.testing.assert_close(outcome.parameters, outcome.averages[0], rtol=1e-9, atol=1e-12)


def test_under_ddp_averages_in_bfloat16_are_rounded_alike(under_ddp):
    first, second = (outcome.averages for outcome in under_ddp["averages in bfloat16"])
    assert {average.dtype for level in first for average in level} == {torch.bfloat16}
    torch.testing.assert_close(first, second, rtol=0, atol=0)
