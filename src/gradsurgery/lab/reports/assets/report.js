"use strict";

// Shows the charts that Python described in the element "data". One state and one function per chart: every control
// changes the state and redraws.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { allowances, mixture } = data;
  const firstSplit = allowances ? allowances.split : data.splits[0];
  const state = {
    split: firstSplit,
    log: { main: data.fronts[firstSplit].axes.main.logarithmic, aux: data.fronts[firstSplit].axes.aux.logarithmic },
    trajectories: false,
    hidden: new Set(),
    mixture: mixture ? mixture.first : 0,
    allowance: allowances ? allowances.first : 0,
    curves: allowances ? "recommended" : "all",
  };
  const find = (selector) => [...document.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const touch = matchMedia("(pointer: coarse)").matches;
  const buttons = [["zoom2d", "pan2d"], ["autoScale2d", "resetScale2d"], ["toImage"]];
  const config = { responsive: true, displaylogo: false, modeBarButtons: buttons, displayModeBar: touch ? false : "hover" };

  // Replaces var(--name) by the colour of that name in the reader's theme.
  function withTheme(value) {
    if (typeof value === "string") return value.startsWith("var(") ? colour(value.slice(4, -1)) : value;
    if (Array.isArray(value) || value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withTheme(item)]));
  }

  function show(id, traces, xaxis, yaxis, view, shapes = []) {
    const style = {
      gridcolor: "var(--grid)", linecolor: "var(--line)", zerolinecolor: "var(--line)", zeroline: false,
      ticks: "outside", tickcolor: "var(--line)", automargin: true, exponentformat: "power",
    };
    const title = (text) => ({ text, standoff: 8, font: { size: 13 } });
    const layout = {
      xaxis: { ...style, ...xaxis, title: title(xaxis.title) },
      yaxis: { ...style, ...yaxis, title: title(yaxis.title) },
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: "var(--muted)" },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 20, r: 16, t: 18, b: 20 },
      showlegend: false,
      hovermode: "closest",
      hoverlabel: { bgcolor: "var(--panel)", font: { color: "var(--ink)", size: 13 }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: "var(--muted)", activecolor: "var(--ink)" },
      dragmode: touch ? false : "zoom", // on a touch screen, dragging scrolls the page
      uirevision: view, // keep the zoom until the axes change
      shapes,
    };
    const shown = traces.map((trace) => ({ ...trace, visible: !state.hidden.has(trace.meta.series) }));
    Plotly.react(id, shown.map(withTheme), { ...withTheme(layout), shapes: shapes.map(withTheme) }, config);
  }

  // Ticks at 1, 2 and 5 in each decade if they fit, else at powers of ten. plotly picks the former at 0.3 to 0.7 decades per tick.
  function logTicks([low, high], room) {
    const decades = Math.log10(high / low);
    const count = Math.max(2, Math.min(Math.floor(decades / 0.31), room));
    return { nticks: count, ...(low > 1e-4 && high < 1e5 ? { tickformat: "~g" } : {}) };
  }

  function lossAxis(name) {
    const axis = data.fronts[state.split].axes[name];
    const log = state.log[name] && axis.can_be_logarithmic;
    const range = log ? axis.log_range : axis.linear_range;
    const room = name === "main" ? Math.floor(byId("front").clientWidth / 75) : 8;
    return {
      title: axis.title,
      type: log ? "log" : "linear",
      ...(range ? { range: log ? range.map(Math.log10) : range } : { autorange: true }),
      ...(log && range ? logTicks(range, room) : {}),
    };
  }

  const allowance = () => (allowances ? allowances.positions[state.allowance] : { chosen: [], sentences: [], label: "" });

  function trajectories() {
    return data.curves.map(({ series, colour: line, runs }) => ({
      type: "scatter", mode: "lines", meta: { series, layer: "trajectories" }, line: { color: line, width: 1 }, opacity: 0.32,
      ...joinCurves(runs, (run) => [run[`main_${state.split}`], run[`aux_${state.split}`]]), hoverinfo: "skip",
    }));
  }

  function drawFront() {
    const { traces, note } = data.fronts[state.split];
    const axes = { x: lossAxis("main"), y: lossAxis("aux") };
    const shown = traces.filter((trace) => !state.hidden.has(trace.meta.series));
    const labels = placeLabels(shown, axes, byId("front"));
    const labelled = traces.map((trace) => ({ ...trace, ...labels.get(trace) }));
    const { chosen, sentences, label, limit } = allowance();
    const circles = chosen.filter(({ points }) => points[state.split]).map(({ series, points }) => ({
      type: "scatter", mode: "markers", meta: { series, layer: "recommended" }, x: [points[state.split][0]], y: [points[state.split][1]],
      hoverinfo: "skip", marker: { symbol: "circle-open", size: 20, color: "var(--ink)", line: { width: 2 } }, cliponaxis: false,
    }));
    const hasLimit = allowances && allowances.split === state.split;
    const line = { type: "line", xref: "x", yref: "paper", x0: limit, x1: limit, y0: 0, y1: 1, line: { color: "var(--muted)", width: 1, dash: "dash" } };
    const view = `${state.split} ${state.log.main} ${state.log.aux}`;
    show("front", [...(state.trajectories ? trajectories() : []), ...labelled, ...circles], axes.x, axes.y, view, hasLimit ? [line] : []);
    byId("allowance-text").textContent = label;
    byId("chosen").replaceChildren(...sentences.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
    byId("front-note").textContent = [
      note,
      allowances ? allowances.note : "",
      hasLimit ? "Dashed line: the allowance." : "",
      state.trajectories ? "Faint curves: the losses during training." : "",
    ].join(" ");
  }

  function drawMixed() {
    if (!mixture) return;
    const frame = mixture.frames[state.mixture];
    const traces = mixture.traces.map((trace, i) => ({ ...trace, ...frame.traces[i] }));
    const [first, last] = mixture.ends.map(Math.log10);
    const margin = 0.04 * (last - first);
    const x = { title: mixture.title, type: "log", range: [first - margin, last + margin], tickangle: 0, ...mixture.ticks };
    const { logarithmic, range } = frame;
    const scale = logarithmic ? { type: "log", range: range.map(Math.log10), ...logTicks(range, 8) } : { type: "linear", range };
    const y = { title: frame.title, ...scale };
    show("mixed", traces, x, y, `${y.type} ${range}`);
    byId("mixture-text").textContent = frame.label;
    byId("mixed-note").textContent = mixture.note;
  }

  const PANELS = { main: "", aux: "", removed: "share of aux removed", conflict: "share of steps in conflict" };

  const ends = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);

  function curvePanel(panel, isDrawn) {
    const isLoss = panel in state.log;
    const metric = isLoss ? `${panel}_${state.split}` : `surgery/${panel}`;
    const traces = data.curves.map(({ series, colour: line, runs }) => ({
      type: "scatter", mode: "lines", meta: { series, layer: panel }, line: { color: line, width: 1.4 }, opacity: 0.75,
      ...joinCurves(runs.filter((run) => isDrawn(series, run)), (run) => [run.step, run[metric]]),
      hovertemplate: `<b>${series}</b><br>%{text}<br>step %{x}: %{y:.3~g}<extra></extra>`,
    })).reverse();
    byId(`curve-${panel}`).hidden = !data.curves.some(({ runs }) => runs.some((run) => run[metric]));
    const range = ends(traces.flatMap(({ y }) => y.filter((value) => value !== null)));
    const log = isLoss && state.log[panel] && range[0] > 0;
    const y = isLoss
      ? { title: data.fronts[state.split].axes[panel].title, type: log ? "log" : "linear", autorange: true, ...(log ? logTicks(range, 6) : {}) }
      : { title: PANELS[panel], type: "linear", rangemode: "tozero", autorange: true };
    show(`curve-${panel}`, traces, { title: "step", type: "linear", autorange: true }, y, `${metric} ${log}`);
  }

  function drawCurves() {
    const chosen = new Set(allowance().chosen.map(({ series, lam }) => `${series}|${lam}`));
    const isDrawn = (series, run) => state.curves === "all" || series === "main alone" || chosen.has(`${series}|${run.lam}`);
    for (const panel of Object.keys(PANELS)) curvePanel(panel, isDrawn);
    byId("curves-note").hidden = state.curves !== "recommended";
  }

  function showState() {
    const press = (button, pressed) => button.setAttribute("aria-pressed", pressed);
    for (const button of find("[data-method]")) press(button, !state.hidden.has(button.dataset.method));
    for (const button of find("[data-split]")) press(button, button.dataset.split === state.split);
    for (const button of find("[data-log]")) {
      const possible = data.fronts[state.split].axes[button.dataset.log].can_be_logarithmic;
      button.disabled = !possible;
      button.title = possible ? "" : "Only positive values of which less is better have a logarithmic axis";
      press(button, possible && state.log[button.dataset.log]);
    }
    for (const button of find("[data-curves]")) press(button, button.dataset.curves === state.curves);
    press(byId("trajectories"), state.trajectories);
  }

  function draw() {
    showState();
    drawFront();
    drawMixed();
    drawCurves();
  }

  function onClick(selector, change) {
    for (const button of find(selector)) button.addEventListener("click", () => { change(button.dataset); draw(); });
  }

  function onSlide(id, last, first, change) {
    byId(id).max = last;
    byId(id).value = first;
    byId(id).addEventListener("input", (event) => change(Number(event.target.value)));
  }

  onClick("[data-method]", ({ method }) => state.hidden.delete(method) || state.hidden.add(method));
  onClick("[data-split]", ({ split }) => { state.split = split; });
  onClick("[data-log]", ({ log }) => { state.log[log] = !state.log[log]; });
  onClick("#trajectories", () => { state.trajectories = !state.trajectories; });
  onClick("[data-curves]", ({ curves }) => { state.curves = curves; });
  for (const id of ["allowance-slider", "chosen", "curves-runs"]) byId(id).hidden = !allowances;
  byId("mixed-section").hidden = !mixture;
  if (allowances) onSlide("allowance", allowances.positions.length - 1, state.allowance, (position) => {
    state.allowance = position;
    drawFront();
    if (state.curves === "recommended") drawCurves();
  });
  if (mixture) onSlide("mixture", mixture.frames.length - 1, state.mixture, (position) => { state.mixture = position; drawMixed(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", drawFront);
  draw();
})();
