"""Export records: one table for pandas and similar tools, or event files for TensorBoard.

    export_table(store.select(), "runs.parquet")     # pandas.read_parquet("runs.parquet").groupby(["method", "lam"])
    export_tensorboard(store.select(), "events")     # tensorboard --logdir events

A file is replaced only when the new one is complete.
"""

from collections.abc import Container, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from gradsurgery.lab.atomic import file_name, replace_file
from gradsurgery.lab.lam import lam_columns
from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.text import name_parts

SUFFIXES = (".parquet", ".csv")


def export_table(records: Iterable[RunRecord], path: str | Path) -> None:
    """Write a table with one row per run and step.

    Its columns are ``key``, ``status``, ``problem``, ``scale``, ``method``, ``lam``, ``relative`` (whether lam is in
    units of |g_main| / |g_aux|), ``tau``, ``rho``, ``seed``, for several auxiliary losses ``lam2``, ``relative2`` and
    so on, each setting as ``settings.<name>``, ``step``, each metric under its name, or as ``metrics.<name>`` if
    another column has that. Numbers are exact. A value that a run does not have is null (empty in CSV), which differs
    from a measured NaN, though pandas reads both as NaN.

    Args:
        records: the runs, for example ``store.select()``.
        path: ends in ``.parquet`` or ``.csv``; an existing file is replaced.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"a table must be written as {' or '.join(SUFFIXES)}; got {path}")
    table = _table(records)
    with replace_file(path) as part:
        _write(table, part, path.suffix)


def export_tensorboard(records: Iterable[RunRecord], folder: str | Path) -> None:
    """Write each run's metrics as scalars to ``folder/problem/scale/method_lam=..._rho=..._seed=..._key``.

    TensorBoard's scalars are float32. The store does not record when a step was measured, so the step stands in for the
    time in seconds.
    """
    from tensorboardX import RecordWriter  # imports torch if it is installed, which takes seconds
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary

    for record in records:
        spec = record.spec
        # always the same file name: TensorBoard would merge the files of two exports
        names = (spec.problem, spec.scale, "_".join([*name_parts(spec), spec.key]), "events.out.tfevents.0.gradsurgery")
        path = Path(folder, *map(file_name, names))
        # not SummaryWriter: its thread would hide the error of a full disk
        with replace_file(path) as part, closing(RecordWriter(str(part))) as writer:
            writer.write(Event(wall_time=0, file_version="brain.Event:2").SerializeToString())
            for row in record.metrics:
                values = [Summary.Value(tag=tag, simple_value=value) for tag, value in row.items() if tag != "step"]
                event = Event(wall_time=row["step"], step=int(row["step"]), summary=Summary(value=values))
                writer.write(event.SerializeToString())


def _table(records: Iterable[RunRecord]) -> Any:
    import pyarrow as pa

    text, number = pa.string(), pa.float64()
    types = dict.fromkeys(("key", "status", "problem", "scale", "method"), text)
    types |= {"lam": number, "relative": pa.bool_(), "tau": number, "rho": number, "seed": pa.int64()}
    records = list(records)
    columns_of_lam = {name for record in records for name in lam_columns(record.spec.lam)}
    types |= {name: number if name.startswith("lam") else pa.bool_() for name in sorted(columns_of_lam - types.keys())}
    rows: list[dict[str, Any]] = []
    for record in records:
        spec = {"key": record.spec.key, "status": record.status, **vars(record.spec), **lam_columns(record.spec.lam)}
        spec |= {f"settings.{name}": value for name, value in spec.pop("settings").items()}
        rows += [{_column(name, types): value for name, value in row.items()} | spec for row in record.metrics]

    def column(name: str, kind: Any) -> Any:
        return pa.array([row.get(name) for row in rows], kind)

    columns = {name: column(name, kind) for name, kind in types.items()}
    settings = {f"settings.{name}" for record in records for name in record.spec.settings}
    for name in sorted(settings):
        try:
            columns[name] = column(name, None)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # problems may give one name different types
            texts = [None if row.get(name) is None else str(row[name]) for row in rows]
            columns[name] = pa.array(texts, text)
    columns["step"] = column("step", pa.int64())
    metrics = {name for row in rows for name in row} - columns.keys()
    columns |= {name: column(name, number) for name in sorted(metrics)}
    return pa.table(columns)


def _column(metric: str, taken: Container[str]) -> str:
    """The column of a metric: its name, or ``metrics.<name>`` if another column has it."""
    return f"metrics.{metric}" if metric in taken or metric.startswith("settings.") else metric


def _write(table: Any, path: Path, suffix: str) -> None:
    if suffix == ".csv":
        from pyarrow.csv import write_csv

        write_csv(table, path)
    else:
        from pyarrow.parquet import write_table

        write_table(table, path)
