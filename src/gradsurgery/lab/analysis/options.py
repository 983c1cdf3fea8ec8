"""The options that a recommendation chooses from: each method, λ, ρ and settings, compared with training on main alone.

Main alone is ``mixed`` with λ = 0. A run is paired with the main-alone run of the same seed, on held-out losses where
the problem has any, or on the metrics that the user names. If the runs have several settings, such as learning rates,
each method may choose among them, and so may main alone: all options are compared with its best.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gradsurgery.lab.analysis.change import Change
from gradsurgery.lab.analysis.conditions import differing_settings
from gradsurgery.lab.analysis.criteria import Criteria, choose_criteria
from gradsurgery.lab.analysis.interval import BySeed
from gradsurgery.lab.analysis.outcomes import unfinished_runs
from gradsurgery.lab.analysis.series import Values, best_alone, check_origin, is_main_alone
from gradsurgery.lab.analysis.variant import Variant, option_of, variant_of
from gradsurgery.lab.lam import Lam, has_weight, lam_names
from gradsurgery.lab.objective import Objective
from gradsurgery.lab.run import RunRecord, RunSpec, Setting
from gradsurgery.lab.text import hyperparameters

Ends: TypeAlias = dict[int, Values | None]
"""Seed -> the final values of all metrics, None unless they are finite."""


@dataclass(frozen=True)
class Option:
    """A method with its λ, ρ and settings, and what it does to the metrics."""

    variant: Variant
    lam: Lam | None
    settings: Mapping[str, Setting]
    """Those in which the runs differ."""
    changes: tuple[Change, ...]
    """Main and every auxiliary loss, against main alone."""

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.variant.method

    @property
    def main(self) -> Change:
        """Main against main alone."""
        return self.changes[0]

    @property
    def aux(self) -> Change:
        """The first auxiliary loss against that of main alone."""
        return self.changes[1]

    @property
    def hyperparameters(self) -> str:
        """For example ``λ = 0.3, ρ = 0.01``; empty for a method without any."""
        return ", ".join(hyperparameters(self.lam, self.variant.rho, self.settings))

    @property
    def name(self) -> str:
        """For example ``bloop, λ = 0.3``."""
        return f"{self.method}, {self.hyperparameters}" if self.hyperparameters else self.method

    def describe(self, *, absolute: bool = False) -> str:
        """For example ``bloop, λ = 0.3: main +1.4 %, aux −38.0 %``; ``absolute`` shows main as a difference."""
        return f"{self.name}: {describe_changes(self.changes, absolute=absolute)}"


def describe_changes(changes: Sequence[Change], *, absolute: bool = False) -> str:
    """For example ``main +1.4 %, aux −38.0 %``; ``absolute`` shows main as a difference."""
    main, *others = changes
    texts = [main.describe(absolute=absolute), *(change.describe() for change in others)]
    return ", ".join(f"{change.objective.name} {text}" for change, text in zip(changes, texts, strict=True))


@dataclass(frozen=True)
class Options:
    """All options of a sweep."""

    criteria: Criteria
    by_method: Mapping[str, Sequence[Option]]
    """In the order of the runs. Empty for a method that diverged, failed or was stopped at every λ."""
    tried: Mapping[str, Sequence[Lam]]
    """The λ above 0 of each method, including those that diverged, failed or were stopped."""
    seeds_differ: bool
    """False if there are several seeds and all gave the same numbers."""
    unrecorded: int
    """How many finished runs have no row with all metrics."""
    unfinished: int
    """How many runs are still to be trained."""
    stopped: Sequence[Mapping[str, Setting]]
    """For each run that was stopped early: the allowance that it was stopped for, as ``allow`` and ``absolute``."""

    @property
    def lam_name(self) -> str:
        """What the weights of all methods are called, such as ``λ`` or ``λ or τ``."""
        return lam_names(lam for lams in self.tried.values() for lam in lams)


def collect_options(records: Iterable[RunRecord]) -> Options:
    """Compare each method, λ, ρ and settings with main alone.

    λ = 0 is not an option: it is main alone. Nor is a λ at which any run diverged, failed or was stopped, or one that
    lacks more than one of the seeds of the method's other λ: its numbers would win by noise.

    Raises:
        ValueError: if the runs differ in problem or scale, or if there is no finished run of main alone or of any
            other kind.
    """
    records = list(records)
    check_origin(records)
    ended = [record for record in records if record.status != "running"]
    criteria = choose_criteria(ended)
    groups = _group_runs(ended, criteria)
    alone = best_alone(
        ({seed: end for seed, end in ends.items() if end} for spec, ends in groups if is_main_alone(spec)),
        sign=criteria.main.sign,
    )
    if not alone:
        raise ValueError(_describe_missing_alone(ended, criteria))
    names = differing_settings(ended)
    by_method: dict[str, list[Option]] = {}
    tried: dict[str, list[Lam]] = {}
    for spec, by_seed in groups:
        if spec.lam is not None and not has_weight(spec.lam):
            continue
        options = by_method.setdefault(spec.method, [])
        if spec.lam is not None:
            tried.setdefault(spec.method, []).append(spec.lam)
        ends = {seed: end for seed, end in by_seed.items() if end and seed in alone}
        if ends and None not in by_seed.values():
            changes = (_compare(each, ends, alone, index) for index, each in enumerate(criteria.objectives))
            settings = {name: spec.settings[name] for name in names if name in spec.settings}
            options.append(Option(variant_of(spec), spec.lam, settings, tuple(changes)))
    if not by_method:
        raise ValueError("a recommendation needs finished runs of another method than main alone")
    compared = {method: _with_most_seeds(options) for method, options in by_method.items()}
    return Options(
        criteria,
        compared,
        tried,
        _seeds_differ(alone, compared),
        unrecorded=sum(record.status == "done" and not criteria.is_recorded(record) for record in records),
        unfinished=unfinished_runs(records),
        stopped=[record.info for record in records if record.status == "stopped"],
    )


def _with_most_seeds(options: Sequence[Option]) -> list[Option]:
    most = max((option.main.seeds for option in options), default=0)
    return [option for option in options if option.main.seeds >= most - 1]


def _group_runs(records: Iterable[RunRecord], criteria: Criteria) -> list[tuple[RunSpec, Ends]]:
    """For each method, λ, ρ and settings: its first spec, and how its runs ended."""
    groups: dict[object, tuple[RunSpec, Ends]] = {}
    for record in records:
        _, ends = groups.setdefault(option_of(record.spec), (record.spec, {}))
        ends[record.spec.seed] = criteria.end(record)
    return list(groups.values())


def _describe_missing_alone(records: Sequence[RunRecord], criteria: Criteria) -> str:
    if any(record.status == "done" and record.metrics and is_main_alone(record.spec) for record in records):
        return f"a recommendation needs a row of main alone with finite {criteria.names}; got none"
    return "a recommendation needs a finished run of main alone: train mixed with λ = 0"


def _compare(objective: Objective, ends: Mapping[int, Values], alone: Mapping[int, Values], index: int) -> Change:
    values, reference = ({seed: end[index] for seed, end in each.items()} for each in (ends, alone))
    return Change.on_common_seeds(objective, values, reference)


def _seeds_differ(alone: Mapping[int, object], by_method: Mapping[str, Sequence[Option]]) -> bool:
    changes = [change for options in by_method.values() for option in options for change in option.changes]
    by_seed: list[BySeed] = [change.values for change in changes if change.seeds > 1]
    has_seeds = len(alone) > 1 or bool(by_seed)
    return not has_seeds or len(set(alone.values())) > 1 or any(len(set(values.values())) > 1 for values in by_seed)
