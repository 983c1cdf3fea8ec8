"""Analysis of runs: final losses, fronts, comparisons and recommendations, as records that reports draw.

    from gradsurgery.lab.analysis import Allowance, advise, collect_options, compare_methods

    compare_methods(records, "test").methods             # each front against mixed's
    advise(collect_options(records), Allowance(0.02))    # the best λ of each method, and which method wins

Nothing here draws or prints. Runs become a ``series`` for each ``variant`` of a method, whose fronts (``pareto``) are
compared by ``compare``. For a recommendation, ``criteria`` are what runs are judged by, ``options`` what can be chosen,
each with its ``change`` of every metric against main alone and an ``interval``; ``recommend`` chooses those within an
``allowance``, and adds a ``verdict`` and ``hints``. ``level_costs``, ``conditions`` and ``outcomes`` are for the page.
"""

from gradsurgery.lab.analysis.allowance import Allowance
from gradsurgery.lab.analysis.compare import FrontComparison, compare_fronts, compare_methods, fronts_of
from gradsurgery.lab.analysis.interval import BySeed, Interval, interval_of
from gradsurgery.lab.analysis.options import collect_options
from gradsurgery.lab.analysis.recommend import Recommendation, advise
from gradsurgery.lab.analysis.series import Series, final_point, group_runs, is_main_alone, loss_point, main_alone

__all__ = [
    "Allowance",
    "BySeed",
    "FrontComparison",
    "Interval",
    "Recommendation",
    "Series",
    "advise",
    "collect_options",
    "compare_fronts",
    "compare_methods",
    "final_point",
    "fronts_of",
    "group_runs",
    "interval_of",
    "is_main_alone",
    "loss_point",
    "main_alone",
]
