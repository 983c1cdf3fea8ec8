"""What the charts show: the losses on training or on held-out data, and the metrics that the user names.

Fronts are of costs, of which less is better. A metric to maximise is drawn on an axis that runs backwards, so that left
and below is better in every view.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradsurgery.lab.analysis import Criteria, choose_criteria, group_runs, splits_with_points
from gradsurgery.lab.objective import Objective
from gradsurgery.lab.run import RunRecord

METRICS = "metrics"
"""The view of the user's metrics: rows have their costs as ``main_metrics`` and ``aux_metrics``."""


@dataclass(frozen=True)
class View:
    """Two metrics, one for each axis."""

    name: str
    """``train``, ``test`` or ``metrics``."""
    main: Objective
    aux: Objective

    @property
    def label(self) -> str:
        """The text of its button."""
        named = [each.name for each in (self.main, self.aux) if not each.is_loss]
        return ", ".join(named) or self.name


def find_views(records: Sequence[RunRecord]) -> tuple[list[RunRecord], list[View]]:
    """The views that at least one run has a point in, and the records with the costs that they show."""
    groups = group_runs(records)
    views = [View(split, Objective(f"main_{split}"), Objective(f"aux_{split}")) for split in splits_with_points(groups)]
    try:
        criteria = choose_criteria(records)
    except ValueError:  # the runs name different metrics, as the answer says
        return list(records), views
    view = View(METRICS, criteria.main, criteria.aux)
    is_new = all((each.main, each.aux) != (view.main, view.aux) for each in views)
    if not (is_new and any(criteria.end(record) for group in groups for record in group.records)):
        return list(records), views
    return [_with_costs(record, criteria) for record in records], [*views, view]


def _with_costs(record: RunRecord, criteria: Criteria) -> RunRecord:
    costs = {f"main_{METRICS}": criteria.main, f"aux_{METRICS}": criteria.aux}
    rows = (
        {**row, **{name: each.sign * row[each.metric] for name, each in costs.items() if each.metric in row}}
        for row in record.metrics
    )
    return replace(record, metrics=tuple(rows))
