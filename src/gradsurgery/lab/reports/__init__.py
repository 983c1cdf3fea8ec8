"""Reports on stored runs: Pareto fronts, tables and figures, on one HTML page and in the terminal.

    from gradsurgery.lab.reports import write_report

    page = write_report(records, Path("runs/report"), title="lipschitz, demo")

Importing this package is cheap: ``write_report`` loads matplotlib and plotly on first use.
"""

from typing import TYPE_CHECKING, Any

from gradsurgery.lab.reports.comparison import Comparison, MethodResult, compare
from gradsurgery.lab.reports.terminal import print_summary

if TYPE_CHECKING:
    from gradsurgery.lab.reports.report import write_report

__all__ = ["Comparison", "MethodResult", "compare", "print_summary", "write_report"]


def __getattr__(name: str) -> Any:
    if name == "write_report":
        from gradsurgery.lab.reports.report import write_report

        return write_report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
