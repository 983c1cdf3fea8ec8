"""Sweeps: train every run of a grid once, in worker processes.

    from pathlib import Path

    from rich.console import Console

    from gradsurgery.lab.grid import specs
    from gradsurgery.lab.problems import PROBLEMS
    from gradsurgery.lab.store import Store
    from gradsurgery.lab.sweeps import ProgressBar, sweep

    problem = PROBLEMS["lipschitz"]
    with Store("runs/store.sqlite") as store, ProgressBar(Console()) as bar:
        records = sweep(problem, specs(problem, "demo"), store, folder=Path("runs"), listener=bar)

A sweep in the order of its files: ``sweep`` finds the missing runs; ``workers`` starts processes, each limited to the
same number of ``cores``; they execute ``child_process``; ``training`` trains runs one by one and yields ``events``; a
``listener``, such as the ``progress`` bar, receives them. On a cluster, ``ray`` takes the place of ``workers`` and
``ray_task`` that of ``child_process``. ``adaptive`` adds λ to a coarse grid, stage by stage.
"""

from gradsurgery.lab.sweeps.listener import Listener
from gradsurgery.lab.sweeps.options import RayOptions
from gradsurgery.lab.sweeps.progress import ProgressBar
from gradsurgery.lab.sweeps.sweep import sweep

__all__ = ["Listener", "ProgressBar", "RayOptions", "sweep"]
