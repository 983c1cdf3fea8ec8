"""Reports on stored runs: Pareto fronts, tables and figures, on one HTML page and in the terminal.

    from gradsurgery.lab.reports import write_report

    page = write_report(records, Path("runs/report"), title="lipschitz, demo")

Importing this package is cheap: matplotlib, plotly and jinja2 are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradsurgery.lab.reports.figures import draw_fronts, draw_mixed_loss, paper_style
    from gradsurgery.lab.reports.index import write_index
    from gradsurgery.lab.reports.page import embed_png, render
    from gradsurgery.lab.reports.report import write_report
    from gradsurgery.lab.reports.style import Look, assign_looks, look
    from gradsurgery.lab.reports.terminal import print_recommendations, print_summary

__all__ = [
    "Look",
    "assign_looks",
    "draw_fronts",
    "draw_mixed_loss",
    "embed_png",
    "look",
    "paper_style",
    "print_recommendations",
    "print_summary",
    "render",
    "write_index",
    "write_report",
]

_MODULES = {
    "Look": "style",
    "assign_looks": "style",
    "draw_fronts": "figures",
    "draw_mixed_loss": "figures",
    "embed_png": "page",
    "look": "style",
    "paper_style": "figures",
    "print_recommendations": "terminal",
    "print_summary": "terminal",
    "render": "page",
    "write_index": "index",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
