"""Variants: a method at one ρ, with plain or with relative λ.

Each is one line in every figure and one row in every table.
"""

from collections.abc import Iterable
from typing import NamedTuple

from gradsurgery import METHODS
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.text import number
from gradsurgery.relative import relative


class Variant(NamedTuple):
    """What the runs of one line have in common."""

    method: str
    rho: float | None
    relative: bool
    """True if λ is in units of |g_main| / |g_aux|."""


def variant_of(spec: RunSpec) -> Variant:
    """The variant that a run belongs to."""
    return Variant(spec.method, spec.rho, isinstance(spec.lam, relative))


def label_variants(variants: Iterable[Variant]) -> dict[Variant, str]:
    """A name for each variant, in the order of the paper's Table 1.

    It is the name of the method, and what differs if there are several variants of it.

    Example:
        >>> list(label_variants([Variant("bloop", 0.1, False), Variant("bloop", 0.01, False)]).values())
        ['bloop, ρ = 0.01', 'bloop, ρ = 0.1']
    """
    order = {name: index for index, name in enumerate(METHODS)}

    def place(variant: Variant) -> tuple[int, str, float, bool]:
        method, rho, is_relative = variant
        return order.get(method, len(order)), method, rho or 0.0, is_relative

    ordered = sorted(set(variants), key=place)
    return {each: _label(each, [other for other in ordered if other.method == each.method]) for each in ordered}


def _label(variant: Variant, of_method: list[Variant]) -> str:
    parts = [variant.method]
    if len({other.rho for other in of_method}) > 1:
        parts.append("no average" if variant.rho is None else f"ρ = {number(variant.rho)}")
    if variant.relative and len(of_method) > 1:
        parts.append("relative λ")
    return ", ".join(parts)
