"""Deleting runs, renaming a problem and merging stores, without losing anything else."""

import math
from dataclasses import replace

import pytest

import gradsurgery as gs
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.store import Store
from gradsurgery.lab.store.edit import Merged, checkpoint_folder, delete_runs, merge_store, rename_problem
from gradsurgery.lab.store.select import select_runs
from tests.lab.store.example_store import SPEC

MINE = replace(SPEC, problem="mine")


def fill(folder, *runs, status="done", loss=1.0):
    with Store(folder / "store.sqlite") as store:
        for run in runs:
            store.begin(run, {"commit": "abc"})
            store.log(run.key, {"step": 3, "main_train": loss, "aux_train": math.nan})
            if status == "done":
                store.finish(run.key, seconds=2.5)
            elif status == "failed":
                store.fail(run.key, "OSError: full")


def records_of(folder):
    with Store(folder / "store.sqlite") as store:
        return {record.spec.key: record for record in store.select(status=None)}


def test_deleted_runs_are_gone_with_their_checkpoints_and_others_are_not(tmp_path):
    first, second = MINE, replace(MINE, seed=1)
    fill(tmp_path, first, second)
    for run in (first, second):
        checkpoint_folder(tmp_path, run.key).mkdir(parents=True)
    delete_runs(tmp_path, [records_of(tmp_path)[first.key]])
    assert list(records_of(tmp_path)) == [second.key]
    assert records_of(tmp_path)[second.key].final["main_train"] == 1.0
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [second.key]


def test_the_log_of_a_deleted_run_is_gone_and_no_other_file(tmp_path):
    (tmp_path / "logs").mkdir()
    for name in ("logs/mine.log", "logs/other.log", "mine.log"):
        (tmp_path / name).touch()
    with Store(tmp_path) as store:
        store.begin(MINE, {"log": "../mine.log"})
    delete_runs(tmp_path, list(records_of(tmp_path).values()))
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.log")) == ["logs/other.log", "mine.log"]


def test_a_run_in_training_is_neither_deleted_nor_renamed(tmp_path):
    fill(tmp_path, MINE, status="running")
    records = list(records_of(tmp_path).values())
    with Store(tmp_path) as store, store.lease(MINE.key):
        with pytest.raises(UserError, match="got 1 of 1 in training"):
            delete_runs(tmp_path, records)
        with pytest.raises(UserError, match="got 1 of 1 in training"):
            rename_problem(tmp_path, records, "other")
    assert len(records_of(tmp_path)) == 1


def test_a_renamed_problem_keeps_all_that_is_recorded(tmp_path):
    lams = (0.1, gs.relative(0.3), None)
    runs = [replace(MINE, lam=lam) for lam in lams]
    fill(tmp_path, *runs)
    fill(tmp_path, replace(MINE, seed=7), status="running")
    before = records_of(tmp_path)
    checkpoint_folder(tmp_path, replace(MINE, seed=7).key).mkdir(parents=True)
    rename_problem(tmp_path, list(before.values()), "new/name")
    after = records_of(tmp_path)
    expected = [replace(record, spec=replace(record.spec, problem="new/name")) for record in before.values()]
    assert repr(after) == repr({record.spec.key: record for record in expected})
    assert checkpoint_folder(tmp_path, replace(MINE, seed=7, problem="new/name").key).is_dir()
    assert len(select_runs(tmp_path, "new/name")) == 4


def test_renaming_to_a_problem_with_the_same_runs_is_refused(tmp_path):
    fill(tmp_path, MINE, replace(MINE, problem="other"))
    before = records_of(tmp_path)
    with pytest.raises(UserError, match="other has 1 of these 1 runs already"):
        rename_problem(tmp_path, [before[MINE.key]], "other")
    with pytest.raises(UserError, match="there is no scale 'large'"):
        rename_problem(tmp_path, [replace(before[MINE.key], spec=replace(MINE, scale="large"))], "lipschitz")
    assert repr(records_of(tmp_path)) == repr(before)


def test_merging_adds_what_is_missing_and_says_what_became_of_the_rest(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    same, differs, failed_here, failed_there, new, unfinished = (replace(MINE, seed=seed) for seed in range(6))
    fill(ours, same, differs, failed_there)
    fill(ours, failed_here, status="failed")
    fill(theirs, same, failed_here, new)
    fill(theirs, differs, loss=2.0)
    fill(theirs, failed_there, status="failed")
    fill(theirs, unfinished, status="running")
    before, source = records_of(ours), records_of(theirs)
    assert merge_store(ours, theirs) == Merged(added=1, replaced=1, equal=2, different=1, unfinished=1, mixed=())
    kept = [before[run.key] for run in (same, differs)]
    kept += [source[failed_here.key], before[failed_there.key], source[new.key]]
    assert repr(records_of(ours)) == repr({record.spec.key: record for record in kept})
    assert repr(records_of(theirs)) == repr(source)
    assert merge_store(ours, theirs) == Merged(added=0, replaced=0, equal=4, different=1, unfinished=1, mixed=())


def test_merging_runs_of_different_code_names_the_problem(tmp_path):
    for name, code in (("ours", "a"), ("theirs", "b")):
        with Store(tmp_path / name) as store:
            for run in (replace(MINE, seed=len(name)), replace(SPEC, method=name)):
                store.begin(run, {"code": code})
                store.finish(run.key)
    assert merge_store(tmp_path / "ours", tmp_path / "theirs").mixed == ("mine",)


@pytest.mark.parametrize("name", ["new", "merged.2024"])
def test_merging_into_a_new_folder_copies_a_store(tmp_path, name):
    fill(tmp_path / "old", MINE)
    assert merge_store(tmp_path / name, tmp_path / "old").added == 1
    assert (tmp_path / name / "store.sqlite").is_file()
    assert repr(records_of(tmp_path / name)) == repr(records_of(tmp_path / "old"))


def test_a_store_is_not_merged_into_itself_or_from_nowhere(tmp_path):
    fill(tmp_path, MINE)
    (tmp_path / "below").mkdir()
    with pytest.raises(UserError, match="cannot be merged into itself"):
        merge_store(tmp_path, tmp_path / "below" / "..")
    with pytest.raises(UserError, match="there is no store in"):
        merge_store(tmp_path, tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["", " "])
def test_a_problem_is_not_renamed_to_nothing(tmp_path, name):
    fill(tmp_path, MINE)
    with pytest.raises(UserError, match="must not be empty; got"):
        rename_problem(tmp_path, list(records_of(tmp_path).values()), name)
    assert list(records_of(tmp_path)) == [MINE.key]
