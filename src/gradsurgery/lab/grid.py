"""Grids: parse the notation of the command line, and expand a grid into runs."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np

from gradsurgery.lab.declaration import Problem, Scale
from gradsurgery.lab.errors import UserError, unknown
from gradsurgery.lab.lam import Lam, has_weight, lam_number
from gradsurgery.lab.method import has_average, has_hyperparameter, known_methods, make_method
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.settings import override
from gradsurgery.relative import relative

_RANGE = re.compile(r"(?P<low>[^:]+):(?P<high>[^:]+):(?P<count>\d+)(?P<log>log)?")


def parse_numbers(text: str) -> tuple[float, ...]:
    """Parse a comma-separated list of numbers and ranges.

    Example:
        >>> parse_numbers("0,1e-2:1:3log")
        (0.0, 0.01, 0.1, 1.0)
        >>> parse_numbers("0:1:5")
        (0.0, 0.25, 0.5, 0.75, 1.0)
    """
    values: list[float] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        match = _RANGE.fullmatch(item)
        try:
            values += _expand(match) if match else [float(item)]
        except ValueError as error:
            raise UserError(f"a grid is numbers and ranges such as 0,0.1 or 1e-4:1:9log, but got {item!r}") from error
    return tuple(dict.fromkeys(values))


@dataclass(frozen=True)
class Lams:
    """The λ of a grid, as a user writes them."""

    values: tuple[Lam, ...] | None
    """None for those of the scale."""
    limit: int | None = None
    """For an adaptive grid, the largest number of λ per method; ``values`` are then the ones to begin with."""


def parse_lams(lams: str | Iterable[Lam] | None, scale: Scale | None = None) -> Lams:
    """Parse λ: numbers and ranges, or ``auto:9`` for an adaptive grid; after ``relative:`` in units of main's gradient.

    Args:
        lams: numbers, or ``gs.relative`` of numbers; text such as ``0,1e-4:1:9log``, ``relative:0.03:3:7log``,
            ``auto:9`` or ``relative:auto:9``; or None for those of the scale.
        scale: an adaptive grid covers the range of its λ; a relative one begins with 0.03 to 3.

    Example:
        >>> parse_lams("relative:0.03:3:3log")
        Lams(values=(relative(0.03), relative(0.3), relative(3.0)), limit=None)
        >>> parse_lams("relative:auto:9")
        Lams(values=(relative(0.03), relative(0.3), relative(3.0)), limit=9)
    """
    if lams is None:
        return Lams(None)
    if not isinstance(lams, str):
        # 1 and 1.0 would be two runs
        return Lams(tuple(lam if isinstance(lam, relative) else float(lam) for lam in lams))
    rest = lams.removeprefix("relative:")
    is_relative = rest != lams
    if not rest.startswith("auto"):
        return Lams(_with_unit(parse_numbers(rest), is_relative))
    limit = rest.removeprefix("auto:")
    if not limit.isdecimal() or int(limit) < len(START):
        raise UserError(f"an adaptive grid is auto: and a number from {len(START)}, such as auto:9, but got {lams!r}")
    covered = [] if scale is None or is_relative else [lam for lam in scale.lams if has_weight(lam)]
    is_relative = all(isinstance(lam, relative) for lam in covered)
    low, high = min(map(lam_number, covered), default=0.03), max(map(lam_number, covered), default=3.0)
    values = [float(f"{low * (high / low) ** fraction:.3g}") for fraction in START]
    return Lams(_with_unit(values, is_relative), int(limit))


def _with_unit(numbers: Iterable[float], is_relative: bool) -> tuple[Lam, ...]:
    try:
        return tuple(relative(number) if is_relative else number for number in numbers)
    except ValueError as error:
        raise UserError(str(error)) from error


START = (0.0, 0.5, 1.0)
"""Where an adaptive grid begins, as fractions of its range on a logarithmic scale."""


def _expand(match: re.Match[str]) -> list[float]:
    low, high, count = float(match["low"]), float(match["high"]), int(match["count"])
    if not match["log"]:
        return [low + (high - low) * k / max(count - 1, 1) for k in range(count)]
    if min(low, high) <= 0:
        raise UserError(
            f"both ends of a logarithmic range must be above 0, but got {match[0]}; add 0 as an item: 0,..."
        )
    exponents = [math.log10(low) + (math.log10(high) - math.log10(low)) * k / max(count - 1, 1) for k in range(count)]
    return [float(f"{10**exponent:.12g}") for exponent in exponents]


def powers_of_ten(low: float, high: float, count: int) -> tuple[float, ...]:
    """Numbers from 10^low to 10^high, evenly spaced on a logarithmic scale.

    Example:
        >>> powers_of_ten(-1, 1, 3)
        (0.1, 1.0, 10.0)
    """
    return tuple(float(10**exponent) for exponent in np.linspace(low, high, count))


def specs(
    problem: Problem,
    scale: str,
    *,
    methods: Sequence[str] | None = None,
    lams: Sequence[Lam] | None = None,
    rhos: Sequence[float] | None = None,
    seeds: Sequence[float] | None = None,
    settings: Mapping[str, str] | None = None,
    main_alone: bool = False,
) -> list[RunSpec]:
    """List the runs of a sweep, method by method. Arguments that are None come from the scale.

    A method without ``lam`` or ``rho`` is run once for all of them. ``rhos`` apply to every method that has ``rho``;
    those of the scale only to methods with an average by default: bloop, as in the paper, and your own. Without any,
    methods project on the current gradient.

    With ``main_alone``, runs of main alone (mixed with λ = 0) are added, one for each seed and once for all methods, if
    the problem can be trained that way.
    """
    defaults = problem.scale(scale)
    names = list(dict.fromkeys(defaults.methods if methods is None else methods))
    all_lams = defaults.lams if lams is None else lams
    all_seeds = _check_seeds(defaults.seeds if seeds is None else seeds)
    for argument, values in (("methods", names), ("lams", all_lams), ("seeds", all_seeds)):
        if not values:
            raise UserError(f"a sweep needs at least one value in {argument}, but the grid is empty")
    _check_methods(problem, names)
    if lams is not None and not any(has_hyperparameter(name, "lam") for name in names):
        raise UserError(f"lam has no effect on {', '.join(names)}: leave it out")
    if rhos and not (problem.uses_rho and any(has_hyperparameter(name, "rho") for name in names)):
        raise UserError(f"rho has no effect on {problem.name} with {', '.join(names)}: leave it out")
    changes = settings or {}
    run_settings = asdict(override(defaults.settings_for(changes), changes, problem.name))

    runs = []
    for name in names:
        method_lams = all_lams if has_hyperparameter(name, "lam") else (None,)
        method_rhos: Sequence[float | None] = ()
        if rhos is not None and has_hyperparameter(name, "rho"):
            method_rhos = rhos
        elif rhos is None and has_average(name):
            method_rhos = defaults.rhos
        for lam, rho, seed in product(method_lams, method_rhos or (None,), all_seeds):
            if name == "mixed" and not has_weight(lam):
                lam = 0.0  # main alone is the same run whether λ is relative or not
            try:
                make_method(name, lam, rho)
            except ValueError as error:
                raise UserError(str(error)) from error
            runs.append(RunSpec(problem.name, scale, name, lam, rho, seed, run_settings))
    if main_alone and (problem.methods is None or "mixed" in problem.methods):
        runs += [RunSpec(problem.name, scale, "mixed", 0.0, None, seed, run_settings) for seed in all_seeds]
    return list({run.key: run for run in runs}.values())


def _check_seeds(seeds: Sequence[float]) -> list[int]:
    if not all(0 <= seed < 2**31 and seed == int(seed) for seed in seeds):
        raise UserError(f"seeds are whole numbers from 0 to {2**31 - 1}, but got {', '.join(map(str, seeds))}")
    return [int(seed) for seed in seeds]


def _check_methods(problem: Problem, names: Sequence[str]) -> None:
    for name in names:
        if name not in known_methods():
            raise unknown("method", name, known_methods())
        if problem.methods is not None and name not in problem.methods:
            raise UserError(f"{problem.name} can be run with {', '.join(problem.methods)}, but not with {name}")
