"""The store: exact, shared by processes, and whole whatever happens to them or to the disk."""

import errno
import itertools
import math
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsurgery.lab import database
from gradsurgery.lab.database import StoreError
from gradsurgery.lab.record import RunSpec
from gradsurgery.lab.store import Store

SPEC = RunSpec("lipschitz", "demo", "bloop", lam=0.1, rho=0.01, seed=0, settings={"batch": 64})
KEY = SPEC.key
SEEDS = itertools.count()

settings = st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False) | st.text() | st.booleans())
weights = st.none() | st.integers(0, 9) | st.floats(allow_nan=False)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def store(path):
    with Store(path, patience=0.1) as store:
        yield store


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """One store for all the examples that hypothesis draws."""
    with Store(tmp_path_factory.mktemp("lasting") / "store.db") as store:
        yield store


def filled(path, runs=3, steps=40):
    """A store at rest that takes up several pages."""
    with Store(path) as store:
        for seed in range(runs):
            run = replace(SPEC, seed=seed)
            store.begin(run, {"commit": "abc"})
            for step in range(steps):
                store.log(run.key, {"step": step, "main_train": step / 3, "aux_train": 1.0})
    return path.read_bytes()


def refusal(act):
    """What a StoreError says, which has to be one sentence."""
    with pytest.raises(StoreError) as caught:
        act()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert ". " not in sentence
    return sentence


@given(st.dictionaries(st.text(min_size=1).filter(lambda name: name != "step"), st.floats(), min_size=1))
def test_every_float_comes_back_bit_for_bit(lasting, values):
    run = replace(SPEC, seed=next(SEEDS))
    lasting.begin(run, {})
    lasting.log(run.key, {"step": 3, **values})
    (row,) = lasting.get(run.key).metrics
    assert row.keys() == {"step", *values}
    for name, value in values.items():
        assert math.isnan(row[name]) if math.isnan(value) else struct.pack("d", row[name]) == struct.pack("d", value)


@given(weights, weights, st.integers(-(2**63), 2**63 - 1), settings)
def test_every_spec_comes_back_with_its_key(lasting, lam, rho, seed, settings):
    spec = replace(SPEC, lam=lam, rho=rho, seed=seed, settings=settings)
    lasting.begin(spec, {"jax": "0.10"})
    record = lasting.get(spec.key)
    assert record.spec == spec
    assert record.spec.key == spec.key
    assert (record.status, record.info, record.metrics) == ("running", {"jax": "0.10"}, ())


def test_what_is_stored_is_there_when_the_store_is_opened_again(path):
    filled(path)
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


def test_a_run_that_is_done_stays_as_it_is(store):
    store.begin(SPEC, {"commit": "abc"})
    store.finish(KEY, seconds=1.5)
    record = store.begin(SPEC, {"commit": "def"})
    assert (record.status, record.info) == ("done", {"commit": "abc", "seconds": 1.5})


def test_a_step_logged_again_is_replaced(store):
    store.begin(SPEC, {})
    store.log(KEY, {"step": 5, "main_train": 2.0, "aux_train": 3.0})
    store.log(KEY, {"step": 5, "main_train": 1.0})
    assert store.get(KEY).metrics == ({"step": 5, "main_train": 1.0, "aux_train": 3.0},)


@pytest.mark.parametrize("act", [Store.secure, lambda store: store.finish(KEY)], ids=["secure", "finish"])
def test_the_disk_has_it_before_a_checkpoint_and_at_the_end(store, act):
    store.begin(SPEC, {})
    told = []
    store._connection.set_trace_callback(told.append)
    act(store)
    assert told[0] == "PRAGMA synchronous = FULL"
    assert any(words.startswith(("UPDATE", "PRAGMA user_version =")) for words in told)  # else SQLite has nothing to do
    assert told[-1] == "COMMIT"
    store.log(KEY, {"step": 0, "main_train": 1.0})
    assert "PRAGMA synchronous = NORMAL" in told


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


@pytest.mark.parametrize("row", [{"main_train": 1.0}, {"step": 0.5, "main_train": 1.0}, {"step": 3}])
def test_a_row_without_a_step_or_without_metrics_is_refused(store, row):
    store.begin(SPEC, {})
    with pytest.raises(ValueError, match=r"a whole number as its step, and some metrics, but got \{"):
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
def test_a_run_has_to_be_begun(store, act):
    assert f"has no run {KEY}: enter it with begin" in refusal(lambda: act(store))


def test_a_call_that_fails_half_way_leaves_nothing(store):
    store.begin(SPEC, {})
    assert "cannot be used" in refusal(lambda: store.log(KEY, {"step": 0, "a": 1.0, None: 2.0}))
    assert store.get(KEY).metrics == ()


@pytest.fixture
def start():
    """Starts processes that wait for a word, and leaves none behind."""
    processes = []

    def start(program, *arguments):
        command = [sys.executable, "-c", HEAD + program, *map(str, arguments)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


def go(process):
    process.stdin.write("go\n")
    process.stdin.flush()


def together(processes):
    """What they print who start on one word."""
    for process in processes:
        go(process)
    printed = [process.communicate(timeout=60)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return printed


HEAD = """
import sys, time
from dataclasses import replace
from gradsurgery.lab.database import StoreError
from gradsurgery.lab.record import RunSpec
from gradsurgery.lab.store import Store
path, me = sys.argv[1], int(sys.argv[2])
spec = RunSpec("lipschitz", "demo", "bloop", lam=0.1, rho=0.01, seed=0, settings={"batch": 64})
print("ready", flush=True)
sys.stdin.readline()
"""

WRITE = """
for step in range(60):
    with Store(path) as store:  # opened anew each time: the first and the last to have it open do most to the file
        store.begin(spec, {})
        store.log(spec.key, {"step": 2 * step + me, "main_train": step / 3, "who": me})
"""


def test_two_processes_that_make_and_write_a_store_at_once_lose_nothing(path, start):
    together([start(WRITE, path, 0), start(WRITE, path, 1)])
    with Store(path) as store:
        rows = store.get(KEY).metrics
    assert list(rows) == [{"step": step, "main_train": step // 2 / 3, "who": step % 2} for step in range(120)]


TRAIN = """
with Store(path) as store:
    for seed in range(40):
        run = replace(spec, seed=seed)
        with store.claim(run.key) as mine:
            if mine and store.begin(run, {}).status != "done":
                print(seed, flush=True)
                time.sleep(0.002)
                store.finish(run.key)
"""


def test_two_processes_never_train_the_same_run(path, start):
    printed = together([start(TRAIN, path, 0), start(TRAIN, path, 1)])
    assert sorted(int(seed) for one in printed for seed in one) == list(range(40))
    with Store(path) as store:
        assert [record.spec.seed for record in store.select()] == list(range(40))


def test_a_claim_is_held_once_and_free_again(store, path):
    with Store(path) as other, store.claim(KEY) as first, store.claim(KEY) as again, other.claim(KEY) as second:
        assert (first, again, second) == (True, False, False)
        with other.claim("another") as third:
            assert third
    with other.claim(KEY) as later:
        assert later


def test_a_claim_ends_with_an_error(store):
    with pytest.raises(ZeroDivisionError), store.claim(KEY):
        raise ZeroDivisionError
    with store.claim(KEY) as mine:
        assert mine


def test_threads_share_a_store(store):
    store.begin(SPEC, {})
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda step: store.log(KEY, {"step": step, "a": 1.0, "b": 2.0}), range(100)))
    assert list(store.get(KEY).metrics) == [{"step": step, "a": 1.0, "b": 2.0} for step in range(100)]


LOG = """
with Store(path) as store, store.claim(spec.key) as mine:
    assert mine
    store.begin(spec, {})
    for step in range(100_000):
        store.log(spec.key, {"step": step} | {f"metric{number}": step / 3 for number in range(100)})
        print(step, flush=True)
"""


@pytest.mark.parametrize("rows", [1, 20, 150])
def test_kill_9_in_mid_logging_frees_the_claim_and_keeps_what_was_logged(path, start, rows):
    process = start(LOG, path, 0)
    go(process)
    printed = [process.stdout.readline() for _ in range(rows)]
    with Store(path) as store:
        with store.claim(KEY) as mine:
            assert not mine
        process.kill()
        printed += process.stdout.readlines()
        process.communicate()
        with store.claim(KEY) as mine:
            assert mine
            metrics = store.begin(SPEC, {}).metrics
            assert len(metrics) - len(printed) in (0, 1)  # the last it may have had no time to print
            for step, row in enumerate(metrics):
                assert row == {"step": step} | {f"metric{number}": step / 3 for number in range(100)}
            store.log(KEY, {"step": len(metrics), "main_train": 1.0})
    with Store(path) as store:
        assert len(store.get(KEY).metrics) == len(metrics) + 1


def test_a_process_killed_while_it_made_the_store_is_no_obstacle(tmp_path, path):
    half = tmp_path / "half.db"
    db = sqlite3.connect(half, isolation_level=None)
    db.execute("PRAGMA user_version = 0")
    db.execute("PRAGMA cache_size = 1")
    db.execute("BEGIN")
    db.execute("CREATE TABLE half (made)")
    db.executemany("INSERT INTO half VALUES (?)", [("x" * 500,)] * 500)
    shutil.copy(half, path)
    shutil.copy(f"{half}-journal", f"{path}-journal")
    db.close()
    assert path.stat().st_size > 0
    filled(path)
    with Store(path) as store:
        assert len(store.get(KEY).metrics) == 40


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
