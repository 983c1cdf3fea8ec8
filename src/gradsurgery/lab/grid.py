"""Grids: how people write them on the command line, and the runs that they stand for."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from gradsurgery import METHODS
from gradsurgery.lab.errors import UserError, unknown
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.run import RunSpec, Setting
from gradsurgery.lab.train.training import method as made

_RANGE = re.compile(r"(?P<low>[^:]+):(?P<high>[^:]+):(?P<count>\d+)(?P<log>log)?")


def numbers(text: str) -> tuple[float, ...]:
    """The numbers of a list whose items are numbers or ranges.

    Example:
        >>> numbers("0,1e-2:1:3log")
        (0.0, 0.01, 0.1, 1.0)
        >>> numbers("0:1:5")
        (0.0, 0.25, 0.5, 0.75, 1.0)
    """
    found: list[float] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        match = _RANGE.fullmatch(item)
        try:
            found += _spaced(match) if match else [float(item)]
        except ValueError as error:
            raise UserError(f"a grid is numbers and ranges such as 0,0.1 or 1e-4:1:9log, but got {item!r}") from error
    return tuple(dict.fromkeys(found))


def _spaced(match: re.Match[str]) -> list[float]:
    low, high, count = float(match["low"]), float(match["high"]), int(match["count"])
    if not match["log"]:
        return [low + (high - low) * k / max(count - 1, 1) for k in range(count)]
    if min(low, high) <= 0:
        raise UserError(
            f"a logarithmic range runs between numbers above 0, but got {match[0]}; add 0 as an item: 0,..."
        )
    exponents = [math.log10(low) + (math.log10(high) - math.log10(low)) * k / max(count - 1, 1) for k in range(count)]
    return [float(f"{10**exponent:.12g}") for exponent in exponents]


def specs(
    problem: Problem,
    scale: str,
    *,
    methods: Sequence[str] | None = None,
    lams: Sequence[float] | None = None,
    rhos: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    settings: Mapping[str, str] | None = None,
) -> list[RunSpec]:
    """The runs of a sweep, method by method; what is not given is taken from the scale.

    A method without a weight is run once for each seed. ``rhos`` are for bloop; without any it projects on the
    gradients themselves.
    """
    chosen = problem.scale(scale)
    methods = chosen.methods if methods is None else methods
    lams = chosen.lams if lams is None else lams
    rhos = chosen.rhos if rhos is None else rhos
    seeds = chosen.seeds if seeds is None else seeds
    for what, grid in (("methods", methods), ("lams", lams), ("seeds", seeds)):
        if not grid:
            raise UserError(f"a sweep needs at least one value in {what}, but the grid is empty")
    everything = {**chosen.settings, **_overrides(problem, chosen.settings, settings or {})}

    found = []
    for name in dict.fromkeys(methods):
        if name not in METHODS:
            raise unknown("method", name, METHODS)
        fields = METHODS[name].__dataclass_fields__
        own_lams: Iterable[float | None] = lams if "lam" in fields else (None,)
        own_rhos: Iterable[float | None] = (rhos if name == "bloop" else None) or (None,)
        for lam, rho, seed in product(own_lams, own_rhos, seeds):
            try:
                made(name, lam, rho)
            except ValueError as error:
                raise UserError(str(error)) from error
            found.append(RunSpec(problem.name, scale, name, lam, rho, seed, everything))
    return found


def _overrides(problem: Problem, defaults: Mapping[str, Setting], given: Mapping[str, str]) -> dict[str, Setting]:
    """Settings given as text, in the types of those they replace."""
    found: dict[str, Setting] = {}
    for name, text in given.items():
        if name not in defaults:
            raise unknown(f"setting of {problem.name}", name, defaults)
        kind = type(defaults[name])
        try:
            value = {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
        except (ValueError, KeyError) as error:
            raise UserError(f"the setting {name} is a {kind.__name__}, but got {text!r}") from error
        least = 0 if name in problem.may_be_zero else math.ulp(0)
        if kind in (int, float) and not least <= float(value) < math.inf:
            raise UserError(f"the setting {name} is a number above 0, but got {text}")
        if value == "":
            raise UserError(f"the setting {name} is a name, but got nothing")
        found[name] = value
    return found
