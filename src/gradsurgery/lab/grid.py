"""A grid of methods, λ, ρ, seeds and settings, as the user writes it, turned into runs."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from gradsurgery.lab.errors import UserError, unknown
from gradsurgery.lab.find import check_name, find_method, find_problem
from gradsurgery.lab.lam import Lam, Tau, Weight, has_weight, lam_number
from gradsurgery.lab.method import has_average, has_hyperparameter, known_methods, make_method, takes_several, takes_tau
from gradsurgery.lab.notation import LamLists, parse_lam_lists, parse_numbers, parse_seeds
from gradsurgery.lab.problem import Problem, Scale
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.settings import Choices, combine, override
from gradsurgery.method import Method
from gradsurgery.relative import relative

TAUS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""The default τ of a method that takes it in place of λ."""
START = (0.0, 0.5, 1.0)
"""Where an adaptive grid begins, as fractions of its range on a logarithmic scale."""
START_TAUS = (0.1, 0.3, 1.0)
"""Where an adaptive grid begins for τ."""


def choose_lams(lams: LamLists | None, scale: Scale) -> tuple[LamLists | None, int | None]:
    """The λ that a user asks for; for an adaptive grid those to begin with, and the largest number of λ per method.

    Args:
        lams: numbers, or ``gs.relative`` of numbers; text such as ``0,1e-4:1:9log``, ``relative:0.03:3:7log``,
            ``auto:9`` or ``relative:auto:9``; for several auxiliary losses also one such list for each; or None for
            those of the scale.
        scale: an adaptive grid covers the range of its λ; a relative one begins with 0.03 to 3.

    Example:
        >>> choose_lams("relative:auto:9", Scale(lams=(0.1,)))
        ((relative(0.03), relative(0.3), relative(3.0)), 9)
    """
    if not isinstance(lams, str) or not lams.removeprefix("relative:").startswith("auto"):
        return lams, None
    limit = lams.removeprefix("relative:").removeprefix("auto:")
    if not limit.isdecimal() or int(limit) < len(START):
        raise UserError(f"an adaptive grid must be auto: and a number from {len(START)}, such as auto:9; got {lams!r}")
    covered = [] if lams.startswith("relative:") else list(filter(has_weight, parse_lam_lists(scale.lams)[0]))
    covered = covered or [relative(0.03), relative(3.0)]
    low, high = min(map(lam_number, covered)), max(map(lam_number, covered))
    unit = relative if isinstance(covered[0], relative) else float
    return tuple(unit(float(f"{low * (high / low) ** fraction:.3g}")) for fraction in START), int(limit)


def plan_runs(
    problem: Problem | str, *, lams: LamLists | None, scale: str | None, **grid: Any
) -> tuple[Problem, list[RunSpec], int | None]:
    """The problem, the runs of a grid, and for an adaptive one the largest number of λ per method; see ``sweep``."""
    declared = find_problem(problem) if isinstance(problem, str) else problem
    if not isinstance(declared, Problem):
        raise UserError(f"problem must be made by @lab.problem, or be a name; got {problem!r}")
    check_name(declared)
    values, max_lams = choose_lams(lams, declared.scale(scale))
    adaptive = max_lams is not None
    runs = specs(declared, scale, lams=values, adaptive=adaptive, **{"main_alone": True, **grid})
    if adaptive and len(declared.aux_losses) > 1:
        raise UserError("an adaptive grid takes one auxiliary loss: give --lams in full")
    if adaptive and len({repr(run.settings) for run in runs}) > 1:
        raise UserError("an adaptive grid takes one value for each setting: give --lams in full")
    return declared, runs, max_lams


def specs(
    problem: Problem,
    scale: str | None = None,
    *,
    methods: Sequence[str | type[Method]] | None = None,
    lams: LamLists | None = None,
    rhos: str | Sequence[float] | None = None,
    taus: str | Sequence[float] | None = None,
    seeds: str | Sequence[float] | None = None,
    settings: Choices | None = None,
    main_alone: bool = False,
    adaptive: bool = False,
) -> list[RunSpec]:
    """List the runs of a sweep, method by method. Arguments that are None come from the scale.

    A method without ``lam`` or ``rho`` is run once for all of them. ``rhos`` apply to every method that has ``rho``;
    those of the scale only to methods with an average by default: bloop, as in the paper, and your own. Without any,
    methods project on the current gradient. ``taus`` are for methods that take τ in place of λ. For several auxiliary
    losses the λ are a product of one list for each; a single list is for all.

    Settings with several values are swept, too: each combination has the whole grid. With ``main_alone``, runs of main
    alone (mixed with λ = 0) are added, one for each seed and combination, once for all methods, if the problem can be
    trained that way; and of several auxiliary losses the last has λ = 0, too, to show what it costs the ones above it.
    An ``adaptive`` grid adds more values later, of τ too, and begins with few.
    """
    scale = problem.default_scale if scale is None else scale
    defaults = problem.scale(scale)
    names = _find_methods(defaults.methods if methods is None else methods)
    all_lams = _combine(problem, parse_lam_lists(defaults.lams if lams is None else lams), without_last=main_alone)
    all_taus = (START_TAUS if adaptive else TAUS) if taus is None else parse_numbers(taus)
    all_seeds = _check_seeds(parse_seeds(defaults.seeds if seeds is None else seeds))
    rhos = None if rhos is None else parse_numbers(rhos)
    for argument, values in (("methods", names), ("lams", all_lams), ("taus", all_taus), ("seeds", all_seeds)):
        if not values:
            raise UserError(f"a grid must have at least one value in {argument}; got none")
    _check_methods(problem, names)
    has_tau = any(map(takes_tau, names))
    if lams is not None and not (adaptive and has_tau) and not any(has_hyperparameter(name, "lam") for name in names):
        raise UserError(f"lam has no effect on {', '.join(names)}: {'give tau instead' if has_tau else 'leave it out'}")
    if taus is not None and not has_tau:
        raise UserError(f"tau has no effect on {', '.join(names)}: leave it out")
    if rhos and not (problem.uses_rho and any(has_hyperparameter(name, "rho") for name in names)):
        raise UserError(f"rho has no effect on {problem.name} with {', '.join(names)}: leave it out")
    combinations = combine(defaults.settings, settings or {}, problem.name)
    all_settings = [override(defaults.settings_for(changes), changes) for changes in combinations]

    levels = len(problem.aux_losses)
    nothing = 0.0 if levels == 1 else (0.0,) * levels
    runs = []
    for run_settings, name in product(all_settings, names):
        method_lams: Sequence[Lam | None] = all_lams if has_hyperparameter(name, "lam") else (None,)
        if takes_tau(name):
            method_lams = [Tau(tau) for tau in all_taus]
        method_rhos: Sequence[float | None] = ()
        if rhos is not None and has_hyperparameter(name, "rho"):
            method_rhos = rhos
        elif rhos is None and has_average(name):
            method_rhos = defaults.rhos
        for lam, rho, seed in product(method_lams, method_rhos or (None,), all_seeds):
            if name == "mixed" and not has_weight(lam):
                lam = nothing  # main alone is the same run whether λ is relative or not
            try:
                make_method(name, lam, rho)
            except ValueError as error:
                raise UserError(str(error)) from error
            runs.append(RunSpec(problem.name, scale, name, lam, rho, seed, run_settings))
    if main_alone and (problem.methods is None or "mixed" in problem.methods):
        runs += [
            RunSpec(problem.name, scale, "mixed", nothing, None, seed, run_settings)
            for run_settings in all_settings
            for seed in all_seeds
        ]
    return list({run.key: run for run in runs}.values())


def _find_methods(methods: Sequence[str | type[Method]]) -> list[str]:
    """The names of the methods, each once; raises if two methods have the same."""
    found: dict[str, type[Method] | None] = {}
    for method in methods:
        name = find_method(method)
        known = known_methods().get(name)
        if found.setdefault(name, known) is not known:
            raise UserError(f"the methods of a sweep must have different names; got two that are called {name}")
    return list(found)


def _combine(problem: Problem, lists: Sequence[Sequence[Weight]], *, without_last: bool) -> Sequence[Lam]:
    """The product of the λ of each auxiliary loss; ``without_last`` adds 0 to those of the last of several."""
    levels = len(problem.aux_losses)
    if len(lists) not in (1, levels):
        expected = "one list" if levels == 1 else f"one list for all auxiliary losses, or {levels}"
        raise UserError(f"lams of {problem.name} must be {expected}; got {len(lists)} lists")
    if levels == 1:
        return lists[0]
    each = [list(lists[level % len(lists)]) for level in range(levels)]
    if without_last and each[-1]:
        each[-1] = [0.0, *each[-1]]
    # below the first, which orders runs and has the unit of the axis, 0 is the same run whether it is relative or not
    return [(first, *(lam if has_weight(lam) else 0.0 for lam in lower)) for first, *lower in product(*each)]


def _check_seeds(seeds: Sequence[float]) -> list[int]:
    if not all(0 <= seed < 2**31 and seed == int(seed) for seed in seeds):
        raise UserError(f"seeds must be whole numbers from 0 to {2**31 - 1}; got {', '.join(map(str, seeds))}")
    return [int(seed) for seed in seeds]


def _check_methods(problem: Problem, names: Sequence[str]) -> None:
    for name in names:
        if name not in known_methods():
            raise unknown("method", name, known_methods())
        if problem.methods is not None and name not in problem.methods:
            raise UserError(f"{problem.name} can be run with {', '.join(problem.methods)}, but not with {name}")
        if len(problem.aux_losses) > 1 and not takes_several(name):
            raise UserError(f"{name} takes one auxiliary loss, but {problem.name} has {len(problem.aux_losses)}")
