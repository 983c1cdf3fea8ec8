"""Several processes that train one run together; as real processes, through the command line."""

import socket
import subprocess
import sys
import time

import pytest

from gradsurgery.lab.cli import main
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.store import Store
from gradsurgery.lab.train.multihost import broadcast_from_leader, is_leader, join

IMAGES = ["train_images=128", "epochs=8", "rows_per_epoch=1", "evaluated=64", "blocks=1", "width=4"]
TEXT = ["steps=6", "rows=3", "evaluated=2"]


def sweep_command(name, settings, folder):
    changes = [part for setting in settings for part in ("--set", setting)]
    grid = ["--methods", "bloop", "--lams", "0.3", "--rhos", "0.1"]
    return ["sweep", name, *grid, *changes, "--checkpoint-every", "0", "--folder", str(folder)]


def free_port():
    with socket.socket() as server:
        server.bind(("localhost", 0))
        return server.getsockname()[1]


def start_two(command):
    """Start two processes that train together."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, "-m", "gradsurgery.lab.cli", *command, "--process", f"{index}/2@localhost:{port}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]


def run_two(command):
    """What two processes print that train together, the leader first."""
    processes = start_two(command)
    printed = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], printed
    return [out for out, _ in printed]


def assert_same_as_one_process(name, settings, folder, single_folder):
    assert main(sweep_command(name, settings, single_folder)) == 0
    metrics = []
    for place in (folder, single_folder):
        with Store(place / "store.sqlite") as store:
            records = sorted(store.select(name), key=lambda record: record.spec.key)
        assert [record.status for record in records] == ["done", "done"]
        metrics.append([row for record in records for row in record.metrics])
    for row, expected in zip(*metrics, strict=True):
        assert row == pytest.approx(expected, rel=2e-3, abs=2e-3)


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path):
    command = sweep_command("language", TEXT, tmp_path / "two")
    leader, other = run_two(command)
    assert "[1/2] bloop" in leader  # main alone is the second run
    assert "report:" in leader
    assert "report:" not in other
    assert_same_as_one_process("language", TEXT, tmp_path / "two", tmp_path / "one")
    leader, _ = run_two(command)
    assert "(in the store)" in leader


@pytest.mark.slow
def test_two_processes_resume_after_both_are_killed(tmp_path):
    command = sweep_command("imagenet-cifar10", IMAGES, tmp_path / "two")
    processes = start_two(command)
    while not any((tmp_path / "two").glob("checkpoints/*/[0-9]")):
        assert processes[0].poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    for process in processes:
        process.kill()
        process.communicate()
    assert any((tmp_path / "two").glob("checkpoints/*/[0-9]"))
    run_two(command)
    assert_same_as_one_process("imagenet-cifar10", IMAGES, tmp_path / "two", tmp_path / "one")
    assert not any((tmp_path / "two" / "checkpoints").glob("*/*"))


def test_a_single_process_is_the_leader():
    assert is_leader()
    assert broadcast_from_leader(True, False) == (True, False)


@pytest.mark.parametrize("process", ["0", "2/2@host:1", "0/2", "0/2@host", "x/2@host:1"])
def test_a_malformed_process_is_one_sentence(process):
    with pytest.raises(UserError, match="a process is auto, or INDEX/COUNT@HOST:PORT such as 0/2@host:1234, but got"):
        join(process)


def test_processes_that_train_together_take_no_workers(capsys, tmp_path):
    command = [*sweep_command("weights", [], tmp_path), "--process", "0/2@localhost:1", "--workers", "2"]
    assert main(command) == 2
    assert "--process takes no --workers" in capsys.readouterr().err
