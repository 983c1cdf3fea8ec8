"""The options that a recommendation chooses from: each method, λ and ρ, compared with training on main alone.

Main alone is ``mixed`` with λ = 0. A run is paired with the main-alone run of the same seed, on held-out losses where
the problem has any:

    change = mean over seeds (loss - loss of main alone) / |mean over seeds of the loss of main alone|
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gradsurgery.lab.lam import Lam, has_weight, lam_name, lam_number
from gradsurgery.lab.reports.conditions import differing_settings
from gradsurgery.lab.reports.looks import number
from gradsurgery.lab.reports.series import Point, check_origin, final_point, is_main_alone
from gradsurgery.lab.run import RunRecord, RunSpec


@dataclass(frozen=True)
class Change:
    """How one loss compares with that of main alone."""

    alone: float
    """The loss of main alone, as a mean over the same seeds."""
    differences: Mapping[int, float]
    """The loss minus that of main alone, by seed."""

    @property
    def difference(self) -> float:
        """The mean difference of losses."""
        return statistics.fmean(self.differences.values())

    @property
    def deviation(self) -> float:
        """The standard deviation of the differences over seeds; infinite for one seed."""
        return statistics.stdev(self.differences.values()) if len(self.differences) > 1 else math.inf

    @property
    def error(self) -> float:
        """The standard error of the mean difference; infinite for one seed."""
        return self.deviation / math.sqrt(len(self.differences))

    @property
    def mean(self) -> float:
        """The mean difference as a fraction of main alone; NaN if main alone ends at 0."""
        return self.difference / abs(self.alone) if self.alone else math.nan

    @property
    def spread(self) -> float:
        """The standard deviation over seeds as a fraction of main alone; NaN for one seed, or if main alone is 0."""
        is_defined = self.alone and math.isfinite(self.deviation)
        return self.deviation / abs(self.alone) if is_defined else math.nan

    def describe(self, *, absolute: bool = False) -> str:
        """For example ``+1.4 %``, or with several seeds ``+1.4 ± 0.3 %``; as a difference of losses ``+0.014 ± 0.003``.

        A percentage needs a loss that starts and stays above 0; otherwise both losses, such as ``0.2 → −1.3 ± 0.1``.
        """
        deviation = f" ± {number(self.deviation)}" if len(self.differences) > 1 else ""
        if absolute:
            return f"{'+' if self.difference >= 0 else ''}{number(self.difference)}{deviation}"
        if self.alone > 0 and self.alone + self.difference >= 0:
            spread = "" if math.isnan(self.spread) else f" ± {100 * self.spread:.1f}"
            change = round(100 * self.mean, 1) + 0.0  # no negative zero
            return f"{change:+.1f}{spread} %".replace("-", "\N{MINUS SIGN}")
        return f"{number(self.alone)} → {number(self.alone + self.difference)}{deviation}"


@dataclass(frozen=True)
class Option:
    """A method with its λ and ρ, and what it does to both losses."""

    method: str
    lam: Lam | None
    rho: float | None
    main: Change
    aux: Change

    @property
    def seeds(self) -> int:
        """How many seeds were compared."""
        return len(self.main.differences)

    @property
    def hyperparameters(self) -> str:
        """For example ``λ = 0.3, ρ = 0.01``; empty for a method without any."""
        values = {lam_name(self.lam): self.lam, "ρ": self.rho}
        return ", ".join(f"{name} = {number(lam_number(value))}" for name, value in values.items() if value is not None)

    def describe(self, *, absolute: bool = False) -> str:
        """For example ``bloop, λ = 0.3: main +1.4 %, aux −38.0 %``; ``absolute`` shows main as a difference."""
        name = f"{self.method}, {self.hyperparameters}" if self.hyperparameters else self.method
        return f"{name}: main {self.main.describe(absolute=absolute)}, aux {self.aux.describe()}"

    @property
    def caveat(self) -> str:
        """The remark on an option whose main is within the allowance by less than its standard error."""
        return "one seed: no verdict" if self.seeds == 1 else f"within the spread of {self.seeds} seeds: no verdict"

    def excess(self, *, absolute: bool = False) -> float:
        """How much worse main is than main alone: a fraction, or a difference of losses."""
        return self.main.difference if absolute else self.main.mean

    def safe_excess(self, *, absolute: bool = False) -> float:
        """The excess plus its standard error over seeds; infinite for one seed."""
        return self.excess(absolute=absolute) + self.main.error / (1.0 if absolute else abs(self.main.alone))


@dataclass(frozen=True)
class Options:
    """All options of a sweep."""

    split: str
    """Whether losses are on ``test`` or ``train`` data."""
    by_method: Mapping[str, Sequence[Option]]
    """In the order of the runs. Empty for a method that diverged or failed at every λ."""


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
        raise ValueError(f"a recommendation needs runs with the same settings, but these differ in {differing}")
    split = "test" if any(final_point(record, "test") for record in records) else "train"
    alone = main_alone(records, split)
    if not alone:
        raise ValueError(
            "a recommendation compares with main alone, but there is no finished run of it: train mixed with λ = 0"
        )
    by_method: dict[str, list[Option]] = {}
    for spec, by_seed in _group_by_option(records, split):
        options = by_method.setdefault(spec.method, [])
        pairs = {seed: (end, alone[seed]) for seed, end in by_seed.items() if end and seed in alone}
        if pairs and None not in by_seed.values():
            main, aux = (_compare(pairs, loss) for loss in (0, 1))
            options.append(Option(spec.method, spec.lam, spec.rho, main, aux))
    if not by_method:
        raise ValueError("a recommendation compares methods with main alone, but there is no finished run of any other")
    return Options(split, by_method)


def main_alone(records: Iterable[RunRecord], split: str) -> dict[int, Point]:
    """The final losses of training on main alone, by seed."""
    ends = {record.spec.seed: final_point(record, split) for record in records if is_main_alone(record.spec)}
    return {seed: end for seed, end in ends.items() if end is not None}


def _group_by_option(records: Iterable[RunRecord], split: str) -> Iterable[tuple[RunSpec, dict[int, Point | None]]]:
    """For each method with λ above 0 and ρ: its first spec, and final losses by seed, None unless they are finite."""
    groups: dict[tuple[object, ...], tuple[RunSpec, dict[int, Point | None]]] = {}
    for record in records:
        spec = record.spec
        if spec.lam is None or has_weight(spec.lam):
            _, by_seed = groups.setdefault((spec.method, spec.lam, spec.rho), (spec, {}))
            by_seed[spec.seed] = final_point(record, split)
    return groups.values()


def _compare(pairs: Mapping[int, tuple[Point, Point]], loss: int) -> Change:
    alone = statistics.fmean(alone[loss] for _, alone in pairs.values())
    return Change(alone, {seed: end[loss] - alone[loss] for seed, (end, alone) in pairs.items()})
