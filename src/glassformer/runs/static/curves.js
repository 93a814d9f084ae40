// Draws the curves of a run from the numbers in its page, and lets one point at steps, zoom, and leave out runs.
//
//   state ──draw──> every picture          pointer, keys, buttons ──> state
//
// All pictures share their steps: what one is zoomed to or points at, all are.
"use strict";

function curves() {
  const data = JSON.parse(document.getElementById("curves").textContent);
  const SIZE = 1000, ROWS = 5, COLUMNS = 7, MARGIN = 1.02;
  const whole = { from: 0, to: data.last * MARGIN || 1 };
  const state = { ...whole, at: null, hidden: new Set(), log: new Set() };
  const bar = document.querySelector(".bar");
  const figures = [...document.querySelectorAll("[data-chart]")];

  /** An element of SVG with its attributes. */
  function svg(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  const finite = (y) => typeof y === "number"; // NaN and infinities are texts

  /** A number in four digits, as the tables have it. */
  function number(x) {
    if (!finite(x)) return x;
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (size >= 1e7 || size < 1e-3) return String(Number(x.toPrecision(3)).toExponential()).replace("e+", "e");
    return size >= 1000 ? Math.round(x).toLocaleString("en") : String(Number(x.toPrecision(4)));
  }

  /** About `count` round numbers between two; on a logarithmic scale 1, 2, 5 of each power of ten, or the powers alone. */
  function ticks(low, high, count, log) {
    if (log && high / low > 10) {
      const found = [], fine = high / low < 1000;
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
        for (const digit of fine ? [1, 2, 5] : [1]) found.push(digit * 10 ** power);
      return found.filter((x) => x >= low && x <= high);
    }
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((x) => x * power >= rough * 0.999);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i <= high / step + 1e-9; i++) found.push(Number((step * i).toPrecision(12)));
    return found;
  }

  /** The first place in sorted steps whose step is at least x. */
  function place(steps, x) {
    let [low, high] = [0, steps.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < x) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The place of the step nearest to x. */
  function nearest(steps, x) {
    const after = place(steps, x);
    return after > 0 && (after === steps.length || x - steps[after - 1] < steps[after] - x) ? after - 1 : after;
  }

  const shownLines = (chart) => chart.lines.filter((line) => !state.hidden.has(line.run));

  /** From where to where a picture goes up: of raw lines not the outermost hundredth. */
  function extent(chart, log) {
    let [low, high] = [Infinity, -Infinity];
    for (const line of shownLines(chart)) {
      const begin = Math.max(place(line.steps, state.from) - 1, 0);
      const values = line.values.slice(begin, place(line.steps, state.to) + 1).filter((y) => finite(y) && (!log || y > 0));
      values.sort((a, b) => a - b);
      if (values.length === 0) continue;
      const outer = line.kind === "raw" ? Math.floor(values.length / 100) : 0;
      low = Math.min(low, values[outer]);
      high = Math.max(high, values[values.length - 1 - outer]);
    }
    if (low > high) return [log ? 0.1 : 0, 1];
    if (log) return low === high ? [low / 2, high * 2] : [low * (low / high) ** 0.05, high * (high / low) ** 0.05];
    const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    return [low >= 0 && low < room ? low : low - room, high + room];
  }

  function draw(figure) {
    const chart = data.charts[figure.dataset.chart];
    const log = state.log.has(chart.name);
    const [low, high] = extent(chart, log);
    const scale = log ? Math.log : (y) => y;
    const across = (x) => (SIZE * (x - state.from)) / (state.to - state.from);
    const down = (y) => (SIZE * (scale(high) - scale(y))) / (scale(high) - scale(low));
    const picture = svg("svg", { "aria-hidden": "true" });
    const [rows, columns] = [svg("g", { class: "y" }), svg("g", { class: "x" })];
    for (const y of ticks(low, high, ROWS, log)) {
      const at = `${down(y) / 10}%`;
      rows.append(svg("line", { class: "grid", x1: 0, x2: "100%", y1: at, y2: at }), svg("text", { x: -7, y: at }, number(y)));
    }
    for (const x of ticks(state.from, state.to, COLUMNS).filter(Number.isInteger))
      columns.append(svg("text", { x: `${across(x) / 10}%`, y: "100%", dy: 18 }, number(x)));
    const lines = svg("svg", { class: "lines", viewBox: `0 0 ${SIZE} ${SIZE}`, preserveAspectRatio: "none", width: "100%", height: "100%" });
    if (chart.name === "loss") {
      const runs = data.runs.filter((_, i) => !state.hidden.has(i));
      lines.append(
        svg("path", { class: "skip", d: runs.flatMap((run) => run.skipped.map((x) => `M${across(x)} 0V${SIZE}`)).join("") }),
        svg("path", { class: "saved", d: runs.flatMap((run) => run.saved.map((x) => `M${across(x)} ${SIZE}v-25`)).join("") }),
      );
    }
    for (const line of shownLines(chart)) {
      const points = [];
      const end = Math.min(place(line.steps, state.to) + 1, line.steps.length);
      for (let i = Math.max(place(line.steps, state.from) - 1, 0); i < end; i++) {
        const y = line.values[i];
        if (finite(y) && (!log || y > 0)) points.push([line.steps[i], `${across(line.steps[i]).toFixed(1)} ${down(y).toFixed(1)}`]);
      }
      lines.append(svg("path", { class: line.look, d: points.length ? `M${points.map(([, point]) => point).join("L")}` : "" }));
      if (line.kind === "points") {
        const dots = (chosen) => chosen.map(([, point]) => `M${point}h0`).join("");
        const best = data.runs[line.run].best;
        lines.append(
          svg("path", { class: "best", d: dots(points.filter(([x]) => x === best)) }),
          svg("path", { class: `${line.look.split(" ")[0]} dots`, d: dots(points) }),
        );
      }
    }
    picture.append(rows, columns, lines, svg("rect", { class: "chosen", y: 0, height: "100%", width: 0 }));
    picture.append(svg("line", { class: "cursor", y1: 0, y2: "100%", visibility: "hidden" }));
    figure.querySelector(".plot > svg").replaceWith(picture);
  }

  /** The numbers at the step that is pointed at, or the last ones. */
  function point() {
    const { at } = state;
    for (const figure of figures) {
      const chart = data.charts[figure.dataset.chart];
      const said = [];
      for (const item of figure.querySelectorAll("[data-line]")) {
        const line = chart.lines[item.dataset.line];
        const i = at === null ? line.steps.length - 1 : nearest(line.steps, at);
        const away = at !== null && line.kind === "points" && line.steps[i] !== at ? ` (step ${number(line.steps[i])})` : "";
        item.hidden = state.hidden.has(line.run);
        item.querySelector("b").textContent = number(line.values[i]) + away;
        if (!item.hidden) said.push(`${line.name} ${number(line.values[i])}${away}`);
      }
      const plot = figure.querySelector(".plot"), cursor = plot.querySelector(".cursor");
      const x = at === null ? null : `${(100 * (at - state.from)) / (state.to - state.from)}%`;
      cursor.setAttribute("visibility", at === null || at < state.from || at > state.to ? "hidden" : "visible");
      if (x !== null) for (const end of ["x1", "x2"]) cursor.setAttribute(end, x);
      plot.setAttribute("aria-valuenow", at ?? data.last);
      plot.setAttribute("aria-valuetext", `step ${number(at ?? data.last)}: ${said.join(", ")}`);
    }
    const skipped = at !== null && data.runs.some((run, i) => !state.hidden.has(i) && run.skipped.includes(at));
    bar.querySelector("output").textContent = at === null ? "" : `step ${at.toLocaleString("en")}${skipped ? ", not applied" : ""}`;
  }

  function show() {
    figures.forEach(draw);
    for (const button of bar.querySelectorAll("[data-zoom]"))
      if (button.dataset.zoom !== "0.5") button.disabled = state.from === whole.from && state.to === whole.to;
    point();
  }

  /** Zoom to steps, within the run, not closer than a few of them. */
  function zoom(from, to) {
    const width = Math.min(Math.max(to - from, Math.min(4, whole.to)), whole.to);
    state.from = Math.min(Math.max(from, 0), whole.to - width);
    state.to = state.from + width;
    show();
  }

  /** Closer by a factor below 1, around the step that is pointed at; 0 = the whole run. */
  function closer(factor) {
    if (factor === 0) return zoom(whole.from, whole.to);
    const at = state.at !== null && state.at >= state.from && state.at <= state.to ? state.at : (state.from + state.to) / 2;
    zoom(at - (at - state.from) * factor, at + (state.to - at) * factor);
  }

  /** The steps that one can point at in a picture: those of its longest line. */
  function places(figure) {
    const lines = shownLines(data.charts[figure.dataset.chart]);
    return lines.reduce((longest, { steps }) => (steps.length > longest.length ? steps : longest), []);
  }

  function listen(figure) {
    const chart = data.charts[figure.dataset.chart];
    const plot = figure.querySelector(".plot");
    for (const [name, value] of Object.entries({ role: "slider", tabindex: 0, "aria-label": `${chart.title}: step`, "aria-valuemin": 0, "aria-valuemax": data.last }))
      plot.setAttribute(name, value);
    let begun = null;
    const share = (event) => {
      const { left, width } = plot.getBoundingClientRect();
      return Math.min(Math.max((event.clientX - left) / width, 0), 1);
    };
    const step = (part) => state.from + part * (state.to - state.from);
    plot.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      plot.setPointerCapture(event.pointerId);
      begun = share(event);
    });
    plot.addEventListener("pointermove", (event) => {
      const steps = places(figure), here = share(event);
      if (steps.length) state.at = steps[nearest(steps, step(here))];
      const chosen = plot.querySelector(".chosen");
      chosen.setAttribute("x", `${100 * Math.min(begun ?? here, here)}%`);
      chosen.setAttribute("width", begun === null ? 0 : `${100 * Math.abs(here - begun)}%`);
      point();
    });
    plot.addEventListener("pointerup", (event) => {
      const [from, to] = [Math.min(begun ?? 0, share(event)), Math.max(begun ?? 0, share(event))];
      const dragged = begun !== null && (to - from) * plot.clientWidth > 6;
      begun = null;
      if (dragged) zoom(step(from), step(to));
    });
    plot.addEventListener("pointerleave", () => {
      if (begun !== null) return;
      state.at = null;
      point();
    });
    plot.addEventListener("dblclick", () => closer(0));
    plot.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const steps = places(figure);
      const here = nearest(steps, state.at ?? data.last), far = Math.max(Math.round(steps.length / 20), 1);
      const moves = { ArrowLeft: here - 1, ArrowDown: here - 1, ArrowRight: here + 1, ArrowUp: here + 1, PageUp: here + far, PageDown: here - far, Home: 0, End: steps.length - 1 };
      const zooms = { "+": 0.5, "=": 0.5, "-": 2, Escape: 0 };
      if (event.key in moves && steps.length) {
        state.at = steps[Math.min(Math.max(moves[event.key], 0), steps.length - 1)];
        if (state.at < state.from || state.at > state.to) zoom(state.at - (state.to - state.from) / 2, state.at + (state.to - state.from) / 2);
        else point();
      } else if (event.key in zooms) closer(zooms[event.key]);
      else return;
      event.preventDefault();
    });
    if (chart.lines.every(({ values }) => values.every((y) => !finite(y) || y >= 0)) && chart.lines.some(({ values }) => values.some((y) => y > 0))) {
      const button = document.createElement("button");
      button.textContent = "log scale";
      button.setAttribute("aria-pressed", "false");
      button.setAttribute("aria-label", `${chart.title}: log scale`);
      button.addEventListener("click", () => {
        if (!state.log.delete(chart.name)) state.log.add(chart.name);
        button.setAttribute("aria-pressed", state.log.has(chart.name));
        draw(figure);
        point();
      });
      figure.querySelector("figcaption").append(button);
    }
  }

  /** A switch for each of several runs. */
  function offer(run, i) {
    const button = document.createElement("button"), swatch = document.createElement("span");
    swatch.className = `swatch c${i % 8}`;
    button.append(swatch, run.name);
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      if (!state.hidden.delete(i)) state.hidden.add(i);
      button.setAttribute("aria-pressed", !state.hidden.has(i));
      show();
    });
    bar.querySelector(".runs").append(button);
  }

  if (data.runs.length > 1) data.runs.forEach(offer);
  else bar.querySelector(".runs").remove();
  for (const button of bar.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => closer(Number(button.dataset.zoom)));
  figures.forEach(listen);
  bar.hidden = figures.length === 0;
  show();
}

if (document.getElementById("curves")) curves();
else addEventListener("fetched", curves, { once: true }); // a page that is served comes with its key
