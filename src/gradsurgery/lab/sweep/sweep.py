"""``lab.sweep``: a grid as the user writes it, turned into runs and trained. The command line calls this function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradsurgery.lab.errors import UserError, require_extra
from gradsurgery.lab.grid import plan_runs
from gradsurgery.lab.notation import LamLists
from gradsurgery.lab.notebook import Records
from gradsurgery.lab.objective import LOSSES, judge_by
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.run import RunRecord, Setting
from gradsurgery.lab.settings import Choices
from gradsurgery.lab.sweep.events import Advanced, Event, Listener
from gradsurgery.method import Method

if TYPE_CHECKING:
    from rich.console import Console


def sweep(
    problem: Problem | str,
    *,
    folder: str | Path = "runs",
    methods: Sequence[str | type[Method]] | None = None,
    lams: LamLists | None = None,
    rhos: str | Sequence[float] | None = None,
    taus: str | Sequence[float] | None = None,
    seeds: str | Sequence[int] | None = None,
    settings: Choices | None = None,
    scale: str | None = None,
    main_alone: bool = True,
    workers: int | None = None,
    cores_per_run: int | None = None,
    ray: bool | str = False,
    slurm: bool | Mapping[str, Setting] = False,
    gpus_per_run: int = 0,
    process: str | None = None,
    data_dir: str | Path | None = None,
    checkpoint_every: float = 60.0,
    time_limit: float | None = None,
    again: bool = False,
    keep: bool = False,
    allow: float | None = None,
    absolute: bool = False,
    quiet: bool = False,
    console: Console | None = None,
) -> list[RunRecord]:
    """Train a grid of methods, λ and seeds, and main alone. Runs that are stored already are not trained again.

    A sweep that was interrupted continues when the same call is made again. A run that raises or crashes is recorded as
    failed, and the others go on. What a run prints goes to a file in ``folder/logs``, with the traceback if it fails.

    Args:
        problem: made by ``@lab.problem``, or its name: of an installed problem, ``file.py:name`` or ``module:name``.
        folder: where the store, checkpoints and reports go.
        methods: names in ``gradsurgery.METHODS``, your own classes, or ``file.py:name``.
        lams: weights of the auxiliary loss, as numbers, as ``gs.relative`` of numbers, or as text: ``"0,1e-3:1:7log"``,
            ``"relative:0.03:3:7log"``, or ``"auto:9"`` for up to nine λ placed where the front has gaps. For several
            auxiliary losses, one such list for all of them or one for each: ``([0.1, 1.0], "0.01,0.1")``.
        rhos: speeds of the moving average, for every method that has one; numbers, or text such as ``"0.01,0.1"``.
        taus: shares of aux's own progress, for ``pcd``, which takes them in place of λ.
        seeds: the seeds, as numbers or as text such as ``"0-4"``.
        settings: settings to change, by name; a list of values is swept, such as ``{"learning_rate": [0.1, 0.3]}``.
        scale: a scale of the problem; by default its first.
        main_alone: False to leave out main alone (mixed with λ = 0), which recommendations need, and of several
            auxiliary losses λ = 0 for the last, which shows what that one costs the others.
        workers: how many runs train at once, each in a process; by default one per core or accelerator. 0 trains all in
            this process, which they share, and raises what a run raises: for debugging.
        cores_per_run: cores of each run; by default 1, or with accelerators an equal share of all.
        ray: the address of a Ray cluster to train on; True for the one in ``RAY_ADDRESS``, or a local Ray.
        slurm: parameters of submitit for jobs on a Slurm cluster, such as ``{"timeout_min": 60, "gpus_per_node": 1,
            "slurm_partition": "gpu"}``; True for its defaults. The folder must be on a disk that all nodes share.
        gpus_per_run: GPUs of each run on Ray.
        process: ``I/N@HOST:PORT`` if this is process I of N that train each run together in JAX, or ``auto``.
        data_dir: the training function gets it as ``run.data_dir``; the paper's problems look there for datasets.
        checkpoint_every: seconds between two checkpoints, for problems that save any.
        time_limit: seconds after which a run is ended and recorded as failed; by default, a run may take any time.
        again: if the code of the problem has changed, drop stored runs of the older code and train the grid again.
        keep: if it has changed, keep them on purpose. With neither, such a sweep is refused.
        allow: how much worse main may be than main alone, such as 0.05 for 5 %. Runs that end beyond it for certain are
            stopped early or not trained. By default all are trained.
        absolute: True if ``allow`` is a difference of losses.
        quiet: True to print no progress.
        console: where to show the progress; by default the standard output.

    Returns:
        The records of all runs of the grid, done, failed or stopped. Of processes that train together, only the first
        has any. A notebook shows which method and λ to use.
    """
    with require_extra():
        from rich.console import Console

        from gradsurgery.lab.analysis.allowance import Allowance
        from gradsurgery.lab.sweep.notebook_bar import NotebookBar
        from gradsurgery.lab.sweep.progress import ProgressBar
        from gradsurgery.lab.sweep.resources import Resources
        from gradsurgery.lab.sweep.train import train_grid

    declared, runs, max_lams = plan_runs(
        problem,
        methods=methods,
        lams=lams,
        rhos=rhos,
        taus=taus,
        seeds=seeds,
        settings=settings,
        scale=scale,
        main_alone=main_alone,
    )
    console = console or Console(markup=False, highlight=False, emoji=False, quiet=quiet)
    with NotebookBar() if console.is_jupyter and not console.quiet else ProgressBar(console) as bar:
        records = train_grid(
            declared,
            runs,
            folder=Path(folder),
            listener=_check_first_row(declared, bar),
            resources=Resources(workers, cores_per_run, ray, slurm, gpus_per_run, process, time_limit),
            max_lams=max_lams,
            data_dir=None if data_dir is None else Path(data_dir),
            checkpoint_every=checkpoint_every,
            again=again,
            keep=keep,
            allowance=None if allow is None else Allowance(allow, absolute),
        )
    return Records(judge_by(declared.objectives, records))


def _check_first_row(problem: Problem, listener: Listener) -> Listener:
    """A listener that raises if the first row of a sweep has no loss: its columns are misnamed.

    A problem that draws its own figures may have none.
    """
    losses = LOSSES.keys() | {objective.metric for objective in problem.objectives.values()}
    needed = {"main_train and aux_train, or main_test and aux_test": losses}
    for level in range(2, len(problem.aux_losses) + 1):
        needed[f"aux{level}_train or aux{level}_test"] = {f"aux{level}_train", f"aux{level}_test"}
    is_checked = problem.draw is not None

    def listen(event: Event) -> None:
        nonlocal is_checked
        if isinstance(event, Advanced) and not is_checked:
            is_checked = True
            for names, any_of in needed.items():
                if not event.metrics.keys() & any_of:
                    got = ", ".join(event.metrics)
                    raise UserError(f"the first row of {problem.name} must have {names}; got {got}")
        listener(event)

    return listen
