"""Settings of a problem: a dict of defaults, or a frozen dataclass whose field types say which values are allowed.

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        epochs: Count
        learning_rate: PositiveFloat
        data: Annotated[str, one_of("digits", "mnist")]

An instance is one scale of the problem. ``--set NAME=VALUE`` and ``sweep(settings=...)`` replace values: their kinds
check them, and ``__post_init__`` of the dataclass checks fields against each other. Several values of a setting are
swept: ``--set learning_rate=0.1,0.3`` or ``settings={"learning_rate": [0.1, 0.3]}``.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, is_dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias, get_type_hints

from gradsurgery.lab.errors import UserError, unknown
from gradsurgery.lab.run import Setting, check_setting

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Kind(Protocol):
    """The values that a setting takes."""

    @property
    def expected(self) -> str:
        """Describes the allowed values."""

    def read(self, value: Setting) -> Setting:
        """Return the value; a number or a switch may come as text. Raises ValueError if it is not allowed."""


@dataclass(frozen=True)
class Whole:
    """Whole numbers within bounds, both allowed."""

    least: int | None = 1
    most: int | None = 10**9

    @property
    def expected(self) -> str:
        return "a whole number" if self.least is None else f"a whole number from {self.least} to {self.most}"

    def read(self, value: Setting) -> int:
        number = int(value) if isinstance(value, str) else value
        if not isinstance(number, int) or isinstance(number, bool):
            raise ValueError
        if (self.least is not None and number < self.least) or (self.most is not None and number > self.most):
            raise ValueError
        return number


@dataclass(frozen=True)
class Number:
    """Finite numbers."""

    positive: bool = False

    @property
    def expected(self) -> str:
        return "a number above 0" if self.positive else "a number"

    def read(self, value: Setting) -> float:
        number = float(value)
        if isinstance(value, bool) or not math.isfinite(number) or (self.positive and number <= 0):
            raise ValueError
        return number


@dataclass(frozen=True)
class TrueOrFalse:
    """A switch."""

    expected: str = "true or false"

    def read(self, value: Setting) -> bool:
        text = str(value).lower()
        if text not in ("true", "false"):
            raise ValueError
        return text == "true"


@dataclass(frozen=True)
class Text:
    """Text that matches a regular expression as a whole."""

    pattern: str = r".+"
    expected: str = "a name"

    def read(self, value: Setting) -> str:
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value):
            raise ValueError
        return value


def one_of(*choices: str) -> Text:
    """One of a few names."""
    return Text("|".join(map(re.escape, choices)), f"one of {', '.join(choices)}")


Count: TypeAlias = Annotated[int, Whole()]
CountOrZero: TypeAlias = Annotated[int, Whole(least=0)]
PositiveFloat: TypeAlias = Annotated[float, Number(positive=True)]
Switch: TypeAlias = Annotated[bool, TrueOrFalse()]
Name: TypeAlias = Annotated[str, Text()]

Settings: TypeAlias = "DataclassInstance | Mapping[str, Setting]"
"""The settings of one scale."""
Choices: TypeAlias = Mapping[str, Setting | Sequence[Setting]]
"""Name -> a value, or several to sweep over."""

_BY_TYPE: dict[Any, Kind] = {
    bool: TrueOrFalse(),
    int: Whole(least=None, most=None),
    float: Number(),
    str: Text(r"(?s:.*)", "text"),
}


def settings_mapping(settings: Settings) -> dict[str, Setting]:
    """Settings by name."""
    return dict(settings) if isinstance(settings, Mapping) else asdict(settings)


def kinds_of(settings: Settings) -> dict[str, Kind]:
    """The values that each setting takes, by name: those of its field's type, or of the type of its default."""
    values = settings_mapping(settings)
    for name, value in values.items():
        check_setting(name, value)
    if not is_dataclass(settings):
        return {name: _kind_of_value(value) for name, value in values.items()}
    hints = get_type_hints(type(settings), include_extras=True)
    return {name: _kind_of(hints[name], values[name]) for name in values}


def _kind_of(hint: Any, value: Setting) -> Kind:
    kind: Kind | None = hint.__metadata__[0] if hasattr(hint, "__metadata__") else _BY_TYPE.get(hint)
    return kind or _kind_of_value(value)


def _kind_of_value(value: Setting) -> Kind:
    """By its type or a class that this derives from, as numpy's float64 does from float."""
    return next(kind for each, kind in _BY_TYPE.items() if isinstance(value, each))


def read_choices(kind: Kind, choices: Setting | Sequence[Setting]) -> list[Setting]:
    """The values of a setting: several from a list or from text with commas, unless such text is one value.

    Example:
        >>> read_choices(Number(), "0.1,0.3"), read_choices(Text(), "a,b"), read_choices(Text(), ["a,b", "c"])
        ([0.1, 0.3], ['a,b'], ['a,b', 'c'])
    """
    if isinstance(choices, str):
        with suppress(TypeError, ValueError):
            return [kind.read(choices)]
        choices = [part.strip() for part in choices.split(",")]
    values = [choices] if isinstance(choices, Setting) else choices
    return list(dict.fromkeys(kind.read(value) for value in values))


def combine(settings: Settings, changes: Choices, problem: str) -> Iterable[dict[str, Setting]]:
    """All combinations of the changes to the settings of a problem, each a value by name."""
    kinds = kinds_of(settings)
    values: dict[str, list[Setting]] = {}
    for name, choices in changes.items():
        if name not in kinds:
            raise unknown("setting", name, kinds, where=f"of {problem}")
        try:
            values[name] = read_choices(kinds[name], choices)
        except (TypeError, ValueError) as error:
            raise UserError(f"the setting {name} must be {kinds[name].expected}; got {choices!r}") from error
        if not values[name]:
            raise UserError(f"the setting {name} must have at least one value; got none")
    return (dict(zip(values, combination, strict=True)) for combination in product(*values.values()))


def override(settings: Settings, changes: Mapping[str, Setting]) -> dict[str, Setting]:
    """All settings by name, with some replaced; the dataclass checks them against each other."""
    if isinstance(settings, Mapping):
        return {**settings, **changes}
    return asdict(replace(settings, **changes))
