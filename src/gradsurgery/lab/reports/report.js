"use strict";

// One state and one function per chart: every control changes the state and redraws.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const firstSplit = data.recommend ? data.recommend.split : data.splits[0];
  const state = {
    split: firstSplit,
    log: firstSplit ? { main: data.axes[firstSplit].main.logarithmic, aux: data.axes[firstSplit].aux.logarithmic } : {},
    trajectories: false,
    hidden: new Set(),
    t: 0.1,
    allow: 0.02,
    curves: data.recommend ? "recommended" : "all",
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

  const chosenOptions = () => (data.recommend ? chooseOptions(data.recommend.methods, state.allow) : []);

  // A line at the largest main loss that the allowance permits, on the data that recommendations are made on.
  function allowanceLine() {
    if (!data.recommend || data.recommend.split !== state.split) return [];
    const alone = data.recommend.main_alone;
    const x = alone + state.allow * Math.abs(alone);
    return [{ type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, line: { color: colour("--muted"), width: 1, dash: "dash" } }];
  }

  function drawFront() {
    const traces = [];
    const axes = { x: lossAxis("main"), y: lossAxis("aux") };
    const shown = data.series.filter((series) => !state.hidden.has(series.label));
    const alone = data.main_alone && data.main_alone.layers[state.split];
    const labels = placeLabels([
      ...(alone ? [[data.main_alone, { front: { ...alone, lams: ["main alone"] }, dominated: { x: [], y: [] } }]] : []),
      ...shown.map((series) => [series, series.layers[state.split]]),
    ], axes, byId("front"));
    for (const series of [...data.series].reverse()) { // the first series is drawn on top
      const layers = series.layers[state.split];
      const common = { ...baseTrace(series), hoverinfo: "text" };
      const marker = (size) => ({ symbol: series.symbol, size, color: series.colour });
      const add = (layer, rest) => traces.push({ ...common, ...layers[layer], meta: layer, ...rest });
      if (state.trajectories) {
        const { x, y } = joinCurves(series.curves, (curve) => [curve[`main_${state.split}`], curve[`aux_${state.split}`]]);
        add("trajectories", { x, y, mode: "lines", line: { color: series.colour, width: 1 }, opacity: 0.32, hoverinfo: "skip" });
      }
      add("runs", { mode: "markers", marker: marker(5), opacity: 0.5 });
      add("dominated", { mode: "markers", marker: marker(9), opacity: 0.5, ...errorBars(layers.dominated, series) });
      add("front", {
        mode: "lines+markers+text", marker: marker(10), line: { color: series.colour, width: 2.2 },
        ...labels.get(series), textfont: { color: series.colour, size: 11 }, cliponaxis: false, ...errorBars(layers.front, series),
      });
    }
    if (alone) traces.push({
      type: "scatter", name: "main alone", meta: "main alone", mode: "markers+text", hoverinfo: "text", ...alone,
      ...labels.get(data.main_alone), marker: { symbol: data.main_alone.symbol, size: 15, color: colour("--ink") },
      textfont: { color: colour("--ink"), size: 11 }, cliponaxis: false, ...errorBars(alone, { colour: colour("--ink") }),
    });
    const chosen = chosenOptions();
    for (const { best } of chosen) if (best && !state.hidden.has(best.series)) {
      const [x, y] = best.points[state.split];
      traces.push({
        type: "scatter", name: best.series, meta: "recommended", mode: "markers", x: [x], y: [y], hoverinfo: "skip",
        marker: { symbol: "circle-open", size: 20, color: colour("--ink"), line: { width: 2 } }, cliponaxis: false,
      });
    }
    const view = `${state.split} ${state.log.main} ${state.log.aux}`;
    const layout = chartLayout(axes.x, axes.y, view);
    Plotly.react("front", traces, { ...layout, shapes: allowanceLine() }, config);
    byId("allowance-text").textContent = `${Number((100 * state.allow).toPrecision(3))} %`;
    byId("chosen").replaceChildren(...chosen.map(({ text }) => Object.assign(document.createElement("li"), { textContent: text })));
    const { main, aux } = data.axes[state.split];
    const outside = Math.max(main.outside, aux.outside);
    const hasSeeds = data.series.some((series) => series.layers[state.split].runs.x.length);
    byId("front-note").textContent = [
      hasSeeds ? "Large markers: mean over seeds at one λ, ± one standard deviation; small markers: single runs." : "Each marker is one run.",
      data.recommend ? `Circles: the λ recommended for this allowance, on ${data.recommend.split} losses${
        data.recommend.split === state.split ? "; dashed line: the allowance" : ""}.` : "",
      `Numbers beside markers: ${data.lam_name}.`,
      "A line joins the points that no other λ of the same method dominates.",
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
    const x = { title: data.lam_name, type: "log", range: ends, tickangle: 0, tickvals: positions, ticktext: data.lam_ticks.labels };
    const formula = `${(1 - state.t).toFixed(2)} main + ${state.t.toFixed(2)} aux`;
    const y = { title: formula, type: log ? "log" : "linear", autorange: true, ...(log ? logTicks([Math.min(...values), Math.max(...values)], 8) : {}) };
    Plotly.react("mixed", traces, chartLayout(x, y, `${log}`), config);
    byId("mixture-text").textContent = `t = ${state.t.toFixed(2)}`;
    byId("mixed-note").textContent = data.splits.length > 1 ? "Solid, with the band: test; dotted: train." : "";
  }

  const PANELS = { main: "main loss", aux: "auxiliary loss", removed: "share of aux removed", conflict: "share of steps in conflict" };

  const ends = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);

  function curvePanel(panel, curvesOf) {
    const metric = panel in state.log ? `${panel}_${state.split}` : `surgery/${panel}`;
    const all = [...data.series, ...(data.main_alone ? [{ ...data.main_alone, colour: colour("--ink") }] : [])];
    const traces = all.map((series) => ({
      ...baseTrace(series), meta: panel, mode: "lines", line: { color: series.colour, width: 1.4 }, opacity: 0.75,
      ...joinCurves(curvesOf(series), (curve) => [curve.step, curve[metric]]),
      hovertemplate: `<b>${series.label}</b><br>%{text}<br>step %{x}: %{y:.3~g}<extra></extra>`,
    })).reverse();
    byId(`curve-${panel}`).hidden = !all.some((series) => series.curves.some((curve) => curve[metric]));
    const values = traces.flatMap(({ y }) => y.filter((value) => value !== null));
    const log = panel in state.log && state.log[panel] && ends(values)[0] > 0;
    const y = panel in state.log
      ? { title: `${PANELS[panel]}, ${state.split}`, type: log ? "log" : "linear", autorange: true, ...(log ? logTicks(ends(values), 6) : {}) }
      : { title: PANELS[panel], type: "linear", rangemode: "tozero", autorange: true };
    Plotly.react(`curve-${panel}`, traces, chartLayout({ title: "step", type: "linear", autorange: true }, y, `${metric} ${log}`), config);
  }

  function drawCurves() {
    const chosen = new Set(chosenOptions().filter(({ best }) => best).map(({ best }) => `${best.series}|${best.lam}`));
    const isDrawn = (series, curve) => state.curves === "all" || series.label === "main alone" || chosen.has(`${series.label}|${curve.lam}`);
    for (const panel of Object.keys(PANELS)) curvePanel(panel, (series) => series.curves.filter((curve) => isDrawn(series, curve)));
    byId("curves-note").textContent = [
      state.curves === "recommended" ? "Drawn are the runs at the λ recommended for the allowance chosen above, and main alone (black)." : "",
      "Removed and conflict are running means over a tenth of a run’s rows, at least 5.",
    ].join(" ");
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

  if (!firstSplit) { // no run ended with finite losses
    for (const section of find(".needs-losses")) section.hidden = true;
    return;
  }
  byId("mixed-section").hidden = data.lam_ticks.positions.length < 2;
  onClick("[data-method]", ({ method }) => state.hidden.delete(method) || state.hidden.add(method));
  onClick("[data-split]", ({ split }) => { state.split = split; });
  onClick("[data-log]", ({ log }) => { state.log[log] = !state.log[log]; });
  onClick("#trajectories", () => { state.trajectories = !state.trajectories; });
  onClick("[data-curves]", ({ curves }) => { state.curves = curves; });
  for (const id of ["allowance-slider", "chosen", "curves-runs"]) byId(id).hidden = !data.recommend;
  byId("allowance").max = data.allowances.length - 1;
  byId("allowance").value = data.allowances.indexOf(state.allow);
  byId("allowance").addEventListener("input", (event) => {
    state.allow = data.allowances[Number(event.target.value)];
    drawFront();
    if (state.curves === "recommended") drawCurves();
  });
  byId("mixture").addEventListener("input", (event) => { state.t = Number(event.target.value); drawMixed(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", drawFront);
  draw();
})();
