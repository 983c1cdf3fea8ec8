"""Analysis of runs: final losses, fronts, comparisons and recommendations, as records that reports draw.

    from gradsurgery.lab.analysis import Allowance, advise, collect_options, compare_methods

    compare_methods(records, "test").methods             # each front against mixed's
    advise(collect_options(records), Allowance(0.02))    # the best λ of each method, and which method wins

Nothing here draws or prints.
"""

from gradsurgery.lab.analysis.allowance import DEFAULT, Allowance
from gradsurgery.lab.analysis.compare import (
    Comparison,
    FrontComparison,
    MethodComparison,
    compare_fronts,
    compare_methods,
    fronts_of,
)
from gradsurgery.lab.analysis.conditions import condition_values, condition_warnings
from gradsurgery.lab.analysis.criteria import choose_criteria
from gradsurgery.lab.analysis.interval import BySeed, Estimate, Interval, interval_of
from gradsurgery.lab.analysis.level_costs import level_costs
from gradsurgery.lab.analysis.options import collect_options, describe_changes
from gradsurgery.lab.analysis.outcomes import has_diverged, has_losses, outcome_sentences, progress_sentences
from gradsurgery.lab.analysis.pareto import LossRange, Point, Region, front
from gradsurgery.lab.analysis.recommend import Advice, Recommendation, advise
from gradsurgery.lab.analysis.series import (
    SPLITS,
    SeedGroup,
    Series,
    final_point,
    final_points,
    group_alone,
    group_runs,
    group_seeds,
    is_main_alone,
    lam_axis,
    loss_point,
    main_alone,
    splits_with_points,
)
from gradsurgery.lab.analysis.variant import Variant, variant_of

__all__ = [
    "DEFAULT",
    "SPLITS",
    "Advice",
    "Allowance",
    "BySeed",
    "Comparison",
    "Estimate",
    "FrontComparison",
    "Interval",
    "LossRange",
    "MethodComparison",
    "Point",
    "Recommendation",
    "Region",
    "SeedGroup",
    "Series",
    "Variant",
    "advise",
    "choose_criteria",
    "collect_options",
    "compare_fronts",
    "compare_methods",
    "condition_values",
    "condition_warnings",
    "describe_changes",
    "final_point",
    "final_points",
    "front",
    "fronts_of",
    "group_alone",
    "group_runs",
    "group_seeds",
    "has_diverged",
    "has_losses",
    "interval_of",
    "is_main_alone",
    "lam_axis",
    "level_costs",
    "loss_point",
    "main_alone",
    "outcome_sentences",
    "progress_sentences",
    "splits_with_points",
    "variant_of",
]
