"use strict";

// One state and one function per chart: every control changes the state and redraws.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const firstSplit = data.splits[0];
  const state = {
    split: firstSplit,
    log: firstSplit ? { main: data.axes[firstSplit].main.logarithmic, aux: data.axes[firstSplit].aux.logarithmic } : {},
    trajectories: false,
    hidden: new Set(),
    t: 0.1,
  };
  const find = (selector) => [...document.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const touch = matchMedia("(pointer: coarse)").matches;
  const buttons = [["zoom2d", "pan2d"], ["autoScale2d", "resetScale2d"], ["toImage"]];
  const config = { responsive: true, displaylogo: false, modeBarButtons: buttons, displayModeBar: touch ? false : "hover" };

  function chartLayout(xaxis, yaxis, view) {
    const style = {
      gridcolor: colour("--grid"), linecolor: colour("--line"), zerolinecolor: colour("--line"), zeroline: false,
      ticks: "outside", tickcolor: colour("--line"), automargin: true, exponentformat: "power",
    };
    const title = (text) => ({ text, standoff: 8, font: { size: 13 } });
    return {
      xaxis: { ...style, ...xaxis, title: title(xaxis.title) },
      yaxis: { ...style, ...yaxis, title: title(yaxis.title) },
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("--muted") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 20, r: 16, t: 18, b: 20 },
      showlegend: false,
      hovermode: "closest",
      hoverlabel: { bgcolor: colour("--panel"), font: { color: colour("--ink"), size: 13 }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--muted"), activecolor: colour("--ink") },
      dragmode: touch ? false : "zoom", // on a touch screen, dragging scrolls the page
      uirevision: view, // keep the zoom until the axes change
    };
  }

  // Ticks at 1, 2 and 5 in each decade if they fit, else at powers of ten. plotly picks the former at 0.3 to 0.7 decades per tick.
  function logTicks([low, high], room) {
    const decades = Math.log10(high / low);
    const count = Math.max(2, Math.min(Math.floor(decades / 0.31), room));
    return { nticks: count, ...(low > 1e-4 && high < 1e5 ? { tickformat: "~g" } : {}) };
  }

  function lossAxis(name) {
    const axis = data.axes[state.split][name];
    const log = state.log[name] && axis.can_be_logarithmic;
    const range = log ? axis.log_range : axis.linear_range;
    const room = name === "main" ? Math.floor(byId("front").clientWidth / 75) : 8;
    return {
      title: `${name} loss, ${state.split}`,
      type: log ? "log" : "linear",
      ...(range ? { range: log ? range.map(Math.log10) : range } : { autorange: true }),
      ...(log && range ? logTicks(range, room) : {}),
    };
  }

  function baseTrace(series) {
    const visible = !state.hidden.has(series.label);
    return { type: "scatter", name: series.label, visible, hoverlabel: { bordercolor: series.colour } };
  }

  function errorBars(layer, series) {
    const style = { color: `${series.colour}80`, thickness: 1, width: 0 };
    const bars = ["error_x", "error_y"].filter((name) => layer[name]);
    return Object.fromEntries(bars.map((name) => [name, { ...layer[name], ...style }]));
  }

  function drawFront() {
    const traces = [];
    const axes = { x: lossAxis("main"), y: lossAxis("aux") };
    const shown = data.series.filter((series) => !state.hidden.has(series.label));
    const labels = placeLabels(shown.map((series) => [series, series.layers[state.split]]), axes, byId("front"));
    for (const series of [...data.series].reverse()) { // the first series is drawn on top
      const layers = series.layers[state.split];
      const common = { ...baseTrace(series), hoverinfo: "text" };
      const marker = (size) => ({ symbol: series.symbol, size, color: series.colour });
      const add = (layer, rest) => traces.push({ ...common, ...layers[layer], meta: layer, ...rest });
      if (state.trajectories)
        add("trajectories", { mode: "lines", line: { color: series.colour, width: 1 }, opacity: 0.32, hoverinfo: "skip" });
      add("runs", { mode: "markers", marker: marker(5), opacity: 0.5 });
      add("dominated", { mode: "markers", marker: marker(9), opacity: 0.5, ...errorBars(layers.dominated, series) });
      add("front", {
        mode: "lines+markers+text", marker: marker(10), line: { color: series.colour, width: 2.2 },
        ...labels.get(series), textfont: { color: series.colour, size: 11 }, cliponaxis: false, ...errorBars(layers.front, series),
      });
    }
    const view = `${state.split} ${state.log.main} ${state.log.aux}`;
    Plotly.react("front", traces, chartLayout(axes.x, axes.y, view), config);
    const { main, aux } = data.axes[state.split];
    const outside = Math.max(main.outside, aux.outside);
    const hasSeeds = data.series.some((series) => series.layers[state.split].runs.x.length);
    byId("front-note").textContent = [
      hasSeeds ? "Large markers: mean over seeds at one λ, ± one standard deviation; small markers: single runs." : "Each marker is one run.",
      "Numbers beside markers: λ. A line joins the points that no other λ of the same method dominates.",
      state.trajectories ? "Faint curves: the losses during training." : "",
      outside ? `${outside} final point${outside > 1 ? "s are" : " is"} far outside the chart: double-click it to show all points.` : "",
    ].join(" ");
  }

  function mixedLoss(groups) {
    return groups.map(({ position, lam, points }) => {
      const values = points.map(([main, aux]) => (1 - state.t) * main + state.t * aux);
      const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
      const square = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
      return { position, lam, mean, spread: values.length > 1 ? Math.sqrt(square / (values.length - 1)) : 0 };
    });
  }

  function drawMixed() {
    const positions = data.lam_ticks.positions;
    if (positions.length < 2) return;
    const width = Math.log10(positions.at(-1) / positions[0]);
    const ends = [Math.log10(positions[0]) - 0.04 * width, Math.log10(positions.at(-1)) + 0.04 * width];
    const solid = data.splits.at(-1);
    const curves = [...data.series].reverse().flatMap((series) => data.splits.map((split) => {
      const rows = mixedLoss(series.by_lam[split]);
      const flat = rows.length === 1 && rows[0].position === null; // a method without λ is a horizontal line
      const at = (end) => ({ ...rows[0], position: 10 ** end });
      return { series, split, rows: flat ? ends.map(at) : rows, flat };
    }));
    const values = curves.flatMap(({ rows }) => rows.map((row) => row.mean));
    const log = Math.min(...values) > 0 && Math.max(...values) > 10 * Math.min(...values);
    const traces = curves.flatMap(({ series, split, rows, flat }) => {
      const x = rows.map((row) => row.position);
      const common = baseTrace(series);
      const low = (row) => (log ? Math.max(row.mean - row.spread, row.mean / 10) : row.mean - row.spread);
      const band = {
        ...common, meta: "band", mode: "lines", fill: "toself", hoverinfo: "skip", opacity: 0.16, line: { width: 0 },
        fillcolor: series.colour, x: [...x, ...[...x].reverse()],
        y: [...rows.map((row) => row.mean + row.spread), ...[...rows].reverse().map(low)],
      };
      const line = {
        ...common, meta: split, mode: flat || split !== solid ? "lines" : "lines+markers", x, y: rows.map((row) => row.mean),
        line: { color: series.colour, width: split === solid ? 2.4 : 1.6, dash: split === solid ? "solid" : "dot" },
        marker: { symbol: series.symbol, size: 7, color: series.colour },
        customdata: rows.map((row) => [row.lam, row.spread]),
        hovertemplate: `<b>${series.label}</b>, ${split}<br>%{customdata[0]}<br>%{y:.3~g} ± %{customdata[1]:.2~g}<extra></extra>`,
      };
      return split === solid && rows.some((row) => row.spread) ? [band, line] : [line];
    });
    const x = { title: "λ", type: "log", range: ends, tickangle: 0, tickvals: positions, ticktext: data.lam_ticks.labels };
    const formula = `${(1 - state.t).toFixed(2)} main + ${state.t.toFixed(2)} aux`;
    const y = { title: formula, type: log ? "log" : "linear", autorange: true, ...(log ? logTicks([Math.min(...values), Math.max(...values)], 8) : {}) };
    Plotly.react("mixed", traces, chartLayout(x, y, `${log}`), config);
    byId("mixture-text").textContent = `t = ${state.t.toFixed(2)}`;
    byId("mixed-note").textContent = data.splits.length > 1 ? "Solid, with the band: test; dotted: train." : "";
  }

  function showState() {
    const press = (button, pressed) => button.setAttribute("aria-pressed", pressed);
    for (const button of find("[data-method]")) press(button, !state.hidden.has(button.dataset.method));
    for (const button of find("[data-split]")) press(button, button.dataset.split === state.split);
    for (const button of find("[data-log]")) {
      const possible = data.axes[state.split][button.dataset.log].can_be_logarithmic;
      button.disabled = !possible;
      button.title = possible ? "" : "Some losses are not positive, so this axis is linear";
      press(button, possible && state.log[button.dataset.log]);
    }
    press(byId("trajectories"), state.trajectories);
  }

  function draw() {
    showState();
    drawFront();
    drawMixed();
  }

  function onClick(selector, change) {
    for (const button of find(selector)) button.addEventListener("click", () => { change(button.dataset); draw(); });
  }

  if (!firstSplit) { // no run ended with finite losses
    for (const section of find(".needs-losses")) section.hidden = true;
    return;
  }
  byId("mixed-section").hidden = data.lam_ticks.positions.length < 2;
  onClick("[data-method]", ({ method }) => state.hidden.delete(method) || state.hidden.add(method));
  onClick("[data-split]", ({ split }) => { state.split = split; });
  onClick("[data-log]", ({ log }) => { state.log[log] = !state.log[log]; });
  onClick("#trajectories", () => { state.trajectories = !state.trajectories; });
  byId("mixture").addEventListener("input", (event) => { state.t = Number(event.target.value); drawMixed(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", drawFront);
  draw();
})();
