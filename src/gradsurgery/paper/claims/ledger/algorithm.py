"""Section 2, "The Bloop Algorithm", and the cost of a step."""

from collections.abc import Sequence

from gradsurgery.lab import RunRecord
from gradsurgery.lab.analysis import BySeed
from gradsurgery.paper.claims.claim import Claim, Grid, Statistic
from gradsurgery.paper.claims.cost import cost
from gradsurgery.paper.claims.ledger.criteria import FIVE, worst_of
from gradsurgery.paper.claims.rule import Rule
from gradsurgery.paper.claims.theory.direction import direction

ROUNDING = 1e-13
"""A hundred times the rounding of a float64: an equation with a smaller relative error is exact."""
RANDOM_DRAWS = Grid("default", FIVE)
"""For equations and inequalities: a larger scale would add nothing."""


def _distance_ratio(key: str, *, reverse: bool) -> Statistic:
    """A distance at the lowest noise divided by that at the highest; the other way round if ``reverse``."""

    def measure(records: Sequence[RunRecord]) -> BySeed:
        ends = {record.spec.seed: (record.metrics[0][key], record.metrics[-1][key]) for record in records}
        return {seed: last / first if reverse else first / last for seed, (first, last) in ends.items()}

    target, ends = ("(1 − 1/p) g_aux", "σ = 100 / σ = 0.01") if reverse else ("π(g_aux; g_main)", "σ = 0.01 / σ = 100")
    return Statistic(f"distance of E[π] to {target}, {ends}", measure, Rule(high=0.2))


CLAIMS = (
    Claim(
        id="C1",
        sentence="In full batch ⟨d, g_main⟩ = ‖g_main‖², and ‖d‖² = ‖g_main‖² + λ² ‖π(g_aux; g_main)‖².",
        section="2.1 Full-batch setting and main intuition",
        problem=direction,
        grids={"demo": RANDOM_DRAWS},
        statistics=(
            Statistic(
                "relative error of ⟨d, g_main⟩, worst draw",
                worst_of(lambda row: row["inner_error"]),
                Rule(high=ROUNDING),
            ),
            Statistic(
                "relative error of ‖d‖², worst draw", worst_of(lambda row: row["length_error"]), Rule(high=ROUNDING)
            ),
        ),
        decides=(
            "The worst of 1,000 random pairs of gradients per seed, λ from 0.01 to 100; an equation, so the only error "
            "is rounding."
        ),
    ),
    Claim(
        id="C2",
        sentence=(
            "As the noise σ of main’s gradient grows, E[π(g_aux; g_main + σε)] goes from π(g_aux; g_main) to (1 − "
            "1/p) g_aux."
        ),
        section="2.2 Stochastic extension, fig. “Effect of randomness”",
        problem="noise",
        grids={"demo": Grid("demo", FIVE), "laptop": Grid("demo", FIVE, settings={"samples": 200000})},
        statistics=(_distance_ratio("to_bloop", reverse=False), _distance_ratio("to_mixed", reverse=True)),
        decides="What is left of either distance is Monte Carlo error: more samples shrink it.",
    ),
    Claim(
        id="C3",
        sentence="Bloop incurs a negligible training cost compared to the standard regularized training.",
        section="5 Experiments",
        problem=cost,
        grids={
            "demo": Grid("default", FIVE),
            "laptop": Grid("default", FIVE, settings={"layers": 2, "width": 96, "length": 96, "batch": 16}),
        },
        statistics=(
            Statistic(
                "extra time of a step over mixed training",
                lambda records: {record.spec.seed: record.final["extra"] for record in records},
                Rule(high=0.05),
                percent=True,
            ),
        ),
        decides="A quiet machine and more rounds narrow the interval; a larger batch makes the extra share smaller.",
        timed=True,
    ),
)
