"""A store that is damaged, hostile, locked, out of space, or a file of another program: one sentence each."""

import errno
import json
import os
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from gradsurgery.lab.store import Store
from gradsurgery.lab.store import sqlite as database
from tests.lab.store.example_store import KEY, SPEC, error_sentence, fill_store


def overwrite_page(whole):
    return whole[:4096] + b"\xa5" * 4096 + whole[8192:]


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"These are my notes, and not a store.",
        lambda whole: b"These are my notes, and not a store.\n" * 500,
        lambda whole: whole[:20000],
        lambda whole: whole[:-4096],
        lambda whole: b"\0" * 100 + whole[100:],
        overwrite_page,
        lambda whole: whole[:-4096] + bytes(4096),
    ],
    ids=["note", "text", "cut", "page cut", "header", "page overwritten", "last page empty"],
)
def test_a_damaged_file_is_refused_and_left_alone(path, damage):
    damaged = damage(fill_store(path))
    path.write_bytes(damaged)
    sentence = error_sentence(lambda: Store(path))
    assert f"{path} is damaged or not a store (" in sentence
    assert "restore a backup" in sentence
    assert path.read_bytes() == damaged


def test_a_damaged_file_keeps_its_write_ahead_log(path, tmp_path):
    fill_store(path)
    with Store(path) as store:
        store.log(KEY, {"step": 99, "main_train": 1.0})
        (tmp_path / "copy").mkdir()
        copies = [tmp_path / "copy" / name for name in ("store.sqlite", "store.sqlite-wal")]
        for copy in copies:
            shutil.copy(tmp_path / copy.name, copy)
    copies[0].write_bytes(overwrite_page(copies[0].read_bytes()))
    before = [copy.read_bytes() for copy in copies]
    assert "is damaged" in error_sentence(lambda: Store(copies[0]))
    assert [copy.read_bytes() for copy in copies] == before


def test_damaged_json_is_reported(store, path):
    store.begin(SPEC, {})
    execute(path, "UPDATE runs SET info = '{\"jax\": '")
    assert f"{path} is damaged" in error_sentence(lambda: store.get(KEY))
    assert f"{path} is damaged" in error_sentence(lambda: store.finish(KEY))


def execute(path, statement, *values):
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.execute(statement, values)
    db.close()


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("settings", "[1, 2]", "settings is not a JSON object"),
        ("settings", "null", "settings is not a JSON object"),
        ("settings", '{"batch": [1]}', "settings.batch is [1], not str or int or float"),
        ("settings", b"\x00", "settings is b"),
        ("settings", "[" * 100_000, "settings is not JSON"),
        ("info", '"text"', "info is not a JSON object"),
        ("info", '{"commit": null}', "info.commit is None"),
        ("info", '{"samples": "{}"}', "samples must be a list of objects"),
        ("info", '{"samples": "[1]"}', "samples must be a list of objects"),
        ("info", '{"samples": "[{\\"source\\": \\"a\\"}]"}', "samples must be a list of objects"),
        ("info", '{"samples": 3}', "samples must be a list of objects"),
        ("info", '{"samples": "[{"}', "Expecting"),
        ("info", json.dumps({"samples": "[" * 100_000}), "samples are nested too deeply"),
        ("lam", "much", "lam is 'much', not int or float"),
        ("rho", b"0.1", "rho is b'0.1', not int or float"),
        ("status", "odd", "status is 'odd', not running, done, failed or stopped"),
        ("seed", "first", "seed is 'first', not int"),
        ("seed", 0.5, "seed is 0.5, not int"),
        ("method", b"bloop", "method is b'bloop', not str"),
    ],
)
def test_a_run_of_the_wrong_shape_is_reported(path, column, value, reason):
    fill_store(path, runs=1)
    execute(path, f"UPDATE runs SET {column} = ?", value)
    with Store(path) as store:
        sentence = error_sentence(lambda: store.select(status=None))
    assert f"{path} is damaged or not a store (run {KEY}: {reason}" in sentence


@pytest.mark.parametrize(("column", "value"), [("value", "2.5"), ("value", b"2.5"), ("step", "first"), ("name", b"a")])
def test_a_metric_of_the_wrong_shape_is_reported(path, column, value):
    fill_store(path, runs=1, steps=1)
    execute(path, f"UPDATE metrics SET {column} = ? WHERE name = 'main_train'", value)
    with Store(path) as store:
        assert f"run {KEY}: " in error_sentence(lambda: store.select(status=None))


def test_a_database_of_another_program_is_left_alone(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE runs (mine)")
    db.close()
    before = path.read_bytes()
    assert f"{path} is a database of another program" in error_sentence(lambda: Store(path))
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused(path):
    fill_store(path)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    sentence = error_sentence(lambda: Store(path))
    assert f"the store {path} has schema 99 of a newer gradsurgery, this one knows 2" in sentence
    assert "pip install --upgrade gradsurgery" in sentence


@pytest.mark.parametrize("below", ["file/store.sqlite", "file/deeper/store.sqlite"])
def test_a_path_below_a_file_is_refused(tmp_path, below):
    (tmp_path / "file").write_text("in the way")
    assert "a part of its path is a file: choose another path" in error_sentence(lambda: Store(tmp_path / below))


def test_a_folder_stands_for_the_store_in_it(tmp_path):
    for folder in (tmp_path, tmp_path / "new"):
        assert Store(folder).path == folder / "store.sqlite"


@pytest.mark.parametrize("locked", [".", "store.sqlite"])
def test_a_read_only_store_is_read_and_not_written(path, read_only, locked):
    before = fill_store(path)
    read_only(path.parent / locked)
    with Store(path) as store:
        assert store.is_read_only
        assert len(store.get(KEY).metrics) == 40
        assert [len(store.select(status=None)), store.problems()] == [3, ["lipschitz"]]
        for act in (lambda: store.begin(SPEC, {}), lambda: store.finish(KEY), lambda: store.edit(remove=[KEY])):
            assert f"no permission to write the store {path} and its folder" in error_sentence(act)
        assert [item.name for item in path.parent.iterdir()] == ["store.sqlite"], "reading leaves nothing behind"
    assert path.read_bytes() == before


def test_rows_that_are_only_in_the_log_of_a_read_only_store_are_read_or_reported(path, tmp_path, read_only):
    fill_store(path)
    copy = tmp_path / "copy" / "store.sqlite"
    copy.parent.mkdir()
    with Store(path) as store:
        store.log(KEY, {"step": 99, "main_train": 1.0})
        for name in ("store.sqlite", "store.sqlite-wal", "store.sqlite-shm"):
            shutil.copy(tmp_path / name, copy.with_name(name))
    read_only(copy)
    with Store(copy) as store:
        assert store.get(KEY).final["step"] == 99
        assert "no permission to write the store" in error_sentence(lambda: store.finish(KEY))


def test_a_log_that_cannot_be_read_without_writing_is_reported(path, read_only, monkeypatch):
    fill_store(path)
    read_only(path)

    def cannot_open(*_):
        raise sqlite_error(sqlite3.SQLITE_CANTOPEN)

    monkeypatch.setattr(database, "_connect", cannot_open)
    assert f"the last rows of the store {path} are in store.sqlite-wal" in error_sentence(lambda: Store(path))


def test_a_store_cannot_be_created_in_a_read_only_folder(tmp_path, read_only):
    read_only(tmp_path)
    path = tmp_path / "store.sqlite"
    assert f"no permission to write the store {path} and its folder" in error_sentence(lambda: Store(path))


def test_a_store_that_becomes_read_only_is_reported(store):
    store.begin(SPEC, {})
    store._connection.execute("PRAGMA query_only = 1")
    assert "no permission to write the store" in error_sentence(lambda: store.finish(KEY))
    assert store.get(KEY).status == "running"


def test_a_full_disk_is_reported_and_loses_nothing(store, path):
    store.begin(SPEC, {})
    store._connection.execute("PRAGMA max_page_count = 12")
    logged = 0

    def fill():
        nonlocal logged
        for step in range(1000):
            store.log(KEY, {"step": step} | {f"metric{number}": step / 3 for number in range(20)})
            logged = step + 1

    sentence = error_sentence(fill)
    assert f"no space is left for the store {path}, what it held before is safe" in sentence
    assert 0 < logged < 1000
    assert len(store.get(KEY).metrics) == logged
    store._connection.execute("PRAGMA max_page_count = 1000000")
    store.log(KEY, {"step": logged, "main_train": 1.0})
    assert len(store.get(KEY).metrics) == logged + 1


def test_a_disk_too_full_for_a_lease_is_reported(store, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    assert "no space is left for the store" in error_sentence(lambda: store.lease(KEY).__enter__())


def test_a_locked_store_is_reported_after_a_while_and_usable_later(store, path):
    store.begin(SPEC, {})
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert f"another process has locked the store {path} for more than 0.1 s" in error_sentence(
        lambda: store.finish(KEY)
    )
    assert "has locked the store" in error_sentence(lambda: Store(path, patience=0.1))
    assert store.get(KEY).status == "running"  # reading is not held up
    other.close()
    store.finish(KEY)
    assert store.get(KEY).status == "done"


def sqlite_error(code):
    error = sqlite3.OperationalError("simulated")
    error.sqlite_errorcode = code
    return error


def test_opening_is_retried_while_the_file_is_busy(path, monkeypatch):
    connect, busy = database._open, [sqlite_error(sqlite3.SQLITE_BUSY), sqlite_error(sqlite3.SQLITE_BUSY_RECOVERY)]

    def held_up(*arguments):
        if busy:
            raise busy.pop()
        return connect(*arguments)

    monkeypatch.setattr(database, "_open", held_up)
    with Store(path) as store:
        store.begin(SPEC, {})
    assert not busy


def test_a_disk_too_full_for_shared_memory_is_reported(path, monkeypatch):
    def full(*_):
        raise sqlite_error(sqlite3.SQLITE_IOERR_SHMSIZE)

    monkeypatch.setattr(database, "_open", full)
    assert "no space is left for the store" in error_sentence(lambda: Store(path).begin(SPEC, {}))


def test_a_metric_needs_a_run(store):
    store.begin(SPEC, {})
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        store._connection.execute("INSERT INTO metrics VALUES ('unknown', 0, 'main_train', 1.0)")


def test_a_seed_of_more_than_64_bits_is_refused(store):
    assert "cannot be used (Python int too large" in error_sentence(lambda: store.begin(replace(SPEC, seed=2**63), {}))


def test_a_closed_store_says_so(path):
    with Store(path) as store:
        pass
    store.close()
    assert f"the store {path} is closed" in error_sentence(store.select)


def test_a_store_from_before_a_fork_is_refused(store, monkeypatch):
    store.begin(SPEC, {})
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert "was opened before a fork: call Store(path) in each process" in error_sentence(store.select)
