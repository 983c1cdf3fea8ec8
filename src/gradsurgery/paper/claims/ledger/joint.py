"""Sections 5.4, "Joint training on two datasets", and 5.5, "Role of the EMA"."""

from collections.abc import Callable, Sequence

from gradsurgery.lab import RunRecord
from gradsurgery.lab.analysis import BySeed
from gradsurgery.paper.claims.claim import Claim, Grid, Statistic
from gradsurgery.paper.claims.fronts import best_mixture
from gradsurgery.paper.claims.ledger.bias import BOTH
from gradsurgery.paper.claims.ledger.criteria import FIVE, THREE, ahead, alike
from gradsurgery.paper.claims.rule import Rule
from gradsurgery.paper.grid import COMPARED

REGISTERED = "2026-11-18 (f5d7ca5)"
REGISTERED_ANEW = "2026-11-19 (22b30e2)"
NEW_SEEDS = (5, 6, 7, 8, 9)
"""Of ``ema`` and ``translation`` at laptop: seeds 0 to 4 had been trained before their grids were registered."""
LANGUAGE = {"demo": Grid("demo", THREE, BOTH), "laptop": Grid("laptop", FIVE, BOTH, registered=REGISTERED)}
OTHERS = {"laptop": Grid("laptop", FIVE, COMPARED, lams=(0.4, 0.8, 1.6), registered=REGISTERED)}
"""All four methods where mixed's front bends."""
TRANSLATION = {
    # 400 steps, as the demo of translation was before it was shortened in view of bloop's results
    "demo": Grid("demo", THREE, BOTH, lams=(0.3, 1.0, 3.0), settings={"steps": 400}),
    "laptop": Grid("laptop", NEW_SEEDS, BOTH, registered=REGISTERED_ANEW),
}
TRANSLATION_OTHERS = {"laptop": Grid("laptop", NEW_SEEDS, COMPARED, lams=(0.3, 0.4, 0.6), registered=REGISTERED_ANEW)}
EMA = {"demo": Grid("demo", THREE), "laptop": Grid("laptop", NEW_SEEDS, registered=REGISTERED_ANEW)}
SMALL_T = 0.1
SAME_CURVE = 0.01
"""Final losses that differ by less are those of the same trajectory."""
LONGER = "Longer runs: the paper trains 300,000 steps, laptop 4,000 and demo 600."
LONGER_TRANSLATION = "Longer runs: the paper trains 500,000 steps, laptop 6,000 and demo 400."


def _above_mixed(rho: float, loss: str) -> Callable[[Sequence[RunRecord]], BySeed]:
    """Measures a final training loss of bloop at one rho, as a fraction above that of mixed."""

    def measure(records: Sequence[RunRecord]) -> BySeed:
        bloop, mixed = (
            {
                record.spec.seed: record.final[f"{loss}_train"]
                for record in records
                if (record.spec.method, record.spec.rho) == run
            }
            for run in (("bloop", rho), ("mixed", None))
        )
        return {seed: bloop[seed] / mixed[seed] - 1 for seed in bloop if seed in mixed}

    return measure


def _ema(rho: float, rule: Rule) -> tuple[Statistic, ...]:
    return tuple(
        Statistic(f"{loss}, bloop at ρ = {rho:g} / mixed − 1, train", _above_mixed(rho, loss), rule, percent=True)
        for loss in ("main", "aux")
    )


CLAIMS = (
    Claim(
        id="C21",
        sentence=(
            "Pre-training a transformer on two corpora, Bloop gets a significantly better Pareto front on the "
            "training losses."
        ),
        section="5.4 Joint training on two datasets",
        problem="language",
        grids=LANGUAGE,
        statistics=ahead("bloop", "mixed", "train"),
        decides=f"More seeds. {LONGER}",
    ),
    Claim(
        id="C22",
        sentence="Pre-training a transformer on two corpora, the gains transfer to the evaluation losses.",
        section="5.4 Joint training on two datasets",
        problem="language",
        grids=LANGUAGE,
        statistics=ahead("bloop", "mixed", "test"),
        decides=LONGER,
    ),
    Claim(
        id="C23",
        sentence=(
            "Bloop gets to a lower mixed loss (1 − t) L_main + t L_aux when t is small, although the mixed method "
            "minimises it."
        ),
        section="5.4, fig. “A different look”",
        problem="language",
        grids=LANGUAGE,
        statistics=tuple(
            Statistic(
                f"lowest mixed loss over λ at t = {SMALL_T}, bloop / mixed − 1, {split}",
                best_mixture("bloop", "mixed", split, SMALL_T),
                Rule(high=0.0, margin=0.001),
                percent=True,
            )
            for split in ("train", "test")
        ),
        decides=f"More seeds. {LONGER}",
    ),
    Claim(
        id="C24",
        sentence=(
            "Training a translator on two corpora, Bloop gets a significantly better Pareto front on the training "
            "losses."
        ),
        section="5.4 Joint training on two datasets",
        problem="translation",
        grids=TRANSLATION,
        statistics=ahead("bloop", "mixed", "train"),
        decides=LONGER_TRANSLATION,
    ),
    Claim(
        id="C25",
        sentence="Training a translator on two corpora, the gains are kept on the evaluation losses.",
        section="5.4 Joint training on two datasets",
        problem="translation",
        grids=TRANSLATION,
        statistics=ahead("bloop", "mixed", "test"),
        decides=f"{LONGER_TRANSLATION} From λ = 0.6 on mixed overfits, so fronts are short: more pairs.",
    ),
    Claim(
        id="C35",
        sentence="Training a translator on two corpora, all other methods perform similarly to the mixed method.",
        section="5.4 Joint training on two datasets",
        problem="translation",
        grids=TRANSLATION_OTHERS,
        statistics=(*alike("pcgrad", "mixed", "train"), *alike("dynamic_barrier", "mixed", "train")),
        decides="More seeds, or λ closer together: interpolation between few points adds to the difference.",
    ),
    Claim(
        id="C26",
        sentence="With ρ = 0.001 the EMA is outdated, and the performance on both losses is bad.",
        section="5.5 Role of the EMA",
        problem="ema",
        grids=EMA,
        statistics=_ema(0.001, Rule(low=0.0, margin=SAME_CURVE)),
        decides=f"More seeds. {LONGER}",
    ),
    Claim(
        id="C27",
        sentence="With ρ = 0.9 the trajectory is extremely similar to that of the mixed method.",
        section="5.5 Role of the EMA",
        problem="ema",
        grids=EMA,
        statistics=_ema(0.9, Rule(-SAME_CURVE, SAME_CURVE)),
        decides=f"More seeds. {LONGER}",
    ),
    Claim(
        id="C28",
        sentence="Pre-training a transformer on two corpora, all other methods perform similarly to the mixed method.",
        section="5.4 Joint training on two datasets",
        problem="language",
        grids=OTHERS,
        statistics=(*alike("pcgrad", "mixed", "train"), *alike("dynamic_barrier", "mixed", "train")),
        decides="More seeds, or λ closer together: interpolation between few points adds to the difference.",
    ),
)
