"use strict";

// Joins the curves of several runs to one plotly trace, with a gap after each run. `pick` returns [x, y] arrays of a run.
function joinCurves(curves, pick) {
  const joined = { x: [], y: [], text: [] };
  for (const curve of curves) {
    const [x, y] = pick(curve);
    if (!x || !y) continue;
    joined.x.push(...x, null);
    joined.y.push(...y, null);
    joined.text.push(...x.map(() => curve.name), "");
  }
  return joined;
}
