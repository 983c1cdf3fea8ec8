"""The runs behind the ledger as a small parquet file, from which the page can be drawn again without training.

Diagnostics are left out.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gradsurgery.lab import Metrics, RunRecord, RunSpec, UserError
from gradsurgery.lab.atomic import replace_file
from gradsurgery.lab.lam import Tau, lam_columns
from gradsurgery.relative import relative

_SPEC = ("problem", "scale", "method", "lam", "rho", "seed", "relative", "tau")
_JSON = ("settings", "rows")


def write_records(records: Iterable[RunRecord], path: Path) -> int:
    """Write the finished runs, sorted, and return their number; an existing file is replaced."""
    import pyarrow as pa
    from pyarrow.parquet import write_table

    rows = [_row(record) for record in records if record.status == "done"]
    rows.sort(key=lambda row: [str(row[name]) for name in (*_SPEC, "settings")])
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in (*_SPEC, *_JSON)}
    with replace_file(path) as part:
        write_table(pa.table(columns), part, compression="zstd")
    return len(rows)


def read_records(path: Path) -> list[RunRecord]:
    """Read what ``write_records`` wrote."""
    import pyarrow as pa
    from pyarrow.parquet import read_table

    if not path.is_file():
        raise UserError(f"there is no file {path}: gradsurgery claims --export writes one")
    try:
        rows = read_table(path).to_pylist()
        return [_record(row) for row in rows]
    except (pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} must be a file that gradsurgery claims --export wrote") from error


def _row(record: RunRecord) -> dict[str, Any]:
    spec = record.spec
    columns = {**vars(spec), **lam_columns(spec.lam), "settings": json.dumps(dict(spec.settings), sort_keys=True)}
    return {**columns, "rows": json.dumps([_without_diagnostics(row) for row in record.metrics])}


def _without_diagnostics(row: Metrics) -> Metrics:
    return {name: value for name, value in row.items() if not name.startswith("surgery/")}


def _record(row: dict[str, Any]) -> RunRecord:
    columns = {name: row[name] for name in _SPEC}
    is_relative, tau = columns.pop("relative"), columns.pop("tau")
    if is_relative:
        columns["lam"] = relative(columns["lam"])
    elif tau is not None:
        columns["lam"] = Tau(tau)
    spec = RunSpec(settings=json.loads(row["settings"]), **columns)
    return RunRecord(spec, "done", {}, tuple(json.loads(row["rows"])))
