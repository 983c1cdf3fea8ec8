"""The interactive charts of the page, as plotly traces and axes: ``report.js`` shows them and computes nothing.

A colour such as ``var(--ink)`` is a variable of the style sheet, which follows the reader's light or dark theme.
"""

from collections.abc import Sequence
from typing import Any

from gradsurgery.lab.analysis.series import group_runs, is_main_alone, main_alone, splits_with_points
from gradsurgery.lab.reports.allowance_slider import slider_data
from gradsurgery.lab.reports.answer import Answers
from gradsurgery.lab.reports.axes import lam_positions, lam_ticks
from gradsurgery.lab.reports.curves import curve_data
from gradsurgery.lab.reports.front_chart import front_chart
from gradsurgery.lab.reports.mixture_chart import mixture_chart
from gradsurgery.lab.reports.style import MAIN_ALONE, assign_looks
from gradsurgery.lab.reports.views import find_views
from gradsurgery.lab.run import RunRecord


def chart_data(records: Sequence[RunRecord], answers: Answers | None) -> dict[str, Any]:
    """Everything that the charts of a page with these answers show, ready for JSON. Non-finite losses become null."""
    records, views = find_views(records)
    groups, splits = group_runs(records), [view.name for view in views]
    alone = [record for record in records if is_main_alone(record.spec)]
    looks = assign_looks(groups)
    lams = (seeds.number for group in groups for split in splits for seeds in group.by_lam(split))
    ticks = lam_ticks(lams, room=6)
    runs = {look.label: (look.colour, group.records) for look, group in zip(looks.values(), groups, strict=True)}
    if any(main_alone(alone, split) for split in splits):
        runs[MAIN_ALONE.label] = "var(--ink)", tuple(alone)
    return {
        "splits": splits,
        "fronts": {view.name: front_chart(groups, view, alone, looks, ticks) for view in views},
        "mixture": mixture_chart(groups, looks, splits_with_points(groups), ticks, lam_positions(ticks)),
        "allowances": slider_data(answers, records, groups, views),
        "curves": [
            {"series": label, "colour": colour, "runs": curve_data(of_series, views, len(records))}
            for label, (colour, of_series) in runs.items()
        ],
    }
