"""λ as a run has it: a number, ``gs.relative`` of one in units of |g_main| / |g_aux|, or for ``gs.pcd`` the share τ."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from gradsurgery.relative import relative


@dataclass(frozen=True)
class Tau:
    """The share τ, from 0 to 1, of a method that takes it in place of λ."""

    share: float


Weight: TypeAlias = float | relative
"""The weight of an auxiliary loss."""
Lam: TypeAlias = Weight | Tau
"""The weight of a run."""
_PREFIXES = {relative: "relative:", Tau: "tau:"}


def lam_number(lam: Lam) -> float:
    """The number in λ: λ itself, the ratio of a relative one, or the share τ.

    Example:
        >>> lam_number(0.3), lam_number(relative(0.3)), lam_number(Tau(0.3))
        (0.3, 0.3, 0.3)
    """
    if isinstance(lam, Tau):
        return lam.share
    number: float = lam.ratio if isinstance(lam, relative) else lam  # type: ignore[assignment]  # no schedule here
    return number


def lam_name(lam: Lam | None) -> str:
    """What the number in λ is called: ``λ``, ``relative λ`` or ``τ``."""
    return {relative: "relative λ", Tau: "τ"}.get(type(lam), "λ")


def lam_names(lams: Iterable[Lam | None]) -> str:
    """One name for all: that of each if they agree, ``λ`` for plain and relative ones, ``λ or τ`` for both kinds.

    Example:
        >>> lam_names([relative(0.1), Tau(0.3)]), lam_names([relative(0.1), 0.1])
        ('relative λ or τ', 'λ')
    """
    names = sorted({lam_name(lam) for lam in lams})
    if {"relative λ", "λ"} <= set(names):
        names.remove("relative λ")
    return " or ".join(names) or "λ"


def lam_arguments(lam: Lam | None) -> dict[str, Weight]:
    """λ as the argument of its method: ``lam`` or ``tau``; empty for a method without either.

    Example:
        >>> lam_arguments(relative(0.3)), lam_arguments(Tau(0.3))
        ({'lam': relative(0.3)}, {'tau': 0.3})
    """
    if lam is None:
        return {}
    return {"tau": lam.share} if isinstance(lam, Tau) else {"lam": lam}


def with_number(lam: Lam, number: float) -> Lam:
    """Another λ in the same unit: relative if ``lam`` is, a share if it is one."""
    return type(lam)(number) if isinstance(lam, relative | Tau) else number


def has_weight(lam: Lam | None) -> bool:
    """True unless λ is 0, which trains main alone, or None. A share τ = 0 still keeps aux from rising."""
    return isinstance(lam, Tau) or (lam is not None and lam_number(lam) != 0)


def lam_columns(lam: Lam | None) -> dict[str, float | bool | None]:
    """λ in a table, whose columns have one type: its number as ``lam`` or ``tau``, and whether it is ``relative``."""
    number, is_tau = None if lam is None else lam_number(lam), isinstance(lam, Tau)
    return {
        "lam": None if is_tau else number,
        "relative": isinstance(lam, relative),
        "tau": number if is_tau else None,
    }


def write_lam(lam: Lam | None) -> float | str | None:
    """λ in one column of a database: a number, or text such as ``relative:0.3`` and ``tau:0.3``."""
    if isinstance(lam, relative | Tau):
        return f"{_PREFIXES[type(lam)]}{lam_number(lam)!r}"
    return lam


def read_lam(written: object) -> object:
    """What ``write_lam`` wrote as λ; anything else as it is. Text without a number raises ``ValueError``."""
    for unit, prefix in _PREFIXES.items():
        if isinstance(written, str) and written.startswith(prefix):
            return unit(float(written.removeprefix(prefix)))
    return written
