/* page.js: the page stays as the server makes it; this replaces sections that have changed and reads values off curves.
 * Without it everything can be read, and pages of runs that train load themselves anew.
 */
"use strict";

(() => {
  const live = document.getElementById("live");
  const say = (state, text) => { live.hidden = false; live.className = state; live.textContent = text; };

  // --- what changes ---

  /* What a person has done to a section outlives it: ticks, chosen tabs, opened details. */
  function replace(old, fresh) {
    const inputs = [...old.querySelectorAll("input")].map((e) => [e.id, e.checked]);
    const open = [...old.querySelectorAll("details")].map((e) => e.open);
    const focus = old.contains(document.activeElement) ? document.activeElement.id : "";
    old.replaceChildren(...document.importNode(fresh, true).childNodes);
    for (const [id, checked] of inputs) {
      const input = id && document.getElementById(id);
      if (input && input.checked !== checked) input.checked = checked;
    }
    old.querySelectorAll("details").forEach((e, i) => { e.open = Boolean(open[i]); });
    if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
  }

  const shown = new Map();
  document.querySelectorAll("section[id]").forEach((s) => shown.set(s.id, s.innerHTML));

  function update(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const sections = [...fresh.querySelectorAll("main section[id]")];
    const here = [...document.querySelectorAll("main section[id]")];
    if (sections.map((s) => s.id).join() !== here.map((s) => s.id).join()) {
      if (sections.length) document.querySelector("main").replaceChildren(...document.importNode(fresh.querySelector("main"), true).childNodes);
      sections.forEach((s) => shown.set(s.id, s.innerHTML));
    } else {
      sections.forEach((s, i) => {
        if (shown.get(s.id) === s.innerHTML) return;
        shown.set(s.id, s.innerHTML);
        replace(here[i], s);
      });
    }
    document.title = fresh.title;
    count();
    again();
  }

  let busy = false, wanted = false;
  async function refresh() {
    if (document.hidden || busy) { wanted = true; return; }
    busy = true;
    wanted = false;
    try {
      const answer = await fetch(location.pathname + location.search, { credentials: "same-origin" });
      if (answer.ok) update(await answer.text());
      document.documentElement.dataset.updates = Number(document.documentElement.dataset.updates || 0) + 1;
    } catch { /* the events say that the server is gone */ }
    busy = false;
    if (wanted) refresh();
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden && wanted) refresh(); });

  const address = document.body.dataset.events;
  if (address) {
    const events = new EventSource(address);
    events.addEventListener("open", () => say("on", "live"));
    events.addEventListener("change", refresh);
    events.addEventListener("gone", () => { events.close(); say("lost", "the run was removed"); });
    events.addEventListener("error", () => say("lost", "no connection; trying again"));
    addEventListener("pagehide", () => events.close());
    addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); });
  }

  // --- ticking runs ---

  function count() {
    const button = document.querySelector("form button");
    if (!button) return;
    const n = document.querySelectorAll('input[name="r"]:checked').length;
    button.disabled = n < 2;
    button.textContent = n < 2 ? "Compare ticked runs" : `Compare ${n} runs`;
  }
  document.addEventListener("change", count);
  count();

  // --- reading values ---

  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  let cursor = null, last = null;

  const scale = (text) => {
    const [from, to, low, high, kind, factor, ...unit] = text.split(" ");
    return { from: +from, to: +to, low: +low, high: +high, log: kind === "log", factor: +factor, unit: unit.join(" ") };
  };
  const valueAt = (s, place) => {
    const t = (place - s.from) / (s.to - s.from);
    return s.log ? Math.exp(Math.log(s.low) + t * (Math.log(s.high) - Math.log(s.low))) : s.low + t * (s.high - s.low);
  };
  const words = (s, value, digits = 4) => {
    const v = value * s.factor;
    const text = Math.abs(v) >= (s.unit ? 1e4 : 100) ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(digits));
    return s.unit ? `${text} ${s.unit}` : text;
  };

  /* The lines of a plot as lists of places; read once. */
  function curves(plot) {
    if (plot.curves) return plot.curves;
    plot.curves = [];
    for (const path of plot.querySelectorAll("path[fill=none]")) {
      if (path.closest("svg") !== plot || !(+path.getAttribute("stroke-width") >= 1.6)) continue;
      const numbers = path.getAttribute("d").match(/-?\d+(\.\d+)?/g).map(Number), points = [];
      for (let i = 0; i + 1 < numbers.length; i += 2) points.push([numbers[i], numbers[i + 1]]);
      const name = path.parentNode.firstElementChild?.tagName === "title" ? path.parentNode.firstElementChild.textContent : "";
      plot.curves.push({ path, points, name });
    }
    return plot.curves;
  }
  function nearest(points, x) {
    let low = 0, high = points.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points[middle][0] <= x) low = middle; else high = middle;
    }
    return Math.abs(points[low][0] - x) <= Math.abs(points[high][0] - x) ? points[low] : points[high];
  }

  function hide() {
    tip.hidden = true;
    cursor?.remove();
    cursor = last = null;
  }

  function show(plot, event) {
    const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(plot.getScreenCTM().inverse());
    const sx = scale(plot.dataset.x), sy = scale(plot.dataset.y), found = [];
    let at = null;
    for (const curve of curves(plot)) {
      const point = nearest(curve.points, place.x);
      if (Math.abs(point[0] - place.x) > 40) continue;
      if (at === null || Math.abs(point[0] - place.x) < Math.abs(at - place.x)) at = point[0];
      found.push({ ...curve, y: point[1] });
    }
    if (!found.length) { hide(); return; }
    tip.replaceChildren();
    const head = document.createElement("div");
    head.textContent = `${plot.dataset.name || "at"} ${words(sx, valueAt(sx, at), 5)}`;
    tip.append(head);
    for (const f of found.reverse()) {
      const row = document.createElement("div"), colour = document.createElement("i"), value = document.createElement("b");
      colour.style.background = getComputedStyle(f.path).stroke;
      value.textContent = words(sy, valueAt(sy, f.y));
      row.append(colour, f.name ? `${f.name} ` : "", value);
      tip.append(row);
    }
    tip.hidden = false;
    const left = Math.min(event.pageX + 14, document.documentElement.clientWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(left, 4)}px`;
    tip.style.top = `${event.pageY + 16}px`;
    if (!cursor || cursor.parentNode !== plot) {
      cursor?.remove();
      cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
      cursor.setAttribute("class", "cursor");
      plot.append(cursor);
    }
    for (const [name, v] of [["x1", at], ["x2", at], ["y1", sy.from], ["y2", sy.to]]) cursor.setAttribute(name, v);
  }

  const follow = (event) => {
    const plot = [...document.querySelectorAll("svg[data-x]")].find((s) => {
      const box = s.getBoundingClientRect();
      return event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
    });
    if (!plot) { hide(); return; }
    last = { plot, clientX: event.clientX, clientY: event.clientY, pageX: event.pageX, pageY: event.pageY };
    show(plot, event);
  };
  document.addEventListener("pointermove", follow);
  document.addEventListener("pointerdown", follow);
  document.addEventListener("pointerleave", hide);

  /* The picture under the pointer was replaced. */
  function again() {
    if (last) follow(last);
  }
})();
