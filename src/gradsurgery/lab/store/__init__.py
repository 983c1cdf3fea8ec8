"""The store: every run in one SQLite file, and exports of it.

    with Store("runs/store.sqlite") as store:
        records = store.select("lipschitz", "demo")
    export_table(records, "runs.parquet")

A failure of SQLite or of the disk is a ``StoreError``. ``store`` is the class, over the file (``sqlite``), its ``rows``
and the ``lease`` of a run; a ``logged_run`` is one that a script records. ``select`` finds the runs of a sweep,
``edit`` deletes, renames and merges, ``status`` counts, with the ``plan`` of sweeps in progress, and ``export`` and
``trackers`` write for other tools.
"""

from gradsurgery.lab.store.export import export_table, export_tensorboard
from gradsurgery.lab.store.sqlite import StoreError
from gradsurgery.lab.store.store import Store
from gradsurgery.lab.store.trackers import export_mlflow, export_optuna, export_wandb

__all__ = [
    "Store",
    "StoreError",
    "export_mlflow",
    "export_optuna",
    "export_table",
    "export_tensorboard",
    "export_wandb",
]
