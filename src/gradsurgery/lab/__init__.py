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

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Our matrices are small: more threads in the linear algebra library cost more than they gain, above all on a busy
# machine. The library reads the variable when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if TYPE_CHECKING:
    from gradsurgery.lab.api import report, sweep
    from gradsurgery.lab.function_problem import problem
    from gradsurgery.lab.reports.recommend import Recommendation, recommend
    from gradsurgery.lab.run import Run, RunRecord, RunSpec
    from gradsurgery.lab.store import Store

__all__ = ["Recommendation", "Run", "RunRecord", "RunSpec", "Store", "problem", "recommend", "report", "sweep"]

_MODULES = {
    "Recommendation": "reports.recommend",
    "Run": "run",
    "RunRecord": "run",
    "RunSpec": "run",
    "Store": "store",
    "problem": "function_problem",
    "recommend": "reports.recommend",
    "report": "api",
    "sweep": "api",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"gradsurgery.lab.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
