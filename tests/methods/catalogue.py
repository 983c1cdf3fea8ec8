"""The methods that the common suite walks through: all of ``METHODS``, and the variants that they have."""

from dataclasses import dataclass, fields

import gradsurgery as gs
from gradsurgery.method import Method


def example(name: str) -> Method:
    """A method of this name, with an ordinary weight if it has one."""
    constructor = gs.METHODS[name]
    return constructor(lam=0.3) if "lam" in {field.name for field in fields(constructor)} else constructor()


def schedule(step):
    """A weight that moves from step to step, in any library's numbers."""
    return 0.5 / (1 + 0.1 * step)


TWO_LOSSES: dict[str, Method] = {
    **{name: example(name) for name in gs.METHODS},
    "bloop full batch": gs.bloop(lam=0.3, rho=None),
    "bloop quick average": gs.bloop(lam=2.0, rho=0.5),
    "bloop schedules": gs.bloop(lam=schedule, rho=schedule),
    "dynamic_barrier average": gs.dynamic_barrier(lam=2.0, rho=0.1),
    "pcgrad average": gs.pcgrad(lam=0.7, rho=0.1),
    "barrier half": gs.barrier(psi=lambda main, aux: 0.5 * (main @ main)),
}
"""Methods to give one auxiliary gradient."""

MORE_LOSSES: dict[str, tuple[Method, int]] = {
    "bloop two levels": (gs.bloop(lam=(0.3, 0.2), rho=0.1), 2),
    "bloop three levels": (gs.bloop(lam=(0.3, 0.2, 0.1), rho=0.1), 3),
    "bloop two levels full batch": (gs.bloop(lam=(0.3, 0.2), rho=None), 2),
    "mixed two": (gs.mixed(lam=0.3), 2),
    "mixed each": (gs.mixed(lam=(0.3, 0.2)), 2),
    "cosine two": (gs.cosine(), 2),
    "metabalance three": (gs.metabalance(), 3),
}
"""Methods, and how many auxiliary gradients to give them."""

ALL: dict[str, tuple[Method, int]] = {**{name: (method, 1) for name, method in TWO_LOSSES.items()}, **MORE_LOSSES}


@dataclass(frozen=True)
class everything(gs.Method):
    """Follows main, aux and the averages of both, the last gradient's too."""

    rho: float = 0.3

    @property
    def averaged(self):
        return 2

    def direction(self, step):
        return step.main + 0.5 * step.aux[0] + 0.2 * step.averages[0] + 0.1 * step.averages[1]
