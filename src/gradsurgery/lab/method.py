"""Methods by name, with the hyperparameters that a grid varies."""

from typing import Any

import gradsurgery as gs


def has_hyperparameter(method: str, hyperparameter: str) -> bool:
    """True if the method of this name has ``lam`` or ``rho``."""
    return hyperparameter in gs.METHODS[method].__dataclass_fields__


def make_method(name: str, lam: Any, rho: Any) -> gs.Method:
    """Construct the method of this name; a hyperparameter that it does not have is ignored.

    Example:
        >>> make_method("mixed", lam=0.1, rho=None)
        mixed(lam=0.1)
    """
    given = {"lam": lam, "rho": rho}
    return gs.METHODS[name](**{key: value for key, value in given.items() if has_hyperparameter(name, key)})
