"""A problem of your own: a training function, and the grid to sweep it over.

    @lab.problem(main="cross-entropy", aux="smoothness", settings={"epochs": 3}, lams="1e-3:1:7log")
    def smooth(run):
        surgery = gst.Surgery(model.parameters(), run.method)
        for epoch in range(run.settings["epochs"]):
            ...
            yield {"step": epoch, "main_train": ..., "aux_train": ..., "main_test": ..., "aux_test": ...}

The function may use PyTorch, JAX or anything else.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gradsurgery.lab.declaration import Problem, Scale, Task
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.grid import parse_lams
from gradsurgery.lab.lam import Lam
from gradsurgery.lab.problems import PROBLEMS
from gradsurgery.lab.run import Metrics, Run, Setting
from gradsurgery.lab.settings import kind_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SCALE = "default"
"""The name of the only scale of such a problem."""

TrainingFunction = Callable[[Run], Iterator[Metrics]]


def problem(
    *,
    main: str,
    aux: str,
    settings: Mapping[str, Setting] | None = None,
    methods: Sequence[str] = ("mixed", "bloop"),
    lams: str | Sequence[Lam] = "relative:0.03:3:7log",
    rhos: Sequence[float] = (0.01,),
    seeds: Sequence[int] = (0,),
    name: str | None = None,
    title: str | None = None,
) -> Callable[[TrainingFunction], "FunctionProblem"]:
    """Turn a training function into a problem that can be swept.

    The function is a generator. It gets a ``Run``, trains with ``run.method``, and yields rows: ``step``, and losses as
    ``main_train``, ``aux_train`` and, on held-out data, ``main_test``, ``aux_test``; any other number is recorded too.
    Files that it saves in ``run.folder`` are still there when an interrupted run starts again.

    Args:
        main: the main loss, in a few words.
        aux: the auxiliary loss.
        settings: defaults by name; ``--set`` and ``sweep(settings=...)`` change them, in the types of the defaults.
        methods: the methods that a sweep compares by default.
        lams: the default λ, as numbers or as text such as ``"0,1e-3:1:7log"``. By default relative to main's gradient,
            ``"relative:0.03:3:7log"``: a range that serves most problems.
        rhos: the default ρ, for bloop and your own methods with an average.
        seeds: the default seeds.
        name: the name in the store, unlike those of the paper's problems; by default the function's.
        title: one line for ``gradsurgery list``; by default the first line of the function's docstring.

    Example:
        >>> @problem(main="distance to 0", aux="distance to 1", settings={"steps": 3}, lams=[0.1, 1.0])
        ... def walk(run):
        ...     x = 2.0
        ...     for step in range(run.settings["steps"]):
        ...         x -= 0.5 * (x + run.lam * (x - 1))
        ...         yield {"step": step, "main_train": abs(x), "aux_train": abs(x - 1)}
        >>> walk.name, sorted(walk.scales)
        ('walk', ['default'])
    """
    settings_type = _settings_type(settings or {})

    def decorate(function: TrainingFunction) -> FunctionProblem:
        if not inspect.isgeneratorfunction(function):
            raise TypeError(
                f"a training function yields its rows, so it must be a generator, but got {function!r} without a yield"
            )
        problem_name = name or function.__name__
        if problem_name in PROBLEMS:  # reports by name would look for its runs
            raise ValueError(f"{problem_name} is a problem of the paper: give yours another name")
        grid = parse_lams(lams)
        if grid.limit is not None:
            raise ValueError(f"the default λ are numbers or a range, but got {lams!r}: pass that to a sweep")
        scale = Scale(
            settings_type(),
            methods=tuple(methods),
            lams=grid.values or (),
            rhos=tuple(map(float, rhos)),
            seeds=tuple(seeds),
        )
        return FunctionProblem(
            name=problem_name,
            title=title or (inspect.getdoc(function) or f"{main} against {aux}").splitlines()[0],
            main=main,
            aux=aux,
            scales={SCALE: scale},
            task=function.__module__,
            function=function,
        )

    return decorate


@dataclass(frozen=True)
class FunctionProblem(Problem):
    """A problem whose runs are trained by a function."""

    function: TrainingFunction = field(kw_only=True)

    def build(self, settings: Mapping[str, Setting], data_dir: Path | None) -> Task:
        """Return a task that calls the function for each run."""
        if data_dir is not None:
            raise UserError(
                f"{self.name} loads its data in its training function, so it takes no data folder, but got {data_dir}: "
                "make the folder a setting"
            )
        return _FunctionTask(self.function)

    def __call__(self, run: Run) -> Iterator[Metrics]:
        """Train one run, as the undecorated function does."""
        return self.function(run)


class _FunctionTask(Task):
    def __init__(self, function: TrainingFunction) -> None:
        self._function = function

    def train(self, run: Run) -> Iterator[Metrics]:
        yield from self._function(run)


def _settings_type(defaults: Mapping[str, Setting]) -> "Callable[[], DataclassInstance]":
    """A settings dataclass with these defaults, whose fields take values of the same types."""
    fields: list[Any] = [
        (name, Annotated[type(value), kind_of(name, value)], field(default=value)) for name, value in defaults.items()
    ]
    return make_dataclass("Settings", fields, frozen=True, kw_only=True)
