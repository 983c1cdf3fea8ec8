"""The lab: train a grid of methods, weights and seeds on a problem, and learn which λ to use.

    from gradsurgery import lab

    @lab.problem(main="cross-entropy", aux="smoothness", settings={"epochs": 3}, lams="1e-3:1:7log")
    def smooth(run):                                      # PyTorch, JAX or anything else
        ...                                               # train with run.method, run.seed, run.settings
        yield {"step": 1, "main_train": 0.3, "aux_train": 4.2}

    records = lab.sweep(smooth, folder="runs")
    page = lab.report(records, "runs/report")
    for recommendation in lab.recommend(records, allow=0.02):
        print(recommendation.text)

The same from the command line: ``gradsurgery sweep my_problem.py:smooth``. The problems of the paper have names:
``gradsurgery list``. Importing this package loads no jax and no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradsurgery.lab.errors import UserError, require_extra
from gradsurgery.lab.find import find_problem, installed_problems
from gradsurgery.lab.grid import specs
from gradsurgery.lab.lam import Lam
from gradsurgery.lab.problem import Problem, Scale, problem
from gradsurgery.lab.run import Metrics, Run, RunRecord, RunSpec, Sample, Setting
from gradsurgery.lab.settings import Count, CountOrZero, Name, PositiveFloat, Switch, Text, Whole, one_of
from gradsurgery.lab.sweep import sweep

if TYPE_CHECKING:
    from gradsurgery.lab.analysis.recommend import Recommendation, recommend
    from gradsurgery.lab.reports.report import report
    from gradsurgery.lab.store import Store

__all__ = [
    "Count",
    "CountOrZero",
    "Lam",
    "Metrics",
    "Name",
    "PositiveFloat",
    "Problem",
    "Recommendation",
    "Run",
    "RunRecord",
    "RunSpec",
    "Sample",
    "Scale",
    "Setting",
    "Store",
    "Switch",
    "Text",
    "UserError",
    "Whole",
    "find_problem",
    "installed_problems",
    "one_of",
    "problem",
    "recommend",
    "report",
    "specs",
    "sweep",
]

_LAZY = {
    "Recommendation": "analysis.recommend",
    "Store": "store",
    "recommend": "analysis.recommend",
    "report": "reports.report",
}
"""These need the libraries of the extra."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        with require_extra():
            return getattr(import_module(f"gradsurgery.lab.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
