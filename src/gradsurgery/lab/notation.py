"""The notation of grids: ``0,1e-4:1:9log`` for numbers and ranges, ``relative:0.03:3:7log`` for relative λ."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.lam import Weight
from gradsurgery.relative import relative

_RANGE = re.compile(r"(?P<low>[^:]+):(?P<high>[^:]+):(?P<count>\d+)(?P<log>log)?")


def parse_numbers(text: str | Iterable[float]) -> tuple[float, ...]:
    """Parse a comma-separated list of numbers and ranges, unless they are numbers already.

    Example:
        >>> parse_numbers("0,1e-2:1:3log")
        (0.0, 0.01, 0.1, 1.0)
        >>> parse_numbers("0:1:5")
        (0.0, 0.25, 0.5, 0.75, 1.0)
    """
    if not isinstance(text, str):
        return tuple(map(float, text))  # 1 and 1.0 would be two runs
    values: list[float] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        match = _RANGE.fullmatch(item)
        try:
            values += _expand(match) if match else [float(item)]
        except ValueError as error:
            raise UserError(f"a grid must be numbers and ranges such as 0,0.1 or 1e-4:1:9log; got {item!r}") from error
    return tuple(dict.fromkeys(values))


def parse_seeds(text: str | Sequence[float]) -> Sequence[float]:
    """Parse seeds: numbers, and ranges with both ends.

    Example:
        >>> parse_seeds("0-2,7")
        (0.0, 1.0, 2.0, 7.0)
    """
    if not isinstance(text, str):
        return text
    return parse_numbers(re.sub(r"(\d+)-(\d+)", lambda match: _seed_range(int(match[1]), int(match[2])), text))


def _seed_range(first: int, last: int) -> str:
    if not first <= last < first + 10_000:
        raise UserError(f"a range of seeds must go up, as 0-4, by less than 10,000; got {first}-{last}")
    return ",".join(map(str, range(first, last + 1)))


def parse_lams(lams: str | Iterable[Weight]) -> tuple[Weight, ...]:
    """λ from numbers, from ``gs.relative`` of numbers, or from text.

    Example:
        >>> parse_lams("relative:0.03:3:3log")
        (relative(0.03), relative(0.3), relative(3.0))
        >>> parse_lams([1, relative(0.3)])
        (1.0, relative(0.3))
    """
    if not isinstance(lams, str):
        return tuple(lam if isinstance(lam, relative) else float(lam) for lam in lams)  # 1 and 1.0 would be two runs
    if not lams.startswith("relative:"):
        return parse_numbers(lams)
    try:
        return tuple(relative(number) for number in parse_numbers(lams.removeprefix("relative:")))
    except ValueError as error:
        raise UserError(str(error)) from error


LamLists: TypeAlias = str | Sequence[Weight] | Sequence[str | Sequence[Weight]]
"""λ of a grid: a list, or one list for each auxiliary loss."""


def parse_lam_lists(lams: LamLists) -> tuple[tuple[Weight, ...], ...]:
    """One list of λ for all auxiliary losses, or one for each.

    Example:
        >>> parse_lam_lists("0.1,1"), parse_lam_lists(["0.1,1", [0, 0.5]])
        (((0.1, 1.0),), ((0.1, 1.0), (0.0, 0.5)))
    """
    items: tuple[Any, ...] = (lams,) if isinstance(lams, str) else tuple(lams)
    lists = items if any(isinstance(item, str | Sequence) for item in items) else (items,)
    return tuple(map(parse_lams, lists))


def _expand(match: re.Match[str]) -> list[float]:
    low, high, count = float(match["low"]), float(match["high"]), int(match["count"])
    if not match["log"]:
        return [low + (high - low) * k / max(count - 1, 1) for k in range(count)]
    if min(low, high) <= 0:
        raise UserError(f"both ends of a logarithmic range must be above 0; got {match[0]}: add 0 as an item: 0,...")
    exponents = [math.log10(low) + (math.log10(high) - math.log10(low)) * k / max(count - 1, 1) for k in range(count)]
    return [float(f"{10**exponent:.12g}") for exponent in exponents]
