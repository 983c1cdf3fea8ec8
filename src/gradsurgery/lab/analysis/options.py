"""The options that a recommendation chooses from: each method, λ and ρ, compared with training on main alone.

Main alone is ``mixed`` with λ = 0. A run is paired with the main-alone run of the same seed, on held-out losses where
the problem has any.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gradsurgery.lab.analysis.change import Change
from gradsurgery.lab.analysis.conditions import differing_settings
from gradsurgery.lab.analysis.pareto import Point
from gradsurgery.lab.analysis.series import check_origin, final_point, main_alone
from gradsurgery.lab.lam import Lam, has_weight
from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.text import hyperparameters


@dataclass(frozen=True)
class Option:
    """A method with its λ and ρ, and what it does to both losses."""

    method: str
    lam: Lam | None
    rho: float | None
    main: Change
    """Against main alone."""
    aux: Change
    """Against main alone."""

    @property
    def hyperparameters(self) -> str:
        """For example ``λ = 0.3, ρ = 0.01``; empty for a method without any."""
        return ", ".join(hyperparameters(self.lam, self.rho))

    def describe(self, *, absolute: bool = False) -> str:
        """For example ``bloop, λ = 0.3: main +1.4 %, aux −38.0 %``; ``absolute`` shows main as a difference."""
        name = f"{self.method}, {self.hyperparameters}" if self.hyperparameters else self.method
        return f"{name}: main {self.main.describe(absolute=absolute)}, aux {self.aux.describe()}"


@dataclass(frozen=True)
class Options:
    """All options of a sweep."""

    split: str
    """Whether losses are on ``test`` or ``train`` data."""
    by_method: Mapping[str, Sequence[Option]]
    """In the order of the runs. Empty for a method that diverged or failed at every λ."""
    tried: Mapping[str, Sequence[Lam]]
    """The λ above 0 of each method, including those that diverged or failed."""
    seeds_differ: bool
    """False if there are several seeds and all gave the same numbers."""


def collect_options(records: Iterable[RunRecord]) -> Options:
    """Compare each method, λ and ρ with main alone.

    λ = 0 is not an option: it is main alone. Nor is a λ at which any run diverged or failed.

    Raises:
        ValueError: if the runs differ in problem, scale or settings, or if there is no finished run of main alone or
            of any other kind.
    """
    records = [record for record in records if record.status != "running"]
    check_origin(records)
    if differing := differing_settings(records):
        raise ValueError(f"a recommendation needs runs with the same settings; got runs that differ in {differing}")
    split = "test" if any(final_point(record, "test") for record in records) else "train"
    alone = main_alone(records, split)
    if not alone:
        raise ValueError("a recommendation needs a finished run of main alone: train mixed with λ = 0")
    by_method: dict[str, list[Option]] = {}
    tried: dict[str, list[Lam]] = {}
    for spec, by_seed in _group_by_option(records, split):
        options = by_method.setdefault(spec.method, [])
        if spec.lam is not None:
            tried.setdefault(spec.method, []).append(spec.lam)
        ends = {seed: end for seed, end in by_seed.items() if end and seed in alone}
        if ends and None not in by_seed.values():
            main, aux = (_compare(ends, alone, loss) for loss in (0, 1))
            options.append(Option(spec.method, spec.lam, spec.rho, main, aux))
    if not by_method:
        raise ValueError("a recommendation needs finished runs of another method than main alone")
    return Options(split, by_method, tried, _seeds_differ(alone, by_method))


def _group_by_option(records: Iterable[RunRecord], split: str) -> Iterable[tuple[RunSpec, dict[int, Point | None]]]:
    """For each method with λ above 0 and ρ: its first spec, and final losses by seed, None unless they are finite."""
    groups: dict[tuple[object, ...], tuple[RunSpec, dict[int, Point | None]]] = {}
    for record in records:
        spec = record.spec
        if spec.lam is None or has_weight(spec.lam):
            _, by_seed = groups.setdefault((spec.method, spec.lam, spec.rho), (spec, {}))
            by_seed[spec.seed] = final_point(record, split)
    return groups.values()


def _compare(ends: Mapping[int, Point], alone: Mapping[int, Point], loss: int) -> Change:
    losses, reference = ({seed: point[loss] for seed, point in points.items()} for points in (ends, alone))
    return Change.on_common_seeds(losses, reference)


def _seeds_differ(alone: Mapping[int, Point], by_method: Mapping[str, Sequence[Option]]) -> bool:
    changes = [change for options in by_method.values() for option in options for change in (option.main, option.aux)]
    by_seed = [change.losses for change in changes if change.seeds > 1]
    has_seeds = len(alone) > 1 or bool(by_seed)
    return not has_seeds or len(set(alone.values())) > 1 or any(len(set(losses.values())) > 1 for losses in by_seed)
