"""What the charts show: the losses on training or on held-out data, and the metrics that the user names.

Fronts are of costs, of which less is better. A metric to maximise is drawn on an axis that runs backwards, so that left
and below is better in every view.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradsurgery.lab.analysis.criteria import choose_criteria
from gradsurgery.lab.analysis.pareto import Point
from gradsurgery.lab.analysis.series import Series, group_runs, splits_with_points
from gradsurgery.lab.objective import Objective
from gradsurgery.lab.run import RunRecord

METRICS = "metrics"
"""The view of the user's metrics: rows have their costs as ``main_metrics`` and ``aux_metrics``. That of the first and
the second auxiliary loss is ``aux2``, and so on."""


@dataclass(frozen=True)
class View:
    """Two metrics, one for each axis."""

    name: str
    """``train``, ``test``, ``metrics`` or ``aux2``."""
    main: Objective
    """On the first axis."""
    aux: Objective
    """On the second."""

    def values(self, point: Point) -> Point:
        """The metrics that have these costs."""
        return self.main.sign * point[0], self.aux.sign * point[1]

    @property
    def label(self) -> str:
        """The text of its button."""
        named = [each.name for each in (self.main, self.aux) if not each.is_loss or self.name.startswith("aux")]
        return ", ".join(named) or self.name


def loss_views(groups: Sequence[Series]) -> list[View]:
    """The views of the losses that at least one run has a point in."""
    return [View(split, Objective(f"main_{split}"), Objective(f"aux_{split}")) for split in splits_with_points(groups)]


def find_views(records: Sequence[RunRecord]) -> tuple[list[RunRecord], list[View]]:
    """The views that at least one run has a point in, and the records with the costs that they show."""
    groups = group_runs(records)
    views = loss_views(groups)
    try:
        criteria = choose_criteria(records)
    except ValueError:  # the runs name different metrics, as the answer says
        return list(records), views
    if not any(criteria.end(record) for group in groups for record in group.records):
        return list(records), views
    judged = View(METRICS, criteria.main, criteria.aux)
    is_new = all((each.main, each.aux) != (judged.main, judged.aux) for each in views)
    further = [judged] * is_new
    further += [View(f"aux{level}", criteria.aux, lower) for level, lower in enumerate(criteria.lower, 2)]
    return [_with_costs(record, further) for record in records], [*views, *further]


def _with_costs(record: RunRecord, views: Sequence[View]) -> RunRecord:
    costs = {f"main_{view.name}": view.main for view in views} | {f"aux_{view.name}": view.aux for view in views}
    rows = (
        {**row, **{name: each.sign * row[each.metric] for name, each in costs.items() if each.metric in row}}
        for row in record.metrics
    )
    return replace(record, metrics=tuple(rows))
