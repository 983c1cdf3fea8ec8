"""The store returns exactly what was stored, in order."""

import itertools
import math
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.store import Store
from tests.lab.store.example_store import KEY, SPEC, error_sentence, fill_store

SEEDS = itertools.count()

settings = st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False) | st.text() | st.booleans())
weights = st.none() | st.integers(0, 9) | st.floats(allow_nan=False)


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory):
    """One store for all examples of hypothesis."""
    with Store(tmp_path_factory.mktemp("shared") / "store.sqlite") as store:
        yield store


@given(st.dictionaries(st.text(min_size=1).filter(lambda name: name != "step"), st.floats(), min_size=1))
def test_every_float_comes_back_bit_for_bit(shared_store, values):
    run = replace(SPEC, seed=next(SEEDS))
    shared_store.begin(run, {})
    shared_store.log(run.key, {"step": 3, **values})
    (row,) = shared_store.get(run.key).metrics
    assert row.keys() == {"step", *values}
    for name, value in values.items():
        assert math.isnan(row[name]) if math.isnan(value) else struct.pack("d", row[name]) == struct.pack("d", value)


@given(weights, weights, st.integers(-(2**63), 2**63 - 1), settings)
def test_every_spec_comes_back_with_its_key(shared_store, lam, rho, seed, settings):
    spec = replace(SPEC, lam=lam, rho=rho, seed=seed, settings=settings)
    shared_store.begin(spec, {"jax": "0.10"})
    record = shared_store.get(spec.key)
    assert record.spec == spec
    assert record.spec.key == spec.key
    assert (record.status, record.info, record.metrics) == ("running", {"jax": "0.10"}, ())


def test_runs_survive_closing_and_opening(path):
    fill_store(path)
    with Store(path) as store:
        assert [len(record.metrics) for record in store.select(status="running")] == [40, 40, 40]
        assert store.get(KEY).final == {"step": 39, "main_train": 13.0, "aux_train": 1.0}
        assert store.get("another") is None


def test_a_run_begun_twice_keeps_its_metrics(store):
    store.begin(SPEC, {"jax": "0.9", "commit": "abc"})
    store.log(KEY, {"step": 0, "main_train": 2.0})
    record = store.begin(SPEC, {"jax": "0.10"})
    assert record.metrics == ({"step": 0, "main_train": 2.0},)
    assert record.info == {"jax": "0.10", "commit": "abc"}
    assert store.select(status=None) == [record]


def test_a_failed_run_says_why_until_it_runs_again(store):
    store.begin(SPEC, {"commit": "abc"})
    store.log(KEY, {"step": 0, "main_train": 2.0})
    store.fail(KEY, "main_train is not finite")
    failed = store.get(KEY)
    assert (failed.status, failed.info["reason"]) == ("failed", "main_train is not finite")
    again = store.begin(SPEC, {})
    assert (again.status, again.info, again.metrics) == ("running", {"commit": "abc"}, failed.metrics)


def test_begin_leaves_a_done_run_alone(store):
    store.begin(SPEC, {"commit": "abc"})
    store.finish(KEY, seconds=1.5)
    record = store.begin(SPEC, {"commit": "def"})
    assert (record.status, record.info) == ("done", {"commit": "abc", "seconds": 1.5})


def test_a_step_logged_again_is_replaced(store):
    store.begin(SPEC, {})
    store.log(KEY, {"step": 5, "main_train": 2.0, "aux_train": 3.0})
    store.log(KEY, {"step": 5, "main_train": 1.0})
    assert store.get(KEY).metrics == ({"step": 5, "main_train": 1.0, "aux_train": 3.0},)


@pytest.mark.parametrize("act", [Store.flush_to_disk, lambda store: store.finish(KEY)], ids=["flush_to_disk", "finish"])
def test_flush_to_disk_and_finish_wait_for_the_disk(store, act):
    store.begin(SPEC, {})
    statements = []
    store._connection.set_trace_callback(statements.append)
    act(store)
    assert statements[0] == "PRAGMA synchronous = FULL"
    assert any(
        words.startswith(("UPDATE", "PRAGMA user_version =")) for words in statements
    )  # SQLite flushes writes only
    assert statements[-1] == "COMMIT"
    store.log(KEY, {"step": 0, "main_train": 1.0})
    assert "PRAGMA synchronous = NORMAL" in statements


def test_select_filters_and_orders(store):
    specs = [
        RunSpec("conditioning", "demo", "mixed", 0.5, None, 0),
        RunSpec("lipschitz", "demo", "bloop", 0.1, 0.01, 0),
        RunSpec("lipschitz", "demo", "bloop", 0.1, 0.01, 1),
        RunSpec("lipschitz", "demo", "bloop", 0.1, 0.1, 0),
        RunSpec("lipschitz", "demo", "bloop", 2, 0.01, 0),
        RunSpec("lipschitz", "demo", "bloop", 10.0, 0.01, 0),
        RunSpec("lipschitz", "demo", "mgda", None, None, 0),
        RunSpec("lipschitz", "laptop", "bloop", 0.1, 0.01, 0),
    ]
    for spec in sorted(specs, key=lambda spec: spec.key):
        store.begin(spec, {})
        store.finish(spec.key)
    store.begin(replace(SPEC, seed=7), {})
    assert [record.spec for record in store.select()] == specs
    assert [record.spec for record in store.select("lipschitz", "demo")] == specs[1:7]
    assert [record.spec for record in store.select(scale="laptop")] == specs[7:]
    assert [record.spec.seed for record in store.select(status="running")] == [7]
    assert len(store.select(status=None)) == 9


@pytest.mark.parametrize(
    "row", [{"main_train": 1.0}, {"step": 0.5, "main_train": 1.0}, {"step": 2**63, "main_train": 1.0}, {"step": 3}]
)
def test_a_row_without_a_step_or_without_metrics_is_refused(store, row):
    store.begin(SPEC, {})
    with pytest.raises(ValueError, match=r"a whole number below 2\*\*63 as its step, and at least one metric; got \{"):
        store.log(KEY, row)


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.log(KEY, {"step": 0, "main_train": 1.0}),
        lambda store: store.finish(KEY),
        lambda store: store.fail(KEY, "why"),
    ],
    ids=["log", "finish", "fail"],
)
def test_a_run_needs_begin_first(store, act):
    assert f"has no run {KEY}: call begin" in error_sentence(lambda: act(store))


def test_a_call_that_fails_changes_nothing(store):
    store.begin(SPEC, {})
    assert "cannot be used" in error_sentence(lambda: store.log(KEY, {"step": 0, "a": 1.0, None: 2.0}))
    assert store.get(KEY).metrics == ()


def test_reading_a_store_that_does_not_exist_creates_nothing(tmp_path):
    with Store(tmp_path / "new" / "store.sqlite") as store:
        assert store.get(KEY) is None
        assert store.select() == []
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_another_process_creates_meanwhile_is_read(path):
    with Store(path) as store:
        assert store.select(status=None) == []
        fill_store(path)
        assert len(store.select(status=None)) == 3
