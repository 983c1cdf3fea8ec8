"""What a step was like, told from the inner products that it has asked for already.

- ``weight_main``, ``weight_aux``, ``weight_average``, ...: the direction, over the gradients and averages;
- ``cos_main_aux``, ``cos_main_average``, ...: the cosine of the angle between two of them;
- ``conflict``, ``conflict2``, ...: whether an auxiliary gradient points against what it is projected on, the average of
  main, or main itself if the method keeps no average;
- ``removed``: how far the direction is from that of mixed training, main + lam aux, in lengths of lam aux; for Bloop,
  the share of the auxiliary gradient that was projected away (0 none of it, 1 all).

What needs an inner product that was not asked for is left out.
"""

from collections.abc import Mapping
from contextlib import suppress
from itertools import combinations

from gradsurgery.geometry import cos
from gradsurgery.hyperparameter import broadcast
from gradsurgery.method import Method
from gradsurgery.scalar import Scalar, ratio, root
from gradsurgery.vector import Gram, Pair, Vector


class _NotAskedError(Exception):
    pass


def _not_asked(a: str, b: str) -> Scalar:
    raise _NotAskedError


def diagnosis(
    method: Method, names: tuple[str, ...], weights: Mapping[str, Scalar], products: Mapping[Pair, Scalar]
) -> dict[str, Scalar]:
    """The diagnostics of one step, by name.

    Args:
        method: the method, with values in place of schedules.
        names: the step's basis: main, then the auxiliary gradients, then the averages.
        weights: the direction, over the basis.
        products: the inner products that are known.
    """
    gram = Gram(names, dot=_not_asked)
    gram.products.update(products)
    vector = {name: gram.vector(name) for name in names}
    auxiliary = [name for name in names if name.startswith("aux")]

    answers = {f"weight_{name}": weight for name, weight in weights.items()}
    for u, v in combinations(names, 2):
        with suppress(_NotAskedError):
            answers[f"cos_{u}_{v}"] = cos(vector[u], vector[v])
    against = vector["average" if method.averages else "main"]
    for name in auxiliary:
        with suppress(_NotAskedError):
            answers["conflict" + name.removeprefix("aux")] = vector[name] @ against < 0
    with suppress(_NotAskedError):
        lams = broadcast(getattr(method, "lam", 1), len(auxiliary))
        extra = Vector(dict(zip(auxiliary, lams, strict=True)), gram)
        gap = Vector(weights, gram) - (vector["main"] + extra)
        answers["removed"] = ratio(root(gap @ gap), root(extra @ extra))
    return answers
