"""The recommendations for each position of the page's slider, which says how much worse main may be."""

import statistics
from collections.abc import Sequence
from typing import Any

from gradsurgery.lab.analysis import (
    Advice,
    Allowance,
    Recommendation,
    Series,
    advise,
    collect_options,
    main_alone,
)
from gradsurgery.lab.reports.front_chart import round_loss
from gradsurgery.lab.run import RunRecord

ALLOWANCES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0)
"""The positions of the slider."""
FIRST = 0.02
"""The position that the page opens with."""


def allowance_data(
    records: Sequence[RunRecord], groups: Sequence[Series], splits: Sequence[str]
) -> dict[str, Any] | None:
    """For each allowance the recommended runs and a sentence for each method; None if nothing can be recommended."""
    try:
        options = collect_options(records)
        by_allowance = [advise(options, Allowance(allow)) for allow in ALLOWANCES]
    except ValueError:
        return None
    criteria = options.criteria
    alone = main_alone(records, criteria.split).values() if criteria.main.is_loss else ()
    mean = statistics.fmean(main for main, _ in alone) if alone else None
    return {
        "split": criteria.split,
        "first": ALLOWANCES.index(FIRST),
        "note": f"Circles: the λ recommended for this allowance, on {criteria.data}.",
        "positions": [_position(advice, groups, splits, mean) for advice in by_allowance],
    }


def _position(advice: Advice, groups: Sequence[Series], splits: Sequence[str], alone: float | None) -> dict[str, Any]:
    """One position of the slider; ``alone`` is the main loss of main alone, None if the allowance is of a metric."""
    chosen = [
        (group, best)
        for best in advice.recommendations
        for group in groups
        if best.aux is not None and _is_of(best, group)
    ]
    return {
        "label": str(advice.allowance),
        "limit": None if alone is None else alone + advice.allowance.limit * abs(alone),
        "sentences": [best.text for best in advice.recommendations],
        "chosen": [
            {
                "series": group.label,
                "lam": str(best.lam),
                "points": {split: _point(group, best, split) for split in splits},
            }
            for group, best in chosen
        ],
    }


def _is_of(best: Recommendation, group: Series) -> bool:
    """True if the recommended runs are among those of the series."""
    return any(
        (record.spec.method, record.spec.lam, record.spec.rho) == (best.method, best.lam, best.rho)
        and best.settings.items() <= record.spec.settings.items()
        for record in group.records
    )


def _point(group: Series, best: Recommendation, split: str) -> list[float | None] | None:
    """The mean losses at the recommended λ, for the circle around its marker."""
    means = [seeds.mean for seeds in group.by_lam(split) if seeds.lam == best.lam]
    return list(map(round_loss, means[0])) if means else None
