"""Settings of a problem: a frozen dataclass whose field types say which values are allowed.

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        epochs: Count
        learning_rate: PositiveFloat
        data: Annotated[str, one_of("digits", "mnist")]

An instance is one scale of the problem. ``--set NAME=VALUE`` replaces fields: their types parse and check the values,
and ``__post_init__`` of the dataclass checks fields against each other.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias, TypeVar, get_type_hints

from gradsurgery.lab.errors import UserError, unknown
from gradsurgery.lab.run import Setting, check_setting

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    S = TypeVar("S", bound=DataclassInstance)


class Kind(Protocol):
    """The values that a setting takes."""

    @property
    def expected(self) -> str:
        """Describes the allowed values."""

    def parse(self, text: str) -> Setting:
        """Convert text to a value; raises ValueError if it is not allowed."""


@dataclass(frozen=True)
class Whole:
    """Whole numbers within bounds, both allowed."""

    least: int = 1
    most: int = 10**9

    @property
    def expected(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def parse(self, text: str) -> int:
        value = int(text)
        if not self.least <= value <= self.most:
            raise ValueError
        return value


@dataclass(frozen=True)
class Positive:
    """Finite numbers above 0."""

    expected: str = "a number above 0"

    def parse(self, text: str) -> float:
        value = float(text)
        if not 0 < value < math.inf:
            raise ValueError
        return value


@dataclass(frozen=True)
class TrueOrFalse:
    """A switch."""

    expected: str = "true or false"

    def parse(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError
        return text.lower() == "true"


@dataclass(frozen=True)
class Text:
    """Text that matches a regular expression as a whole."""

    pattern: str = r".+"
    expected: str = "a name"

    def parse(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise ValueError
        return text


@dataclass(frozen=True)
class AnyWhole:
    """Whole numbers."""

    expected: str = "a whole number"

    def parse(self, text: str) -> int:
        return int(text)


@dataclass(frozen=True)
class AnyNumber:
    """Finite numbers."""

    expected: str = "a number"

    def parse(self, text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            raise ValueError
        return value


def kind_of(name: str, default: Setting) -> Kind:
    """The values that a setting with this default takes: those of its type.

    Args:
        name: the setting, for the error message.
        default: its default value.
    """
    # bool first: True is an int, too
    kinds: dict[type, Kind] = {bool: TrueOrFalse(), int: AnyWhole(), float: AnyNumber(), str: Text(expected="text")}
    check_setting(name, default)
    return next(kind for python_type, kind in kinds.items() if isinstance(default, python_type))


def one_of(*choices: str) -> Text:
    """One of a few names."""
    return Text("|".join(map(re.escape, choices)), f"one of {', '.join(choices)}")


Count: TypeAlias = Annotated[int, Whole()]
CountOrZero: TypeAlias = Annotated[int, Whole(least=0)]
PositiveFloat: TypeAlias = Annotated[float, Positive()]
Switch: TypeAlias = Annotated[bool, TrueOrFalse()]
Name: TypeAlias = Annotated[str, Text()]


def kinds_of(settings_type: type) -> dict[str, Kind]:
    """The values that each setting takes, by name."""
    hints = get_type_hints(settings_type, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def override(settings: "S", changes: Mapping[str, str], problem: str) -> "S":
    """Replace fields by values that are parsed from text.

    Args:
        settings: the settings of a scale.
        changes: name -> value, as the user wrote them.
        problem: the problem's name, for error messages.
    """
    kinds = kinds_of(type(settings))
    values = {}
    for name, text in changes.items():
        if name not in kinds:
            raise unknown("setting", name, kinds, where=f"of {problem}")
        try:
            values[name] = kinds[name].parse(text)
        except ValueError as error:
            raise UserError(f"the setting {name} must be {kinds[name].expected}, but got {text!r}") from error
    return replace(settings, **values)
