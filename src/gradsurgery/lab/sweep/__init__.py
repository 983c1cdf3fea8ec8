"""Sweeps: train every run of a grid once, in worker processes.

A sweep in the order of its files: ``api`` turns the user's grid into runs; ``train`` finds those that are missing;
``pool`` starts processes, each limited to the same number of ``cores``; a ``worker`` trains runs one by one and yields
``events``, which the ``progress`` bar shows. On a cluster, ``ray`` takes the place of the pool. ``adaptive`` adds λ to
a coarse grid, stage by stage.
"""

from gradsurgery.lab.sweep.api import sweep

__all__ = ["sweep"]
