"""The problems of the paper, one declaration per file, and those of installed packages.

Add a new declaration to ``PROBLEMS``. Declarations are light: none of them imports jax.
"""

from importlib.metadata import EntryPoint, entry_points

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

__all__ = ["PROBLEMS", "installed_problems", "problem"]

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

    Names are those in ``PROBLEMS``, then those of ``installed_problems()``.
    """
    if name in PROBLEMS:
        return PROBLEMS[name]
    if is_reference(name):
        return load(name, Problem, "a problem")
    installed = installed_problems()
    if name in installed:
        return load(installed[name].value, Problem, "a problem")
    raise unknown("problem", name, [*PROBLEMS, *installed])


def installed_problems() -> dict[str, EntryPoint]:
    """The problems that installed packages offer by entry points in the group ``gradsurgery.problems``, by name."""
    return {point.name: point for point in entry_points(group="gradsurgery.problems") if point.name not in PROBLEMS}
