"""Sweeps: train every run of a grid once, each in its own process.

A sweep in the order of its files: ``sweep`` is what the user calls; ``train`` finds the runs that are missing, after
``origin`` has compared their code with the ``fingerprint`` of stored runs. The ``resources`` say what trains them: by
default the ``supervisor``, which takes a run as an ``attempt`` and hands it to a ``child``, a process limited to the
same number of ``cores`` as every other, in which the ``worker`` trains it; or ``in_process``, ``ray`` or ``slurm``. The
``messages`` of the worker are recorded by the attempt, which asks ``stopping`` whether to go on, and become ``events``
for the ``progress`` bar. A ``shipment`` is what other processes need. ``adaptive`` adds λ to a coarse grid, stage by
stage.
"""

from gradsurgery.lab.sweep.sweep import sweep

__all__ = ["sweep"]
