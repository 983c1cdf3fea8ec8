"""``lab.sweep`` and ``lab.report``: what the command line does, as Python calls."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from gradsurgery.lab.declaration import Problem
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.grid import parse_lams, specs
from gradsurgery.lab.lam import Lam
from gradsurgery.lab.method import register_method
from gradsurgery.lab.problems import problem as find_problem
from gradsurgery.lab.references import is_reference
from gradsurgery.lab.run import RunRecord, Setting, check_setting
from gradsurgery.lab.store import Store
from gradsurgery.lab.stored import find_declared
from gradsurgery.lab.sweeps import ProgressBar, RayOptions
from gradsurgery.lab.sweeps import sweep as train_grid
from gradsurgery.method import Method


def sweep(
    problem: Problem | str,
    *,
    folder: str | Path = "runs",
    methods: Sequence[str | type[Method]] | None = None,
    lams: str | Sequence[Lam] | None = None,
    rhos: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    settings: Mapping[str, Setting] | None = None,
    scale: str | None = None,
    workers: int | None = None,
    cores_per_run: int | None = None,
    ray: bool | str = False,
    gpus_per_run: int = 0,
    data_dir: str | Path | None = None,
    checkpoint_every: float = 60.0,
    quiet: bool = False,
) -> list[RunRecord]:
    """Train a grid of methods, λ and seeds, and main alone. Runs that are stored already are not trained again.

    A sweep that was interrupted continues when the same call is made again. A run that raises is recorded as failed,
    and the others go on.

    Args:
        problem: a problem made by ``@lab.problem``, or the name of one of the paper's.
        folder: where the store, checkpoints and reports go.
        methods: names in ``gradsurgery.METHODS``, or classes of your own.
        lams: weights of the auxiliary loss, as numbers, as ``gs.relative`` of numbers, or as text: ``"0,1e-3:1:7log"``,
            ``"relative:0.03:3:7log"``, or ``"auto:9"`` for up to nine λ placed where the front has gaps.
        rhos: speeds of the moving average, for every method that has one.
        seeds: the seeds.
        settings: settings to change, by name.
        scale: a scale of the problem; by default its first.
        workers: processes that share the runs; by default one per core or accelerator. 0 trains in this process and
            raises what a run raises.
        cores_per_run: cores of each run; by default 1, or with accelerators an equal share of all.
        ray: the address of a Ray cluster to train on; True for the one in ``RAY_ADDRESS``, or a local Ray.
        gpus_per_run: GPUs of each run on Ray.
        data_dir: for problems of the paper, a folder whose subfolders stand in for hub ids.
        checkpoint_every: seconds between two checkpoints, for problems that save any.
        quiet: True to print no progress.

    Returns:
        The records of all runs of the grid, done or failed.
    """
    declared = find_problem(problem) if isinstance(problem, str) else problem
    if not isinstance(declared, Problem):
        raise UserError(f"sweep takes a problem made by @lab.problem, or a name, but got {problem!r}")
    for name, value in (settings or {}).items():
        check_setting(name, value)
    scale = next(iter(declared.scales)) if scale is None else scale
    weights = parse_lams(lams, declared.scale(scale))
    names = None
    if methods is not None:
        names = [method if isinstance(method, str) else register_method(method) for method in methods]
    runs = specs(
        declared,
        scale,
        methods=names,
        lams=weights.values,
        rhos=None if rhos is None else tuple(map(float, rhos)),
        seeds=None if seeds is None else tuple(seeds),
        settings={name: str(value) for name, value in (settings or {}).items()},
        main_alone=True,
    )
    if gpus_per_run and not ray:
        raise UserError("gpus_per_run is for sweeps on Ray: on one machine, each accelerator trains one run")
    console = Console(markup=False, highlight=False, emoji=False, quiet=quiet)
    with Store(Path(folder) / "store.sqlite") as store, ProgressBar(console) as bar:
        return train_grid(
            declared,
            runs,
            store,
            folder=Path(folder),
            listener=bar,
            max_lams=weights.limit,
            workers=workers,
            cores_per_run=cores_per_run,
            ray=RayOptions(ray if isinstance(ray, str) else None, gpus_per_run) if ray else None,
            data_dir=None if data_dir is None else Path(data_dir),
            checkpoint_every=checkpoint_every,
        )


def report(records: Sequence[RunRecord], folder: str | Path, *, title: str | None = None) -> Path:
    """Write a report on the runs of one problem: one HTML page, and figures as PNG and PDF beside it.

    Args:
        records: what ``sweep`` returned, or ``Store.select``.
        folder: created if needed; an older report in it is replaced.
        title: the heading; by default the problem's name and scale.

    Returns:
        The path of ``report.html``.
    """
    from gradsurgery.lab.reports.report import write_report  # loads matplotlib and plotly

    if not records:
        return write_report(records, Path(folder), "")  # raises
    spec = records[0].spec
    declared = None if is_reference(spec.problem) else find_declared(spec.problem)  # a reference would be imported
    return write_report(
        records,
        Path(folder),
        f"{spec.problem}, {spec.scale}" if title is None else title,
        draw=declared.draw if declared else None,
        about=declared.losses if declared else None,
    )
