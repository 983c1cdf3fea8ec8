"""The problems of the paper, one declaration per file. Add a new one to ``PROBLEMS``; light to import (no jax)."""

from importlib.metadata import entry_points

from gradsurgery.lab.declaration import Problem
from gradsurgery.lab.errors import unknown
from gradsurgery.lab.problems import (
    cifar10mnist,
    conditioning,
    ema,
    imagenet_cifar10,
    language,
    lipschitz,
    noise,
    translation,
    weights,
)
from gradsurgery.lab.references import is_reference, load

__all__ = ["PROBLEMS", "problem"]

PROBLEMS: dict[str, Problem] = {
    module.problem.name: module.problem
    for module in (
        noise,
        conditioning,
        lipschitz,
        weights,
        cifar10mnist,
        language,
        ema,
        translation,
        imagenet_cifar10,
    )
}
"""Name -> problem, in the order of the paper."""


def problem(name: str) -> Problem:
    """Return a problem by its name, or by ``file.py:name`` or ``package.module:name``.

    Names are those in ``PROBLEMS``, then those of installed packages: entry points in the group
    ``gradsurgery.problems``.
    """
    if name in PROBLEMS:
        return PROBLEMS[name]
    if is_reference(name):
        return load(name, Problem, "a problem")
    installed = {point.name: point for point in entry_points(group="gradsurgery.problems")}
    if name in installed:
        return load(installed[name].value, Problem, "a problem")
    raise unknown("problem", name, [*PROBLEMS, *installed])
