"""What ``sweep``, ``recommend`` and ``report`` return: plain lists and a path, which a notebook shows as HTML."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gradsurgery.lab.run import RunRecord

if TYPE_CHECKING:
    from gradsurgery.lab.analysis.recommend import Advice, Recommendation

    _Path = Path
else:
    _Path = type(Path())  # before Python 3.12, Path itself cannot be subclassed


class Records(list[RunRecord]):
    """The runs of a sweep. A notebook shows which method and λ to use."""

    def _repr_html_(self) -> str:
        from gradsurgery.lab.reports.inline import show_records

        return show_records(self)


class Recommendations(list["Recommendation"]):
    """The recommendation of each method. A notebook shows the best one as code, and the others."""

    def __init__(self, recommendations: "Iterable[Recommendation]", advice: "Advice") -> None:
        super().__init__(recommendations)
        self._advice = advice

    def _repr_html_(self) -> str:
        from gradsurgery.lab.reports.inline import show_advice

        return show_advice(self._advice)


class ReportPath(_Path):
    """The path of a report. A notebook shows the page."""

    def _repr_html_(self) -> str:
        from gradsurgery.lab.reports.inline import frame

        return frame(self.read_text("utf-8"), height="80vh")
