"use strict";
// Zooms the timelines: buttons, + - 0 n on the keyboard, Ctrl and the wheel, a double click. The axis and the tasks'
// numbers follow, and single stops take the place of their shares once they are apart. Says what is below the pointer.
// All that it shows is in the page already; without it the page lacks nothing but the zoom.
const data = JSON.parse(document.getElementById("solocore-data").textContent);
const ms = (ns, digits) => (ns / 1e6).toFixed(digits) + "\u00a0ms";

for (const figure of document.querySelectorAll("figure.zooms")) {
  const view = figure.querySelector(".wide"), svg = view.querySelector("svg.timeline"), said = figure.querySelector("output");
  const ticks = svg.querySelector(".ticks"), first = ticks.innerHTML, result = data[svg.dataset.mode];
  const end = Number(svg.dataset.endNs), lane = Number(svg.dataset.lane), cores = JSON.parse(svg.dataset.cores);
  const misses = [...svg.querySelectorAll("[data-miss-ns]")].map(m => Number(m.dataset.missNs)).sort((a, b) => a - b);
  const pad = parseFloat(getComputedStyle(view).paddingLeft), near = svg.querySelector(".near");
  const marks = new Map([...svg.querySelectorAll("path[data-number]")].map(p => [p.dataset.task, p]));
  const runs = result.timeline.filter(s => s.activity === "run" && s.start_ns < end);
  const make = (name, attributes, text = "") => {
    const made = document.createElementNS(svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  let zoom = 1;

  const width = () => svg.getBoundingClientRect().width;
  const draw = () => {
    for (const name of svg.querySelectorAll(".lane-name")) name.setAttribute("x", Math.max(view.scrollLeft - pad, 0));
    svg.classList.toggle("zoomed", zoom > 1);
    for (const dense of svg.querySelectorAll("[data-stops]"))
      dense.classList.toggle("apart", zoom * svg.dataset.mostStops >= dense.dataset.stops);
    near.replaceChildren();
    if (zoom === 1) { ticks.innerHTML = first; return; }
    const all = width(), from = Math.max(view.scrollLeft - pad, 0) / all * end, to = (view.scrollLeft - pad + view.clientWidth) / all * end;
    numbers(all, from, Math.min(to, end));
    let step = 1;
    const apart = Math.min(110, view.clientWidth / 5);
    for (let k = 0; step * all / end < apart; k++) step *= [2, 2.5, 2][k % 3];
    const digits = Math.max(0, 6 - Math.floor(Math.log10(step))), bottom = svg.dataset.bottom;
    ticks.replaceChildren();
    for (let n = Math.ceil(from / step); n * step <= Math.min(to, end); n++) {
      const x = n * step / end * 100 + "%", at = n * step / end * all + pad - view.scrollLeft;
      const anchor = at < 50 ? "start" : at > view.clientWidth - 50 ? "end" : "middle";
      ticks.append(make("line", { class: "grid", x1: x, x2: x, y1: 0, y2: bottom }),
        make("text", { class: "muted", x, y: Number(bottom) + 16, "text-anchor": anchor }, ms(n * step, digits)));
    }
  };
  // The number of each task in the part of its stretch that is shown.
  const numbers = (all, from, to) => {
    for (const s of runs) {
      const a = Math.max(s.start_ns, from), b = Math.min(s.end_ns, to);
      const mark = (b - a) / end * all > 24 && marks.get(result.tasks[s.task]?.name);
      if (!mark) continue;
      const y = cores.indexOf(s.core) * lane + Number(svg.dataset.numberY), x = (a + b) / 2 / end * 100 + "%";
      const look = { class: "number " + mark.dataset.ink, "data-fill": mark.getAttribute("fill"), "text-anchor": "middle" };
      near.append(make("text", { ...look, x, y }, mark.dataset.number));
    }
  };
  // The time `at` stays at `px` of the view.
  const set = (wanted, at, px) => {
    zoom = Math.min(Math.max(wanted, 1), 512);
    svg.style.width = zoom === 1 ? "" : zoom * 100 + "%";
    view.scrollLeft = at / end * width() + pad - px;
    figure.dataset.zoom = zoom;
    draw();
  };
  const middle = () => (view.scrollLeft + view.clientWidth / 2 - pad) / width() * end;
  const by = factor => set(zoom * factor, middle(), view.clientWidth / 2);
  const next = () => {
    const shown = zoom === 1 ? -1 : middle() + end / width();
    const miss = misses.find(ns => ns > shown) ?? misses[0];
    if (miss !== undefined) set(Math.max(zoom, 8), miss, view.clientWidth / 2);
  };
  const actions = { in: () => by(2), out: () => by(0.5), all: () => set(1, 0, 0), miss: next };
  const keys = { "+": "in", "=": "in", "-": "out", "0": "all", n: "miss" };
  for (const button of figure.querySelectorAll("button")) {
    button.addEventListener("click", actions[button.dataset.zoom]);
    if (button.dataset.zoom === "miss") button.hidden = misses.length === 0;
  }
  figure.querySelector(".controls").hidden = false;
  view.addEventListener("keydown", event => {
    const action = actions[keys[event.key]];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
  const place = event => {
    const box = svg.getBoundingClientRect();
    return [(event.clientX - box.x) / box.width * end, event.clientX - view.getBoundingClientRect().x, event.clientY - box.y];
  };
  view.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const [at, px] = place(event);
    set(zoom * 2 ** (-event.deltaY / 240), at, px);
  }, { passive: false });
  view.addEventListener("dblclick", event => { const [at, px] = place(event); set(zoom * 2, at, px); });
  view.addEventListener("scroll", draw);
  addEventListener("resize", draw);
  addEventListener("beforeprint", () => set(1, 0, 0));
  svg.addEventListener("pointermove", event => {
    const [at, , y] = place(event), core = cores[Math.floor(y / lane)];
    if (core === undefined) return;
    const found = result.timeline.find(s => s.core === core && s.start_ns <= at && at < s.end_ns);
    const doing = { run: "runs", throttled: "is throttled", prefetch: "is prefetched and locked" };
    const what = found && `${result.tasks[found.task]?.name ?? found.task} ${doing[found.activity]} from ${ms(found.start_ns, 3)} to ${ms(found.end_ns, 3)}`;
    said.textContent = `core ${core} at ${ms(at, 3)}: ${what ?? "idle"}`;
  });
}
