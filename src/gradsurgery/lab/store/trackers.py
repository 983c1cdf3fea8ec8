"""Export records to experiment trackers: Weights & Biases, MLflow and Optuna. Nothing is sent over the network.

    export_wandb(store.select(), "runs")            # wandb sync runs/wandb/offline-*
    export_mlflow(store.select(), "mlflow.db")      # mlflow ui --backend-store-uri sqlite:///mlflow.db
    export_optuna(store.select(), "optuna.db")      # optuna-dashboard sqlite:///optuna.db

A run of the store is a run (W&B, MLflow) or a trial (Optuna). Exporting it again replaces it.
"""

import hashlib
import logging
import math
import os
import re
import sqlite3
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeGuard

from gradsurgery.lab.analysis.series import final_point
from gradsurgery.lab.atomic import file_name
from gradsurgery.lab.lam import lam_columns
from gradsurgery.lab.run import RunRecord, RunSpec, Setting
from gradsurgery.lab.text import describe_run

_MLFLOW_BATCH = 1000
"""The most metrics that MLflow takes at once."""


def export_wandb(records: Iterable[RunRecord], folder: str | Path) -> None:
    """Write each run as an offline run of Weights & Biases, which ``wandb sync`` uploads.

    The project is the problem, the group its scale, and the run's id its key: a run that is uploaded twice is one run.
    """
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb

    settings = wandb.Settings(silent=True, console="off", disable_git=True, x_disable_stats=True, x_disable_meta=True)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for record in records:
        spec = record.spec
        run = wandb.init(
            project=file_name(spec.problem),
            group=spec.scale,
            name=describe_run(spec),
            id=spec.key,
            config=_config(spec),
            dir=folder,
            mode="offline",
            reinit="create_new",
            settings=settings,
        )
        for row in record.metrics:
            run.log({name: value for name, value in row.items() if name != "step"}, step=int(row["step"]))
        run.finish()


def export_mlflow(records: Iterable[RunRecord], path: str | Path) -> None:
    """Write each run to an MLflow database in SQLite, with an experiment for each problem and scale.

    MLflow takes fewer characters in the names of metrics and settings: others become ``_``. A hash keeps names apart
    that would be equal.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    logging.getLogger("mlflow").setLevel(logging.WARNING)  # it lists the tables that it creates
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with _open_database(path, "MLflow") as url:
        client = MlflowClient(url)
        client.search_experiments(max_results=1)  # the first call opens it
    records = list(records)
    plain = _plain_names(name for record in records for row in (_config(record.spec), *record.metrics) for name in row)
    for record in records:
        spec = record.spec
        title = f"{spec.problem}, {spec.scale}"
        known = client.get_experiment_by_name(title)
        experiment = known.experiment_id if known else client.create_experiment(title)
        for old in client.search_runs([experiment], f"tags.key = '{spec.key}'"):
            client.delete_run(old.info.run_id)
        run = client.create_run(experiment, run_name=describe_run(spec), tags={"key": spec.key}).info.run_id
        client.log_batch(run, params=[Param(plain[name], str(value)) for name, value in _config(spec).items()])
        metrics = [
            Metric(plain[name], value, timestamp=0, step=int(row["step"]))
            for row in record.metrics
            for name, value in row.items()
            if name != "step"
        ]
        for start in range(0, len(metrics), _MLFLOW_BATCH):
            client.log_batch(run, metrics=metrics[start : start + _MLFLOW_BATCH])
        client.set_terminated(run)


def export_optuna(records: Iterable[RunRecord], path: str | Path) -> None:
    """Write each run as a trial of a study with two objectives, main and aux, to an Optuna database in SQLite.

    There is a study for each problem and scale. The objectives are held-out losses if there are any. A run without
    finite losses is a failed trial.
    """
    import optuna

    with _open_database(path, "Optuna") as url:
        storage = optuna.storages.RDBStorage(url)
    studies: dict[str, list[RunRecord]] = {}
    for record in records:
        studies.setdefault(f"{record.spec.problem}, {record.spec.scale}", []).append(record)
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it logs every study
    for title, runs in studies.items():
        if title in optuna.get_all_study_names(storage):
            optuna.delete_study(study_name=title, storage=storage)
        study = optuna.create_study(study_name=title, storage=storage, directions=["minimize", "minimize"])
        split = "test" if any(final_point(run, "test") for run in runs) else "train"
        with warnings.catch_warnings(action="ignore", category=optuna.exceptions.ExperimentalWarning):
            study.set_metric_names([f"main_{split}", f"aux_{split}"])
        study.add_trials(_trials(runs, split))


def _trials(records: Sequence[RunRecord], split: str) -> list[Any]:
    from optuna.distributions import CategoricalDistribution, FloatDistribution
    from optuna.trial import TrialState, create_trial

    configs = [_config(record.spec) for record in records]

    def distribution(name: str) -> Any:
        values = list(dict.fromkeys(config[name] for config in configs if name in config))
        numbers = [value for value in values if _is_number(value)]
        is_numeric = len(numbers) == len(values)
        return FloatDistribution(min(numbers), max(numbers)) if is_numeric else CategoricalDistribution(values)

    distributions = {name: distribution(name) for name in set[str]().union(*configs)}
    trials = []
    for record, config in zip(records, configs, strict=True):
        point = final_point(record, split)
        trials.append(
            create_trial(
                state=TrialState.COMPLETE if point else TrialState.FAIL,
                values=point,
                params=config,
                distributions={name: distributions[name] for name in config},
                user_attrs={"key": record.spec.key, "final": dict(record.final)},
            )
        )
    return trials


def _config(spec: RunSpec) -> dict[str, Setting]:
    """What tells a run from others of its problem and scale, without what the method does not have."""
    columns = {"method": spec.method, **lam_columns(spec.lam), "rho": spec.rho, "seed": spec.seed}
    settings = {f"settings.{name}": value for name, value in spec.settings.items()}
    return {name: value for name, value in {**columns, **settings}.items() if value is not None}


def _is_number(value: Setting) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@contextmanager
def _open_database(path: str | Path, tool: str) -> Iterator[str]:
    """The URL of an SQLite database, whose folder is created; ``ValueError`` if the tool cannot open it."""
    from sqlalchemy import URL

    path = Path(path).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with closing(sqlite3.connect(path)) as db:  # the tools would log the error and try again
            db.execute("BEGIN IMMEDIATE")
        yield str(URL.create("sqlite", database=path.as_posix()))
    except ModuleNotFoundError:  # MLflow imports Alembic only here
        raise
    except Exception as error:  # each tool has its own, and those of SQLAlchemy and Alembic
        reason = str(error).partition("\n")[0]
        raise ValueError(f"the file must be new or a database of {tool} to write to; got {path}: {reason}") from error


def _plain_names(names: Iterable[str]) -> dict[str, str]:
    """Names -> names that MLflow takes, all different."""
    plain = {name: re.sub(r"[^\w./ :-]", "_", name, flags=re.ASCII) for name in names}
    uses = Counter(plain.values())
    return {
        name: text if text == name or uses[text] == 1 else f"{text}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        for name, text in plain.items()
    }
