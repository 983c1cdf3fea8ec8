"""The problems of the paper, one declaration per file. Add a new one to ``PROBLEMS``; light to import (no jax)."""

from gradsurgery.lab.errors import unknown
from gradsurgery.lab.problem import Problem
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
    """Return the problem of this name."""
    if name not in PROBLEMS:
        raise unknown("problem", name, PROBLEMS)
    return PROBLEMS[name]
