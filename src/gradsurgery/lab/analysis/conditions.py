"""The conditions that runs were trained under: settings, and the versions and hardware that the store recorded."""

from collections.abc import Iterable, Mapping, Sequence

from gradsurgery.lab.objective import INFO
from gradsurgery.lab.run import RunRecord, Setting

_NOT_A_CONDITION = {"absolute", "allow", "log", "reason", "samples", "seconds", *INFO}
_NOT_RECORDED = "not recorded"
_MAX_VALUES = 4
_MAX_LENGTH = 16


def condition_warnings(records: Sequence[RunRecord]) -> list[str]:
    """A sentence if finished runs differ in versions or hardware."""
    differing = _differing(_conditions(record) for record in records if record.status == "done")
    return [f"These runs were trained under different conditions, compare with care: {differing}."] if differing else []


def differing_settings(records: Iterable[RunRecord]) -> list[str]:
    """The names of the settings in which the runs differ."""
    collected = _collect_values(record.spec.settings for record in records)
    return [name for name, values in collected.items() if len(values) > 1]


def condition_values(records: Sequence[RunRecord]) -> dict[str, dict[str, list[str]]]:
    """The distinct values of each setting, and of each version and kind of hardware."""
    return {
        "Settings": _collect_values(record.spec.settings for record in records),
        "Versions and hardware": _collect_values(_conditions(record) for record in records),
    }


def _conditions(record: RunRecord) -> dict[str, Setting]:
    return {name: value for name, value in record.info.items() if name not in _NOT_A_CONDITION}


def _differing(mappings: Iterable[Mapping[str, Setting]]) -> str:
    """The names with more than one value, each with its values."""
    collected = _collect_values(mappings)
    return "; ".join(f"{name} ({_shorten(values)})" for name, values in collected.items() if len(values) > 1)


def _shorten(values: Sequence[str]) -> str:
    shown = ", ".join(
        value if len(value) <= _MAX_LENGTH else f"{value[:_MAX_LENGTH]}…" for value in values[:_MAX_VALUES]
    )
    return shown if len(values) <= _MAX_VALUES else f"{shown}, … {len(values)} values"


def _collect_values(mappings: Iterable[Mapping[str, Setting]]) -> dict[str, list[str]]:
    """The distinct values under each name; "not recorded" for mappings without the name."""
    mappings = list(mappings)
    names = dict.fromkeys(name for mapping in mappings for name in mapping)
    return {name: list(dict.fromkeys(str(mapping.get(name, _NOT_RECORDED)) for mapping in mappings)) for name in names}
