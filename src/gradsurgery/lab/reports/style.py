"""The colour, marker and label of each method in every figure, page and table.

The colours are the Okabe-Ito palette, which colour-blind readers can tell apart, then two of Tol's, grey and brown.
Every method also has its own marker, so figures can be read in greyscale.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gradsurgery.lab.analysis.series import Series


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
        Look("pcd", "#44AA99", "H", "hexagon2", "M5 0L2.5 4.3H-2.5L-5 0L-2.5-4.3H2.5Z"),
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
    """The look of a method. The other methods of the report tell a user's methods apart.

    Example:
        >>> look("bloop").colour
        '#D55E00'
    """
    if method in _LOOKS:
        return _LOOKS[method]
    user_methods = sorted({method, *others} - _LOOKS.keys())
    return replace(_USER_LOOKS[user_methods.index(method) % len(_USER_LOOKS)], label=method)


def assign_looks(groups: Sequence[Series]) -> dict[str, Look]:
    """The look of each series, by its label.

    Variants of one method keep its colour, in shades from light to dark, and every second marker is hollow.
    """
    methods = [group.variant.method for group in groups]
    looks = {}
    for group in groups:
        plain = look(group.variant.method, methods)
        of_method = [other for other in groups if other.variant.method == group.variant.method]
        looks[group.label] = _variant_look(plain, group.label, of_method.index(group), len(of_method))
    return looks


def _variant_look(plain: Look, label: str, position: int, count: int) -> Look:
    if count == 1:
        return replace(plain, label=label)
    hollow = position % 2 == 1
    colour, symbol = _shade(plain.colour, position / (count - 1)), plain.symbol + "-open" * hollow
    return replace(plain, label=label, colour=colour, symbol=symbol, hollow=hollow)


def _shade(colour: str, darkness: float) -> str:
    """Mix the colour with white (darkness 0: half) or black (darkness 1: a third)."""
    target, amount = (255, 0.5 - darkness) if darkness < 0.5 else (0, 0.66 * (darkness - 0.5))
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(channel + amount * (target - channel)):02X}" for channel in channels)
