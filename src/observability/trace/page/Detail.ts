/** What the selected row says: whole, as text, long things folded, JSON as a tree, two sides compared by line. */
export const details = String.raw`
  const longLines = 24, longText = 3000;
  const parsed = (text) => {
    if (text.length > 400000 || !/^\s*[[{]/.test(text)) return undefined;
    try { return JSON.parse(text); } catch { return undefined; }
  };
  const scalar = (value) => marked(el("span", value === null ? "j-null" : "j-" + typeof value), JSON.stringify(value));
  const holdsQuery = (value) => {
    const query = state.query.trim().toLowerCase();
    return query !== "" && JSON.stringify(value).toLowerCase().includes(query);
  };
  const jsonNode = (key, value, depth) => {
    const name = key === undefined ? [] : [el("span", "j-key", key), ": "];
    if (value === null || typeof value !== "object") {
      const line = el("div", "j-line");
      if (typeof value === "string" && (value.includes("\n") || value.length > 160)) {
        const block = folded(value);
        block.classList.add("j-text");
        line.append(...name, block);
      } else line.append(...name, scalar(value));
      return line;
    }
    const entries = Array.isArray(value) ? value.map((one, index) => [String(index), one]) : Object.entries(value);
    const brackets = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
    if (entries.length === 0) {
      const line = el("div", "j-line");
      line.append(...name, brackets.join(""));
      return line;
    }
    const box = el("details", "j");
    const head = el("summary");
    head.append(...name, brackets[0], el("span", "j-count", " " + entries.length + " "), brackets[1]);
    box.append(head);
    // What is folded is made when it is opened.
    let made = false;
    const fill = () => {
      if (made) return;
      made = true;
      for (const [one, inner] of entries.slice(0, 500)) box.append(jsonNode(one, inner, depth + 1));
      if (entries.length > 500) box.append(el("div", "j-line dim", "… " + (entries.length - 500) + " more, see the text"));
    };
    box.addEventListener("toggle", () => { if (box.open) fill(); });
    if ((depth < 2 && entries.length <= 30) || holdsQuery(value)) {
      fill();
      box.open = true;
    }
    return box;
  };
  const folded = (text) => {
    const lines = text.split("\n");
    const pre = marked(el("pre"), text);
    if (lines.length <= longLines && text.length <= longText) return pre;
    const box = el("div", "long");
    const begin = lines.slice(0, longLines).join("\n").slice(0, longText);
    const shows = (shown) => {
      pre.replaceChildren();
      marked(pre, shown);
    };
    const asked = state.query.trim().toLowerCase();
    const isBehind = asked !== "" && !begin.toLowerCase().includes(asked) && text.toLowerCase().includes(asked);
    shows(isBehind ? text : begin);
    const all = "show all: " + number.format(lines.length) + " lines, " + number.format(text.length) + " characters";
    const more = el("button", "more", isBehind ? "show less" : all);
    more.addEventListener("click", () => {
      const whole = pre.textContent.length > begin.length;
      shows(whole ? begin : text);
      more.textContent = whole ? all : "show less";
    });
    box.append(pre, more);
    return box;
  };
  const copier = (text) => {
    const button = el("button", "copy", "copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "copied";
      } catch {
        button.textContent = "not allowed here";
      }
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
    return button;
  };
  const shownText = (text) => {
    const value = parsed(text);
    return value === undefined ? folded(text) : jsonNode(undefined, value, 0);
  };
  const section = (one) => {
    const parts = one.parts || [];
    const box = el("section");
    const head = el("h3", "", one.title + (parts.length > 0 ? " (" + parts.length + ")" : ""));
    if (one.text) head.append(copier(one.text));
    box.append(head);
    if (one.text) box.append(shownText(one.text));
    parts.forEach((part, index) => {
      const text = data.pool[part];
      const value = parsed(text);
      const said = value && typeof value.content === "string" ? value.content.replace(/\s+/g, " ").slice(0, 90) : "";
      const message = el("details", "message");
      message.append(el("summary", "", (value && value.role ? value.role : "message " + (index + 1)) + (said ? ": " + said : "")));
      message.addEventListener("toggle", () => {
        if (message.open && message.children.length === 1) message.append(shownText(text));
      });
      if (index === parts.length - 1 || holdsQuery(text)) {
        message.append(shownText(text));
        message.open = true;
      }
      box.append(message);
    });
    return box;
  };
  const facts = (row) => {
    const found = [
      ["kind", row.kind], ["model", row.model], ["status", row.status],
      ["start", row.start > 0 ? new Date(row.start).toISOString().replace("T", " ").replace("Z", " UTC") : ""],
      ["time", lasted(row)], ["tokens", tokens(row)],
      ["cached", row.cachedTokens ? number.format(row.cachedTokens) + " (" + Math.round(row.cachedTokens / Math.max(1, row.promptTokens) * 100) + " % of the prompt)" : ""],
      ["cost", dollars(row.cost)]
    ];
    const box = el("dl");
    for (const [name, value] of found) if (value) box.append(el("dt", "", name), el("dd", name === "status" && isBad(row) ? "bad" : "", value));
    return box;
  };
  const trail = (row) => {
    const nav = el("nav", "trail");
    nav.setAttribute("aria-label", "Around this");
    for (let at = run().rows[row.parent]; at; at = run().rows[at.parent]) {
      const { id } = at;
      const link = el("button", "link", at.name);
      link.addEventListener("click", () => go(id));
      nav.prepend(link, " ▸ ");
    }
    return nav;
  };
  const described = (row) => {
    const box = el("div");
    if (!row) return box;
    if (!isDiff() && row.parent >= 0) box.append(trail(row));
    const head = el("h2");
    head.append(kindOf(row), " ", row.name);
    box.append(head, facts(row), ...row.details.map(section));
    return box;
  };

  /** Lines of two texts side by side: the longest common ones pair them. */
  const lineDiff = (left, right) => {
    const a = left.split("\n"), b = right.split("\n");
    if (a.length * b.length > 4e6) return undefined;
    const table = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i--) {
      for (let j = b.length - 1; j >= 0; j--) table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
    const lines = [];
    let i = 0, j = 0;
    while (i < a.length || j < b.length) {
      if (i < a.length && j < b.length && a[i] === b[j]) { lines.push([" ", a[i++]]); j++; }
      else if (j >= b.length || (i < a.length && table[i + 1][j] >= table[i][j + 1])) lines.push(["-", a[i++]]);
      else lines.push(["+", b[j++]]);
    }
    return lines;
  };
  const whole = (one) => one ? [one.text, ...(one.parts || []).map((part) => data.pool[part])].filter(Boolean).join("\n") : "";
  const compared = (a, b) => {
    const box = el("div");
    const same = el("div");
    const titles = new Set([...(a ? a.details : []), ...(b ? b.details : [])].map(({ title }) => title));
    for (const title of titles) {
      const left = whole(a && a.details.find((one) => one.title === title)), right = whole(b && b.details.find((one) => one.title === title));
      if (left === right) {
        const kept = el("details", "message");
        kept.append(el("summary", "", title + ": the same in both"), folded(left));
        same.append(kept);
        continue;
      }
      box.append(el("h3", "", title));
      const lines = lineDiff(left, right);
      if (lines === undefined) {
        box.append(folded(left), folded(right));
        continue;
      }
      const pre = el("pre", "lines");
      for (const [sign, line] of lines) pre.append(el("span", sign === "-" ? "minus" : sign === "+" ? "plus" : "", sign + " " + line + "\n"));
      box.append(pre);
    }
    box.append(same);
    return box;
  };
  const describeChange = ({ left, right, state: what }) => {
    const a = data.runs[0].rows[left], b = data.runs[1].rows[right];
    const box = el("div");
    const head = el("h2");
    head.append(kindOf(a || b), " ", (a || b).name, el("span", "status", what));
    const sides = el("div", "sides");
    for (const [one, { name }] of [[a, data.runs[0]], [b, data.runs[1]]]) {
      const side = el("div");
      side.append(el("h3", "", name), one ? facts(one) : el("p", "dim", "not in this run"));
      sides.append(side);
    }
    box.append(head, sides, compared(a, b));
    return box;
  };
  const select = (key) => {
    state.selected = key;
    detail.replaceChildren(isDiff() ? describeChange(data.diff[key]) : described(run().rows[key]));
    detail.scrollTop = 0;
    draw();
    drawMap();
    remember();
  };
`
