"""A problem: two losses in words, a training function, its settings, and the grid that a sweep covers by default.

    @lab.problem(main="cross-entropy", aux="smoothness", settings={"epochs": 3}, lams="1e-3:1:7log")
    def smooth(run):
        surgery = gst.Surgery(model, run.method)
        for epoch in range(run.settings["epochs"]):
            ...
            yield {"step": epoch, "main_train": ..., "aux_train": ..., "main_test": ..., "aux_test": ...}

The function may use PyTorch, JAX or anything else. ``gradsurgery list`` and mistakes in the arguments load the module
that has the problem: import what is slow to import inside the function. Every run has a fresh process, unless
``share_process=True``: then a process trains many runs, and what is slow to build can be cached there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from gradsurgery.lab.errors import unknown
from gradsurgery.lab.lam import Weight
from gradsurgery.lab.notation import LamLists, parse_lam_lists, parse_lams
from gradsurgery.lab.objective import Objectives, read_objectives
from gradsurgery.lab.run import Metrics, Run, RunRecord, Setting
from gradsurgery.lab.settings import Settings, kinds_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TrainingFunction: TypeAlias = Callable[[Run], Iterator[Metrics]]
Drawing: TypeAlias = "Callable[[Sequence[RunRecord]], dict[str, Figure]]"
"""Draws figures for the report, by file name."""

METHODS = ("mixed", "bloop")
LAMS = "relative:0.03:3:7log"
LOWER_LAMS = "relative:0.03:3:3log"
"""For auxiliary losses below the first: the grid is a product."""
RHOS = (0.01,)
SEEDS = (0,)


@dataclass(frozen=True)
class Scale:
    """A size of a problem: its settings, and the grid that a sweep covers by default."""

    settings: Settings = field(default_factory=dict)
    methods: tuple[str, ...] = METHODS
    lams: tuple[Weight, ...] | tuple[tuple[Weight, ...], ...] = parse_lams(LAMS)
    """For all auxiliary losses, or a tuple for each."""
    rhos: tuple[float, ...] = RHOS
    """For methods that keep an average by default; empty to project on the current gradient."""
    seeds: tuple[int, ...] = SEEDS
    alternatives: Mapping[tuple[str, str], Settings] = field(default_factory=dict)
    """(name, value) -> settings to start from if the user sets this setting to this value. For example
    ``("model", "resnet")``: another model needs another learning rate."""

    def settings_for(self, changes: Mapping[str, Setting]) -> Settings:
        """The settings that the user's changes apply to."""
        matching = (settings for (name, value), settings in self.alternatives.items() if changes.get(name) == value)
        return next(matching, self.settings)


@dataclass(frozen=True)
class Problem:
    """A main loss, an auxiliary loss, and how a run on them is trained. ``@lab.problem`` makes one."""

    name: str
    title: str
    """One line for ``gradsurgery list``."""
    main: str
    aux: str | tuple[str, ...]
    """Several auxiliary losses are a tuple, the most important first."""
    scales: Mapping[str, Scale]
    """Name -> scale, the default first. The settings of all scales have the same type."""
    train: TrainingFunction
    """Trains a run from its start, or from what an interrupted attempt saved in ``run.folder``, and yields its rows. A
    metric that is yielded again for the same step is replaced."""
    draw: Drawing | None = None
    data: Callable[[Any], Sequence[str]] | None = None
    """Settings -> where each dataset comes from, for ``gradsurgery list``; None if only the training function knows."""
    methods: tuple[str, ...] | None = None
    """The methods that it can be trained with; None for all."""
    uses_rho: bool = True
    """False if no moving average is involved."""
    objectives: Objectives = field(default_factory=dict)
    """The metrics that recommendations judge main and aux by, where they are not the losses."""
    share_process: bool = False
    """True if one process may train several runs one after the other, which then share what the function caches."""

    @property
    def losses(self) -> dict[str, str]:
        """What the losses are, for the top of a report."""
        first, *lower = self.aux_losses
        losses = {"main": self.main, "aux": first} | {f"aux{level}": loss for level, loss in enumerate(lower, 2)}
        judged = {role: f", judged by {objective.metric}" for role, objective in self.objectives.items()}
        return {role.capitalize(): f"{loss}{judged.get(role, '')}" for role, loss in losses.items()}

    @property
    def aux_losses(self) -> tuple[str, ...]:
        """The auxiliary losses, the most important first."""
        return self.aux if isinstance(self.aux, tuple) else (self.aux,)

    @property
    def default_scale(self) -> str:
        """The name of the first scale."""
        return next(iter(self.scales))

    def scale(self, name: str | None) -> Scale:
        """Return the scale of this name; the first for None."""
        if name is None:
            name = self.default_scale
        if name not in self.scales:
            raise unknown("scale", name, self.scales, where=f"of {self.name}")
        return self.scales[name]

    def typed_settings(self, settings: Mapping[str, Setting]) -> Any:
        """Settings as the training function sees them: the problem's dataclass, or a mapping by name."""
        declared = self.scale(None).settings
        return type(declared)(**settings) if is_dataclass(declared) else settings

    def __call__(self, run: Run) -> Iterator[Metrics]:
        """Train one run, as the undecorated function does."""
        return self.train(run)


def problem(
    *,
    main: str,
    aux: str | tuple[str, ...],
    settings: Settings | None = None,
    methods: Sequence[str] = METHODS,
    lams: LamLists | None = None,
    rhos: Sequence[float] = RHOS,
    seeds: Sequence[int] = SEEDS,
    scales: Mapping[str, Scale] | None = None,
    name: str | None = None,
    title: str | None = None,
    draw: Drawing | None = None,
    data: Callable[[Any], Sequence[str]] | None = None,
    trained_with: Sequence[str] | None = None,
    uses_rho: bool = True,
    maximise: Mapping[str, str] | None = None,
    minimise: Mapping[str, str] | None = None,
    share_process: bool = False,
) -> Callable[[TrainingFunction], Problem]:
    """Turn a training function into a problem that can be swept.

    The function is a generator. It gets a ``Run``, trains with ``run.method``, and yields rows: ``step``, and losses as
    ``main_train``, ``aux_train`` and, on held-out data, ``main_test``, ``aux_test``; any other number is recorded too.
    Files that it saves in ``run.folder`` are still there when an interrupted run starts again.

    Args:
        main: the main loss, in a few words.
        aux: the auxiliary loss, or a tuple of several, the most important first. Rows then have ``aux_train`` for the
            first, ``aux2_train`` for the second and so on, and ``run.lam`` is a tuple.
        settings: defaults by name, as a dict or as an instance of a frozen dataclass, which ``run.settings`` is then,
            too. ``--set`` and ``sweep(settings=...)`` change them, within the types of the defaults.
        methods: the methods that a sweep compares by default.
        lams: the default λ: numbers, ``gs.relative`` of numbers, or text such as ``"0,1e-3:1:7log"``. By default
            relative to main's gradient, ``"relative:0.03:3:7log"``: a range that serves most problems. For several
            auxiliary losses, one list for all of them, or a tuple with one for each.
        rhos: the default ρ, for bloop and your own methods with an average.
        seeds: the default seeds.
        scales: several sizes of the problem by name, the default first, instead of the five arguments above.
        name: the name in the store; by default the function's.
        title: one line for ``gradsurgery list``; by default the first line of the function's docstring.
        draw: ``records -> figures by file name``, for the report.
        data: ``settings -> where each dataset comes from``, for ``gradsurgery list``.
        trained_with: the only methods that the function can train with.
        uses_rho: False if the function keeps no moving average.
        maximise: metrics that recommendations judge by instead of the losses, such as ``{"main": "accuracy_test"}``:
            main's must stay within the allowance, aux's is improved. Name metrics as the rows do.
        minimise: the same for metrics of which less is better, such as ``{"aux": "perplexity_test"}``.
        share_process: True if one process may train several runs one after the other: what the function caches, such
            as compiled programs, then serves all of them. By default every run has a fresh process, so that no model,
            seed or leak of one run reaches the next.

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
    losses = (aux,) if isinstance(aux, str) else tuple(aux)
    if not (losses and all(isinstance(loss, str) for loss in losses)):
        raise TypeError(f"aux must be a string, or a tuple of strings; got {aux!r}")
    lists = parse_lam_lists((LAMS, *[LOWER_LAMS] * (len(losses) - 1)) if lams is None else lams)
    if scales is None:
        scale = Scale(
            {} if settings is None else settings,
            methods=tuple(methods),
            lams=lists if len(lists) > 1 else lists[0],
            rhos=tuple(map(float, rhos)),
            seeds=tuple(seeds),
        )
        scales = {"default": scale}
    for each in scales.values():
        kinds_of(each.settings)  # raises unless every value can be stored
    objectives = read_objectives(maximise, minimise)

    def decorate(function: TrainingFunction) -> Problem:
        if not inspect.isgeneratorfunction(function):
            raise TypeError(f"a training function must be a generator, with a yield for each row; got {function!r}")
        return Problem(
            name=name or _name_of(function),
            title=title or (inspect.getdoc(function) or f"{main} against {' and '.join(losses)}").splitlines()[0],
            main=main,
            aux=losses if len(losses) > 1 else losses[0],
            scales=scales,
            train=function,
            draw=draw,
            data=data,
            methods=None if trained_with is None else tuple(trained_with),
            uses_rho=uses_rho,
            objectives=objectives,
            share_process=share_process,
        )

    return decorate


def _name_of(function: TrainingFunction) -> str:
    if not hasattr(function, "__name__"):
        raise TypeError(f"a training function without a name must get one, name=...; got {function!r}")
    return function.__name__
