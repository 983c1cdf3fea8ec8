"""Where the code of a run comes from, and what becomes of stored runs of older code."""

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import TypeAlias

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.method import known_methods
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.run import RunSpec, Setting
from gradsurgery.lab.store import Store
from gradsurgery.lab.store.edit import delete_runs
from gradsurgery.lab.sweep.fingerprint import fingerprint, is_installed, plain_function, source_file

Origins: TypeAlias = Mapping[str, Mapping[str, Setting]]
"""By method: what is recorded about the code of its runs."""


def find_origins(problem: Problem, methods: Iterable[str]) -> Origins:
    """The file, its commit and the fingerprint of the code, or the version of an installed package."""
    train = plain_function(problem.train)
    where = _version(train.__module__) if is_installed(train) else _place(source_file(train))
    codes = {name: fingerprint(problem.train, known_methods()[name]) for name in methods}
    return {name: {**where, **({"code": code} if code else {})} for name, code in codes.items()}


def settle_older_code(problem: Problem, runs: Sequence[RunSpec], store: Store, *, again: bool, keep: bool) -> None:
    """Drop stored runs of older code that have not ended; raise if some have, without ``again`` or ``keep``.

    So that a report never compares two codes, this covers methods that the sweep does not train, unless they are not
    known here; runs without a fingerprint are left alone. ``again`` drops runs that have ended, too; ``keep`` mixes
    them with these.
    """
    if again and keep:
        raise UserError("older runs are either trained again or kept: give --again or --keep")
    sweeps = {(run.scale, tuple(run.settings.items())): run for run in runs}.values()
    stored = [each for run in sweeps for each in store.select(problem.name, run.scale, None, run.settings)]
    now = find_origins(problem, {record.spec.method for record in stored} & known_methods().keys())
    older = [
        record
        for record in stored
        if record.info.get("code") and record.info["code"] != now.get(record.spec.method, record.info).get("code")
    ]
    ended = [record for record in older if record.status not in ("running", "failed")]
    if ended and not again and not keep:
        file = next(iter(now.values())).get("file", "the notebook")
        before = ended[0].info.get("file", file)
        why = f"{file} has changed since" if before == file else f"they come from {before}, and this is {file}"
        stored_runs, verb = ("1 stored run", "was") if len(ended) == 1 else (f"{len(ended)} stored runs", "were")
        raise UserError(
            f"{stored_runs} of {problem.name} {verb} trained by other code ({why}): --again drops older runs and "
            "trains this grid, --keep mixes both; another problem needs another name or --folder"
        )
    dropped = older if again else [record for record in older if record not in ended]
    if dropped:  # with their checkpoints: a run must not begin with one code and end with another
        delete_runs(store.path.parent, dropped)


def _place(file: Path | None) -> dict[str, Setting]:
    return {} if file is None else {"file": file.name, "commit": _commit(str(file.parent))}


def _commit(folder: str) -> str:
    """The commit of a folder; empty without git or outside a repository."""
    with suppress(OSError):
        command = ["git", "-C", folder, "rev-parse", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return ""


def _version(module: str) -> dict[str, Setting]:
    """The version of an installed package; that of gradsurgery is recorded for every run."""
    top = module.partition(".")[0]
    with suppress(PackageNotFoundError):
        return {} if top == "gradsurgery" else {name: version(name) for name in packages_distributions().get(top, ())}
    return {}
