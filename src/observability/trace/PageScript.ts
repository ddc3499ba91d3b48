/**
 * What the page does in a browser. Everything that a run said is put in as text, never as markup; only the rows that are in
 * sight exist.
 */
export const script = String.raw`
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  if (data.diff) data.diff.forEach((change, index) => { change.index = index; });
  const byId = (id) => document.getElementById(id);
  const el = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const height = 24;
  const kinds = ["agent", "user", "system", "llm", "tool", "approval", "mark"];
  const failures = new Set(["error", "blocked", "cancelled", "open", "deny", "timeout"]);
  const signs = { same: "", changed: "~", removed: "−", added: "+" };
  const list = byId("list"), room = byId("room"), detail = byId("detail"), map = byId("map");
  const state = { view: 0, hidden: new Set(), folded: new Set(), query: "", failed: false, selected: -1, shown: [] };

  const colour = (kind) => getComputedStyle(document.documentElement).getPropertyValue("--" + kind).trim();
  const span = (millis) => millis <= 0 ? "" : millis < 1000 ? Math.round(millis) + " ms" : (millis / 1000).toFixed(1) + " s";
  const tokens = (row) => row.promptTokens || row.completionTokens
    ? row.promptTokens + " → " + row.completionTokens + (row.cost ? "  $" + row.cost.toFixed(4) : "") : "";
  const isDiff = () => state.view === data.runs.length;
  const run = () => data.runs[state.view];
  const texts = (row) => row.details.flatMap((one) => [one.text, ...(one.parts || []).map((part) => data.pool[part])]);
  const haystacks = new Map();
  const haystack = (row) => {
    let text = haystacks.get(row);
    if (text === undefined) {
      text = [row.name, row.text, row.model, row.status, ...row.details.map((one) => one.text)].join("\n").toLowerCase();
      haystacks.set(row, text);
    }
    return text;
  };
  const poolHits = (query) => {
    const hits = new Set();
    data.pool.forEach((text, index) => { if (text.toLowerCase().includes(query)) hits.add(index); });
    return hits;
  };

  const bounds = (rows) => {
    let from = Infinity, to = 0;
    for (const row of rows) {
      if (row.start > 0) from = Math.min(from, row.start);
      to = Math.max(to, row.end);
    }
    return { from, length: Math.max(1, to - from) };
  };
  const limits = data.runs.map(({ rows }) => bounds(rows));
  const parents = data.runs.map(({ rows }) => new Set(rows.map((row) => row.parent)));

  const matches = (query, hits) => (row) =>
    !state.hidden.has(row.kind) && (!state.failed || failures.has(row.status)) &&
    (query === "" || haystack(row).includes(query) || row.details.some((one) => (one.parts || []).some((part) => hits.has(part))));

  const choose = () => {
    const query = state.query.trim().toLowerCase();
    const match = matches(query, query === "" ? new Set() : poolHits(query));
    if (isDiff()) {
      state.shown = data.diff.filter(({ left, right }) => {
        const a = data.runs[0].rows[left], b = data.runs[1].rows[right];
        return (a && match(a)) || (b && match(b));
      });
    } else {
      const inFold = new Set();
      const free = query !== "" || state.failed;
      state.shown = run().rows.filter((row) => {
        const away = inFold.has(row.parent);
        if (away || state.folded.has(row.id)) inFold.add(row.id);
        return (free || !away) && match(row);
      });
    }
    room.style.height = state.shown.length * height + "px";
    byId("count").textContent = state.shown.length + " of " + (isDiff() ? data.diff.length : run().rows.length);
    draw();
    drawMap();
  };

  const rowNode = (row) => {
    const node = el("div", "row" + (state.selected === row.id ? " on" : ""));
    node.style.paddingLeft = 10 + Math.min(row.depth, 30) * 14 + "px";
    const fold = el("span", "fold", parents[state.view].has(row.id) ? (state.folded.has(row.id) ? "▸" : "▾") : "");
    fold.addEventListener("click", (event) => {
      event.stopPropagation();
      if (!parents[state.view].has(row.id)) return;
      if (!state.folded.delete(row.id)) state.folded.add(row.id);
      choose();
    });
    const mark = el("span", "kind");
    mark.style.background = colour(row.kind);
    const track = el("span", "track");
    if (row.start > 0) {
      const { from, length } = limits[state.view];
      const bar = el("span", "bar");
      bar.style.left = (row.start - from) / length * 100 + "%";
      bar.style.width = Math.max(0, row.end - row.start) / length * 100 + "%";
      bar.style.background = failures.has(row.status) ? colour("bad") : colour(row.kind);
      track.append(bar);
    }
    node.append(fold, mark, el("span", "name", row.name), el("span", "text" + (failures.has(row.status) ? " bad" : ""),
      (failures.has(row.status) ? row.status + " " : "") + row.text), el("span", "cost", tokens(row)), track, el("span", "time", span(row.end - row.start)));
    node.addEventListener("click", () => select(row.id));
    return node;
  };
  const label = (row) => row ? row.name + "  " + (row.status && row.status !== "ok" ? row.status + "  " : "") + row.text : "";
  const diffNode = (change, index) => {
    const a = data.runs[0].rows[change.left], b = data.runs[1].rows[change.right];
    const node = el("div", "row " + change.state + (state.selected === index ? " on" : ""));
    node.style.paddingLeft = 10 + Math.min((a || b).depth, 30) * 14 + "px";
    const mark = el("span", "kind");
    mark.style.background = colour((a || b).kind);
    node.append(el("span", "sign", signs[change.state]), mark, el("span", "half", label(a)), el("span", "half", label(b)));
    node.addEventListener("click", () => select(index));
    return node;
  };
  let drawing = false;
  const draw = () => {
    drawing = false;
    const first = Math.max(0, Math.floor(list.scrollTop / height) - 8);
    const last = Math.min(state.shown.length, Math.ceil((list.scrollTop + list.clientHeight) / height) + 8);
    const nodes = [];
    for (let index = first; index < last; index++) {
      const node = isDiff() ? diffNode(state.shown[index], state.shown[index].index) : rowNode(state.shown[index]);
      node.style.top = index * height + "px";
      nodes.push(node);
    }
    room.replaceChildren(...nodes);
  };

  const drawMap = () => {
    const { clientWidth: width, clientHeight: tall } = map;
    const scale = window.devicePixelRatio || 1;
    map.width = width * scale;
    map.height = tall * scale;
    const pen = map.getContext("2d");
    pen.scale(scale, scale);
    pen.clearRect(0, 0, width, tall);
    map.style.display = isDiff() ? "none" : "block";
    if (isDiff()) return;
    const { from, length } = limits[state.view];
    const colours = Object.fromEntries([...kinds, "bad"].map((kind) => [kind, colour(kind)]));
    for (const row of state.shown) {
      if (row.start <= 0 || row.kind === "agent") continue;
      const y = 4 + Math.min(row.depth - 1 + row.lane, 9) * 6;
      pen.fillStyle = failures.has(row.status) ? colours.bad : colours[row.kind];
      pen.fillRect((row.start - from) / length * width, y, Math.max(1.5, (row.end - row.start) / length * width), 5);
    }
  };
  map.addEventListener("click", (event) => {
    const { from, length } = limits[state.view];
    const at = from + event.offsetX / map.clientWidth * length;
    let best = -1, distance = Infinity;
    state.shown.forEach((row, index) => {
      if (row.start <= 0 || row.kind === "agent") return;
      const away = at < row.start ? row.start - at : at > row.end ? at - row.end : (row.end - row.start) / 1e6;
      if (away < distance) { distance = away; best = index; }
    });
    if (best >= 0) reveal(best);
  });
  const reveal = (index) => {
    const top = index * height;
    if (top < list.scrollTop || top + height > list.scrollTop + list.clientHeight) list.scrollTop = Math.max(0, top - list.clientHeight / 2);
    select(isDiff() ? state.shown[index].index : state.shown[index].id);
  };

  const facts = (row) => {
    const found = [["kind", row.kind], ["model", row.model], ["status", row.status], ["start", row.start > 0 ? new Date(row.start).toISOString() : ""],
      ["time", span(row.end - row.start)], ["tokens", tokens(row)], ["cached", row.cachedTokens ? String(row.cachedTokens) : ""]];
    const box = el("dl");
    for (const [name, value] of found) if (value) box.append(el("dt", "", name), el("dd", "", value));
    return box;
  };
  const described = (row) => {
    const box = el("div");
    if (!row) return box;
    box.append(el("h2", "", row.name), facts(row));
    for (const one of row.details) {
      box.append(el("h3", "", one.title));
      if (one.text) box.append(el("pre", "", one.text));
      for (const part of one.parts || []) box.append(el("pre", "", data.pool[part]));
    }
    return box;
  };
  const select = (id) => {
    state.selected = id;
    if (isDiff()) {
      const sides = el("div", "sides");
      const { left, right } = data.diff[id];
      sides.append(described(data.runs[0].rows[left]), described(data.runs[1].rows[right]));
      detail.replaceChildren(sides);
    } else detail.replaceChildren(described(run().rows[id]));
    draw();
  };
  const show = (view) => {
    state.view = view;
    state.selected = -1;
    state.folded = new Set();
    detail.replaceChildren();
    list.scrollTop = 0;
    byId("sums").textContent = isDiff() ? data.changes : run().sums;
    for (const button of byId("views").children) button.setAttribute("aria-selected", String(Number(button.dataset.view) === view));
    choose();
  };

  data.runs.forEach(({ name }, index) => {
    const button = el("button", "", name);
    button.dataset.view = String(index);
    button.addEventListener("click", () => show(index));
    byId("views").append(button);
  });
  if (data.diff) {
    const button = el("button", "", "difference");
    button.dataset.view = String(data.runs.length);
    button.addEventListener("click", () => show(data.runs.length));
    byId("views").append(button);
  }
  for (const kind of kinds) {
    const button = el("button", "", kind);
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      if (!state.hidden.delete(kind)) state.hidden.add(kind);
      button.setAttribute("aria-pressed", String(!state.hidden.has(kind)));
      choose();
    });
    byId("kinds").append(button);
  }
  byId("failed").addEventListener("click", (event) => {
    state.failed = !state.failed;
    event.currentTarget.setAttribute("aria-pressed", String(state.failed));
    choose();
  });
  byId("search").addEventListener("input", (event) => {
    state.query = event.currentTarget.value;
    list.scrollTop = 0;
    choose();
  });
  list.addEventListener("scroll", () => {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(draw);
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    if (step === undefined || state.shown.length === 0) return;
    event.preventDefault();
    const now = state.shown.findIndex((one) => (isDiff() ? one.index : one.id) === state.selected);
    reveal(Math.max(0, Math.min(state.shown.length - 1, now + step)));
  });
  addEventListener("resize", () => { draw(); drawMap(); });
  show(data.diff ? data.runs.length : 0);
})();
`
