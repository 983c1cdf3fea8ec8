"""Exports to Weights & Biases, MLflow and Optuna, read back from what they wrote."""

import json
import math
import struct
import sys
from dataclasses import replace

import pytest

import gradsurgery as gs
from gradsurgery.lab.cli import main
from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.store import Store, export_mlflow, export_optuna, export_wandb

SPEC = RunSpec("mine/λ", "demo", "bloop", gs.relative(0.3), 0.01, seed=3, settings={"rate": 3e-4, "kind": "a"})
ROWS = (
    {"step": 0, "main_test": 2.5, "aux_test": 1.0, "surgery/removed": math.nan},
    {"step": 10, "main_test": 1 / 3, "aux_test": 2.0},
)
RECORDS = [
    RunRecord(SPEC, "done", {}, ROWS),
    RunRecord(replace(SPEC, method="mgda", lam=None, rho=None), "done", {}, ROWS[:1]),
    RunRecord(replace(SPEC, seed=4), "done", {}, ({"step": 5, "main_test": math.inf, "aux_test": 1.0},)),
]
NAME = "bloop, relative λ = 0.3, ρ = 0.01, seed 3"
CONFIG = {
    "method": "bloop",
    "lam": 0.3,
    "relative": True,
    "rho": 0.01,
    "seed": 3,
    "settings.rate": 3e-4,
    "settings.kind": "a",
}


def wandb_records(path):
    """The records of an offline run: a header of 7 bytes, then chunks with a checksum, a length and a kind."""
    from wandb.proto.wandb_internal_pb2 import Record

    data = path.read_bytes()[7:]
    while len(data) >= 7:
        (length,) = struct.unpack("<H", data[4:6])
        assert data[6] == 1, "a whole record: longer ones would be divided"
        yield Record.FromString(data[7 : 7 + length])
        data = data[7 + length :]


@pytest.mark.slow
def test_wandb_has_an_offline_run_for_each_run(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "online")  # the export is offline all the same
    export_wandb(RECORDS, tmp_path)
    files = {path.stem.removeprefix("run-"): path for path in tmp_path.rglob("*.wandb")}
    assert files.keys() == {record.spec.key for record in RECORDS}
    records = list(wandb_records(files[SPEC.key]))
    (run,) = (record.run for record in records if record.HasField("run"))
    assert (run.run_id, run.run_group, run.display_name) == (
        SPEC.key,
        "demo",
        "bloop, relative λ = 0.3, ρ = 0.01, seed 3",
    )
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert {name: value for name, value in config.items() if name != "_wandb"} == CONFIG
    history = [
        {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.HasField("history")
    ]
    logged = [{name: value for name, value in row.items() if name[0] != "_"} for row in history]
    assert [row["_step"] for row in history] == [0, 10]
    assert logged[1] == {"main_test": 1 / 3, "aux_test": 2.0}
    assert math.isnan(float(logged[0]["surgery/removed"]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # MLflow's use of SQLAlchemy
def test_mlflow_has_a_run_with_every_step_for_each_run(tmp_path):
    pytest.importorskip("mlflow")
    from mlflow import MlflowClient

    long = replace(RECORDS[1], metrics=tuple({"step": step, "main_train": step / 3} for step in range(1500)))
    for _ in range(2):  # the second export replaces the first
        export_mlflow([RECORDS[0], long], tmp_path / "mlflow.db")
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("mine/λ, demo").experiment_id
    found = client.search_runs([experiment])
    assert len(found) == 2
    runs = {run.data.tags["key"]: run for run in found}
    run = runs[SPEC.key]
    assert (run.info.run_name, run.info.status) == (NAME, "FINISHED")
    assert run.data.params == {name: str(value) for name, value in CONFIG.items()}
    history = client.get_metric_history(run.info.run_id, "main_test")
    assert [(metric.step, metric.value) for metric in history] == [(0, 2.5), (10, 1 / 3)]
    assert math.isnan(run.data.metrics["surgery/removed"])
    assert len(client.get_metric_history(runs[long.spec.key].info.run_id, "main_train")) == 1500


def test_optuna_has_a_study_with_two_objectives_whose_trials_are_the_runs(tmp_path):
    optuna = pytest.importorskip("optuna")
    for _ in range(2):
        export_optuna([*RECORDS, replace(RECORDS[0], spec=replace(SPEC, scale="laptop"))], tmp_path / "optuna.db")
    storage = f"sqlite:///{tmp_path / 'optuna.db'}"
    assert set(optuna.get_all_study_names(storage)) == {"mine/λ, demo", "mine/λ, laptop"}
    study = optuna.load_study(study_name="mine/λ, demo", storage=storage)
    assert study.metric_names == ["main_test", "aux_test"]
    first, mgda, diverged = study.trials
    assert (first.values, first.params) == ([1 / 3, 2.0], CONFIG)
    assert first.user_attrs == {"key": SPEC.key, "final": dict(ROWS[1])}
    assert mgda.params == {name: value for name, value in CONFIG.items() if name not in ("lam", "rho")} | {
        "method": "mgda",
        "relative": False,
    }
    assert diverged.state.name == "FAIL"
    assert {trial.number for trial in study.best_trials} == {0, 1}


@pytest.mark.parametrize("name", ["wandb", "mlflow", "optuna"])
def test_a_missing_library_is_one_sentence(tmp_path, monkeypatch, capsys, name):
    with Store(tmp_path) as store:
        store.edit(add=RECORDS)
    monkeypatch.setitem(sys.modules, name, None)
    arguments = ["export", SPEC.problem, str(tmp_path / "out"), f"--{name}", "--folder", str(tmp_path)]
    assert main(arguments) == 2
    assert capsys.readouterr().err == f'gradsurgery: --{name} needs {name}: pip install "gradsurgery[{name}]"\n'


def test_the_command_line_writes_a_study(tmp_path, capsys):
    optuna = pytest.importorskip("optuna")
    with Store(tmp_path) as store:
        store.edit(add=RECORDS)
    path = tmp_path / "optuna.db"
    assert main(["export", SPEC.problem, str(path), "--optuna", "--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"3 runs written to {path}\n"
    assert optuna.get_all_study_names(f"sqlite:///{path}") == ["mine/λ, demo"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # MLflow's use of SQLAlchemy
@pytest.mark.parametrize(
    ("name", "export"), [("optuna", export_optuna), pytest.param("mlflow", export_mlflow, marks=pytest.mark.slow)]
)
def test_a_database_is_written_where_asked(tmp_path, name, export):
    pytest.importorskip(name)
    path = tmp_path / "a b?c#d%20e" / "out.db"
    export(RECORDS[:1], path)
    assert path.read_bytes().startswith(b"SQLite format 3")


@pytest.mark.parametrize("name", ["mlflow", "optuna"])
def test_a_file_that_is_no_database_is_left_alone(tmp_path, capsys, name):
    pytest.importorskip(name)
    with Store(tmp_path) as store:
        store.edit(add=RECORDS)
    path = tmp_path / "notes.txt"
    path.write_text("notes" * 100)
    assert main(["export", SPEC.problem, str(path), f"--{name}", "--folder", str(tmp_path)]) == 2
    assert f"to write to; got {path}: file is not a database\n" in capsys.readouterr().err
    assert path.read_text() == "notes" * 100


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # MLflow's use of SQLAlchemy
def test_mlflow_keeps_names_apart_that_differ_in_other_characters(tmp_path):
    pytest.importorskip("mlflow")
    from mlflow import MlflowClient

    spec = replace(SPEC, settings={"a(b": 1, "a[b": 2, "a_b": 3, "c(d": 4})
    export_mlflow([RunRecord(spec, "done", {}, ({"step": 0, "μ": 1.0, "λ": 2.0},))], tmp_path / "mlflow.db")
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("mine/λ, demo").experiment_id])
    settings = {name: value for name, value in run.data.params.items() if name.startswith("settings.")}
    assert sorted(settings.values()) == ["1", "2", "3", "4"]
    assert (settings["settings.a_b"], settings["settings.c_d"]) == ("3", "4")
    assert sorted(run.data.metrics.values()) == [1.0, 2.0]
