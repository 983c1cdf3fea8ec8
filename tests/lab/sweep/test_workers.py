"""Worker processes of a sweep: they exit with their parent, and mistakes that they find reach the user."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gradsurgery.lab import problem
from gradsurgery.lab.cli import main
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.grid import specs
from gradsurgery.lab.store import Store
from gradsurgery.lab.sweep import child
from gradsurgery.lab.sweep.resources import Resources
from gradsurgery.lab.sweep.shipment import ship
from gradsurgery.lab.sweep.train import train_grid
from gradsurgery.lab.sweep.worker import Task, Trainer
from tests.lab.sweep.recorder import Recorder
from tests.lab.sweep.toy import TOY, toy_runs

LAPTOP = ["sweep", "lipschitz", "--scale", "laptop", "--methods", "mixed", "--lams", "0.01,0.3", "--seeds", "0"]
FOREVER = ["sweep", "toy", "--set", "sleep=0.01", "--set", "chunks=100000", "--methods", "mixed", "--workers", "2"]


def children(pid):
    """The child processes of all threads of a process."""
    return [int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]


@pytest.fixture
def sweeping(tmp_path):
    """A sweep that does not end by itself, and its two workers."""
    command = [sys.executable, "-m", "tests.lab.sweep.toy", *FOREVER, "--folder", str(tmp_path)]
    # as in a terminal: a shell that runs the tests in the background has made them ignore Ctrl-C
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        signal.signal(signal.SIGINT, before)
        while process.poll() is None and statuses(tmp_path).count("running") < 2:
            time.sleep(0.1)
        workers = [pid for pid in children(process.pid) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(workers) == 2
        yield process, workers
        process.kill()


def statuses(folder):
    with Store(folder / "store.sqlite") as store:
        return [record.status for record in store.select(status=None)]


def has_exited(pid):
    """True if a process is gone, or a zombie."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


def wait_for_exit(workers):
    deadline = time.monotonic() + 300
    while not all(map(has_exited, workers)):
        assert time.monotonic() < deadline, "the workers went on without their parent"
        time.sleep(0.1)


@pytest.mark.slow
def test_workers_exit_silently_when_the_sweep_is_killed(sweeping, tmp_path):
    process, workers = sweeping
    process.kill()
    wait_for_exit(workers)
    assert process.stderr.read() == ""
    assert statuses(tmp_path) == ["running", "running"]


@pytest.mark.slow
def test_ctrl_c_stops_all_and_says_how_to_continue(sweeping):
    process, workers = sweeping
    for pid in (process.pid, *workers):
        os.kill(pid, signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130
    assert errors == "gradsurgery: stopped; the same command continues\n"
    wait_for_exit(workers)


@pytest.mark.slow
def test_a_worker_whose_supervisor_does_not_listen_exits_silently(tmp_path, capfd):
    """The supervisor may be gone before the worker notices."""
    task = Task(toy_runs()[0], tmp_path / "run", may_be_over=False, log=tmp_path / "log")
    shipment = ship(Trainer(TOY, cores=1))
    context = multiprocessing.get_context("spawn")
    pipe, child_pipe = context.Pipe()
    pipe.send(task)
    process = context.Process(target=child.main, args=(child_pipe, shipment))
    process.start()
    pipe.close()
    child_pipe.close()
    process.join()
    assert process.exitcode == 1
    assert capfd.readouterr() == ("", "")
    assert (tmp_path / "log").read_text() == ""


def test_a_problem_that_cannot_be_pickled_is_refused_in_one_sentence(tmp_path):
    lock = threading.Lock()

    @problem(main="a", aux="b", lams=[1.0])
    def locked(run):
        with lock:
            yield {"step": 0, "main_train": 0.0, "aux_train": 0.0}

    with pytest.raises(UserError, match=r"must be picklable to reach the worker processes \(.*lock"):
        train_grid(locked, specs(locked, "default"), folder=tmp_path, listener=Recorder(), resources=Resources(2))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_mistake_found_by_a_worker_is_one_sentence(tmp_path, capsys):
    assert main([*LAPTOP, "--data-dir", str(tmp_path), "--folder", str(tmp_path / "runs")]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "mnist" in printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_interrupted_download_is_reported_in_one_sentence(tmp_path):
    """A hub that answers every request with half of what it promises."""
    with socket.create_server(("127.0.0.1", 0)) as hub:

        def answer():
            with suppress(OSError):
                while True:
                    request, _ = hub.accept()
                    request.recv(4096)
                    request.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{"half":')
                    request.close()

        threading.Thread(target=answer, daemon=True).start()
        variables = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.getsockname()[1]}", "HF_HOME": str(tmp_path)}
        environment = {name: value for name, value in os.environ.items() if name != "GRADSURGERY_DATA"} | variables
        command = [sys.executable, "-m", "gradsurgery.lab.cli", *LAPTOP, "--folder", str(tmp_path)]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("gradsurgery: could not load the splits of ylecun/mnist")
    assert result.stderr.count("\n") == 1


SCRIPT = """
import functools

from gradsurgery import lab


@functools.cache
def load():
    return 3.0


@lab.problem(main="m", aux="a", lams=[0.1])
def cached(run):
    yield {"step": 0, "main_train": load(), "aux_train": 1.0}


if __name__ == "__main__":
    for record in lab.sweep(cached, folder="runs", methods=["mixed"], seeds=[0], workers=1):
        print(record.status, record.final["main_train"])
"""


def test_cached_functions_of_a_script_reach_the_workers(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    result = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.split("\n")[-3:] == ["done 3.0", "done 3.0", ""]
