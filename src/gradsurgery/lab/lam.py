"""λ as a run has it: a number, or ``gs.relative`` of one, which is in units of |g_main| / |g_aux|."""

from typing import TypeAlias

from gradsurgery.relative import relative

Lam: TypeAlias = float | relative


def lam_number(lam: Lam) -> float:
    """The number in λ: λ itself, or the ratio of a relative one.

    Example:
        >>> lam_number(0.3), lam_number(relative(0.3))
        (0.3, 0.3)
    """
    number: float = lam.ratio if isinstance(lam, relative) else lam  # type: ignore[assignment]  # no schedule here
    return number


def lam_name(lam: Lam | None) -> str:
    """What the number in λ is called: ``λ`` or ``relative λ``."""
    return "relative λ" if isinstance(lam, relative) else "λ"


def with_number(lam: Lam, number: float) -> Lam:
    """Another λ in the same unit: relative if ``lam`` is."""
    return relative(number) if isinstance(lam, relative) else number


def has_weight(lam: Lam | None) -> bool:
    """True if λ is above 0; False for 0, and for a method without λ."""
    return lam is not None and lam_number(lam) != 0


def lam_columns(lam: Lam | None) -> dict[str, float | bool | None]:
    """λ in a table, whose columns have one type: its number as ``lam``, and whether it is ``relative``."""
    return {"lam": None if lam is None else lam_number(lam), "relative": isinstance(lam, relative)}
