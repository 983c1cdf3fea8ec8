"""Section 3, "Theoretical Analysis": stationary points, rates, opposed losses, conditioning."""

import math
from collections.abc import Callable, Sequence

from gradsurgery.lab import Metrics, RunRecord
from gradsurgery.lab.analysis import BySeed
from gradsurgery.paper.claims.claim import Claim, Grid, Statistic
from gradsurgery.paper.claims.ledger.algorithm import RANDOM_DRAWS, ROUNDING
from gradsurgery.paper.claims.ledger.criteria import FIVE, worst_of
from gradsurgery.paper.claims.rule import Rule
from gradsurgery.paper.claims.theory.opposed import opposition
from gradsurgery.paper.claims.theory.rates import rates, slope
from gradsurgery.paper.claims.theory.torus import stationary

RATE = -0.25 + 0.02
"""O(T^-1/4) is a slope of at most -1/4 for long runs; ours are finite, so 0.02 is allowed."""
LAST = 3
"""Slopes are fitted through the longest runs of a seed, this many."""
DESCENTS = Grid("demo", FIVE, lams=(0.03, 0.1, 0.3, 1.0), settings={"learning_rate": 0.5, "steps": 1999})
"""The number of steps is prime: the problem then records no row between the first and the last."""
RATES = {"demo": Grid("default", FIVE), "laptop": Grid("default", FIVE, settings={"lengths": 7})}


def _slope(key: str) -> Callable[[Sequence[RunRecord]], BySeed]:
    def measure(records: Sequence[RunRecord]) -> BySeed:
        return {
            record.spec.seed: slope([row["step"] for row in rows], [row[key] for row in rows])
            for record in records
            if len(rows := record.metrics[-LAST:]) == LAST
        }

    return measure


def _slopes(name: str, where: str, rule: Rule) -> tuple[Statistic, ...]:
    """Both slopes of Theorem 1, for the runs that rows have under this name."""
    return (
        Statistic(f"slope of the mean of ‖g_main‖² over T{where}", _slope(f"gradient_{name}"), rule),
        Statistic(f"slope of L_main over T{where}", _slope(f"loss_{name}"), rule),
    )


def _excess(key: str) -> Callable[[Metrics], float]:
    """How far an inequality is broken: 0 where it holds."""
    return lambda row: max(row[key] - 1, 0.0)


CLAIMS = (
    Claim(
        id="C4",
        sentence="If ‖d‖ ≤ ε then ‖g_main‖ ≤ ε, and some v has ‖g_aux − ∇²L_main v‖ ≤ (1/λ + M c² ‖g_aux‖ / 2) ε.",
        section="3.1 Proposition 1",
        problem=stationary,
        grids={"demo": RANDOM_DRAWS},
        statistics=(
            Statistic("excess of ‖g_main‖ / ε over 1, worst point", worst_of(_excess("gradient")), Rule(high=1e-9)),
            Statistic(
                "excess of ‖g_aux − ∇²L_main v‖ / its bound over 1, worst point",
                worst_of(_excess("optimality")),
                Rule(high=1e-9),
            ),
        ),
        decides=(
            "The worst of 400 points per seed and λ = 0.01, 0.1, 1, with a random auxiliary loss. Where an inequality "
            "is tight its ratio is 1, so the excess over 1 is measured."
        ),
    ),
    Claim(
        id="C5",
        sentence="Conversely, at a first-order stationary point θ* of the bilevel problem, d(θ* + εv) → 0 as ε → 0.",
        section="3.1 Proposition 1",
        problem=stationary,
        grids={"demo": RANDOM_DRAWS},
        statistics=(
            Statistic("‖d‖ at ε = 10⁻⁵ / at ε = 0.1, worst λ", worst_of(lambda row: row["vanishing"]), Rule(high=1e-3)),
        ),
        decides="Random auxiliary losses, λ = 0.01, 0.1, 1.",
    ),
    Claim(
        id="C6",
        sentence=(
            "With η ≃ T^(−3/4) and ρ ≃ η^(2/3), the mean of ‖∇L_main‖² over T steps is O(T^(−1/4)), and L_main ends "
            "in O(η^(1/3))."
        ),
        section="3.2 Theorem 1",
        problem=rates,
        grids=RATES,
        statistics=_slopes("average", "", Rule(high=RATE)),
        decides=(
            "Least squares with noise, started at a solution of main; longer runs and more seeds narrow the interval."
        ),
    ),
    Claim(
        id="C7",
        sentence="Without the EMA, obtaining such results would be impossible.",
        section="3.2 Theorem 1",
        problem=rates,
        grids=RATES,
        statistics=_slopes("none", ", no EMA", Rule(low=-0.1)),
        decides=(
            "One example where the rate fails without the EMA shows that no such theorem exists; ours is least squares."
        ),
    ),
    Claim(
        id="C8",
        sentence="The rates of Theorem 1 hold from any start, main(θ⁰) / (ηT) being part of the bound.",
        section="3.2 Theorem 1",
        problem=rates,
        grids=RATES,
        statistics=_slopes("far", ", far start", Rule(high=RATE)),
        decides=(
            "From far away main(θ⁰) / (ηT) dominates, which falls exactly like T^(−1/4), and more slowly while ηT is "
            "small: the slope reaches −1/4 from above, so longer runs come closer."
        ),
    ),
    Claim(
        id="C9",
        sentence=(
            "If L_aux = −L_main, full-batch Bloop converges to the minimisers of L_main: its iterates are those of "
            "gradient descent."
        ),
        section="3.2 Convergence of stochastic Bloop",
        problem=opposition,
        grids={"demo": RANDOM_DRAWS},
        statistics=(
            Statistic(
                "largest distance to the path of gradient descent / ‖θ⁰‖",
                worst_of(lambda row: row["distance"]),
                Rule(high=ROUNDING),
            ),
            Statistic("L_main at the end / at the start", worst_of(lambda row: row["fall"]), Rule(high=1e-6)),
        ),
        decides="Random quadratics, λ = 5; an equation, so the only error is rounding.",
    ),
    Claim(
        id="C10",
        sentence=(
            "The regularised problem has conditioning 1 + 1/λ; Bloop’s Hessian is diag(1, λ), which is well "
            "conditioned for λ near 1."
        ),
        section="3.3 Conditioning",
        problem="conditioning",
        grids={"demo": DESCENTS},
        statistics=(
            Statistic(
                "relative error of mixed’s condition number 1 + 1/λ, worst λ",
                worst_of(lambda row: abs(row["condition"] / (1 + 1 / row["lam"]) - 1), "mixed"),
                Rule(high=1e-6),
            ),
            Statistic(
                "relative error of bloop’s condition number 1/λ, worst λ",
                worst_of(lambda row: abs(row["condition"] * row["lam"] - 1), "bloop"),
                Rule(high=1e-6),
            ),
        ),
        decides=(
            "An equation. At a small λ both are ill-conditioned, 1 + 1/λ against 1/λ: what Bloop gains is that a "
            "λ near 1 still has the right solution (C11)."
        ),
    ),
    Claim(
        id="C11",
        sentence="Bloop reaches the bilevel solution regardless of λ; the regularised solution is (λ / (1 + λ), 0).",
        section="3.3 Conditioning",
        problem="conditioning",
        grids={"demo": DESCENTS},
        statistics=(
            Statistic(
                "distance of bloop’s end to the bilevel solution, worst λ",
                worst_of(lambda row: math.hypot(row["a"], row["b"]), "bloop"),
                Rule(high=1e-6),
            ),
            Statistic(
                "distance of mixed’s end to (λ / (1 + λ), 0), worst λ",
                worst_of(lambda row: math.hypot(row["a"] - row["lam"] / (1 + row["lam"]), row["b"]), "mixed"),
                Rule(high=1e-6),
            ),
        ),
        decides="Five starts, λ from 0.03 to 1; an equation, so the only error is what is left after 1,999 steps.",
    ),
)
