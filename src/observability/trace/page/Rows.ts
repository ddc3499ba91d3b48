/** The tree: only the rows in sight exist. */
export const rows = String.raw`
  const percent = (at) => {
    const { from, to } = window_();
    return (at - from) / (to - from) * 100;
  };
  const barOf = (row) => {
    const track = el("span", "track");
    const where = extent(row);
    if (where === undefined || !(where.to >= window_().from && where.from <= window_().to)) return track;
    const left = Math.max(0, percent(where.from)), right = Math.min(100, percent(where.to));
    const bar = el("span", "bar");
    bar.style.left = Math.min(left, 99.6) + "%";
    bar.style.width = Math.max(0, right - left) + "%";
    bar.style.background = isBad(row) ? colours.bad : colours[row.kind];
    if (row.kind === "agent") bar.classList.add("around");
    track.append(bar);
    return track;
  };
  const kindOf = (row) => {
    const mark = el("span", "kind", glyphs[row.kind]);
    mark.style.color = isBad(row) ? colours.bad : colours[row.kind];
    mark.title = row.kind;
    return mark;
  };
  /** A text with what was searched for marked, a hundred times at most. */
  const marked = (node, text) => {
    const query = state.query.trim().toLowerCase();
    const lower = query === "" ? "" : text.toLowerCase();
    let from = 0;
    // Where lower case has another length, places would not fit.
    for (let found = 0; query !== "" && lower.length === text.length && found < 100; found++) {
      const at = lower.indexOf(query, from);
      if (at < 0) break;
      node.append(text.slice(from, at), el("mark", "", text.slice(at, at + query.length)));
      from = at + query.length;
    }
    node.append(text.slice(from));
    return node;
  };
  const rowNode = (row, index) => {
    const node = el("div", "row" + (state.selected === row.id ? " on" : "") + (isBad(row) ? " bad" : ""));
    const holds = parents[state.view].has(row.id);
    node.id = "row-" + row.id;
    node.setAttribute("role", "treeitem");
    node.setAttribute("aria-level", String(row.depth + 1));
    node.setAttribute("aria-selected", String(state.selected === row.id));
    node.setAttribute("aria-posinset", String(index + 1));
    node.setAttribute("aria-setsize", String(state.shown.length));
    if (holds) node.setAttribute("aria-expanded", String(!state.folded.has(row.id)));
    const what = el("span", "what");
    what.style.paddingLeft = Math.min(row.depth, 24) * 16 + "px";
    const caret = el("span", "fold", holds ? (state.folded.has(row.id) ? "▸" : "▾") : "");
    if (holds) caret.addEventListener("click", (event) => {
      event.stopPropagation();
      fold(row, !state.folded.has(row.id));
    });
    const text = marked(el("span", "text"), row.text);
    if (row.status && row.status !== "ok") text.prepend(el("span", isBad(row) ? "status bad" : "status", row.status), " ");
    what.append(caret, kindOf(row), marked(el("span", "name"), row.name), text);
    node.append(what, el("span", "cost", tokens(row)), barOf(row), el("span", "time", lasted(row)));
    node.title = [row.name, row.status, lasted(row), tokens(row) && tokens(row) + " tokens", dollars(row.cost)].filter(Boolean).join(" · ");
    node.addEventListener("click", () => select(row.id));
    return node;
  };

  const signs = { same: "=", changed: "~", removed: "−", added: "+" };
  const half = (row) => {
    const node = el("span", "half");
    if (row) {
      const inner = el("span", "what");
      inner.style.paddingLeft = Math.min(row.depth, 24) * 12 + "px";
      inner.append(kindOf(row), marked(el("span", "name"), row.name), marked(el("span", "text"), (row.status && row.status !== "ok" ? row.status + " " : "") + row.text));
      node.append(inner);
    }
    return node;
  };
  const diffNode = (change, index) => {
    const node = el("div", "row " + change.state + (state.selected === change.index ? " on" : ""));
    node.id = "row-" + change.index;
    node.setAttribute("role", "treeitem");
    node.setAttribute("aria-selected", String(state.selected === change.index));
    node.setAttribute("aria-posinset", String(index + 1));
    node.setAttribute("aria-setsize", String(state.shown.length));
    const sign = el("span", "sign", signs[change.state]);
    sign.title = change.state;
    node.append(sign, half(data.runs[0].rows[change.left]), half(data.runs[1].rows[change.right]));
    node.addEventListener("click", () => select(change.index));
    return node;
  };

  let drawing = false;
  const draw = () => {
    drawing = false;
    const first = Math.max(0, Math.floor(list.scrollTop / height) - 8);
    const last = Math.min(state.shown.length, Math.ceil((list.scrollTop + list.clientHeight) / height) + 8);
    const nodes = [];
    for (let index = first; index < last; index++) {
      const node = isDiff() ? diffNode(state.shown[index], index) : rowNode(state.shown[index], index);
      node.style.top = index * height + "px";
      nodes.push(node);
    }
    room.replaceChildren(...nodes);
    if (placeOf(state.selected) >= 0) list.setAttribute("aria-activedescendant", "row-" + state.selected);
    else list.removeAttribute("aria-activedescendant");
  };
  list.addEventListener("scroll", () => {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(draw);
  });

  const reveal = (index) => {
    const top = index * height;
    if (top < list.scrollTop || top + height > list.scrollTop + list.clientHeight) list.scrollTop = Math.max(0, top - list.clientHeight / 3);
    select(keyOf(state.shown[index]));
  };
  /** Shows a row wherever it is: unfolds what is around it, and lifts the filters that hide it. */
  const go = (id) => {
    if (!isDiff()) {
      for (let at = run().rows[id]; at && at.parent >= 0; at = run().rows[at.parent]) state.folded.delete(at.parent);
      choose();
      if (placeOf(id) < 0) clearFilters();
    }
    const index = placeOf(id);
    if (index >= 0) reveal(index);
  };
`
