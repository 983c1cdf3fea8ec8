"""Which λ to use: the lowest aux whose main is at most so much worse than training on main alone.

Main alone is ``mixed`` with λ = 0. Runs are compared with the main-alone run of the same seed, on held-out losses where
the problem has any:

    change = mean over seeds of (loss - loss of main alone) / |loss of main alone|
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gradsurgery.lab.reports.looks import number
from gradsurgery.lab.reports.series import Point, final_point
from gradsurgery.lab.run import RunRecord, RunSpec

Choice = tuple[str, float | None, float | None, bool]
"""A method with its λ and ρ, and whether λ is relative."""


@dataclass(frozen=True)
class Change:
    """How one loss compares with that of main alone: relative differences, paired by seed."""

    mean: float
    spread: float
    """Standard deviation over seeds; NaN for one seed."""

    @property
    def text(self) -> str:
        """For example ``+1.4 %``, or with several seeds ``+1.4 ± 0.3 %``."""
        spread = "" if math.isnan(self.spread) else f" ± {100 * self.spread:.1f}"
        return f"{100 * self.mean:+.1f}{spread} %".replace("-", "\N{MINUS SIGN}")


@dataclass(frozen=True)
class Recommendation:
    """The λ (and ρ) to use with one method, or None for both changes if no λ keeps main within the allowance."""

    method: str
    lam: float | None
    rho: float | None
    relative: bool
    """Whether λ is in units of |g_main| / |g_aux|: ``gs.relative(lam)``."""
    split: str
    """Whether losses are on ``test`` or ``train`` data."""
    seeds: int
    """How many seeds were compared."""
    main: Change | None
    aux: Change | None
    certain: bool
    """Whether main stays within the allowance by more than the standard error over seeds; False for a single seed."""

    @property
    def text(self) -> str:
        """One sentence, such as ``bloop, λ = 0.3: main +1.4 %, aux −38.0 %``."""
        if self.main is None or self.aux is None:
            return f"{self.method}: no λ keeps main within the allowance"
        names = {"relative λ" if self.relative else "λ": self.lam, "ρ": self.rho}
        choice = "".join(f", {name} = {number(value)}" for name, value in names.items() if value is not None)
        doubt = ""
        if self.seeds == 1:
            doubt = " (one seed: no verdict)"
        elif not self.certain:
            doubt = f" (within the spread of {self.seeds} seeds: no verdict)"
        return f"{self.method}{choice}: main {self.main.text}, aux {self.aux.text}{doubt}"


def recommend(records: Iterable[RunRecord], allow: float = 0.02, *, absolute: bool = False) -> list[Recommendation]:
    """For each method, the λ and ρ with the lowest aux among those whose main stays within the allowance.

    Args:
        records: runs of one problem at one scale; main alone (``mixed`` with λ = 0) is among them.
        allow: how much worse main may be than main alone: 0.02 for 2 %.
        absolute: whether ``allow`` is a difference of losses rather than a fraction.

    Returns:
        One recommendation for each method, in the order of their aux, the lowest first.
    """
    if not (math.isfinite(allow) and allow >= 0):
        raise ValueError(f"the allowance for main is a number of at least 0, but got {allow}")
    records = [record for record in records if record.status == "done"]
    split = "test" if any(final_point(record, "test") for record in records) else "train"
    baseline = main_alone(records, split)
    if not baseline:
        raise ValueError(
            "a recommendation compares with main alone, but there is no finished run of it: train mixed with λ = 0"
        )
    if not absolute and any(main == 0 for main, _ in baseline.values()):
        raise ValueError("main alone ends at a loss of 0, so an allowance as a fraction of it means nothing")
    options: dict[str, list[Recommendation]] = {}
    for (method, lam, rho, relative), points in _final_points(records, split).items():
        within = options.setdefault(method, [])
        seeds = sorted(points.keys() & baseline.keys())
        if not seeds or (method, lam) == ("mixed", 0.0):
            continue
        pairs = [(points[seed], baseline[seed]) for seed in seeds]
        excess = [(end[0] - alone[0]) / (1.0 if absolute else abs(alone[0])) for end, alone in pairs]
        mean = statistics.fmean(excess)
        if mean <= allow:
            error = statistics.stdev(excess) / math.sqrt(len(excess)) if len(excess) > 1 else math.inf
            main, aux = (_change([(end[loss], alone[loss]) for end, alone in pairs]) for loss in (0, 1))
            certain = mean + error <= allow
            within.append(Recommendation(method, lam, rho, relative, split, len(seeds), main, aux, certain))
    best = [
        min(within, key=_aux) if within else Recommendation(method, None, None, False, split, 0, None, None, False)
        for method, within in options.items()
    ]
    return sorted(best, key=_aux)


def main_alone(records: Iterable[RunRecord], split: str) -> dict[int, Point]:
    """The final losses of training on main alone, by seed."""
    points = _final_points(records, split)
    return points.get(("mixed", 0.0, None, False), {})


def _final_points(records: Iterable[RunRecord], split: str) -> Mapping[Choice, dict[int, Point]]:
    """Final losses by method, λ and ρ, then by seed; runs that diverged are left out."""
    points: dict[Choice, dict[int, Point]] = {}
    for record in records:
        spec = record.spec
        by_seed = points.setdefault(_choice(spec), {})
        if (point := final_point(record, split)) is not None:
            by_seed[spec.seed] = point
    return points


def _choice(spec: RunSpec) -> Choice:
    return spec.method, spec.lam, spec.rho, spec.relative


def _change(pairs: Sequence[Point]) -> Change:
    """The relative difference of each pair (loss, loss of main alone)."""
    relative = [(end - alone) / abs(alone) if alone else math.inf for end, alone in pairs]
    return Change(statistics.fmean(relative), statistics.stdev(relative) if len(relative) > 1 else math.nan)


def _aux(recommendation: Recommendation) -> float:
    return math.inf if recommendation.aux is None else recommendation.aux.mean
