"""The colour, marker and label of each method in every figure, page and table; and how numbers are written.

The colours are the Okabe-Ito palette, which colour-blind readers can tell apart, then two of Tol's, grey and brown.
Every method also has its own marker, so figures can be read in greyscale.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from gradsurgery import METHODS
from gradsurgery.lab.lam import Lam
from gradsurgery.lab.run import RunSpec
from gradsurgery.relative import relative

Variant: TypeAlias = tuple[str, float | None, bool]
"""A method, its ρ, and whether its λ is relative: one line of a figure."""


@dataclass(frozen=True)
class Look:
    """How a method is drawn."""

    label: str
    colour: str
    marker: str
    """The marker in matplotlib."""
    symbol: str
    """The same marker in plotly."""
    svg_path: str
    """The same marker as an SVG path in the square from -5 to 5, for legends in HTML."""
    hollow: bool = False
    """True for an outlined marker."""


_LOOKS = {
    look.label: look
    for look in (
        Look("bloop", "#D55E00", "o", "circle", "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0Z"),
        Look("mixed", "#0072B2", "s", "square", "M-4-4H4V4H-4Z"),
        Look("dynamic_barrier", "#CC79A7", "^", "triangle-up", "M0-4.5L5 4H-5Z"),
        Look("pcgrad", "#009E73", "D", "diamond", "M0-5L5 0L0 5L-5 0Z"),
        Look("agem", "#56B4E9", "v", "triangle-down", "M0 4.5L5-4H-5Z"),
        Look("barrier", "#AA4499", "P", "cross", "M-1.7-5H1.7V-1.7H5V1.7H1.7V5H-1.7V1.7H-5V-1.7H-1.7Z"),
        Look("mgda", "#E69F00", "*", "star", "M0-5L1.3-1.6L5-1.5L2.1.8L3.1 4.4L0 2.3L-3.1 4.4L-2.1.8L-5-1.5L-1.3-1.6Z"),
        Look("cosine", "#7F7F7F", "X", "x", "M0-2L3-5L5-3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0L-5-3L-3-5Z"),
        Look("gradvac", "#999933", "p", "pentagon", "M0-5L5-1.2L3.1 4.5H-3.1L-5-1.2Z"),
        Look("metabalance", "#A0785A", "h", "hexagon", "M0-5L4.3-2.5V2.5L0 5L-4.3 2.5V-2.5Z"),
    )
}
MAIN_ALONE = replace(_LOOKS["mgda"], label="main alone", colour="#000000")
_USER_LOOKS = (
    Look("", "#606060", "d", "diamond-tall", "M0-5L3 0L0 5L-3 0Z"),
    Look("", "#332288", "<", "triangle-left", "M-4.5 0L4-5V5Z"),
    Look("", "#117733", ">", "triangle-right", "M4.5 0L-4-5V5Z"),
    Look("", "#882255", "8", "octagon", "M-2-5H2L5-2V2L2 5H-2L-5 2V-2Z"),
)
"""For methods that are not in the paper, in alphabetical order; a fifth one looks like the first."""


def look(method: str, others: Iterable[str] = ()) -> Look:
    """The look of a method.

    Args:
        method: the name of the method.
        others: the other methods of the report, which tell a user's methods apart.

    Example:
        >>> look("bloop").colour
        '#D55E00'
    """
    if method in _LOOKS:
        return _LOOKS[method]
    user_methods = sorted({method, *others} - _LOOKS.keys())
    return replace(_USER_LOOKS[user_methods.index(method) % len(_USER_LOOKS)], label=method)


def assign_looks(specs: Iterable[RunSpec]) -> dict[Variant, Look]:
    """The look of each method and ρ among the runs, in the order of the paper's Table 1.

    A method that ran with several ρ, or with absolute and relative λ, keeps its colour, in shades from light to dark.
    Its labels show what differs, and every second marker is hollow.

    Example:
        >>> runs = [RunSpec("lipschitz", "demo", "bloop", lam=0.1, rho=rho, seed=0) for rho in (0.01, 0.1)]
        >>> [look.label for look in assign_looks(runs).values()]
        ['bloop, ρ = 0.01', 'bloop, ρ = 0.1']
    """
    order = {name: index for index, name in enumerate(METHODS)}
    variants = sorted(
        {variant_of(spec) for spec in specs},
        key=lambda variant: (order.get(variant[0], len(order)), variant[0], variant[1] or 0.0, variant[2]),
    )
    return {variant: _variant_look(variant, variants) for variant in variants}


def variant_of(spec: RunSpec) -> Variant:
    """The line of a figure that a run belongs to."""
    return variant(spec.method, spec.rho, spec.lam)


def variant(method: str, rho: float | None, lam: Lam | None) -> Variant:
    """The line of a figure that a method with this ρ and λ belongs to."""
    return method, rho, isinstance(lam, relative)


def _variant_look(variant: Variant, all_variants: list[Variant]) -> Look:
    method, rho, is_relative = variant
    plain = look(method, [name for name, _, _ in all_variants])
    variants = [other for other in all_variants if other[0] == method]
    if len(variants) == 1:
        return plain
    parts = [method]
    if len({rho for _, rho, _ in variants}) > 1:
        parts.append("no average" if rho is None else f"ρ = {number(rho)}")
    if is_relative:
        parts.append("relative λ")
    position = variants.index(variant)
    hollow = position % 2 == 1
    return replace(
        plain,
        label=", ".join(parts),
        colour=_shade(plain.colour, position / (len(variants) - 1)),
        symbol=plain.symbol + "-open" * hollow,
        hollow=hollow,
    )


def _shade(colour: str, darkness: float) -> str:
    """Mix the colour with white (darkness 0: half) or black (darkness 1: a third)."""
    target, amount = (255, 0.5 - darkness) if darkness < 0.5 else (0, 0.66 * (darkness - 0.5))
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(channel + amount * (target - channel)):02X}" for channel in channels)


def number(value: float, digits: int = 3) -> str:
    """A number for people: three significant digits, no trailing zeros, a power of ten where it is far from 1.

    Example:
        >>> [number(value) for value in (0.1, 1234.5, -0.00031623, 1e-4, float("nan"))]
        ['0.1', '1,234', '−3.16×10⁻⁴', '10⁻⁴', '–']
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    mantissa, exponent = f"{abs(value):.{digits - 1}e}".split("e")
    power = int(exponent)
    near = -3 <= power <= 4
    text = f"{abs(value):,.{max(digits - 1 - power, 0)}f}" if near else mantissa
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    if not near:
        text = power_of_ten(power) if text == "1" else f"{text}×{power_of_ten(power)}"
    return text if value > 0 else f"−{text}"


def power_of_ten(power: int) -> str:
    """An integer power of ten, written with superscript characters.

    Example:
        >>> [power_of_ten(power) for power in (-4, 0, 1)]
        ['10⁻⁴', '1', '10']
    """
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return {0: "1", 1: "10"}.get(power, "10" + raised)


def lam_ticks(lams: Iterable[float | None], room: int = 4) -> dict[float, str]:
    """The tick label of each λ in a figure, in increasing order of λ.

    With more than five λ only 0 and powers of ten get a label, and only every second power if there are more than
    ``room``; the others get an empty one.

    Example:
        >>> lam_ticks([1e-4, 0.000316, 0.001, 0.00316, 0.01, 0.0, None])
        {0.0: '0', 0.0001: '10⁻⁴', 0.000316: '', 0.001: '10⁻³', 0.00316: '', 0.01: '10⁻²'}
    """
    shown = sorted({lam for lam in lams if lam is not None})
    powers = {lam: round(math.log10(lam)) for lam in shown if 0 < lam < math.inf and _is_power_of_ten(lam)}
    if len(shown) <= 5 or len(powers) < 2:
        return {lam: number(lam) for lam in shown}
    step = 1 if len(powers) <= room else 2
    text = power_of_ten if min(powers) < 1e-3 else lambda power: number(10.0**power)
    last = max(powers.values())
    texts = {lam: text(power) for lam, power in powers.items() if (last - power) % step == 0}
    return {lam: texts.get(lam, "" if lam else "0") for lam in shown}


def _is_power_of_ten(value: float) -> bool:
    return math.isclose(value, 10.0 ** round(math.log10(value)), rel_tol=1e-6)


def lam_positions(lams: Iterable[float]) -> dict[float, float]:
    """The position of each λ on a logarithmic axis, with 0 and ∞ one decade beyond the other λ.

    Example:
        >>> lam_positions([0.0, 0.1, 1.0])
        {0.0: 0.01, 0.1: 0.1, 1.0: 1.0}
    """
    shown = sorted(set(lams))
    proper = [lam for lam in shown if 0 < lam < math.inf] or [1.0]
    beyond = {0.0: min(proper) / 10, math.inf: max(proper) * 10}
    return {lam: beyond.get(lam, lam) for lam in shown}
