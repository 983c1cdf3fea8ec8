"""The chart of the mixed loss (1 - t) main + t aux over λ: one frame for each position of the slider for t."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from gradsurgery.lab.analysis.series import SeedGroup, Series, lam_axis
from gradsurgery.lab.reports.axes import axis_limits, range_of
from gradsurgery.lab.reports.style import Look
from gradsurgery.lab.text import hyperparameters, number

MIXTURES = tuple(round(0.05 * k, 2) for k in range(21))
"""The positions of the slider."""
FIRST = 0.1
"""The position that the page opens with."""


def mixture_chart(
    groups: Sequence[Series],
    looks: Mapping[str, Look],
    splits: Sequence[str],
    ticks: Mapping[float, str],
    positions: Mapping[float, float],
) -> dict[str, Any] | None:
    """Traces without y, and the y of each trace in each frame; None for fewer than two λ.

    A trace is the mean over seeds; the band of one standard deviation is drawn for the last split.
    """
    places = list(positions.values())
    lines = [
        _Line(looks[group.label], split, by_lam, positions, solid=split == splits[-1])
        for group in reversed(groups)
        for split in splits
        if (by_lam := group.by_lam(split))
    ]
    if len(positions) < 2 or not lines:
        return None
    return {
        "traces": [trace for line in lines for trace in line.traces()],
        "frames": [_frame(lines, t) for t in MIXTURES],
        "first": MIXTURES.index(FIRST),
        "title": lam_axis(groups),
        "ends": [places[0], places[-1]],
        "ticks": {"tickvals": places, "ticktext": list(ticks.values())},
        "note": "Solid, with the band: test; dotted: train." if len(splits) > 1 else "",
    }


class _Line:
    """One method on one split: a line, and a band around it if it is solid and has several seeds."""

    def __init__(
        self, look: Look, split: str, by_lam: Sequence[SeedGroup], positions: Mapping[float, float], *, solid: bool
    ) -> None:
        self.look, self.split, self.by_lam, self.solid = look, split, by_lam, solid
        self.has_band = solid and any(len(seeds.points) > 1 for seeds in by_lam)
        self.is_flat = by_lam[0].lam is None
        if self.is_flat:  # a method without λ is a horizontal line
            self.by_lam, self.x = [by_lam[0]] * 2, [min(positions.values()), max(positions.values())]
        else:
            self.x = [positions[seeds.number or 0.0] for seeds in by_lam]

    def traces(self) -> list[dict[str, Any]]:
        """The traces without their y."""
        label, colour = self.look.label, self.look.colour
        line = {
            "type": "scatter",
            "name": label,
            "meta": {"series": label, "layer": self.split},
            "x": self.x,
            "mode": "lines+markers" if self.solid and not self.is_flat else "lines",
            "line": {"color": colour, "width": 2.4 if self.solid else 1.6, "dash": "solid" if self.solid else "dot"},
            "marker": {"symbol": self.look.symbol, "size": 7, "color": colour},
            "hoverinfo": "text",
        }
        band = {
            "type": "scatter",
            "name": label,
            "meta": {"series": label, "layer": "band"},
            "x": [*self.x, *reversed(self.x)],
            "mode": "lines",
            "fill": "toself",
            "fillcolor": colour,
            "opacity": 0.16,
            "line": {"width": 0},
            "hoverinfo": "skip",
        }
        return [band, line] if self.has_band else [line]

    def frame(self, mixed: Sequence[tuple[float, float]], *, logarithmic: bool) -> list[dict[str, Any]]:
        """The y of its traces, and the texts of the line, for these means and deviations."""
        texts = [self._hover(*item) for item in zip(self.by_lam, mixed, strict=True)]
        line = {"y": [_round(mean) for mean, _ in mixed], "hovertext": texts}
        high = [_round(mean + spread) for mean, spread in mixed]
        # the lower end of a band may be negative, which a logarithmic axis cannot show
        low = [_round(max(mean - spread, mean / 10) if logarithmic else mean - spread) for mean, spread in mixed]
        return [{"y": [*high, *reversed(low)]}, line] if self.has_band else [line]

    def _hover(self, seeds: SeedGroup, mixed: tuple[float, float]) -> str:
        spread = f" ± {number(mixed[1])}" if mixed[1] else ""
        lam = "".join(f"<br>{text}" for text in hyperparameters(seeds.lam, None))
        return f"<b>{escape(self.look.label)}</b>, {self.split}{lam}<br>{number(mixed[0])}{spread}"


def _frame(lines: Sequence[_Line], t: float) -> dict[str, Any]:
    mixed = [[seeds.mixed_loss(t) for seeds in line.by_lam] for line in lines]
    shown = range_of(mean for of_line in mixed for mean, _ in of_line)
    frames = (line.frame(each, logarithmic=shown.logarithmic) for line, each in zip(lines, mixed, strict=True))
    return {
        "label": f"t = {t:.2f}",
        "title": f"{1 - t:.2f} main + {t:.2f} aux",
        "logarithmic": shown.logarithmic,
        "range": axis_limits(shown, logarithmic=shown.logarithmic),
        "traces": [trace for frame in frames for trace in frame],
    }


def _round(value: float) -> float:
    return float(f"{value:.5g}")
