"use strict";

// One state, one function for each chart that draws it: every control changes the state and draws again.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const start = data.splits[0];
  const state = {
    split: start,
    log: start ? { main: data.axes[start].main.logarithmic, aux: data.axes[start].aux.logarithmic } : {},
    trajectories: true,
    hidden: new Set(),
    t: 0.1,
  };
  const find = (selector) => [...document.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const touch = matchMedia("(pointer: coarse)").matches;
  const buttons = [["zoom2d", "pan2d"], ["autoScale2d", "resetScale2d"], ["toImage"]];
  const config = { responsive: true, displaylogo: false, modeBarButtons: buttons, displayModeBar: touch ? false : "hover" };

  function layout(xaxis, yaxis, view) {
    const look = {
      gridcolor: colour("--grid"), linecolor: colour("--line"), zerolinecolor: colour("--line"), zeroline: false,
      ticks: "outside", tickcolor: colour("--line"), automargin: true, exponentformat: "power",
    };
    const title = (text) => ({ text, standoff: 8, font: { size: 13 } });
    return {
      xaxis: { ...look, ...xaxis, title: title(xaxis.title) },
      yaxis: { ...look, ...yaxis, title: title(yaxis.title) },
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("--muted") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 20, r: 16, t: 18, b: 20 },
      showlegend: false,
      hovermode: "closest",
      hoverlabel: { bgcolor: colour("--panel"), font: { color: colour("--ink"), size: 13 }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--muted"), activecolor: colour("--ink") },
      dragmode: touch ? false : "zoom", // a finger scrolls the page
      uirevision: view, // the reader's zoom stays until the axes change
    };
  }

  // Ticks at 1, 2, 5 of each decade if they fit, else at powers of ten: plotly takes the former for 0.3 to 0.7 decades a tick.
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

  function shared(series) {
    const visible = !state.hidden.has(series.label);
    return { type: "scatter", name: series.label, visible, hoverlabel: { bordercolor: series.colour } };
  }

  function drawFront() {
    const traces = [];
    for (const series of [...data.series].reverse()) { // the first on top
      const layers = series.front[state.split];
      const common = { ...shared(series), hoverinfo: "text" };
      const marker = (size) => ({ symbol: series.symbol, size, color: series.colour });
      const add = (layer, rest) => traces.push({ ...common, ...layers[layer], meta: layer, ...rest });
      if (state.trajectories)
        add("trajectories", { mode: "lines", line: { color: series.colour, width: 1 }, opacity: 0.32, hoverinfo: "skip" });
      add("runs", { mode: "markers", marker: marker(5), opacity: 0.5 });
      add("beaten", { mode: "markers", marker: marker(9), opacity: 0.5 });
      add("joined", { mode: "lines+markers", marker: marker(10), line: { color: series.colour, width: 2.2 } });
    }
    const view = `${state.split} ${state.log.main} ${state.log.aux}`;
    Plotly.react("front", traces, layout(lossAxis("main"), lossAxis("aux"), view), config);
    const shown = data.axes[state.split];
    const outside = Math.max(shown.main.outside, shown.aux.outside);
    const several = data.series.some((series) => series.front[state.split].runs.x.length);
    byId("front-note").textContent = [
      several ? "Large symbols: mean over seeds at one λ; small ones: single runs." : "Symbols: one run each.",
      "Lines join what no other λ of the same method dominates.",
      state.trajectories ? "Faint curves: the way there." : "",
      outside ? `${outside} final point${outside > 1 ? "s lie" : " lies"} far outside; double-click the chart to see all.` : "",
    ].join(" ");
  }

  function mixture(levels) {
    return levels.map(({ place, lam, points }) => {
      const values = points.map(([main, aux]) => (1 - state.t) * main + state.t * aux);
      const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
      const square = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
      return { place, lam, mean, spread: values.length > 1 ? Math.sqrt(square / (values.length - 1)) : 0 };
    });
  }

  function drawMixed() {
    const places = data.ticks.at;
    if (places.length < 2) return;
    const width = Math.log10(places.at(-1) / places[0]);
    const ends = [Math.log10(places[0]) - 0.04 * width, Math.log10(places.at(-1)) + 0.04 * width];
    const bold = data.splits.at(-1);
    const curves = [...data.series].reverse().flatMap((series) => data.splits.map((split) => {
      const rows = mixture(series.levels[split]);
      const flat = rows.length === 1 && rows[0].place === null; // a method without λ: a level line
      const level = (end) => ({ ...rows[0], place: 10 ** end });
      return { series, split, rows: flat ? ends.map(level) : rows, flat };
    }));
    const values = curves.flatMap(({ rows }) => rows.map((row) => row.mean));
    const log = Math.min(...values) > 0 && Math.max(...values) > 10 * Math.min(...values);
    const traces = curves.flatMap(({ series, split, rows, flat }) => {
      const x = rows.map((row) => row.place);
      const common = shared(series);
      const low = (row) => (log ? Math.max(row.mean - row.spread, row.mean / 10) : row.mean - row.spread);
      const band = {
        ...common, meta: "band", mode: "lines", fill: "toself", hoverinfo: "skip", opacity: 0.16, line: { width: 0 },
        fillcolor: series.colour, x: [...x, ...[...x].reverse()],
        y: [...rows.map((row) => row.mean + row.spread), ...[...rows].reverse().map(low)],
      };
      const line = {
        ...common, meta: split, mode: flat || split !== bold ? "lines" : "lines+markers", x, y: rows.map((row) => row.mean),
        line: { color: series.colour, width: split === bold ? 2.4 : 1.6, dash: split === bold ? "solid" : "dot" },
        marker: { symbol: series.symbol, size: 7, color: series.colour },
        customdata: rows.map((row) => [row.lam, row.spread]),
        hovertemplate: `<b>${series.label}</b>, ${split}<br>%{customdata[0]}<br>%{y:.3~g} ± %{customdata[1]:.2~g}<extra></extra>`,
      };
      return rows.some((row) => row.spread) ? [band, line] : [line];
    });
    const x = { title: "λ", type: "log", range: ends, tickangle: 0, tickvals: places, ticktext: data.ticks.text };
    const formula = `${(1 - state.t).toFixed(2)} main + ${state.t.toFixed(2)} aux`;
    const y = { title: formula, type: log ? "log" : "linear", autorange: true, ...(log ? logTicks([Math.min(...values), Math.max(...values)], 8) : {}) };
    Plotly.react("mixed", traces, layout(x, y, `${log}`), config);
    byId("mixture-text").textContent = `t = ${state.t.toFixed(2)}`;
    byId("mixed-note").textContent = data.splits.length > 1 ? "Solid: test; dotted: train." : "";
  }

  function showState() {
    const press = (button, pressed) => button.setAttribute("aria-pressed", pressed);
    for (const button of find("[data-method]")) press(button, !state.hidden.has(button.dataset.method));
    for (const button of find("[data-split]")) press(button, button.dataset.split === state.split);
    for (const button of find("[data-log]")) {
      const possible = data.axes[state.split][button.dataset.log].can_be_logarithmic;
      button.disabled = !possible;
      button.title = possible ? "" : "Some losses are not positive, so this axis stays linear";
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

  if (!start) { // no run ended with finite losses
    for (const section of find(".needs-losses")) section.hidden = true;
    return;
  }
  byId("mixed-section").hidden = data.ticks.at.length < 2;
  onClick("[data-method]", ({ method }) => state.hidden.delete(method) || state.hidden.add(method));
  onClick("[data-split]", ({ split }) => { state.split = split; });
  onClick("[data-log]", ({ log }) => { state.log[log] = !state.log[log]; });
  onClick("#trajectories", () => { state.trajectories = !state.trajectories; });
  byId("mixture").addEventListener("input", (event) => { state.t = Number(event.target.value); drawMixed(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
})();
