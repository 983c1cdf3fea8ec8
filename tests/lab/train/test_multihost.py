"""Two real processes that train one run together, through the command line."""

import socket
import subprocess
import sys
import time

import pytest

from gradsurgery.lab.cli import main
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.store import Store
from gradsurgery.lab.train.multihost import broadcast_from_leader, is_leader, join

VISION = ["train_images=128", "epochs=8", "rows_per_epoch=1", "evaluated=64", "blocks=1", "width=4"]
TEXT = ["steps=6", "rows=3", "evaluated=2"]


def sweep(name, settings, folder):
    changed = [part for setting in settings for part in ("--set", setting)]
    grid = ["--methods", "bloop", "--lams", "0.3", "--rhos", "0.1"]
    return ["sweep", name, *grid, *changed, "--checkpoint-every", "0", "--folder", str(folder)]


def free_port():
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]


def begun(command):
    """Two processes that run the same command."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, "-m", "gradsurgery.lab.cli", *command, "--process", f"{number}/2@localhost:{port}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]


def together(command):
    """What two processes print that run the same command."""
    both = begun(command)
    found = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], found
    return [printed for printed, _ in found]


@pytest.mark.parametrize(("name", "settings"), [("imagenet-cifar10", VISION), ("language", TEXT)])
def test_two_processes_train_as_one(name, settings, tmp_path):
    command = sweep(name, settings, tmp_path / "both")
    if name == "imagenet-cifar10":  # killed on the way
        both = begun(command)
        while not any((tmp_path / "both").glob("checkpoints/*/[0-9]")):
            assert both[0].poll() is None, "it ended before it could be killed"
            time.sleep(0.02)
        for process in both:
            process.kill()
            process.communicate()
        assert any((tmp_path / "both").glob("checkpoints/*/[0-9]"))
    leader, other = together(command)
    assert "[1/1] bloop" in leader
    assert "report:" in leader
    assert "report:" not in other
    assert main(sweep(name, settings, tmp_path / "one")) == 0
    found = []
    for folder in ("both", "one"):
        with Store(tmp_path / folder / "store.sqlite") as store:
            (record,) = store.select(name)
        assert record.status == "done"
        found.append(record.metrics)
    for row, expected in zip(*found, strict=True):
        assert row == pytest.approx(expected, rel=1e-3, abs=1e-3)
    assert not any((tmp_path / "both" / "checkpoints").glob("*/*"))
    leader, _ = together(command)
    assert "(in the store)" in leader


def test_one_process_leads_and_agrees_with_itself():
    assert is_leader()
    assert broadcast_from_leader(True, False) == (True, False)


@pytest.mark.parametrize("which", ["0", "2/2@host:1", "0/2", "0/2@host", "x/2@host:1"])
def test_a_process_that_makes_no_sense_gets_one_sentence(which):
    with pytest.raises(UserError, match="a process is auto, or its number and their count as 0/2@host:1234, but got"):
        join(which)


def test_processes_that_train_together_have_no_workers(capsys, tmp_path):
    command = [*sweep("weights", [], tmp_path), "--process", "0/2@localhost:1", "--workers", "2"]
    assert main(command) == 2
    assert "processes that train together share every run, so --process takes no --workers" in capsys.readouterr().err
