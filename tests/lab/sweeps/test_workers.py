"""Workers that share a sweep: they end with who began them, and what goes wrong in one is told."""

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

from gradsurgery.lab.cli import main
from gradsurgery.lab.store.store import Store

SWEEP = ["sweep", "lipschitz", "--methods", "mixed", "--lams", "0.01,0.3", "--seeds", "0", "--workers", "2"]


def children(pid):
    """The processes that a process has begun, from whichever of its threads."""
    return [int(one) for file in Path(f"/proc/{pid}/task").glob("*/children") for one in file.read_text().split()]


@pytest.fixture
def sweeping(tmp_path):
    """A sweep too long to wait for, and its two workers."""
    command = [sys.executable, "-m", "gradsurgery.lab.cli", *SWEEP, "--set", "epochs=10000", "--folder", str(tmp_path)]
    # as from a terminal: a shell hands on to what it runs in the background that Ctrl-C is ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        signal.signal(signal.SIGINT, before)
        while process.poll() is None and running(tmp_path) < 2:
            time.sleep(0.1)
        workers = [one for one in children(process.pid) if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]
        assert len(workers) == 2
        yield process, workers
        process.kill()


def running(folder):
    if not (folder / "store.sqlite").exists():
        return 0
    with Store(folder / "store.sqlite") as store:
        return len(store.select(status="running"))


def ended(pid):
    """Whether a process is gone, or has ended and nobody has asked for its exit code yet."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


def wait_until_ended(workers):
    deadline = time.monotonic() + 30
    while not all(map(ended, workers)):
        assert time.monotonic() < deadline, "workers went on without anybody to work for"
        time.sleep(0.1)


def test_workers_end_when_the_sweep_is_killed(sweeping):
    process, workers = sweeping
    process.kill()
    wait_until_ended(workers)


def test_a_worker_that_is_killed_ends_the_sweep_with_a_sentence(sweeping):
    process, workers = sweeping
    os.kill(workers[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.count("\n") == 1
    assert "a worker was ended by something else" in errors
    wait_until_ended(workers)


def test_ctrl_c_stops_all_and_says_how_to_go_on(sweeping):
    process, workers = sweeping
    for one in (process.pid, *workers):
        os.kill(one, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "gradsurgery: stopped; the same command goes on from here\n"
    wait_until_ended(workers)


def test_a_mistake_that_a_worker_meets_is_told_as_one(tmp_path, capsys):
    assert main([*SWEEP, "--scale", "laptop", "--data-dir", str(tmp_path), "--folder", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "mnist" in said


def test_a_download_that_breaks_off_is_told_in_a_sentence(tmp_path):
    """A hub that answers every call with half of what it promises."""
    with socket.create_server(("127.0.0.1", 0)) as hub:

        def answer():
            with suppress(OSError):
                while True:
                    call, _ = hub.accept()
                    call.recv(4096)
                    call.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{"half":')
                    call.close()

        threading.Thread(target=answer, daemon=True).start()
        place = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.getsockname()[1]}", "HF_HOME": str(tmp_path)}
        environment = {name: value for name, value in os.environ.items() if name != "GRADSURGERY_DATA"} | place
        command = [sys.executable, "-m", "gradsurgery.lab.cli", *SWEEP, "--scale", "laptop", "--folder", str(tmp_path)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("gradsurgery: could not load train of ylecun/mnist")
    assert ended.stderr.count("\n") == 1


def test_the_number_of_workers_is_at_least_one(tmp_path, capsys):
    assert main([*SWEEP[:-1], "0", "--folder", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "gradsurgery: the number of workers is a whole number from 1, but got 0\n"
