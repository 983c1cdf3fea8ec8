"""What runs are judged by: held-out losses, training losses, or the metrics that the user names."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradsurgery.lab.analysis.pareto import Point
from gradsurgery.lab.analysis.series import final_values
from gradsurgery.lab.objective import Objective, recorded_objectives
from gradsurgery.lab.run import RunRecord


@dataclass(frozen=True)
class Criteria:
    """The metric of main, which an allowance limits, and the metric of aux, which is improved."""

    split: str
    """Whether losses are on ``test`` or ``train`` data."""
    main: Objective
    aux: Objective

    @property
    def data(self) -> str:
        """What is compared: ``held-out losses``, ``training losses``, or the metrics that the user names."""
        for split, losses in (("test", "held-out losses"), ("train", "training losses")):
            if (self.main, self.aux) == (Objective(f"main_{split}"), Objective(f"aux_{split}")):
                return losses
        return f"{self.main.title} and {self.aux.title}"

    def is_recorded(self, record: RunRecord) -> bool:
        """True if the run has a row with both metrics."""
        return any(self.main.metric in row and self.aux.metric in row for row in record.metrics)

    def end(self, record: RunRecord) -> Point | None:
        """Both metrics at the end of a run; None if the run did not finish or they are not finite."""
        return final_values(record, self.main.metric, self.aux.metric)


def choose_criteria(records: Sequence[RunRecord]) -> Criteria:
    """The metrics that the runs name; for the others, the held-out losses if any run has them."""
    named = recorded_objectives(records)
    test, train = (
        Criteria(split, *(named.get(role) or Objective(f"{role}_{split}") for role in ("main", "aux")))
        for split in ("test", "train")
    )
    return test if any(map(test.end, records)) else train
