/** Which rows are shown: search, filters, folds, and what is wrong. */
export const choosing = String.raw`
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
  const says = (query, hits) => (row) =>
    query === "" || haystack(row).includes(query) || row.details.some((one) => (one.parts || []).some((part) => hits.has(part)));
  const isAllowed = (row) => !state.hidden.has(row.kind) && (!state.failed || isBad(row));

  const choose = () => {
    const query = state.query.trim().toLowerCase();
    const match = says(query, query === "" ? new Set() : poolHits(query));
    const all = isDiff() ? data.diff : run().rows;
    if (isDiff()) {
      state.shown = all.filter(({ left, right, state: what }) => {
        const a = data.runs[0].rows[left], b = data.runs[1].rows[right];
        return !(state.changes && what === "same") && [a, b].some((row) => row && isAllowed(row) && match(row));
      });
    } else {
      const inFold = new Set();
      const free = query !== "" || state.failed;
      state.shown = all.filter((row) => {
        const away = inFold.has(row.parent);
        if (away || state.folded.has(row.id)) inFold.add(row.id);
        return (free || !away) && isAllowed(row) && match(row);
      });
    }
    room.style.height = state.shown.length * height + "px";
    byId("count").textContent = state.shown.length === all.length ? number.format(all.length) + " rows" : number.format(state.shown.length) + " of " + number.format(all.length);
    byId("none").hidden = state.shown.length > 0;
    draw();
    drawMap();
  };
  const placeOf = (key) => state.shown.findIndex((one) => keyOf(one) === key);

  /** The next or the previous row that failed, after the selected one, around the end. */
  const nextFailure = (step) => {
    const isOne = (one) => isDiff()
      ? one.state !== "same"
      : isBad(one);
    const count = state.shown.length;
    const from = placeOf(state.selected);
    for (let tried = 1; tried <= count; tried++) {
      const index = ((from < 0 && step < 0 ? 0 : from) + step * tried + count * 2) % count;
      if (isOne(state.shown[index])) return reveal(index);
    }
  };
  const fold = (row, closed) => {
    if (!parents[state.view].has(row.id)) return;
    if (closed) state.folded.add(row.id);
    else state.folded.delete(row.id);
    choose();
  };
`
