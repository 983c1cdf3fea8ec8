"""A store that is shared by processes and threads, some of which are killed."""

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from gradsurgery.lab.store import Store, StoreError
from tests.lab.store.example_store import KEY, SPEC, fill_store


@pytest.fixture
def start():
    """A function that starts processes, which wait for ``go``; all are ended after the test."""
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


def run_together(processes):
    """Let the processes go at the same time, and return what each prints."""
    for process in processes:
        go(process)
    printed = [process.communicate(timeout=600)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return printed


HEAD = """
import sys, time
from dataclasses import replace
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.store import Store, StoreError
path, me = sys.argv[1], int(sys.argv[2])
spec = RunSpec("lipschitz", "demo", "bloop", lam=0.1, rho=0.01, seed=0, settings={"batch": 64})
print("ready", flush=True)
sys.stdin.readline()
"""

WRITE = """
for step in range(60):
    with Store(path) as store:  # reopened each time: the first and the last to have the file open change it most
        store.begin(spec, {})
        store.log(spec.key, {"step": 2 * step + me, "main_train": step / 3, "who": me})
"""


def test_two_processes_that_create_and_write_a_store_lose_nothing(path, start):
    run_together([start(WRITE, path, 0), start(WRITE, path, 1)])
    with Store(path) as store:
        rows = store.get(KEY).metrics
    assert list(rows) == [{"step": step, "main_train": step // 2 / 3, "who": step % 2} for step in range(120)]


TRAIN = """
with Store(path) as store:
    for seed in range(40):
        run = replace(spec, seed=seed)
        with store.lease(run.key) as leased:
            if leased and store.begin(run, {}).status != "done":
                print(seed, flush=True)
                time.sleep(0.002)
                store.finish(run.key)
"""


def test_two_processes_never_train_the_same_run(path, start):
    printed = run_together([start(TRAIN, path, 0), start(TRAIN, path, 1)])
    assert sorted(int(seed) for seeds in printed for seed in seeds) == list(range(40))
    with Store(path) as store:
        assert [record.spec.seed for record in store.select()] == list(range(40))


def test_a_run_is_leased_once_and_can_be_leased_again_later(store, path):
    with Store(path) as other, store.lease(KEY) as first, store.lease(KEY) as again, other.lease(KEY) as second:
        assert (first, again, second) == (True, False, False)
        with other.lease("another") as third:
            assert third
    with other.lease(KEY) as later:
        assert later


def test_a_lease_is_taken_when_another_process_has_just_removed_the_folder(store, monkeypatch):
    """``mkdir`` finds the folder, which is gone when it checks that it is one."""
    make, gone = os.mkdir, ["store.sqlite.leases"] * 2

    def mkdir(path, *mode):
        if os.path.basename(path) in gone:
            gone.pop()
            raise FileExistsError(errno.EEXIST, "File exists", path)
        make(path, *mode)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with store.lease(KEY) as leased:
        assert leased
    assert not gone


def test_a_file_in_place_of_the_folder_of_leases_is_one_sentence(store):
    store.path.with_name("store.sqlite.leases").touch()
    with pytest.raises(StoreError, match="a part of its path is a file"), store.lease(KEY):
        pass


def test_a_lease_ends_with_an_error(store):
    with pytest.raises(ZeroDivisionError), store.lease(KEY):
        raise ZeroDivisionError
    with store.lease(KEY) as leased:
        assert leased


def test_threads_share_a_store(store):
    store.begin(SPEC, {})
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda step: store.log(KEY, {"step": step, "a": 1.0, "b": 2.0}), range(100)))
    assert list(store.get(KEY).metrics) == [{"step": step, "a": 1.0, "b": 2.0} for step in range(100)]


LOG = """
with Store(path) as store, store.lease(spec.key) as leased:
    assert leased
    store.begin(spec, {})
    for step in range(100_000):
        store.log(spec.key, {"step": step} | {f"metric{number}": step / 3 for number in range(100)})
        print(step, flush=True)
"""


@pytest.mark.parametrize("rows", [1, 20, 150])
def test_kill_9_while_logging_releases_the_lease_and_keeps_every_row(path, start, rows):
    process = start(LOG, path, 0)
    go(process)
    printed = [process.stdout.readline() for _ in range(rows)]
    with Store(path) as store:
        with store.lease(KEY) as leased:
            assert not leased
        process.kill()
        printed += process.stdout.readlines()
        process.communicate()
        with store.lease(KEY) as leased:
            assert leased
            metrics = store.begin(SPEC, {}).metrics
            assert len(metrics) - len(printed) in (0, 1)  # it may be killed before it prints the last row
            for step, row in enumerate(metrics):
                assert row == {"step": step} | {f"metric{number}": step / 3 for number in range(100)}
            store.log(KEY, {"step": len(metrics), "main_train": 1.0})
    with Store(path) as store:
        assert len(store.get(KEY).metrics) == len(metrics) + 1


def test_a_process_killed_while_it_created_the_store_does_no_harm(tmp_path, path):
    half = tmp_path / "half.sqlite"
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
    fill_store(path)
    with Store(path) as store:
        assert len(store.get(KEY).metrics) == 40
