"""The methods that the common tests run: every one in ``METHODS``, with variants that follow from its fields."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import pytest

import gradsurgery as gs
from gradsurgery.method import Method


def schedule(step):
    """A weight that changes from step to step, in any library's numbers."""
    return 0.5 / (1 + 0.1 * step)


def variants(name: str) -> Iterator[tuple[str, Method, int]]:
    """Examples of the method of this name: a label, the method, and the number of auxiliary losses to give it.

    Hyperparameters other than ``lam`` and ``tau`` need a default.
    """
    constructor = gs.METHODS[name]
    has = {field.name for field in fields(constructor)}
    method = constructor(**{weight: 0.3 for weight in ("lam", "tau") if weight in has})
    yield name, method, method.aux_count or 1
    if "rho" in has and method.rho is None:
        yield f"{name} average", constructor(lam=0.7, rho=0.1), 1
    elif "rho" in has:
        yield f"{name} full batch", constructor(lam=0.3, rho=None), 1
    if method.aux_count is None:
        yield f"{name} two", method, 2


ALL: dict[str, tuple[Method, int]] = {
    **{label: (method, aux_count) for name in gs.METHODS for label, method, aux_count in variants(name)},
    "bloop large rho": (gs.bloop(lam=2.0, rho=0.5), 1),
    "bloop schedules": (gs.bloop(lam=schedule, rho=schedule), 1),
    "gradvac schedule": (gs.gradvac(beta=schedule), 1),
    "pcd schedules": (gs.pcd(tau=schedule, beta=schedule), 1),
    "barrier half": (gs.barrier(psi=lambda main, aux: 0.5 * (main @ main)), 1),
    "bloop relative": (gs.bloop(lam=gs.relative(0.3)), 1),
    "pcgrad relative average": (gs.pcgrad(lam=gs.relative(schedule), rho=0.1), 1),
    "bloop two levels": (gs.bloop(lam=(0.3, 0.2), rho=0.1), 2),
    "bloop three levels": (gs.bloop(lam=(0.3, 0.2, 0.1), rho=0.1), 3),
    "bloop two levels full batch": (gs.bloop(lam=(0.3, 0.2), rho=None), 2),
    "mixed lam for each": (gs.mixed(lam=(0.3, 0.2)), 2),
    "mixed two relative": (gs.mixed(lam=gs.relative(0.3)), 2),
    "metabalance three": (gs.metabalance(), 3),
}
"""Methods, and the number of auxiliary gradients to give them, by label."""

every_method = pytest.mark.parametrize(
    ("method", "aux_count"),
    [pytest.param(*ALL[label], id=label, marks=() if label in gs.METHODS else pytest.mark.slow) for label in ALL],
)
"""For tests that compile something for each method: ``make quick`` leaves out the variants."""


@dataclass(frozen=True)
class everything(gs.Method):
    """Uses every vector: main, aux and the averages of both."""

    rho: float = 0.3

    @property
    def averages(self):
        return 2

    def direction(self, step):
        return step.main + 0.5 * step.aux[0] + 0.2 * step.averages[0] + 0.1 * step.averages[1]
