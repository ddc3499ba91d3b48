/** Tabs, filters, keys, and the place in the address. */
export const main = String.raw`
  const remember = () => {
    const place = new URLSearchParams({ view: String(state.view) });
    if (state.selected >= 0) place.set("row", String(state.selected));
    // An address that can not be changed (a page without one) is no reason to stop.
    try { history.replaceState(null, "", "#" + place); } catch {}
  };
  const restore = () => {
    const place = new URLSearchParams(location.hash.slice(1));
    const view = Number(place.get("view") ?? NaN);
    if (!Number.isInteger(view) || view < 0 || view >= tabs.length) return false;
    const row = Number(place.get("row") ?? NaN);
    show(view);
    const count = isDiff() ? data.diff.length : run().rows.length;
    if (Number.isInteger(row) && row >= 0 && row < count) go(row);
    return true;
  };
  const show = (view) => {
    Object.assign(state, { view, selected: -1, folded: new Set(), zoom: undefined });
    detail.replaceChildren(el("p", "dim", "Choose a row to see all of it. Press ? for the keys."));
    list.scrollTop = 0;
    byId("sums").replaceChildren(...(isDiff() ? data.changes : run().sums).map(({ bad, name, value }) => {
      const chip = el("span", bad ? "sum bad" : "sum");
      chip.append(el("b", "", value), " " + name);
      return chip;
    }));
    tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(index === view));
      tab.tabIndex = index === view ? 0 : -1;
    });
    byId("changes").hidden = !isDiff();
    byId("failed").hidden = isDiff();
    for (const id of ["scale", "foldAll", "axisRow"]) byId(id).hidden = isDiff();
    const rows = isDiff() ? data.runs.flatMap((one) => one.rows) : run().rows;
    for (const kind of kinds) {
      const count = rows.reduce((sum, row) => sum + (row.kind === kind ? 1 : 0), 0);
      chips[kind].hidden = count === 0;
      chips[kind].lastChild.textContent = labels[kind] + " " + short(count);
    }
    const bad = rows.reduce((sum, row) => sum + (isBad(row) ? 1 : 0), 0);
    byId("failed").textContent = "Failures " + bad;
    byId("failed").disabled = bad === 0;
    if (bad === 0) press("failed", "failed", false);
    choose();
    remember();
  };

  const tabs = [...data.runs.map(({ name }) => name), ...(data.diff ? ["Difference"] : [])].map((name, view) => {
    const tab = el("button", "tab", name);
    tab.setAttribute("role", "tab");
    tab.addEventListener("click", () => show(view));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined) return;
      const next = (view + step + tabs.length) % tabs.length;
      show(next);
      tabs[next].focus();
    });
    return tab;
  });
  byId("views").append(...tabs);
  const press = (id, name, on) => {
    state[name] = on;
    byId(id).setAttribute("aria-pressed", String(on));
  };
  const chips = Object.fromEntries(kinds.map((kind) => {
    const chip = el("button", "chip");
    const glyph = el("span", "kind", glyphs[kind]);
    glyph.style.color = "var(--" + kind + ")";
    chip.append(glyph, el("span", "", labels[kind]));
    chip.setAttribute("aria-pressed", "true");
    chip.addEventListener("click", () => {
      if (!state.hidden.delete(kind)) state.hidden.add(kind);
      chip.setAttribute("aria-pressed", String(!state.hidden.has(kind)));
      choose();
    });
    return [kind, chip];
  }));
  byId("kinds").append(...Object.values(chips));
  const clearFilters = () => {
    state.hidden.clear();
    for (const chip of Object.values(chips)) chip.setAttribute("aria-pressed", "true");
    press("failed", "failed", false);
    press("changes", "changes", false);
    search.value = state.query = "";
    choose();
  };
  byId("clear").addEventListener("click", clearFilters);
  for (const name of ["failed", "changes"]) {
    byId(name).addEventListener("click", () => {
      press(name, name, !state[name]);
      list.scrollTop = 0;
      choose();
    });
  }
  press("changes", "changes", state.changes);
  search.addEventListener("input", () => {
    state.query = search.value;
    list.scrollTop = 0;
    choose();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      search.value = state.query = "";
      choose();
      list.focus();
    } else if ((event.key === "Enter" || event.key === "ArrowDown") && state.shown.length > 0) {
      event.preventDefault();
      list.focus();
      if (placeOf(state.selected) < 0) reveal(0);
    }
  });
  byId("foldAll").addEventListener("click", () => {
    const closed = state.folded.size === 0;
    state.folded = new Set(closed ? run().rows.filter((row) => row.depth > 0 && parents[state.view].has(row.id)).map(({ id }) => id) : []);
    if (closed && state.folded.size === 0) state.folded = new Set(run().rows.filter((row) => parents[state.view].has(row.id)).map(({ id }) => id));
    choose();
  });

  list.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || state.shown.length === 0) return;
    const now = placeOf(state.selected);
    const last = state.shown.length - 1;
    const page = Math.max(1, Math.floor(list.clientHeight / height) - 1);
    const to = { ArrowDown: now + 1, j: now + 1, ArrowUp: now - 1, k: now - 1, PageDown: now + page, PageUp: now - page, Home: 0, End: last }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      return reveal(Math.max(0, Math.min(last, to)));
    }
    if (isDiff() || now < 0) return;
    const row = state.shown[now];
    const holds = parents[state.view].has(row.id);
    if (event.key === "ArrowRight") {
      event.preventDefault();
      if (holds && state.folded.has(row.id)) fold(row, false);
      else if (holds && now < last) reveal(now + 1);
    } else if (event.key === "ArrowLeft") {
      event.preventDefault();
      if (holds && !state.folded.has(row.id)) fold(row, true);
      else if (row.parent >= 0) go(row.parent);
    } else if (event.key === "Enter") detail.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === search) return;
    if (event.key === "/") {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "n" || event.key === "N") nextFailure(event.key === "n" ? 1 : -1);
    else if (event.key === "?") byId("help").showModal();
    else if (event.key === "Escape" && event.target !== list) list.focus();
  });
  byId("keys").addEventListener("click", () => byId("help").showModal());
  addEventListener("resize", () => { draw(); drawMap(); });
  addEventListener("hashchange", restore);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours = palette(); draw(); drawMap(); });
  if (!restore()) show(data.diff ? data.runs.length : 0);
  list.focus({ preventScroll: true });
`
