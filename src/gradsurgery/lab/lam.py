"""The λ of a run: a number, ``gs.relative`` of one in units of |g_main| / |g_aux|, a tuple with one of these for each
of several auxiliary losses, or for ``gs.pcd`` the share τ.

Runs with several λ are ordered and drawn by the first; the others tell their series apart.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from gradsurgery.relative import relative


@dataclass(frozen=True)
class Tau:
    """The share τ, from 0 to 1, of a method that takes it in place of λ."""

    share: float


Weight: TypeAlias = float | relative
"""The weight of an auxiliary loss."""
Lam: TypeAlias = Weight | tuple[Weight, ...] | Tau
"""The weight of a run."""
_PREFIXES: dict[type[relative | Tau], str] = {relative: "relative:", Tau: "tau:"}


def split_lam(lam: Lam) -> tuple[Weight | Tau, ...]:
    """λ of each auxiliary loss, the most important first."""
    return lam if isinstance(lam, tuple) else (lam,)


def lam_number(lam: Lam) -> float:
    """The number in the first λ: λ itself, the ratio of a relative one, or the share τ.

    Example:
        >>> lam_number(0.3), lam_number(relative(0.3)), lam_number((0.3, 0.01)), lam_number(Tau(0.3))
        (0.3, 0.3, 0.3, 0.3)
    """
    first = split_lam(lam)[0]
    if isinstance(first, Tau):
        return first.share
    number: float = first.ratio if isinstance(first, relative) else first  # type: ignore[assignment]  # no schedule
    return number


def is_relative(lam: Lam | None) -> bool:
    """True if the first λ is relative."""
    return lam is not None and isinstance(split_lam(lam)[0], relative)


def named_numbers(lam: Lam | None) -> list[tuple[str, float]]:
    """The number in each λ, and what it is called.

    Example:
        >>> named_numbers(relative(0.3)), named_numbers((0.3, relative(0.1))), named_numbers(Tau(0.3))
        ([('relative λ', 0.3)], [('λ₁', 0.3), ('relative λ₂', 0.1)], [('τ', 0.3)])
    """
    parts = () if lam is None else split_lam(lam)
    places = [str(place).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")) for place in range(1, len(parts) + 1)]
    return [
        ({relative: "relative λ", Tau: "τ"}.get(type(part), "λ") + place * (len(parts) > 1), lam_number(part))
        for part, place in zip(parts, places, strict=True)
    ]


def lam_name(lam: Lam | None) -> str:
    """What the number in the first λ is called: ``λ``, ``relative λ`` or ``τ``; ``λ₁`` if there are several."""
    return next((name for name, _ in named_numbers(lam)), "λ")


def lam_names(lams: Iterable[Lam | None]) -> str:
    """One name for all: that of each if they agree, ``λ`` for plain and relative ones, ``λ or τ`` for both kinds.

    Example:
        >>> lam_names([relative(0.1), Tau(0.3)]), lam_names([relative(0.1), 0.1])
        ('relative λ or τ', 'λ')
    """
    names = {lam_name(lam) for lam in lams}
    return " or ".join(sorted(names - {f"relative {name}" for name in names})) or "λ"


def lam_arguments(lam: Lam | None) -> dict[str, Weight | tuple[Weight, ...]]:
    """λ as the argument of its method: ``lam`` or ``tau``; empty for a method without either.

    Example:
        >>> lam_arguments(relative(0.3)), lam_arguments(Tau(0.3))
        ({'lam': relative(0.3)}, {'tau': 0.3})
    """
    if lam is None:
        return {}
    return {"tau": lam.share} if isinstance(lam, Tau) else {"lam": lam}


def with_number(lam: Lam, number: float) -> Lam:
    """Another λ in the same unit: relative if ``lam`` is, a share if it is one. For one auxiliary loss."""
    return type(lam)(number) if isinstance(lam, relative | Tau) else number


def has_weight(lam: Lam | None) -> TypeGuard[Lam]:
    """True unless every λ is 0, which trains main alone, or None. A share τ = 0 still keeps aux from rising."""
    return isinstance(lam, Tau) or any(number != 0 for _, number in named_numbers(lam))


def lam_columns(lam: Lam | None) -> dict[str, float | bool | None]:
    """λ in a table, whose columns have one type: its number as ``lam`` or ``tau``, and whether it is ``relative``.

    Further λ are ``lam2``, ``relative2`` and so on.
    """
    first, *lower = (None,) if lam is None else split_lam(lam)
    number, is_tau = None if first is None else lam_number(first), isinstance(first, Tau)
    columns = {
        "lam": None if is_tau else number,
        "relative": isinstance(first, relative),
        "tau": number if is_tau else None,
    }
    for place, weight in enumerate(lower, 2):
        columns |= {f"lam{place}": lam_number(weight), f"relative{place}": isinstance(weight, relative)}
    return columns


def write_lam(lam: Lam | None) -> float | str | None:
    """λ in one column of a database: a number, or text such as ``relative:0.3``, ``tau:0.3`` and ``0.3,0.01``."""
    if isinstance(lam, tuple):
        return ",".join(str(write_lam(part)) for part in lam)
    if isinstance(lam, relative | Tau):
        return f"{_PREFIXES[type(lam)]}{lam_number(lam)!r}"
    return lam


def read_lam(written: object) -> object:
    """What ``write_lam`` wrote as λ; anything else as it is. Text without a number raises ``ValueError``."""
    if not isinstance(written, str):
        return written
    if "," in written:
        return tuple(map(_read_part, written.split(",")))
    return _read_part(written) if written.startswith(tuple(_PREFIXES.values())) else written


def _read_part(text: str) -> Weight | Tau:
    for unit, prefix in _PREFIXES.items():
        if text.startswith(prefix):
            return unit(float(text.removeprefix(prefix)))
    return float(text)
