"use strict";
// Zooms the timelines: buttons, + - 0 n on the keyboard, Ctrl and the wheel, a double click. Says what is below the
// pointer. All that it shows is in the page already; without it the page lacks nothing but the zoom.
const data = JSON.parse(document.getElementById("solocore-data").textContent);
const ms = (ns, digits) => (ns / 1e6).toFixed(digits) + "\u00a0ms";

for (const figure of document.querySelectorAll("figure.zooms")) {
  const view = figure.querySelector(".wide"), svg = view.querySelector("svg.timeline"), said = figure.querySelector("output");
  const ticks = svg.querySelector(".ticks"), first = ticks.innerHTML, result = data[svg.dataset.mode];
  const end = Number(svg.dataset.endNs), lane = Number(svg.dataset.lane), cores = JSON.parse(svg.dataset.cores);
  const misses = [...svg.querySelectorAll("[data-miss-ns]")].map(m => Number(m.dataset.missNs)).sort((a, b) => a - b);
  const pad = parseFloat(getComputedStyle(view).paddingLeft);
  let zoom = 1;

  const width = () => svg.getBoundingClientRect().width;
  const draw = () => {
    for (const name of svg.querySelectorAll(".lane-name")) name.setAttribute("x", Math.max(view.scrollLeft - pad, 0));
    if (zoom === 1) { ticks.innerHTML = first; return; }
    const all = width(), from = Math.max(view.scrollLeft - pad, 0) / all * end, to = (view.scrollLeft - pad + view.clientWidth) / all * end;
    let step = 1;
    for (let k = 0; step * all / end < 110; k++) step *= [2, 2.5, 2][k % 3];
    const digits = Math.max(0, 6 - Math.floor(Math.log10(step))), bottom = svg.dataset.bottom;
    ticks.replaceChildren();
    for (let n = Math.ceil(from / step); n * step <= Math.min(to, end); n++) {
      const x = n * step / end * 100 + "%", line = document.createElementNS(svg.namespaceURI, "line"), text = document.createElementNS(svg.namespaceURI, "text");
      for (const [name, value] of [["class", "grid"], ["x1", x], ["x2", x], ["y1", 0], ["y2", bottom]]) line.setAttribute(name, value);
      const at = n * step / end * all + pad - view.scrollLeft;
      const anchor = at < 50 ? "start" : at > view.clientWidth - 50 ? "end" : "middle";
      for (const [name, value] of [["class", "muted"], ["x", x], ["y", Number(bottom) + 16], ["text-anchor", anchor]]) text.setAttribute(name, value);
      text.textContent = ms(n * step, digits);
      ticks.append(line, text);
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
  svg.addEventListener("pointermove", event => {
    const [at, , y] = place(event), core = cores[Math.floor(y / lane)];
    if (core === undefined) return;
    const found = result.timeline.find(s => s.core === core && s.start_ns <= at && at < s.end_ns);
    const doing = { run: "runs", throttled: "is stopped by the regulator", prefetch: "is prefetched and locked" };
    const what = found && `${result.tasks[found.task]?.name ?? found.task} ${doing[found.activity]} from ${ms(found.start_ns, 3)} to ${ms(found.end_ns, 3)}`;
    said.textContent = `core ${core} at ${ms(at, 3)}: ${what ?? "idle"}`;
  });
}
