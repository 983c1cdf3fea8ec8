"""Draw the pictures of the gallery in docs/recipes/index.md: ``python docs/recipes/pictures.py``.

Each is the plane of both losses, with a point for every λ that a recipe's script has trained. The scripts are run.
"""

import runpy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from gradsurgery.lab.reports.figures import paper_style
from gradsurgery.lab.reports.style import MAIN_ALONE, look

ROOT = Path(__file__).parents[2]
PICTURES = Path(__file__).parent / "pictures"


@dataclass(frozen=True)
class Axes:
    """What the axes of a picture say; main is a loss, unless more of it is better."""

    main: str
    aux: str
    main_is_loss: bool = True


RECIPES = {
    "torch/unlearning": Axes("loss on the other digits", "divergence from a guess"),
    "torch/replay": Axes("loss on the new task", "loss on the old task"),
    "torch/vae": Axes("reconstruction", "divergence from the prior"),
    "torch/mixture_of_experts": Axes("cross-entropy", "imbalance"),
    "torch/distillation": Axes("loss on the labels", "divergence from the teacher"),
    "jax/physics": Axes("loss on held-out measurements", "residual"),
    "jax/actor_critic": Axes("steps that the pole stands", "value loss", main_is_loss=False),
}

Fronts = Mapping[str, Mapping[float, Sequence[float]]]


def draw(fronts: Fronts, axes: Axes) -> Figure:
    """Main alone, and the sum and Bloop for every λ; better is lower left."""
    figure = Figure(figsize=(3.4, 2.5), layout="constrained")
    panel = figure.subplots()
    for name, method in (("sum", look("mixed")), ("Bloop", look("bloop"))):
        runs = [fronts[name][lam][:2] for lam in sorted(fronts[name])]
        panel.plot(*zip(*runs, strict=True), color=method.colour, marker=method.marker, markersize=4, label=name)
    main, aux = fronts["sum"][0.0][:2]
    panel.plot(main, aux, color="black", marker=MAIN_ALONE.marker, markersize=8, linestyle="", label=MAIN_ALONE.label)
    panel.set(xlabel=axes.main, ylabel=axes.aux)
    points = [run[:2] for name in ("sum", "Bloop") for run in fronts[name].values()]
    for side, axis, values in zip("xy", (panel.xaxis, panel.yaxis), zip(*points, strict=True), strict=True):
        if max(values) > 4 * min(values):
            panel.set(**{f"{side}scale": "log"})
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
    if not axes.main_is_loss:
        panel.invert_xaxis()
    panel.legend(frameon=False)
    return figure


def save_all() -> None:
    """Run all scripts and draw their pictures."""
    PICTURES.mkdir(exist_ok=True)
    for recipe, axes in RECIPES.items():
        fronts = runpy.run_path(str(ROOT / "examples" / f"{recipe}.py"))["fronts"]
        with paper_style(), mpl.rc_context({"svg.hashsalt": recipe}):
            path = PICTURES / f"{Path(recipe).name}.svg"
            draw(fronts, axes).savefig(path, transparent=True, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    save_all()
