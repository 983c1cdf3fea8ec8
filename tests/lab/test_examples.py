"""The examples of user problems run unchanged, and survive being killed."""

import os
import random
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

import gradsurgery as gs
from gradsurgery import lab
from gradsurgery.lab.cli import main
from gradsurgery.lab.find import find_problem as problem
from gradsurgery.lab.grid import specs
from gradsurgery.lab.sweep.resources import Resources
from gradsurgery.lab.sweep.train import train_grid
from tests.paper.runs import Interrupter

EXAMPLES = Path(__file__).parents[2] / "examples" / "lab"
PROBLEMS = {
    "two_heads.py": "two_heads",
    "frozen_base.py": "frozen_base",
    "flax_nnx.py": "small_weights",
    "no_framework.py": "least_squares",
}
PARAMETERS = [name if name == "no_framework.py" else pytest.param(name, marks=pytest.mark.slow) for name in PROBLEMS]
TOY = """
    import json, os, time
    from gradsurgery import lab

    @lab.problem(main="m", aux="a", settings={"saves": True}, methods=["mixed"], lams=[0.1, 1.0])
    def toy(run):
        x, first = 1.0, 0
        saved = run.folder / "state.json"
        if saved.exists():
            x, first = json.loads(saved.read_text())
        for step in range(first, 20):
            time.sleep(0.03)
            x = (x * 1.1 + run.lam) % 7
            yield {"step": step, "main_train": x, "aux_train": -x, "first": first}
            if run.settings["saves"]:
                (run.folder / "new.json").write_text(json.dumps([x, step + 1]))
                os.replace(run.folder / "new.json", saved)
"""


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PROBLEMS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_an_example_runs_as_a_script(tmp_path, monkeypatch, capsys, one_worker, name):
    """In this process, which has imported the libraries; its worker is another."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    recommended = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("[")]
    assert sorted(re.split("[,:]", line)[0] for line in recommended) == ["bloop", "mixed"]
    with lab.Store(tmp_path / "runs") as store:
        records = store.select()
    assert len(records) == 2 * (2 * 2 + 1)
    for record in (record for record in records if record.spec.lam == 0):  # main alone
        assert record.final["main_test"] < 0.9 * record.metrics[0]["main_test"]
    aux = {record.spec.lam: record.final["aux_train"] for record in records if record.spec.method == "mixed"}
    assert aux[gs.relative(1.0)] < aux[0.0]


@pytest.mark.parametrize("name", PARAMETERS)
def test_an_example_is_loaded_by_reference(monkeypatch, name):
    monkeypatch.setattr(sys, "path", [*sys.path])
    declared = problem(f"{EXAMPLES / name}:{PROBLEMS[name]}")
    sys.modules.pop(Path(name).stem, None)
    setting = "steps" if name == "no_framework.py" else "epochs"
    (run,) = specs(declared, "default", methods=["bloop"], lams=[1.0], seeds=[0], settings={setting: "1"})
    assert (run.problem, run.settings[setting]) == (PROBLEMS[name], 1)


def test_an_example_runs_by_reference(tmp_path, monkeypatch, capsys, no_figures):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    options = ["--methods", "bloop", "--lams", "relative:1", "--set", "steps=20", "--workers", "1"]
    assert main(["sweep", f"{EXAMPLES / 'no_framework.py'}:least_squares", *options]) == 0, capsys.readouterr().err
    sys.modules.pop("no_framework", None)
    with lab.Store("runs") as store:
        assert [record.spec.method for record in store.select("least_squares")] == ["bloop", "mixed"]


def stored_results(folder):
    """The rows of each run, without what a restart may change, and whether any run resumed from what it saved."""
    with lab.Store(folder) as store:
        records = store.select()
    rows = {
        record.spec.key: [{name: value for name, value in row.items() if name != "first"} for row in record.metrics]
        for record in records
    }
    return rows, any(row.get("first") for record in records for row in record.metrics)


def count_stored_rows(folder):
    with lab.Store(folder) as store:
        return sum(len(record.metrics) for record in store.select(status=None))


def kill_at_random(command, folder, kills):
    """Run a command and kill all its processes at a random moment after new rows, ``kills`` times; then let it end."""
    delays = random.Random(0)
    for _ in range(kills):
        before = count_stored_rows(folder)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
            while count_stored_rows(folder) < before + 2:
                assert process.poll() is None, "the sweep ended before it could be killed: make it longer"
                time.sleep(0.02)
            time.sleep(delays.uniform(0, 0.3))
            os.killpg(process.pid, signal.SIGKILL)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.slow
@pytest.mark.parametrize(("saves", "kills"), [(True, 2), (False, 1)])
def test_killed_at_random_a_sweep_ends_with_the_same_numbers(tmp_path, saves, kills):
    (tmp_path / "toy_problem.py").write_text(dedent(TOY))
    command = [sys.executable, "-m", "gradsurgery.lab.cli", "sweep", f"{tmp_path / 'toy_problem.py'}:toy"]
    command += ["--set", f"saves={saves}", "--workers", "2", "--folder"]
    subprocess.run([*command, tmp_path / "undisturbed"], check=True, stdout=subprocess.DEVNULL)
    kill_at_random([*command, tmp_path / "runs"], tmp_path / "runs", kills)
    rows, restarted = stored_results(tmp_path / "runs")
    assert rows == stored_results(tmp_path / "undisturbed")[0]
    assert restarted is saves
    assert not any(tmp_path.glob("runs/checkpoints/*"))


@pytest.mark.slow
def test_interrupted_in_any_epoch_fine_tuning_ends_with_the_same_numbers(tmp_path, monkeypatch):
    """In this process: importing PyTorch in others takes longer than all these runs."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    declared = problem(f"{EXAMPLES / 'frozen_base.py'}:frozen_base")
    runs = specs(declared, "default", methods=["bloop"], lams=[gs.relative(1.0)])

    def train_in(name, at):
        train_grid(declared, runs, folder=tmp_path / name, listener=Interrupter(at), resources=Resources(workers=0))

    train_in("undisturbed", at=2.0)
    for epoch in range(1, 5):
        with pytest.raises(KeyboardInterrupt):
            train_in(f"{epoch}", at=epoch / 4)
        assert len([*(tmp_path / f"{epoch}").rglob("checkpoint.pt")]) == (epoch > 1), "saved after each row"
        train_in(f"{epoch}", at=2.0)
        assert stored_results(tmp_path / f"{epoch}") == stored_results(tmp_path / "undisturbed")
