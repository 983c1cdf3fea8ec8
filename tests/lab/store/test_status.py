"""What a store holds, while sweeps are in progress and after they were killed."""

from dataclasses import replace

import pytest

from gradsurgery.lab.store import Store
from gradsurgery.lab.store.plan import Plan, announce, read_plans
from gradsurgery.lab.store.status import read_status
from tests.lab.store.example_store import SPEC

RUNS = [replace(SPEC, seed=seed) for seed in range(6)]


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        for run, seconds in zip(RUNS[:2], (1.0, 3.0), strict=True):
            store.begin(run, {})
            store.finish(run.key, seconds=seconds)
        store.begin(RUNS[2], {})
        store.fail(RUNS[2].key, "OSError: full")
        store.begin(RUNS[3], {})
        yield store


def test_runs_are_counted_by_status(store, tmp_path):
    (status,) = read_status(tmp_path)
    assert (status.problem, status.scale) == ("lipschitz", "demo")
    assert +status.counts == {"done": 2, "failed": 1, "interrupted": 1}
    assert status.seconds == 2.0
    assert status.seconds_left is None


def test_a_sweep_in_progress_has_runs_in_training_and_runs_to_come(store, tmp_path):
    with announce(store, RUNS[3:]), store.lease(RUNS[3].key):
        (status,) = read_status(tmp_path)
    assert +status.counts == {"done": 2, "failed": 1, "running": 1, "waiting": 2}
    assert status.seconds_left == 2.0 * 2.5, "half of one run, and two more"
    assert read_status(tmp_path)[0].counts["interrupted"] == 1
    assert not list(tmp_path.glob("*.leases"))


def test_a_sweep_of_a_problem_without_runs_is_shown(store, tmp_path):
    with announce(store, [replace(SPEC, problem="mine")]):
        assert [(status.problem, status.counts.total()) for status in read_status(tmp_path)] == [
            ("lipschitz", 4),
            ("mine", 1),
        ]


def test_the_plan_of_a_killed_sweep_is_forgotten(store):
    sweep = announce(store, RUNS)
    sweep.__enter__()
    (left,) = store.path.with_name("store.sqlite.leases").glob("*.json")
    content = left.read_bytes()
    assert read_plans(store.path) == [Plan("lipschitz", "demo", tuple(run.key for run in RUNS))]
    sweep.__exit__(None, None, None)
    left.parent.mkdir()
    left.write_bytes(content)
    left.with_suffix(".lock").touch()  # nobody holds it
    assert read_plans(store.path) == []
    assert not left.parent.exists()


def test_a_read_only_store_has_no_runs_in_training(store, tmp_path, read_only):
    with store.lease(RUNS[3].key):
        read_only(tmp_path)
        assert read_status(tmp_path)[0].counts["interrupted"] == 1
