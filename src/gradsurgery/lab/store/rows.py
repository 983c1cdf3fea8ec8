"""Rows of the SQLite file as records. Anybody can write to the file, so nothing in it is trusted."""

import json
import math
import sqlite3
from pathlib import Path
from typing import Any

from gradsurgery.lab.lam import Tau, read_lam
from gradsurgery.lab.run import STATUSES, Metrics, RunRecord, RunSpec, Setting, parse_samples
from gradsurgery.lab.store.sqlite import damage_error
from gradsurgery.relative import relative

_TEXT, _NUMBER = (str,), (int, float)


def read_records(db: sqlite3.Connection, path: Path, where: str, **values: str | None) -> list[RunRecord]:
    """The runs that match an SQL condition, ordered by problem, scale, method, lam (relative ones last), rho and seed.

    The condition has named parameters, and error messages have the path.
    """
    # relative λ, τ and several λ are text, which SQLite would sort letter by letter; CAST reads the first number
    first = "CAST(replace(replace(lam, 'relative:', ''), 'tau:', '') AS REAL)"
    number = f"CASE WHEN typeof(lam) = 'text' THEN {first} ELSE lam END"
    order = f"problem, scale, method, typeof(lam) = 'text', {number}, lam, rho, seed, settings, key"
    records = []
    for row in db.execute(f"SELECT * FROM runs WHERE {where} ORDER BY {order}", values):
        logged = db.execute("SELECT step, name, value FROM metrics WHERE run = ? ORDER BY step, name", (row[0],))
        try:
            records.append(_record(row, logged.fetchall()))
        except ValueError as error:
            raise damage_error(path, f"run {row[0]}: {error}") from error
    return records


def check_row(metrics: Metrics) -> tuple[int, Metrics]:
    """The step of a row, and its metrics; raise ``ValueError`` unless the store can hold it."""
    step = float(metrics.get("step", math.nan))
    values = {name: float(value) for name, value in metrics.items() if name != "step"}
    if not (step.is_integer() and abs(step) < 2**63 and values):
        raise ValueError(
            f"a row must have a whole number below 2**63 as its step, and at least one metric; got {dict(metrics)}"
        )
    return int(step), values


def parse_object(name: str, text: Any) -> dict[str, Setting]:
    """Read the settings or the info of a run from JSON; raise ``ValueError`` unless it is a flat object."""
    _check(name, text, _TEXT)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{name} is not a JSON object")
    for key, value in values.items():
        _check(f"{name}.{key}", value, (*_TEXT, *_NUMBER))
    return values


def _record(row: tuple[Any, ...], logged: list[tuple[Any, Any, Any]]) -> RunRecord:
    key, problem, scale, method, written, rho, seed, settings, info, status = row
    for name, text in (("key", key), ("problem", problem), ("scale", scale), ("method", method), ("status", status)):
        _check(name, text, _TEXT)
    lam: Any = read_lam(written)
    _check("lam", lam, (*_NUMBER, relative, tuple, Tau, type(None)))
    _check("rho", rho, (*_NUMBER, type(None)))
    _check("seed", seed, (int,))
    if status not in STATUSES:
        raise ValueError(f"status is {status!r:.60}, not {', '.join(STATUSES[:-1])} or {STATUSES[-1]}")
    metrics: dict[int, dict[str, float]] = {}
    for step, name, value in logged:
        _check("a metric's step", step, (int,))
        _check("a metric's name", name, _TEXT)
        _check(f"the metric {name}", value, (*_NUMBER, type(None)))
        metrics.setdefault(step, {"step": step})[name] = math.nan if value is None else value  # NULL stands for NaN
    spec = RunSpec(problem, scale, method, lam, rho, seed, parse_object("settings", settings))
    record = RunRecord(spec, status, parse_object("info", info), tuple(metrics.values()))
    try:
        parse_samples(str(record.info.get("samples", "[]")))
    except RecursionError as error:
        raise ValueError("samples are nested too deeply") from error
    return record


def _check(name: str, value: Any, types: tuple[type, ...]) -> None:
    if not isinstance(value, types):
        raise ValueError(f"{name} is {value!r:.60}, not {' or '.join(kind.__name__ for kind in types)}")
