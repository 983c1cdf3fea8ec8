"""Train on a loss that matters most (main) and others that matter too (aux).

Every method is a formula over the gradients of the losses. This package holds the formulas and ``Reference``, which
runs them on numpy arrays. ``gradsurgery.jax`` and ``gradsurgery.torch`` run the same methods on pytrees and on
parameters.

    >>> import gradsurgery as gs
    >>> method = gs.bloop(lam=0.1, rho=0.01)    # main + 0.1 * the part of aux orthogonal to an average of main
    >>> step = gs.Reference(method)
    >>> step([1.0, 0.0], [-5.0, 2.0])           # no average yet: nothing is projected away
    array([0.5, 0.2])
    >>> step([1.0, 0.0], [-5.0, 2.0])           # now aux cannot push main uphill
    array([1. , 0.2])
"""

from gradsurgery.geometry import cos, reject
from gradsurgery.method import Method, Step
from gradsurgery.methods import (
    METHODS,
    agem,
    barrier,
    bloop,
    cosine,
    dynamic_barrier,
    gradvac,
    metabalance,
    mgda,
    mixed,
    pcd,
    pcgrad,
)
from gradsurgery.reference import Reference
from gradsurgery.relative import relative

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Method",
    "Reference",
    "Step",
    "agem",
    "barrier",
    "bloop",
    "cos",
    "cosine",
    "dynamic_barrier",
    "gradvac",
    "metabalance",
    "mgda",
    "mixed",
    "pcd",
    "pcgrad",
    "reject",
    "relative",
]
