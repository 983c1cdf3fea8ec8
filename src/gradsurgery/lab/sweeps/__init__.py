"""Sweeps: train every run of a grid once, in worker processes.

    from gradsurgery.lab.grid import specs
    from gradsurgery.lab.problems import PROBLEMS
    from gradsurgery.lab.store import Store
    from gradsurgery.lab.sweeps import ProgressBar, sweep

    problem = PROBLEMS["lipschitz"]
    with Store("runs/store.sqlite") as store, ProgressBar(Console()) as bar:
        records = sweep(problem, specs(problem, "demo"), store, folder=Path("runs"), listener=bar)

The steps of a sweep, by file: ``sweep`` finds the runs that are missing, ``workers`` starts processes, ``cores`` limits
each to the same number of cores, ``child_process`` is what they execute, ``training`` trains the runs one by one. A
``Listener`` hears of the progress; ``ProgressBar`` shows it.
"""

from gradsurgery.lab.sweeps.listener import Listener
from gradsurgery.lab.sweeps.progress import ProgressBar
from gradsurgery.lab.sweeps.sweep import sweep

__all__ = ["Listener", "ProgressBar", "sweep"]
