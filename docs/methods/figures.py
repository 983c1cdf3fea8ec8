"""Draw the pictures of the method pages, each method in conflict and in agreement, and that of the landing page.

    python docs/methods/figures.py

Directions are computed by ``gradsurgery.Reference``. The colours are readable on light and on dark pages.
"""

from collections.abc import Iterator
from math import atan2, cos, hypot, pi, sin
from pathlib import Path
from typing import NamedTuple

import gradsurgery as gs

MAIN, AUX, DIRECTION, AVERAGE, TEXT, BOTH = "#3b82f6", "#e8870e", "#0fa968", "#a36be8", "#7c8594", "#0fa968"
UNIT, WIDTH, HEIGHT, ORIGIN = 85.0, 352.0, 262.0, (140.0, 178.0)

Point = tuple[float, float]


class Scene(NamedTuple):
    """Gradients of one step, and the average of main before it."""

    title: str
    main: Point
    aux: Point
    average: Point


SCENES = [
    Scene("conflict", main=(1.1, 0.0), aux=(-1.3, 1.3), average=(1.1, 0.2)),
    Scene("agreement", main=(1.1, 0.0), aux=(1.3, 0.8), average=(1.1, 0.2)),
]

EXAMPLES: dict[str, gs.Method] = {
    "bloop": gs.bloop(lam=1.0, rho=0.01),
    "mixed": gs.mixed(lam=1.0),
    "agem": gs.agem(),
    "dynamic_barrier": gs.dynamic_barrier(lam=1.0),
    "barrier": gs.barrier(),
    "mgda": gs.mgda(),
    "cosine": gs.cosine(),
    "gradvac": gs.gradvac(beta=1.0),
    "pcgrad": gs.pcgrad(lam=1.0),
    "metabalance": gs.metabalance(),
    "pcd": gs.pcd(tau=0.3),
}
"""What is drawn. One step with ``scene.average`` as main comes first: it sets the average, or gradvac's cosine."""


def direction(method: gs.Method, scene: Scene) -> Point:
    """The direction of a method in the step after the average was set."""
    step = gs.Reference(method)
    step(scene.average, (0.0, 1.0))
    x, y = step(scene.main, scene.aux)
    return float(x), float(y)


def draw(*panels: tuple[gs.Method, Scene], width: float = WIDTH) -> str:
    """A picture as SVG: the direction of a method in each panel, side by side."""
    drawn = [line for index, (method, scene) in enumerate(panels) for line in _panel(method, scene, index * width)]
    heads = [_arrow_head(color) for color in (MAIN, AUX, DIRECTION, AVERAGE)]
    x, y = f"{width * len(panels):.0f}", f"{HEIGHT:.0f}"
    style = "font-family: system-ui, sans-serif; font-size: 15px"
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="{x}" height="{y}" viewBox="0 0 {x} {y}" style="{style}">'
    return "\n".join([svg, *heads, *drawn, "</svg>\n"])


def _panel(method: gs.Method, scene: Scene, left: float) -> Iterator[str]:
    result = direction(method, scene)
    yield f'<g transform="translate({left:.0f} 0)">'
    yield _text((12, 24), scene.title, TEXT, weight=600)
    yield _cone(scene.main, scene.aux)
    arrows = [(scene.main, MAIN, "g_main", False), (scene.aux, AUX, "g_aux", False), (result, DIRECTION, "d", False)]
    if method.averages:
        arrows.insert(0, (scene.average, AVERAGE, "m", True))
    for tip, color, label, dashed in arrows:
        yield from _arrow(tip, color, label, dashed=dashed)
    changes = [-(result[0] * g[0] + result[1] * g[1]) for g in (scene.main, scene.aux)]
    yield _text((12, HEIGHT - 30), f"main {_signed(changes[0])}", MAIN)
    yield _text((12, HEIGHT - 10), f"aux {_signed(changes[1])}", AUX)
    yield "</g>"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−") if abs(value) >= 0.005 else "0"


def _at(point: Point) -> Point:
    return ORIGIN[0] + UNIT * point[0], ORIGIN[1] - UNIT * point[1]


def _arrow(tip: Point, color: str, label: str, *, dashed: bool) -> Iterator[str]:
    (x, y), length = _at(tip), hypot(*tip)
    dashes = ' stroke-dasharray="6 5"' if dashed else ""
    width = 4 if label == "d" else 2.5
    yield (
        f'<line x1="{ORIGIN[0]}" y1="{ORIGIN[1]}" x2="{x:.1f}" y2="{y:.1f}" stroke="{color}" '
        f'stroke-width="{width}"{dashes} marker-end="url(#{color[1:]})"/>'
    )
    if label == "d":  # beside the arrow, as its tip may be that of a gradient
        x, y = (x + ORIGIN[0]) / 2 - 14 * sin(atan2(tip[1], tip[0])), (y + ORIGIN[1]) / 2 - 8 * tip[0] / length
        yield _text((x, y), label, color, weight=600)
    else:
        yield _text((x - 20, y + 22) if tip[1] == 0 else (x + 8, y - 4), label, color)


def _cone(main: Point, aux: Point) -> str:
    """Where both losses decrease: directions within 90 degrees of both gradients."""
    angles = sorted((atan2(main[1], main[0]), atan2(aux[1], aux[0])))
    first, last = angles[1] - pi / 2, angles[0] + pi / 2
    (x1, y1), (x2, y2) = (_at((cos(angle), sin(angle))) for angle in (first, last))
    return (
        f'<path d="M{ORIGIN[0]} {ORIGIN[1]} L{x1:.1f} {y1:.1f} A{UNIT} {UNIT} 0 0 0 {x2:.1f} {y2:.1f} Z" '
        f'fill="{BOTH}" fill-opacity="0.13"/>'
    )


def _arrow_head(color: str) -> str:
    return (
        f'<marker id="{color[1:]}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="14" markerHeight="14" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L10 5L0 10z" fill="{color}"/></marker>'
    )


def _text(at: Point, words: str, color: str, weight: int = 400) -> str:
    return f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" fill="{color}" font-weight="{weight}">{words}</text>'


def pictures() -> dict[Path, str]:
    """Every picture, by its file."""
    folder, conflict = Path(__file__).parent, SCENES[0]
    landing = [
        (EXAMPLES["mixed"], conflict._replace(title="sum of the losses")),
        (gs.bloop(lam=1.0, rho=None), conflict._replace(title="Bloop")),
    ]
    drawn = {
        folder / f"figures/{name}-{scene.title}.svg": draw((method, scene))
        for name, method in EXAMPLES.items()
        for scene in SCENES
    }
    return {folder.parent / "start/landing.svg": draw(*landing, width=280.0), **drawn}


if __name__ == "__main__":
    for path, picture in pictures().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(picture)
