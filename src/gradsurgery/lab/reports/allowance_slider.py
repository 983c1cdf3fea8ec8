"""The recommendations for each position of the page's slider, which says how much worse main may be."""

import statistics
from collections.abc import Sequence
from typing import Any

from gradsurgery.lab.analysis.allowance import Allowance
from gradsurgery.lab.analysis.recommend import Advice, advise
from gradsurgery.lab.analysis.series import Series, main_alone
from gradsurgery.lab.lam import Lam
from gradsurgery.lab.reports.answer import Answers
from gradsurgery.lab.reports.front_chart import round_loss
from gradsurgery.lab.reports.views import View
from gradsurgery.lab.run import RunRecord

POSITIONS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0)
"""The positions of the slider; the allowance that the page opens with is another."""


def slider_data(
    answers: Answers | None, records: Sequence[RunRecord], groups: Sequence[Series], views: Sequence[View]
) -> dict[str, Any] | None:
    """For each allowance the recommended runs and a sentence for each method; None without an answer."""
    if answers is None or answers.reason:
        return None
    first, options = answers.by_allowance[0].allowance, answers.by_allowance[0].options
    # differences are not on a scale of fractions
    positions = [first] if first.absolute else sorted({first, *map(Allowance, POSITIONS)}, key=lambda each: each.limit)
    criteria = options.criteria
    judged = next((view for view in views if (view.main, view.aux) == (criteria.main, criteria.aux)), None)
    if judged is None:  # main alone is the only one with finite losses
        return None
    alone = statistics.fmean(main for main, _ in main_alone(records, judged.name).values())
    return {
        "split": judged.name,
        "first": positions.index(first),
        "note": f"Circles: the {options.lam_name} recommended for this allowance, on {criteria.data}.",
        "positions": [_position(advise(options, each), groups, views, judged.main.sign, alone) for each in positions],
    }


def _position(
    advice: Advice, groups: Sequence[Series], views: Sequence[View], sign: int, alone: float
) -> dict[str, Any]:
    """One position of the slider; ``sign * alone`` is main's metric of main alone."""
    chosen = [
        (group, best)
        for best in advice.recommendations
        for group in groups
        if best.option and best.option.variant == group.variant
    ]
    return {
        "label": str(advice.allowance),
        "limit": sign * (alone + advice.allowance.limit * (1 if advice.allowance.absolute else abs(alone))),
        "sentences": [best.text for best in advice.recommendations],
        "chosen": [
            {
                "series": group.label,
                "lam": str(best.lam),
                "points": {view.name: _point(group, best.lam, view) for view in views},
            }
            for group, best in chosen
        ],
    }


def _point(group: Series, lam: Lam | None, view: View) -> list[float | None] | None:
    """The means at the recommended λ, for the circle around its marker."""
    means = (seeds.mean for seeds in group.by_lam(view.name) if seeds.lam == lam)
    return next((list(map(round_loss, view.values(mean))) for mean in means), None)
