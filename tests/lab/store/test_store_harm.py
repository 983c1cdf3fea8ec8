"""A store in harm's way: damaged, locked, out of room, and of another program."""

import errno
import os
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from gradsurgery.lab.store import sqlite as database
from gradsurgery.lab.store.store import Store
from tests.lab.store.stored import KEY, SPEC, filled, refusal


def overwritten(whole):
    return whole[:4096] + b"\xa5" * 4096 + whole[8192:]


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"These are my notes, and not a store.",
        lambda whole: b"These are my notes, and not a store.\n" * 500,
        lambda whole: whole[:20000],
        lambda whole: whole[:-4096],
        lambda whole: b"\0" * 100 + whole[100:],
        overwritten,
        lambda whole: whole[:-4096] + bytes(4096),
    ],
    ids=["note", "text", "cut", "page cut", "header", "page overwritten", "last page empty"],
)
def test_a_damaged_file_is_told_and_left_as_it_is(path, damage):
    damaged = damage(filled(path))
    path.write_bytes(damaged)
    sentence = refusal(lambda: Store(path))
    assert f"{path} is damaged or not a store (" in sentence
    assert "put back a copy" in sentence
    assert path.read_bytes() == damaged


def test_a_damaged_file_keeps_the_log_that_belongs_to_it(path, tmp_path):
    filled(path)
    with Store(path) as store:
        store.log(KEY, {"step": 99, "main_train": 1.0})
        (tmp_path / "copy").mkdir()
        copies = [tmp_path / "copy" / name for name in ("store.db", "store.db-wal")]
        for copy in copies:
            shutil.copy(tmp_path / copy.name, copy)
    copies[0].write_bytes(overwritten(copies[0].read_bytes()))
    before = [copy.read_bytes() for copy in copies]
    assert "is damaged" in refusal(lambda: Store(copies[0]))
    assert [copy.read_bytes() for copy in copies] == before


def test_damage_that_shows_only_when_read_is_told(store, path):
    store.begin(SPEC, {})
    with sqlite3.connect(path) as db:
        db.execute("UPDATE runs SET info = '{\"jax\": '")
    db.close()
    assert f"{path} is damaged" in refusal(lambda: store.get(KEY))


def test_a_database_of_another_program_is_left_alone(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE runs (mine)")
    db.close()
    before = path.read_bytes()
    assert f"{path} is a database of another program" in refusal(lambda: Store(path))
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused(path):
    filled(path)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    sentence = refusal(lambda: Store(path))
    assert f"the store {path} has schema 99 of a newer gradsurgery, this one knows 1" in sentence
    assert "pip install --upgrade gradsurgery" in sentence


@pytest.mark.parametrize("below", ["file/store.db", "file/deeper/store.db"])
def test_a_path_below_a_file_is_told(tmp_path, below):
    (tmp_path / "file").write_text("in the way")
    assert "one of its folders is a file: choose another path" in refusal(lambda: Store(tmp_path / below))


def test_a_folder_is_no_store(tmp_path):
    assert f"the store {tmp_path} cannot be used (Is a directory)" in refusal(lambda: Store(tmp_path))


@pytest.mark.parametrize("locked", [".", "store.db"])
def test_no_permission_is_told(path, monkeypatch, locked):
    before = filled(path)
    allowed = os.access
    place = path.parent / locked
    monkeypatch.setattr(os, "access", lambda asked, mode: Path(asked) != place and allowed(asked, mode))
    assert f"no permission to write the store {path} and beside it" in refusal(lambda: Store(path))
    assert path.read_bytes() == before


def test_a_store_that_becomes_read_only_is_told(store):
    store.begin(SPEC, {})
    store._connection.execute("PRAGMA query_only = 1")
    assert "no permission to write the store" in refusal(lambda: store.finish(KEY))
    assert store.get(KEY).status == "running"


def test_a_full_disk_is_told_and_what_was_stored_stays(store, path):
    store.begin(SPEC, {})
    store._connection.execute("PRAGMA max_page_count = 12")
    logged = 0

    def fill():
        nonlocal logged
        for step in range(1000):
            store.log(KEY, {"step": step} | {f"metric{number}": step / 3 for number in range(20)})
            logged = step + 1

    sentence = refusal(fill)
    assert f"no space is left for the store {path}, what it held before is safe" in sentence
    assert 0 < logged < 1000
    assert len(store.get(KEY).metrics) == logged
    store._connection.execute("PRAGMA max_page_count = 1000000")
    store.log(KEY, {"step": logged, "main_train": 1.0})
    assert len(store.get(KEY).metrics) == logged + 1


def test_a_disk_too_full_for_a_claim_is_told(store, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    assert "no space is left for the store" in refusal(lambda: store.claim(KEY).__enter__())


def test_a_locked_store_is_told_after_a_while_and_goes_on_later(store, path):
    store.begin(SPEC, {})
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert f"another process has locked the store {path} for more than 0.1 s" in refusal(lambda: store.finish(KEY))
    assert "has locked the store" in refusal(lambda: Store(path, patience=0.1))
    assert store.get(KEY).status == "running"  # reading is not held up
    other.close()
    store.finish(KEY)
    assert store.get(KEY).status == "done"


def saying(code):
    error = sqlite3.OperationalError("simulated")
    error.sqlite_errorcode = code
    return error


def test_opening_is_tried_again_while_others_are_in_the_way(path, monkeypatch):
    connect, busy = database._connect, [saying(sqlite3.SQLITE_BUSY), saying(sqlite3.SQLITE_BUSY_RECOVERY)]

    def held_up(*arguments):
        if busy:
            raise busy.pop()
        return connect(*arguments)

    monkeypatch.setattr(database, "_connect", held_up)
    with Store(path) as store:
        assert store.select() == []
    assert not busy


def test_a_disk_too_full_for_the_memory_that_processes_share_is_told(path, monkeypatch):
    def full(*_):
        raise saying(sqlite3.SQLITE_IOERR_SHMSIZE)

    monkeypatch.setattr(database, "_connect", full)
    assert "no space is left for the store" in refusal(lambda: Store(path))


def test_no_metric_can_be_without_its_run(store):
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        store._connection.execute("INSERT INTO metrics VALUES ('unknown', 0, 'main_train', 1.0)")


def test_a_number_that_does_not_fit_is_told(store):
    assert "cannot be used (Python int too large" in refusal(lambda: store.begin(replace(SPEC, seed=2**63), {}))


def test_a_closed_store_says_so(path):
    with Store(path) as store:
        pass
    store.close()
    assert f"the store {path} is closed" in refusal(store.select)


def test_a_store_from_before_a_fork_is_refused(store, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert "was opened before a fork: call Store(path) in each process" in refusal(store.select)
