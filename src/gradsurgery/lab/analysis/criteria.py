"""What runs are judged by: held-out losses, training losses, or the metrics that the user names."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradsurgery.lab.analysis.outcomes import has_diverged
from gradsurgery.lab.analysis.series import Values, final_values
from gradsurgery.lab.analysis.variant import variant_of
from gradsurgery.lab.objective import ROLES, Objective, recorded_objectives
from gradsurgery.lab.run import RunRecord


@dataclass(frozen=True)
class Criteria:
    """The metric of main, which an allowance limits, and those of the auxiliary losses, which are improved."""

    split: str
    """Whether losses are on ``test`` or ``train`` data."""
    main: Objective
    aux: Objective
    lower: tuple[Objective, ...]
    """Of the auxiliary losses below the first, the most important first."""

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """All metrics, main's first."""
        return self.main, self.aux, *self.lower

    @property
    def names(self) -> str:
        """The metrics as rows name them."""
        *others, last = (objective.metric for objective in self.objectives)
        return f"{', '.join(others)} and {last}"

    @property
    def data(self) -> str:
        """What is compared: ``held-out losses``, ``training losses``, or the metrics that the user names."""
        for split, losses in (("test", "held-out losses"), ("train", "training losses")):
            if (self.main, self.aux) == (Objective(f"main_{split}"), Objective(f"aux_{split}")):
                return losses
        return f"{self.main.title} and {self.aux.title}"

    def is_recorded(self, record: RunRecord) -> bool:
        """True if the run has a row with all metrics."""
        return any(all(objective.metric in row for objective in self.objectives) for row in record.metrics)

    def end(self, record: RunRecord) -> Values | None:
        """All metrics at the end of a run; None if the run did not finish, or diverged, or they are not finite."""
        return (
            None if has_diverged(record) else final_values(record, *(objective.metric for objective in self.objectives))
        )


def choose_criteria(records: Sequence[RunRecord]) -> Criteria:
    """The metrics that the runs name; for the others, the held-out losses if any run has them."""
    named = recorded_objectives(records)
    levels = max((len(variant_of(record.spec).lower) for record in records), default=0)

    def on(split: str) -> Criteria:
        main, aux = (named.get(role) or Objective(f"{role}_{split}") for role in ROLES)
        return Criteria(split, main, aux, tuple(Objective(f"aux{2 + k}_{split}") for k in range(levels)))

    test, train = on("test"), on("train")
    return test if any(map(test.end, records)) else train
