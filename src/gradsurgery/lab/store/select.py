"""Stored runs, divided into sweeps: the runs of one problem at one scale with the same settings.

A sweep over a setting, such as the learning rate, has several values of it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gradsurgery.lab.atomic import file_name
from gradsurgery.lab.errors import UserError, unknown
from gradsurgery.lab.find import find_problem, installed_problems, is_reference
from gradsurgery.lab.grid import specs
from gradsurgery.lab.objective import Objectives, judge_by
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.run import RunRecord, RunSpec, Setting
from gradsurgery.lab.settings import Choices, kinds_of, read_choices
from gradsurgery.lab.store.store import Store, settings_text


@dataclass(frozen=True)
class StoredSweep:
    """The stored runs of one problem at one scale with the same settings, but for those swept over; at least one."""

    problem: Problem | None
    """None if the problem is known by its stored runs alone."""
    records: Sequence[RunRecord]
    default_settings: Mapping[str, Setting] | None
    """The settings of the scale; None if they are not known."""

    @property
    def settings(self) -> list[Mapping[str, Setting]]:
        """The distinct settings of its runs."""
        return list({settings_text(record.spec.settings): record.spec.settings for record in self.records}.values())

    @property
    def title(self) -> str:
        """The problem, the scale, and the settings that are not those of the scale."""
        spec, defaults = self.records[0].spec, self.default_settings or {}
        parts = [spec.problem, spec.scale]
        for name in spec.settings:
            values = {repr(settings.get(name)): settings.get(name) for settings in self.settings}
            if values.keys() != {repr(defaults.get(name))}:
                parts.append(f"{name} = {' and '.join(map(str, values.values()))}")
        return ", ".join(parts)

    @property
    def folder_name(self) -> str:
        """The name of the report's folder, with a hash of the settings unless they are those of the scale."""
        spec = self.records[0].spec
        name = file_name(f"{spec.problem}-{spec.scale}")
        text = "\n".join(sorted(map(settings_text, self.settings)))
        if self.default_settings is not None and text == settings_text(self.default_settings):
            return name
        digest = hashlib.sha256(text.encode()).hexdigest()
        return f"{name}-{digest[:8]}"


def stored_sweep(folder: Path, problem: Problem, trained: Sequence[RunRecord]) -> StoredSweep:
    """All stored runs of a problem with the scale and the settings of these."""
    scale = trained[0].spec.scale
    texts = {settings_text(record.spec.settings) for record in trained}
    with Store(folder) as store:
        stored = store.select(trained[0].spec.problem, scale, None)
    records = [record for record in stored if settings_text(record.spec.settings) in texts]
    return StoredSweep(problem, judge_by(problem.objectives, records), specs(problem, scale)[0].settings)


def select_sweeps(
    folder: Path,
    name: str,
    scales: Sequence[str] = (),
    settings: Choices | None = None,
    objectives: Objectives | None = None,
) -> list[StoredSweep]:
    """The stored sweeps of a problem, at least one.

    Args:
        folder: the folder of the store.
        name: the problem.
        scales: only these; empty for the problem's first, or for all if it is known by its stored runs alone.
        settings: only runs with these values; those with several values of a setting are compared in one sweep.
        objectives: the metrics to judge by; None or empty for those of the problem.
    """
    declared = find_declared(name)
    records = select_runs(folder, name, scales or (list(declared.scales)[:1] if declared else ()))
    if declared is not None and objectives:
        declared = replace(declared, objectives=objectives)
    if declared is not None or objectives:
        records = judge_by(declared.objectives if declared else objectives or {}, records)
    choices = settings or {}
    records = _with_settings(records, name, choices)
    sweeps: list[StoredSweep] = []
    for scale in dict.fromkeys(record.spec.scale for record in records):
        by_settings: dict[str, list[RunRecord]] = {}
        for record in records:
            if record.spec.scale == scale:
                by_settings.setdefault(_text_without(choices, record.spec.settings), []).append(record)
        defaults = specs(declared, scale)[0].settings if declared else None
        if defaults is None and len(by_settings) == 1:
            defaults = next(record for record in records if record.spec.scale == scale).spec.settings
        first = None if defaults is None else _text_without(choices, defaults)
        ordered = sorted(by_settings, key=lambda text: (text != first, text))
        sweeps += [StoredSweep(declared, by_settings[text], defaults) for text in ordered]
    return sweeps


def _text_without(choices: Choices, settings: Mapping[str, Setting]) -> str:
    return settings_text({name: value for name, value in settings.items() if name not in choices})


def _with_settings(records: Sequence[RunRecord], problem: str, choices: Choices) -> list[RunRecord]:
    """The runs whose settings are among the choices, at least one."""
    for name in choices:
        known = dict.fromkeys(known for record in records for known in record.spec.settings)
        if name not in known:
            raise unknown("setting", name, known, where=f"of {problem}")
    selected = [record for record in records if _has_settings(record.spec, choices)]
    if not selected:
        wanted = ", ".join(f"{name} = {values}" for name, values in choices.items())
        raise UserError(f"no run of {problem} with {wanted} is stored: train it with gradsurgery sweep")
    return selected


def _has_settings(spec: RunSpec, choices: Choices) -> bool:
    kinds = kinds_of(spec.settings)
    try:
        return all(spec.settings[name] in read_choices(kinds[name], values) for name, values in choices.items())
    except (KeyError, TypeError, ValueError):
        return False


def select_runs(folder: Path, name: str, scales: Sequence[str] = (), status: str | None = None) -> list[RunRecord]:
    """The stored runs of a problem, at least one at each of the scales.

    Args:
        folder: the folder of the store.
        name: the problem.
        scales: only these; empty for all.
        status: ``done`` for finished runs only; None for all.
    """
    declared = find_declared(name)
    if declared:
        for scale in scales:
            declared.scale(scale)  # raises if there is no such scale
    path = folder / "store.sqlite"
    if not path.exists():
        raise UserError(f"there is no store in {folder}: gradsurgery sweep creates one, --folder names another")
    with Store(path) as store:
        stored = store.select(declared.name if declared else name, None, status)
        if declared is None and not stored:
            names = dict.fromkeys(record.spec.problem for record in store.select(status=None))
            if name not in names:
                raise unknown("problem", name, [*names, *installed_problems()])
    records: list[RunRecord] = []
    for selected in scales or (None,):
        at_scale = [record for record in stored if selected in (None, record.spec.scale)]
        if not at_scale:
            missing = f"{name} at scale {selected}" if selected else name
            kind = "run" if status is None else "finished run"
            raise UserError(f"no {kind} of {missing} is stored in {folder}: train it with gradsurgery sweep")
        records += at_scale
    return records


def find_declared(name: str) -> Problem | None:
    """The declared problem of this name; None for an unknown name, which stored runs may have all the same."""
    try:
        return find_problem(name)
    except UserError:
        if is_reference(name):
            raise
        return None
