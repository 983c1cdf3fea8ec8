"""Delete runs, rename a problem, and merge stores."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.find import find_problem, installed_problems
from gradsurgery.lab.run import RunRecord, Setting
from gradsurgery.lab.store.lease import is_leased
from gradsurgery.lab.store.select import open_store
from gradsurgery.lab.store.store import Store

ENDED = ("failed", "stopped", "done")
"""How a run can end, from the least to the most worth keeping."""


def checkpoint_folder(folder: Path, key: str) -> Path:
    """Where a run saves its checkpoints; kept until the run is done."""
    return folder / "checkpoints" / key


def delete_runs(folder: Path, records: Sequence[RunRecord]) -> None:
    """Delete these runs from the store of the folder, with their checkpoints and logs."""
    with open_store(folder) as store:
        _check_idle(store, records)
        store.edit(remove=[record.spec.key for record in records])
    for record in records:
        shutil.rmtree(checkpoint_folder(folder, record.spec.key), ignore_errors=True)
        if log := record.info.get("log"):
            (folder / "logs" / Path(str(log)).name).unlink(missing_ok=True)


def rename_problem(folder: Path, records: Sequence[RunRecord], name: str) -> None:
    """Give these runs, all of one problem, another problem's name. Interrupted runs keep their checkpoints."""
    if not name.strip():
        raise UserError(f"the name of a problem must not be empty; got {name!r}")
    renamed = [replace(record, spec=replace(record.spec, problem=name)) for record in records]
    if name in installed_problems():
        for record in renamed:
            find_problem(name).scale(record.spec.scale)  # reports by this name look for its scales only
    with open_store(folder) as store:
        _check_idle(store, records)
        if clash := sum(store.get(record.spec.key) is not None for record in renamed):
            raise UserError(f"{name} has {clash} of these {len(records)} runs already: delete one of the two first")
        store.edit(remove=[record.spec.key for record in records], add=renamed)
    for old, new in zip(records, renamed, strict=True):
        checkpoints = checkpoint_folder(folder, old.spec.key)
        if checkpoints.exists():
            checkpoints.rename(checkpoint_folder(folder, new.spec.key))


@dataclass(frozen=True)
class Merged:
    """What became of the runs of a store that was merged into another."""

    added: int
    replaced: int
    """Runs that had failed or not finished in the other store."""
    equal: int
    """Runs that were in both, with the same rows."""
    different: int
    """Runs that were in both, with other rows: those of the other store are kept."""
    unfinished: int
    """Runs that are still to be trained, and left out."""
    mixed: tuple[str, ...]
    """Problems whose runs with one method were trained by different code."""


def merge_store(folder: Path, source: Path) -> Merged:
    """Copy the runs in the store of ``source`` that have ended into that of ``folder``.

    Of a run in both, the one that got further is kept: done before stopped before failed. If both ended in the same
    way, the one in ``folder`` is kept.
    """
    with open_store(source) as other:
        if source.resolve() == folder.resolve():
            raise UserError(f"a store cannot be merged into itself; got {source}")
        records = other.select(status=None)
    ended = [record for record in records if record.status in ENDED]
    with Store(folder / "store.sqlite") as store:
        stored = {record.spec.key: record for record in store.select(status=None)}
        new = [record for record in ended if record.spec.key not in stored]
        in_both = [(record, stored[record.spec.key]) for record in ended if record.spec.key in stored]
        better = [record for record, ours in in_both if _rank(record) > _rank(ours)]
        _check_idle(store, better)
        store.edit(remove=[record.spec.key for record in better], add=[*new, *better])
    kept = [(record, ours) for record, ours in in_both if _rank(record) <= _rank(ours)]
    equal = sum(repr(record.metrics) == repr(ours.metrics) for record, ours in kept)  # NaN differs from itself
    mixed = _find_mixed([*new, *better, *stored.values()])
    return Merged(len(new), len(better), equal, len(kept) - equal, len(records) - len(ended), mixed)


def _find_mixed(records: Sequence[RunRecord]) -> tuple[str, ...]:
    codes: dict[tuple[str, str], set[Setting]] = {}
    for record in records:
        if code := record.info.get("code"):
            codes.setdefault((record.spec.problem, record.spec.method), set()).add(code)
    return tuple(sorted({problem for (problem, _), known in codes.items() if len(known) > 1}))


def _rank(record: RunRecord) -> int:
    return ENDED.index(record.status) if record.status in ENDED else -1


def _check_idle(store: Store, records: Sequence[RunRecord]) -> None:
    busy = sum(is_leased(store.path, record.spec.key) for record in records)
    if busy:
        raise UserError(f"these runs must not be in training; got {busy} of {len(records)} in training: stop the sweep")
