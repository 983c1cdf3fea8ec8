"use strict";

// Writes λ beside the points of the fronts. Each label takes the first side of its point where it covers neither a marker
// nor another label, and is left out if there is none. Returns plotly's text and textposition for each trace with text.
function placeLabels(traces, axes, chart) {
  const MARKER = 14, TEXT_HEIGHT = 15, CHARACTER = 6.5;
  const SIDES = { "top right": [1, -1], "bottom left": [-1, 1], "top left": [-1, -1], "bottom right": [1, 1] };
  const plot = { x: chart.clientWidth - 90, y: chart.clientHeight - 75 }; // without axis labels, roughly

  function pixel(value, side) {
    const { type, range } = axes[side];
    if (!range) return plot[side] / 2;
    const share = ((type === "log" ? Math.log10(value) : value) - range[0]) / (range[1] - range[0]);
    return plot[side] * (side === "x" ? share : 1 - share);
  }

  const pixels = ({ x, y }) => x.map((value, i) => ({ x: pixel(value, "x"), y: pixel(y[i], "y") }));
  const overlaps = (a, b) => Math.abs(a.x - b.x) < (a.width + b.width) / 2 && Math.abs(a.y - b.y) < (a.height + b.height) / 2;
  const taken = traces
    .filter((trace) => trace.meta.layer !== "runs")
    .flatMap(pixels)
    .map((point) => ({ ...point, width: MARKER, height: MARKER }));

  function place(point, text) {
    const width = 12 + CHARACTER * text.length;
    for (const [textposition, [right, down]] of Object.entries(SIDES)) {
      const label = { x: point.x + right * (7 + width / 2), y: point.y + down * 12, width, height: TEXT_HEIGHT };
      const inside = label.x > width / 2 && label.x < plot.x - width / 2 && label.y > TEXT_HEIGHT / 2;
      if (text && inside && !taken.some((other) => overlaps(label, other))) {
        taken.push(label);
        return { text, textposition };
      }
    }
    return { text: "", textposition: "top right" };
  }

  const withText = traces.filter((trace) => trace.mode.includes("text")).reverse(); // the trace on top first
  return new Map(withText.map((trace) => {
    const labels = pixels(trace).map((point, i) => place(point, trace.labels[i]));
    return [trace, { text: labels.map((label) => label.text), textposition: labels.map((label) => label.textposition) }];
  }));
}
