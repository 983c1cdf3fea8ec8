"""A claim of the paper: its sentence, the runs that test it, what is measured on them, and the rule of the verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gradsurgery.lab import Problem, RunRecord, RunSpec, Setting, find_problem, specs
from gradsurgery.lab.analysis import BySeed, Interval, interval_of
from gradsurgery.paper.claims.rule import Rule, Verdict, combine


@dataclass(frozen=True)
class Grid:
    """The runs of a claim at one scale of the ledger; fields that are None come from the scale of the problem."""

    scale: str
    """A scale of the problem."""
    seeds: tuple[int, ...]
    methods: tuple[str, ...] | None = None
    lams: tuple[float, ...] | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    registered: str = ""
    """The commit and date that fixed grid, statistics and rules before any of these runs; empty if none did."""

    def runs(self, problem: Problem) -> list[RunSpec]:
        """The runs, seed by seed: a grid that is interrupted has complete seeds."""
        runs = specs(
            problem,
            self.scale,
            methods=self.methods,
            lams=self.lams,
            seeds=self.seeds,
            settings=self.settings,
        )
        return sorted(runs, key=lambda run: run.seed)


@dataclass(frozen=True)
class Statistic:
    """A number per seed, and where its 95 % interval has to be."""

    name: str
    measure: Callable[[Sequence[RunRecord]], BySeed]
    """Maps the finished runs of the grid to one value per seed; a seed that lacks points has none."""
    rule: Rule
    percent: bool = False

    @property
    def criterion(self) -> str:
        """Where the interval has to be, for example ``above 0 (does not hold below 0.02)``."""
        return self.rule.describe(100.0, " %") if self.percent else self.rule.describe()


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper that runs can support or refute."""

    id: str
    sentence: str
    section: str
    """Where the paper says it."""
    problem: Problem | str
    """The problem, or the name of an installed one."""
    grids: Mapping[str, Grid]
    """By scale of the ledger, ``demo`` or ``laptop``."""
    statistics: tuple[Statistic, ...]
    decides: str
    """What would decide the claim, or strengthen the evidence."""
    timed: bool = False
    """True if the runs measure time, so that no other run should share the machine."""

    @property
    def declared(self) -> Problem:
        """The problem."""
        return find_problem(self.problem) if isinstance(self.problem, str) else self.problem

    def runs(self, scale: str) -> list[RunSpec]:
        """The runs at a scale of the ledger; none if the claim is not tested there."""
        return self.grids[scale].runs(self.declared) if scale in self.grids else []


@dataclass(frozen=True)
class Measurement:
    """A statistic on the runs of a claim."""

    statistic: Statistic
    by_seed: BySeed

    @property
    def interval(self) -> Interval:
        """Of the mean over seeds; infinite if fewer than two seeds have a value."""
        return interval_of(self.by_seed.values())

    @property
    def verdict(self) -> Verdict:
        """By the rule of the statistic."""
        return self.statistic.rule.verdict(self.interval)

    @property
    def text(self) -> str:
        """The mean and its interval, for example ``0.12 [0.08, 0.16]``; or why there is none."""
        if self.interval.seeds < 2:
            return "no interval: fewer than two seeds can be compared"
        return self.interval.describe(percent=self.statistic.percent)


@dataclass(frozen=True)
class Result:
    """The verdict on a claim at one scale."""

    claim: Claim
    scale: str
    measurements: tuple[Measurement, ...]
    records: tuple[RunRecord, ...]
    """The runs of the seeds whose runs are all done."""
    wanted: int
    """The number of runs in the grid."""

    @property
    def verdict(self) -> Verdict:
        """Holds if all statistics hold; does not hold if any does not."""
        return combine([each.verdict for each in self.measurements])

    @property
    def notes(self) -> list[str]:
        """When the grid was registered, if that was before its runs; and how many runs are missing, if any."""
        registered, missing = self.claim.grids[self.scale].registered, self.wanted - len(self.records)
        notes = [f"registered {registered}"] if registered else []
        return [*notes, f"{missing} of {self.wanted} runs are missing"] if missing else notes

    @property
    def seeds(self) -> int:
        """The fewest seeds behind any of the statistics."""
        return min(len(each.by_seed) for each in self.measurements)


def judge(claim: Claim, scale: str, stored: Mapping[str, RunRecord]) -> Result | None:
    """Measure a claim on the seeds whose runs are all done; None if there are none: half a front is not a front.

    ``stored`` has runs by key, of any status.
    """
    runs = claim.runs(scale)
    done = {run.key for run in runs if run.key in stored and stored[run.key].status == "done"}
    incomplete = {run.seed for run in runs if run.key not in done}
    records = tuple(stored[run.key] for run in runs if run.seed not in incomplete)
    if not records:
        return None
    measurements = tuple(Measurement(statistic, statistic.measure(records)) for statistic in claim.statistics)
    return Result(claim, scale, measurements, records, len(runs))
