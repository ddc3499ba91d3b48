/** What the page's script begins with: the data, the state, and words for numbers. */
export const base = String.raw`
  const data = JSON.parse(document.getElementById("data").textContent);
  if (data.diff) data.diff.forEach((change, index) => { change.index = index; });
  /** @type {(id: string) => any} */
  const byId = (id) => document.getElementById(id);
  /** @type {(tag: string, className?: string, text?: string) => any} */
  const el = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const height = 26;
  const kinds = ["agent", "user", "system", "llm", "tool", "approval", "mark"];
  const labels = { agent: "Agents", user: "User", system: "System", llm: "Model", tool: "Tools", approval: "Approvals", mark: "Marks" };
  const glyphs = { agent: "◆", user: "›", system: "§", llm: "✦", tool: "⚙", approval: "?", mark: "·" };
  const failures = new Set(["error", "blocked", "cancelled", "open", "deny", "timeout"]);
  const isBad = (row) => failures.has(row.status);
  const list = byId("list"), room = byId("room"), detail = byId("detail"), map = byId("map"), search = byId("search");

  const state = {
    view: 0, hidden: new Set(), folded: new Set(), query: "", failed: false, changes: Boolean(data.diff), scale: "time",
    selected: -1, shown: [], zoom: undefined
  };
  const isDiff = () => state.view === data.runs.length;
  const run = () => data.runs[state.view];
  const keyOf = (one) => isDiff() ? one.index : one.id;

  const number = new Intl.NumberFormat("en");
  const span = (millis) => {
    if (!(millis > 0)) return "";
    if (millis < 1) return "<1 ms";
    if (millis < 1000) return Math.round(millis) + " ms";
    if (millis < 60000) return (millis / 1000).toFixed(millis < 10000 ? 2 : 1) + " s";
    const minutes = Math.floor(millis / 60000);
    return minutes < 60
      ? minutes + " min " + Math.round(millis % 60000 / 1000) + " s"
      : Math.floor(minutes / 60) + " h " + minutes % 60 + " min";
  };
  const short = (count) => count < 10000 ? number.format(count) : count < 1e6 ? (count / 1000).toFixed(count < 1e5 ? 1 : 0) + "k" : (count / 1e6).toFixed(1) + "M";
  const dollars = (cost) => cost > 0 ? "$" + cost.toFixed(4) : "";
  const tokens = (row) => row.promptTokens || row.completionTokens ? short(row.promptTokens) + " → " + short(row.completionTokens) : "";
  const lasted = (row) => span(row.end - row.start);

  /** Where each row begins and ends, in milliseconds and in tokens that were used before it. */
  const places = data.runs.map(({ rows }) => {
    let used = 0;
    const ends = new Float64Array(rows.length);
    const found = rows.map((row) => {
      const from = used;
      used += row.promptTokens + row.completionTokens;
      return { from, to: used };
    });
    // What contains others lasts until their end.
    for (let index = rows.length - 1; index >= 0; index--) {
      const { parent } = rows[index];
      ends[index] = Math.max(ends[index], found[index].to);
      if (parent >= 0) ends[parent] = Math.max(ends[parent], ends[index]);
    }
    return found.map(({ from }, index) => ({ from, to: ends[index] }));
  });
  const limits = data.runs.map(({ rows }, view) => {
    let from = Infinity, to = 0;
    for (const row of rows) {
      if (row.start > 0) from = Math.min(from, row.start);
      to = Math.max(to, row.end);
    }
    const last = places[view].reduce((most, one) => Math.max(most, one.to), 0);
    return { time: { from: from === Infinity ? 0 : from, to: Math.max(to, from === Infinity ? 1 : from + 1) }, tokens: { from: 0, to: Math.max(1, last) } };
  });
  const parents = data.runs.map(({ rows }) => new Set(rows.map((row) => row.parent)));
  /** What the bars show: all, or what was zoomed into. */
  const window_ = () => state.zoom || limits[state.view][state.scale];
  const extent = (row) => state.scale === "time"
    ? row.start > 0 ? { from: row.start, to: Math.max(row.start, row.end) } : undefined
    : places[state.view][row.id];
  const inScale = (amount) => state.scale === "time" ? span(amount).replace(/\.0+ s$/, " s") || "0" : short(Math.round(amount));

  const palette = () => {
    const style = getComputedStyle(document.documentElement);
    return Object.fromEntries([...kinds, "bad", "line", "dim", "fg", "hot"].map((name) => [name, style.getPropertyValue("--" + name).trim()]));
  };
  let colours = palette();
`
