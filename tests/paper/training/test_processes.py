"""Several processes that train one run together; as real processes, through the command line."""

import socket
import subprocess
import sys
import time

import pytest

from gradsurgery.lab.cli import main
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.processes import broadcast_from_leader, is_leader, join
from gradsurgery.lab.store import Store
from tests.lab.sweep.toy import install
from tests.paper.training import regression

IMAGES = ["train_images=64", "epochs=2", "rows_per_epoch=1", "evaluated=64", "blocks=1", "width=4"]


def sweep_command(name, settings, folder, grid=("--methods", "bloop", "--lams", "0.3", "--rhos", "0.1")):
    changes = [part for setting in settings for part in ("--set", setting)]
    return ["sweep", name, *grid, *changes, "--checkpoint-every", "0", "--folder", str(folder)]


def free_port():
    with socket.socket() as server:
        server.bind(("localhost", 0))
        return server.getsockname()[1]


def start_two(command, module="gradsurgery.lab.cli"):
    """Start two processes that train together."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, "-m", module, *command, "--process", f"{index}/2@localhost:{port}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]


def run_two(command, module="gradsurgery.lab.cli"):
    """Run two processes that train together, and return what they print, the leader first."""
    processes = start_two(command, module)
    try:
        printed = [process.communicate(timeout=600) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], printed
    return [out for out, _ in printed]


def metrics(folder, name):
    with Store(folder) as store:
        records = sorted(store.select(name), key=lambda record: record.spec.key)
    assert [record.status for record in records] == ["done", "done"]
    return [row for record in records for row in record.metrics]


def assert_same_as_one_process(command, name, two, one, monkeypatch):
    """Up to the order in which two devices and one sum the gradients of a batch."""
    install(monkeypatch.setitem, "regression", regression.REFERENCE)
    assert main([*command, "--workers", "0"]) == 0
    for row, expected in zip(metrics(two, name), metrics(one, name), strict=True):
        assert row == pytest.approx(expected, rel=1e-5, abs=1e-5)


def trains_the_second_run(folder):
    """True if the first run is done and the second has a checkpoint."""
    if not any(folder.glob("checkpoints/*/[1-9]*")):
        return False
    with Store(folder) as store:
        return sorted(record.status for record in store.select(status=None)) == ["done", "running"]


@pytest.mark.slow
def test_two_processes_that_are_killed_resume_and_end_as_one(tmp_path, monkeypatch):
    """With a loop inside XLA; the residual network below dispatches its steps from Python."""
    settings = ["scan=true", "sleep=0.05"]
    command = sweep_command("regression", settings, tmp_path / "two")
    processes = start_two(command, regression.__name__)
    while not trains_the_second_run(tmp_path / "two"):
        assert processes[0].poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    for process in processes:
        process.kill()
        process.communicate()
    assert any((tmp_path / "two").glob("checkpoints/*/[1-9]*"))
    leader, other = run_two(command, regression.__name__)
    assert "[1/2] mixed" in leader
    assert "(in the store)" in leader
    assert "report:" in leader
    assert "report:" not in other
    assert not any((tmp_path / "two" / "checkpoints").glob("*/*"))
    command = sweep_command("regression", settings, tmp_path / "one")
    assert_same_as_one_process(command, "regression", tmp_path / "two", tmp_path / "one", monkeypatch)


@pytest.mark.slow
def test_two_processes_train_a_residual_network_as_one(tmp_path, monkeypatch):
    grid = ["--methods", "mixed", "--lams", "0.3"]  # one program with main alone
    run_two(sweep_command("imagenet-cifar10", IMAGES, tmp_path / "two", grid))
    command = sweep_command("imagenet-cifar10", IMAGES, tmp_path / "one", grid)
    assert_same_as_one_process(command, "imagenet-cifar10", tmp_path / "two", tmp_path / "one", monkeypatch)


def test_a_single_process_is_the_leader():
    assert is_leader()
    assert [broadcast_from_leader(number) for number in (True, False, 7)] == [True, False, 7]


@pytest.mark.parametrize("process", ["0", "2/2@host:1", "0/2", "0/2@host", "x/2@host:1"])
def test_a_malformed_process_is_one_sentence(process):
    with pytest.raises(UserError, match="a process must be auto, or INDEX/COUNT@HOST:PORT such as 0/2@host:1234; got"):
        join(process)


def test_processes_that_train_together_take_no_workers(capsys, tmp_path):
    command = [*sweep_command("weights", [], tmp_path), "--process", "0/2@localhost:1", "--workers", "2"]
    assert main(command) == 2
    assert "--process does not go with --workers" in capsys.readouterr().err
