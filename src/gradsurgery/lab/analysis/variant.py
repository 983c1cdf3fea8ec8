"""Variants: a method at one ρ, with plain or with relative λ, and with one value for each setting.

Of several λ, a variant has one value for each but the first. It is one line in every figure and one row in every table.
"""

from collections.abc import Iterable
from typing import NamedTuple

from gradsurgery import METHODS
from gradsurgery.lab.lam import Lam, Weight, is_relative, lam_number, named_numbers
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.text import number, write_setting


class Variant(NamedTuple):
    """What the runs of one line have in common."""

    method: str
    rho: float | None
    relative: bool
    """True if λ is in units of |g_main| / |g_aux|."""
    settings: tuple[tuple[str, str], ...] = ()
    """All settings, by name."""
    lower: tuple[Weight, ...] = ()
    """λ of the auxiliary losses below the first."""


def variant_of(spec: RunSpec) -> Variant:
    """The variant that a run belongs to."""
    settings = tuple(sorted((name, write_setting(value)) for name, value in spec.settings.items()))
    lower = spec.lam[1:] if isinstance(spec.lam, tuple) else ()
    return Variant(spec.method, spec.rho, is_relative(spec.lam), settings, lower)


def option_of(spec: RunSpec) -> tuple[Variant, Lam | None]:
    """What runs that differ in nothing but the seed have in common."""
    return variant_of(spec), spec.lam


def label_variants(variants: Iterable[Variant]) -> dict[Variant, str]:
    """A name for each variant, in the order of the paper's Table 1.

    It is the name of the method, and what differs if there are several variants of it.

    Example:
        >>> list(label_variants([Variant("bloop", 0.1, False), Variant("bloop", 0.01, False)]).values())
        ['bloop, ρ = 0.01', 'bloop, ρ = 0.1']
    """
    order = {name: index for index, name in enumerate(METHODS)}

    def place(variant: Variant) -> tuple[object, ...]:
        method, rho, is_relative, settings, lower = variant
        return order.get(method, len(order)), method, rho or 0.0, is_relative, settings, tuple(map(lam_number, lower))

    ordered = sorted(set(variants), key=place)
    shared = set.intersection(*(set(each.settings) for each in ordered)) if ordered else set()
    return {each: _label(each, [other for other in ordered if other.method == each.method], shared) for each in ordered}


def _label(variant: Variant, of_method: list[Variant], shared: set[tuple[str, str]]) -> str:
    parts = [variant.method]
    if len({other.rho for other in of_method}) > 1:
        parts.append("no average" if variant.rho is None else f"ρ = {number(variant.rho)}")
    if len({other.relative for other in of_method}) > 1 and variant.relative:
        parts.append("relative λ")
    if len({other.lower for other in of_method}) > 1:
        parts += [f"{name} = {number(value)}" for name, value in named_numbers((0.0, *variant.lower))[1:]]
    parts += [f"{name} = {value}" for name, value in variant.settings if (name, value) not in shared]
    return ", ".join(parts)
