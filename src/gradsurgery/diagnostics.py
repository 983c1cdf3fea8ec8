"""Diagnostics of a step, from the inner products that it has computed anyway.

- ``weight_main``, ``weight_aux``, ``weight_average``, ...: the weights of the direction;
- ``cos_main_aux``, ``cos_main_average``, ...: the cosine of the angle between two vectors;
- ``conflict``, ``conflict2``, ...: whether an auxiliary gradient points against the average of main, or against main
  itself if the method keeps no average;
- ``removed``: the distance of the direction from that of mixed training, main + lam aux, relative to the length of
  lam aux. For Bloop, the share of the auxiliary gradient that is projected away: 0 none of it, 1 all.

A value is left out if it needs an inner product that was not computed.
"""

from collections.abc import Mapping
from contextlib import suppress
from itertools import combinations

from gradsurgery.geometry import cos
from gradsurgery.hyperparameter import broadcast
from gradsurgery.method import Method
from gradsurgery.scalar import Scalar, ratio, root
from gradsurgery.vector import Gram, Pair, Vector


class _MissingProductError(Exception):
    pass


def _raise_missing(a: str, b: str) -> Scalar:
    raise _MissingProductError


def compute_diagnostics(
    method: Method, names: tuple[str, ...], weights: Mapping[str, Scalar], products: Mapping[Pair, Scalar]
) -> dict[str, Scalar]:
    """The diagnostics of one step, by name.

    Args:
        method: the method, with numbers in place of schedules and relative weights.
        names: the step's basis: main, then the auxiliary gradients, then the averages.
        weights: the direction, over the basis.
        products: the inner products that are known.
    """
    gram = Gram(names, dot=_raise_missing)
    gram.products.update(products)
    vector = {name: gram.vector(name) for name in names}
    auxiliary = [name for name in names if name.startswith("aux")]

    values = {f"weight_{name}": weight for name, weight in weights.items()}
    for u, v in combinations(names, 2):
        with suppress(_MissingProductError):
            values[f"cos_{u}_{v}"] = cos(vector[u], vector[v])
    against = vector["average" if method.averages else "main"]
    for name in auxiliary:
        with suppress(_MissingProductError):
            values["conflict" + name.removeprefix("aux")] = vector[name] @ against < 0
    with suppress(_MissingProductError):
        lams = broadcast(getattr(method, "lam", 1), len(auxiliary))
        extra = Vector(dict(zip(auxiliary, lams, strict=True)), gram)
        gap = Vector(weights, gram) - (vector["main"] + extra)
        values["removed"] = ratio(root(gap @ gap), root(extra @ extra))
    return values
