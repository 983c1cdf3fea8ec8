"""The store's records for other programs: one table for pandas and its kin, event files for TensorBoard.

    export(store.select(), "runs.parquet")      # pandas.read_parquet("runs.parquet").groupby(["method", "lam"])
    tensorboard(store.select(), "events")       # tensorboard --logdir events

A file takes the place of an older one only when it is whole.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.csv import write_csv
from pyarrow.parquet import write_table

from gradsurgery.lab.run import RunRecord

_FORMATS: dict[str, Callable[[Any, Path], None]] = {".parquet": write_table, ".csv": write_csv}

_TYPES = dict.fromkeys(("key", "status", "problem", "scale", "method"), pa.string())
_TYPES |= {"lam": pa.float64(), "rho": pa.float64(), "seed": pa.int64()}


def export(records: Iterable[RunRecord], path: str | Path) -> None:
    """Write a table with one row for each run and step.

    Its columns are ``key``, ``status``, ``problem``, ``scale``, ``method``, ``lam``, ``rho``, ``seed``, each setting as
    ``settings.<name>``, ``step``, and each metric under its name. Numbers are exact. What a run does not have is null
    (in CSV nothing between two commas), which differs from a NaN that was measured, though pandas reads both as NaN.

    Args:
        records: the runs, for example ``store.select()``.
        path: ends in ``.parquet`` or ``.csv``; a file that is there is replaced.
    """
    path = Path(path)
    if path.suffix not in _FORMATS:
        raise ValueError(f"a table is written as {' or '.join(_FORMATS)}, but got {path}")
    table = _table(records)
    with _whole(path) as part:
        _FORMATS[path.suffix](table, part)


def tensorboard(records: Iterable[RunRecord], folder: str | Path) -> None:
    """Write each run's metrics as scalars to ``folder/problem/scale/method_lam=..._rho=..._seed=..._key``.

    TensorBoard's scalars are float32. When a step was measured is not known, so its steps stand in for seconds.
    """
    from tensorboardX import RecordWriter  # loads torch where there is one: seconds that other commands do not need
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary

    for record in records:
        spec = record.spec
        name = f"{spec.method}_lam={spec.lam}_rho={spec.rho}_seed={spec.seed}_{spec.key}"
        # one name for ever: TensorBoard would mix the files of two exports
        path = Path(folder, spec.problem, spec.scale, name, "events.out.tfevents.0.gradsurgery")
        # no SummaryWriter: a full disk would end its thread, unseen
        with _whole(path) as part, closing(RecordWriter(str(part))) as writer:
            writer.write(Event(wall_time=0, file_version="brain.Event:2").SerializeToString())
            for row in record.metrics:
                values = [Summary.Value(tag=tag, simple_value=value) for tag, value in row.items() if tag != "step"]
                event = Event(wall_time=row["step"], step=int(row["step"]), summary=Summary(value=values))
                writer.write(event.SerializeToString())


def _table(records: Iterable[RunRecord]) -> Any:
    rows: list[dict[str, Any]] = []
    settings: set[str] = set()
    metrics: set[str] = set()
    for record in records:
        spec = {"key": record.spec.key, "status": record.status, **vars(record.spec)}
        chosen = {f"settings.{name}": value for name, value in spec.pop("settings").items()}
        rows += [{**row, **spec, **chosen} for row in record.metrics]
        settings |= chosen.keys()
        metrics |= {name for row in record.metrics for name in row}
    if clash := metrics & (_TYPES.keys() | settings):
        raise ValueError(f"a metric cannot have the name of a column of the table, but {sorted(clash)} do")

    def values(name: str) -> list[Any]:
        return [row.get(name) for row in rows]

    columns = {name: pa.array(values(name), kind) for name, kind in _TYPES.items()}
    columns |= {name: _settings(values(name)) for name in sorted(settings)}
    columns |= {"step": pa.array(values("step"), pa.int64())}
    columns |= {name: pa.array(values(name), pa.float64()) for name in sorted(metrics - {"step"})}
    return pa.table(columns)


def _settings(values: list[Any]) -> Any:
    """A column; as text if two problems mean different types by one name."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A file to write, which takes the place of ``path`` once it is whole."""
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        reason = os.strerror(error.errno) if error.errno else error
        raise OSError(f"{path} could not be written ({reason}): make room or choose another path") from error
