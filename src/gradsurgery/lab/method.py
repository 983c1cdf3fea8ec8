"""Methods by name, with the hyperparameters that a grid varies: those of ``gradsurgery.METHODS``, and your own."""

from collections.abc import Mapping
from typing import Any

import gradsurgery as gs
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.lam import lam_arguments

_registered: dict[str, type[gs.Method]] = {}


def register_method(method: type[gs.Method]) -> str:
    """Make your method known to sweeps in this process, and return its name."""
    if not (isinstance(method, type) and issubclass(method, gs.Method)):
        raise UserError(f"a method must be a class that derives from gradsurgery.Method; got {method!r}")
    name = method.__name__
    if name in gs.METHODS and gs.METHODS[name] is not method:
        raise UserError(f"{name} is one of gradsurgery's methods: give yours another name")
    if name not in gs.METHODS:
        _registered[name] = method
    return name


def registered_methods() -> Mapping[str, type[gs.Method]]:
    """The registered methods, by name."""
    return dict(_registered)


def known_methods() -> dict[str, type[gs.Method]]:
    """All methods by name: those of ``gradsurgery.METHODS``, then the registered ones."""
    return {**gs.METHODS, **_registered}


def has_hyperparameter(method: str, hyperparameter: str) -> bool:
    """True if the method of this name has ``lam``, ``tau`` or ``rho``."""
    return hyperparameter in known_methods()[method].__dataclass_fields__


def takes_tau(method: str) -> bool:
    """True if the method of this name has the share ``tau`` in place of ``lam``."""
    return has_hyperparameter(method, "tau") and not has_hyperparameter(method, "lam")


def takes_several(method: str) -> bool:
    """True if the method of this name takes several auxiliary losses."""
    return known_methods()[method].aux_count is not gs.Method.aux_count


def has_average(method: str) -> bool:
    """True if the method of this name has a ``rho`` that is not None by default."""
    rho = known_methods()[method].__dataclass_fields__.get("rho")
    return rho is not None and rho.default is not None


def make_method(name: str, lam: Any, rho: Any) -> gs.Method:
    """Construct the method of this name; a hyperparameter that it does not have is ignored.

    Example:
        >>> make_method("mixed", lam=0.1, rho=None)
        mixed(lam=0.1)
        >>> make_method("bloop", lam=gs.relative(0.3), rho=0.01)
        bloop(lam=relative(0.3), rho=0.01)
        >>> from gradsurgery.lab.lam import Tau
        >>> make_method("pcd", lam=Tau(0.3), rho=None)
        pcd(tau=0.3, beta=0.001)
    """
    hyperparameters = {**lam_arguments(lam), "rho": rho}
    return known_methods()[name](
        **{key: value for key, value in hyperparameters.items() if has_hyperparameter(name, key)}
    )
