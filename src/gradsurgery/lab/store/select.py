"""Stored runs, divided into sweeps: the runs of one problem at one scale with the same settings.

A sweep over a setting, such as the learning rate, has several values of it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gradsurgery.lab.analysis.series import is_main_alone
from gradsurgery.lab.atomic import file_name
from gradsurgery.lab.errors import UserError, unknown
from gradsurgery.lab.find import find_installed, find_problem, installed_problems, is_reference
from gradsurgery.lab.objective import Objectives, judge_by
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.run import RunRecord, RunSpec, Setting
from gradsurgery.lab.settings import Choices, kinds_of, read_choices, settings_mapping
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
        for name in dict.fromkeys(name for settings in self.settings for name in settings):
            values = {repr(settings[name]): settings[name] for settings in self.settings if name in settings}
            if values.keys() != {repr(defaults.get(name))}:
                parts.append(f"{name} = {' and '.join(map(str, values.values()))}")
        return ", ".join(parts)

    @property
    def folder_name(self) -> str:
        """The name of the report's folder, with a hash of the settings unless they are those of the scale."""
        spec, settings = self.records[0].spec, "\n".join(sorted(map(settings_text, self.settings)))
        name = file_name(f"{spec.problem}-{spec.scale}")
        is_default = self.default_settings is not None and settings == settings_text(self.default_settings)
        if is_default and "-" not in spec.scale:  # a-b at scale c is not a at scale b-c
            return name
        identity = json.dumps([spec.problem, spec.scale, settings])
        return f"{name}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def open_store(folder: Path) -> Store:
    """The store in a folder; raises ``UserError`` if there is none."""
    store = Store(folder / "store.sqlite")
    if not store.path.exists():
        raise UserError(f"there is no store in {folder}: gradsurgery sweep creates one, --folder names another")
    return store


def stored_sweep(folder: Path, problem: Problem, trained: Sequence[RunRecord]) -> StoredSweep:
    """All stored runs of a problem with the scale and the settings of these."""
    scale = trained[0].spec.scale
    texts = {settings_text(record.spec.settings) for record in trained}
    with Store(folder / "store.sqlite") as store:
        stored = store.select(trained[0].spec.problem, scale, None)
    records = [record for record in stored if settings_text(record.spec.settings) in texts]
    return StoredSweep(problem, judge_by(problem.objectives, records), settings_mapping(problem.scale(scale).settings))


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
        settings: only runs with these values; those with several values of a setting are compared in one sweep. Main
            alone need not have the settings: it is compared with the other runs.
        objectives: the metrics to judge by; None or empty for those of the problem.
    """
    declared, records = _find_runs(folder, name, scales, only_first_scale=True)
    if declared is not None and objectives:
        declared = replace(declared, objectives=objectives)
    if declared is not None or objectives:
        records = judge_by(declared.objectives if declared else objectives or {}, records)
    choices = settings or {}
    selected = _with_settings(records, name, choices)
    sweeps: list[StoredSweep] = []
    for scale in dict.fromkeys(record.spec.scale for record in selected):
        by_settings: dict[str, list[RunRecord]] = {}
        for record in selected:
            if record.spec.scale == scale:
                by_settings.setdefault(_text_without(choices, record.spec.settings), []).append(record)
        defaults: Mapping[str, Setting] | None = None
        if declared:
            defaults = settings_mapping(declared.scale(scale).settings)
        else:  # not by the selected runs: their settings need not be the default
            stored = {settings_text(each.spec.settings): each.spec for each in records if each.spec.scale == scale}
            if len(stored) == 1:
                defaults = next(iter(stored.values())).settings
        first = None if defaults is None else _text_without(choices, defaults)
        compared = (text for text, runs in by_settings.items() if any(_names(run.spec, choices) for run in runs))
        ordered = sorted(compared, key=lambda text: (text != first, text))
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
    missing = {name: values for name in choices if (values := _missing_values(records, name, choices[name]))}
    selected = [record for record in records if _has_settings(record.spec, choices)]
    if missing or not any(_names(record.spec, choices) for record in selected):
        wanted = ", ".join(f"{name} = {_in_words(values)}" for name, values in (missing or choices).items())
        raise UserError(f"no run of {problem} with {wanted} is stored: train it with gradsurgery sweep")
    return selected


def _missing_values(
    records: Sequence[RunRecord], name: str, values: Setting | Sequence[Setting]
) -> Setting | Sequence[Setting]:
    """Those of the values that no run has; all of them if they are of another type than those of the runs."""
    stored = [record.spec.settings[name] for record in records if name in record.spec.settings]
    missing = []
    for kind in {type(value): kinds_of({name: value})[name] for value in stored}.values():
        with suppress(TypeError, ValueError):
            missing.append([value for value in read_choices(kind, values) if value not in stored])
    return min(missing, key=len, default=values)


def _in_words(values: Setting | Sequence[Setting]) -> str:
    return str(values) if isinstance(values, Setting) else " and ".join(map(str, values))


def _names(spec: RunSpec, choices: Choices) -> bool:
    """True unless it is main alone, kept without one of the settings."""
    return choices.keys() <= spec.settings.keys()


def _has_settings(spec: RunSpec, choices: Choices) -> bool:
    if is_main_alone(spec):  # the hyperparameters of other methods are settings, too
        choices = {name: values for name, values in choices.items() if name in spec.settings}
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
    return _find_runs(folder, name, scales, status)[1]


def _find_runs(
    folder: Path, name: str, scales: Sequence[str], status: str | None = None, *, only_first_scale: bool = False
) -> tuple[Problem | None, list[RunRecord]]:
    """The problem of this name, if it is more than a name in the store, and its stored runs at each of the scales."""
    with open_store(folder) as store:
        names = store.problems()
        is_plain = name in names or not is_reference(name)
        declared = find_installed(name) if is_plain else find_problem(name)
        if declared is None and name not in names:
            raise unknown("problem", name, [*names, *installed_problems()])
        if declared and only_first_scale:
            scales = scales or [declared.default_scale]
        found: list[RunRecord] = []
        for scale in scales or (None,):
            if declared and scale:
                declared.scale(scale)  # raises if there is no such scale
            at_scale = store.select(declared.name if declared else name, scale, status)
            if not at_scale:
                kind, missing = "finished run" if status else "run", f"{name} at scale {scale}" if scale else name
                raise UserError(f"no {kind} of {missing} is stored in {folder}: train it with gradsurgery sweep")
            found += at_scale
    return declared, found
