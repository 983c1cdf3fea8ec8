// The playground of the page "Choose": drag the gradients, and see the direction of each method.
"use strict";

// Vectors in the plane, and the formulas of gradsurgery/methods. A division by zero gives zero.

const dot = (u, v) => u[0] * v[0] + u[1] * v[1];
const length = (u) => Math.sqrt(dot(u, u));
const ratio = (a, b) => (b === 0 ? 0 : a / b);
const cosine = (u, v) => ratio(ratio(dot(u, v), length(u)), length(v));
const sum = (...terms) => terms.reduce(([x, y], [weight, v]) => [x + weight * v[0], y + weight * v[1]], [0, 0]);
const reject = (u, v) => sum([1, u], [-ratio(dot(u, v), dot(v, v)), v]);

// `average` is main itself without an average. gradvac and pcd are in their first step: the average cosine of gradvac is 0,
// and the usual lengths of pcd are those of this step. pcd's share of aux's progress is 0.3.
const METHODS = {
  bloop: ({ main, aux, average, lam }) => sum([1, main], [lam, reject(aux, average)]),
  mixed: ({ main, aux, lam }) => sum([1, main], [lam, aux]),
  agem: ({ main, aux }) => sum([1, main], [-ratio(Math.min(dot(main, aux), 0), dot(aux, aux)), aux]),
  dynamic_barrier: ({ main, aux, average, lam }) => {
    const squared = dot(average, average);
    return sum([1, main], [lam, aux], [-ratio(Math.min(lam * dot(aux, average), squared), squared), average]);
  },
  barrier: ({ main, aux }) =>
    sum([1, aux], [ratio(Math.max(dot(main, main) - dot(main, aux), 0), dot(main, main)), main]),
  mgda: ({ main, aux }) => {
    const gap = sum([1, main], [-1, aux]);
    const weight = Math.min(Math.max(ratio(-dot(gap, aux), dot(gap, gap)), 0), 1);
    return sum([weight, main], [1 - weight, aux]);
  },
  cosine: ({ main, aux }) => sum([1, main], [Math.max(cosine(main, aux), 0), aux]),
  gradvac: ({ main, aux }) => {
    const turn = Math.max(-cosine(main, aux), 0);
    return sum(
      [1 + turn * ratio(length(aux), length(main)), main],
      [1 + turn * ratio(length(main), length(aux)), aux],
    );
  },
  pcgrad: ({ main, aux, average, lam }) => {
    const conflict = dot(aux, average) < 0;
    return conflict ? sum([1, reject(main, aux)], [lam, reject(aux, average)]) : sum([1, main], [lam, aux]);
  },
  metabalance: ({ main, aux }) => sum([1, main], [ratio(length(main), length(aux)), aux]),
  pcd: ({ main, aux }) => {
    const bent = sum([1, main], [Math.max(0.3 - cosine(main, aux), 0) * ratio(length(main), length(aux)), aux]);
    return sum([ratio(length(main), length(bent)), bent]);
  },
};

function directions({ main, aux, average = null, lam, relative = false }) {
  const step = { main, aux, average: average ?? main, lam: relative ? lam * ratio(length(main), length(aux)) : lam };
  return Object.fromEntries(Object.entries(METHODS).map(([name, formula]) => [name, formula(step)]));
}

// The page.

const PRESETS = {
  conflict: { main: [1.1, 0], aux: [-1.3, 1.3] },
  agreement: { main: [1.1, 0], aux: [1.3, 0.8] },
  orthogonal: { main: [1.1, 0], aux: [0, 1.2] },
  opposite: { main: [1.1, 0], aux: [-1.4, 0] },
};
const REACH = 2.2; // the plot shows coordinates from -REACH to REACH
const NAMES = { main: "g_main", aux: "g_aux", average: "m" };
const COLORS = {
  bloop: "#0fa968", mixed: "#d6455d", agem: "#8b6f4e", dynamic_barrier: "#7a5af0", barrier: "#b04fc4",
  mgda: "#1797a6", cosine: "#8a9a0c", gradvac: "#c2710c", pcgrad: "#e0559b", metabalance: "#6b7a90",
  pcd: "#f0857a",
};

function element(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "line", "circle", "path", "text", "defs", "marker"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function signed(value) {
  return Math.abs(value) < 0.005 ? "0" : (value > 0 ? "+" : "−") + Math.abs(value).toFixed(2);
}

class Playground {
  constructor(root) {
    this.state = { ...PRESETS.conflict, average: null, lam: 1, relative: false };
    this.shown = new Set(["bloop", "mixed"]);
    this.handles = {};
    this.rows = {};
    root.replaceChildren(this.plot(), element("div", { class: "playground-side" }, this.controls(), this.table()));
    this.draw();
  }

  plot() {
    const range = `${-REACH} ${-REACH} ${2 * REACH} ${2 * REACH}`;
    this.svg = element("svg", { viewBox: range, role: "group", "aria-label": "Gradients and directions" });
    this.arrows = element("g");
    this.svg.append(
      element("line", { class: "axis", x1: -REACH, x2: REACH, y1: 0, y2: 0 }),
      element("line", { class: "axis", y1: -REACH, y2: REACH, x1: 0, x2: 0 }),
      this.arrows,
      ...Object.keys(NAMES).map((name) => this.handle(name)),
    );
    return this.svg;
  }

  // A gradient's tip: dragged by mouse or finger, moved by the arrow keys (finer with shift).
  handle(name) {
    const handle = element("g", { class: `handle ${name}`, tabindex: 0, role: "slider", "data-vector": name },
      element("circle", { r: 0.2, class: "grip" }), element("circle", { r: 0.07 }));
    handle.addEventListener("pointerdown", (event) => {
      handle.setPointerCapture(event.pointerId);
      handle.focus({ preventScroll: true });
      event.preventDefault();
    });
    // keeps the page from scrolling: touch-action has no effect inside an SVG
    handle.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
    handle.addEventListener("pointermove", (event) => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      this.move(name, [point.x, -point.y]);
    });
    handle.addEventListener("keydown", (event) => {
      const side = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!side) return;
      this.move(name, sum([1, this.state[name]], [event.shiftKey ? 0.01 : 0.1, side]));
      event.preventDefault();
    });
    this.handles[name] = handle;
    return handle;
  }

  move(name, vector) {
    const limit = REACH - 0.1;
    this.state[name] = vector.map((value) => Math.round(100 * Math.min(Math.max(value, -limit), limit)) / 100);
    this.draw();
  }

  controls() {
    const presets = element("div", { class: "presets" });
    for (const [name, vectors] of Object.entries(PRESETS)) {
      const button = element("button", { type: "button" }, name);
      button.addEventListener("click", () => this.change(vectors));
      presets.append(button);
    }
    this.lam = element("output");
    const slider = element("input", { type: "range", min: 0, max: 3, step: 0.05, value: this.state.lam, "aria-label": "λ" });
    slider.addEventListener("input", () => this.change({ lam: Number(slider.value) }));
    const relative = this.checkbox("relative: λ in units of ‖g_main‖ / ‖g_aux‖", (on) => this.change({ relative: on }));
    const average = this.checkbox("project on an average m of main (drag it)", (on) =>
      this.change({ average: on ? sum([1, this.state.main], [1, [0, 0.4]]) : null }));
    return element("div", {}, presets, element("label", { class: "lam" }, this.lam, slider), relative, average);
  }

  checkbox(text, change) {
    const box = element("input", { type: "checkbox" });
    box.addEventListener("change", () => change(box.checked));
    return element("label", {}, box, ` ${text}`);
  }

  change(values) {
    Object.assign(this.state, structuredClone(values));
    this.draw();
  }

  table() {
    const body = element("tbody");
    for (const name of Object.keys(METHODS)) {
      const button = element("button", { type: "button", "aria-pressed": this.shown.has(name) },
        element("i", { style: `background: ${COLORS[name]}` }), name);
      button.addEventListener("click", () => {
        this.shown.has(name) ? this.shown.delete(name) : this.shown.add(name);
        button.setAttribute("aria-pressed", this.shown.has(name));
        this.draw();
      });
      this.rows[name] = { main: element("td"), aux: element("td") };
      body.append(element("tr", { "data-method": name }, element("th", { scope: "row" }, button),
        this.rows[name].main, this.rows[name].aux));
    }
    const head = element("tr", {}, element("th", { scope: "col" }, "method"),
      element("th", { scope: "col" }, "main"), element("th", { scope: "col" }, "aux"));
    return element("table", {}, element("thead", {}, head), body);
  }

  draw() {
    const { main, aux, average, lam, relative } = this.state;
    const results = directions(this.state);
    this.lam.value = `λ = ${lam.toFixed(2)}${relative ? " ‖g_main‖ / ‖g_aux‖" : ""}`;
    this.arrows.replaceChildren();
    for (const name of this.shown) this.arrow(results[name], COLORS[name], "direction");
    if (average) this.arrow(average, "var(--playground-average)", "average");
    this.arrow(main, "var(--playground-main)", "gradient");
    this.arrow(aux, "var(--playground-aux)", "gradient");
    for (const [name, handle] of Object.entries(this.handles)) this.place(name, handle);
    for (const [name, direction] of Object.entries(results)) {
      for (const [loss, gradient] of Object.entries({ main, aux })) {
        const change = -dot(direction, gradient);
        this.rows[name][loss].textContent = signed(change);
        this.rows[name][loss].className = Math.abs(change) < 0.005 ? "" : change < 0 ? "better" : "worse";
      }
    }
  }

  place(name, handle) {
    const vector = this.state[name];
    handle.style.display = vector ? "" : "none";
    if (!vector) return;
    handle.setAttribute("transform", `translate(${vector[0]} ${-vector[1]})`);
    handle.setAttribute("aria-label", NAMES[name]);
    handle.setAttribute("aria-valuenow", vector[0]);
    handle.setAttribute("aria-valuetext", `${vector[0]}, ${vector[1]}`);
    handle.querySelector("text")?.remove();
    handle.append(element("text", { x: 0.12, y: vector[1] < 0 ? 0.28 : -0.14 }, NAMES[name]));
  }

  arrow([x, y], color, kind) {
    const size = Math.hypot(x, y);
    if (size === 0) return;
    const tip = 0.14, [ux, uy] = [x / size, y / size], [bx, by] = [x - tip * ux, y - tip * uy];
    const head = [[x, y], [bx - 0.45 * tip * uy, by + 0.45 * tip * ux], [bx + 0.45 * tip * uy, by - 0.45 * tip * ux]];
    const path = `M${head.map(([a, b]) => `${a} ${-b}`).join("L")}Z`;
    const line = element("line", { class: kind, x1: 0, y1: 0, x2: bx, y2: -by });
    line.style.stroke = color;
    const point = element("path", { d: path });
    point.style.fill = color;
    this.arrows.append(line, point);
  }
}

window.playground = { directions };
for (const root of document.querySelectorAll(".playground")) new Playground(root);
