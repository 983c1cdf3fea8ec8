"""Exports: exact tables for pandas, scalars for TensorBoard, and never half a file."""

import csv
import errno
import math
import os
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboardX import RecordWriter
from tensorboardX.proto.event_pb2 import Event

from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.store import export as module
from gradsurgery.lab.store import export_table, export_tensorboard

BLOOP = RunRecord(
    RunSpec("lipschitz", "demo", "bloop", lam=0.1, rho=0.01, seed=3, settings={"batch": 64, "rate": 3e-4}),
    "done",
    {"jax": "0.10"},
    (
        {"step": 0, "main_train": 2.5, "surgery/removed": math.nan},
        {"step": 10, "main_train": 1 / 3, "surgery/removed": 0.25},
    ),
)
MGDA = RunRecord(
    RunSpec("noise", "demo", "mgda", lam=None, rho=None, seed=0, settings={"batch": "all", "fast": True}),
    "running",
    {},
    ({"step": 5, "main_train": -math.inf},),
)
READ = {".parquet": pd.read_parquet, ".csv": pd.read_csv}

formats = pytest.mark.parametrize("suffix", READ)


@formats
def test_a_table_has_a_row_for_each_run_and_step(tmp_path, suffix):
    path = tmp_path / "new folder" / f"runs{suffix}"
    export_table([BLOOP, MGDA], path)
    table = READ[suffix](path)
    spec = ["key", "status", "problem", "scale", "method", "lam", "relative", "tau", "rho", "seed"]
    settings = ["settings.batch", "settings.fast", "settings.rate"]
    assert list(table.columns) == [*spec, *settings, "step", "main_train", "surgery/removed"]
    bloop, mgda = BLOOP.spec.key, MGDA.spec.key
    expected = [
        [bloop, "done", "lipschitz", "demo", "bloop", 0.1, False, None, 0.01, 3, "64", None, 3e-4, 0, 2.5, None],
        [bloop, "done", "lipschitz", "demo", "bloop", 0.1, False, None, 0.01, 3, "64", None, 3e-4, 10, 1 / 3, 0.25],
        [mgda, "running", "noise", "demo", "mgda", None, False, None, None, 0, "all", True, None, 5, -math.inf, None],
    ]
    rows = [[None if pd.isna(value) else value for value in row] for row in table.astype(object).to_numpy()]
    assert rows == expected


def test_settings_keep_their_type_where_all_runs_agree(tmp_path):
    export_table([BLOOP], tmp_path / "runs.parquet")
    types = pd.read_parquet(tmp_path / "runs.parquet").dtypes
    assert (types["settings.batch"], types["settings.rate"], types["seed"]) == (np.int64, np.float64, np.int64)


def test_csv_distinguishes_a_measured_nan_from_a_missing_value(tmp_path):
    export_table([BLOOP, MGDA], tmp_path / "runs.csv")
    lines = (tmp_path / "runs.csv").read_text().splitlines()
    assert lines[1].endswith(",0,2.5,nan")
    assert lines[3].endswith(",5,-inf,")


@formats
@given(values=st.lists(st.floats(), min_size=1))
def test_every_float_is_exact(tmp_path_factory, suffix, values):
    path = tmp_path_factory.getbasetemp() / f"floats{suffix}"
    rows = tuple({"step": step, "main_train": value} for step, value in enumerate(values))
    export_table([RunRecord(BLOOP.spec, "done", {}, rows)], path)
    if suffix == ".csv":  # pandas itself may round the last bit of a number in a CSV
        back = [float(row["main_train"]) for row in csv.DictReader(path.read_text().splitlines())]
    else:
        back = pd.read_parquet(path)["main_train"]
    for read, value in zip(back, values, strict=True):
        assert (math.isnan(read) and math.isnan(value)) or struct.pack("d", read) == struct.pack("d", value)


@formats
def test_without_runs_the_table_is_empty(tmp_path, suffix):
    export_table([], tmp_path / f"runs{suffix}")
    table = READ[suffix](tmp_path / f"runs{suffix}")
    assert len(table) == 0
    assert "method" in table.columns


@pytest.mark.parametrize("name", ["runs.xlsx", "runs", "runs.csv.gz"])
def test_an_unknown_format_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=rf"a table must be written as .parquet or .csv; got .*{name}$"):
        export_table([BLOOP], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_metric_named_like_a_column_has_a_prefix(tmp_path):
    names = ("seed", "lam", "settings.epochs", "steps_per_second")
    record = RunRecord(BLOOP.spec, "done", {}, ({"step": 0, **dict.fromkeys(names, 7.0)},))
    export_table([record], tmp_path / "runs.parquet")
    (row,) = pd.read_parquet(tmp_path / "runs.parquet").to_dict("records")
    assert (row["seed"], row["lam"]) == (BLOOP.spec.seed, BLOOP.spec.lam)
    columns = ("metrics.seed", "metrics.lam", "metrics.settings.epochs", "steps_per_second")
    assert [row[name] for name in columns] == [7.0] * 4


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_keeps_the_old_table(tmp_path, monkeypatch):
    path = tmp_path / "runs.csv"
    export_table([BLOOP], path)
    before = path.read_bytes()

    def half(table, part, suffix):
        part.write_text("half a table")
        full()

    monkeypatch.setattr(module, "_write", half)
    with pytest.raises(OSError, match=r"cannot write .*runs.csv: No space left on device$"):
        export_table([MGDA], path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def events(path):
    """The events of a file, whose records are a length, its checksum, the event, its checksum."""
    data, parsed = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        parsed.append(Event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    return parsed


def test_tensorboard_has_a_folder_for_each_run_with_its_scalars(tmp_path):
    export_tensorboard([MGDA], tmp_path)
    export_tensorboard([BLOOP, MGDA], tmp_path)
    bloop = tmp_path / "lipschitz" / "demo" / f"bloop_lam=0.1_rho=0.01_seed=3_{BLOOP.spec.key}"
    mgda = tmp_path / "noise" / "demo" / f"mgda_seed=0_{MGDA.spec.key}"
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert [path.parent for path in files] == [bloop, mgda]
    assert all("tfevents" in path.name for path in files)
    first, *steps = events(files[0])
    assert first.file_version == "brain.Event:2"
    scalars = [(event.step, {value.tag: value.simple_value for value in event.summary.value}) for event in steps]
    assert scalars == [
        (0, {"main_train": 2.5, "surgery/removed": pytest.approx(math.nan, nan_ok=True)}),
        (10, {"main_train": float(np.float32(1 / 3)), "surgery/removed": 0.25}),
    ]
    assert [event.step for event in events(files[1])[1:]] == [5]


def test_a_full_disk_keeps_the_old_events(tmp_path, monkeypatch):
    export_tensorboard([BLOOP], tmp_path)
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    before = path.read_bytes()
    monkeypatch.setattr(RecordWriter, "write", full)
    with pytest.raises(OSError, match=r"cannot write .*: No space left on device$"):
        export_tensorboard([BLOOP], tmp_path)
    assert path.read_bytes() == before
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [path]


@pytest.mark.parametrize("name", ["../../outside", "/outside", "..", "", "a/b", "a\0b", "\\\\host\\share"])
@pytest.mark.parametrize("field", ["problem", "scale", "method"])
def test_no_name_leads_out_of_the_tensorboard_folder(tmp_path, monkeypatch, field, name):
    written = []
    monkeypatch.setattr(Path, "replace", lambda part, path: written.append(path.resolve()))
    folder = tmp_path / "deep" / "events"
    export_tensorboard([replace(BLOOP, spec=replace(BLOOP.spec, **{field: name}))], folder)
    assert len(written) == 1
    assert len(written[0].relative_to(folder.resolve()).parts) == 4
