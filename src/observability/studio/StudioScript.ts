/**
 * Script and style of the studio. Generated from `page/Studio.ts` and `page/studio.css` by `npm run build:page`: change those.
 */
export const script = `
/*! uplot
The MIT License (MIT)

Copyright (c) 2022 Leon Sorokin

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in
all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN
THE SOFTWARE.
*/
/*! marked
# License information

## Contribution License Agreement

If you contribute code to this project, you are implicitly allowing your code
to be distributed under the MIT license. You are also implicitly verifying that
all code is your original work. \`</legalese>\`

## Marked

Copyright (c) 2018+, MarkedJS (https://github.com/markedjs/)
Copyright (c) 2011-2018, Christopher Jeffrey (https://github.com/chjj/)

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in
all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN
THE SOFTWARE.

## Markdown

Copyright © 2004, John Gruber
http://daringfireball.net/
All rights reserved.

Redistribution and use in source and binary forms, with or without modification, are permitted provided that the following conditions are met:

* Redistributions of source code must retain the above copyright notice, this list of conditions and the following disclaimer.
* Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the following disclaimer in the documentation and/or other materials provided with the distribution.
* Neither the name “Markdown” nor the names of its contributors may be used to endorse or promote products derived from this software without specific prior written permission.

This software is provided by the copyright holders and contributors “as is” and any express or implied warranties, including, but not limited to, the implied warranties of merchantability and fitness for a particular purpose are disclaimed. In no event shall the copyright owner or contributors be liable for any direct, indirect, incidental, special, exemplary, or consequential damages (including, but not limited to, procurement of substitute goods or services; loss of use, data, or profits; or business interruption) however caused and on any theory of liability, whether in contract, strict liability, or tort (including negligence or otherwise) arising in any way out of the use of this software, even if advised of the possibility of such damage.
*/
"use strict";
(function() {
	const el = (tag, className = "", text) => {
		const made = document.createElement(tag);
		if (className !== "") made.className = className;
		if (text !== void 0) made.textContent = text;
		return made;
	};
	const make = (tag, attributes = {}, ...inside) => {
		const made = el(tag);
		for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
		made.append(...inside);
		return made;
	};
	const setPressed = (button, on) => button.setAttribute("aria-pressed", String(on));
	const kinds = [
		"agent",
		"user",
		"system",
		"llm",
		"tool",
		"approval",
		"mark"
	];
	const glyphs = {
		agent: "◆",
		user: "›",
		system: "§",
		llm: "✦",
		tool: "⚙",
		approval: "?",
		mark: "·"
	};
	const read$1 = () => {
		const style = getComputedStyle(document.documentElement);
		const colour = (name) => style.getPropertyValue(\`--\${name}\`).trim();
		return {
			agent: colour("agent"),
			user: colour("user"),
			system: colour("system"),
			llm: colour("llm"),
			tool: colour("tool"),
			approval: colour("approval"),
			mark: colour("mark"),
			bad: colour("bad"),
			line: colour("line"),
			dim: colour("dim"),
			fg: colour("fg"),
			hot: colour("hot"),
			panel: colour("panel"),
			focus: colour("focus")
		};
	};
	let colours = read$1();
	const readColours = () => {
		colours = read$1();
	};
	const format = new Intl.NumberFormat("en");
	const exact = (count) => format.format(count);
	const short = (count) => count < 1e4 ? exact(count) : count < 1e6 ? \`\${(count / 1e3).toFixed(count < 1e5 ? 1 : 0)}k\` : \`\${(count / 1e6).toFixed(1)}M\`;
	const duration = (millis) => {
		if (!(millis > 0)) return "";
		if (millis < 1) return "<1 ms";
		if (millis < 1e3) return \`\${Math.round(millis)} ms\`;
		if (millis < 6e4) return \`\${(millis / 1e3).toFixed(millis < 1e4 ? 2 : 1)} s\`;
		const minutes = Math.floor(millis / 6e4);
		return minutes < 60 ? \`\${minutes} min \${Math.round(millis % 6e4 / 1e3)} s\` : \`\${Math.floor(minutes / 60)} h \${minutes % 60} min\`;
	};
	const lasted = (row) => duration(row.end - row.start);
	const dollars = (cost) => cost > 0 ? \`$\${cost.toFixed(4)}\` : "";
	const tokens = (row) => row.promptTokens > 0 || row.completionTokens > 0 ? \`\${short(row.promptTokens)} → \${short(row.completionTokens)}\` : "";
	const failures = new Set([
		"error",
		"failed",
		"blocked",
		"cancelled",
		"interrupted",
		"open",
		"deny",
		"timeout"
	]);
	const isFailed = ({ status }) => failures.has(status) || /^exit -?\\d+$/u.test(status);
	let data = {
		runs: [],
		pool: []
	};
	const state = {
		view: 0,
		hidden: new Set(),
		folded: new Set(),
		query: "",
		failed: false,
		changes: true,
		scale: "time",
		selected: -1,
		shown: [],
		zoom: void 0
	};
	const signal = () => {
		const listeners = [];
		return {
			listen: (...added) => {
				listeners.push(...added);
			},
			emit: () => listeners.forEach((listener) => listener())
		};
	};
	const redraw = signal();
	const selected = signal();
	const viewed = signal();
	const loaded = signal();
	const isDiff = () => state.view === data.runs.length;
	let changes = [];
	const rows = () => data.runs[state.view]?.rows ?? [];
	const total = () => isDiff() ? changes.length : rows().length;
	const sides = (change) => [data.runs[0]?.rows[change.left], data.runs[1]?.rows[change.right]];
	const placeOf = (key) => state.shown.indexOf(key);
	let insides = [];
	const inside$2 = () => insides[state.view];
	const isParent = (row) => inside$2()?.parents.has(row.id) ?? false;
	const retriesOf = (row) => inside$2()?.retries.get(row.id) ?? 0;
	const tokenExtents = (run) => {
		let used = 0;
		const ends = new Float64Array(run.rows.length);
		const starts = run.rows.map((row, index) => {
			const from = used;
			used += row.promptTokens + row.completionTokens;
			ends[index] = used;
			return from;
		});
		for (let index = run.rows.length - 1; index >= 0; index--) {
			const parent = run.rows[index]?.parent ?? -1;
			if (parent >= 0) ends[parent] = Math.max(ends[parent] ?? 0, ends[index] ?? 0);
		}
		return starts.map((from, index) => ({
			from,
			to: ends[index] ?? from
		}));
	};
	const timeLimits = (run) => {
		let from = Infinity;
		let to = 0;
		for (const row of run.rows) {
			if (row.start > 0) from = Math.min(from, row.start);
			to = Math.max(to, row.end);
		}
		return from === Infinity ? {
			from: 0,
			to: Math.max(to, 1)
		} : {
			from,
			to: Math.max(to, from + 1)
		};
	};
	const insideOf = (run) => {
		const retries = new Map();
		for (const row of run.rows) if (row.kind === "llm" && run.rows[row.parent]?.kind === "llm") retries.set(row.parent, (retries.get(row.parent) ?? 0) + 1);
		const tokens = tokenExtents(run);
		const most = tokens.reduce((sum, one) => Math.max(sum, one.to), 1);
		return {
			parents: new Set(run.rows.map((row) => row.parent)),
			retries,
			tokens,
			limits: {
				time: timeLimits(run),
				tokens: {
					from: 0,
					to: most
				}
			}
		};
	};
	const take = (given) => {
		data = given;
		changes = given.diff ?? [];
		insides = given.runs.map(insideOf);
	};
	const foldedFirst = () => new Set(inside$2()?.retries.keys());
	const enter = (view) => {
		Object.assign(state, {
			view,
			selected: -1,
			zoom: void 0
		});
		state.folded = foldedFirst();
	};
	const load = (given) => {
		take(given);
		state.hidden.clear();
		Object.assign(state, {
			query: "",
			failed: false,
			changes: true,
			scale: "time",
			shown: []
		});
		enter(given.diff === void 0 ? 0 : given.runs.length);
		loaded.emit();
	};
	const identity$1 = (row) => \`\${row.kind} \${row.start} \${row.depth} \${row.lane}\`;
	const update = (given) => {
		const before = rows();
		const known = new Set(inside$2()?.retries.keys());
		take(given);
		const ids = new Map(rows().map((row) => [identity$1(row), row.id]));
		const kept = (key) => {
			const [old, now] = [before[key], rows()[key]];
			if (old === void 0) return -1;
			return now !== void 0 && identity$1(now) === identity$1(old) ? key : ids.get(identity$1(old)) ?? -1;
		};
		state.selected = kept(state.selected);
		state.folded = new Set([...state.folded].map(kept).filter((key) => key >= 0));
		for (const key of foldedFirst()) if (!known.has(key)) state.folded.add(key);
		loaded.emit();
	};
	const whole = () => insides[isDiff() ? 0 : state.view]?.limits[state.scale] ?? {
		from: 0,
		to: 1
	};
	const visible = () => state.zoom ?? whole();
	const extent = (row) => {
		if (state.scale === "tokens") return inside$2()?.tokens[row.id];
		return row.start > 0 ? {
			from: row.start,
			to: Math.max(row.start, row.end)
		} : void 0;
	};
	const zoomTo = (zoom) => {
		const { from, to } = whole();
		const width = Math.min(to - from, zoom === void 0 ? to - from : Math.max(zoom.to - zoom.from, (to - from) / 1e6));
		const start = zoom === void 0 ? from : Math.max(from, Math.min(zoom.from, to - width));
		state.zoom = width >= to - from ? void 0 : {
			from: start,
			to: start + width
		};
		redraw.emit();
	};
	const rezoom = (by, move = 0, middle) => {
		const { from, to } = visible();
		const center = (middle ?? (from + to) / 2) + (to - from) * move;
		const half = (to - from) * by / 2;
		zoomTo({
			from: center - half,
			to: center + half
		});
	};
	const inScale = (amount) => state.scale === "time" ? duration(amount).replace(/\\.0+ s$/u, " s") || "0" : short(Math.round(amount));
	const mostMarks = 100;
	const query$2 = () => state.query.trim().toLowerCase();
	const haystacks = new WeakMap();
	const haystack = (row) => {
		const known = haystacks.get(row);
		if (known !== void 0) return known;
		const text = [
			row.name,
			row.text,
			row.model,
			row.status,
			...row.details.map((one) => one.text)
		].join("\\n").toLowerCase();
		haystacks.set(row, text);
		return text;
	};
	const matcher = () => {
		const asked = query$2();
		if (asked === "") return () => true;
		const hits = new Set();
		data.pool.forEach((text, index) => {
			if (text.toLowerCase().includes(asked)) hits.add(index);
		});
		return (row) => haystack(row).includes(asked) || row.details.some((one) => one.parts?.some((part) => hits.has(part)) ?? false);
	};
	const holdsQuery = (value) => query$2() !== "" && JSON.stringify(value).toLowerCase().includes(query$2());
	const marked = (node, text) => {
		const asked = query$2();
		const lower = asked === "" ? "" : text.toLowerCase();
		let from = 0;
		const most = asked === "" || lower.length !== text.length ? 0 : mostMarks;
		for (let found = 0; found < most; found++) {
			const at = lower.indexOf(asked, from);
			if (at < 0) break;
			node.append(text.slice(from, at), el("mark", "", text.slice(at, at + asked.length)));
			from = at + asked.length;
		}
		node.append(text.slice(from));
		return node;
	};
	const longLines = 24;
	const longText = 3e3;
	const longString = 160;
	const longestJson = 4e5;
	const mostEntries = 500;
	const openEntries = 30;
	const parsed = (text) => {
		if (text.length > longestJson || !/^\\s*[[{]/u.test(text)) return void 0;
		try {
			return JSON.parse(text);
		} catch {
			return;
		}
	};
	const folded = (text) => {
		const lines = text.split("\\n");
		const pre = el("pre");
		if (lines.length <= longLines && text.length <= longText) return marked(pre, text);
		const begin = lines.slice(0, longLines).join("\\n").slice(0, longText);
		const all = \`show all: \${exact(lines.length)} lines, \${exact(text.length)} characters\`;
		const asked = query$2();
		let isWhole = asked !== "" && !begin.toLowerCase().includes(asked) && text.toLowerCase().includes(asked);
		const more = el("button", "more");
		const draw = () => {
			pre.replaceChildren();
			marked(pre, isWhole ? text : begin);
			more.textContent = isWhole ? "show less" : all;
		};
		more.addEventListener("click", () => {
			isWhole = !isWhole;
			draw();
		});
		draw();
		const box = el("div", "long");
		box.append(pre, more);
		return box;
	};
	const label = (key) => key === void 0 ? [] : [el("span", "j-key", key), ": "];
	const scalarLine = (key, value) => {
		const line = el("div", "j-line");
		line.append(...label(key));
		if (typeof value === "string" && (value.includes("\\n") || value.length > longString)) {
			const block = folded(value);
			block.classList.add("j-text");
			line.append(block);
		} else line.append(marked(el("span", value === null ? "j-null" : \`j-\${typeof value}\`), JSON.stringify(value)));
		return line;
	};
	const jsonTree = (key, value, depth) => {
		if (value === null || typeof value !== "object") return scalarLine(key, value);
		const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
		const entries = Object.entries(value);
		if (entries.length === 0) {
			const line = el("div", "j-line");
			line.append(...label(key), open + close);
			return line;
		}
		const box = el("details", "j");
		const head = el("summary");
		head.append(...label(key), open, el("span", "j-count", \` \${entries.length} \`), close);
		box.append(head);
		let isFilled = false;
		const fill = () => {
			if (isFilled) return;
			isFilled = true;
			for (const [one, inner] of entries.slice(0, mostEntries)) box.append(jsonTree(one, inner, depth + 1));
			if (entries.length > mostEntries) box.append(el("div", "j-line dim", \`… \${entries.length - mostEntries} more, see the text\`));
		};
		box.addEventListener("toggle", () => {
			if (box.open) fill();
		});
		if (depth < 2 && entries.length <= openEntries || holdsQuery(value)) {
			fill();
			box.open = true;
		}
		return box;
	};
	const shownText = (text) => {
		const value = parsed(text);
		return value === void 0 ? folded(text) : jsonTree(void 0, value, 0);
	};
	const copier = (text) => {
		const button = el("button", "copy", "copy");
		const copy = async () => {
			try {
				await navigator.clipboard.writeText(text);
				button.textContent = "copied";
			} catch {
				button.textContent = "not allowed here";
			}
			setTimeout(() => {
				button.textContent = "copy";
			}, 1500);
		};
		button.addEventListener("click", () => {
			copy();
		});
		return button;
	};
	const parts = new Map();
	const part = (tag, id, attributes = {}, ...inside) => {
		const made = make(tag, {
			id,
			...attributes
		}, ...inside);
		parts.set(id, made);
		return made;
	};
	const byId = (id) => {
		const found = parts.get(id);
		if (found === void 0) throw new Error(\`the viewer has no part with the id \${id}\`);
		return found;
	};
	const keys = [
		["↑ ↓", "previous row, next row"],
		["← →", "fold and unfold; to the row around, to the first row inside"],
		["Home End", "first row, last row"],
		["Enter", "to the details; Escape goes back"],
		["/", "search"],
		["n N", "next failure or change, previous one"],
		["+ -", "zoom in on the selected row, zoom out"],
		["[ ]", "move the zoomed part"],
		["0", "whole run"],
		["t", "totals of agents, models and tools"],
		["?", "these keys"]
	];
	const keyTable = () => {
		const table = el("dl");
		for (const [names, what] of keys) {
			const term = el("dt");
			term.append(...names.split(" ").flatMap((name) => [el("kbd", "", name), " "]));
			table.append(term, el("dd", "", what));
		}
		return table;
	};
	const button$1 = (id, text, attributes = {}) => part("button", id, {
		type: "button",
		...attributes
	}, text);
	const helpForm = () => {
		const form = el("form");
		form.method = "dialog";
		const title = el("b", "", "Keys");
		title.id = "helpTitle";
		const note = el("p", "dim", "Drag over the map to zoom, drag the zoomed part to move it, double-click for the whole run. The address names the selected row.");
		form.append(title, keyTable(), note, el("button", "", "Close"));
		return form;
	};
	const search = part("input", "search", {
		type: "search",
		placeholder: "Search everything ( / )",
		"aria-label": "Search everything",
		autocomplete: "off",
		spellcheck: "false"
	});
	const map = part("canvas", "map", { "aria-hidden": "true" });
	const room = part("div", "room", { role: "presentation" });
	const list = part("div", "list", {
		role: "tree",
		tabindex: "0",
		"aria-label": "Timeline"
	}, part("div", "none", { hidden: "" }, "No row matches. ", button$1("clear", "Clear search and filters")), room);
	const detail$1 = part("div", "detail", {
		role: "region",
		tabindex: "-1",
		"aria-label": "Details of the selected row"
	});
	const help = part("dialog", "help", { "aria-labelledby": "helpTitle" }, helpForm());
	const tools$1 = part("div", "tools", {
		role: "toolbar",
		"aria-label": "Search and filters"
	}, search, button$1("filters", "Filters", { "aria-expanded": "false" }), part("span", "chosen", {}, part("span", "kinds"), button$1("failed", "Failures", { "aria-pressed": "false" }), button$1("changes", "Only changes", { "aria-pressed": "false" })), el("span", "gap"), part("span", "count", { role: "status" }), button$1("unzoom", "Whole run"), button$1("scale", "by time", { title: "Length of the bars" }), button$1("foldAll", "Fold"), button$1("totals", "Totals", { title: "Totals of agents, models and tools ( t )" }), button$1("keys", "?", {
		"aria-label": "Keys",
		title: "Keys ( ? )"
	}));
	const axisRow = part("div", "axisRow", { "aria-hidden": "true" }, el("span"), el("span", "cost", "tokens"), part("span", "axis"), el("span", "time", "time"));
	const viewer = part("div", "viewer", {}, part("div", "top", {}, part("nav", "views", {
		role: "tablist",
		"aria-label": "Runs"
	}), part("span", "sums")), tools$1, map, part("div", "panes", {}, part("div", "left", {}, axisRow, part("div", "sideNames"), list), part("div", "right", {}, button$1("closeDetail", "✕", {
		"aria-label": "Close the details",
		title: "Close ( Escape )"
	}), detail$1)), help);
	const labels = {
		agent: "Agents",
		user: "User",
		system: "System",
		llm: "Model",
		tool: "Tools",
		approval: "Approvals",
		mark: "Marks"
	};
	const shownChanges = (passes) => changes.flatMap((change, key) => !(state.changes && change.state === "same") && sides(change).some((row) => row !== void 0 && passes(row)) ? [key] : []);
	const shownRows$1 = (passes) => {
		const folded = new Set();
		const everywhere = query$2() !== "" || state.failed;
		const found = [];
		for (const row of rows()) {
			const inside = folded.has(row.parent);
			if (inside || state.folded.has(row.id)) folded.add(row.id);
			if ((everywhere || !inside) && passes(row)) found.push(row.id);
		}
		return found;
	};
	const choose = () => {
		const matches = matcher();
		const passes = (row) => !state.hidden.has(row.kind) && (!state.failed || isFailed(row)) && matches(row);
		state.shown = isDiff() ? shownChanges(passes) : shownRows$1(passes);
		const shown = state.shown.length;
		room.style.height = \`\${shown * 26}px\`;
		byId("count").textContent = shown === total() ? \`\${exact(total())} rows\` : \`\${exact(shown)} of \${exact(total())}\`;
		byId("none").hidden = shown > 0;
		redraw.emit();
	};
	const toggles = ["failed", "changes"];
	const press = (name, on) => {
		state[name] = on;
		setPressed(byId(name), on);
	};
	const chips = kinds.map((kind) => {
		const chip = el("button", "chip");
		const glyph = el("span", "kind", glyphs[kind]);
		const label = el("span", "", labels[kind]);
		glyph.style.color = \`var(--\${kind})\`;
		chip.append(glyph, label);
		setPressed(chip, true);
		chip.addEventListener("click", () => {
			if (!state.hidden.delete(kind)) state.hidden.add(kind);
			setPressed(chip, !state.hidden.has(kind));
			choose();
		});
		return {
			kind,
			chip,
			label
		};
	});
	const clearQuery = () => {
		state.query = "";
		search.value = "";
		choose();
	};
	const clearFilters = () => {
		state.hidden.clear();
		for (const { chip } of chips) setPressed(chip, true);
		for (const name of toggles) press(name, false);
		clearQuery();
	};
	const drawFilters = () => {
		byId("changes").hidden = !isDiff();
		byId("failed").hidden = isDiff();
		const all = isDiff() ? data.runs.flatMap((run) => run.rows) : rows();
		for (const { chip, kind, label } of chips) {
			const count = all.filter((row) => row.kind === kind).length;
			chip.hidden = count === 0;
			label.textContent = \`\${labels[kind]} \${short(count)}\`;
		}
		const bad = all.filter(isFailed).length;
		byId("failed").textContent = \`Failures \${bad}\`;
		byId("failed").toggleAttribute("disabled", bad === 0);
		if (bad === 0) press("failed", false);
	};
	const fold = (row, closed) => {
		if (!isParent(row)) return;
		if (closed) state.folded.add(row.id);
		else state.folded.delete(row.id);
		choose();
	};
	const foldAll = () => {
		const inside = state.folded.size > 0 ? [] : rows().filter(isParent);
		const below = inside.filter((row) => row.depth > 0);
		state.folded = new Set((below.length > 0 ? below : inside).map((row) => row.id));
		choose();
	};
	const drawChoice = () => {
		search.value = state.query;
		for (const { chip, kind } of chips) setPressed(chip, !state.hidden.has(kind));
		for (const name of toggles) setPressed(byId(name), state[name]);
		byId("scale").textContent = \`by \${state.scale}\`;
	};
	const startFilters = () => {
		byId("kinds").append(...chips.map(({ chip }) => chip));
		byId("clear").addEventListener("click", clearFilters);
		byId("foldAll").addEventListener("click", foldAll);
		for (const name of toggles) byId(name).addEventListener("click", () => {
			press(name, !state[name]);
			list.scrollTop = 0;
			choose();
		});
		byId("filters").addEventListener("click", () => {
			const isOpen = byId("tools").classList.toggle("open");
			byId("filters").setAttribute("aria-expanded", String(isOpen));
		});
		search.addEventListener("input", () => {
			state.query = search.value;
			list.scrollTop = 0;
			choose();
		});
	};
	const select = (key) => {
		state.selected = key;
		selected.emit();
	};
	const reveal = (place) => {
		const key = state.shown[place];
		if (key === void 0) return;
		select(key);
		const top = place * 26;
		if (top >= list.scrollTop && top + 26 <= list.scrollTop + list.clientHeight) return;
		list.scrollTop = Math.max(0, top - list.clientHeight / 3);
		redraw.emit();
	};
	const go$1 = (key) => {
		if (!isDiff()) {
			const all = rows();
			for (let at = all[key]; at !== void 0 && at.parent >= 0; at = all[at.parent]) state.folded.delete(at.parent);
			choose();
			if (placeOf(key) < 0) clearFilters();
		}
		const place = placeOf(key);
		if (place >= 0) reveal(place);
	};
	const isNotable = (key) => {
		if (isDiff()) return changes[key]?.state !== "same";
		const row = rows()[key];
		return row !== void 0 && isFailed(row);
	};
	const searched = () => isDiff() || query$2() !== "" || state.failed ? state.shown : rows().flatMap((row) => state.hidden.has(row.kind) ? [] : [row.id]);
	const nextFailure = (step) => {
		const keys = searched();
		const selected = keys.indexOf(state.selected);
		const from = selected < 0 && step < 0 ? 0 : selected;
		for (let tried = 1; tried <= keys.length; tried++) {
			const key = keys[(from + step * tried + keys.length * 2) % keys.length];
			if (key !== void 0 && isNotable(key)) return go$1(key);
		}
	};
	const sums = (name, row, depth = 0) => ({
		name,
		row,
		depth,
		calls: 0,
		tools: 0,
		failed: 0,
		prompt: 0,
		completion: 0,
		cached: 0,
		cost: 0,
		millis: 0
	});
	const add = (to, row) => {
		if (row.kind === "llm") to.calls++;
		if (row.kind === "tool") to.tools++;
		if (isFailed(row)) to.failed++;
		to.prompt += row.promptTokens;
		to.completion += row.completionTokens;
		to.cached += row.cachedTokens;
		to.cost += row.cost;
	};
	const ofAgents = (rows) => {
		const agents = new Map();
		const owners = new Map();
		for (const row of rows) {
			const parent = owners.get(row.parent) ?? -1;
			if (row.kind === "agent") {
				owners.set(row.id, row.id);
				const made = sums(row.name, row.id, parent < 0 ? 0 : (agents.get(parent)?.depth ?? 0) + 1);
				made.millis = row.end - row.start;
				agents.set(row.id, made);
				continue;
			}
			owners.set(row.id, parent);
			const agent = agents.get(parent);
			if (agent !== void 0 && (row.kind === "llm" || row.kind === "tool")) add(agent, row);
		}
		return [...agents.values()];
	};
	const by = (rows, kind, name) => {
		const found = new Map();
		for (const row of rows) {
			if (row.kind !== kind) continue;
			const one = found.get(name(row)) ?? sums(name(row));
			found.set(one.name, one);
			add(one, row);
			one.millis += Math.max(0, row.end - row.start);
		}
		return [...found.values()].sort((a, b) => b.calls + b.tools - a.calls - a.tools);
	};
	const ofModels = (rows) => by(rows, "llm", (row) => row.model || row.name);
	const calls = ["calls", (one) => exact(one.calls)];
	const tools = ["tools", (one) => exact(one.tools)];
	const uses = ["calls", (one) => exact(one.tools)];
	const failed$1 = ["failed", (one) => one.failed === 0 ? "" : exact(one.failed)];
	const used = ["tokens", (one) => one.prompt + one.completion === 0 ? "" : \`\${short(one.prompt)} → \${short(one.completion)}\`];
	const cached$1 = ["cached", (one) => one.cached === 0 ? "" : \`\${Math.round(one.cached / Math.max(1, one.prompt) * 100)} %\`];
	const cost = ["cost", (one) => dollars(one.cost)];
	const time$1 = ["time", (one) => duration(one.millis)];
	const nameCell = (one) => {
		const cell = el("th");
		cell.scope = "row";
		cell.title = one.name;
		if (one.row === void 0) cell.textContent = one.name;
		else {
			const { row } = one;
			const link = el("button", "link", one.name);
			link.addEventListener("click", () => go$1(row));
			cell.append(link);
		}
		cell.style.paddingLeft = \`\${Math.min(one.depth, 6) * 12}px\`;
		return cell;
	};
	const table$1 = (title, all, columns) => {
		if (all.length === 0) return [];
		const used = columns.filter(([, value]) => all.some((one) => value(one) !== ""));
		const box = el("div", "wide");
		const made = el("table", "totals");
		const head = el("tr");
		head.append(el("th", "", title), ...used.map(([name]) => el("th", "", name)));
		made.append(head);
		for (const one of all) {
			const line = el("tr");
			line.append(nameCell(one), ...used.map((column) => el("td", column === failed$1 && one.failed > 0 ? "bad" : "", column[1](one))));
			made.append(line);
		}
		box.append(made);
		return [box];
	};
	const totalTables = (rows) => [
		...table$1("agent", ofAgents(rows), [
			calls,
			tools,
			failed$1,
			used,
			cached$1,
			cost,
			time$1
		]),
		...table$1("model", ofModels(rows), [
			calls,
			failed$1,
			used,
			cached$1,
			cost,
			time$1
		]),
		...table$1("tool", by(rows, "tool", (row) => row.name), [
			uses,
			failed$1,
			time$1
		])
	];
	const totals = (rows) => {
		const box = el("div");
		box.append(el("h2", "", "Totals"), ...totalTables(rows), el("p", "dim", "Select a row to see all of it. Press ? for the keys."));
		return box;
	};
	const margin = 8;
	const deepest$1 = 24;
	const colourOf$1 = (row) => isFailed(row) ? colours.bad : colours[row.kind];
	const kindOf = (row) => {
		const mark = el("span", "kind", glyphs[row.kind]);
		mark.style.color = colourOf$1(row);
		mark.title = row.kind;
		return mark;
	};
	const barOf = (row) => {
		const track = el("span", "track");
		const where = extent(row);
		const { from, to } = visible();
		if (where === void 0 || !(where.to >= from && where.from <= to)) return track;
		const percent = (at) => (at - from) / (to - from) * 100;
		const left = Math.max(0, percent(where.from));
		const right = Math.min(100, percent(where.to));
		const bar = el("span", "bar");
		bar.style.left = \`\${Math.min(left, 99.6)}%\`;
		bar.style.width = \`\${Math.max(0, right - left)}%\`;
		bar.style.background = colourOf$1(row);
		if (row.kind === "agent") bar.classList.add("around");
		track.append(bar);
		return track;
	};
	const hasNotableStatus = (row) => row.status !== "" && row.status !== "ok";
	const entry = (className, key, place) => {
		const node = el("div", \`row\${className}\${state.selected === key ? " on" : ""}\`);
		node.id = \`row-\${key}\`;
		node.setAttribute("role", "treeitem");
		node.setAttribute("aria-selected", String(state.selected === key));
		node.setAttribute("aria-posinset", String(place + 1));
		node.setAttribute("aria-setsize", String(state.shown.length));
		node.style.top = \`\${place * 26}px\`;
		node.addEventListener("click", () => select(key));
		return node;
	};
	const rowEntry = (row, place) => {
		const node = entry(isFailed(row) ? " bad" : "", row.id, place);
		const isFolded = state.folded.has(row.id);
		node.setAttribute("aria-level", String(row.depth + 1));
		const what = el("span", "what");
		what.style.paddingLeft = \`\${Math.min(row.depth, deepest$1) * 16}px\`;
		const caret = el("span", "fold", isParent(row) ? isFolded ? "▸" : "▾" : "");
		if (isParent(row)) {
			node.setAttribute("aria-expanded", String(!isFolded));
			caret.addEventListener("click", (event) => {
				event.stopPropagation();
				fold(row, !isFolded);
			});
		}
		const text = marked(el("span", "text"), row.text);
		const retries = retriesOf(row);
		if (retries > 0) text.prepend(el("span", "status bad", retries === 1 ? "1 retry" : \`\${retries} retries\`), " ");
		if (row.task !== "") text.prepend(el("span", "status", row.task), " ");
		if (hasNotableStatus(row)) text.prepend(el("span", isFailed(row) ? "status bad" : "status", row.status), " ");
		what.append(caret, kindOf(row), marked(el("span", "name"), row.name), text);
		node.append(what, el("span", "cost", tokens(row)), barOf(row), el("span", "time", lasted(row)));
		const used = tokens(row);
		node.title = [
			row.name,
			row.status,
			lasted(row),
			used === "" ? "" : \`\${used} tokens\`,
			dollars(row.cost)
		].filter(Boolean).join(" · ");
		return node;
	};
	const signs = {
		same: "=",
		changed: "~",
		removed: "−",
		added: "+"
	};
	const half = (row) => {
		const node = el("span", "half");
		if (row === void 0) return node;
		const what = el("span", "what");
		what.style.paddingLeft = \`\${Math.min(row.depth, deepest$1) * 12}px\`;
		const text = \`\${hasNotableStatus(row) ? \`\${row.status} \` : ""}\${row.text}\`;
		what.append(kindOf(row), marked(el("span", "name"), row.name), marked(el("span", "text"), text));
		node.append(what);
		return node;
	};
	const changeEntry = (change, key, place) => {
		const node = entry(\` \${change.state}\`, key, place);
		const sign = el("span", "sign", signs[change.state]);
		const [left, right] = sides(change);
		sign.title = change.state;
		node.append(sign, half(left), half(right));
		return node;
	};
	const entryAt = (place) => {
		const key = state.shown[place] ?? -1;
		const change = isDiff() ? changes[key] : void 0;
		if (change !== void 0) return [changeEntry(change, key, place)];
		const row = rows()[key];
		return row === void 0 ? [] : [rowEntry(row, place)];
	};
	let isScheduled = false;
	const drawTimeline = () => {
		isScheduled = false;
		const first = Math.max(0, Math.floor(list.scrollTop / 26) - margin);
		const last = Math.min(state.shown.length, Math.ceil((list.scrollTop + list.clientHeight) / 26) + margin);
		const nodes = [];
		for (let place = first; place < last; place++) nodes.push(...entryAt(place));
		room.replaceChildren(...nodes);
		if (placeOf(state.selected) >= 0) list.setAttribute("aria-activedescendant", \`row-\${state.selected}\`);
		else list.removeAttribute("aria-activedescendant");
	};
	const startTimeline = () => list.addEventListener("scroll", () => {
		if (isScheduled) return;
		isScheduled = true;
		requestAnimationFrame(drawTimeline);
	});
	const summaryOf = (text, index) => {
		const value = parsed(text);
		const { content, role } = typeof value === "object" && value !== null ? value : {};
		const begin = typeof content === "string" ? content.replace(/\\s+/gu, " ").slice(0, 90) : "";
		return \`\${role ? String(role) : \`message \${index + 1}\`}\${begin === "" ? "" : \`: \${begin}\`}\`;
	};
	const messageBox = (text, index, isOpen) => {
		const box = el("details", "message");
		box.append(el("summary", "", summaryOf(text, index)));
		box.addEventListener("toggle", () => {
			if (box.open && box.children.length === 1) box.append(shownText(text));
		});
		if (isOpen || holdsQuery(text)) {
			box.append(shownText(text));
			box.open = true;
		}
		return box;
	};
	const foldedBox = (title, make) => {
		const box = el("details", "folded");
		box.append(el("summary", "", title));
		box.addEventListener("toggle", () => {
			if (box.open && box.children.length === 1) box.append(...make());
		});
		return box;
	};
	const section = (one) => {
		const parts = one.parts ?? [];
		if (one.folded) return foldedBox(one.title, () => [copier(one.text), shownText(one.text)]);
		const box = el("section");
		const head = el("h3", "", parts.length > 0 ? \`\${one.title} (\${parts.length})\` : one.title);
		box.append(head);
		if (one.text !== "") {
			head.append(copier(one.text));
			box.append(shownText(one.text));
		}
		box.append(...parts.map((part, index) => messageBox(data.pool[part] ?? "", index, index === parts.length - 1)));
		return box;
	};
	const cached = (row) => row.cachedTokens > 0 ? \`\${exact(row.cachedTokens)} (\${Math.round(row.cachedTokens / Math.max(1, row.promptTokens) * 100)} % of the prompt)\` : "";
	const facts = (row) => {
		const start = row.start > 0 ? new Date(row.start).toISOString().replace("T", " ").replace("Z", " UTC") : "";
		const found = [
			["kind", row.kind],
			["model", row.model],
			["status", row.status],
			["start", start],
			["time", lasted(row)],
			["tokens", tokens(row)],
			["cached", cached(row)],
			["cost", dollars(row.cost)]
		];
		const box = el("dl");
		for (const [name, value] of found) if (value !== "") box.append(el("dt", "", name), el("dd", name === "status" && isFailed(row) ? "bad" : "", value));
		return box;
	};
	const trail = (row) => {
		const nav = el("nav", "trail");
		nav.setAttribute("aria-label", "Around this");
		const all = rows();
		for (let at = all[row.parent]; at !== void 0; at = all[at.parent]) {
			const { id } = at;
			const link = el("button", "link", at.name);
			link.addEventListener("click", () => go$1(id));
			nav.prepend(link, " ▸ ");
		}
		return nav;
	};
	const inside$1 = (row) => {
		const all = rows();
		const end = all.findIndex(({ depth }, place) => place > row.id && depth <= row.depth);
		return all.slice(row.id + 1, end < 0 ? all.length : end);
	};
	const rowDetails = (row) => {
		const box = el("div");
		if (row.parent >= 0) box.append(trail(row));
		const head = el("h2");
		head.append(kindOf(row), " ", row.name);
		box.append(head, facts(row));
		if (row.kind === "agent") box.append(el("h3", "", "Totals, with sub-agents"), ...totalTables([row, ...inside$1(row)]));
		box.append(...row.details.map(section));
		return box;
	};
	const mostCells = 4e6;
	const lineDiff = (left, right) => {
		const a = left.split("\\n");
		const b = right.split("\\n");
		if (a.length * b.length > mostCells) return void 0;
		const width = b.length + 1;
		const table = new Uint32Array((a.length + 1) * width);
		const common = (i, j) => table[i * width + j] ?? 0;
		for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) table[i * width + j] = a[i] === b[j] ? common(i + 1, j + 1) + 1 : Math.max(common(i + 1, j), common(i, j + 1));
		const lines = [];
		let [i, j] = [0, 0];
		while (i < a.length || j < b.length) {
			const [one, other] = [a[i], b[j]];
			if (one !== void 0 && one === other) {
				lines.push([" ", one]);
				i++;
				j++;
			} else if (one !== void 0 && (other === void 0 || common(i + 1, j) >= common(i, j + 1))) {
				lines.push(["-", one]);
				i++;
			} else {
				lines.push(["+", other ?? ""]);
				j++;
			}
		}
		return lines;
	};
	const textOf = (one) => one === void 0 ? "" : [one.text, ...(one.parts ?? []).map((part) => data.pool[part])].filter(Boolean).join("\\n");
	const classes = {
		" ": "",
		"-": "minus",
		"+": "plus"
	};
	const comparison = (left, right) => {
		const lines = lineDiff(left, right);
		if (lines === void 0) return [folded(left), folded(right)];
		const pre = el("pre", "lines");
		pre.append(...lines.map(([sign, line]) => el("span", classes[sign], \`\${sign} \${line}\\n\`)));
		return [pre];
	};
	const compared = (left, right) => {
		const box = el("div");
		const same = el("div");
		const of = (row) => row?.details ?? [];
		for (const title of new Set([...of(left), ...of(right)].map((one) => one.title))) {
			const [a, b] = [textOf(of(left).find((one) => one.title === title)), textOf(of(right).find((one) => one.title === title))];
			const isFolded = [...of(left), ...of(right)].some((one) => one.title === title && one.folded);
			if (a === b || isFolded) {
				const kept = el("details", "message");
				kept.append(el("summary", "", a === b ? \`\${title}: the same in both\` : title), ...a === b ? [folded(a)] : comparison(a, b));
				same.append(kept);
			} else box.append(el("h3", "", title), ...comparison(a, b));
		}
		box.append(same);
		return box;
	};
	const changeDetails = (change) => {
		const [left, right] = sides(change);
		const box = el("div");
		const head = el("h2");
		const row = left ?? right;
		if (row !== void 0) head.append(kindOf(row), " ", row.name, el("span", "status", change.state));
		const both = el("div", "sides");
		for (const [index, one] of [left, right].entries()) {
			const side = el("div");
			side.append(el("h3", "", data.runs[index]?.name), one === void 0 ? el("p", "dim", "not in this run") : facts(one));
			both.append(side);
		}
		box.append(head, both, compared(left, right));
		return box;
	};
	let isOpen = false;
	let drawn;
	const open = (on) => {
		isOpen = on;
		viewer.classList.toggle("open", isOpen);
	};
	const empty = () => isDiff() ? el("p", "dim", "Select a change to compare both sides. Press ? for the keys.") : totals(rows());
	const drawDetails = () => {
		const change = isDiff() ? changes[state.selected] : void 0;
		const row = rows()[state.selected];
		const shown = change ?? row;
		if (shown !== void 0 && JSON.stringify(shown) === drawn) return;
		drawn = shown && JSON.stringify(shown);
		const at = detail$1.scrollTop;
		detail$1.replaceChildren(change !== void 0 ? changeDetails(change) : row !== void 0 ? rowDetails(row) : empty());
		detail$1.scrollTop = shown === void 0 ? at : 0;
	};
	const openDetails = () => open(state.selected >= 0);
	const closeDetails = () => {
		open(false);
	};
	const showTotals = () => {
		state.selected = -1;
		selected.emit();
		open(true);
	};
	const startDetails = () => {
		byId("closeDetail").addEventListener("click", closeDetails);
		byId("totals").addEventListener("click", showTotals);
	};
	const laneHeight = 7;
	const axisHeight = 16;
	const tickWidth = 52;
	const dragFrom = 6;
	const ticks$1 = ({ from, to }, most) => {
		const raw = (to - from) / most;
		const power = Math.pow(10, Math.floor(Math.log10(raw)));
		const step = [
			1,
			2,
			5,
			10
		].map((factor) => factor * power).find((one) => one >= raw) ?? raw;
		const found = [];
		for (let at = step; at < to - from; at += step) found.push(at);
		return found;
	};
	const drawAxis = () => {
		const { from, to } = visible();
		const marks = ticks$1(visible(), Math.max(1, Math.min(5, byId("axis").clientWidth / tickWidth))).filter((at) => at / (to - from) < .9);
		byId("axis").replaceChildren(...marks.map((at) => {
			const tick = el("span", "", inScale(from - whole().from + at));
			tick.style.left = \`\${at / (to - from) * 100}%\`;
			return tick;
		}));
	};
	const isOnMap = (row) => row.kind !== "agent" || row.depth > 0;
	const laneOf = (row) => Math.min(row.depth - 1 + row.lane, 9);
	const shownRows = () => {
		const all = rows();
		return state.shown.flatMap((key) => all[key] ?? []);
	};
	let dragged;
	const drawTicks = (pen, width, height) => {
		const { from, to } = whole();
		pen.font = "11px system-ui, sans-serif";
		pen.textBaseline = "top";
		for (const at of ticks$1(whole(), Math.max(2, Math.floor(width / 120)))) {
			const x = Math.round(at / (to - from) * width) + .5;
			pen.fillStyle = colours.line;
			pen.fillRect(x, 0, 1, height);
			pen.fillStyle = colours.dim;
			pen.fillText(inScale(at), x + 4, 2);
		}
	};
	const drawBar = (pen, row, width) => {
		const where = extent(row);
		if (where === void 0 || !isOnMap(row)) return;
		const { from, to } = whole();
		const left = Math.max(0, (where.from - from) / (to - from) * width);
		const right = Math.min(width, (where.to - from) / (to - from) * width);
		if (right < 0 || left > width || right < left) return;
		const y = axisHeight + Math.max(0, laneOf(row)) * laneHeight;
		pen.globalAlpha = row.kind === "agent" ? .35 : 1;
		pen.fillStyle = colourOf$1(row);
		pen.fillRect(left, y, Math.max(1.5, right - left), 5);
		pen.globalAlpha = 1;
		if (row.id === state.selected) {
			pen.fillStyle = colours.fg;
			pen.fillRect(left, y + laneHeight - 2, Math.max(3, right - left), 2);
		}
	};
	const pixelsOf = (zoom) => {
		const { from, to } = whole();
		const scale = map.clientWidth / (to - from);
		return {
			from: (zoom.from - from) * scale,
			to: (zoom.to - from) * scale
		};
	};
	const drawZoom = (pen, zoom, width, height) => {
		const { from, to } = pixelsOf(zoom);
		pen.fillStyle = colours.panel;
		pen.globalAlpha = .72;
		pen.fillRect(0, 0, from, height);
		pen.fillRect(to, 0, width - to, height);
		pen.globalAlpha = 1;
		pen.fillStyle = colours.focus;
		pen.fillRect(from, 0, Math.max(2, to - from), 2);
		pen.fillRect(from, height - 2, Math.max(2, to - from), 2);
		pen.fillRect(from - 1, 0, 2, height);
		pen.fillRect(to - 1, 0, 2, height);
	};
	const drawMinimap = () => {
		viewer.classList.toggle("diff", isDiff());
		byId("unzoom").hidden = isDiff() || state.zoom === void 0;
		if (isDiff()) return;
		drawAxis();
		const { clientHeight: height, clientWidth: width } = map;
		const scale = window.devicePixelRatio || 1;
		map.width = width * scale;
		map.height = height * scale;
		const pen = map.getContext("2d");
		if (pen === null) return;
		pen.scale(scale, scale);
		pen.clearRect(0, 0, width, height);
		drawTicks(pen, width, height);
		for (const row of shownRows()) drawBar(pen, row, width);
		const selected = rows()[state.selected];
		if (selected !== void 0) drawBar(pen, selected, width);
		if (dragged !== void 0 && dragged.moves === void 0) {
			pen.fillStyle = colours.hot;
			pen.globalAlpha = .6;
			pen.fillRect(Math.min(dragged.from, dragged.to), 0, Math.abs(dragged.to - dragged.from), height);
			pen.globalAlpha = 1;
		}
		if (state.zoom !== void 0) drawZoom(pen, state.zoom, width, height);
	};
	const amountAt = (x) => {
		const { from, to } = whole();
		return from + Math.max(0, Math.min(1, x / map.clientWidth)) * (to - from);
	};
	const nearest = (x, y) => {
		const at = amountAt(x);
		const { from, to } = whole();
		const lane = Math.floor((y - axisHeight) / laneHeight);
		let best = -1;
		let distance = Infinity;
		shownRows().forEach((row, place) => {
			const where = extent(row);
			if (where === void 0 || !isOnMap(row)) return;
			const off = (at < where.from ? where.from - at : at > where.to ? at - where.to : (where.to - where.from) / 1e6) / (to - from) + Math.abs(laneOf(row) - lane) * .02;
			if (off < distance) {
				distance = off;
				best = place;
			}
		});
		return best;
	};
	const isInZoom = (x) => {
		if (state.zoom === void 0) return false;
		const { from, to } = pixelsOf(state.zoom);
		return x >= from && x <= to;
	};
	const onMove = (x, y) => {
		if (dragged === void 0) {
			const row = shownRows()[nearest(x, y)];
			map.title = row === void 0 ? "" : [
				row.name,
				row.text.slice(0, 80),
				lasted(row)
			].filter(Boolean).join("\\n");
			map.style.cursor = isInZoom(x) ? "grab" : "crosshair";
			return;
		}
		dragged.to = x;
		const { moves } = dragged;
		if (moves === void 0) return drawMinimap();
		const by = amountAt(dragged.to) - amountAt(dragged.from);
		zoomTo({
			from: moves.from + by,
			to: moves.to + by
		});
	};
	const startMinimap = () => {
		map.addEventListener("pointerdown", (event) => {
			if (event.button !== 0) return;
			dragged = {
				from: event.offsetX,
				to: event.offsetX,
				moves: isInZoom(event.offsetX) ? state.zoom : void 0
			};
			map.setPointerCapture(event.pointerId);
		});
		map.addEventListener("pointermove", (event) => onMove(event.offsetX, event.offsetY));
		map.addEventListener("pointercancel", () => {
			dragged = void 0;
		});
		map.addEventListener("pointerup", (event) => {
			if (dragged === void 0) return;
			const { from, moves, to } = dragged;
			dragged = void 0;
			if (Math.abs(to - from) < dragFrom) {
				reveal(nearest(event.offsetX, event.offsetY));
				drawMinimap();
			} else if (moves === void 0) zoomTo({
				from: amountAt(Math.min(from, to)),
				to: amountAt(Math.max(from, to))
			});
		});
		map.addEventListener("dblclick", () => zoomTo(void 0));
		byId("unzoom").addEventListener("click", () => zoomTo(void 0));
		byId("scale").addEventListener("click", () => {
			state.scale = state.scale === "time" ? "tokens" : "time";
			byId("scale").textContent = \`by \${state.scale}\`;
			zoomTo(void 0);
		});
	};
	const hasModifier = (event) => event.ctrlKey || event.metaKey || event.altKey;
	const moved = (key, from, last) => {
		const page = Math.max(1, Math.floor(list.clientHeight / 26) - 1);
		switch (key) {
			case "ArrowDown":
			case "j": return from + 1;
			case "ArrowUp":
			case "k": return from - 1;
			case "PageDown": return from + page;
			case "PageUp": return from - page;
			case "Home": return 0;
			case "End": return last;
			default: return;
		}
	};
	const foldOrStep = (event, place) => {
		const row = rows()[state.selected];
		if (row === void 0) return;
		const isFolded = state.folded.has(row.id);
		event.preventDefault();
		if (event.key === "ArrowRight") {
			if (isParent(row) && isFolded) fold(row, false);
			else if (isParent(row) && place < state.shown.length - 1) reveal(place + 1);
		} else if (isParent(row) && !isFolded) fold(row, true);
		else if (row.parent >= 0) go$1(row.parent);
	};
	const onList = (event) => {
		if (hasModifier(event) || state.shown.length === 0) return;
		const place = placeOf(state.selected);
		const last = state.shown.length - 1;
		const to = moved(event.key, place, last);
		if (to !== void 0) {
			event.preventDefault();
			reveal(Math.max(0, Math.min(last, to)));
		} else if (isDiff() || place < 0) return;
		else if (event.key === "ArrowRight" || event.key === "ArrowLeft") foldOrStep(event, place);
		else if (event.key === "Enter") detail$1.focus();
	};
	const onSearch = (event) => {
		if (event.key === "Escape") {
			clearQuery();
			list.focus();
		} else if ((event.key === "Enter" || event.key === "ArrowDown") && state.shown.length > 0) {
			event.preventDefault();
			list.focus();
			if (placeOf(state.selected) < 0) reveal(0);
		}
	};
	const isTyping = () => document.activeElement?.matches("input, textarea, select") ?? false;
	const zoomIn = () => {
		const row = rows()[state.selected];
		const where = row === void 0 ? void 0 : extent(row);
		rezoom(.5, 0, where === void 0 ? void 0 : (where.from + where.to) / 2);
	};
	const commands = {
		"/": () => {
			search.focus();
			search.select();
		},
		n: () => nextFailure(1),
		N: () => nextFailure(-1),
		"?": () => help.showModal(),
		"+": zoomIn,
		"=": zoomIn,
		"-": () => rezoom(2),
		"[": () => rezoom(1, -.25),
		"]": () => rezoom(1, .25),
		"0": () => zoomTo(void 0),
		t: () => showTotals()
	};
	const anywhere = (event) => {
		if (!viewer.isConnected || hasModifier(event) || isTyping() || document.querySelector("dialog[open]") !== null) return;
		const command = commands[event.key];
		if (command !== void 0) {
			event.preventDefault();
			command();
		} else if (event.key === "Escape" && viewer.contains(document.activeElement)) {
			if (document.activeElement === list) closeDetails();
			list.focus();
		}
	};
	const startKeys = () => {
		list.addEventListener("keydown", onList);
		search.addEventListener("keydown", onSearch);
		document.addEventListener("keydown", anywhere);
		byId("keys").addEventListener("click", () => help.showModal());
	};
	const show$1 = (view) => {
		enter(view);
		list.scrollTop = 0;
		viewed.emit();
	};
	const names$2 = () => [...data.runs.map((run) => run.name), ...data.diff === void 0 ? [] : ["Difference"]];
	const steps$1 = {
		ArrowRight: 1,
		ArrowLeft: -1
	};
	let tabs$1 = [];
	const tabOf = (name, view) => {
		const tab = el("button", "tab", name);
		tab.title = name;
		tab.setAttribute("role", "tab");
		tab.addEventListener("click", () => show$1(view));
		tab.addEventListener("keydown", (event) => {
			const step = steps$1[event.key];
			if (step === void 0) return;
			const next = (view + step + tabs$1.length) % tabs$1.length;
			show$1(next);
			tabs$1[next]?.focus();
		});
		return tab;
	};
	const drawTabs = () => {
		const sums = (isDiff() ? data.changes : data.runs[state.view]?.sums) ?? [];
		byId("sums").replaceChildren(...sums.map(({ bad, name, value }) => {
			const chip = el("span", bad ? "sum bad" : "sum");
			chip.append(el("b", "", value), \` \${name}\`);
			return chip;
		}));
		for (const [view, tab] of tabs$1.entries()) {
			tab.setAttribute("aria-selected", String(view === state.view));
			tab.tabIndex = view === state.view ? 0 : -1;
		}
		for (const id of [
			"scale",
			"foldAll",
			"totals",
			"axisRow"
		]) byId(id).hidden = isDiff();
		byId("sideNames").hidden = !isDiff();
		byId("sideNames").replaceChildren(el("span", "sign"), ...data.runs.map((run) => el("b", "half", run.name)));
	};
	const address$1 = {
		read: () => new URLSearchParams(location.hash.slice(1)),
		write: (place) => {
			try {
				history.replaceState(null, "", \`#\${place}\`);
			} catch {}
		}
	};
	const remember$1 = () => {
		const place = new URLSearchParams({ view: String(state.view) });
		if (state.selected >= 0) place.set("row", String(state.selected));
		address$1.write(place);
	};
	const numberOf = (place, name) => Number(place.get(name) ?? NaN);
	const restore = () => {
		const place = address$1.read();
		const view = numberOf(place, "view");
		if (!Number.isInteger(view) || view < 0 || view >= tabs$1.length) return false;
		show$1(view);
		const key = numberOf(place, "row");
		if (Number.isInteger(key) && key >= 0 && key < total()) go$1(key);
		return true;
	};
	const makeTabs = () => {
		tabs$1 = names$2().map(tabOf);
		byId("views").replaceChildren(...tabs$1);
		byId("views").hidden = tabs$1.length < 2;
	};
	const start = () => {
		redraw.listen(drawTimeline, drawMinimap);
		selected.listen(drawDetails, openDetails, redraw.emit, remember$1);
		viewed.listen(drawTabs, drawFilters, choose, drawDetails, openDetails, remember$1);
		loaded.listen(makeTabs, drawChoice, drawTabs, drawFilters, choose, drawDetails);
		startTimeline();
		startMinimap();
		startFilters();
		startDetails();
		startKeys();
		new ResizeObserver(() => {
			if (viewer.isConnected) redraw.emit();
		}).observe(viewer);
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
			readColours();
			if (viewer.isConnected) redraw.emit();
		});
	};
	const closeHelp = () => help.close();
	const decoded = (text) => {
		try {
			return decodeURIComponent(text);
		} catch {
			return text;
		}
	};
	const route = () => {
		const [path = "", ...rest] = location.hash.replace(/^#\\/?/u, "").split("?");
		const [page = "", ...id] = path.split("/");
		return {
			page,
			id: decoded(id.join("/")),
			parameters: new URLSearchParams(rest.join("?"))
		};
	};
	const address = (page, parameters, id = "") => {
		const query = new URLSearchParams(parameters).toString();
		return \`#/\${page}\${id === "" ? "" : \`/\${encodeURIComponent(id)}\`}\${query === "" ? "" : \`?\${query}\`}\`;
	};
	const toSession = (id, parameters) => address("session", parameters, id);
	const go = (to, replace = false) => {
		if (replace) {
			history.replaceState(null, "", to);
			dispatchEvent(new HashChangeEvent("hashchange"));
		} else location.hash = to;
	};
	const remember = (changes) => {
		const { id, page, parameters } = route();
		for (const [name, value] of Object.entries(changes)) if (value === "") parameters.delete(name);
		else parameters.set(name, value);
		history.replaceState(null, "", address(page, parameters, id));
	};
	const link = (text, to, className = "") => {
		const made = el("a", className, text);
		made.href = to;
		return made;
	};
	var RequestFailed = class extends Error {};
	const problemOf = async (response) => {
		try {
			const { error } = await response.json();
			return error;
		} catch {
			return \`The studio answered \${response.status}. Reload the page, or start hermes trace serve again.\`;
		}
	};
	const ask = async (path, options) => {
		let response;
		try {
			response = await fetch(path, options);
		} catch (error) {
			if (error instanceof DOMException && error.name === "AbortError") throw error;
			throw new RequestFailed("The studio cannot be reached. Start hermes trace serve again, and open the address that it prints.");
		}
		if (!response.ok) throw new RequestFailed(await problemOf(response));
		return response;
	};
	const read = async (path, signal) => (await ask(path, signal === void 0 ? {} : { signal })).json();
	const send = async (path, body) => (await ask(path, {
		method: "POST",
		headers: { "content-type": "application/json" },
		body: JSON.stringify(body)
	})).json();
	const session = (id) => \`/api/sessions/\${encodeURIComponent(id)}\`;
	const query$1 = (parameters) => parameters.size === 0 ? "" : \`?\${parameters}\`;
	const about$1 = () => read("/api/about");
	const sessions = (parameters, signal) => read(\`/api/sessions\${query$1(parameters)}\`, signal);
	const aggregates = (parameters, signal) => read(\`/api/aggregates\${query$1(parameters)}\`, signal);
	const detail = (id, signal) => read(session(id), signal);
	const compare = (parameters, signal) => read(\`/api/compare\${query$1(parameters)}\`, signal);
	const replay = (id, request) => send(\`\${session(id)}/replay\`, request);
	const score = (id, request) => send(\`\${session(id)}/scores\`, request);
	const note = (id, request) => send(\`\${session(id)}/notes\`, request);
	const listen = (name, parameters, { lost, on, problem }) => {
		const source = new EventSource(\`/api/events?\${new URLSearchParams(parameters)}\`);
		source.addEventListener("open", () => lost(false));
		source.addEventListener("error", () => lost(true));
		source.addEventListener(name, (event) => on(JSON.parse(event.data)));
		source.addEventListener("problem", (event) => {
			const { error } = JSON.parse(event.data);
			problem(error);
		});
		return () => source.close();
	};
	const listenToSessions = (after, receiver) => listen("sessions", { after: String(after) }, receiver);
	const listenToSession = (id, after, receiver) => listen("session", {
		session: id,
		after: String(after)
	}, receiver);
	const exportAddress = ({ form, format }, ids, parameters) => {
		const asked = new URLSearchParams(ids.length === 0 ? parameters : void 0);
		asked.set("format", format);
		if (form === "archive") asked.set("archive", "true");
		for (const id of ids) asked.append("id", id);
		return \`/api/export?\${asked}\`;
	};
	const allTokens = ({ cacheRead, cacheWrite, input, output }) => input + output + cacheRead + cacheWrite;
	const tokenFlow = (tokens) => {
		const prompt = tokens.input + tokens.cacheRead + tokens.cacheWrite;
		return prompt + tokens.output === 0 ? "" : \`\${short(prompt)} → \${short(tokens.output)}\`;
	};
	const cacheShare = ({ cacheRead, cacheWrite, input }) => cacheRead === 0 ? "" : \`\${Math.round(cacheRead / Math.max(1, input + cacheRead + cacheWrite) * 100)} %\`;
	const costOf = ({ cost, unpriced }) => cost === void 0 ? unpriced !== void 0 && unpriced > 0 ? "unknown" : "" : \`\${(unpriced ?? 0) > 0 ? "≥ " : ""}\${dollars(cost) || "$0"}\`;
	const day$1 = new Intl.DateTimeFormat("en", {
		month: "short",
		day: "numeric"
	});
	const clock = new Intl.DateTimeFormat("en", {
		hour: "2-digit",
		minute: "2-digit",
		hour12: false
	});
	const time = (at) => {
		const date = new Date(at);
		const isToday = date.toDateString() === new Date().toDateString();
		const shown = el("time", "", isToday ? clock.format(date) : \`\${day$1.format(date)}\${date.getFullYear() === new Date().getFullYear() ? "" : \` \${date.getFullYear()}\`}, \${clock.format(date)}\`);
		shown.dateTime = date.toISOString();
		shown.title = date.toString();
		return shown;
	};
	const statusWords = {
		ok: "ok",
		error: "error",
		interrupted: "interrupted",
		running: "running"
	};
	const statusChip = (status) => el("span", \`state \${status}\`, statusWords[status]);
	const figure = (value, name, isBad = false) => value === "" ? [] : [make("span", { class: isBad ? "sum bad" : "sum" }, el("b", "", value), \` \${name}\`)];
	const figures = (totals) => [
		...figure(exact(totals.modelCalls), totals.modelCalls === 1 ? "model call" : "model calls"),
		...figure(exact(totals.toolCalls), totals.toolCalls === 1 ? "tool call" : "tool calls"),
		...totals.errors > 0 ? figure(exact(totals.errors), totals.errors === 1 ? "error" : "errors", true) : [],
		...figure(tokenFlow(totals.tokens), "tokens"),
		...figure(cacheShare(totals.tokens), "cached"),
		...figure(costOf(totals), ""),
		...figure(duration(totals.duration ?? 0), "")
	];
	const notice = (text, kind = "info") => make("p", {
		class: \`notice \${kind}\`,
		role: kind === "bad" ? "alert" : "status"
	}, text);
	const messageOf = (error) => error instanceof RequestFailed ? error.message : \`The page failed: \${error instanceof Error ? error.message : String(error)}. Reload it.\`;
	const field = (label, control) => make("label", { class: "field" }, el("span", "", label), control);
	const choice = (values, chosen = "", attributes = {}) => {
		const made = make("select", attributes);
		for (const [value, label] of values) {
			const option = el("option", "", label);
			option.value = value;
			option.selected = value === chosen;
			made.append(option);
		}
		return made;
	};
	const button = (text, action, attributes = {}) => {
		const made = make("button", {
			type: "button",
			...attributes
		}, text);
		made.addEventListener("click", action);
		return made;
	};
	const table = (caption, entries, columns) => {
		const lines = entries.map((entry) => columns.map((column) => column.cell(entry)));
		const used = columns.flatMap((column, index) => lines.some((line) => line[index] !== "") ? [[column, index]] : []);
		const head = make("tr", {}, ...used.map(([column]) => make("th", {
			scope: "col",
			class: column.left ? "l" : ""
		}, column.head)));
		const rows = lines.map((line) => make("tr", {}, ...used.map(([column, index]) => make("td", { class: column.left ? "l" : "" }, line[index] ?? ""))));
		return make("div", {
			class: "wide",
			tabindex: "0",
			role: "region",
			"aria-label": caption
		}, make("table", { class: "figures" }, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...rows)));
	};
	const attempt = async (place, what) => {
		place.replaceChildren();
		try {
			await what();
		} catch (error) {
			place.replaceChildren(notice(messageOf(error), "bad"));
		}
	};
	const names$1 = [
		"q",
		"status",
		"model",
		"tool",
		"source",
		"days",
		"minCost",
		"children",
		"sort",
		"order"
	];
	const statuses = [
		["", "any state"],
		["running", "running"],
		["ok", "ok"],
		["error", "error"],
		["interrupted", "interrupted"]
	];
	const spans = [
		["", "any time"],
		["1", "last 24 hours"],
		["7", "last 7 days"],
		["30", "last 30 days"],
		["90", "last 90 days"]
	];
	const sorts = [
		["", "newest first"],
		["started", "started last"],
		["duration", "longest first"],
		["cost", "dearest first"],
		["tokens", "most tokens first"],
		["errors", "most errors first"],
		["steps", "most steps first"],
		["title", "by title"]
	];
	const dayMillis = 864e5;
	const queryOf = (parameters) => {
		const query = new URLSearchParams();
		for (const name of names$1) {
			if (name === "days") continue;
			for (const value of parameters.getAll(name)) if (value !== "") query.append(name, value);
		}
		const days = Number(parameters.get("days") ?? "");
		if (days > 0) query.set("since", String(Date.now() - days * dayMillis));
		if (query.get("sort") === "title" && !query.has("order")) query.set("order", "asc");
		query.set("utcOffset", String(-new Date().getTimezoneOffset()));
		return query;
	};
	const filtersIn = (parameters) => names$1.filter((name) => name !== "q" && name !== "sort" && name !== "order" && (parameters.get(name) ?? "") !== "").length;
	const kept = (parameters) => {
		const found = new URLSearchParams();
		for (const name of names$1) for (const value of parameters.getAll(name)) if (value !== "") found.append(name, value);
		return found;
	};
	const sessionFilters = (sorted) => {
		const { page, parameters } = route();
		const at = (name) => parameters.get(name) ?? "";
		const words = make("input", {
			type: "search",
			id: "query",
			placeholder: "Search titles and messages ( / )",
			"aria-label": "Search titles and messages",
			value: at("q"),
			autocomplete: "off",
			spellcheck: "false"
		});
		const status = choice(statuses, at("status"));
		const days = choice(spans, at("days"));
		const model = choice([["", "any model"]]);
		const tool = choice([["", "any tool"]]);
		const source = choice([["", "any source"]]);
		const minCost = make("input", {
			type: "number",
			min: "0",
			step: "any",
			value: at("minCost"),
			placeholder: "0"
		});
		const children = make("input", { type: "checkbox" });
		children.checked = at("children") === "true";
		const sort = choice(sorts, at("sort"));
		const values = {
			q: () => words.value.trim(),
			status: () => status.value,
			days: () => days.value,
			model: () => model.value,
			tool: () => tool.value,
			source: () => source.value,
			minCost: () => minCost.value,
			children: () => children.checked ? "true" : "",
			sort: () => sort.value
		};
		const apply = (replace) => {
			const next = new URLSearchParams();
			for (const [name, value] of Object.entries(values)) if (value() !== "") next.set(name, value());
			const to = address(page, next);
			if (to !== location.hash) go(to, replace);
		};
		const count = filtersIn(parameters);
		const more = make("details", {
			class: "filterBox",
			...count > 0 ? { open: "" } : {}
		}, el("summary", "", count > 0 ? \`Filters (\${count})\` : "Filters"));
		more.append(make("div", { class: "fields" }, field("State", status), field("Active in", days), field("Model", model), field("Tool", tool), field("Source", source), field("Cost from $", minCost), field("Sub-agents too", children), button("Clear", () => go(address(page)), { class: "small" })));
		const form = make("form", {
			class: "filters",
			role: "search"
		}, words, more);
		if (sorted) form.append(field("Order", sort));
		form.addEventListener("submit", (event) => {
			event.preventDefault();
			apply(false);
		});
		form.addEventListener("change", (event) => {
			if (event.target !== words) apply(false);
		});
		let waiting;
		words.addEventListener("input", () => {
			clearTimeout(waiting);
			waiting = setTimeout(() => {
				if (form.isConnected) apply(true);
			}, 250);
		});
		const fill = (select, known, chosen) => {
			const have = new Set(Array.from(select.options, (option) => option.value));
			for (const value of chosen === "" || known.includes(chosen) ? known : [...known, chosen]) {
				if (have.has(value)) continue;
				const option = el("option", "", value);
				option.value = value;
				option.selected = value === chosen;
				select.append(option);
			}
		};
		const offer = (known) => {
			fill(model, known.models, at("model"));
			fill(tool, known.tools, at("tool"));
			fill(source, known.sources, at("source"));
		};
		offer({
			models: [],
			sources: [],
			tools: []
		});
		return {
			element: form,
			offer
		};
	};
	const pageSize = 50;
	const together = 1e3;
	const formats = [
		["atif", "ATIF trajectories"],
		["jsonl", "JSON Lines of sessions"],
		["sharegpt", "ShareGPT conversations"]
	];
	const forms = [["file", "one file"], ["archive", "archive"]];
	const titleOf = ({ goal, id, prompt, title }) => title ?? goal ?? prompt ?? id;
	const scoresOf = ({ scores }) => scores.filter(({ run }) => run === void 0).slice(0, 3).map(({ name, value }) => el("span", "tag", \`\${name}: \${String(value)}\`));
	const tagsOf = (session) => [
		...session.parent === void 0 ? [] : [el("span", "tag", "sub-agent")],
		...session.replayOf === void 0 ? [] : [el("span", "tag", \`replay: \${session.replayOf.changed.join(", ") || "same"}\`)],
		...session.children > 0 ? [el("span", "tag", \`\${session.children} \${session.children === 1 ? "sub-agent" : "sub-agents"}\`)] : [],
		...session.notes > 0 ? [el("span", "tag", \`\${session.notes} \${session.notes === 1 ? "note" : "notes"}\`)] : [],
		...scoresOf(session)
	];
	const cell = (name, ...inside) => make("td", { "data-name": name }, ...inside);
	const heads = [
		"",
		"Session",
		"State",
		"Model",
		"Steps",
		"Tokens",
		"Cost",
		"Time",
		"Errors",
		"Active"
	];
	const sessionTable = (filters) => {
		const { parameters } = route();
		const query = queryOf(parameters);
		const chosen = new Set();
		const aborter = new AbortController();
		let shown = [];
		let total = 0;
		let stop;
		let waiting;
		const body = make("tbody");
		const found = make("span", {
			class: "dim",
			role: "status"
		});
		const problem = el("div");
		const none = make("p", {
			class: "empty",
			hidden: ""
		}, "No session matches. Clear the search and the filters, or run hermes.");
		const head = make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name === "" ? el("span", "hidden", "Select") : name)));
		const tableNode = make("table", { class: "sessions" }, make("caption", { class: "hidden" }, "Sessions"), make("thead", {}, head), body);
		const compare = make("a", {
			class: "button",
			role: "link"
		}, "Compare");
		const format = choice(formats);
		const form = choice(forms, "", { title: "An archive (.tar.gz) has a file for each session" });
		const download = make("a", {
			class: "button",
			download: ""
		}, "Export");
		const more = button("Show more", () => void load(shown.length), { class: "wideButton" });
		const drawActions = () => {
			const [left = "", right = ""] = chosen;
			const canCompare = chosen.size === 2;
			compare.textContent = canCompare ? "Compare both" : "Compare";
			compare.title = canCompare ? "" : "Select two sessions to compare them";
			compare.setAttribute("aria-disabled", String(!canCompare));
			if (canCompare) compare.href = address("compare", {
				left,
				right
			});
			else compare.removeAttribute("href");
			download.href = exportAddress({
				format: format.value,
				form: form.value
			}, [...chosen], query);
			download.textContent = chosen.size > 0 ? \`Export \${chosen.size} selected\` : \`Export all \${exact(total)}\`;
			download.hidden = total === 0;
		};
		const rowOf = (session) => {
			const box = make("input", {
				type: "checkbox",
				"aria-label": \`Select \${titleOf(session)}\`
			});
			box.checked = chosen.has(session.id);
			box.addEventListener("change", () => {
				if (box.checked) chosen.add(session.id);
				else chosen.delete(session.id);
				drawActions();
			});
			const name = make("div", { class: "name" }, link(titleOf(session), toSession(session.id)), ...tagsOf(session));
			const sub = session.failure ?? (session.title === void 0 ? "" : session.prompt ?? "");
			if (sub !== "") name.append(el("div", session.failure === void 0 ? "sub" : "sub bad", sub));
			return make("tr", { "data-id": session.id }, cell("", box), cell("Session", name), cell("State", statusChip(session.status)), cell("Model", session.models.join(", ")), cell("Steps", exact(session.steps)), cell("Tokens", tokenFlow(session.tokens)), cell("Cost", costOf(session)), cell("Time", duration(session.duration)), cell("Errors", session.errors === 0 ? "" : el("span", "bad", exact(session.errors))), cell("Active", time(session.activeAt)));
		};
		const draw = () => {
			body.replaceChildren(...shown.map(rowOf));
			found.textContent = shown.length < total ? \`\${exact(shown.length)} of \${exact(total)} sessions\` : \`\${exact(total)} \${total === 1 ? "session" : "sessions"}\`;
			none.hidden = total > 0;
			tableNode.hidden = total === 0;
			more.hidden = shown.length >= total;
			drawActions();
		};
		const changed = (sessions, removed) => {
			const news = new Map(sessions.map((session) => [session.id, session]));
			if (sessions.some(({ id }) => !shown.some((one) => one.id === id)) || removed.length > 0) waiting ??= setTimeout(() => {
				waiting = void 0;
				load(0, Math.max(pageSize, shown.length));
			}, together);
			shown = shown.map((one) => news.get(one.id) ?? one);
			for (const session of shown) {
				const old = news.has(session.id) ? body.querySelector(\`tr[data-id="\${CSS.escape(session.id)}"]\`) : null;
				if (old !== null && !old.contains(document.activeElement)) old.replaceWith(rowOf(session));
			}
		};
		const take = (list, offset) => {
			shown = [...shown.slice(0, offset), ...list.sessions];
			total = list.total;
			filters.offer(list.known);
			draw();
			stop ??= listenToSessions(list.sequence, {
				on: ({ removed, sessions }) => changed(sessions, removed),
				problem: (message) => problem.replaceChildren(notice(message, "bad")),
				lost: (isLost) => problem.replaceChildren(...isLost ? [notice("The studio does not answer: what is shown may be old. It connects again by itself.", "bad")] : [])
			});
		};
		const load = async (offset, limit = pageSize) => {
			const asked = new URLSearchParams(query);
			asked.set("offset", String(offset));
			asked.set("limit", String(Math.min(limit, 500)));
			try {
				take(await sessions(asked, aborter.signal), offset);
			} catch (error) {
				if (!aborter.signal.aborted) problem.replaceChildren(notice(messageOf(error), "bad"));
			}
		};
		for (const one of [format, form]) one.addEventListener("change", drawActions);
		more.hidden = true;
		download.hidden = true;
		drawActions();
		load(0);
		const actions = make("div", { class: "actions" }, found, el("span", "gap"), compare, field("Format", format), field("As", form), download);
		return {
			element: make("section", { class: "panel" }, actions, problem, none, make("div", { class: "tableBox" }, tableNode), more),
			close: () => {
				aborter.abort();
				clearTimeout(waiting);
				stop?.();
			}
		};
	};
	const measures = [
		{
			name: "Time",
			of: (side) => side.duration,
			text: (value) => duration(value) || "0"
		},
		{
			name: "Cost",
			of: ({ cost }) => cost,
			text: (value) => dollars(value) || "$0"
		},
		{
			name: "Prompt tokens",
			of: ({ tokens }) => tokens.input + tokens.cacheRead + tokens.cacheWrite,
			text: short
		},
		{
			name: "Answer tokens",
			of: ({ tokens }) => tokens.output,
			text: short
		},
		{
			name: "Steps",
			of: ({ steps }) => steps,
			text: exact
		},
		{
			name: "Model calls",
			of: ({ modelCalls }) => modelCalls,
			text: exact
		},
		{
			name: "Tool calls",
			of: ({ toolCalls }) => toolCalls,
			text: exact
		},
		{
			name: "Errors",
			of: ({ errors }) => errors,
			text: exact
		}
	];
	const change$1 = ({ text }, left, right) => {
		if (left === void 0 || right === void 0 || left === right) return el("td", "dim", left === right && left !== void 0 ? "=" : "");
		const by = right - left;
		const percent = left === 0 ? "" : \` (\${by > 0 ? "+" : "−"}\${Math.round(Math.abs(by) / left * 100)} %)\`;
		return el("td", by > 0 ? "up" : "down", \`\${by > 0 ? "+" : "−"}\${text(Math.abs(by))}\${percent}\`);
	};
	const sideLink = (side) => link(side.name, toSession(side.session));
	const numbers = ({ left, right }) => {
		const line = (name, one, other, difference = el("td")) => make("tr", {}, make("th", {
			scope: "row",
			class: "l"
		}, name), make("td", {}, one), make("td", {}, other), difference);
		const written = (measure, side) => {
			const value = measure.of(side);
			return value === void 0 ? measure.name === "Cost" ? costOf(side) : "" : measure.text(value);
		};
		return make("div", {
			class: "wide",
			tabindex: "0",
			role: "region",
			"aria-label": "Numbers of both sides"
		}, make("table", { class: "figures compare" }, make("thead", {}, make("tr", {}, make("th", {}), make("th", { scope: "col" }, sideLink(left)), make("th", { scope: "col" }, sideLink(right)), make("th", { scope: "col" }, "Difference"))), make("tbody", {}, line("State", statusChip(left.status), statusChip(right.status)), line("Model", left.models.join(", "), right.models.join(", ")), ...measures.map((measure) => line(measure.name, written(measure, left), written(measure, right), change$1(measure, measure.of(left), measure.of(right)))), line("Cached", cacheShare(left.tokens), cacheShare(right.tokens)), line("Tools", left.tools.join(", "), right.tools.join(", ")))));
	};
	const roomy = 1100;
	const firstOf = ({ first, left, right }, makeRoom) => {
		if (first === void 0) return el("p", "first", "Both are the same, step for step.");
		const { change, state } = first;
		const side = (name, text) => text === void 0 ? [] : [make("div", {}, el("b", "", name), el("span", "", text))];
		return make("div", { class: "first" }, make("div", { class: "actions" }, el("b", "", \`First difference: \${state}\`), button("Show it", () => {
			if (innerHeight < roomy) makeRoom();
			go$1(change);
		}, { class: "small" })), ...side(left.name, first.left), ...side(right.name, first.right));
	};
	const comparePage = () => {
		const aborter = new AbortController();
		let isLoaded = false;
		const { parameters } = route();
		const query = new URLSearchParams();
		for (const name of [
			"left",
			"right",
			"leftRun",
			"rightRun"
		]) {
			const value = parameters.get(name);
			if (value !== null && value !== "") query.set(name, value);
		}
		const swapped = {
			left: query.get("right") ?? "",
			right: query.get("left") ?? "",
			...query.has("leftRun") ? {
				leftRun: query.get("rightRun") ?? "",
				rightRun: query.get("leftRun") ?? ""
			} : {}
		};
		const element = make("section", { class: "comparison" }, notice("Comparing …"));
		const show = async () => {
			const comparison = await compare(query, aborter.signal);
			document.title = \`\${comparison.left.name} ↔ \${comparison.right.name} · hermes studio\`;
			const head = make("summary", {}, el("h1", "", "Comparison"), el("span", "gap"), el("span", "dim", \`\${comparison.left.name} ↔ \${comparison.right.name}\`));
			const sums = make("details", {
				class: "numbersBox",
				open: ""
			}, head);
			const makeRoom = () => {
				sums.open = false;
			};
			sums.append(make("div", { class: "sideBySide" }, numbers(comparison), firstOf(comparison, makeRoom)), link("Swap sides", address("compare", swapped), "button small"));
			element.replaceChildren(sums, viewer);
			load(comparison.data);
			isLoaded = true;
			restore();
		};
		show().catch((error) => {
			if (!aborter.signal.aborted) element.replaceChildren(notice(messageOf(error), "bad"), link("Back to the list", address("")));
		});
		return {
			element,
			close: () => aborter.abort(),
			moved: () => {
				if (isLoaded) restore();
			}
		};
	};
	const openComparison = (left) => {
		const place = el("div", "", "Reading the list …");
		const dialog = make("dialog", {
			class: "form",
			"aria-labelledby": "compareTitle"
		});
		const submit = make("button", {
			type: "submit",
			class: "primary"
		}, "Compare");
		submit.disabled = true;
		const form = make("form", { method: "dialog" }, make("h2", { id: "compareTitle" }, "Compare with"), place, make("div", { class: "actions" }, submit, button("Cancel", () => dialog.close())));
		dialog.append(form);
		dialog.addEventListener("close", () => dialog.remove());
		document.body.append(dialog);
		dialog.showModal();
		attempt(place, async () => {
			const { sessions: sessions$1 } = await sessions(new URLSearchParams({ limit: "200" }));
			const others = sessions$1.filter(({ id }) => id !== left);
			if (others.length === 0) return place.replaceChildren("There is no other session.");
			const other = choice(others.map((session) => [session.id, \`\${titleOf(session).slice(0, 70)} (\${session.id})\`]));
			place.replaceChildren(field("Session", other));
			submit.disabled = false;
			form.addEventListener("submit", () => go(address("compare", {
				left,
				right: other.value
			})));
		});
	};
	const FEAT_TIME = true;
	const UPLOT = "uplot";
	const ORI_HZ = "u-hz";
	const ORI_VT = "u-vt";
	const TITLE = "u-title";
	const WRAP = "u-wrap";
	const UNDER = "u-under";
	const OVER = "u-over";
	const AXIS = "u-axis";
	const OFF = "u-off";
	const SELECT = "u-select";
	const CURSOR_X = "u-cursor-x";
	const CURSOR_Y = "u-cursor-y";
	const CURSOR_PT = "u-cursor-pt";
	const LEGEND = "u-legend";
	const LEGEND_LIVE = "u-live";
	const LEGEND_INLINE = "u-inline";
	const LEGEND_SERIES = "u-series";
	const LEGEND_MARKER = "u-marker";
	const LEGEND_LABEL = "u-label";
	const LEGEND_VALUE = "u-value";
	const WIDTH = "width";
	const HEIGHT = "height";
	const TOP = "top";
	const BOTTOM = "bottom";
	const LEFT = "left";
	const RIGHT = "right";
	const hexBlack = "#000";
	const transparent = "#0000";
	const mousemove = "mousemove";
	const mousedown = "mousedown";
	const mouseup = "mouseup";
	const mouseenter = "mouseenter";
	const mouseleave = "mouseleave";
	const dblclick = "dblclick";
	const resize = "resize";
	const scroll = "scroll";
	const change = "change";
	const dppxchange = "dppxchange";
	const LEGEND_DISP = "--";
	const domEnv = typeof window != "undefined";
	const doc = domEnv ? document : null;
	const win = domEnv ? window : null;
	const nav$1 = domEnv ? navigator : null;
	let pxRatio;
	let query;
	function setPxRatio() {
		let _pxRatio = devicePixelRatio;
		if (pxRatio != _pxRatio) {
			pxRatio = _pxRatio;
			query && off(change, query, setPxRatio);
			query = matchMedia(\`(min-resolution: \${pxRatio - .001}dppx) and (max-resolution: \${pxRatio + .001}dppx)\`);
			on(change, query, setPxRatio);
			win.dispatchEvent(new CustomEvent(dppxchange));
		}
	}
	function addClass(el, c) {
		if (c != null) {
			let cl = el.classList;
			!cl.contains(c) && cl.add(c);
		}
	}
	function remClass(el, c) {
		let cl = el.classList;
		cl.contains(c) && cl.remove(c);
	}
	function setStylePx(el, name, value) {
		el.style[name] = value + "px";
	}
	function placeTag(tag, cls, targ, refEl) {
		let el = doc.createElement(tag);
		if (cls != null) addClass(el, cls);
		if (targ != null) targ.insertBefore(el, refEl);
		return el;
	}
	function placeDiv(cls, targ) {
		return placeTag("div", cls, targ);
	}
	const xformCache = new WeakMap();
	function elTrans(el, xPos, yPos, xMax, yMax) {
		let xform = "translate(" + xPos + "px," + yPos + "px)";
		if (xform != xformCache.get(el)) {
			el.style.transform = xform;
			xformCache.set(el, xform);
			if (xPos < 0 || yPos < 0 || xPos > xMax || yPos > yMax) addClass(el, OFF);
			else remClass(el, OFF);
		}
	}
	const colorCache = new WeakMap();
	function elColor(el, background, borderColor) {
		let newColor = background + borderColor;
		if (newColor != colorCache.get(el)) {
			colorCache.set(el, newColor);
			el.style.background = background;
			el.style.borderColor = borderColor;
		}
	}
	const sizeCache = new WeakMap();
	function elSize(el, newWid, newHgt, centered) {
		let newSize = newWid + "" + newHgt;
		if (newSize != sizeCache.get(el)) {
			sizeCache.set(el, newSize);
			el.style.height = newHgt + "px";
			el.style.width = newWid + "px";
			el.style.marginLeft = centered ? -newWid / 2 + "px" : 0;
			el.style.marginTop = centered ? -newHgt / 2 + "px" : 0;
		}
	}
	const evOpts = { passive: true };
	const evOpts2 = {
		...evOpts,
		capture: true
	};
	function on(ev, el, cb, capt) {
		el.addEventListener(ev, cb, capt ? evOpts2 : evOpts);
	}
	function off(ev, el, cb, capt) {
		el.removeEventListener(ev, cb, evOpts);
	}
	domEnv && setPxRatio();
	function closestIdx(num, arr, lo, hi) {
		let mid;
		lo = lo || 0;
		hi = hi || arr.length - 1;
		let bitwise = hi <= 2147483647;
		while (hi - lo > 1) {
			mid = bitwise ? lo + hi >> 1 : floor((lo + hi) / 2);
			if (arr[mid] < num) lo = mid;
			else hi = mid;
		}
		if (num - arr[lo] <= arr[hi] - num) return lo;
		return hi;
	}
	function makeIndexOfs(predicate) {
		let indexOfs = (data, _i0, _i1) => {
			let i0 = -1;
			let i1 = -1;
			for (let i = _i0; i <= _i1; i++) if (predicate(data[i])) {
				i0 = i;
				break;
			}
			for (let i = _i1; i >= _i0; i--) if (predicate(data[i])) {
				i1 = i;
				break;
			}
			return [i0, i1];
		};
		return indexOfs;
	}
	const notNullish = (v) => v != null;
	const isPositive = (v) => v != null && v > 0;
	const nonNullIdxs = makeIndexOfs(notNullish);
	const positiveIdxs = makeIndexOfs(isPositive);
	function getMinMax(data, _i0, _i1, sorted = 0, log = false) {
		let getEdgeIdxs = log ? positiveIdxs : nonNullIdxs;
		let predicate = log ? isPositive : notNullish;
		[_i0, _i1] = getEdgeIdxs(data, _i0, _i1);
		let _min = data[_i0];
		let _max = data[_i0];
		if (_i0 > -1) {
			if (sorted == 1) {
				_min = data[_i0];
				_max = data[_i1];
			} else if (sorted == -1) {
				_min = data[_i1];
				_max = data[_i0];
			} else for (let i = _i0; i <= _i1; i++) {
				let v = data[i];
				if (predicate(v)) {
					if (v < _min) _min = v;
					else if (v > _max) _max = v;
				}
			}
		}
		return [_min ?? inf, _max ?? -inf];
	}
	function rangeLog(min, max, base, fullMags) {
		let minSign = sign(min);
		let maxSign = sign(max);
		if (min == max) {
			if (minSign == -1) {
				min *= base;
				max /= base;
			} else {
				min /= base;
				max *= base;
			}
		}
		let logFn = base == 10 ? log10 : log2;
		let growMinAbs = minSign == 1 ? floor : ceil;
		let growMaxAbs = maxSign == 1 ? ceil : floor;
		let minExp = growMinAbs(logFn(abs(min)));
		let maxExp = growMaxAbs(logFn(abs(max)));
		let minIncr = pow(base, minExp);
		let maxIncr = pow(base, maxExp);
		if (base == 10) {
			if (minExp < 0) minIncr = roundDec(minIncr, -minExp);
			if (maxExp < 0) maxIncr = roundDec(maxIncr, -maxExp);
		}
		if (fullMags || base == 2) {
			min = minIncr * minSign;
			max = maxIncr * maxSign;
		} else {
			min = incrRoundDn(min, minIncr);
			max = incrRoundUp(max, maxIncr);
		}
		return [min, max];
	}
	function rangeAsinh(min, max, base, fullMags) {
		let minMax = rangeLog(min, max, base, fullMags);
		if (min == 0) minMax[0] = 0;
		if (max == 0) minMax[1] = 0;
		return minMax;
	}
	const rangePad = .1;
	const autoRangePart = {
		mode: 3,
		pad: rangePad
	};
	const _eqRangePart = {
		pad: 0,
		soft: null,
		mode: 0
	};
	const _eqRange = {
		min: _eqRangePart,
		max: _eqRangePart
	};
	function rangeNum(_min, _max, mult, extra) {
		if (isObj(mult)) return _rangeNum(_min, _max, mult);
		_eqRangePart.pad = mult;
		_eqRangePart.soft = extra ? 0 : null;
		_eqRangePart.mode = extra ? 3 : 0;
		return _rangeNum(_min, _max, _eqRange);
	}
	function ifNull(lh, rh) {
		return lh == null ? rh : lh;
	}
	function hasData(data, idx0, idx1) {
		idx0 = ifNull(idx0, 0);
		idx1 = ifNull(idx1, data.length - 1);
		while (idx0 <= idx1) {
			if (data[idx0] != null) return true;
			idx0++;
		}
		return false;
	}
	function _rangeNum(_min, _max, cfg) {
		let cmin = cfg.min;
		let cmax = cfg.max;
		let padMin = ifNull(cmin.pad, 0);
		let padMax = ifNull(cmax.pad, 0);
		let hardMin = ifNull(cmin.hard, -inf);
		let hardMax = ifNull(cmax.hard, inf);
		let softMin = ifNull(cmin.soft, inf);
		let softMax = ifNull(cmax.soft, -inf);
		let softMinMode = ifNull(cmin.mode, 0);
		let softMaxMode = ifNull(cmax.mode, 0);
		let delta = _max - _min;
		let deltaMag = log10(delta);
		let scalarMax = max(abs(_min), abs(_max));
		let scalarMag = log10(scalarMax);
		let scalarMagDelta = abs(scalarMag - deltaMag);
		if (delta < 1e-24 || scalarMagDelta > 10) {
			delta = 0;
			if (_min == 0 || _max == 0) {
				delta = 1e-24;
				if (softMinMode == 2 && softMin != inf) padMin = 0;
				if (softMaxMode == 2 && softMax != -inf) padMax = 0;
			}
		}
		let nonZeroDelta = delta || scalarMax || 1e3;
		let mag = log10(nonZeroDelta);
		let base = pow(10, floor(mag));
		let _newMin = roundDec(incrRoundDn(_min - nonZeroDelta * (delta == 0 ? _min == 0 ? .1 : 1 : padMin), base / 10), 24);
		let _softMin = _min >= softMin && (softMinMode == 1 || softMinMode == 3 && _newMin <= softMin || softMinMode == 2 && _newMin >= softMin) ? softMin : inf;
		let minLim = max(hardMin, _newMin < _softMin && _min >= _softMin ? _softMin : min(_softMin, _newMin));
		let _newMax = roundDec(incrRoundUp(_max + nonZeroDelta * (delta == 0 ? _max == 0 ? .1 : 1 : padMax), base / 10), 24);
		let _softMax = _max <= softMax && (softMaxMode == 1 || softMaxMode == 3 && _newMax >= softMax || softMaxMode == 2 && _newMax <= softMax) ? softMax : -inf;
		let maxLim = min(hardMax, _newMax > _softMax && _max <= _softMax ? _softMax : max(_softMax, _newMax));
		if (minLim == maxLim && minLim == 0) maxLim = 100;
		return [minLim, maxLim];
	}
	const numFormatter = new Intl.NumberFormat(domEnv ? nav$1.language : "en-US");
	const fmtNum = (val) => numFormatter.format(val);
	const M$1 = Math;
	const PI = M$1.PI;
	const abs = M$1.abs;
	const floor = M$1.floor;
	const round = M$1.round;
	const ceil = M$1.ceil;
	const min = M$1.min;
	const max = M$1.max;
	const pow = M$1.pow;
	const sign = M$1.sign;
	const log10 = M$1.log10;
	const log2 = M$1.log2;
	const sinh = (v, linthresh = 1) => M$1.sinh(v) * linthresh;
	const asinh = (v, linthresh = 1) => M$1.asinh(v / linthresh);
	const inf = Infinity;
	function numIntDigits(x) {
		return (log10((x ^ x >> 31) - (x >> 31)) | 0) + 1;
	}
	function clamp(num, _min, _max) {
		return min(max(num, _min), _max);
	}
	function isFn(v) {
		return typeof v == "function";
	}
	function fnOrSelf(v) {
		return isFn(v) ? v : () => v;
	}
	const noop = () => {};
	const retArg0 = (_0) => _0;
	const retArg1 = (_0, _1) => _1;
	const retNull = (_) => null;
	const retTrue = (_) => true;
	const retEq = (a, b) => a == b;
	const regex6 = /\\.\\d*?(?=9{6,}|0{6,})/gm;
	const fixFloat = (val) => {
		if (isInt(val) || fixedDec.has(val)) return val;
		const str = \`\${val}\`;
		const match = str.match(regex6);
		if (match == null) return val;
		let len = match[0].length - 1;
		if (str.indexOf("e-") != -1) {
			let [num, exp] = str.split("e");
			return +\`\${fixFloat(num)}e\${exp}\`;
		}
		return roundDec(val, len);
	};
	function incrRound(num, incr) {
		return fixFloat(roundDec(fixFloat(num / incr)) * incr);
	}
	function incrRoundUp(num, incr) {
		return fixFloat(ceil(fixFloat(num / incr)) * incr);
	}
	function incrRoundDn(num, incr) {
		return fixFloat(floor(fixFloat(num / incr)) * incr);
	}
	function roundDec(val, dec = 0) {
		if (isInt(val)) return val;
		let p = 10 ** dec;
		let n = val * p * (1 + Number.EPSILON);
		return round(n) / p;
	}
	const fixedDec = new Map();
	function guessDec(num) {
		return (("" + num).split(".")[1] || "").length;
	}
	function genIncrs(base, minExp, maxExp, mults) {
		let incrs = [];
		let multDec = mults.map(guessDec);
		for (let exp = minExp; exp < maxExp; exp++) {
			let expa = abs(exp);
			let mag = roundDec(pow(base, exp), expa);
			for (let i = 0; i < mults.length; i++) {
				let _incr = base == 10 ? +\`\${mults[i]}e\${exp}\` : mults[i] * mag;
				let dec = (exp >= 0 ? 0 : expa) + (exp >= multDec[i] ? 0 : multDec[i]);
				let incr = base == 10 ? _incr : roundDec(_incr, dec);
				incrs.push(incr);
				fixedDec.set(incr, dec);
			}
		}
		return incrs;
	}
	const EMPTY_OBJ = {};
	const EMPTY_ARR = [];
	const nullNullTuple = [null, null];
	const isArr = Array.isArray;
	const isInt = Number.isInteger;
	const isUndef = (v) => v === void 0;
	function isStr(v) {
		return typeof v == "string";
	}
	function isObj(v) {
		let is = false;
		if (v != null) {
			let c = v.constructor;
			is = c == null || c == Object;
		}
		return is;
	}
	function fastIsObj(v) {
		return v != null && typeof v == "object";
	}
	const TypedArray = Object.getPrototypeOf(Uint8Array);
	const __proto__ = "__proto__";
	function copy(o, _isObj = isObj) {
		let out;
		if (isArr(o)) {
			let val = o.find((v) => v != null);
			if (isArr(val) || _isObj(val)) {
				out = Array(o.length);
				for (let i = 0; i < o.length; i++) out[i] = copy(o[i], _isObj);
			} else out = o.slice();
		} else if (o instanceof TypedArray) out = o.slice();
		else if (_isObj(o)) {
			out = {};
			for (let k in o) if (k != __proto__) out[k] = copy(o[k], _isObj);
		} else out = o;
		return out;
	}
	function assign(targ) {
		let args = arguments;
		for (let i = 1; i < args.length; i++) {
			let src = args[i];
			for (let key in src) if (key != __proto__) {
				if (isObj(targ[key])) assign(targ[key], copy(src[key]));
				else targ[key] = copy(src[key]);
			}
		}
		return targ;
	}
	const NULL_REMOVE = 0;
	const NULL_RETAIN = 1;
	const NULL_EXPAND = 2;
	function nullExpand(yVals, nullIdxs, alignedLen) {
		for (let i = 0, xi, lastNullIdx = -1; i < nullIdxs.length; i++) {
			let nullIdx = nullIdxs[i];
			if (nullIdx > lastNullIdx) {
				xi = nullIdx - 1;
				while (xi >= 0 && yVals[xi] == null) yVals[xi--] = null;
				xi = nullIdx + 1;
				while (xi < alignedLen && yVals[xi] == null) yVals[lastNullIdx = xi++] = null;
			}
		}
	}
	function join(tables, nullModes) {
		if (allHeadersSame(tables)) {
			let table = tables[0].slice();
			for (let i = 1; i < tables.length; i++) table.push(...tables[i].slice(1));
			if (!isAsc(table[0])) table = sortCols(table);
			return table;
		}
		let xVals = new Set();
		for (let ti = 0; ti < tables.length; ti++) {
			let xs = tables[ti][0];
			let len = xs.length;
			for (let i = 0; i < len; i++) xVals.add(xs[i]);
		}
		let data = [Array.from(xVals).sort((a, b) => a - b)];
		let alignedLen = data[0].length;
		let xIdxs = new Map();
		for (let i = 0; i < alignedLen; i++) xIdxs.set(data[0][i], i);
		for (let ti = 0; ti < tables.length; ti++) {
			let t = tables[ti];
			let xs = t[0];
			for (let si = 1; si < t.length; si++) {
				let ys = t[si];
				let yVals = Array(alignedLen).fill(void 0);
				let nullMode = nullModes ? nullModes[ti][si] : NULL_RETAIN;
				let nullIdxs = [];
				for (let i = 0; i < ys.length; i++) {
					let yVal = ys[i];
					let alignedIdx = xIdxs.get(xs[i]);
					if (yVal === null) {
						if (nullMode != NULL_REMOVE) {
							yVals[alignedIdx] = yVal;
							if (nullMode == NULL_EXPAND) nullIdxs.push(alignedIdx);
						}
					} else yVals[alignedIdx] = yVal;
				}
				nullExpand(yVals, nullIdxs, alignedLen);
				data.push(yVals);
			}
		}
		return data;
	}
	const microTask = typeof queueMicrotask == "undefined" ? (fn) => Promise.resolve().then(fn) : queueMicrotask;
	function sortCols(table) {
		let head = table[0];
		let rlen = head.length;
		let idxs = Array(rlen);
		for (let i = 0; i < idxs.length; i++) idxs[i] = i;
		idxs.sort((i0, i1) => head[i0] - head[i1]);
		let table2 = [];
		for (let i = 0; i < table.length; i++) {
			let row = table[i];
			let row2 = Array(rlen);
			for (let j = 0; j < rlen; j++) row2[j] = row[idxs[j]];
			table2.push(row2);
		}
		return table2;
	}
	function allHeadersSame(tables) {
		let vals0 = tables[0][0];
		let len0 = vals0.length;
		for (let i = 1; i < tables.length; i++) {
			let vals1 = tables[i][0];
			if (vals1.length != len0) return false;
			if (vals1 != vals0) {
				for (let j = 0; j < len0; j++) if (vals1[j] != vals0[j]) return false;
			}
		}
		return true;
	}
	function isAsc(vals, samples = 100) {
		const len = vals.length;
		if (len <= 1) return true;
		let firstIdx = 0;
		let lastIdx = len - 1;
		while (firstIdx <= lastIdx && vals[firstIdx] == null) firstIdx++;
		while (lastIdx >= firstIdx && vals[lastIdx] == null) lastIdx--;
		if (lastIdx <= firstIdx) return true;
		const stride = max(1, floor((lastIdx - firstIdx + 1) / samples));
		for (let prevVal = vals[firstIdx], i = firstIdx + stride; i <= lastIdx; i += stride) {
			const v = vals[i];
			if (v != null) {
				if (v <= prevVal) return false;
				prevVal = v;
			}
		}
		return true;
	}
	const months = [
		"January",
		"February",
		"March",
		"April",
		"May",
		"June",
		"July",
		"August",
		"September",
		"October",
		"November",
		"December"
	];
	const days = [
		"Sunday",
		"Monday",
		"Tuesday",
		"Wednesday",
		"Thursday",
		"Friday",
		"Saturday"
	];
	function slice3(str) {
		return str.slice(0, 3);
	}
	const days3 = days.map(slice3);
	const engNames = {
		MMMM: months,
		MMM: months.map(slice3),
		WWWW: days,
		WWW: days3
	};
	function zeroPad2(int) {
		return (int < 10 ? "0" : "") + int;
	}
	function zeroPad3(int) {
		return (int < 10 ? "00" : int < 100 ? "0" : "") + int;
	}
	const subs = {
		YYYY: (d) => d.getFullYear(),
		YY: (d) => (d.getFullYear() + "").slice(2),
		MMMM: (d, names) => names.MMMM[d.getMonth()],
		MMM: (d, names) => names.MMM[d.getMonth()],
		MM: (d) => zeroPad2(d.getMonth() + 1),
		M: (d) => d.getMonth() + 1,
		DD: (d) => zeroPad2(d.getDate()),
		D: (d) => d.getDate(),
		WWWW: (d, names) => names.WWWW[d.getDay()],
		WWW: (d, names) => names.WWW[d.getDay()],
		HH: (d) => zeroPad2(d.getHours()),
		H: (d) => d.getHours(),
		h: (d) => {
			let h = d.getHours();
			return h == 0 ? 12 : h > 12 ? h - 12 : h;
		},
		AA: (d) => d.getHours() >= 12 ? "PM" : "AM",
		aa: (d) => d.getHours() >= 12 ? "pm" : "am",
		a: (d) => d.getHours() >= 12 ? "p" : "a",
		mm: (d) => zeroPad2(d.getMinutes()),
		m: (d) => d.getMinutes(),
		ss: (d) => zeroPad2(d.getSeconds()),
		s: (d) => d.getSeconds(),
		fff: (d) => zeroPad3(d.getMilliseconds())
	};
	function fmtDate(tpl, names) {
		names = names || engNames;
		let parts = [];
		let R = /\\{([a-z]+)\\}|[^{]+/gi, m;
		while (m = R.exec(tpl)) parts.push(m[0][0] == "{" ? subs[m[1]] : m[0]);
		return (d) => {
			let out = "";
			for (let i = 0; i < parts.length; i++) out += typeof parts[i] == "string" ? parts[i] : parts[i](d, names);
			return out;
		};
	}
	const localTz = new Intl.DateTimeFormat().resolvedOptions().timeZone;
	function tzDate(date, tz) {
		let date2;
		if (tz == "UTC" || tz == "Etc/UTC") date2 = new Date(+date + date.getTimezoneOffset() * 6e4);
		else if (tz == localTz) date2 = date;
		else {
			date2 = new Date(date.toLocaleString("en-US", { timeZone: tz }));
			date2.setMilliseconds(date.getMilliseconds());
		}
		return date2;
	}
	const onlyWhole = (v) => v % 1 == 0;
	const allMults = [
		1,
		2,
		2.5,
		5
	];
	const decIncrs = genIncrs(10, -32, 0, allMults);
	const oneIncrs = genIncrs(10, 0, 32, allMults);
	const wholeIncrs = oneIncrs.filter(onlyWhole);
	const numIncrs = decIncrs.concat(oneIncrs);
	const NL = "\\n";
	const yyyy = "{YYYY}";
	const NLyyyy = NL + yyyy;
	const md = "{M}/{D}";
	const NLmd = NL + md;
	const NLmdyy = NLmd + "/{YY}";
	const aa = "{aa}";
	const hmmaa = "{h}:{mm}" + aa;
	const NLhmmaa = NL + hmmaa;
	const ss = ":{ss}";
	const _$1 = null;
	function genTimeStuffs(ms) {
		let s = ms * 1e3, m = s * 60, h = m * 60, d = h * 24, mo = d * 30, y = d * 365;
		let timeIncrs = (ms == 1 ? genIncrs(10, 0, 3, allMults).filter(onlyWhole) : genIncrs(10, -3, 0, allMults)).concat([
			s,
			s * 5,
			s * 10,
			s * 15,
			s * 30,
			m,
			m * 5,
			m * 10,
			m * 15,
			m * 30,
			h,
			h * 2,
			h * 3,
			h * 4,
			h * 6,
			h * 8,
			h * 12,
			d,
			d * 2,
			d * 3,
			d * 4,
			d * 5,
			d * 6,
			d * 7,
			d * 8,
			d * 9,
			d * 10,
			d * 15,
			mo,
			mo * 2,
			mo * 3,
			mo * 4,
			mo * 6,
			y,
			y * 2,
			y * 5,
			y * 10,
			y * 25,
			y * 50,
			y * 100
		]);
		const _timeAxisStamps = [
			[
				y,
				yyyy,
				_$1,
				_$1,
				_$1,
				_$1,
				_$1,
				_$1,
				1
			],
			[
				d * 28,
				"{MMM}",
				NLyyyy,
				_$1,
				_$1,
				_$1,
				_$1,
				_$1,
				1
			],
			[
				d,
				md,
				NLyyyy,
				_$1,
				_$1,
				_$1,
				_$1,
				_$1,
				1
			],
			[
				h,
				"{h}" + aa,
				NLmdyy,
				_$1,
				NLmd,
				_$1,
				_$1,
				_$1,
				1
			],
			[
				m,
				hmmaa,
				NLmdyy,
				_$1,
				NLmd,
				_$1,
				_$1,
				_$1,
				1
			],
			[
				s,
				ss,
				NLmdyy + " " + hmmaa,
				_$1,
				NLmd + " " + hmmaa,
				_$1,
				NLhmmaa,
				_$1,
				1
			],
			[
				ms,
				ss + ".{fff}",
				NLmdyy + " " + hmmaa,
				_$1,
				NLmd + " " + hmmaa,
				_$1,
				NLhmmaa,
				_$1,
				1
			]
		];
		function timeAxisSplits(tzDate) {
			return (self, axisIdx, scaleMin, scaleMax, foundIncr, foundSpace) => {
				let splits = [];
				let isYr = foundIncr >= y;
				let isMo = foundIncr >= mo && foundIncr < y;
				let minDate = tzDate(scaleMin);
				let minDateTs = roundDec(minDate * ms, 3);
				let minMin = mkDate(minDate.getFullYear(), isYr ? 0 : minDate.getMonth(), isMo || isYr ? 1 : minDate.getDate());
				let minMinTs = roundDec(minMin * ms, 3);
				if (isMo || isYr) {
					let moIncr = isMo ? foundIncr / mo : 0;
					let yrIncr = isYr ? foundIncr / y : 0;
					let split = minDateTs == minMinTs ? minDateTs : roundDec(mkDate(minMin.getFullYear() + yrIncr, minMin.getMonth() + moIncr, 1) * ms, 3);
					let splitDate = new Date(round(split / ms));
					let baseYear = splitDate.getFullYear();
					let baseMonth = splitDate.getMonth();
					for (let i = 0; split <= scaleMax; i++) {
						let next = mkDate(baseYear + yrIncr * i, baseMonth + moIncr * i, 1);
						let offs = next - tzDate(roundDec(next * ms, 3));
						split = roundDec((+next + offs) * ms, 3);
						if (split <= scaleMax) splits.push(split);
					}
				} else {
					let incr0 = foundIncr >= d ? d : foundIncr;
					let split = minMinTs + (floor(scaleMin) - floor(minDateTs)) + incrRoundUp(minDateTs - minMinTs, incr0);
					splits.push(split);
					let date0 = tzDate(split);
					let prevHour = date0.getHours() + date0.getMinutes() / m + date0.getSeconds() / h;
					let incrHours = foundIncr / h;
					let pctSpace = foundSpace / self.axes[axisIdx]._space;
					while (1) {
						split = roundDec(split + foundIncr, ms == 1 ? 0 : 3);
						if (split > scaleMax) break;
						if (incrHours > 1) {
							let expectedHour = floor(roundDec(prevHour + incrHours, 6)) % 24;
							let dstShift = tzDate(split).getHours() - expectedHour;
							if (dstShift > 1) dstShift = -1;
							split -= dstShift * h;
							prevHour = (prevHour + incrHours) % 24;
							let prevSplit = splits[splits.length - 1];
							if (roundDec((split - prevSplit) / foundIncr, 3) * pctSpace >= .7) splits.push(split);
						} else splits.push(split);
					}
				}
				return splits;
			};
		}
		return [
			timeIncrs,
			_timeAxisStamps,
			timeAxisSplits
		];
	}
	const [timeIncrsMs, _timeAxisStampsMs, timeAxisSplitsMs] = genTimeStuffs(1);
	const [timeIncrsS, _timeAxisStampsS, timeAxisSplitsS] = genTimeStuffs(.001);
	genIncrs(2, -53, 53, [1]);
	function timeAxisStamps(stampCfg, fmtDate) {
		return stampCfg.map((s) => s.map((v, i) => i == 0 || i == 8 || v == null ? v : fmtDate(i == 1 || s[8] == 0 ? v : s[1] + v)));
	}
	function timeAxisVals(tzDate, stamps) {
		return (self, splits, axisIdx, foundSpace, foundIncr) => {
			let s = stamps.find((s) => foundIncr >= s[0]) || stamps[stamps.length - 1];
			let prevYear;
			let prevMnth;
			let prevDate;
			let prevHour;
			let prevMins;
			let prevSecs;
			return splits.map((split) => {
				let date = tzDate(split);
				let newYear = date.getFullYear();
				let newMnth = date.getMonth();
				let newDate = date.getDate();
				let newHour = date.getHours();
				let newMins = date.getMinutes();
				let newSecs = date.getSeconds();
				let stamp = newYear != prevYear && s[2] || newMnth != prevMnth && s[3] || newDate != prevDate && s[4] || newHour != prevHour && s[5] || newMins != prevMins && s[6] || newSecs != prevSecs && s[7] || s[1];
				prevYear = newYear;
				prevMnth = newMnth;
				prevDate = newDate;
				prevHour = newHour;
				prevMins = newMins;
				prevSecs = newSecs;
				return stamp(date);
			});
		};
	}
	function timeAxisVal(tzDate, dateTpl) {
		let stamp = fmtDate(dateTpl);
		return (self, splits, axisIdx, foundSpace, foundIncr) => splits.map((split) => stamp(tzDate(split)));
	}
	function mkDate(y, m, d) {
		return new Date(y, m, d);
	}
	function timeSeriesStamp(stampCfg, fmtDate) {
		return fmtDate(stampCfg);
	}
	const _timeSeriesStamp = "{YYYY}-{MM}-{DD} {h}:{mm}{aa}";
	function timeSeriesVal(tzDate, stamp) {
		return (self, val, seriesIdx, dataIdx) => dataIdx == null ? LEGEND_DISP : stamp(tzDate(val));
	}
	function legendStroke(self, seriesIdx) {
		let s = self.series[seriesIdx];
		return s.width ? s.stroke(self, seriesIdx) : s.points.width ? s.points.stroke(self, seriesIdx) : null;
	}
	function legendFill(self, seriesIdx) {
		return self.series[seriesIdx].fill(self, seriesIdx);
	}
	const legendOpts = {
		show: true,
		live: true,
		isolate: false,
		mount: noop,
		markers: {
			show: true,
			width: 2,
			stroke: legendStroke,
			fill: legendFill,
			dash: "solid"
		},
		idx: null,
		idxs: null,
		values: []
	};
	function cursorPointShow(self, si) {
		let o = self.cursor.points;
		let pt = placeDiv();
		let size = o.size(self, si);
		setStylePx(pt, WIDTH, size);
		setStylePx(pt, HEIGHT, size);
		let mar = size / -2;
		setStylePx(pt, "marginLeft", mar);
		setStylePx(pt, "marginTop", mar);
		let width = o.width(self, si, size);
		width && setStylePx(pt, "borderWidth", width);
		return pt;
	}
	function cursorPointFill(self, si) {
		let sp = self.series[si].points;
		return sp._fill || sp._stroke;
	}
	function cursorPointStroke(self, si) {
		let sp = self.series[si].points;
		return sp._stroke || sp._fill;
	}
	function cursorPointSize(self, si) {
		return self.series[si].points.size;
	}
	const moveTuple = [0, 0];
	function cursorMove(self, mouseLeft1, mouseTop1) {
		moveTuple[0] = mouseLeft1;
		moveTuple[1] = mouseTop1;
		return moveTuple;
	}
	function filtBtn0(self, targ, handle, onlyTarg = true) {
		return (e) => {
			e.button == 0 && (!onlyTarg || e.target == targ) && handle(e);
		};
	}
	function filtTarg(self, targ, handle, onlyTarg = true) {
		return (e) => {
			(!onlyTarg || e.target == targ) && handle(e);
		};
	}
	const cursorOpts = {
		show: true,
		x: true,
		y: true,
		lock: false,
		move: cursorMove,
		points: {
			one: false,
			show: cursorPointShow,
			size: cursorPointSize,
			width: 0,
			stroke: cursorPointStroke,
			fill: cursorPointFill
		},
		bind: {
			mousedown: filtBtn0,
			mouseup: filtBtn0,
			click: filtBtn0,
			dblclick: filtBtn0,
			mousemove: filtTarg,
			mouseleave: filtTarg,
			mouseenter: filtTarg
		},
		drag: {
			setScale: true,
			x: true,
			y: false,
			dist: 0,
			uni: null,
			click: (self, e) => {
				e.stopPropagation();
				e.stopImmediatePropagation();
			},
			_x: false,
			_y: false
		},
		focus: {
			dist: (self, seriesIdx, dataIdx, valPos, curPos) => valPos - curPos,
			prox: -1,
			bias: 0
		},
		hover: {
			skip: [void 0],
			prox: null,
			bias: 0
		},
		left: -10,
		top: -10,
		idx: null,
		dataIdx: null,
		idxs: null,
		event: null
	};
	const axisLines = {
		show: true,
		stroke: "rgba(0,0,0,0.07)",
		width: 2
	};
	const grid = assign({}, axisLines, { filter: retArg1 });
	const ticks = assign({}, grid, { size: 10 });
	const border = assign({}, axisLines, { show: false });
	const font = "12px system-ui, -apple-system, \\"Segoe UI\\", Roboto, \\"Helvetica Neue\\", Arial, \\"Noto Sans\\", sans-serif, \\"Apple Color Emoji\\", \\"Segoe UI Emoji\\", \\"Segoe UI Symbol\\", \\"Noto Color Emoji\\"";
	const labelFont = "bold " + font;
	const lineGap = 1.5;
	const xAxisOpts = {
		show: true,
		scale: "x",
		stroke: hexBlack,
		space: 50,
		gap: 5,
		alignTo: 1,
		size: 50,
		labelGap: 0,
		labelSize: 30,
		labelFont,
		side: 2,
		grid,
		ticks,
		border,
		font,
		lineGap,
		rotate: 0
	};
	const numSeriesLabel = "Value";
	const timeSeriesLabel = "Time";
	const xSeriesOpts = {
		show: true,
		scale: "x",
		auto: false,
		sorted: 1,
		min: inf,
		max: -Infinity,
		idxs: []
	};
	function numAxisVals(self, splits, axisIdx, foundSpace, foundIncr) {
		return splits.map((v) => v == null ? "" : fmtNum(v));
	}
	function numAxisSplits(self, axisIdx, scaleMin, scaleMax, foundIncr, foundSpace, forceMin) {
		let splits = [];
		let numDec = fixedDec.get(foundIncr) || 0;
		scaleMin = forceMin ? scaleMin : roundDec(incrRoundUp(scaleMin, foundIncr), numDec);
		for (let val = scaleMin; val <= scaleMax; val = roundDec(val + foundIncr, numDec)) splits.push(Object.is(val, -0) ? 0 : val);
		return splits;
	}
	function logAxisSplits(self, axisIdx, scaleMin, scaleMax, foundIncr, foundSpace, forceMin) {
		const splits = [];
		const logBase = self.scales[self.axes[axisIdx].scale].log;
		const exp = floor((logBase == 10 ? log10 : log2)(scaleMin));
		foundIncr = pow(logBase, exp);
		if (logBase == 10) foundIncr = numIncrs[closestIdx(foundIncr, numIncrs)];
		let split = scaleMin;
		let nextMagIncr = foundIncr * logBase;
		if (logBase == 10) nextMagIncr = numIncrs[closestIdx(nextMagIncr, numIncrs)];
		do {
			splits.push(split);
			split = split + foundIncr;
			if (logBase == 10 && !fixedDec.has(split)) split = roundDec(split, fixedDec.get(foundIncr));
			if (split >= nextMagIncr) {
				foundIncr = split;
				nextMagIncr = foundIncr * logBase;
				if (logBase == 10) nextMagIncr = numIncrs[closestIdx(nextMagIncr, numIncrs)];
			}
		} while (split <= scaleMax);
		return splits;
	}
	function asinhAxisSplits(self, axisIdx, scaleMin, scaleMax, foundIncr, foundSpace, forceMin) {
		let linthresh = self.scales[self.axes[axisIdx].scale].asinh;
		let posSplits = scaleMax > linthresh ? logAxisSplits(self, axisIdx, max(linthresh, scaleMin), scaleMax, foundIncr) : [linthresh];
		let zero = scaleMax >= 0 && scaleMin <= 0 ? [0] : [];
		return (scaleMin < -linthresh ? logAxisSplits(self, axisIdx, max(linthresh, -scaleMax), -scaleMin, foundIncr) : [linthresh]).reverse().map((v) => -v).concat(zero, posSplits);
	}
	const RE_ALL = /./;
	const RE_12357 = /[12357]/;
	const RE_125 = /[125]/;
	const RE_1 = /1/;
	const _filt = (splits, distr, re, keepMod) => splits.map((v, i) => distr == 4 && v == 0 || i % keepMod == 0 && re.test(v.toExponential()[v < 0 ? 1 : 0]) ? v : null);
	function log10AxisValsFilt(self, splits, axisIdx, foundSpace, foundIncr) {
		let axis = self.axes[axisIdx];
		let scaleKey = axis.scale;
		let sc = self.scales[scaleKey];
		let valToPos = self.valToPos;
		let minSpace = axis._space;
		let _10 = valToPos(10, scaleKey);
		let re = valToPos(9, scaleKey) - _10 >= minSpace ? RE_ALL : valToPos(7, scaleKey) - _10 >= minSpace ? RE_12357 : valToPos(5, scaleKey) - _10 >= minSpace ? RE_125 : RE_1;
		if (re == RE_1) {
			let magSpace = abs(valToPos(1, scaleKey) - _10);
			if (magSpace < minSpace) return _filt(splits.slice().reverse(), sc.distr, re, ceil(minSpace / magSpace)).reverse();
		}
		return _filt(splits, sc.distr, re, 1);
	}
	function log2AxisValsFilt(self, splits, axisIdx, foundSpace, foundIncr) {
		let axis = self.axes[axisIdx];
		let scaleKey = axis.scale;
		let minSpace = axis._space;
		let valToPos = self.valToPos;
		let magSpace = abs(valToPos(1, scaleKey) - valToPos(2, scaleKey));
		if (magSpace < minSpace) return _filt(splits.slice().reverse(), 3, RE_ALL, ceil(minSpace / magSpace)).reverse();
		return splits;
	}
	function numSeriesVal(self, val, seriesIdx, dataIdx) {
		return dataIdx == null ? LEGEND_DISP : val == null ? "" : fmtNum(val);
	}
	const yAxisOpts = {
		show: true,
		scale: "y",
		stroke: hexBlack,
		space: 30,
		gap: 5,
		alignTo: 1,
		size: 50,
		labelGap: 0,
		labelSize: 30,
		labelFont,
		side: 3,
		grid,
		ticks,
		border,
		font,
		lineGap,
		rotate: 0
	};
	function ptDia(width, mult) {
		return roundDec((3 + (width || 1) * 2) * mult, 3);
	}
	function seriesPointsShow(self, si) {
		let { scale, idxs } = self.series[0];
		let xData = self._data[0];
		let p0 = self.valToPos(xData[idxs[0]], scale, true);
		let p1 = self.valToPos(xData[idxs[1]], scale, true);
		let maxPts = abs(p1 - p0) / (self.series[si].points.space * pxRatio);
		return idxs[1] - idxs[0] <= maxPts;
	}
	const facet = {
		scale: null,
		auto: true,
		sorted: 0,
		min: inf,
		max: -Infinity
	};
	const gaps = (self, seriesIdx, idx0, idx1, nullGaps) => nullGaps;
	const xySeriesOpts = {
		show: true,
		auto: true,
		sorted: 0,
		gaps,
		alpha: 1,
		facets: [assign({}, facet, { scale: "x" }), assign({}, facet, { scale: "y" })]
	};
	const ySeriesOpts = {
		scale: "y",
		auto: true,
		sorted: 0,
		show: true,
		spanGaps: false,
		gaps,
		alpha: 1,
		points: {
			show: seriesPointsShow,
			filter: null
		},
		values: null,
		min: inf,
		max: -Infinity,
		idxs: [],
		path: null,
		clip: null
	};
	function clampScale(self, val, scaleMin, scaleMax, scaleKey) {
		return scaleMin / 10;
	}
	const xScaleOpts = {
		time: FEAT_TIME,
		auto: true,
		distr: 1,
		log: 10,
		asinh: 1,
		min: null,
		max: null,
		dir: 1,
		ori: 0
	};
	const yScaleOpts = assign({}, xScaleOpts, {
		time: false,
		ori: 1
	});
	const syncs = {};
	function _sync(key, opts) {
		let s = syncs[key];
		if (!s) {
			s = {
				key,
				plots: [],
				sub(plot) {
					s.plots.push(plot);
				},
				unsub(plot) {
					s.plots = s.plots.filter((c) => c != plot);
				},
				pub(type, self, x, y, w, h, i) {
					for (let j = 0; j < s.plots.length; j++) s.plots[j] != self && s.plots[j].pub(type, self, x, y, w, h, i);
				}
			};
			if (key != null) syncs[key] = s;
		}
		return s;
	}
	const BAND_CLIP_FILL = 1;
	const BAND_CLIP_STROKE = 2;
	function orient(u, seriesIdx, cb) {
		const mode = u.mode;
		const series = u.series[seriesIdx];
		const data = mode == 2 ? u._data[seriesIdx] : u._data;
		const scales = u.scales;
		const bbox = u.bbox;
		let dx = data[0], dy = mode == 2 ? data[1] : data[seriesIdx], sx = mode == 2 ? scales[series.facets[0].scale] : scales[u.series[0].scale], sy = mode == 2 ? scales[series.facets[1].scale] : scales[series.scale], l = bbox.left, t = bbox.top, w = bbox.width, h = bbox.height, H = u.valToPosH, V = u.valToPosV;
		return sx.ori == 0 ? cb(series, dx, dy, sx, sy, H, V, l, t, w, h, moveToH, lineToH, rectH, arcH, bezierCurveToH) : cb(series, dx, dy, sx, sy, V, H, t, l, h, w, moveToV, lineToV, rectV, arcV, bezierCurveToV);
	}
	function bandFillClipDirs(self, seriesIdx) {
		let fillDir = 0;
		let clipDirs = 0;
		let bands = ifNull(self.bands, EMPTY_ARR);
		for (let i = 0; i < bands.length; i++) {
			let b = bands[i];
			if (b.series[0] == seriesIdx) fillDir = b.dir;
			else if (b.series[1] == seriesIdx) {
				if (b.dir == 1) clipDirs |= 1;
				else clipDirs |= 2;
			}
		}
		return [fillDir, clipDirs == 1 ? -1 : clipDirs == 2 ? 1 : clipDirs == 3 ? 2 : 0];
	}
	function seriesFillTo(self, seriesIdx, dataMin, dataMax, bandFillDir) {
		let mode = self.mode;
		let series = self.series[seriesIdx];
		let scaleKey = mode == 2 ? series.facets[1].scale : series.scale;
		let scale = self.scales[scaleKey];
		return bandFillDir == -1 ? scale.min : bandFillDir == 1 ? scale.max : scale.distr == 3 ? scale.dir == 1 ? scale.min : scale.max : 0;
	}
	function clipBandLine(self, seriesIdx, idx0, idx1, strokePath, clipDir) {
		return orient(self, seriesIdx, (series, dataX, dataY, scaleX, scaleY, valToPosX, valToPosY, xOff, yOff, xDim, yDim) => {
			let pxRound = series.pxRound;
			const dir = scaleX.dir * (scaleX.ori == 0 ? 1 : -1);
			const lineTo = scaleX.ori == 0 ? lineToH : lineToV;
			let frIdx, toIdx;
			if (dir == 1) {
				frIdx = idx0;
				toIdx = idx1;
			} else {
				frIdx = idx1;
				toIdx = idx0;
			}
			let x0 = pxRound(valToPosX(dataX[frIdx], scaleX, xDim, xOff));
			let y0 = pxRound(valToPosY(dataY[frIdx], scaleY, yDim, yOff));
			let x1 = pxRound(valToPosX(dataX[toIdx], scaleX, xDim, xOff));
			let yLimit = pxRound(valToPosY(clipDir == 1 ? scaleY.max : scaleY.min, scaleY, yDim, yOff));
			let clip = new Path2D(strokePath);
			lineTo(clip, x1, yLimit);
			lineTo(clip, x0, yLimit);
			lineTo(clip, x0, y0);
			return clip;
		});
	}
	function clipGaps(gaps, ori, plotLft, plotTop, plotWid, plotHgt) {
		let clip = null;
		if (gaps.length > 0) {
			clip = new Path2D();
			const rect = ori == 0 ? rectH : rectV;
			let prevGapEnd = plotLft;
			for (let i = 0; i < gaps.length; i++) {
				let g = gaps[i];
				if (g[1] > g[0]) {
					let w = g[0] - prevGapEnd;
					w > 0 && rect(clip, prevGapEnd, plotTop, w, plotTop + plotHgt);
					prevGapEnd = g[1];
				}
			}
			let w = plotLft + plotWid - prevGapEnd;
			let maxStrokeWidth = 10;
			w > 0 && rect(clip, prevGapEnd, plotTop - maxStrokeWidth / 2, w, plotTop + plotHgt + maxStrokeWidth);
		}
		return clip;
	}
	function addGap(gaps, fromX, toX) {
		let prevGap = gaps[gaps.length - 1];
		if (prevGap && prevGap[0] == fromX) prevGap[1] = toX;
		else gaps.push([fromX, toX]);
	}
	function findGaps(xs, ys, idx0, idx1, dir, pixelForX, align) {
		let gaps = [];
		let len = xs.length;
		for (let i = dir == 1 ? idx0 : idx1; i >= idx0 && i <= idx1; i += dir) if (ys[i] === null) {
			let fr = i, to = i;
			if (dir == 1) while (++i <= idx1 && ys[i] === null) to = i;
			else while (--i >= idx0 && ys[i] === null) to = i;
			let frPx = pixelForX(xs[fr]);
			let toPx = to == fr ? frPx : pixelForX(xs[to]);
			let fri2 = fr - dir;
			frPx = align <= 0 && fri2 >= 0 && fri2 < len ? pixelForX(xs[fri2]) : frPx;
			let toi2 = to + dir;
			toPx = align >= 0 && toi2 >= 0 && toi2 < len ? pixelForX(xs[toi2]) : toPx;
			if (toPx >= frPx) gaps.push([frPx, toPx]);
		}
		return gaps;
	}
	function pxRoundGen(pxAlign) {
		return pxAlign == 0 ? retArg0 : pxAlign == 1 ? round : (v) => incrRound(v, pxAlign);
	}
	function rect(ori) {
		let moveTo = ori == 0 ? moveToH : moveToV;
		let arcTo = ori == 0 ? (p, x1, y1, x2, y2, r) => {
			p.arcTo(x1, y1, x2, y2, r);
		} : (p, y1, x1, y2, x2, r) => {
			p.arcTo(x1, y1, x2, y2, r);
		};
		let rect = ori == 0 ? (p, x, y, w, h) => {
			p.rect(x, y, w, h);
		} : (p, y, x, h, w) => {
			p.rect(x, y, w, h);
		};
		return (p, x, y, w, h, endRad = 0, baseRad = 0) => {
			if (endRad == 0 && baseRad == 0) rect(p, x, y, w, h);
			else {
				endRad = min(endRad, w / 2, h / 2);
				baseRad = min(baseRad, w / 2, h / 2);
				moveTo(p, x + endRad, y);
				arcTo(p, x + w, y, x + w, y + h, endRad);
				arcTo(p, x + w, y + h, x, y + h, baseRad);
				arcTo(p, x, y + h, x, y, baseRad);
				arcTo(p, x, y, x + w, y, endRad);
				p.closePath();
			}
		};
	}
	const moveToH = (p, x, y) => {
		p.moveTo(x, y);
	};
	const moveToV = (p, y, x) => {
		p.moveTo(x, y);
	};
	const lineToH = (p, x, y) => {
		p.lineTo(x, y);
	};
	const lineToV = (p, y, x) => {
		p.lineTo(x, y);
	};
	const rectH = rect(0);
	const rectV = rect(1);
	const arcH = (p, x, y, r, startAngle, endAngle) => {
		p.arc(x, y, r, startAngle, endAngle);
	};
	const arcV = (p, y, x, r, startAngle, endAngle) => {
		p.arc(x, y, r, startAngle, endAngle);
	};
	const bezierCurveToH = (p, bp1x, bp1y, bp2x, bp2y, p2x, p2y) => {
		p.bezierCurveTo(bp1x, bp1y, bp2x, bp2y, p2x, p2y);
	};
	const bezierCurveToV = (p, bp1y, bp1x, bp2y, bp2x, p2y, p2x) => {
		p.bezierCurveTo(bp1x, bp1y, bp2x, bp2y, p2x, p2y);
	};
	function points(opts) {
		return (u, seriesIdx, idx0, idx1, filtIdxs) => {
			return orient(u, seriesIdx, (series, dataX, dataY, scaleX, scaleY, valToPosX, valToPosY, xOff, yOff, xDim, yDim) => {
				let { pxRound, points } = series;
				let moveTo, arc;
				if (scaleX.ori == 0) {
					moveTo = moveToH;
					arc = arcH;
				} else {
					moveTo = moveToV;
					arc = arcV;
				}
				const width = roundDec(points.width * pxRatio, 3);
				let rad = (points.size - points.width) / 2 * pxRatio;
				let dia = roundDec(rad * 2, 3);
				let fill = new Path2D();
				let clip = new Path2D();
				let { left: lft, top, width: wid, height: hgt } = u.bbox;
				rectH(clip, lft - dia, top - dia, wid + dia * 2, hgt + dia * 2);
				const drawPoint = (pi) => {
					if (dataY[pi] != null) {
						let x = pxRound(valToPosX(dataX[pi], scaleX, xDim, xOff));
						let y = pxRound(valToPosY(dataY[pi], scaleY, yDim, yOff));
						moveTo(fill, x + rad, y);
						arc(fill, x, y, rad, 0, PI * 2);
					}
				};
				if (filtIdxs) filtIdxs.forEach(drawPoint);
				else for (let pi = idx0; pi <= idx1; pi++) drawPoint(pi);
				return {
					stroke: width > 0 ? fill : null,
					fill,
					clip,
					flags: 3
				};
			});
		};
	}
	function _drawAcc(lineTo) {
		return (stroke, accX, minY, maxY, inY, outY) => {
			if (minY != maxY) {
				if (inY != minY && outY != minY) lineTo(stroke, accX, minY);
				if (inY != maxY && outY != maxY) lineTo(stroke, accX, maxY);
				lineTo(stroke, accX, outY);
			}
		};
	}
	const drawAccH = _drawAcc(lineToH);
	const drawAccV = _drawAcc(lineToV);
	function linear(opts) {
		const alignGaps = ifNull(opts?.alignGaps, 0);
		return (u, seriesIdx, idx0, idx1) => {
			return orient(u, seriesIdx, (series, dataX, dataY, scaleX, scaleY, valToPosX, valToPosY, xOff, yOff, xDim, yDim) => {
				[idx0, idx1] = nonNullIdxs(dataY, idx0, idx1);
				let pxRound = series.pxRound;
				let pixelForX = (val) => pxRound(valToPosX(val, scaleX, xDim, xOff));
				let pixelForY = (val) => pxRound(valToPosY(val, scaleY, yDim, yOff));
				let lineTo, drawAcc;
				if (scaleX.ori == 0) {
					lineTo = lineToH;
					drawAcc = drawAccH;
				} else {
					lineTo = lineToV;
					drawAcc = drawAccV;
				}
				const dir = scaleX.dir * (scaleX.ori == 0 ? 1 : -1);
				const _paths = {
					stroke: new Path2D(),
					fill: null,
					clip: null,
					band: null,
					gaps: null,
					flags: BAND_CLIP_FILL
				};
				const stroke = _paths.stroke;
				let hasGap = false;
				if (idx1 - idx0 >= xDim * 4) {
					let xForPixel = (pos) => u.posToVal(pos, scaleX.key, true);
					let minY = null, maxY = null, inY, outY, drawnAtX;
					let accX = pixelForX(dataX[dir == 1 ? idx0 : idx1]);
					let idx0px = pixelForX(dataX[idx0]);
					let idx1px = pixelForX(dataX[idx1]);
					let nextAccXVal = xForPixel(dir == 1 ? idx0px + 1 : idx1px - 1);
					for (let i = dir == 1 ? idx0 : idx1; i >= idx0 && i <= idx1; i += dir) {
						let xVal = dataX[i];
						let x = (dir == 1 ? xVal < nextAccXVal : xVal > nextAccXVal) ? accX : pixelForX(xVal);
						let yVal = dataY[i];
						if (x == accX) {
							if (yVal != null) {
								outY = yVal;
								if (minY == null) {
									lineTo(stroke, x, pixelForY(outY));
									inY = minY = maxY = outY;
								} else if (outY < minY) minY = outY;
								else if (outY > maxY) maxY = outY;
							} else if (yVal === null) hasGap = true;
						} else {
							if (minY != null) drawAcc(stroke, accX, pixelForY(minY), pixelForY(maxY), pixelForY(inY), pixelForY(outY));
							if (yVal != null) {
								outY = yVal;
								lineTo(stroke, x, pixelForY(outY));
								minY = maxY = inY = outY;
							} else {
								minY = maxY = null;
								if (yVal === null) hasGap = true;
							}
							accX = x;
							nextAccXVal = xForPixel(accX + dir);
						}
					}
					if (minY != null && minY != maxY && drawnAtX != accX) drawAcc(stroke, accX, pixelForY(minY), pixelForY(maxY), pixelForY(inY), pixelForY(outY));
				} else for (let i = dir == 1 ? idx0 : idx1; i >= idx0 && i <= idx1; i += dir) {
					let yVal = dataY[i];
					if (yVal === null) hasGap = true;
					else if (yVal != null) lineTo(stroke, pixelForX(dataX[i]), pixelForY(yVal));
				}
				let [bandFillDir, bandClipDir] = bandFillClipDirs(u, seriesIdx);
				if (series.fill != null || bandFillDir != 0) {
					let fill = _paths.fill = new Path2D(stroke);
					let fillToY = pixelForY(series.fillTo(u, seriesIdx, series.min, series.max, bandFillDir));
					let frX = pixelForX(dataX[idx0]);
					let toX = pixelForX(dataX[idx1]);
					if (dir == -1) [toX, frX] = [frX, toX];
					lineTo(fill, toX, fillToY);
					lineTo(fill, frX, fillToY);
				}
				if (!series.spanGaps) {
					let gaps = [];
					hasGap && gaps.push(...findGaps(dataX, dataY, idx0, idx1, dir, pixelForX, alignGaps));
					_paths.gaps = gaps = series.gaps(u, seriesIdx, idx0, idx1, gaps);
					_paths.clip = clipGaps(gaps, scaleX.ori, xOff, yOff, xDim, yDim);
				}
				if (bandClipDir != 0) _paths.band = bandClipDir == 2 ? [clipBandLine(u, seriesIdx, idx0, idx1, stroke, -1), clipBandLine(u, seriesIdx, idx0, idx1, stroke, 1)] : clipBandLine(u, seriesIdx, idx0, idx1, stroke, bandClipDir);
				return _paths;
			});
		};
	}
	function stepped(opts) {
		const align = ifNull(opts.align, 1);
		const ascDesc = ifNull(opts.ascDesc, false);
		const alignGaps = ifNull(opts.alignGaps, 0);
		const extend = ifNull(opts.extend, false);
		return (u, seriesIdx, idx0, idx1) => {
			return orient(u, seriesIdx, (series, dataX, dataY, scaleX, scaleY, valToPosX, valToPosY, xOff, yOff, xDim, yDim) => {
				[idx0, idx1] = nonNullIdxs(dataY, idx0, idx1);
				let pxRound = series.pxRound;
				let { left, width } = u.bbox;
				let pixelForX = (val) => pxRound(valToPosX(val, scaleX, xDim, xOff));
				let pixelForY = (val) => pxRound(valToPosY(val, scaleY, yDim, yOff));
				let lineTo = scaleX.ori == 0 ? lineToH : lineToV;
				const _paths = {
					stroke: new Path2D(),
					fill: null,
					clip: null,
					band: null,
					gaps: null,
					flags: BAND_CLIP_FILL
				};
				const stroke = _paths.stroke;
				const dir = scaleX.dir * (scaleX.ori == 0 ? 1 : -1);
				let prevYPos = pixelForY(dataY[dir == 1 ? idx0 : idx1]);
				let firstXPos = pixelForX(dataX[dir == 1 ? idx0 : idx1]);
				let prevXPos = firstXPos;
				let firstXPosExt = firstXPos;
				if (extend && align == -1) {
					firstXPosExt = left;
					lineTo(stroke, firstXPosExt, prevYPos);
				}
				lineTo(stroke, firstXPos, prevYPos);
				for (let i = dir == 1 ? idx0 : idx1; i >= idx0 && i <= idx1; i += dir) {
					let yVal1 = dataY[i];
					if (yVal1 == null) continue;
					let x1 = pixelForX(dataX[i]);
					let y1 = pixelForY(yVal1);
					if (align == 1) lineTo(stroke, x1, prevYPos);
					else lineTo(stroke, prevXPos, y1);
					lineTo(stroke, x1, y1);
					prevYPos = y1;
					prevXPos = x1;
				}
				let prevXPosExt = prevXPos;
				if (extend && align == 1) {
					prevXPosExt = left + width;
					lineTo(stroke, prevXPosExt, prevYPos);
				}
				let [bandFillDir, bandClipDir] = bandFillClipDirs(u, seriesIdx);
				if (series.fill != null || bandFillDir != 0) {
					let fill = _paths.fill = new Path2D(stroke);
					let fillToY = pixelForY(series.fillTo(u, seriesIdx, series.min, series.max, bandFillDir));
					lineTo(fill, prevXPosExt, fillToY);
					lineTo(fill, firstXPosExt, fillToY);
				}
				if (!series.spanGaps) {
					let gaps = [];
					gaps.push(...findGaps(dataX, dataY, idx0, idx1, dir, pixelForX, alignGaps));
					let halfStroke = series.width * pxRatio / 2;
					let startsOffset = ascDesc || align == 1 ? halfStroke : -halfStroke;
					let endsOffset = ascDesc || align == -1 ? -halfStroke : halfStroke;
					gaps.forEach((g) => {
						g[0] += startsOffset;
						g[1] += endsOffset;
					});
					_paths.gaps = gaps = series.gaps(u, seriesIdx, idx0, idx1, gaps);
					_paths.clip = clipGaps(gaps, scaleX.ori, xOff, yOff, xDim, yDim);
				}
				if (bandClipDir != 0) _paths.band = bandClipDir == 2 ? [clipBandLine(u, seriesIdx, idx0, idx1, stroke, -1), clipBandLine(u, seriesIdx, idx0, idx1, stroke, 1)] : clipBandLine(u, seriesIdx, idx0, idx1, stroke, bandClipDir);
				return _paths;
			});
		};
	}
	function findColWidth(dataX, dataY, valToPosX, scaleX, xDim, xOff, colWid = inf) {
		if (dataX.length > 1) {
			let prevIdx = null;
			for (let i = 0, minDelta = Infinity; i < dataX.length; i++) if (dataY[i] !== void 0) {
				if (prevIdx != null) {
					let delta = abs(dataX[i] - dataX[prevIdx]);
					if (delta < minDelta) {
						minDelta = delta;
						colWid = abs(valToPosX(dataX[i], scaleX, xDim, xOff) - valToPosX(dataX[prevIdx], scaleX, xDim, xOff));
					}
				}
				prevIdx = i;
			}
		}
		return colWid;
	}
	function bars(opts) {
		opts = opts || EMPTY_OBJ;
		const size = ifNull(opts.size, [
			.6,
			inf,
			1
		]);
		const align = opts.align || 0;
		const _extraGap = opts.gap || 0;
		let ro = opts.radius;
		ro = ro == null ? [0, 0] : typeof ro == "number" ? [ro, 0] : ro;
		const radiusFn = fnOrSelf(ro);
		const gapFactor = 1 - size[0];
		const _maxWidth = ifNull(size[1], inf);
		const _minWidth = ifNull(size[2], 1);
		const disp = ifNull(opts.disp, EMPTY_OBJ);
		const _each = ifNull(opts.each, (_) => {});
		const { fill: dispFills, stroke: dispStrokes } = disp;
		return (u, seriesIdx, idx0, idx1) => {
			return orient(u, seriesIdx, (series, dataX, dataY, scaleX, scaleY, valToPosX, valToPosY, xOff, yOff, xDim, yDim) => {
				let pxRound = series.pxRound;
				let _align = align;
				let extraGap = _extraGap * pxRatio;
				let maxWidth = _maxWidth * pxRatio;
				let minWidth = _minWidth * pxRatio;
				let valRadius, baseRadius;
				if (scaleX.ori == 0) [valRadius, baseRadius] = radiusFn(u, seriesIdx);
				else [baseRadius, valRadius] = radiusFn(u, seriesIdx);
				const _dirX = scaleX.dir * (scaleX.ori == 0 ? 1 : -1);
				let rect = scaleX.ori == 0 ? rectH : rectV;
				let each = scaleX.ori == 0 ? _each : (u, seriesIdx, i, top, lft, hgt, wid) => {
					_each(u, seriesIdx, i, lft, top, wid, hgt);
				};
				let band = ifNull(u.bands, EMPTY_ARR).find((b) => b.series[0] == seriesIdx);
				let fillDir = band != null ? band.dir : 0;
				let fillTo = series.fillTo(u, seriesIdx, series.min, series.max, fillDir);
				let fillToY = pxRound(valToPosY(fillTo, scaleY, yDim, yOff));
				let xShift, barWid, fullGap, colWid = xDim;
				let strokeWidth = pxRound(series.width * pxRatio);
				let multiPath = false;
				let fillColors = null;
				let fillPaths = null;
				let strokeColors = null;
				let strokePaths = null;
				if (dispFills != null && (strokeWidth == 0 || dispStrokes != null)) {
					multiPath = true;
					fillColors = dispFills.values(u, seriesIdx, idx0, idx1);
					fillPaths = new Map();
					new Set(fillColors).forEach((color) => {
						if (color != null) fillPaths.set(color, new Path2D());
					});
					if (strokeWidth > 0) {
						strokeColors = dispStrokes.values(u, seriesIdx, idx0, idx1);
						strokePaths = new Map();
						new Set(strokeColors).forEach((color) => {
							if (color != null) strokePaths.set(color, new Path2D());
						});
					}
				}
				let { x0, size } = disp;
				if (x0 != null && size != null) {
					_align = 1;
					dataX = x0.values(u, seriesIdx, idx0, idx1);
					if (x0.unit == 2) dataX = dataX.map((pct) => u.posToVal(xOff + pct * xDim, scaleX.key, true));
					let sizes = size.values(u, seriesIdx, idx0, idx1);
					if (size.unit == 2) barWid = sizes[0] * xDim;
					else barWid = valToPosX(sizes[0], scaleX, xDim, xOff) - valToPosX(0, scaleX, xDim, xOff);
					colWid = findColWidth(dataX, dataY, valToPosX, scaleX, xDim, xOff, colWid);
					fullGap = colWid - barWid + extraGap;
				} else {
					colWid = findColWidth(dataX, dataY, valToPosX, scaleX, xDim, xOff, colWid);
					fullGap = colWid * gapFactor + extraGap;
					barWid = colWid - fullGap;
				}
				if (fullGap < 1) fullGap = 0;
				if (strokeWidth >= barWid / 2) strokeWidth = 0;
				if (fullGap < 5) pxRound = retArg0;
				let insetStroke = fullGap > 0;
				let rawBarWid = colWid - fullGap - (insetStroke ? strokeWidth : 0);
				barWid = pxRound(clamp(rawBarWid, minWidth, maxWidth));
				xShift = (_align == 0 ? barWid / 2 : _align == _dirX ? 0 : barWid) - _align * _dirX * ((_align == 0 ? extraGap / 2 : 0) + (insetStroke ? strokeWidth / 2 : 0));
				const _paths = {
					stroke: null,
					fill: null,
					clip: null,
					band: null,
					gaps: null,
					flags: 0
				};
				const stroke = multiPath ? null : new Path2D();
				let dataY0 = null;
				if (band != null) dataY0 = u.data[band.series[1]];
				else {
					let { y0, y1 } = disp;
					if (y0 != null && y1 != null) {
						dataY = y1.values(u, seriesIdx, idx0, idx1);
						dataY0 = y0.values(u, seriesIdx, idx0, idx1);
					}
				}
				let radVal = valRadius * barWid;
				let radBase = baseRadius * barWid;
				for (let i = _dirX == 1 ? idx0 : idx1; i >= idx0 && i <= idx1; i += _dirX) {
					let yVal = dataY[i];
					if (yVal == null) continue;
					if (dataY0 != null) {
						let yVal0 = dataY0[i] ?? 0;
						if (yVal - yVal0 == 0) continue;
						fillToY = valToPosY(yVal0, scaleY, yDim, yOff);
					}
					let xPos = valToPosX(scaleX.distr != 2 || disp != null ? dataX[i] : i, scaleX, xDim, xOff);
					let yPos = valToPosY(ifNull(yVal, fillTo), scaleY, yDim, yOff);
					let lft = pxRound(xPos - xShift);
					let btm = pxRound(max(yPos, fillToY));
					let top = pxRound(min(yPos, fillToY));
					let barHgt = btm - top;
					if (yVal != null) {
						let rv = yVal < 0 ? radBase : radVal;
						let rb = yVal < 0 ? radVal : radBase;
						if (multiPath) {
							if (strokeWidth > 0 && strokeColors[i] != null) rect(strokePaths.get(strokeColors[i]), lft, top + floor(strokeWidth / 2), barWid, max(0, barHgt - strokeWidth), rv, rb);
							if (fillColors[i] != null) rect(fillPaths.get(fillColors[i]), lft, top + floor(strokeWidth / 2), barWid, max(0, barHgt - strokeWidth), rv, rb);
						} else rect(stroke, lft, top + floor(strokeWidth / 2), barWid, max(0, barHgt - strokeWidth), rv, rb);
						each(u, seriesIdx, i, lft - strokeWidth / 2, top, barWid + strokeWidth, barHgt);
					}
				}
				if (strokeWidth > 0) _paths.stroke = multiPath ? strokePaths : stroke;
				else if (!multiPath) {
					_paths._fill = series.width == 0 ? series._fill : series._stroke ?? series._fill;
					_paths.width = 0;
				}
				_paths.fill = multiPath ? fillPaths : stroke;
				return _paths;
			});
		};
	}
	function splineInterp(interp, opts) {
		const alignGaps = ifNull(opts?.alignGaps, 0);
		return (u, seriesIdx, idx0, idx1) => {
			return orient(u, seriesIdx, (series, dataX, dataY, scaleX, scaleY, valToPosX, valToPosY, xOff, yOff, xDim, yDim) => {
				[idx0, idx1] = nonNullIdxs(dataY, idx0, idx1);
				let pxRound = series.pxRound;
				let pixelForX = (val) => pxRound(valToPosX(val, scaleX, xDim, xOff));
				let pixelForY = (val) => pxRound(valToPosY(val, scaleY, yDim, yOff));
				let moveTo, bezierCurveTo, lineTo;
				if (scaleX.ori == 0) {
					moveTo = moveToH;
					lineTo = lineToH;
					bezierCurveTo = bezierCurveToH;
				} else {
					moveTo = moveToV;
					lineTo = lineToV;
					bezierCurveTo = bezierCurveToV;
				}
				const dir = scaleX.dir * (scaleX.ori == 0 ? 1 : -1);
				let firstXPos = pixelForX(dataX[dir == 1 ? idx0 : idx1]);
				let prevXPos = firstXPos;
				let xCoords = [];
				let yCoords = [];
				for (let i = dir == 1 ? idx0 : idx1; i >= idx0 && i <= idx1; i += dir) if (dataY[i] != null) {
					let xVal = dataX[i];
					let xPos = pixelForX(xVal);
					xCoords.push(prevXPos = xPos);
					yCoords.push(pixelForY(dataY[i]));
				}
				const _paths = {
					stroke: interp(xCoords, yCoords, moveTo, lineTo, bezierCurveTo, pxRound),
					fill: null,
					clip: null,
					band: null,
					gaps: null,
					flags: BAND_CLIP_FILL
				};
				const stroke = _paths.stroke;
				let [bandFillDir, bandClipDir] = bandFillClipDirs(u, seriesIdx);
				if (series.fill != null || bandFillDir != 0) {
					let fill = _paths.fill = new Path2D(stroke);
					let fillToY = pixelForY(series.fillTo(u, seriesIdx, series.min, series.max, bandFillDir));
					lineTo(fill, prevXPos, fillToY);
					lineTo(fill, firstXPos, fillToY);
				}
				if (!series.spanGaps) {
					let gaps = [];
					gaps.push(...findGaps(dataX, dataY, idx0, idx1, dir, pixelForX, alignGaps));
					_paths.gaps = gaps = series.gaps(u, seriesIdx, idx0, idx1, gaps);
					_paths.clip = clipGaps(gaps, scaleX.ori, xOff, yOff, xDim, yDim);
				}
				if (bandClipDir != 0) _paths.band = bandClipDir == 2 ? [clipBandLine(u, seriesIdx, idx0, idx1, stroke, -1), clipBandLine(u, seriesIdx, idx0, idx1, stroke, 1)] : clipBandLine(u, seriesIdx, idx0, idx1, stroke, bandClipDir);
				return _paths;
			});
		};
	}
	function monotoneCubic(opts) {
		return splineInterp(_monotoneCubic, opts);
	}
	function _monotoneCubic(xs, ys, moveTo, lineTo, bezierCurveTo, pxRound) {
		const n = xs.length;
		if (n < 2) return null;
		const path = new Path2D();
		moveTo(path, xs[0], ys[0]);
		if (n == 2) lineTo(path, xs[1], ys[1]);
		else {
			let ms = Array(n), ds = Array(n - 1), dys = Array(n - 1), dxs = Array(n - 1);
			for (let i = 0; i < n - 1; i++) {
				dys[i] = ys[i + 1] - ys[i];
				dxs[i] = xs[i + 1] - xs[i];
				ds[i] = dys[i] / dxs[i];
			}
			ms[0] = ds[0];
			for (let i = 1; i < n - 1; i++) if (ds[i] === 0 || ds[i - 1] === 0 || ds[i - 1] > 0 !== ds[i] > 0) ms[i] = 0;
			else {
				ms[i] = 3 * (dxs[i - 1] + dxs[i]) / ((2 * dxs[i] + dxs[i - 1]) / ds[i - 1] + (dxs[i] + 2 * dxs[i - 1]) / ds[i]);
				if (!isFinite(ms[i])) ms[i] = 0;
			}
			ms[n - 1] = ds[n - 2];
			for (let i = 0; i < n - 1; i++) bezierCurveTo(path, xs[i] + dxs[i] / 3, ys[i] + ms[i] * dxs[i] / 3, xs[i + 1] - dxs[i] / 3, ys[i + 1] - ms[i + 1] * dxs[i] / 3, xs[i + 1], ys[i + 1]);
		}
		return path;
	}
	const cursorPlots = new Set();
	function invalidateRects() {
		for (let u of cursorPlots) u.syncRect(true);
	}
	if (domEnv) {
		on(resize, win, invalidateRects);
		on(scroll, win, invalidateRects, true);
		on(dppxchange, win, () => {
			uPlot.pxRatio = pxRatio;
		});
	}
	const linearPath = linear();
	const pointsPath = points();
	function setDefaults(d, xo, yo, initY) {
		return (initY ? [d[0], d[1]].concat(d.slice(2)) : [d[0]].concat(d.slice(1))).map((o, i) => setDefault(o, i, xo, yo));
	}
	function setDefaults2(d, xyo) {
		return d.map((o, i) => i == 0 ? {} : assign({}, xyo, o));
	}
	function setDefault(o, i, xo, yo) {
		return assign({}, i == 0 ? xo : yo, o);
	}
	function snapNumX(self, dataMin, dataMax) {
		return dataMin == null ? nullNullTuple : [dataMin, dataMax];
	}
	const snapTimeX = snapNumX;
	function snapNumY(self, dataMin, dataMax) {
		return dataMin == null ? nullNullTuple : rangeNum(dataMin, dataMax, rangePad, true);
	}
	function snapLogY(self, dataMin, dataMax, scale) {
		return dataMin == null ? nullNullTuple : rangeLog(dataMin, dataMax, self.scales[scale].log, false);
	}
	const snapLogX = snapLogY;
	function snapAsinhY(self, dataMin, dataMax, scale) {
		return dataMin == null ? nullNullTuple : rangeAsinh(dataMin, dataMax, self.scales[scale].log, false);
	}
	const snapAsinhX = snapAsinhY;
	function findIncr(minVal, maxVal, incrs, dim, minSpace) {
		let intDigits = max(numIntDigits(minVal), numIntDigits(maxVal));
		let delta = maxVal - minVal;
		let incrIdx = closestIdx(minSpace / dim * delta, incrs);
		do {
			let foundIncr = incrs[incrIdx];
			let foundSpace = dim * foundIncr / delta;
			if (foundSpace >= minSpace && intDigits + (foundIncr < 5 ? fixedDec.get(foundIncr) : 0) <= 17) return [foundIncr, foundSpace];
		} while (++incrIdx < incrs.length);
		return [0, 0];
	}
	function pxRatioFont(font) {
		let fontSize, fontSizeCss;
		font = font.replace(/(\\d+)px/, (m, p1) => (fontSize = round((fontSizeCss = +p1) * pxRatio)) + "px");
		return [
			font,
			fontSize,
			fontSizeCss
		];
	}
	function syncFontSize(axis) {
		if (axis.show) [axis.font, axis.labelFont].forEach((f) => {
			let size = roundDec(f[2] * pxRatio, 1);
			f[0] = f[0].replace(/[0-9.]+px/, size + "px");
			f[1] = size;
		});
	}
	function uPlot(opts, data, then) {
		const self = { mode: ifNull(opts.mode, 1) };
		const mode = self.mode;
		function getHPos(val, scale, dim, off) {
			let pct = scale.valToPct(val);
			return off + dim * (scale.dir == -1 ? 1 - pct : pct);
		}
		function getVPos(val, scale, dim, off) {
			let pct = scale.valToPct(val);
			return off + dim * (scale.dir == -1 ? pct : 1 - pct);
		}
		function getPos(val, scale, dim, off) {
			return scale.ori == 0 ? getHPos(val, scale, dim, off) : getVPos(val, scale, dim, off);
		}
		self.valToPosH = getHPos;
		self.valToPosV = getVPos;
		let ready = false;
		self.status = 0;
		const root = self.root = placeDiv(UPLOT);
		if (opts.id != null) root.id = opts.id;
		addClass(root, opts.class);
		if (opts.title) {
			let title = placeDiv(TITLE, root);
			title.textContent = opts.title;
		}
		const can = placeTag("canvas");
		const ctx = self.ctx = can.getContext("2d");
		const wrap = placeDiv(WRAP, root);
		on("click", wrap, (e) => {
			if (e.target === over) (mouseLeft1 != mouseLeft0 || mouseTop1 != mouseTop0) && drag.click(self, e);
		}, true);
		const under = self.under = placeDiv(UNDER, wrap);
		wrap.appendChild(can);
		const over = self.over = placeDiv(OVER, wrap);
		opts = copy(opts);
		const pxAlign = +ifNull(opts.pxAlign, 1);
		const pxRound = pxRoundGen(pxAlign);
		(opts.plugins || []).forEach((p) => {
			if (p.opts) opts = p.opts(self, opts) || opts;
		});
		const ms = opts.ms || .001;
		const series = self.series = mode == 1 ? setDefaults(opts.series || [], xSeriesOpts, ySeriesOpts, false) : setDefaults2(opts.series || [null], xySeriesOpts);
		const axes = self.axes = setDefaults(opts.axes || [], xAxisOpts, yAxisOpts, true);
		const scales = self.scales = {};
		const bands = self.bands = opts.bands || [];
		bands.forEach((b) => {
			b.fill = fnOrSelf(b.fill || null);
			b.dir = ifNull(b.dir, -1);
		});
		const xScaleKey = mode == 2 ? series[1].facets[0].scale : series[0].scale;
		const drawOrderMap = {
			axes: drawAxesGrid,
			series: drawSeries
		};
		const drawOrder = (opts.drawOrder || ["axes", "series"]).map((key) => drawOrderMap[key]);
		function initValToPct(sc) {
			const getVal = sc.distr == 3 ? (val) => log10(val > 0 ? val : sc.clamp(self, val, sc.min, sc.max, sc.key)) : sc.distr == 4 ? (val) => asinh(val, sc.asinh) : sc.distr == 100 ? (val) => sc.fwd(val) : (val) => val;
			return (val) => {
				let _val = getVal(val);
				let { _min, _max } = sc;
				let delta = _max - _min;
				return (_val - _min) / delta;
			};
		}
		function initScale(scaleKey) {
			let sc = scales[scaleKey];
			if (sc == null) {
				let scaleOpts = (opts.scales || EMPTY_OBJ)[scaleKey] || EMPTY_OBJ;
				if (scaleOpts.from != null) {
					initScale(scaleOpts.from);
					let sc = assign({}, scales[scaleOpts.from], scaleOpts, { key: scaleKey });
					sc.valToPct = initValToPct(sc);
					scales[scaleKey] = sc;
				} else {
					sc = scales[scaleKey] = assign({}, scaleKey == xScaleKey ? xScaleOpts : yScaleOpts, scaleOpts);
					sc.key = scaleKey;
					let isTime = sc.time;
					let rn = sc.range;
					let rangeIsArr = isArr(rn);
					if (scaleKey != xScaleKey || mode == 2 && !isTime) {
						if (rangeIsArr && (rn[0] == null || rn[1] == null)) {
							rn = {
								min: rn[0] == null ? autoRangePart : {
									mode: 1,
									hard: rn[0],
									soft: rn[0]
								},
								max: rn[1] == null ? autoRangePart : {
									mode: 1,
									hard: rn[1],
									soft: rn[1]
								}
							};
							rangeIsArr = false;
						}
						if (!rangeIsArr && isObj(rn)) {
							let cfg = rn;
							rn = (self, dataMin, dataMax) => dataMin == null ? nullNullTuple : rangeNum(dataMin, dataMax, cfg);
						}
					}
					sc.range = fnOrSelf(rn || (isTime ? snapTimeX : scaleKey == xScaleKey ? sc.distr == 3 ? snapLogX : sc.distr == 4 ? snapAsinhX : snapNumX : sc.distr == 3 ? snapLogY : sc.distr == 4 ? snapAsinhY : snapNumY));
					sc.auto = fnOrSelf(rangeIsArr ? false : sc.auto);
					sc.clamp = fnOrSelf(sc.clamp || clampScale);
					sc._min = sc._max = null;
					sc.valToPct = initValToPct(sc);
				}
			}
		}
		initScale("x");
		initScale("y");
		if (mode == 1) series.forEach((s) => {
			initScale(s.scale);
		});
		axes.forEach((a) => {
			initScale(a.scale);
		});
		for (let k in opts.scales) initScale(k);
		const scaleX = scales[xScaleKey];
		const xScaleDistr = scaleX.distr;
		let valToPosX, valToPosY;
		if (scaleX.ori == 0) {
			addClass(root, ORI_HZ);
			valToPosX = getHPos;
			valToPosY = getVPos;
		} else {
			addClass(root, ORI_VT);
			valToPosX = getVPos;
			valToPosY = getHPos;
		}
		const pendScales = {};
		for (let k in scales) {
			let sc = scales[k];
			if (sc.min != null || sc.max != null) {
				pendScales[k] = {
					min: sc.min,
					max: sc.max
				};
				sc.min = sc.max = null;
			}
		}
		const _tzDate = opts.tzDate || ((ts) => new Date(round(ts / ms)));
		const _fmtDate = opts.fmtDate || fmtDate;
		const _timeAxisSplits = ms == 1 ? timeAxisSplitsMs(_tzDate) : timeAxisSplitsS(_tzDate);
		const _timeAxisVals = timeAxisVals(_tzDate, timeAxisStamps(ms == 1 ? _timeAxisStampsMs : _timeAxisStampsS, _fmtDate));
		const _timeSeriesVal = timeSeriesVal(_tzDate, timeSeriesStamp(_timeSeriesStamp, _fmtDate));
		const activeIdxs = [];
		const legend = self.legend = assign({}, legendOpts, opts.legend);
		const cursor = self.cursor = assign({}, cursorOpts, { drag: { y: mode == 2 } }, opts.cursor);
		const showLegend = legend.show;
		const showCursor = cursor.show;
		const markers = legend.markers;
		legend.idxs = activeIdxs;
		markers.width = fnOrSelf(markers.width);
		markers.dash = fnOrSelf(markers.dash);
		markers.stroke = fnOrSelf(markers.stroke);
		markers.fill = fnOrSelf(markers.fill);
		let legendTable;
		let legendHead;
		let legendBody;
		let legendRows = [];
		let legendCells = [];
		let legendCols;
		let multiValLegend = false;
		let NULL_LEGEND_VALUES = {};
		if (legend.live) {
			const getMultiVals = series[1] ? series[1].values : null;
			multiValLegend = getMultiVals != null;
			legendCols = multiValLegend ? getMultiVals(self, 1, 0) : { _: 0 };
			for (let k in legendCols) NULL_LEGEND_VALUES[k] = LEGEND_DISP;
		}
		if (showLegend) {
			legendTable = placeTag("table", LEGEND, root);
			legendBody = placeTag("tbody", null, legendTable);
			legend.mount(self, legendTable);
			if (multiValLegend) {
				legendHead = placeTag("thead", null, legendTable, legendBody);
				let head = placeTag("tr", null, legendHead);
				placeTag("th", null, head);
				for (var key in legendCols) placeTag("th", LEGEND_LABEL, head).textContent = key;
			} else {
				addClass(legendTable, LEGEND_INLINE);
				legend.live && addClass(legendTable, LEGEND_LIVE);
			}
		}
		const son = { show: true };
		const soff = { show: false };
		function initLegendRow(s, i) {
			if (i == 0 && (multiValLegend || !legend.live || mode == 2)) return nullNullTuple;
			let cells = [];
			let row = placeTag("tr", LEGEND_SERIES, legendBody, legendBody.childNodes[i]);
			addClass(row, s.class);
			if (!s.show) addClass(row, OFF);
			let label = placeTag("th", null, row);
			if (markers.show) {
				let indic = placeDiv(LEGEND_MARKER, label);
				if (i > 0) {
					let width = markers.width(self, i);
					if (width) indic.style.border = width + "px " + markers.dash(self, i) + " " + markers.stroke(self, i);
					indic.style.background = markers.fill(self, i);
				}
			}
			let text = placeDiv(LEGEND_LABEL, label);
			if (s.label instanceof HTMLElement) text.appendChild(s.label);
			else text.textContent = s.label;
			if (i > 0) {
				if (!markers.show) text.style.color = s.width > 0 ? markers.stroke(self, i) : markers.fill(self, i);
				onMouse("click", label, (e) => {
					if (cursor._lock) return;
					setCursorEvent(e);
					let seriesIdx = series.indexOf(s);
					if ((e.ctrlKey || e.metaKey) != legend.isolate) {
						let isolate = series.some((s, i) => i > 0 && i != seriesIdx && s.show);
						series.forEach((s, i) => {
							i > 0 && setSeries(i, isolate ? i == seriesIdx ? son : soff : son, true, syncOpts.setSeries);
						});
					} else setSeries(seriesIdx, { show: !s.show }, true, syncOpts.setSeries);
				}, false);
				if (cursorFocus) onMouse(mouseenter, label, (e) => {
					if (cursor._lock) return;
					setCursorEvent(e);
					setSeries(series.indexOf(s), FOCUS_TRUE, true, syncOpts.setSeries);
				}, false);
			}
			for (var key in legendCols) {
				let v = placeTag("td", LEGEND_VALUE, row);
				v.textContent = "--";
				cells.push(v);
			}
			return [row, cells];
		}
		const mouseListeners = new Map();
		function onMouse(ev, targ, fn, onlyTarg = true) {
			const targListeners = mouseListeners.get(targ) || {};
			const listener = cursor.bind[ev](self, targ, fn, onlyTarg);
			if (listener) {
				on(ev, targ, targListeners[ev] = listener);
				mouseListeners.set(targ, targListeners);
			}
		}
		function offMouse(ev, targ, fn) {
			const targListeners = mouseListeners.get(targ) || {};
			for (let k in targListeners) if (ev == null || k == ev) {
				off(k, targ, targListeners[k]);
				delete targListeners[k];
			}
			if (ev == null) mouseListeners.delete(targ);
		}
		let fullWidCss = 0;
		let fullHgtCss = 0;
		let plotWidCss = 0;
		let plotHgtCss = 0;
		let plotLftCss = 0;
		let plotTopCss = 0;
		let _plotLftCss = plotLftCss;
		let _plotTopCss = plotTopCss;
		let _plotWidCss = plotWidCss;
		let _plotHgtCss = plotHgtCss;
		let plotLft = 0;
		let plotTop = 0;
		let plotWid = 0;
		let plotHgt = 0;
		self.bbox = {};
		let shouldSetScales = false;
		let shouldSetSize = false;
		let shouldConvergeSize = false;
		let shouldSetCursor = false;
		let shouldSetSelect = false;
		let shouldSetLegend = false;
		function _setSize(width, height, force) {
			if (force || width != self.width || height != self.height) calcSize(width, height);
			resetYSeries(false);
			shouldConvergeSize = true;
			shouldSetSize = true;
			commit();
		}
		function calcSize(width, height) {
			self.width = fullWidCss = plotWidCss = width;
			self.height = fullHgtCss = plotHgtCss = height;
			plotLftCss = plotTopCss = 0;
			calcPlotRect();
			calcAxesRects();
			let bb = self.bbox;
			plotLft = bb.left = incrRound(plotLftCss * pxRatio, .5);
			plotTop = bb.top = incrRound(plotTopCss * pxRatio, .5);
			plotWid = bb.width = incrRound(plotWidCss * pxRatio, .5);
			plotHgt = bb.height = incrRound(plotHgtCss * pxRatio, .5);
		}
		const CYCLE_LIMIT = 3;
		function convergeSize() {
			let converged = false;
			let cycleNum = 0;
			while (!converged) {
				cycleNum++;
				let axesConverged = axesCalc(cycleNum);
				let paddingConverged = paddingCalc(cycleNum);
				converged = cycleNum == CYCLE_LIMIT || axesConverged && paddingConverged;
				if (!converged) {
					calcSize(self.width, self.height);
					shouldSetSize = true;
				}
			}
		}
		function setSize({ width, height }) {
			_setSize(width, height);
		}
		self.setSize = setSize;
		function calcPlotRect() {
			let hasTopAxis = false;
			let hasBtmAxis = false;
			let hasRgtAxis = false;
			let hasLftAxis = false;
			axes.forEach((axis, i) => {
				if (axis.show && axis._show) {
					let { side, _size } = axis;
					let isVt = side % 2;
					let fullSize = _size + (axis.label != null ? axis.labelSize : 0);
					if (fullSize > 0) {
						if (isVt) {
							plotWidCss -= fullSize;
							if (side == 3) {
								plotLftCss += fullSize;
								hasLftAxis = true;
							} else hasRgtAxis = true;
						} else {
							plotHgtCss -= fullSize;
							if (side == 0) {
								plotTopCss += fullSize;
								hasTopAxis = true;
							} else hasBtmAxis = true;
						}
					}
				}
			});
			sidesWithAxes[0] = hasTopAxis;
			sidesWithAxes[1] = hasRgtAxis;
			sidesWithAxes[2] = hasBtmAxis;
			sidesWithAxes[3] = hasLftAxis;
			plotWidCss -= _padding[1] + _padding[3];
			plotLftCss += _padding[3];
			plotHgtCss -= _padding[2] + _padding[0];
			plotTopCss += _padding[0];
		}
		function calcAxesRects() {
			let off1 = plotLftCss + plotWidCss;
			let off2 = plotTopCss + plotHgtCss;
			let off3 = plotLftCss;
			let off0 = plotTopCss;
			function incrOffset(side, size) {
				switch (side) {
					case 1:
						off1 += size;
						return off1 - size;
					case 2:
						off2 += size;
						return off2 - size;
					case 3:
						off3 -= size;
						return off3 + size;
					case 0:
						off0 -= size;
						return off0 + size;
				}
			}
			axes.forEach((axis, i) => {
				if (axis.show && axis._show) {
					let side = axis.side;
					axis._pos = incrOffset(side, axis._size);
					if (axis.label != null) axis._lpos = incrOffset(side, axis.labelSize);
				}
			});
		}
		if (cursor.dataIdx == null) {
			let hov = cursor.hover;
			let skip = hov.skip = new Set(hov.skip ?? []);
			skip.add(void 0);
			let prox = hov.prox = fnOrSelf(hov.prox);
			let bias = hov.bias ??= 0;
			cursor.dataIdx = (self, seriesIdx, cursorIdx, valAtPosX) => {
				if (seriesIdx == 0) return cursorIdx;
				let idx2 = cursorIdx;
				let _prox = prox(self, seriesIdx, cursorIdx, valAtPosX) ?? inf;
				let withProx = _prox >= 0 && _prox < inf;
				let xDim = scaleX.ori == 0 ? plotWidCss : plotHgtCss;
				let cursorLft = cursor.left;
				let xValues = data[0];
				let yValues = data[seriesIdx];
				if (skip.has(yValues[cursorIdx])) {
					idx2 = null;
					let nonNullLft = null, nonNullRgt = null, j;
					if (bias == 0 || bias == -1) {
						j = cursorIdx;
						while (nonNullLft == null && j-- > 0) if (!skip.has(yValues[j])) nonNullLft = j;
					}
					if (bias == 0 || bias == 1) {
						j = cursorIdx;
						while (nonNullRgt == null && j++ < yValues.length) if (!skip.has(yValues[j])) nonNullRgt = j;
					}
					if (nonNullLft != null || nonNullRgt != null) {
						if (withProx) {
							let lftPos = nonNullLft == null ? -Infinity : valToPosX(xValues[nonNullLft], scaleX, xDim, 0);
							let rgtPos = nonNullRgt == null ? Infinity : valToPosX(xValues[nonNullRgt], scaleX, xDim, 0);
							let lftDelta = cursorLft - lftPos;
							let rgtDelta = rgtPos - cursorLft;
							if (lftDelta <= rgtDelta) {
								if (lftDelta <= _prox) idx2 = nonNullLft;
							} else if (rgtDelta <= _prox) idx2 = nonNullRgt;
						} else idx2 = nonNullRgt == null ? nonNullLft : nonNullLft == null ? nonNullRgt : cursorIdx - nonNullLft <= nonNullRgt - cursorIdx ? nonNullLft : nonNullRgt;
					}
				} else if (withProx) {
					if (abs(cursorLft - valToPosX(xValues[cursorIdx], scaleX, xDim, 0)) > _prox) idx2 = null;
				}
				return idx2;
			};
		}
		const setCursorEvent = (e) => {
			cursor.event = e;
		};
		cursor.idxs = activeIdxs;
		cursor._lock = false;
		let points = cursor.points;
		points.show = fnOrSelf(points.show);
		points.size = fnOrSelf(points.size);
		points.stroke = fnOrSelf(points.stroke);
		points.width = fnOrSelf(points.width);
		points.fill = fnOrSelf(points.fill);
		const focus = self.focus = assign({}, opts.focus || { alpha: .3 }, cursor.focus);
		const cursorFocus = focus.prox >= 0;
		const cursorOnePt = cursorFocus && points.one;
		let cursorPts = [];
		let cursorPtsLft = [];
		let cursorPtsTop = [];
		function initCursorPt(s, si) {
			let pt = points.show(self, si);
			if (pt instanceof HTMLElement) {
				addClass(pt, CURSOR_PT);
				addClass(pt, s.class);
				elTrans(pt, -10, -10, plotWidCss, plotHgtCss);
				over.insertBefore(pt, cursorPts[si]);
				return pt;
			}
		}
		function initSeries(s, i) {
			if (mode == 1 || i > 0) {
				let isTime = mode == 1 && scales[s.scale].time;
				let sv = s.value;
				s.value = isTime ? isStr(sv) ? timeSeriesVal(_tzDate, timeSeriesStamp(sv, _fmtDate)) : sv || _timeSeriesVal : sv || numSeriesVal;
				s.label = s.label || (isTime ? timeSeriesLabel : numSeriesLabel);
			}
			if (cursorOnePt || i > 0) {
				s.width = s.width == null ? 1 : s.width;
				s.paths = s.paths || linearPath || retNull;
				s.fillTo = fnOrSelf(s.fillTo || seriesFillTo);
				s.pxAlign = +ifNull(s.pxAlign, pxAlign);
				s.pxRound = pxRoundGen(s.pxAlign);
				s.stroke = fnOrSelf(s.stroke || null);
				s.fill = fnOrSelf(s.fill || null);
				s._stroke = s._fill = s._paths = s._focus = null;
				let _ptDia = ptDia(max(1, s.width), 1);
				let points = s.points = assign({}, {
					size: _ptDia,
					width: max(1, _ptDia * .2),
					stroke: s.stroke,
					space: _ptDia * 2,
					paths: pointsPath,
					_stroke: null,
					_fill: null
				}, s.points);
				points.show = fnOrSelf(points.show);
				points.filter = fnOrSelf(points.filter);
				points.fill = fnOrSelf(points.fill);
				points.stroke = fnOrSelf(points.stroke);
				points.paths = fnOrSelf(points.paths);
				points.pxAlign = s.pxAlign;
			}
			if (showLegend) {
				let rowCells = initLegendRow(s, i);
				legendRows.splice(i, 0, rowCells[0]);
				legendCells.splice(i, 0, rowCells[1]);
				legend.values.push(null);
			}
			if (showCursor) {
				activeIdxs.splice(i, 0, null);
				let pt = null;
				if (cursorOnePt) {
					if (i == 0) pt = initCursorPt(s, i);
				} else if (i > 0) pt = initCursorPt(s, i);
				cursorPts.splice(i, 0, pt);
				cursorPtsLft.splice(i, 0, 0);
				cursorPtsTop.splice(i, 0, 0);
			}
			fire("addSeries", i);
		}
		function addSeries(opts, si) {
			si = si == null ? series.length : si;
			opts = mode == 1 ? setDefault(opts, si, xSeriesOpts, ySeriesOpts) : setDefault(opts, si, {}, xySeriesOpts);
			series.splice(si, 0, opts);
			initSeries(series[si], si);
		}
		self.addSeries = addSeries;
		function delSeries(i) {
			series.splice(i, 1);
			if (showLegend) {
				legend.values.splice(i, 1);
				legendCells.splice(i, 1);
				let tr = legendRows.splice(i, 1)[0];
				offMouse(null, tr.firstChild);
				tr.remove();
			}
			if (showCursor) {
				activeIdxs.splice(i, 1);
				cursorPts.splice(i, 1)[0].remove();
				cursorPtsLft.splice(i, 1);
				cursorPtsTop.splice(i, 1);
			}
			fire("delSeries", i);
		}
		self.delSeries = delSeries;
		const sidesWithAxes = [
			false,
			false,
			false,
			false
		];
		function initAxis(axis, i) {
			axis._show = axis.show;
			if (axis.show) {
				let isVt = axis.side % 2;
				let sc = scales[axis.scale];
				if (sc == null) {
					axis.scale = isVt ? series[1].scale : xScaleKey;
					sc = scales[axis.scale];
				}
				let isTime = sc.time;
				axis.size = fnOrSelf(axis.size);
				axis.space = fnOrSelf(axis.space);
				axis.rotate = fnOrSelf(axis.rotate);
				if (isArr(axis.incrs)) axis.incrs.forEach((incr) => {
					!fixedDec.has(incr) && fixedDec.set(incr, guessDec(incr));
				});
				axis.incrs = fnOrSelf(axis.incrs || (sc.distr == 2 ? wholeIncrs : isTime ? ms == 1 ? timeIncrsMs : timeIncrsS : numIncrs));
				axis.splits = fnOrSelf(axis.splits || (isTime && sc.distr == 1 ? _timeAxisSplits : sc.distr == 3 ? logAxisSplits : sc.distr == 4 ? asinhAxisSplits : numAxisSplits));
				axis.stroke = fnOrSelf(axis.stroke);
				axis.grid.stroke = fnOrSelf(axis.grid.stroke);
				axis.ticks.stroke = fnOrSelf(axis.ticks.stroke);
				axis.border.stroke = fnOrSelf(axis.border.stroke);
				let av = axis.values;
				axis.values = isArr(av) && !isArr(av[0]) ? fnOrSelf(av) : isTime ? isArr(av) ? timeAxisVals(_tzDate, timeAxisStamps(av, _fmtDate)) : isStr(av) ? timeAxisVal(_tzDate, av) : av || _timeAxisVals : av || numAxisVals;
				axis.filter = fnOrSelf(axis.filter || (sc.distr >= 3 && sc.log == 10 ? log10AxisValsFilt : sc.distr == 3 && sc.log == 2 ? log2AxisValsFilt : retArg1));
				axis.font = pxRatioFont(axis.font);
				axis.labelFont = pxRatioFont(axis.labelFont);
				axis._size = axis.size(self, null, i, 0);
				axis._space = axis._rotate = axis._incrs = axis._found = axis._splits = axis._values = null;
				if (axis._size > 0) {
					sidesWithAxes[i] = true;
					axis._el = placeDiv(AXIS, wrap);
				}
			}
		}
		function autoPadSide(self, side, sidesWithAxes, cycleNum) {
			let [hasTopAxis, hasRgtAxis, hasBtmAxis, hasLftAxis] = sidesWithAxes;
			let ori = side % 2;
			let size = 0;
			if (ori == 0 && (hasLftAxis || hasRgtAxis)) size = side == 0 && !hasTopAxis || side == 2 && !hasBtmAxis ? round(xAxisOpts.size / 3) : 0;
			if (ori == 1 && (hasTopAxis || hasBtmAxis)) size = side == 1 && !hasRgtAxis || side == 3 && !hasLftAxis ? round(yAxisOpts.size / 2) : 0;
			return size;
		}
		const padding = self.padding = (opts.padding || [
			autoPadSide,
			autoPadSide,
			autoPadSide,
			autoPadSide
		]).map((p) => fnOrSelf(ifNull(p, autoPadSide)));
		const _padding = self._padding = padding.map((p, i) => p(self, i, sidesWithAxes, 0));
		let dataLen;
		let i0 = null;
		let i1 = null;
		const idxs = mode == 1 ? series[0].idxs : null;
		let data0 = null;
		let viaAutoScaleX = false;
		function setData(_data, _resetScales) {
			data = _data == null ? [] : _data;
			self.data = self._data = data;
			if (mode == 2) {
				dataLen = 0;
				for (let i = 1; i < series.length; i++) dataLen += data[i][0].length;
			} else {
				if (data.length == 0) self.data = self._data = data = [[]];
				data0 = data[0];
				dataLen = data0.length;
				let scaleData = data;
				if (xScaleDistr == 2) {
					scaleData = data.slice();
					let _data0 = scaleData[0] = Array(dataLen);
					for (let i = 0; i < dataLen; i++) _data0[i] = i;
				}
				self._data = data = scaleData;
			}
			resetYSeries(true);
			fire("setData");
			if (xScaleDistr == 2) shouldConvergeSize = true;
			if (_resetScales !== false) {
				let xsc = scaleX;
				if (xsc.auto(self, viaAutoScaleX)) autoScaleX();
				else _setScale(xScaleKey, xsc.min, xsc.max);
				shouldSetCursor = shouldSetCursor || cursor.left >= 0;
				shouldSetLegend = true;
				commit();
			}
		}
		self.setData = setData;
		function autoScaleX() {
			viaAutoScaleX = true;
			let _min, _max;
			if (mode == 1) {
				if (dataLen > 0) {
					i0 = idxs[0] = 0;
					i1 = idxs[1] = dataLen - 1;
					_min = data[0][i0];
					_max = data[0][i1];
					if (xScaleDistr == 2) {
						_min = i0;
						_max = i1;
					} else if (_min == _max) {
						if (xScaleDistr == 3) [_min, _max] = rangeLog(_min, _min, scaleX.log, false);
						else if (xScaleDistr == 4) [_min, _max] = rangeAsinh(_min, _min, scaleX.log, false);
						else if (scaleX.time) _max = _min + round(86400 / ms);
						else [_min, _max] = rangeNum(_min, _max, rangePad, true);
					}
				} else {
					i0 = idxs[0] = _min = null;
					i1 = idxs[1] = _max = null;
				}
			}
			_setScale(xScaleKey, _min, _max);
		}
		let ctxStroke, ctxFill, ctxWidth, ctxDash, ctxJoin, ctxCap, ctxFont, ctxAlign, ctxBaseline;
		let ctxAlpha;
		function setCtxStyle(stroke, width, dash, cap, fill, join) {
			stroke ??= transparent;
			dash ??= EMPTY_ARR;
			cap ??= "butt";
			fill ??= transparent;
			join ??= "round";
			if (stroke != ctxStroke) ctx.strokeStyle = ctxStroke = stroke;
			if (fill != ctxFill) ctx.fillStyle = ctxFill = fill;
			if (width != ctxWidth) ctx.lineWidth = ctxWidth = width;
			if (join != ctxJoin) ctx.lineJoin = ctxJoin = join;
			if (cap != ctxCap) ctx.lineCap = ctxCap = cap;
			if (dash != ctxDash) ctx.setLineDash(ctxDash = dash);
		}
		function setFontStyle(font, fill, align, baseline) {
			if (fill != ctxFill) ctx.fillStyle = ctxFill = fill;
			if (font != ctxFont) ctx.font = ctxFont = font;
			if (align != ctxAlign) ctx.textAlign = ctxAlign = align;
			if (baseline != ctxBaseline) ctx.textBaseline = ctxBaseline = baseline;
		}
		function accScale(wsc, psc, facet, data, sorted = 0) {
			if (data.length > 0 && wsc.auto(self, viaAutoScaleX) && (psc == null || psc.min == null)) {
				let _i0 = ifNull(i0, 0);
				let _i1 = ifNull(i1, data.length - 1);
				let minMax = facet.min == null ? getMinMax(data, _i0, _i1, sorted, wsc.distr == 3) : [facet.min, facet.max];
				wsc.min = min(wsc.min, facet.min = minMax[0]);
				wsc.max = max(wsc.max, facet.max = minMax[1]);
			}
		}
		const AUTOSCALE = {
			min: null,
			max: null
		};
		function setScales() {
			for (let k in scales) {
				let sc = scales[k];
				if (pendScales[k] == null && (sc.min == null || pendScales[xScaleKey] != null && sc.auto(self, viaAutoScaleX))) pendScales[k] = AUTOSCALE;
			}
			for (let k in scales) {
				let sc = scales[k];
				if (pendScales[k] == null && sc.from != null && pendScales[sc.from] != null) pendScales[k] = AUTOSCALE;
			}
			if (pendScales[xScaleKey] != null) resetYSeries(true);
			let wipScales = {};
			for (let k in pendScales) {
				let psc = pendScales[k];
				if (psc != null) {
					let wsc = wipScales[k] = copy(scales[k], fastIsObj);
					if (psc.min != null) assign(wsc, psc);
					else if (k != xScaleKey || mode == 2) {
						if (dataLen == 0 && wsc.from == null) {
							let minMax = wsc.range(self, null, null, k);
							wsc.min = minMax[0];
							wsc.max = minMax[1];
						} else {
							wsc.min = inf;
							wsc.max = -Infinity;
						}
					}
				}
			}
			if (dataLen > 0) {
				series.forEach((s, i) => {
					if (mode == 1) {
						let k = s.scale;
						let psc = pendScales[k];
						if (psc == null) return;
						let wsc = wipScales[k];
						if (i == 0) {
							let minMax = wsc.range(self, wsc.min, wsc.max, k);
							wsc.min = minMax[0];
							wsc.max = minMax[1];
							i0 = closestIdx(wsc.min, data[0]);
							i1 = closestIdx(wsc.max, data[0]);
							if (i1 - i0 > 1) {
								if (data[0][i0] < wsc.min) i0++;
								if (data[0][i1] > wsc.max) i1--;
							}
							s.min = data0[i0];
							s.max = data0[i1];
						} else if (s.show && s.auto) accScale(wsc, psc, s, data[i], s.sorted);
						s.idxs[0] = i0;
						s.idxs[1] = i1;
					} else if (i > 0) {
						if (s.show && s.auto) {
							let [xFacet, yFacet] = s.facets;
							let xScaleKey = xFacet.scale;
							let yScaleKey = yFacet.scale;
							let [xData, yData] = data[i];
							let wscx = wipScales[xScaleKey];
							let wscy = wipScales[yScaleKey];
							wscx != null && accScale(wscx, pendScales[xScaleKey], xFacet, xData, xFacet.sorted);
							wscy != null && accScale(wscy, pendScales[yScaleKey], yFacet, yData, yFacet.sorted);
							s.min = yFacet.min;
							s.max = yFacet.max;
						}
					}
				});
				for (let k in wipScales) {
					let wsc = wipScales[k];
					let psc = pendScales[k];
					if (wsc.from == null && (psc == null || psc.min == null)) {
						let minMax = wsc.range(self, wsc.min == inf ? null : wsc.min, wsc.max == -Infinity ? null : wsc.max, k);
						wsc.min = minMax[0];
						wsc.max = minMax[1];
					}
				}
			}
			for (let k in wipScales) {
				let wsc = wipScales[k];
				if (wsc.from != null) {
					let base = wipScales[wsc.from];
					if (base.min == null) wsc.min = wsc.max = null;
					else {
						let minMax = wsc.range(self, base.min, base.max, k);
						wsc.min = minMax[0];
						wsc.max = minMax[1];
					}
				}
			}
			let changed = {};
			let anyChanged = false;
			for (let k in wipScales) {
				let wsc = wipScales[k];
				let sc = scales[k];
				if (sc.min != wsc.min || sc.max != wsc.max) {
					sc.min = wsc.min;
					sc.max = wsc.max;
					let distr = sc.distr;
					sc._min = distr == 3 ? log10(sc.min) : distr == 4 ? asinh(sc.min, sc.asinh) : distr == 100 ? sc.fwd(sc.min) : sc.min;
					sc._max = distr == 3 ? log10(sc.max) : distr == 4 ? asinh(sc.max, sc.asinh) : distr == 100 ? sc.fwd(sc.max) : sc.max;
					changed[k] = anyChanged = true;
				}
			}
			if (anyChanged) {
				series.forEach((s, i) => {
					if (mode == 2) {
						if (i > 0 && changed.y) s._paths = null;
					} else if (changed[s.scale]) s._paths = null;
				});
				for (let k in changed) {
					shouldConvergeSize = true;
					fire("setScale", k);
				}
				if (showCursor && cursor.left >= 0) shouldSetCursor = shouldSetLegend = true;
			}
			for (let k in pendScales) pendScales[k] = null;
		}
		function getOuterIdxs(ydata) {
			let _i0 = clamp(i0 - 1, 0, dataLen - 1);
			let _i1 = clamp(i1 + 1, 0, dataLen - 1);
			while (ydata[_i0] == null && _i0 > 0) _i0--;
			while (ydata[_i1] == null && _i1 < dataLen - 1) _i1++;
			return [_i0, _i1];
		}
		function drawSeries() {
			if (dataLen > 0) {
				let shouldAlpha = series.some((s) => s._focus) && ctxAlpha != focus.alpha;
				if (shouldAlpha) ctx.globalAlpha = ctxAlpha = focus.alpha;
				series.forEach((s, i) => {
					if (i > 0 && s.show) {
						cacheStrokeFill(i, false);
						cacheStrokeFill(i, true);
						if (s._paths == null) {
							let _ctxAlpha = ctxAlpha;
							if (ctxAlpha != s.alpha) ctx.globalAlpha = ctxAlpha = s.alpha;
							let _idxs = mode == 2 ? [0, data[i][0].length - 1] : getOuterIdxs(data[i]);
							s._paths = s.paths(self, i, _idxs[0], _idxs[1]);
							if (ctxAlpha != _ctxAlpha) ctx.globalAlpha = ctxAlpha = _ctxAlpha;
						}
					}
				});
				series.forEach((s, i) => {
					if (i > 0 && s.show) {
						let _ctxAlpha = ctxAlpha;
						if (ctxAlpha != s.alpha) ctx.globalAlpha = ctxAlpha = s.alpha;
						s._paths != null && drawPath(i, false);
						{
							let _gaps = s._paths != null ? s._paths.gaps : null;
							let show = s.points.show(self, i, i0, i1, _gaps);
							let idxs = s.points.filter(self, i, show, _gaps);
							if (show || idxs) {
								s.points._paths = s.points.paths(self, i, i0, i1, idxs);
								drawPath(i, true);
							}
						}
						if (ctxAlpha != _ctxAlpha) ctx.globalAlpha = ctxAlpha = _ctxAlpha;
						fire("drawSeries", i);
					}
				});
				if (shouldAlpha) ctx.globalAlpha = ctxAlpha = 1;
			}
		}
		function cacheStrokeFill(si, _points) {
			let s = _points ? series[si].points : series[si];
			s._stroke = s.stroke(self, si);
			s._fill = s.fill(self, si);
		}
		function drawPath(si, _points) {
			let s = _points ? series[si].points : series[si];
			let { stroke, fill, clip: gapsClip, flags, _stroke: strokeStyle = s._stroke, _fill: fillStyle = s._fill, _width: width = s.width } = s._paths;
			width = roundDec(width * pxRatio, 3);
			let boundsClip = null;
			let offset = width % 2 / 2;
			if (_points && fillStyle == null) fillStyle = width > 0 ? "#fff" : strokeStyle;
			let _pxAlign = s.pxAlign == 1 && offset > 0;
			_pxAlign && ctx.translate(offset, offset);
			if (!_points) {
				let lft = plotLft - width / 2, top = plotTop - width / 2, wid = plotWid + width, hgt = plotHgt + width;
				boundsClip = new Path2D();
				boundsClip.rect(lft, top, wid, hgt);
			}
			if (_points) strokeFill(strokeStyle, width, s.dash, s.cap, fillStyle, stroke, fill, flags, gapsClip);
			else fillStroke(si, strokeStyle, width, s.dash, s.cap, fillStyle, stroke, fill, flags, boundsClip, gapsClip);
			_pxAlign && ctx.translate(-offset, -offset);
		}
		function fillStroke(si, strokeStyle, lineWidth, lineDash, lineCap, fillStyle, strokePath, fillPath, flags, boundsClip, gapsClip) {
			let didStrokeFill = false;
			flags != 0 && bands.forEach((b, bi) => {
				if (b.series[0] == si) {
					let lowerEdge = series[b.series[1]];
					let lowerData = data[b.series[1]];
					let bandClip = (lowerEdge._paths || EMPTY_OBJ).band;
					if (isArr(bandClip)) bandClip = b.dir == 1 ? bandClip[0] : bandClip[1];
					let gapsClip2;
					let _fillStyle = null;
					if (lowerEdge.show && bandClip && hasData(lowerData, i0, i1)) {
						_fillStyle = b.fill(self, bi) || fillStyle;
						gapsClip2 = lowerEdge._paths.clip;
					} else bandClip = null;
					strokeFill(strokeStyle, lineWidth, lineDash, lineCap, _fillStyle, strokePath, fillPath, flags, boundsClip, gapsClip, gapsClip2, bandClip);
					didStrokeFill = true;
				}
			});
			if (!didStrokeFill) strokeFill(strokeStyle, lineWidth, lineDash, lineCap, fillStyle, strokePath, fillPath, flags, boundsClip, gapsClip);
		}
		const CLIP_FILL_STROKE = 3;
		function strokeFill(strokeStyle, lineWidth, lineDash, lineCap, fillStyle, strokePath, fillPath, flags, boundsClip, gapsClip, gapsClip2, bandClip) {
			setCtxStyle(strokeStyle, lineWidth, lineDash, lineCap, fillStyle);
			if (boundsClip || gapsClip || bandClip) {
				ctx.save();
				boundsClip && ctx.clip(boundsClip);
				gapsClip && ctx.clip(gapsClip);
			}
			if (bandClip) {
				if ((flags & CLIP_FILL_STROKE) == CLIP_FILL_STROKE) {
					ctx.clip(bandClip);
					gapsClip2 && ctx.clip(gapsClip2);
					doFill(fillStyle, fillPath);
					doStroke(strokeStyle, strokePath, lineWidth);
				} else if (flags & BAND_CLIP_STROKE) {
					doFill(fillStyle, fillPath);
					ctx.clip(bandClip);
					doStroke(strokeStyle, strokePath, lineWidth);
				} else if (flags & BAND_CLIP_FILL) {
					ctx.save();
					ctx.clip(bandClip);
					gapsClip2 && ctx.clip(gapsClip2);
					doFill(fillStyle, fillPath);
					ctx.restore();
					doStroke(strokeStyle, strokePath, lineWidth);
				}
			} else {
				doFill(fillStyle, fillPath);
				doStroke(strokeStyle, strokePath, lineWidth);
			}
			if (boundsClip || gapsClip || bandClip) ctx.restore();
		}
		function doStroke(strokeStyle, strokePath, lineWidth) {
			if (lineWidth > 0) {
				if (strokePath instanceof Map) strokePath.forEach((strokePath, strokeStyle) => {
					ctx.strokeStyle = ctxStroke = strokeStyle;
					ctx.stroke(strokePath);
				});
				else strokePath != null && strokeStyle && ctx.stroke(strokePath);
			}
		}
		function doFill(fillStyle, fillPath) {
			if (fillPath instanceof Map) fillPath.forEach((fillPath, fillStyle) => {
				ctx.fillStyle = ctxFill = fillStyle;
				ctx.fill(fillPath);
			});
			else fillPath != null && fillStyle && ctx.fill(fillPath);
		}
		function getIncrSpace(axisIdx, min, max, fullDim) {
			let axis = axes[axisIdx];
			let incrSpace;
			if (fullDim <= 0) incrSpace = [0, 0];
			else {
				let minSpace = axis._space = axis.space(self, axisIdx, min, max, fullDim);
				incrSpace = findIncr(min, max, axis._incrs = axis.incrs(self, axisIdx, min, max, fullDim, minSpace), fullDim, minSpace);
			}
			return axis._found = incrSpace;
		}
		function drawOrthoLines(offs, filts, ori, side, pos0, len, width, stroke, dash, cap) {
			let offset = width % 2 / 2;
			pxAlign == 1 && ctx.translate(offset, offset);
			setCtxStyle(stroke, width, dash, cap, stroke);
			ctx.beginPath();
			let x0, y0, x1, y1, pos1 = pos0 + (side == 0 || side == 3 ? -len : len);
			if (ori == 0) {
				y0 = pos0;
				y1 = pos1;
			} else {
				x0 = pos0;
				x1 = pos1;
			}
			for (let i = 0; i < offs.length; i++) if (filts[i] != null) {
				if (ori == 0) x0 = x1 = offs[i];
				else y0 = y1 = offs[i];
				ctx.moveTo(x0, y0);
				ctx.lineTo(x1, y1);
			}
			ctx.stroke();
			pxAlign == 1 && ctx.translate(-offset, -offset);
		}
		function axesCalc(cycleNum) {
			let converged = true;
			axes.forEach((axis, i) => {
				if (!axis.show) return;
				let scale = scales[axis.scale];
				if (scale.min == null) {
					if (axis._show) {
						converged = false;
						axis._show = false;
						resetYSeries(false);
					}
					return;
				} else if (!axis._show) {
					converged = false;
					axis._show = true;
					resetYSeries(false);
				}
				let side = axis.side;
				let ori = side % 2;
				let { min, max } = scale;
				let [_incr, _space] = getIncrSpace(i, min, max, ori == 0 ? plotWidCss : plotHgtCss);
				if (_space == 0) return;
				let forceMin = scale.distr == 2;
				let _splits = axis._splits = axis.splits(self, i, min, max, _incr, _space, forceMin);
				let splits = scale.distr == 2 ? _splits.map((i) => data0[i]) : _splits;
				let incr = scale.distr == 2 ? data0[_splits[1]] - data0[_splits[0]] : _incr;
				let values = axis._values = axis.values(self, axis.filter(self, splits, i, _space, incr), i, _space, incr);
				axis._rotate = side == 2 ? axis.rotate(self, values, i, _space) : 0;
				let oldSize = axis._size;
				axis._size = ceil(axis.size(self, values, i, cycleNum));
				if (oldSize != null && axis._size != oldSize) converged = false;
			});
			return converged;
		}
		function paddingCalc(cycleNum) {
			let converged = true;
			padding.forEach((p, i) => {
				let _p = p(self, i, sidesWithAxes, cycleNum);
				if (_p != _padding[i]) converged = false;
				_padding[i] = _p;
			});
			return converged;
		}
		function drawAxesGrid() {
			for (let i = 0; i < axes.length; i++) {
				let axis = axes[i];
				if (!axis.show || !axis._show) continue;
				let side = axis.side;
				let ori = side % 2;
				let x, y;
				let fillStyle = axis.stroke(self, i);
				let shiftDir = side == 0 || side == 3 ? -1 : 1;
				let [_incr, _space] = axis._found;
				if (axis.label != null) {
					let shiftAmt = axis.labelGap * shiftDir;
					let baseLpos = round((axis._lpos + shiftAmt) * pxRatio);
					setFontStyle(axis.labelFont[0], fillStyle, "center", side == 2 ? TOP : BOTTOM);
					ctx.save();
					if (ori == 1) {
						x = y = 0;
						ctx.translate(baseLpos, round(plotTop + plotHgt / 2));
						ctx.rotate((side == 3 ? -PI : PI) / 2);
					} else {
						x = round(plotLft + plotWid / 2);
						y = baseLpos;
					}
					let _label = isFn(axis.label) ? axis.label(self, i, _incr, _space) : axis.label;
					ctx.fillText(_label, x, y);
					ctx.restore();
				}
				if (_space == 0) continue;
				let scale = scales[axis.scale];
				let plotDim = ori == 0 ? plotWid : plotHgt;
				let plotOff = ori == 0 ? plotLft : plotTop;
				let _splits = axis._splits;
				let splits = scale.distr == 2 ? _splits.map((i) => data0[i]) : _splits;
				let incr = scale.distr == 2 ? data0[_splits[1]] - data0[_splits[0]] : _incr;
				let ticks = axis.ticks;
				let border = axis.border;
				let _tickSize = ticks.show ? ticks.size : 0;
				let tickSize = round(_tickSize * pxRatio);
				let axisGap = round((axis.alignTo == 2 ? axis._size - _tickSize - axis.gap : axis.gap) * pxRatio);
				let angle = axis._rotate * -PI / 180;
				let basePos = pxRound(axis._pos * pxRatio);
				let finalPos = basePos + (tickSize + axisGap) * shiftDir;
				y = ori == 0 ? finalPos : 0;
				x = ori == 1 ? finalPos : 0;
				let font = axis.font[0];
				setFontStyle(font, fillStyle, axis.align == 1 ? LEFT : axis.align == 2 ? RIGHT : angle > 0 ? LEFT : angle < 0 ? RIGHT : ori == 0 ? "center" : side == 3 ? RIGHT : LEFT, angle || ori == 1 ? "middle" : side == 2 ? TOP : BOTTOM);
				let lineHeight = axis.font[1] * axis.lineGap;
				let canOffs = _splits.map((val) => pxRound(getPos(val, scale, plotDim, plotOff)));
				let _values = axis._values;
				for (let i = 0; i < _values.length; i++) {
					let val = _values[i];
					if (val != null) {
						if (ori == 0) x = canOffs[i];
						else y = canOffs[i];
						val = "" + val;
						let _parts = val.indexOf("\\n") == -1 ? [val] : val.split(/\\n/gm);
						for (let j = 0; j < _parts.length; j++) {
							let text = _parts[j];
							if (angle) {
								ctx.save();
								ctx.translate(x, y + j * lineHeight);
								ctx.rotate(angle);
								ctx.fillText(text, 0, 0);
								ctx.restore();
							} else ctx.fillText(text, x, y + j * lineHeight);
						}
					}
				}
				if (ticks.show) drawOrthoLines(canOffs, ticks.filter(self, splits, i, _space, incr), ori, side, basePos, tickSize, roundDec(ticks.width * pxRatio, 3), ticks.stroke(self, i), ticks.dash, ticks.cap);
				let grid = axis.grid;
				if (grid.show) drawOrthoLines(canOffs, grid.filter(self, splits, i, _space, incr), ori, ori == 0 ? 2 : 1, ori == 0 ? plotTop : plotLft, ori == 0 ? plotHgt : plotWid, roundDec(grid.width * pxRatio, 3), grid.stroke(self, i), grid.dash, grid.cap);
				if (border.show) drawOrthoLines([basePos], [1], ori == 0 ? 1 : 0, ori == 0 ? 1 : 2, ori == 1 ? plotTop : plotLft, ori == 1 ? plotHgt : plotWid, roundDec(border.width * pxRatio, 3), border.stroke(self, i), border.dash, border.cap);
			}
			fire("drawAxes");
		}
		function resetYSeries(minMax) {
			series.forEach((s, i) => {
				if (i > 0) {
					s._paths = null;
					if (minMax) {
						if (mode == 1) {
							s.min = null;
							s.max = null;
						} else s.facets.forEach((f) => {
							f.min = null;
							f.max = null;
						});
					}
				}
			});
		}
		let queuedCommit = false;
		let deferHooks = false;
		let hooksQueue = [];
		function flushHooks() {
			deferHooks = false;
			for (let i = 0; i < hooksQueue.length; i++) fire(...hooksQueue[i]);
			hooksQueue.length = 0;
		}
		function commit() {
			if (!queuedCommit) {
				microTask(_commit);
				queuedCommit = true;
			}
		}
		function batch(fn, _deferHooks = false) {
			queuedCommit = true;
			deferHooks = _deferHooks;
			fn(self);
			_commit();
			if (_deferHooks && hooksQueue.length > 0) queueMicrotask(flushHooks);
		}
		self.batch = batch;
		function _commit() {
			if (shouldSetScales) {
				setScales();
				shouldSetScales = false;
			}
			if (shouldConvergeSize) {
				convergeSize();
				shouldConvergeSize = false;
			}
			if (shouldSetSize) {
				setStylePx(under, LEFT, plotLftCss);
				setStylePx(under, TOP, plotTopCss);
				setStylePx(under, WIDTH, plotWidCss);
				setStylePx(under, HEIGHT, plotHgtCss);
				setStylePx(over, LEFT, plotLftCss);
				setStylePx(over, TOP, plotTopCss);
				setStylePx(over, WIDTH, plotWidCss);
				setStylePx(over, HEIGHT, plotHgtCss);
				setStylePx(wrap, WIDTH, fullWidCss);
				setStylePx(wrap, HEIGHT, fullHgtCss);
				can.width = round(fullWidCss * pxRatio);
				can.height = round(fullHgtCss * pxRatio);
				axes.forEach(({ _el, _show, _size, _pos, side }) => {
					if (_el != null) {
						if (_show) {
							let posOffset = side === 3 || side === 0 ? _size : 0;
							let isVt = side % 2 == 1;
							setStylePx(_el, isVt ? "left" : "top", _pos - posOffset);
							setStylePx(_el, isVt ? "width" : "height", _size);
							setStylePx(_el, isVt ? "top" : "left", isVt ? plotTopCss : plotLftCss);
							setStylePx(_el, isVt ? "height" : "width", isVt ? plotHgtCss : plotWidCss);
							remClass(_el, OFF);
						} else addClass(_el, OFF);
					}
				});
				ctxStroke = ctxFill = ctxWidth = ctxJoin = ctxCap = ctxFont = ctxAlign = ctxBaseline = ctxDash = null;
				ctxAlpha = 1;
				syncRect(true);
				if (plotLftCss != _plotLftCss || plotTopCss != _plotTopCss || plotWidCss != _plotWidCss || plotHgtCss != _plotHgtCss) {
					resetYSeries(false);
					let pctWid = plotWidCss / _plotWidCss;
					let pctHgt = plotHgtCss / _plotHgtCss;
					if (showCursor && !shouldSetCursor && cursor.left >= 0) {
						cursor.left *= pctWid;
						cursor.top *= pctHgt;
						vCursor && elTrans(vCursor, round(cursor.left), 0, plotWidCss, plotHgtCss);
						hCursor && elTrans(hCursor, 0, round(cursor.top), plotWidCss, plotHgtCss);
						for (let i = 0; i < cursorPts.length; i++) {
							let pt = cursorPts[i];
							if (pt != null) {
								cursorPtsLft[i] *= pctWid;
								cursorPtsTop[i] *= pctHgt;
								elTrans(pt, ceil(cursorPtsLft[i]), ceil(cursorPtsTop[i]), plotWidCss, plotHgtCss);
							}
						}
					}
					if (select.show && !shouldSetSelect && select.left >= 0 && select.width > 0) {
						select.left *= pctWid;
						select.width *= pctWid;
						select.top *= pctHgt;
						select.height *= pctHgt;
						for (let prop in _hideProps) setStylePx(selectDiv, prop, select[prop]);
					}
					_plotLftCss = plotLftCss;
					_plotTopCss = plotTopCss;
					_plotWidCss = plotWidCss;
					_plotHgtCss = plotHgtCss;
				}
				fire("setSize");
				shouldSetSize = false;
			}
			if (fullWidCss > 0 && fullHgtCss > 0) {
				ctx.clearRect(0, 0, can.width, can.height);
				fire("drawClear");
				drawOrder.forEach((fn) => fn());
				fire("draw");
			}
			if (select.show && shouldSetSelect) {
				setSelect(select);
				shouldSetSelect = false;
			}
			if (showCursor && shouldSetCursor) {
				updateCursor(null, true, false);
				shouldSetCursor = false;
			}
			if (legend.show && legend.live && shouldSetLegend) {
				setLegend();
				shouldSetLegend = false;
			}
			if (!ready) {
				ready = true;
				self.status = 1;
				fire("ready");
			}
			viaAutoScaleX = false;
			queuedCommit = false;
		}
		self.redraw = (rebuildPaths, recalcAxes) => {
			shouldConvergeSize = recalcAxes || false;
			if (rebuildPaths !== false) _setScale(xScaleKey, scaleX.min, scaleX.max);
			else commit();
		};
		function setScale(key, opts) {
			let sc = scales[key];
			if (sc.from == null) {
				if (dataLen == 0) {
					let minMax = sc.range(self, opts.min, opts.max, key);
					opts.min = minMax[0];
					opts.max = minMax[1];
				}
				if (opts.min > opts.max) {
					let _min = opts.min;
					opts.min = opts.max;
					opts.max = _min;
				}
				if (dataLen > 1 && opts.min != null && opts.max != null && opts.max - opts.min < 1e-16) return;
				if (key == xScaleKey) {
					if (sc.distr == 2 && dataLen > 0) {
						opts.min = closestIdx(opts.min, data[0]);
						opts.max = closestIdx(opts.max, data[0]);
						if (opts.min == opts.max) opts.max++;
					}
				}
				pendScales[key] = opts;
				shouldSetScales = true;
				commit();
			}
		}
		self.setScale = setScale;
		let xCursor;
		let yCursor;
		let vCursor;
		let hCursor;
		let rawMouseLeft0;
		let rawMouseTop0;
		let mouseLeft0;
		let mouseTop0;
		let rawMouseLeft1;
		let rawMouseTop1;
		let mouseLeft1;
		let mouseTop1;
		let dragging = false;
		const drag = cursor.drag;
		let dragX = drag.x;
		let dragY = drag.y;
		if (showCursor) {
			if (cursor.x) xCursor = placeDiv(CURSOR_X, over);
			if (cursor.y) yCursor = placeDiv(CURSOR_Y, over);
			if (scaleX.ori == 0) {
				vCursor = xCursor;
				hCursor = yCursor;
			} else {
				vCursor = yCursor;
				hCursor = xCursor;
			}
			mouseLeft1 = cursor.left;
			mouseTop1 = cursor.top;
		}
		const select = self.select = assign({
			show: true,
			over: true,
			left: 0,
			width: 0,
			top: 0,
			height: 0
		}, opts.select);
		const selectDiv = select.show ? placeDiv(SELECT, select.over ? over : under) : null;
		function setSelect(opts, _fire) {
			if (select.show) {
				for (let prop in opts) {
					select[prop] = opts[prop];
					if (prop in _hideProps) setStylePx(selectDiv, prop, opts[prop]);
				}
				_fire !== false && fire("setSelect");
			}
		}
		self.setSelect = setSelect;
		function toggleDOM(i) {
			if (series[i].show) showLegend && remClass(legendRows[i], OFF);
			else {
				showLegend && addClass(legendRows[i], OFF);
				if (showCursor) {
					let pt = cursorOnePt ? cursorPts[0] : cursorPts[i];
					pt != null && elTrans(pt, -10, -10, plotWidCss, plotHgtCss);
				}
			}
		}
		function _setScale(key, min, max) {
			setScale(key, {
				min,
				max
			});
		}
		function setSeries(i, opts, _fire, _pub) {
			if (opts.focus != null) setFocus(i);
			if (opts.show != null) series.forEach((s, si) => {
				if (si > 0 && (i == si || i == null)) {
					s.show = opts.show;
					toggleDOM(si);
					if (mode == 2) {
						_setScale(s.facets[0].scale, null, null);
						_setScale(s.facets[1].scale, null, null);
					} else _setScale(s.scale, null, null);
					commit();
				}
			});
			_fire !== false && fire("setSeries", i, opts);
			_pub && pubSync("setSeries", self, i, opts);
		}
		self.setSeries = setSeries;
		function setBand(bi, opts) {
			assign(bands[bi], opts);
		}
		function addBand(opts, bi) {
			opts.fill = fnOrSelf(opts.fill || null);
			opts.dir = ifNull(opts.dir, -1);
			bi = bi == null ? bands.length : bi;
			bands.splice(bi, 0, opts);
		}
		function delBand(bi) {
			if (bi == null) bands.length = 0;
			else bands.splice(bi, 1);
		}
		self.addBand = addBand;
		self.setBand = setBand;
		self.delBand = delBand;
		function setAlpha(i, value) {
			series[i].alpha = value;
			if (showCursor && cursorPts[i] != null) cursorPts[i].style.opacity = value;
			if (showLegend && legendRows[i]) legendRows[i].style.opacity = value;
		}
		let closestDist;
		let closestSeries;
		let focusedSeries;
		const FOCUS_TRUE = { focus: true };
		function setFocus(i) {
			if (i != focusedSeries) {
				let allFocused = i == null;
				let _setAlpha = focus.alpha != 1;
				series.forEach((s, i2) => {
					if (mode == 1 || i2 > 0) {
						let isFocused = allFocused || i2 == 0 || i2 == i;
						s._focus = allFocused ? null : isFocused;
						_setAlpha && setAlpha(i2, isFocused ? 1 : focus.alpha);
					}
				});
				focusedSeries = i;
				_setAlpha && commit();
			}
		}
		if (showLegend && cursorFocus) onMouse(mouseleave, legendTable, (e) => {
			if (cursor._lock) return;
			setCursorEvent(e);
			if (focusedSeries != null) setSeries(null, FOCUS_TRUE, true, syncOpts.setSeries);
		});
		function posToVal(pos, scale, can) {
			let sc = scales[scale];
			if (can) pos = pos / pxRatio - (sc.ori == 1 ? plotTopCss : plotLftCss);
			let dim = plotWidCss;
			if (sc.ori == 1) {
				dim = plotHgtCss;
				pos = dim - pos;
			}
			if (sc.dir == -1) pos = dim - pos;
			let _min = sc._min, _max = sc._max, pct = pos / dim;
			let sv = _min + (_max - _min) * pct;
			let distr = sc.distr;
			return distr == 3 ? pow(10, sv) : distr == 4 ? sinh(sv, sc.asinh) : distr == 100 ? sc.bwd(sv) : sv;
		}
		function closestIdxFromXpos(pos, can) {
			return closestIdx(posToVal(pos, xScaleKey, can), data[0], i0, i1);
		}
		self.valToIdx = (val) => closestIdx(val, data[0]);
		self.posToIdx = closestIdxFromXpos;
		self.posToVal = posToVal;
		self.valToPos = (val, scale, can) => scales[scale].ori == 0 ? getHPos(val, scales[scale], can ? plotWid : plotWidCss, can ? plotLft : 0) : getVPos(val, scales[scale], can ? plotHgt : plotHgtCss, can ? plotTop : 0);
		self.setCursor = (opts, _fire, _pub) => {
			mouseLeft1 = opts.left;
			mouseTop1 = opts.top;
			updateCursor(null, _fire, _pub);
		};
		function setSelH(off, dim) {
			setStylePx(selectDiv, LEFT, select.left = off);
			setStylePx(selectDiv, WIDTH, select.width = dim);
		}
		function setSelV(off, dim) {
			setStylePx(selectDiv, TOP, select.top = off);
			setStylePx(selectDiv, HEIGHT, select.height = dim);
		}
		let setSelX = scaleX.ori == 0 ? setSelH : setSelV;
		let setSelY = scaleX.ori == 1 ? setSelH : setSelV;
		function syncLegend() {
			if (showLegend && legend.live) for (let i = mode == 2 ? 1 : 0; i < series.length; i++) {
				if (i == 0 && multiValLegend) continue;
				let vals = legend.values[i];
				let j = 0;
				for (let k in vals) legendCells[i][j++].firstChild.nodeValue = vals[k];
			}
		}
		function setLegend(opts, _fire) {
			if (opts != null) {
				if (opts.idxs) opts.idxs.forEach((didx, sidx) => {
					activeIdxs[sidx] = didx;
				});
				else if (!isUndef(opts.idx)) activeIdxs.fill(opts.idx);
				legend.idx = activeIdxs[0];
			}
			if (showLegend && legend.live) {
				for (let sidx = 0; sidx < series.length; sidx++) if (sidx > 0 || mode == 1 && !multiValLegend) setLegendValues(sidx, activeIdxs[sidx]);
				syncLegend();
			}
			shouldSetLegend = false;
			_fire !== false && fire("setLegend");
		}
		self.setLegend = setLegend;
		function setLegendValues(sidx, idx) {
			let s = series[sidx];
			let src = sidx == 0 && xScaleDistr == 2 ? data0 : data[sidx];
			let val;
			if (multiValLegend) val = s.values(self, sidx, idx) ?? NULL_LEGEND_VALUES;
			else {
				val = s.value(self, idx == null ? null : src[idx], sidx, idx);
				val = val == null ? NULL_LEGEND_VALUES : { _: val };
			}
			legend.values[sidx] = val;
		}
		function updateCursor(src, _fire, _pub) {
			rawMouseLeft1 = mouseLeft1;
			rawMouseTop1 = mouseTop1;
			[mouseLeft1, mouseTop1] = cursor.move(self, mouseLeft1, mouseTop1);
			cursor.left = mouseLeft1;
			cursor.top = mouseTop1;
			if (showCursor) {
				vCursor && elTrans(vCursor, round(mouseLeft1), 0, plotWidCss, plotHgtCss);
				hCursor && elTrans(hCursor, 0, round(mouseTop1), plotWidCss, plotHgtCss);
			}
			let idx;
			let noDataInRange = i0 > i1;
			closestDist = inf;
			closestSeries = null;
			let xDim = scaleX.ori == 0 ? plotWidCss : plotHgtCss;
			let yDim = scaleX.ori == 1 ? plotWidCss : plotHgtCss;
			if (mouseLeft1 < 0 || dataLen == 0 || noDataInRange) {
				idx = cursor.idx = null;
				for (let i = 0; i < series.length; i++) {
					let pt = cursorPts[i];
					pt != null && elTrans(pt, -10, -10, plotWidCss, plotHgtCss);
				}
				if (cursorFocus) setSeries(null, FOCUS_TRUE, true, src == null && syncOpts.setSeries);
				if (legend.live) {
					activeIdxs.fill(idx);
					shouldSetLegend = true;
				}
			} else {
				let mouseXPos, valAtPosX, xPos;
				if (mode == 1) {
					mouseXPos = scaleX.ori == 0 ? mouseLeft1 : mouseTop1;
					valAtPosX = posToVal(mouseXPos, xScaleKey);
					idx = cursor.idx = closestIdx(valAtPosX, data[0], i0, i1);
					xPos = valToPosX(data[0][idx], scaleX, xDim, 0);
				}
				let _ptLft = -10;
				let _ptTop = -10;
				let _ptWid = 0;
				let _ptHgt = 0;
				let _centered = true;
				let _ptFill = "";
				let _ptStroke = "";
				for (let i = mode == 2 ? 1 : 0; i < series.length; i++) {
					let s = series[i];
					let idx1 = activeIdxs[i];
					let yVal1 = idx1 == null ? null : mode == 1 ? data[i][idx1] : data[i][1][idx1];
					let idx2 = cursor.dataIdx(self, i, idx, valAtPosX);
					let yVal2 = idx2 == null ? null : mode == 1 ? data[i][idx2] : data[i][1][idx2];
					shouldSetLegend = shouldSetLegend || yVal2 != yVal1 || idx2 != idx1;
					activeIdxs[i] = idx2;
					if (i > 0 && s.show) {
						let xPos2 = idx2 == null ? -10 : idx2 == idx ? xPos : valToPosX(mode == 1 ? data[0][idx2] : data[i][0][idx2], scaleX, xDim, 0);
						let yPos = yVal2 == null ? -10 : valToPosY(yVal2, mode == 1 ? scales[s.scale] : scales[s.facets[1].scale], yDim, 0);
						if (cursorFocus && yVal2 != null) {
							let mouseYPos = scaleX.ori == 1 ? mouseLeft1 : mouseTop1;
							let dist = abs(focus.dist(self, i, idx2, yPos, mouseYPos));
							if (dist < closestDist) {
								let bias = focus.bias;
								if (bias != 0) {
									let mouseYVal = posToVal(mouseYPos, s.scale);
									let seriesYValSign = yVal2 >= 0 ? 1 : -1;
									let mouseYValSign = mouseYVal >= 0 ? 1 : -1;
									if (mouseYValSign == seriesYValSign && (mouseYValSign == 1 ? bias == 1 ? yVal2 >= mouseYVal : yVal2 <= mouseYVal : bias == 1 ? yVal2 <= mouseYVal : yVal2 >= mouseYVal)) {
										closestDist = dist;
										closestSeries = i;
									}
								} else {
									closestDist = dist;
									closestSeries = i;
								}
							}
						}
						if (shouldSetLegend || cursorOnePt) {
							let hPos, vPos;
							if (scaleX.ori == 0) {
								hPos = xPos2;
								vPos = yPos;
							} else {
								hPos = yPos;
								vPos = xPos2;
							}
							let ptWid, ptHgt, ptLft, ptTop, ptStroke, ptFill, centered = true, getBBox = points.bbox;
							if (getBBox != null) {
								centered = false;
								let bbox = getBBox(self, i);
								ptLft = bbox.left;
								ptTop = bbox.top;
								ptWid = bbox.width;
								ptHgt = bbox.height;
							} else {
								ptLft = hPos;
								ptTop = vPos;
								ptWid = ptHgt = points.size(self, i);
							}
							ptFill = points.fill(self, i);
							ptStroke = points.stroke(self, i);
							if (cursorOnePt) {
								if (i == closestSeries && closestDist <= focus.prox) {
									_ptLft = ptLft;
									_ptTop = ptTop;
									_ptWid = ptWid;
									_ptHgt = ptHgt;
									_centered = centered;
									_ptFill = ptFill;
									_ptStroke = ptStroke;
								}
							} else {
								let pt = cursorPts[i];
								if (pt != null) {
									cursorPtsLft[i] = ptLft;
									cursorPtsTop[i] = ptTop;
									elSize(pt, ptWid, ptHgt, centered);
									elColor(pt, ptFill, ptStroke);
									elTrans(pt, ceil(ptLft), ceil(ptTop), plotWidCss, plotHgtCss);
								}
							}
						}
					}
				}
				if (cursorOnePt) {
					let p = focus.prox;
					if (shouldSetLegend || (focusedSeries == null ? closestDist <= p : closestDist > p || closestSeries != focusedSeries)) {
						let pt = cursorPts[0];
						if (pt != null) {
							cursorPtsLft[0] = _ptLft;
							cursorPtsTop[0] = _ptTop;
							elSize(pt, _ptWid, _ptHgt, _centered);
							elColor(pt, _ptFill, _ptStroke);
							elTrans(pt, ceil(_ptLft), ceil(_ptTop), plotWidCss, plotHgtCss);
						}
					}
				}
			}
			if (select.show && dragging) {
				if (src != null) {
					let [xKey, yKey] = syncOpts.scales;
					let [matchXKeys, matchYKeys] = syncOpts.match;
					let [xKeySrc, yKeySrc] = src.cursor.sync.scales;
					let sdrag = src.cursor.drag;
					dragX = sdrag._x;
					dragY = sdrag._y;
					if (dragX || dragY) {
						let { left, top, width, height } = src.select;
						let sori = src.scales[xKeySrc].ori;
						let sPosToVal = src.posToVal;
						let sOff, sDim, sc, a, b;
						let matchingX = xKey != null && matchXKeys(xKey, xKeySrc);
						let matchingY = yKey != null && matchYKeys(yKey, yKeySrc);
						if (matchingX && dragX) {
							if (sori == 0) {
								sOff = left;
								sDim = width;
							} else {
								sOff = top;
								sDim = height;
							}
							sc = scales[xKey];
							a = valToPosX(sPosToVal(sOff, xKeySrc), sc, xDim, 0);
							b = valToPosX(sPosToVal(sOff + sDim, xKeySrc), sc, xDim, 0);
							setSelX(min(a, b), abs(b - a));
						} else setSelX(0, xDim);
						if (matchingY && dragY) {
							if (sori == 1) {
								sOff = left;
								sDim = width;
							} else {
								sOff = top;
								sDim = height;
							}
							sc = scales[yKey];
							a = valToPosY(sPosToVal(sOff, yKeySrc), sc, yDim, 0);
							b = valToPosY(sPosToVal(sOff + sDim, yKeySrc), sc, yDim, 0);
							setSelY(min(a, b), abs(b - a));
						} else setSelY(0, yDim);
					} else hideSelect();
				} else {
					let rawDX = abs(rawMouseLeft1 - rawMouseLeft0);
					let rawDY = abs(rawMouseTop1 - rawMouseTop0);
					if (scaleX.ori == 1) {
						let _rawDX = rawDX;
						rawDX = rawDY;
						rawDY = _rawDX;
					}
					dragX = drag.x && rawDX >= drag.dist;
					dragY = drag.y && rawDY >= drag.dist;
					let uni = drag.uni;
					if (uni != null) {
						if (dragX && dragY) {
							dragX = rawDX >= uni;
							dragY = rawDY >= uni;
							if (!dragX && !dragY) {
								if (rawDY > rawDX) dragY = true;
								else dragX = true;
							}
						}
					} else if (drag.x && drag.y && (dragX || dragY)) dragX = dragY = true;
					let p0, p1;
					if (dragX) {
						if (scaleX.ori == 0) {
							p0 = mouseLeft0;
							p1 = mouseLeft1;
						} else {
							p0 = mouseTop0;
							p1 = mouseTop1;
						}
						setSelX(min(p0, p1), abs(p1 - p0));
						if (!dragY) setSelY(0, yDim);
					}
					if (dragY) {
						if (scaleX.ori == 1) {
							p0 = mouseLeft0;
							p1 = mouseLeft1;
						} else {
							p0 = mouseTop0;
							p1 = mouseTop1;
						}
						setSelY(min(p0, p1), abs(p1 - p0));
						if (!dragX) setSelX(0, xDim);
					}
					if (!dragX && !dragY) {
						setSelX(0, 0);
						setSelY(0, 0);
					}
				}
			}
			drag._x = dragX;
			drag._y = dragY;
			if (src == null) {
				if (_pub) {
					if (syncKey != null) {
						let [xSyncKey, ySyncKey] = syncOpts.scales;
						syncOpts.values[0] = xSyncKey != null ? posToVal(scaleX.ori == 0 ? mouseLeft1 : mouseTop1, xSyncKey) : null;
						syncOpts.values[1] = ySyncKey != null ? posToVal(scaleX.ori == 1 ? mouseLeft1 : mouseTop1, ySyncKey) : null;
					}
					pubSync(mousemove, self, mouseLeft1, mouseTop1, plotWidCss, plotHgtCss, idx);
				}
				if (cursorFocus) {
					let shouldPub = _pub && syncOpts.setSeries;
					let p = focus.prox;
					if (focusedSeries == null) {
						if (closestDist <= p) setSeries(closestSeries, FOCUS_TRUE, true, shouldPub);
					} else if (closestDist > p) setSeries(null, FOCUS_TRUE, true, shouldPub);
					else if (closestSeries != focusedSeries) setSeries(closestSeries, FOCUS_TRUE, true, shouldPub);
				}
			}
			if (shouldSetLegend) {
				legend.idx = idx;
				setLegend();
			}
			_fire !== false && fire("setCursor");
		}
		let rect = null;
		Object.defineProperty(self, "rect", { get() {
			if (rect == null) syncRect(false);
			return rect;
		} });
		function syncRect(defer = false) {
			if (defer) rect = null;
			else {
				rect = over.getBoundingClientRect();
				fire("syncRect", rect);
			}
		}
		function mouseMove(e, src, _l, _t, _w, _h, _i) {
			if (cursor._lock) return;
			if (dragging && e != null && e.movementX == 0 && e.movementY == 0) return;
			cacheMouse(e, src, _l, _t, _w, _h, _i, false, e != null);
			if (e != null) updateCursor(null, true, true);
			else updateCursor(src, true, false);
		}
		function cacheMouse(e, src, _l, _t, _w, _h, _i, initial, snap) {
			if (rect == null) syncRect(false);
			setCursorEvent(e);
			if (e != null) {
				_l = e.clientX - rect.left;
				_t = e.clientY - rect.top;
			} else {
				if (_l < 0 || _t < 0) {
					mouseLeft1 = -10;
					mouseTop1 = -10;
					return;
				}
				let [xKey, yKey] = syncOpts.scales;
				let syncOptsSrc = src.cursor.sync;
				let [xValSrc, yValSrc] = syncOptsSrc.values;
				let [xKeySrc, yKeySrc] = syncOptsSrc.scales;
				let [matchXKeys, matchYKeys] = syncOpts.match;
				let rotSrc = src.axes[0].side % 2 == 1;
				let xDim = scaleX.ori == 0 ? plotWidCss : plotHgtCss, yDim = scaleX.ori == 1 ? plotWidCss : plotHgtCss, _xDim = rotSrc ? _h : _w, _yDim = rotSrc ? _w : _h, _xPos = rotSrc ? _t : _l, _yPos = rotSrc ? _l : _t;
				if (xKeySrc != null) _l = matchXKeys(xKey, xKeySrc) ? getPos(xValSrc, scales[xKey], xDim, 0) : -10;
				else _l = xDim * (_xPos / _xDim);
				if (yKeySrc != null) _t = matchYKeys(yKey, yKeySrc) ? getPos(yValSrc, scales[yKey], yDim, 0) : -10;
				else _t = yDim * (_yPos / _yDim);
				if (scaleX.ori == 1) {
					let __l = _l;
					_l = _t;
					_t = __l;
				}
			}
			if (snap && (src == null || src.cursor.event.type == mousemove)) {
				if (_l <= 1 || _l >= plotWidCss - 1) _l = incrRound(_l, plotWidCss);
				if (_t <= 1 || _t >= plotHgtCss - 1) _t = incrRound(_t, plotHgtCss);
			}
			if (initial) {
				rawMouseLeft0 = _l;
				rawMouseTop0 = _t;
				[mouseLeft0, mouseTop0] = cursor.move(self, _l, _t);
			} else {
				mouseLeft1 = _l;
				mouseTop1 = _t;
			}
		}
		const _hideProps = {
			width: 0,
			height: 0,
			left: 0,
			top: 0
		};
		function hideSelect() {
			setSelect(_hideProps, false);
		}
		let downSelectLeft;
		let downSelectTop;
		let downSelectWidth;
		let downSelectHeight;
		function mouseDown(e, src, _l, _t, _w, _h, _i) {
			dragging = true;
			dragX = dragY = drag._x = drag._y = false;
			cacheMouse(e, src, _l, _t, _w, _h, _i, true, false);
			if (e != null) {
				onMouse(mouseup, doc, mouseUp, false);
				pubSync(mousedown, self, mouseLeft0, mouseTop0, plotWidCss, plotHgtCss, null);
			}
			let { left, top, width, height } = select;
			downSelectLeft = left;
			downSelectTop = top;
			downSelectWidth = width;
			downSelectHeight = height;
		}
		function mouseUp(e, src, _l, _t, _w, _h, _i) {
			dragging = drag._x = drag._y = false;
			cacheMouse(e, src, _l, _t, _w, _h, _i, false, true);
			let { left, top, width, height } = select;
			let hasSelect = width > 0 || height > 0;
			let chgSelect = downSelectLeft != left || downSelectTop != top || downSelectWidth != width || downSelectHeight != height;
			hasSelect && chgSelect && setSelect(select);
			if (drag.setScale && hasSelect && chgSelect) {
				let xOff = left, xDim = width, yOff = top, yDim = height;
				if (scaleX.ori == 1) xOff = top, xDim = height, yOff = left, yDim = width;
				if (dragX) _setScale(xScaleKey, posToVal(xOff, xScaleKey), posToVal(xOff + xDim, xScaleKey));
				if (dragY) for (let k in scales) {
					let sc = scales[k];
					if (k != xScaleKey && sc.from == null && sc.min != inf) _setScale(k, posToVal(yOff + yDim, k), posToVal(yOff, k));
				}
				hideSelect();
			} else if (cursor.lock) {
				cursor._lock = !cursor._lock;
				updateCursor(src, true, e != null);
			}
			if (e != null) {
				offMouse(mouseup, doc);
				pubSync(mouseup, self, mouseLeft1, mouseTop1, plotWidCss, plotHgtCss, null);
			}
		}
		function mouseLeave(e, src, _l, _t, _w, _h, _i) {
			if (cursor._lock) return;
			setCursorEvent(e);
			let _dragging = dragging;
			if (dragging) {
				let snapH = true;
				let snapV = true;
				let snapProx = 10;
				let dragH, dragV;
				if (scaleX.ori == 0) {
					dragH = dragX;
					dragV = dragY;
				} else {
					dragH = dragY;
					dragV = dragX;
				}
				if (dragH && dragV) {
					snapH = mouseLeft1 <= snapProx || mouseLeft1 >= plotWidCss - snapProx;
					snapV = mouseTop1 <= snapProx || mouseTop1 >= plotHgtCss - snapProx;
				}
				if (dragH && snapH) mouseLeft1 = mouseLeft1 < mouseLeft0 ? 0 : plotWidCss;
				if (dragV && snapV) mouseTop1 = mouseTop1 < mouseTop0 ? 0 : plotHgtCss;
				updateCursor(null, true, true);
				dragging = false;
			}
			mouseLeft1 = -10;
			mouseTop1 = -10;
			activeIdxs.fill(null);
			updateCursor(null, true, true);
			if (_dragging) dragging = _dragging;
		}
		function dblClick(e, src, _l, _t, _w, _h, _i) {
			if (cursor._lock) return;
			setCursorEvent(e);
			autoScaleX();
			hideSelect();
			if (e != null) pubSync(dblclick, self, mouseLeft1, mouseTop1, plotWidCss, plotHgtCss, null);
		}
		function syncPxRatio() {
			axes.forEach(syncFontSize);
			_setSize(self.width, self.height, true);
		}
		on(dppxchange, win, syncPxRatio);
		const events = {};
		events.mousedown = mouseDown;
		events.mousemove = mouseMove;
		events.mouseup = mouseUp;
		events.dblclick = dblClick;
		events["setSeries"] = (e, src, idx, opts) => {
			let seriesIdxMatcher = syncOpts.match[2];
			idx = seriesIdxMatcher(self, src, idx);
			idx != -1 && setSeries(idx, opts, true, false);
		};
		if (showCursor) {
			onMouse(mousedown, over, mouseDown);
			onMouse(mousemove, over, mouseMove);
			onMouse(mouseenter, over, (e) => {
				setCursorEvent(e);
				syncRect(false);
			});
			onMouse(mouseleave, over, mouseLeave);
			onMouse(dblclick, over, dblClick);
			cursorPlots.add(self);
			self.syncRect = syncRect;
		}
		const hooks = self.hooks = opts.hooks || {};
		function fire(evName, a1, a2) {
			if (deferHooks) hooksQueue.push([
				evName,
				a1,
				a2
			]);
			else if (evName in hooks) hooks[evName].forEach((fn) => {
				fn.call(null, self, a1, a2);
			});
		}
		(opts.plugins || []).forEach((p) => {
			for (let evName in p.hooks) hooks[evName] = (hooks[evName] || []).concat(p.hooks[evName]);
		});
		const seriesIdxMatcher = (self, src, srcSeriesIdx) => srcSeriesIdx;
		const syncOpts = assign({
			key: null,
			setSeries: false,
			filters: {
				pub: retTrue,
				sub: retTrue
			},
			scales: [xScaleKey, series[1] ? series[1].scale : null],
			match: [
				retEq,
				retEq,
				seriesIdxMatcher
			],
			values: [null, null]
		}, cursor.sync);
		if (syncOpts.match.length == 2) syncOpts.match.push(seriesIdxMatcher);
		cursor.sync = syncOpts;
		const syncKey = syncOpts.key;
		const sync = _sync(syncKey);
		function pubSync(type, src, x, y, w, h, i) {
			if (syncOpts.filters.pub(type, src, x, y, w, h, i)) sync.pub(type, src, x, y, w, h, i);
		}
		sync.sub(self);
		function pub(type, src, x, y, w, h, i) {
			if (syncOpts.filters.sub(type, src, x, y, w, h, i)) events[type](null, src, x, y, w, h, i);
		}
		self.pub = pub;
		function destroy() {
			sync.unsub(self);
			cursorPlots.delete(self);
			mouseListeners.clear();
			off(dppxchange, win, syncPxRatio);
			root.remove();
			legendTable?.remove();
			fire("destroy");
		}
		self.destroy = destroy;
		function _init() {
			fire("init", opts, data);
			setData(data || opts.data, false);
			if (pendScales[xScaleKey]) setScale(xScaleKey, pendScales[xScaleKey]);
			else autoScaleX();
			shouldSetSelect = select.show && (select.width > 0 || select.height > 0);
			shouldSetCursor = shouldSetLegend = true;
			_setSize(opts.width, opts.height);
		}
		series.forEach(initSeries);
		axes.forEach(initAxis);
		if (then) {
			if (then instanceof HTMLElement) {
				then.appendChild(root);
				_init();
			} else then(self, _init);
		} else _init();
		return self;
	}
	uPlot.assign = assign;
	uPlot.fmtNum = fmtNum;
	uPlot.rangeNum = rangeNum;
	uPlot.rangeLog = rangeLog;
	uPlot.rangeAsinh = rangeAsinh;
	uPlot.orient = orient;
	uPlot.pxRatio = pxRatio;
	uPlot.join = join;
	uPlot.fmtDate = fmtDate;
	uPlot.tzDate = tzDate;
	uPlot.sync = _sync;
	{
		uPlot.addGap = addGap;
		uPlot.clipGaps = clipGaps;
		let paths = uPlot.paths = { points };
		paths.linear = linear;
		paths.stepped = stepped;
		paths.bars = bars;
		paths.spline = monotoneCubic;
	}
	const height = 190;
	const halfDay = 43200;
	const day = new Intl.DateTimeFormat("en", {
		month: "short",
		day: "numeric"
	});
	const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(\`--\${name}\`).trim() || "gray";
	const seconds = (day) => new Date(\`\${day}T00:00:00\`).getTime() / 1e3;
	const stacked = (series) => {
		const sums = [];
		for (const { values } of series) {
			const before = sums.at(-1);
			sums.push(values.map((value, index) => (value ?? 0) + (before?.[index] ?? 0)));
		}
		return sums;
	};
	const limits = (days) => [seconds(days[0] ?? "1970-01-01") - halfDay, seconds(days.at(-1) ?? "1970-01-01") + halfDay];
	const tickDays = [
		1,
		2,
		3,
		7,
		14,
		30,
		60,
		90,
		180,
		365
	].map((days) => days * 2 * halfDay);
	const options = ({ days, kind, series, value }, width, order) => {
		const dim = colourOf("dim");
		const line = {
			stroke: colourOf("line"),
			width: 1
		};
		const bars = uPlot.paths.bars?.({
			size: [.7, 40],
			align: 0
		});
		const axis = {
			stroke: dim,
			grid: line,
			ticks: line,
			font: "11px system-ui, sans-serif"
		};
		return {
			width,
			height,
			cursor: {
				y: false,
				drag: {
					x: false,
					y: false
				}
			},
			legend: {
				show: true,
				live: true
			},
			scales: {
				x: {
					time: true,
					range: () => limits(days)
				},
				y: { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] }
			},
			axes: [{
				...axis,
				space: 60,
				size: 32,
				incrs: tickDays,
				values: (_, splits) => splits.map((split) => split % 1 === 0 && new Date(split * 1e3).getHours() === 0 ? day.format(split * 1e3) : "")
			}, {
				...axis,
				size: 62,
				values: (_, splits) => splits.map((split) => value(split))
			}],
			series: [{
				label: "Day",
				value: (_, at) => at === null ? "" : day.format(at * 1e3)
			}, ...order.map((index) => {
				const { colour, label, values } = series[index] ?? {
					colour: "dim",
					label: "",
					values: []
				};
				return {
					label,
					stroke: colourOf(colour),
					width: kind === "bars" ? 0 : 2,
					points: {
						show: kind === "lines" && values.length < 40,
						size: 5
					},
					value: (_, __, ___, place) => place === null ? "" : value(values[place] ?? 0),
					...kind === "bars" ? {
						fill: colourOf(colour),
						...bars === void 0 ? {} : { paths: bars }
					} : {}
				};
			})]
		};
	};
	const tableOf$1 = ({ days, series, title, value }) => make("details", { class: "numbers" }, el("summary", "", "Numbers"), make("div", {
		class: "wide",
		tabindex: "0",
		role: "region",
		"aria-label": \`\${title}: numbers\`
	}, make("table", { class: "figures" }, make("thead", {}, make("tr", {}, make("th", {
		scope: "col",
		class: "l"
	}, "Day"), ...series.map(({ label }) => make("th", { scope: "col" }, label)))), make("tbody", {}, ...days.map((day, index) => make("tr", {}, make("th", {
		scope: "row",
		class: "l"
	}, day), ...series.map(({ values }) => {
		const one = values[index];
		return el("td", "", one === null || one === void 0 ? "" : value(one));
	})))))));
	const charts = (all) => {
		const plots = [];
		const element = make("div", { class: "charts" });
		for (const chart of all) {
			const place = make("div", {
				class: "plot",
				role: "img",
				"aria-label": \`\${chart.title} for each day, from \${chart.days[0] ?? ""} to \${chart.days.at(-1) ?? ""}; the numbers are below\`
			});
			plots.push({
				chart,
				place,
				plot: void 0
			});
			element.append(make("figure", { class: "chart" }, make("figcaption", {}, chart.title), place, tableOf$1(chart)));
		}
		const draw = (one) => {
			const { chart, place } = one;
			one.plot?.destroy();
			const sums = chart.kind === "bars" ? stacked(chart.series) : chart.series.map(({ values }) => values);
			const order = chart.series.map((_, index) => chart.kind === "bars" ? chart.series.length - 1 - index : index);
			const data = [chart.days.map(seconds), ...order.map((index) => [...sums[index] ?? []])];
			one.plot = new uPlot(options(chart, Math.max(200, place.clientWidth), order), data, place);
		};
		const observer = new ResizeObserver((entries) => {
			for (const { target } of entries) {
				const one = plots.find(({ place }) => place === target);
				if (one !== void 0 && one.plot?.width !== Math.max(200, one.place.clientWidth)) draw(one);
			}
		});
		for (const { place } of plots) observer.observe(place);
		const scheme = matchMedia("(prefers-color-scheme: dark)");
		const recolour = () => plots.forEach(draw);
		scheme.addEventListener("change", recolour);
		return {
			element,
			close: () => {
				observer.disconnect();
				scheme.removeEventListener("change", recolour);
				for (const { plot } of plots) plot?.destroy();
			}
		};
	};
	const mostLines = 4;
	const lineColours = [
		"llm",
		"tool",
		"user",
		"approval"
	];
	const percentiles = (given, name) => given === void 0 ? [] : figure(\`\${duration(given.p50) || "0"} / \${duration(given.p90) || "0"} / \${duration(given.p99) || "0"}\`, \`\${name}, p50 / p90 / p99\`);
	const errorLines = (days, shares) => shares.filter(({ errors }) => errors > 0).toSorted((a, b) => b.errors - a.errors).slice(0, mostLines).map((share, index) => {
		const counts = new Map(share.days.map(({ day, errors }) => [day, errors]));
		return {
			label: share.name,
			colour: lineColours[index] ?? "dim",
			values: days.map(({ day }) => counts.get(day) ?? 0)
		};
	});
	const chartsOf = ({ days, models, tools }) => {
		const base = { days: days.map(({ day }) => day) };
		const values = (read) => days.map(read);
		const count = (value) => Number.isInteger(value) ? short(value) : "";
		const hasCost = days.some(({ cost }) => cost !== void 0);
		return [
			{
				...base,
				title: "Tokens",
				kind: "bars",
				value: short,
				series: [
					{
						label: "cache reads",
						colour: "user",
						values: values(({ tokens }) => tokens.cacheRead)
					},
					{
						label: "other prompt",
						colour: "llm",
						values: values(({ tokens }) => tokens.input + tokens.cacheWrite)
					},
					{
						label: "answers",
						colour: "tool",
						values: values(({ tokens }) => tokens.output)
					}
				]
			},
			...hasCost ? [{
				...base,
				title: "Cost",
				kind: "bars",
				value: (value) => dollars(value) || "$0",
				series: [{
					label: "cost",
					colour: "system",
					values: values(({ cost }) => cost ?? null)
				}]
			}] : [],
			{
				...base,
				title: "Latency of model calls",
				kind: "lines",
				value: (value) => duration(value) || "0",
				series: [
					{
						label: "p50",
						colour: "user",
						values: values(({ latency }) => latency?.p50 ?? null)
					},
					{
						label: "p90",
						colour: "system",
						values: values(({ latency }) => latency?.p90 ?? null)
					},
					{
						label: "p99",
						colour: "bad",
						values: values(({ latency }) => latency?.p99 ?? null)
					}
				]
			},
			{
				...base,
				title: "Cache hits",
				kind: "lines",
				value: (value) => \`\${Math.round(value)} %\`,
				series: [{
					label: "of the prompt",
					colour: "user",
					values: values(({ tokens }) => {
						const prompt = tokens.input + tokens.cacheRead + tokens.cacheWrite;
						return prompt === 0 ? null : tokens.cacheRead / prompt * 100;
					})
				}]
			},
			{
				...base,
				title: "Errors of models",
				kind: "bars",
				value: count,
				series: errorLines(days, models)
			},
			{
				...base,
				title: "Errors of tools",
				kind: "bars",
				value: count,
				series: errorLines(days, tools)
			}
		].filter(({ series }) => series.length > 0);
	};
	const shareColumns = (what) => [
		{
			head: what,
			cell: ({ name }) => name,
			left: true
		},
		{
			head: "Calls",
			cell: ({ calls }) => exact(calls)
		},
		{
			head: "Sessions",
			cell: ({ sessions }) => exact(sessions)
		},
		{
			head: "Errors",
			cell: ({ errors }) => errors === 0 ? "" : el("span", "bad", exact(errors))
		},
		{
			head: "Failed",
			cell: ({ calls, errors }) => errors === 0 ? "" : \`\${(errors / Math.max(1, calls) * 100).toFixed(1)} %\`
		},
		{
			head: "Tokens",
			cell: ({ tokens }) => tokenFlow(tokens)
		},
		{
			head: "Cached",
			cell: ({ tokens }) => cacheShare(tokens)
		},
		{
			head: "Cost",
			cell: (share) => costOf(share)
		},
		{
			head: "p50",
			cell: ({ latency }) => duration(latency?.p50 ?? 0)
		},
		{
			head: "p90",
			cell: ({ latency }) => duration(latency?.p90 ?? 0)
		},
		{
			head: "p99",
			cell: ({ latency }) => duration(latency?.p99 ?? 0)
		}
	];
	const failureColumns = [
		{
			head: "Error",
			cell: ({ reason }) => reason,
			left: true
		},
		{
			head: "Of",
			cell: ({ kind, name }) => \`\${kind} \${name}\`,
			left: true
		},
		{
			head: "Count",
			cell: ({ count }) => exact(count)
		},
		{
			head: "Latest",
			cell: ({ message, session }) => link(message ?? session, toSession(session)),
			left: true
		}
	];
	const weekdays = [
		"Sunday",
		"Monday",
		"Tuesday",
		"Wednesday",
		"Thursday",
		"Friday",
		"Saturday"
	];
	const byWeekday = ({ days }) => [
		1,
		2,
		3,
		4,
		5,
		6,
		0
	].map((number) => ({
		name: weekdays[number] ?? "",
		calls: days.reduce((sum, { day, modelCalls }) => new Date(\`\${day}T00:00:00Z\`).getUTCDay() === number ? sum + modelCalls : sum, 0)
	}));
	const peakHours = ({ hours }) => hours.map((calls, hour) => ({
		name: \`\${String(hour).padStart(2, "0")}:00\`,
		calls
	})).filter(({ calls }) => calls > 0).toSorted((a, b) => b.calls - a.calls).slice(0, 5);
	const callColumns = (what) => [{
		head: what,
		cell: ({ name }) => name,
		left: true
	}, {
		head: "Model calls",
		cell: ({ calls }) => exact(calls)
	}];
	const skillColumns = [
		{
			head: "Skill",
			cell: ({ name }) => name,
			left: true
		},
		{
			head: "Loads",
			cell: ({ loads }) => exact(loads)
		},
		{
			head: "Edits",
			cell: ({ edits }) => edits === 0 ? "" : exact(edits)
		},
		{
			head: "Last used",
			cell: ({ lastUsed }) => time(lastUsed)
		}
	];
	const notableColumns = [
		{
			head: "Notable session",
			cell: ({ name }) => name,
			left: true
		},
		{
			head: "Session",
			cell: ({ session }) => link(session.title ?? session.id, toSession(session.id)),
			left: true
		},
		{
			head: "Time",
			cell: ({ session }) => duration(session.duration)
		},
		{
			head: "Messages",
			cell: ({ session }) => exact(session.messages)
		},
		{
			head: "Tokens",
			cell: ({ session }) => short(session.tokens)
		},
		{
			head: "Tool calls",
			cell: ({ session }) => exact(session.toolCalls)
		}
	];
	const costNames = [
		["actual", "reported"],
		["estimated", "estimated"],
		["included", "part of a subscription"],
		["unknown", "unknown price"]
	];
	const costRows = ({ costs }) => costNames.flatMap(([key, name]) => costs[key].calls === 0 ? [] : [{
		name,
		...costs[key]
	}]);
	const costColumns = [
		{
			head: "Cost",
			cell: ({ name }) => name,
			left: true
		},
		{
			head: "Calls",
			cell: ({ calls }) => exact(calls)
		},
		{
			head: "Amount",
			cell: ({ cost }) => dollars(cost)
		}
	];
	const streak = (days) => days.reduce(({ best, last, now }, { day }) => {
		const at = Date.parse(day);
		const next = at - last === 864e5 ? now + 1 : 1;
		return {
			best: Math.max(best, next),
			last: at,
			now: next
		};
	}, {
		best: 0,
		last: 0,
		now: 0
	}).best;
	const filled = (name, rows, columns) => rows.length === 0 ? [] : [table(name, rows, columns)];
	const tables = (sums) => [
		...filled("Models", sums.models, shareColumns("Model")),
		...filled("Tools", sums.tools, shareColumns("Tool")),
		...filled("Skills", sums.skills.slice(0, 10), skillColumns),
		...filled("Agents", sums.agents, shareColumns("Agent")),
		...filled("Platforms", sums.sources.every(({ name }) => name === "cli") ? [] : sums.sources, shareColumns("Platform")),
		...filled("Cost", costRows(sums), costColumns),
		...filled("Failures", sums.failures, failureColumns),
		...filled("Notable sessions", sums.notable, notableColumns),
		...filled("Weekdays", sums.modelCalls === 0 ? [] : byWeekday(sums), callColumns("Weekday")),
		...filled("Busiest hours", peakHours(sums), callColumns("Hour"))
	];
	const insights = (filters) => {
		const aborter = new AbortController();
		const element = make("section", { class: "panel insights" }, notice("Adding up …"));
		let close = () => void 0;
		const load = async () => {
			const query = queryOf(route().parameters);
			for (const name of ["sort", "order"]) query.delete(name);
			const [sums, list] = await Promise.all([aggregates(query, aborter.signal), sessions(new URLSearchParams({ limit: "1" }), aborter.signal)]);
			filters.offer(list.known);
			const figures = make("div", { class: "tiles" }, ...figure(exact(sums.sessions), sums.sessions === 1 ? "session" : "sessions"), ...figure(exact(sums.runs), sums.runs === 1 ? "run" : "runs"), ...figure(sums.messages === 0 ? "" : exact(sums.messages), \`messages, \${exact(sums.userMessages)} of users\`), ...figure(sums.messages === 0 ? "" : (sums.messages / Math.max(1, sums.sessions)).toFixed(1), "messages in a session"), ...figure(duration(sums.active), "active time"), ...figure(duration(sums.active / Math.max(1, sums.sessions)), "of it in a session"), ...figure(sums.days.length === 0 ? "" : exact(sums.days.length), sums.days.length === 1 ? "active day" : \`active days, best streak \${streak(sums.days)}\`), ...figure(exact(sums.modelCalls), "model calls"), ...figure(exact(sums.toolCalls), "tool calls"), ...figure(exact(sums.errors), "errors", sums.errors > 0), ...figure(allTokens(sums.tokens) === 0 ? "" : tokenFlow(sums.tokens), "tokens"), ...figure(sums.cacheHit === void 0 ? "" : \`\${Math.round(sums.cacheHit * 100)} %\`, "cached"), ...figure(costOf(sums), "cost"), ...percentiles(sums.modelLatency, "model call"), ...percentiles(sums.firstPart, "first part of an answer"), ...percentiles(sums.toolLatency, "tool call"));
			if (sums.sessions === 0) return element.replaceChildren(el("p", "empty", "No session matches. Clear the search and the filters."));
			const drawn = charts(chartsOf(sums));
			close = drawn.close;
			element.replaceChildren(figures, drawn.element, ...tables(sums));
		};
		load().catch((error) => {
			if (!aborter.signal.aborted) element.replaceChildren(notice(messageOf(error), "bad"));
		});
		return {
			element,
			close: () => {
				aborter.abort();
				close();
			}
		};
	};
	function G() {
		return {
			async: !1,
			breaks: !1,
			extensions: null,
			gfm: !0,
			hooks: null,
			pedantic: !1,
			renderer: null,
			silent: !1,
			tokenizer: null,
			walkTokens: null
		};
	}
	var S = G();
	function ue(l) {
		S = l;
	}
	var q = { exec: () => null };
	function D(l) {
		let e = [];
		return (t) => {
			let n = Math.max(0, Math.min(3, t - 1)), r = e[n];
			return r || (r = l(n), e[n] = r), r;
		};
	}
	function g(l, e = "") {
		let t = typeof l == "string" ? l : l.source, n = {
			replace: (r, s) => {
				let o = typeof s == "string" ? s : s.source;
				return o = o.replace(O.caret, "$1"), t = t.replace(r, o), n;
			},
			getRegex: () => new RegExp(t, e)
		};
		return n;
	}
	var _e = ((l = "") => {
		try {
			return !!new RegExp("(?<=1)(?<!1)" + l);
		} catch {
			return !1;
		}
	})();
	var O = {
		codeRemoveIndent: /^(?: {0,3}\\t| {1,4})/gm,
		listInterruptsParagraph: /^ {0,3}(?:[*+-]|1[.)])[ \\t]+[^ \\t\\n]/,
		outputLinkReplace: /\\\\([\\[\\]])/g,
		indentCodeCompensation: /^(\\s+)(?:\`\`\`)/,
		beginningSpace: /^\\s+/,
		endingHash: /#$/,
		startingSpaceChar: /^ /,
		endingSpaceChar: / $/,
		endingSpaceTabChar: /[ \\t]$/,
		nonSpaceChar: /[^ ]/,
		newLineCharGlobal: /\\n/g,
		tabCharGlobal: /\\t/g,
		leadingSpaceTab: /^[ \\t]+/,
		multipleSpaceGlobal: /\\s+/g,
		blankLine: /^[ \\t]*$/,
		doubleBlankLine: /\\n[ \\t]*\\n[ \\t]*$/,
		blockquoteStart: /^ {0,3}>/,
		blockquoteSetextReplace: /\\n {0,3}((?:=+|-+)[ \\t]*)(?=\\n|$)/g,
		blockquoteSetextReplace2: /^ {0,3}>[ \\t]?/gm,
		blockquoteMarkerWhitespace: /^( {0,3}>)(\\t[ \\t]*)/gm,
		nestedBlockMarker: /^ {0,3}(?:(?:[*+-]|\\d{1,9}[.)])(?: |$)|> ?)/,
		listReplaceNesting: /^ {1,4}(?=( {4})*[^ ])/g,
		listIsTask: /^\\[[ xX]\\][ \\t]+\\S/,
		listReplaceTask: /^\\[[ xX]\\][ \\t]+/,
		listTaskCheckbox: /\\[[ xX]\\]/,
		anyLine: /\\n.*\\n/,
		hrefBrackets: /^<(.*)>$/,
		tableDelimiter: /[:|]/,
		tableAlignChars: /^\\||\\| *$/g,
		tableRowBlankLine: /\\n[ \\t]*$/,
		tableAlignRight: /^ *-+: *$/,
		tableAlignCenter: /^ *:-+: *$/,
		tableAlignLeft: /^ *:-+ *$/,
		startATag: /^<a /i,
		endATag: /^<\\/a>/i,
		startPreScriptTag: /^<(pre|code|kbd|script)(\\s|>)/i,
		endPreScriptTag: /^<\\/(pre|code|kbd|script)(\\s|>)/i,
		startAngleBracket: /^</,
		endAngleBracket: />$/,
		pedanticHrefTitle: /^([^'"]*[^\\s])\\s+(['"])(.*)\\2/,
		unicodeAlphaNumeric: /[\\p{L}\\p{N}]/u,
		numericCharacterReference: /&#(?:(\\d{1,7})|[Xx]([A-Fa-f0-9]{1,6}));/,
		numericCharacterReferenceOrAmpersand: /&#(?:(\\d{1,7})|[Xx]([A-Fa-f0-9]{1,6}));|&(?!(#\\d{1,7}|#[Xx][a-fA-F0-9]{1,6}|\\w+);)/g,
		escapeTest: /[&<>"']/,
		escapeReplace: /[&<>"']/g,
		escapeTestNoEncode: /[<>"']|&(?!(#\\d{1,7}|#[Xx][a-fA-F0-9]{1,6}|\\w+);)/,
		escapeReplaceNoEncode: /[<>"']|&(?!(#\\d{1,7}|#[Xx][a-fA-F0-9]{1,6}|\\w+);)/g,
		caret: /(^|[^\\[])\\^/g,
		percentDecode: /%25/g,
		findPipe: /\\|/g,
		splitPipe: / \\|/,
		slashPipe: /\\\\\\|/g,
		carriageReturn: /\\r\\n|\\r/g,
		spaceLine: /^ +$/gm,
		notSpaceStart: /^\\S*/,
		endingNewline: /\\n$/,
		listItemRegex: (l) => new RegExp(\`^( {0,3}\${l})((?:[	 ][^\\\\n]*)?(?:\\\\n|$))\`),
		nextBulletRegex: D((l) => new RegExp(\`^ {0,\${l}}(?:[*+-]|\\\\d{1,9}[.)])((?:[ 	][^\\\\n]*)?(?:\\\\n|$))\`)),
		hrRegex: D((l) => new RegExp(\`^ {0,\${l}}((?:-[ 	]*){3,}|(?:_[ 	]*){3,}|(?:\\\\*[ 	]*){3,})(?:\\\\n+|$)\`)),
		fencesBeginRegex: D((l) => new RegExp(\`^ {0,\${l}}(?:\\\`\\\`\\\`|~~~)\`)),
		headingBeginRegex: D((l) => new RegExp(\`^ {0,\${l}}#{1,6}(?:\\\\s|$)\`)),
		pedanticHeadingBeginRegex: D((l) => new RegExp(\`^ {0,\${l}}#\`)),
		htmlBeginRegex: D((l) => new RegExp(\`^ {0,\${l}}(?:</?(?:\${he})(?:[ \\\\t]+|$|/?>)|<(?:(?:script|pre|style|textarea)(?:[\\\\s>]|$)|!--)|<\\\\?|<![A-Za-z]|<!\\\\[CDATA\\\\[)\`, "i")),
		blockquoteBeginRegex: D((l) => new RegExp(\`^ {0,\${l}}>\`)),
		nestedContainerMarkers: /^(?: {0,3}(?:(?:[*+-]|\\d{1,9}[.)])[ \\t]+|>[ \\t]?))+/
	};
	var Ge = /^(?:[ \\t]*(?:\\n|$))+/;
	var Ne = /^((?: {4}| {0,3}\\t)[^\\n]+(?:\\n(?:[ \\t]*(?:\\n|$))*)?)+/;
	var Fe = /^ {0,3}(\`{3,}(?=[^\`\\n]*(?:\\n|$))|~{3,})([^\\n]*)(?:\\n|$)(?:|([\\s\\S]*?)(?:\\n|$))(?: {0,3}(?:(?=\`)\\1\`*|(?=~)\\1~*) *(?=\\n|$)|$)/;
	var V = /^ {0,3}((?:-[\\t ]*){3,}|(?:_[ \\t]*){3,}|(?:\\*[ \\t]*){3,})(?:\\n+|$)/;
	var Qe = /^ {0,3}(#{1,6})(?=\\s|$)(.*)(?:\\n+|$)/;
	var ce = / {0,3}(?:[*+-]|\\d{1,9}[.)])/;
	var he = "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|menuitem|meta|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul";
	var J = g(" {0,3}(?:</?(?:tag)(?:[ \\\\t]+|\\\\n|/?>)|<(?:(?:script|pre|style|textarea)(?:[\\\\s>]|$)|!--)|<\\\\?|<![A-Za-z]|<!\\\\[CDATA\\\\[)").replace("tag", he).getRegex();
	var $e = /^(?!bull |blockCode|fences|blockquote|heading|html|table)((?:.|\\n(?!\\s*?\\n|bull |fences|blockquote|heading|hr|html|table))+?)\\n {0,3}(=+|-+)[ \\t]*(?:\\n+|$)/;
	var Le = g($e).replace(/bull/g, ce).replace(/blockCode/g, /(?: {4}| {0,3}\\t)/).replace(/fences/g, / {0,3}(?:\`{3,}|~{3,})/).replace(/blockquote/g, / {0,3}>/).replace(/heading/g, / {0,3}#{1,6}(?:\\s|$)/).replace(/hr/g, / {0,3}(?:(?:-[\\t ]*){3,}|(?:_[ \\t]*){3,}|(?:\\*[ \\t]*){3,})(?:\\n+|$)/).replace(/\\|table/g, "").replace(/html/g, J).getRegex();
	var We = g($e).replace(/bull/g, ce).replace(/blockCode/g, /(?: {4}| {0,3}\\t)/).replace(/fences/g, / {0,3}(?:\`{3,}|~{3,})/).replace(/blockquote/g, / {0,3}>/).replace(/heading/g, / {0,3}#{1,6}(?:\\s|$)/).replace(/hr/g, / {0,3}(?:(?:-[\\t ]*){3,}|(?:_[ \\t]*){3,}|(?:\\*[ \\t]*){3,})(?:\\n+|$)/).replace(/table/g, / {0,3}\\|?(?:[:\\- ]*\\|)+[\\:\\- ]*\\n/).replace(/html/g, J).getRegex();
	var de = /^([^\\n]+(?:\\n(?!hr|heading|lheading|blockquote|fences|list|html|table|[ \\t]+\\n)[^\\n]+)*)/;
	var Ue = /^[^\\n]+/;
	var ge = /(?!\\s*\\])(?:\\\\[\\s\\S]|[^\\[\\]\\\\\\n]|\\n(?![ \\t]*\\n))+/;
	var Ke = g(/^ {0,3}\\[(label)\\]: *(?:\\n[ \\t]*)?([^<\\s][^\\s]*|<(?:\\\\.|[^\\n<>\\\\])*>)(?:(?: +(?:\\n[ \\t]*)?| *\\n[ \\t]*)(title))? *(?:\\n+|$)/).replace("label", ge).replace("title", /(?:"(?:\\\\[\\s\\S]|[^"\\\\])*"|'(?:\\\\[\\s\\S]|[^'\\\\\\n]|\\n(?!\\n))*'|\\((?:\\\\[\\s\\S]|[^()\\\\])*\\))/).getRegex();
	var Xe = g(/^(bull)([ \\t][^\\n]*?)?(?:\\n|$)/).replace(/bull/g, ce).getRegex();
	var ke = /<!--(?:-?>|[\\s\\S]*?(?:-->|$))/;
	var Ve = g("^ {0,3}(?:<(script|pre|style|textarea)[\\\\s>][\\\\s\\\\S]*?(?:</\\\\1>[^\\\\n]*\\\\n*|$)|comment[^\\\\n]*(\\\\n+|$)|<\\\\?[\\\\s\\\\S]*?(?:\\\\?>[^\\\\n]*\\\\n*|$)|<![A-Z][\\\\s\\\\S]*?(?:>[^\\\\n]*\\\\n*|$)|<!\\\\[CDATA\\\\[[\\\\s\\\\S]*?(?:\\\\]\\\\]>[^\\\\n]*\\\\n*|$)|</?(tag)(?:[ \\\\t]+|\\\\n|/?>|$)[\\\\s\\\\S]*?(?:(?:\\\\n[ 	]*)+\\\\n|$)|<(?!(?:script|pre|style|textarea)(?![a-z0-9-]))([a-z][a-z0-9-]*)(?:attribute)*?[ \\\\t]*/?>(?=[ \\\\t]*(?:\\\\n|$))[\\\\s\\\\S]*?(?:(?:\\\\n[ 	]*)+\\\\n|$)|</[a-z][a-z0-9-]*\\\\s*>(?=[ \\\\t]*(?:\\\\n|$))[\\\\s\\\\S]*?(?:(?:\\\\n[ 	]*)+\\\\n|$))", "i").replace("comment", ke).replace("tag", he).replace("attribute", /[ \\t]+[a-zA-Z:_][\\w.:-]*(?:[ \\t]*=[ \\t]*"[^"\\n]*"|[ \\t]*=[ \\t]*'[^'\\n]*'|[ \\t]*=[ \\t]*[^\\s"'=<>\`]+)?/).getRegex();
	var Ce = (l) => g(de).replace("hr", V).replace("heading", " {0,3}#{1,6}(?:\\\\s|$)").replace("|lheading", "").replace("|table", "").replace("blockquote", " {0,3}>").replace("fences", " {0,3}(?:\`{3,}(?=[^\`\\\\n]*(?:\\\\n|$))|~~~)[^\\\\n]*(?:\\\\n|$)").replace("list", l).replace("html", J).getRegex();
	var Je = Ce(/ {0,3}(?:[*+-]|1[.)])[ \\t]+[^ \\t\\n]/);
	var Ye = Ce(/ {0,3}(?:[*+-]|\\d{1,9}[.)])(?:[ \\t]|\\n|$)/);
	var fe = {
		blockquote: g(/^( {0,3}> ?(?:(?![ \\t]*(?:\\n|$))(paragraph)|[^\\n]*)(?:\\n|$))+/).replace("paragraph", Ye).getRegex(),
		code: Ne,
		def: Ke,
		fences: Fe,
		heading: Qe,
		hr: V,
		html: Ve,
		lheading: Le,
		list: Xe,
		newline: Ge,
		paragraph: Je,
		table: q,
		text: Ue
	};
	var Pe = g("^ *([^\\\\n ].*)\\\\n {0,3}((?:\\\\| *)?:?-+:? *(?:\\\\| *:?-+:? *)*(?:\\\\| *)?)(?:\\\\n((?:(?! *\\\\n|hr|heading|blockquote|code|fences|list|html).*(?:\\\\n|$))*)\\\\n*|$)").replace("hr", V).replace("heading", " {0,3}#{1,6}(?:\\\\s|$)").replace("blockquote", " {0,3}>").replace("code", "(?: {4}| {0,3}	)[^\\\\n]").replace("fences", " {0,3}(?:\`{3,}(?=[^\`\\\\n]*(?:\\\\n|$))|~~~)[^\\\\n]*(?:\\\\n|$)").replace("list", " {0,3}(?:[*+-]|1[.)])[ \\\\t]").replace("html", J).getRegex();
	var tt = {
		...fe,
		lheading: We,
		table: Pe,
		paragraph: g(de).replace("hr", V).replace("heading", " {0,3}#{1,6}(?:\\\\s|$)").replace("|lheading", "").replace("table", Pe).replace("blockquote", " {0,3}>").replace("fences", " {0,3}(?:\`{3,}(?=[^\`\\\\n]*(?:\\\\n|$))|~~~)[^\\\\n]*(?:\\\\n|$)").replace("list", " {0,3}(?:[*+-]|1[.)])[ \\\\t]+[^ \\\\t\\\\n]").replace("html", J).getRegex()
	};
	var nt = {
		...fe,
		html: g(\`^ *(?:comment(?: *\\\\n|\\\\s*$)|<(tag)[\\\\s\\\\S]+?</\\\\1>(?: *\\\\n{2,}|\\\\s*$)|<tag(?:"[^"]*"|'[^']*'|\\\\s[^'"/>\\\\s]*)*?/?>(?: *\\\\n{2,}|\\\\s*$))\`).replace("comment", ke).replace(/tag/g, "(?!(?:a|em|strong|small|s|cite|q|dfn|abbr|data|time|code|var|samp|kbd|sub|sup|i|b|u|mark|ruby|rt|rp|bdi|bdo|span|br|wbr|ins|del|img)\\\\b)\\\\w+(?!:|[^\\\\w\\\\s@]*@)\\\\b").getRegex(),
		def: /^ *\\[([^\\]]+)\\]: *<?([^\\s>]+)>?(?: +(["(][^\\n]+[")]))? *(?:\\n+|$)/,
		heading: /^(#{1,6})(.*)(?:\\n+|$)/,
		fences: q,
		lheading: /^(.+?)\\n {0,3}(=+|-+) *(?:\\n+|$)/,
		paragraph: g(de).replace("hr", V).replace("heading", \` *#{1,6} *[^
]\`).replace("|table", "").replace("blockquote", " {0,3}>").replace("|fences", "").replace("|list", "").replace("|html", "").replace("|tag", "").replace("lheading", Le).getRegex()
	};
	var rt = /^\\\\([!"#$%&'()*+,\\-./:;<=>?@\\[\\]\\\\^_\`{|}~])/;
	var st = /^(\`+)([^\`]|[^\`][\\s\\S]*?[^\`])\\1(?!\`)/;
	var Ie = /^( {2,}|\\\\)\\n(?!\\s*$)[ \\t]*/;
	var it = /^(\`+|[^\`])(?:(?= {2,}\\n)|[\\s\\S]*?(?:(?=[\\\\<!\\[\`*_]|\\b_|$)|[^ ](?= {2,}\\n)))/;
	var L = /[\\p{P}\\p{S}]/u;
	var N = /[\\s\\p{P}\\p{S}]/u;
	var Y = /[^\\s\\p{P}\\p{S}]/u;
	var ot = g(/^((?![*_])punctSpace)/, "u").replace(/punctSpace/g, N).getRegex();
	var at = /[\\p{Pi}\\p{Ps}"']/u;
	var Ae = /(?!~)[\\p{P}\\p{S}]/u;
	var lt = /(?!~)[\\s\\p{P}\\p{S}]/u;
	var ut = /(?:[^\\s\\p{P}\\p{S}]|~)/u;
	var pt = g(/link|precode-code|html/, "g").replace("link", /\\[(?:[^\\[\\]\`]|(?<a>\`+)[^\`]+\\k<a>(?!\`))*?\\]\\((?:\\\\[\\s\\S]|[^\\\\\\(\\)]|\\((?:\\\\[\\s\\S]|[^\\\\\\(\\)])*\\))*\\)/).replace("precode-", _e ? "(?<!\`)()" : "(^^|[^\`])").replace("code", /(?<b>\`+)[^\`]+\\k<b>(?!\`)/).replace("html", /<(?! )[^<>]*?>/).getRegex();
	var Ee = /^(?:\\*+(?:((?!\\*)punct)|([^\\s*]))?)|^_+(?:((?!_)punct)|([^\\s_]))?/;
	var ct = g(Ee, "u").replace(/punct/g, L).getRegex();
	var ht = g(Ee, "u").replace(/punct/g, Ae).getRegex();
	var gt = g(/^(?:\\*+(?:((?!\\*)(?!openQuote)punct)|([^\\s*]))?)|^_+(?:((?!_)(?!openQuote)punct)|([^\\s_]))?/, "u").replace(/openQuote/g, at).replace(/punct/g, L).getRegex();
	var ze = "^[^_*]*?__[^_*]*?\\\\*[^_*]*?(?=__)|[^*]+(?=[^*])|(?!\\\\*)punct(\\\\*+)(?=[\\\\s]|$)|notPunctSpace(\\\\*+)(?!\\\\*)(?=punctSpace|$)|(?!\\\\*)punctSpace(\\\\*+)(?=notPunctSpace)|[\\\\s](\\\\*+)(?!\\\\*)(?=punct)|(?!\\\\*)punct(\\\\*+)(?!\\\\*)(?=punct)|notPunctSpace(\\\\*+)(?=notPunctSpace)";
	var kt = g(ze, "gu").replace(/notPunctSpace/g, Y).replace(/punctSpace/g, N).replace(/punct/g, L).getRegex();
	var ft = g(ze, "gu").replace(/notPunctSpace/g, ut).replace(/punctSpace/g, lt).replace(/punct/g, Ae).getRegex();
	var xt = g("^[^_*]*?__[^_*]*?\\\\*[^_*]*?(?=__)|[^*]+(?=[^*])|(?!\\\\*)punct(\\\\*+)(?=[\\\\s]|$)|notPunctSpace(\\\\*+)(?!\\\\*)(?=punctSpace|$)|(?!\\\\*)[\\\\s](\\\\*+)(?=notPunctSpace)|[\\\\s](\\\\*+)(?!\\\\*)(?=punct)|(?!\\\\*)punct(\\\\*+)(?!\\\\*)(?=punct)|(?:(?!\\\\*)punct|notPunctSpace)(\\\\*+)(?!\\\\*)(?=notPunctSpace)", "gu").replace(/notPunctSpace/g, Y).replace(/punctSpace/g, N).replace(/punct/g, L).getRegex();
	var bt = g("^[^_*]*?\\\\*\\\\*[^_*]*?_[^_*]*?(?=\\\\*\\\\*)|[^_]+(?=[^_])|(?!_)punct(_+)(?=[\\\\s]|$)|notPunctSpace(_+)(?!_)(?=punctSpace|$)|(?!_)punctSpace(_+)(?=notPunctSpace)|[\\\\s](_+)(?!_)(?=punct)|(?!_)punct(_+)(?!_)(?=punct)", "gu").replace(/notPunctSpace/g, Y).replace(/punctSpace/g, N).replace(/punct/g, L).getRegex();
	var Tt = g("^[^_*]*?\\\\*\\\\*[^_*]*?_[^_*]*?(?=\\\\*\\\\*)|[^_]+(?=[^_])|(?!_)punct(_+)(?=[\\\\s]|$)|notPunctSpace(_+)(?!_)(?=punctSpace|$)|(?!_)[\\\\s](_+)(?=notPunctSpace)|[\\\\s](_+)(?!_)(?=punct)|(?!_)punct(_+)(?!_)(?=punct)|(?:(?!_)punct|notPunctSpace)(_+)(?!_)(?=notPunctSpace)", "gu").replace(/notPunctSpace/g, Y).replace(/punctSpace/g, N).replace(/punct/g, L).getRegex();
	var Ot = g(/^~~?(?:((?!~)punct)|[^\\s~])/, "u").replace(/punct/g, L).getRegex();
	var Pt = g("^[^~]+(?=[^~])|(?!~)punct(~~?)(?=[\\\\s]|$)|notPunctSpace(~~?)(?!~)(?=punctSpace|$)|(?!~)punctSpace(~~?)(?=notPunctSpace)|[\\\\s](~~?)(?!~)(?=punct)|(?!~)punct(~~?)(?!~)(?=punct)|notPunctSpace(~~?)(?=notPunctSpace)", "gu").replace(/notPunctSpace/g, Y).replace(/punctSpace/g, N).replace(/punct/g, L).getRegex();
	var yt = g(/\\\\(punct)/, "gu").replace(/punct/g, L).getRegex();
	var St = g(/(\`+)(?:[^\`]|[^\`][\\s\\S]*?[^\`])\\1(?!\`)|\`+|\\\\(punct)/, "gu").replace(/punct/g, L).getRegex();
	var _t = g(/^<(scheme:[^\\s\\x00-\\x1f<>]*|email)>/).replace("scheme", /[a-zA-Z][a-zA-Z0-9+.-]{1,31}/).replace("email", /[a-zA-Z0-9.!#$%&'*+/=?^_\`{|}~-]+(@)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)+(?![-_])/).getRegex();
	var $t = g(ke).replace("(?:-->|$)", "-->").getRegex();
	var Lt = g("^comment|^</[a-zA-Z][a-zA-Z0-9-]*\\\\s*>|^<[a-zA-Z][a-zA-Z0-9-]*(?:attribute)*?\\\\s*/?>|^<\\\\?[\\\\s\\\\S]*?\\\\?>|^<![a-zA-Z]+\\\\s[\\\\s\\\\S]*?>|^<!\\\\[CDATA\\\\[[\\\\s\\\\S]*?\\\\]\\\\]>").replace("comment", $t).replace("attribute", /\\s+[a-zA-Z:_][\\w.:-]*(?:\\s*=\\s*"[^"]*"|\\s*=\\s*'[^']*'|\\s*=\\s*[^\\s"'=<>\`]+)?/).getRegex();
	var Me = /\\[(?:\\\\[\\s\\S]|[^\\[\\]\\\\])*\\]/;
	var ie = g(/(?:\\[(?:brackets|\\\\[\\s\\S]|[^\\[\\]\\\\])*\\]|\\\\[\\s\\S]|\`+(?!\`)[^\`]*?\`+(?!\`)|\`\`+(?=\\])|[^\\[\\]\\\\\`])*?/).replace("brackets", Me).getRegex();
	var Ct = g(/^!?\\[(label)\\]\\([ \\t\\n]*(href)(?:(?:[ \\t]+(?:\\n[ \\t]*)?|\\n[ \\t]*)(title))?[ \\t\\n]*\\)/).replace("label", ie).replace("href", /<(?:\\\\.|[^\\n<>\\\\])*>|(?!<)[^ \\t\\n\\x00-\\x1f]+|(?=\\))/).replace("title", /"(?:\\\\[\\s\\S]|[^"\\\\])*"|'(?:\\\\[\\s\\S]|[^'\\\\])*'|\\((?:\\\\[\\s\\S]|[^)\\\\])*\\)/).getRegex();
	var It = g(/^!?\\[(label)\\]\\[(ref)\\]/).replace("label", ie).replace("ref", ge).getRegex();
	var At = g(/^!?\\[(ref)\\](?:\\[\\])?/).replace("ref", ge).getRegex();
	var ye = /(?!\\s*\\])(?:\\\\[\\s\\S]|[^\\[\\]\\\\]){1,999}/;
	var Et = g(/(?:[^\\[\\]\\\\\`]*(?:\\[(?:brackets|\\\\[\\s\\S]|[^\\[\\]\\\\])*\\]|\\\\[\\s\\S]|\`+(?!\`)[^\`]*?\`+(?!\`)|\`\`+(?=\\]))){0,999}?[^\\[\\]\\\\\`]*?/).replace("brackets", Me).getRegex();
	var zt = g("reflink|nolink(?!\\\\()", "g").replace("reflink", g(/^!?\\[(label)\\]\\[(ref)\\]/).replace("label", Et).replace("ref", ye).getRegex()).replace("nolink", g(/^!?\\[(ref)\\](?:\\[\\])?/).replace("ref", ye).getRegex()).getRegex();
	var Se = /[hH][tT][tT][pP][sS]?|[fF][tT][pP]/;
	var Bt = g(/(?:mailto:email|xmpp:email(?:\\/[A-Za-z0-9@.]+)?)/).replace(/email/g, /[A-Za-z0-9._+-]+@[a-zA-Z0-9-_]+(?:\\.[a-zA-Z0-9-_]*[a-zA-Z0-9])+(?![\\w-])/).getRegex();
	var me = {
		_backpedal: q,
		anyPunctuation: yt,
		anyPunctuationOutsideCode: St,
		autolink: _t,
		blockSkip: pt,
		br: Ie,
		code: st,
		del: q,
		delLDelim: q,
		delRDelim: q,
		emStrongLDelim: ct,
		emStrongRDelimAst: kt,
		emStrongRDelimUnd: bt,
		escape: rt,
		link: Ct,
		nolink: At,
		punctuation: ot,
		reflink: It,
		reflinkSearch: zt,
		tag: Lt,
		text: it,
		url: q
	};
	var Dt = {
		...me,
		emStrongLDelim: gt,
		emStrongRDelimAst: xt,
		emStrongRDelimUnd: Tt,
		link: g(/^!?\\[(label)\\]\\((.*?)\\)/).replace("label", ie).getRegex(),
		reflink: g(/^!?\\[(label)\\]\\s*\\[([^\\]]*)\\]/).replace("label", ie).getRegex()
	};
	var pe = {
		...me,
		emStrongRDelimAst: ft,
		emStrongLDelim: ht,
		delLDelim: Ot,
		delRDelim: Pt,
		url: g(/^emailProtocol|^((?:protocol):\\/\\/|www\\.)(?:[a-zA-Z0-9\\-]+\\.?)+[^\\s<]*|^email/).replace("emailProtocol", Bt).replace("protocol", Se).replace("email", /[A-Za-z0-9._+-]+(@)[a-zA-Z0-9-_]+(?:\\.[a-zA-Z0-9-_]*[a-zA-Z0-9])+(?![\\w-])/).getRegex(),
		_backpedal: /(?:[^?!.,:;*_'"~()&]+|\\([^)]*\\)|&(?![a-zA-Z0-9]+;$)|[?!.,:;*_'"~)]+(?!$))+/,
		del: /^(~~?)(?=[^\\s~])((?:\\\\[\\s\\S]|[^\\\\])*?(?:\\\\[\\s\\S]|[^\\s~\\\\]))\\1(?=[^~]|$)/,
		text: g(/^(?:[^a-zA-Z0-9](?=emailProtocol)|(\`+|~+|[^\`~])(?:(?=[\`~])|(?= {2,}\\n)|(?=[a-zA-Z0-9.!#$%&'*+\\/=?_\`{\\|}~-]+@)|[\\s\\S]*?(?:(?=[\\\\<!\\[\`*~_]|\\b_|protocol:\\/\\/|wwwStart|$)|[^ ](?= {2,}\\n)|[^a-zA-Z0-9](?=emailProtocol)|[^a-zA-Z0-9.!#$%&'*+\\/=?_\`{\\|}~-](?=[a-zA-Z0-9.!#$%&'*+\\/=?_\`{\\|}~-]+@))))/).replace("protocol", Se).replace(/emailProtocol/g, /(?:mailto|xmpp):/).replace("wwwStart", _e ? "(?<![^\\\\s*_~(])www\\\\." : "www\\\\.").getRegex()
	};
	var qt = {
		...pe,
		br: g(Ie).replace("{2,}", "*").getRegex(),
		text: g(pe.text).replace("\\\\b_", "\\\\b_| {2,}\\\\n").replace(/\\{2,\\}/g, "*").getRegex()
	};
	var ee = {
		normal: fe,
		gfm: tt,
		pedantic: nt
	};
	var F = {
		normal: me,
		gfm: pe,
		breaks: qt,
		pedantic: Dt
	};
	var vt = {
		"&": "&amp;",
		"<": "&lt;",
		">": "&gt;",
		"\\"": "&quot;",
		"'": "&#39;"
	};
	var Be = (l) => vt[l];
	function y(l, e) {
		if (e) {
			if (O.escapeTest.test(l)) return l.replace(O.escapeReplace, Be);
		} else if (O.escapeTestNoEncode.test(l)) return l.replace(O.escapeReplaceNoEncode, Be);
		return l;
	}
	function De(l) {
		return O.numericCharacterReference.test(l) ? l.replace(O.numericCharacterReferenceOrAmpersand, (e, t, n) => {
			if (t === void 0 && n === void 0) return "&amp;";
			let r = t === void 0 ? Number.parseInt(n, 16) : Number.parseInt(t, 10);
			return r === 0 || r > 1114111 || r >= 55296 && r <= 57343 ? "�" : r === 38 ? "&amp;" : String.fromCodePoint(r);
		}) : l;
	}
	function xe(l) {
		try {
			l = encodeURI(l).replace(O.percentDecode, "%");
		} catch {
			return null;
		}
		return l;
	}
	function be(l, e) {
		let n = l.replace(O.findPipe, (s, o, i) => {
			let a = !1, c = o;
			for (; --c >= 0 && i[c] === "\\\\";) a = !a;
			return a ? "|" : " |";
		}).split(O.splitPipe), r = 0;
		if (n[0].trim() || n.shift(), n.length > 0 && !n.at(-1)?.trim() && n.pop(), e) if (n.length > e) n.splice(e);
		else for (; n.length < e;) n.push("");
		for (; r < n.length; r++) n[r] = n[r].trim().replace(O.slashPipe, "|");
		return n;
	}
	function C(l, e, t) {
		let n = l.length;
		if (n === 0) return "";
		let r = 0;
		for (; r < n;) {
			let s = l.charAt(n - r - 1);
			if (s === e && !t) r++;
			else if (s !== e && t) r++;
			else break;
		}
		return l.slice(0, n - r);
	}
	function Re(l) {
		let e = l.split(\`
\`), t = e.length - 1;
		for (; t >= 0 && O.blankLine.test(e[t]);) t--;
		return e.length - t <= 2 ? l : e.slice(0, t + 1).join(\`
\`);
	}
	function W(l) {
		return l.trim().replace(O.multipleSpaceGlobal, " ").toLowerCase().toUpperCase().toLowerCase();
	}
	function Te(l, e) {
		if (l.indexOf(e[0]) === -1 && l.indexOf(e[1]) === -1) return -1;
		let t = 0;
		for (let n = 0; n < l.length; n++) if (l[n] === "\\\\") n++;
		else if (l[n] === e[0]) t++;
		else if (l[n] === e[1] && (t--, t < 0)) return n;
		return t > 0 ? -2 : -1;
	}
	var Q = new WeakMap();
	function Oe(l) {
		let e = {
			"*": -1,
			_: -1
		}, t = -1, n = l.length;
		for (let r = 0; r < n; r++) {
			let s = l[r];
			if (s !== "*" && s !== "_" && s !== "~") continue;
			let o = r === 0 ? \`
\` : l[r - 1], i = r + 1;
			for (; i < n && l[i] === s;) i++;
			o !== " " && o !== "	" && o !== \`
\` && o !== "\\r" && o !== "\\f" && (s === "~" ? t = r : e[s] = r), r = i - 1;
		}
		return {
			maskedSrc: l,
			lastPossibleEmStrongCloserIndex: e,
			lastPossibleDelCloserIndex: t
		};
	}
	function qe(l, e) {
		let t = Oe(e), n = Q.get(l);
		n ? n.push(t) : Q.set(l, [t]);
	}
	function ve(l) {
		let e = Q.get(l);
		e && (e.pop(), e.length === 0 && Q.delete(l));
	}
	function oe(l, e, t) {
		let n = Q.get(l)?.at(-1);
		return n && n.maskedSrc === e ? n.lastPossibleEmStrongCloserIndex[t] : Oe(e).lastPossibleEmStrongCloserIndex[t];
	}
	function ae(l, e) {
		let t = Q.get(l)?.at(-1);
		return t && t.maskedSrc === e ? t.lastPossibleDelCloserIndex : Oe(e).lastPossibleDelCloserIndex;
	}
	function te(l, e = 0) {
		let t = e, n = "";
		for (let r of l) if (r === "	") {
			let s = 4 - t % 4;
			n += " ".repeat(s), t += s;
		} else n += r, t++;
		return n;
	}
	function Ht(l, e) {
		let t = "";
		for (let n = 0; n < l.length; n++) {
			if (l[n] === "\`") {
				let r = e.inline.code.exec(l.slice(n));
				if (r) {
					t += r[0], n += r[0].length - 1;
					continue;
				}
			}
			if (l[n] === "\\\\" && (l[n + 1] === "[" || l[n + 1] === "]")) {
				t += l[n + 1], n++;
				continue;
			}
			t += l[n];
		}
		return t;
	}
	function He(l, e, t, n, r) {
		let s = e.href, o = e.title || null, i = Ht(l[1], r), a = l[0].charAt(0) === "!", c = n.state.inLink, u = n.state.linkEmitted, d = n.state.inRawBlock;
		n.state.inLink = !0, n.state.linkEmitted = !1;
		let h = n.inlineTokens(i), p = n.state.linkEmitted;
		if (n.state.linkEmitted = u, n.state.inLink = c, !a) {
			if (p) {
				n.state.inRawBlock = d;
				return;
			}
			n.state.linkEmitted = !0;
		}
		return {
			type: a ? "image" : "link",
			raw: t,
			href: s,
			title: o,
			text: i,
			tokens: h
		};
	}
	function Zt(l, e, t) {
		let n = l.match(t.other.indentCodeCompensation);
		if (n === null) return e;
		let r = n[1];
		return e.split(\`
\`).map((s) => {
			let o = s.match(t.other.beginningSpace);
			if (o === null) return s;
			let [i] = o;
			return s.slice(Math.min(i.length, r.length));
		}).join(\`
\`);
	}
	function Ze(l, e, t, n) {
		if (!e.includes("<")) return !1;
		for (let r = 0; r < e.length; r++) {
			if (e[r] === "\\\\") {
				r++;
				continue;
			}
			if (e[r] === "\`") {
				let i = n.inline.code.exec(e.slice(r));
				if (i) {
					r += i[0].length - 1;
					continue;
				}
			}
			if (e[r] !== "<") continue;
			let s = l.slice(t + r), o = n.inline.tag.exec(s) || n.inline.autolink.exec(s);
			if (o) {
				if (o[0].length > e.length - r) return !0;
				r += o[0].length - 1;
			}
		}
		return !1;
	}
	var _ = class {
		options;
		rules;
		lexer;
		constructor(e) {
			this.options = e || S;
		}
		space(e) {
			let t = this.rules.block.newline.exec(e);
			if (t && t[0].length > 0) return {
				type: "space",
				raw: t[0]
			};
		}
		code(e) {
			let t = this.rules.block.code.exec(e);
			if (t) {
				let n = this.options.pedantic ? t[0] : Re(t[0]);
				return {
					type: "code",
					raw: n,
					codeBlockStyle: "indented",
					text: n.replace(this.rules.other.codeRemoveIndent, "")
				};
			}
		}
		fences(e) {
			let t = this.rules.block.fences.exec(e);
			if (t) {
				let n = t[0], r = Zt(n, t[3] || "", this.rules);
				return t[3] !== void 0 && (r === "" || r.endsWith(\`
\`)) && (r += \`
\`), {
					type: "code",
					raw: n,
					lang: t[2] ? t[2].trim().replace(this.rules.inline.anyPunctuation, "$1") : t[2],
					text: r
				};
			}
		}
		heading(e) {
			let t = this.rules.block.heading.exec(e);
			if (t) {
				let n = t[2].trim();
				if (this.rules.other.endingHash.test(n)) {
					let r = C(n, "#");
					(this.options.pedantic || !r || this.rules.other.endingSpaceTabChar.test(r)) && (n = r.trim());
				}
				return {
					type: "heading",
					raw: C(t[0], \`
\`),
					depth: t[1].length,
					text: n,
					tokens: this.lexer.inline(n)
				};
			}
		}
		hr(e) {
			let t = this.rules.block.hr.exec(e);
			if (t) return {
				type: "hr",
				raw: C(t[0], \`
\`)
			};
		}
		blockquote(e) {
			let t = this.rules.block.blockquote.exec(e);
			if (t) {
				let n = C(t[0], \`
\`).split(\`
\`), r = "", s = "", o = [];
				for (; n.length > 0;) {
					let i = !1, a = [], c = 0;
					for (; c < n.length; c++) if (this.rules.other.blockquoteStart.test(n[c])) a.push(n[c]), i = !0;
					else if (!i) a.push(n[c]);
					else break;
					n = n.slice(c);
					let u = a.join(\`
\`), d = u.replace(this.rules.other.blockquoteMarkerWhitespace, (k, m, b) => b.startsWith(" ") ? m + " " + b.slice(1) : m + te(b, m.length)).replace(this.rules.other.blockquoteSetextReplace, \`
    $1\`).replace(this.rules.other.blockquoteSetextReplace2, "");
					r = r ? \`\${r}
\${u}\` : u, s = s ? \`\${s}
\${d}\` : d;
					let h = this.lexer.state.top;
					if (this.lexer.state.top = !0, this.lexer.blockTokens(d, o, !0), this.lexer.state.top = h, n.length === 0) break;
					let p = o.at(-1);
					if (p?.type === "code" || p?.type === "heading" || p?.type === "hr" || p?.type === "html" || p?.type === "table") break;
					if (p?.type === "blockquote") {
						let k = p, m = n.join(\`
\`), b = k.raw + \`
\` + m.replace(this.rules.other.blockquoteSetextReplace2, ""), f = this.blockquote(b);
						o[o.length - 1] = f;
						let R = b.substring(f.raw.length).replace(/^\\n/, ""), E = R ? R.split(\`
\`).length : 0, T = E ? n.slice(0, -E) : n;
						if (T.length > 0 && (r = \`\${r}
\${T.join(\`
\`)}\`), s = s.substring(0, s.length - k.text.length) + f.text, n = n.slice(T.length), n.length > 0 && this.rules.other.blockquoteStart.test(n[0])) continue;
						break;
					} else if (p?.type === "list") {
						let k = p, m = k.raw + \`
\` + n.join(\`
\`), b = this.list(m);
						o[o.length - 1] = b;
						let f = b.raw.length > k.raw.length ? m.slice(k.raw.length + 1, b.raw.length).split(\`
\`).length : 0;
						if (f > 0) {
							let R = n.slice(0, f).join(\`
\`);
							r = \`\${r}
\${R}\`, s = \`\${s}
\${R}\`;
						}
						if (n = n.slice(f), n.length > 0 && !this.rules.other.blockquoteStart.test(n[0])) break;
						continue;
					}
				}
				return {
					type: "blockquote",
					raw: r,
					tokens: o,
					text: s
				};
			}
		}
		list(e) {
			let t = this.rules.block.list.exec(e);
			if (t) {
				if (!this.options.pedantic && this.lexer.state.lastToken?.type === "text" && !this.rules.other.listInterruptsParagraph.test(e)) return;
				let n = e, r = () => n.length - e.length, s = t[1].trim(), o = s.length > 1, i = {
					type: "list",
					raw: "",
					ordered: o,
					start: o ? +s.slice(0, -1) : "",
					loose: !1,
					items: []
				};
				s = o ? \`\\\\d{1,9}\\\\\${s.slice(-1)}\` : \`\\\\\${s}\`, this.options.pedantic && (s = o ? s : "[*+-]");
				let a = this.rules.other.listItemRegex(s), c = !1;
				for (; e;) {
					let h = !1, p = "";
					if (!(t = a.exec(e)) || this.rules.block.hr.test(e)) break;
					let k = r();
					e = e.substring(t[0].length);
					let m = t[2].split(\`
\`, 1)[0], b = t[1].length, f = this.options.pedantic ? te(m, b) : m.replace(this.rules.other.leadingSpaceTab, (H) => te(H, b)), R = e.split(\`
\`, 1)[0], E = !f.trim(), T = 0;
					if (this.options.pedantic ? (T = 2, p = f.trimStart()) : E ? T = b + 1 : (T = f.search(this.rules.other.nonSpaceChar), T = T > 4 ? 1 : T, p = f.slice(T), T += b), E && this.rules.other.blankLine.test(R) && (e = e.substring(R.length + 1), h = !0), !h) {
						let H = this.rules.other.nextBulletRegex(T), K = this.rules.other.hrRegex(T), re = this.rules.other.fencesBeginRegex(T), B = this.options.pedantic ? this.rules.other.pedanticHeadingBeginRegex(T) : this.rules.other.headingBeginRegex(T), X = this.rules.other.htmlBeginRegex(T), se = this.rules.other.blockquoteBeginRegex(T), le = !1;
						for (; e;) {
							let we = e.split(\`
\`, 1)[0], Z;
							if (R = we, this.options.pedantic ? (R = R.replace(this.rules.other.listReplaceNesting, "  "), Z = R) : Z = R.replace(this.rules.other.leadingSpaceTab, ($) => te($)), re.test(R) || B.test(R) || X.test(R) || se.test(R) || H.test(R) || K.test(R)) break;
							if (Z.search(this.rules.other.nonSpaceChar) >= T || !R.trim()) p += \`
\` + Z.slice(T), le = !1;
							else {
								if (E) break;
								let $ = f;
								if (!this.options.pedantic && !p.includes(\`
\`) && !f.includes("	")) {
									let j;
									for (; !K.test($) && (j = this.rules.other.nestedBlockMarker.exec($));) $ = $.slice(j[0].length);
									if (!$.trim()) break;
								}
								if ($.replace(this.rules.other.tabCharGlobal, "    ").search(this.rules.other.nonSpaceChar) >= 4 || re.test($) || B.test($) || X.test($) || K.test($)) break;
								if (!this.options.pedantic && !le) {
									let j = f.replace(this.rules.other.nestedContainerMarkers, "");
									if (this.rules.block.fences.test(j) || this.rules.block.heading.test(j) || this.rules.block.hr.test(j)) break;
								}
								let je = !this.options.pedantic && /^ {0,3}(?:=+|-+) *$/.test(R) && this.rules.block.lheading.test(\`\${f}
\${R}\`) ? \`    \${Z.replace(/^ {0,3}/, "")}\` : R;
								p += \`
\` + je, le = !0;
							}
							E = !R.trim(), e = e.substring(we.length + 1), f = Z.slice(T);
						}
					}
					let U = n.slice(k, r());
					i.loose || (c ? i.loose = !0 : this.rules.other.doubleBlankLine.test(U) && (c = !0)), i.items.push({
						type: "list_item",
						raw: U,
						task: !!this.options.gfm && this.rules.other.listIsTask.test(p),
						loose: !1,
						text: p,
						tokens: []
					});
				}
				let u = i.items.at(-1);
				if (u) u.raw = u.raw.trimEnd(), u.text = u.text.trimEnd();
				else return;
				i.raw = n.slice(0, r()).trimEnd();
				let d = [];
				for (let h of i.items) if (this.lexer.state.top = !1, d.push(this.lexer.inlineQueue.length), h.tokens = this.lexer.blockTokens(h.text, []), !i.loose) {
					let p = h.tokens.filter((m) => m.type === "space");
					i.loose = p.length > 0 && p.some((m) => this.rules.other.anyLine.test(m.raw));
				}
				for (let h = 0; h < i.items.length; h++) {
					let p = i.items[h], k = p.tokens[0];
					if (p.task && (k?.type === "text" || k?.type === "paragraph")) {
						p.text = p.text.replace(this.rules.other.listReplaceTask, ""), k.raw = k.raw.replace(this.rules.other.listReplaceTask, ""), k.text = k.text.replace(this.rules.other.listReplaceTask, "");
						let m = this.lexer.inlineQueue;
						for (let f = d[h]; f < m.length; f++) if (m[f].tokens === k.tokens) {
							m[f].src = m[f].src.replace(this.rules.other.listReplaceTask, "");
							break;
						}
						let b = this.rules.other.listTaskCheckbox.exec(p.raw);
						if (b) {
							let f = {
								type: "checkbox",
								raw: b[0] + " ",
								checked: b[0] !== "[ ]"
							};
							p.checked = f.checked, i.loose ? p.tokens[0] && ["paragraph", "text"].includes(p.tokens[0].type) && "tokens" in p.tokens[0] && p.tokens[0].tokens ? (p.tokens[0].raw = f.raw + p.tokens[0].raw, p.tokens[0].text = f.raw + p.tokens[0].text, p.tokens[0].tokens.unshift(f)) : p.tokens.unshift({
								type: "paragraph",
								raw: f.raw,
								text: f.raw,
								tokens: [f]
							}) : p.tokens.unshift(f);
						}
					} else p.task && (p.task = !1);
				}
				if (i.loose) for (let h of i.items) {
					h.loose = !0;
					for (let p of h.tokens) p.type === "text" && (p.type = "paragraph");
				}
				return i;
			}
		}
		html(e) {
			let t = this.rules.block.html.exec(e);
			if (t) {
				if (this.lexer.state.lastToken?.type === "paragraph" && !this.rules.other.htmlBeginRegex(4).test(e)) return;
				let n = Re(t[0]);
				return {
					type: "html",
					block: !0,
					raw: n,
					pre: t[1] === "pre" || t[1] === "script" || t[1] === "style",
					text: n
				};
			}
		}
		def(e) {
			let t = this.rules.block.def.exec(e);
			if (t) {
				if (!this.rules.other.startAngleBracket.test(t[2]) && Te(t[2], "()") !== -1) return;
				let n = W(t[1]), r = t[2] ? t[2].replace(this.rules.other.hrefBrackets, "$1").replace(this.rules.inline.anyPunctuation, "$1") : "", s = t[3] ? t[3].substring(1, t[3].length - 1).replace(this.rules.inline.anyPunctuation, "$1") : t[3];
				return {
					type: "def",
					tag: n,
					raw: C(t[0], \`
\`),
					href: r,
					title: s
				};
			}
		}
		table(e) {
			let t = this.rules.block.table.exec(e);
			if (!t || !this.rules.other.tableDelimiter.test(t[2])) return;
			let n = be(t[1]), r = t[2].replace(this.rules.other.tableAlignChars, "").split("|"), s = t[3]?.trim() ? t[3].replace(this.rules.other.tableRowBlankLine, "").split(\`
\`) : [], o = {
				type: "table",
				raw: C(t[0], \`
\`),
				header: [],
				align: [],
				rows: []
			};
			if (n.length === r.length) {
				for (let i of r) this.rules.other.tableAlignRight.test(i) ? o.align.push("right") : this.rules.other.tableAlignCenter.test(i) ? o.align.push("center") : this.rules.other.tableAlignLeft.test(i) ? o.align.push("left") : o.align.push(null);
				for (let i = 0; i < n.length; i++) o.header.push({
					text: n[i],
					tokens: this.lexer.inline(n[i]),
					header: !0,
					align: o.align[i]
				});
				for (let i of s) o.rows.push(be(i, o.header.length).map((a, c) => ({
					text: a,
					tokens: this.lexer.inline(a),
					header: !1,
					align: o.align[c]
				})));
				return o;
			}
		}
		lheading(e) {
			let t = this.rules.block.lheading.exec(e);
			if (t) {
				let n = t[1].trim();
				return {
					type: "heading",
					raw: C(t[0], \`
\`),
					depth: t[2].charAt(0) === "=" ? 1 : 2,
					text: n,
					tokens: this.lexer.inline(n)
				};
			}
		}
		paragraph(e) {
			let t = this.rules.block.paragraph.exec(e);
			if (t) {
				let n = t[1].charAt(t[1].length - 1) === \`
\` ? t[1].slice(0, -1) : t[1];
				return {
					type: "paragraph",
					raw: t[0],
					text: n,
					tokens: this.lexer.inline(n)
				};
			}
		}
		text(e) {
			let t = this.rules.block.text.exec(e);
			if (t) return {
				type: "text",
				raw: t[0],
				text: t[0],
				tokens: this.lexer.inline(t[0])
			};
		}
		escape(e) {
			if (e.charCodeAt(0) !== 92) return;
			let t = this.rules.inline.escape.exec(e);
			if (t) return {
				type: "escape",
				raw: t[0],
				text: t[1]
			};
		}
		tag(e) {
			if (e.charCodeAt(0) !== 60) return;
			let t = this.rules.inline.tag.exec(e);
			if (t) return !this.lexer.state.inLink && this.rules.other.startATag.test(t[0]) ? this.lexer.state.inLink = !0 : this.lexer.state.inLink && this.rules.other.endATag.test(t[0]) && (this.lexer.state.inLink = !1), !this.lexer.state.inRawBlock && this.rules.other.startPreScriptTag.test(t[0]) ? this.lexer.state.inRawBlock = !0 : this.lexer.state.inRawBlock && this.rules.other.endPreScriptTag.test(t[0]) && (this.lexer.state.inRawBlock = !1), {
				type: "html",
				raw: t[0],
				inLink: this.lexer.state.inLink,
				inRawBlock: this.lexer.state.inRawBlock,
				block: !1,
				text: t[0]
			};
		}
		link(e) {
			if (this.lexer.state.linkParenPossible === !1) return;
			let t = e.charCodeAt(0);
			if (t !== 91 && t !== 33) return;
			let n = this.rules.inline.link.exec(e);
			if (n) {
				let r = n[0].charAt(0) === "!" ? 2 : 1;
				if (!this.options.pedantic && Ze(e, n[1], r, this.rules)) return;
				let s = n[2].trim();
				if (!this.options.pedantic && this.rules.other.startAngleBracket.test(s)) {
					if (!this.rules.other.endAngleBracket.test(s)) return;
					let c = C(s.slice(0, -1), "\\\\");
					if ((s.length - c.length) % 2 === 0) return;
				} else {
					let c = Te(n[2], "()");
					if (c === -2) return;
					if (c > -1) {
						let d = (n[0].indexOf("!") === 0 ? 5 : 4) + n[1].length + c;
						n[2] = n[2].substring(0, c), n[0] = n[0].substring(0, d).trim(), n[3] = "";
					}
				}
				let o = C(n[0].slice(0, -1), "\\\\");
				if ((n[0].length - o.length) % 2 === 0) return;
				let i = n[2], a = "";
				if (this.options.pedantic) {
					let c = this.rules.other.pedanticHrefTitle.exec(i);
					c && (i = c[1], a = c[3]);
				} else a = n[3] ? n[3].slice(1, -1) : "";
				return i = i.trim(), this.rules.other.startAngleBracket.test(i) && (this.options.pedantic && !this.rules.other.endAngleBracket.test(s) ? i = i.slice(1) : i = i.slice(1, -1)), He(n, {
					href: i && i.replace(this.rules.inline.anyPunctuation, "$1"),
					title: a && a.replace(this.rules.inline.anyPunctuation, "$1")
				}, n[0], this.lexer, this.rules);
			}
		}
		reflink(e, t) {
			let n = e.charCodeAt(0);
			if (n !== 91 && n !== 33) return;
			let r;
			if ((r = this.rules.inline.reflink.exec(e)) || (r = this.rules.inline.nolink.exec(e))) {
				let s = r[0].charAt(0) === "!" ? 2 : 1;
				if (!this.options.pedantic && Ze(e, r[1], s, this.rules)) return;
				let o = t[W(r[2] || r[1])];
				if (!o) {
					let i = r[0].charAt(0);
					return {
						type: "text",
						raw: i,
						text: i
					};
				}
				return He(r, o, r[0], this.lexer, this.rules);
			}
		}
		emStrong(e, t, n = "") {
			let r = this.rules.inline.emStrongLDelim.exec(e);
			if (!r || !r[1] && !r[2] && !r[3] && !r[4]) return;
			let s = r[0][0], o = n === s, i = t.length - e.length, a = i;
			for (; !this.options.pedantic && a > 0 && t[a - 1] === s;) a--;
			let c = [...t.slice(Math.max(0, a - 2), a)].at(-1) ?? "", u = c === "*" || c === "_" || !!this.rules.inline.punctuation.exec(c);
			a < i && (n = c);
			let d = a < i ? u : n === "*" || n === "_" || !!this.rules.inline.punctuation.exec(n);
			if (r[4] && n.match(this.rules.other.unicodeAlphaNumeric)) return;
			let h = r[1] || r[3] || "";
			if (!h || !n || d) {
				let p = [...r[0]].length - 1, k, m, b = p, f = 0, R = i - a + p, E = !this.options.pedantic && !!c.trim() && (!!h || s === "*" && !u);
				if (s !== "*" && s !== "_") return;
				let T = s === "*" ? this.rules.inline.emStrongRDelimAst : this.rules.inline.emStrongRDelimUnd, U = oe(this, t, s), H = t.length - e.length + p;
				if (U < H) return;
				t = t.slice(-1 * e.length + p);
				let K = U - H;
				for (T.lastIndex = 0; (r = T.exec(t)) !== null && !(r.index > K);) {
					if (k = r[1] || r[2] || r[3] || r[4] || r[5] || r[6], !k) continue;
					if (m = [...k].length, r[3] || r[4]) {
						b += m;
						continue;
					} else if ((r[5] || r[6] || E) && R % 3 && !((R + m) % 3)) {
						if (o && (r[5] || r[6])) break;
						f += m;
						continue;
					}
					if (b -= m, b > 0) continue;
					m = Math.min(m, m + b + f);
					let re = [...r[0]][0].length, B = e.slice(0, p + r.index + re + m);
					if (Math.min(p, m) % 2) {
						let se = B.slice(1, -1);
						return {
							type: "em",
							raw: B,
							text: se,
							tokens: this.lexer.inlineTokens(se)
						};
					}
					let X = B.slice(2, -2);
					return {
						type: "strong",
						raw: B,
						text: X,
						tokens: this.lexer.inlineTokens(X)
					};
				}
			}
		}
		codespan(e) {
			if (e.charCodeAt(0) !== 96) return;
			let t = this.rules.inline.code.exec(e);
			if (t) {
				let n = t[2].replace(this.rules.other.newLineCharGlobal, " "), r = this.rules.other.nonSpaceChar.test(n), s = this.rules.other.startingSpaceChar.test(n) && this.rules.other.endingSpaceChar.test(n);
				return r && s && (n = n.substring(1, n.length - 1)), {
					type: "codespan",
					raw: t[0],
					text: n
				};
			}
		}
		br(e) {
			let t = e.charCodeAt(0);
			if (t !== 32 && t !== 92 && t !== 10) return;
			let n = this.rules.inline.br.exec(e);
			if (n) return {
				type: "br",
				raw: n[0]
			};
		}
		del(e, t, n = "") {
			if (e.charCodeAt(0) !== 126) return;
			let r = this.rules.inline.delLDelim.exec(e);
			if (!r) return;
			if (!(r[1] || "") || !n || this.rules.inline.punctuation.exec(n)) {
				let o = [...r[0]].length - 1, i, a, c = o, u = this.rules.inline.delRDelim, d = ae(this, t), h = t.length - e.length + o;
				if (d < h) return;
				t = t.slice(-1 * e.length + o);
				let p = d - h;
				for (u.lastIndex = 0; (r = u.exec(t)) !== null && !(r.index > p);) {
					if (i = r[1] || r[2] || r[3] || r[4] || r[5] || r[6], !i || (a = [...i].length, a !== o)) continue;
					if (r[3] || r[4]) {
						c += a;
						continue;
					}
					if (c -= a, c > 0) continue;
					a = Math.min(a, a + c);
					let k = [...r[0]][0].length, m = e.slice(0, o + r.index + k + a), b = m.slice(o, -o);
					return {
						type: "del",
						raw: m,
						text: b,
						tokens: this.lexer.inlineTokens(b)
					};
				}
			}
		}
		autolink(e) {
			if (e.charCodeAt(0) !== 60) return;
			let t = this.rules.inline.autolink.exec(e);
			if (t) {
				let n, r;
				return t[2] === "@" ? (n = t[1], r = "mailto:" + n) : (n = t[1], r = n), {
					type: "link",
					raw: t[0],
					text: n,
					href: r,
					autolink: !0,
					tokens: [{
						type: "text",
						raw: n,
						text: n
					}]
				};
			}
		}
		url(e) {
			let t;
			if (t = this.rules.inline.url.exec(e)) {
				let n, r;
				if (t[2] === "@") n = t[0], r = "mailto:" + n;
				else {
					let s;
					do
						s = t[0], t[0] = this.rules.inline._backpedal.exec(t[0])?.[0] ?? "";
					while (s !== t[0]);
					n = t[0], t[1] === "www." ? r = "http://" + t[0] : r = t[0];
				}
				return {
					type: "link",
					raw: t[0],
					text: n,
					href: r,
					autolink: !0,
					tokens: [{
						type: "text",
						raw: n,
						text: n
					}]
				};
			}
		}
		inlineText(e) {
			let t = this.rules.inline.text.exec(e);
			if (t) {
				let n = this.lexer.state.inRawBlock;
				return {
					type: "text",
					raw: t[0],
					text: n ? t[0] : De(t[0]),
					escaped: n
				};
			}
		}
	};
	var w = class l {
		tokens;
		options;
		state;
		inlineQueue;
		tokenizer;
		constructor(e) {
			this.tokens = [], this.tokens.links = Object.create(null), this.options = e || S, this.options.tokenizer = this.options.tokenizer || new _(), this.tokenizer = this.options.tokenizer, this.tokenizer.options = this.options, this.tokenizer.lexer = this, this.inlineQueue = [], this.state = {
				inLink: !1,
				inRawBlock: !1,
				linkEmitted: !1,
				linkParenPossible: !0,
				top: !0
			};
			let t = {
				other: O,
				block: ee.normal,
				inline: F.normal
			};
			this.options.pedantic ? (t.block = ee.pedantic, t.inline = F.pedantic) : this.options.gfm && (t.block = ee.gfm, this.options.breaks ? t.inline = F.breaks : t.inline = F.gfm), this.tokenizer.rules = t;
		}
		static get rules() {
			return {
				block: ee,
				inline: F
			};
		}
		static lex(e, t) {
			return new l(t).lex(e);
		}
		static lexInline(e, t) {
			return new l(t).inlineTokens(e);
		}
		lex(e) {
			e = e.replace(O.carriageReturn, \`
\`), this.blockTokens(e, this.tokens);
			for (let t = 0; t < this.inlineQueue.length; t++) {
				let n = this.inlineQueue[t];
				this.state.inRawBlock = !1, this.inlineTokens(n.src, n.tokens);
			}
			return this.inlineQueue = [], this.tokens;
		}
		blockTokens(e, t = [], n = !1) {
			this.tokenizer.lexer = this;
			let r = this.state.lastToken;
			this.options.pedantic && (e = e.replace(O.tabCharGlobal, "    ").replace(O.spaceLine, ""));
			let s = 1 / 0, o, i = this.options.gfm && !this.options.pedantic && this.tokenizer.paragraph === _.prototype.paragraph;
			for (; e;) {
				if (e.length < s) s = e.length;
				else {
					this.infiniteLoopError(e.charCodeAt(0));
					break;
				}
				this.state.lastToken = t.at(-1);
				let a;
				if (this.options.extensions?.block?.some((u) => (a = u.call({ lexer: this }, e, t)) ? (e = e.substring(a.raw.length), t.push(a), !0) : !1)) continue;
				if (a = this.tokenizer.space(e)) {
					e = e.substring(a.raw.length);
					let u = t.at(-1);
					a.raw.length === 1 && u !== void 0 ? u.raw += \`
\` : t.push(a);
					continue;
				}
				if (a = this.tokenizer.code(e)) {
					e = e.substring(a.raw.length);
					let u = t.at(-1);
					u?.type === "paragraph" || u?.type === "text" ? (u.raw += (u.raw.endsWith(\`
\`) ? "" : \`
\`) + a.raw, u.text += \`
\` + a.text, this.inlineQueue.at(-1).src = u.text) : t.push(a);
					continue;
				}
				if (a = this.tokenizer.fences(e)) {
					e = e.substring(a.raw.length), t.push(a);
					continue;
				}
				if (a = this.tokenizer.heading(e)) {
					e = e.substring(a.raw.length), t.push(a);
					continue;
				}
				if (a = this.tokenizer.hr(e)) {
					e = e.substring(a.raw.length), t.push(a);
					continue;
				}
				if (a = this.tokenizer.blockquote(e)) {
					e = e.substring(a.raw.length), t.push(a);
					continue;
				}
				if (a = this.tokenizer.list(e)) {
					e = e.substring(a.raw.length), t.push(a);
					continue;
				}
				if (a = this.tokenizer.html(e)) {
					e = e.substring(a.raw.length), t.push(a);
					continue;
				}
				if (a = this.tokenizer.def(e)) {
					e = e.substring(a.raw.length);
					let u = t.at(-1);
					u?.type === "paragraph" || u?.type === "text" ? (u.raw += (u.raw.endsWith(\`
\`) ? "" : \`
\`) + a.raw, u.text += \`
\` + a.raw, this.inlineQueue.at(-1).src = u.text) : (this.tokens.links[a.tag] || (this.tokens.links[a.tag] = {
						href: a.href,
						title: a.title
					}), t.push(a));
					continue;
				}
				if (a = this.tokenizer.table(e)) {
					e = e.substring(a.raw.length), t.push(a);
					continue;
				}
				if (a = this.tokenizer.lheading(e)) {
					e = e.substring(a.raw.length), t.push(a);
					continue;
				}
				let c = e;
				if (this.options.extensions?.startBlock) {
					let u = 1 / 0, d = e.slice(1), h;
					this.options.extensions.startBlock.forEach((p) => {
						h = p.call({ lexer: this }, d), typeof h == "number" && h >= 0 && (u = Math.min(u, h));
					}), u < 1 / 0 && u >= 0 && (c = e.substring(0, u + 1));
				}
				if (this.state.top && (a = this.tokenizer.paragraph(c))) {
					let u = t.at(-1);
					(n || u === o && i) && u?.type === "paragraph" ? (u.raw += (u.raw.endsWith(\`
\`) ? "" : \`
\`) + a.raw, u.text += \`
\` + a.text, this.inlineQueue.pop(), this.inlineQueue.at(-1).src = u.text, o = u) : (t.push(a), o = a), n = c.length !== e.length, e = e.substring(a.raw.length);
					continue;
				}
				if (a = this.tokenizer.text(e)) {
					e = e.substring(a.raw.length);
					let u = t.at(-1);
					u?.type === "text" ? (u.raw += (u.raw.endsWith(\`
\`) ? "" : \`
\`) + a.raw, u.text += \`
\` + a.text, this.inlineQueue.pop(), this.inlineQueue.at(-1).src = u.text) : t.push(a);
					continue;
				}
				if (e) {
					this.infiniteLoopError(e.charCodeAt(0));
					break;
				}
			}
			return this.state.top = !0, this.state.lastToken = r, t;
		}
		inline(e, t = []) {
			return this.inlineQueue.push({
				src: e,
				tokens: t
			}), t;
		}
		linkInText(e) {
			if (!e.includes("[")) return !1;
			let t = this.tokenizer.rules.inline.link;
			for (let n of e.matchAll(this.tokenizer.rules.inline.blockSkip)) if (t.test(n[0]) && e.charAt(n.index - 1) !== "!") return !0;
			for (let n of e.matchAll(this.tokenizer.rules.inline.reflinkSearch)) {
				let r = n[0], s = r.lastIndexOf("[");
				if (!(r.charAt(0) === "!" || !Object.hasOwn(this.tokens.links, W(r.slice(s + 1, -1)))) && !(s > 1 && this.linkInText(r.slice(1, s - 1)))) return !0;
			}
			return !1;
		}
		inlineTokens(e, t = []) {
			this.tokenizer.lexer = this;
			let n = this.state.linkParenPossible;
			this.state.linkParenPossible = e.includes(")");
			try {
				return this.#t(e, t);
			} finally {
				this.state.linkParenPossible = n;
			}
		}
		#t(e, t) {
			let n = e.includes("*") || e.includes("_") || e.includes("~"), r = n || this.options.hooks?.emStrongMask || this.tokenizer.emStrong !== _.prototype.emStrong || this.tokenizer.del !== _.prototype.del ? this.#r(e) : e;
			if (!n) return this.#e(e, r, t);
			qe(this.tokenizer, r);
			try {
				return this.#e(e, r, t);
			} finally {
				ve(this.tokenizer);
			}
		}
		#e(e, t, n) {
			let r = !1, s = "", o = 1 / 0;
			for (; e;) {
				if (e.length < o) o = e.length;
				else {
					this.infiniteLoopError(e.charCodeAt(0));
					break;
				}
				r || (s = ""), r = !1;
				let i;
				if (this.options.extensions?.inline?.some((u) => (i = u.call({ lexer: this }, e, n)) ? (e = e.substring(i.raw.length), n.push(i), !0) : !1)) continue;
				if (i = this.tokenizer.escape(e)) {
					e = e.substring(i.raw.length), n.push(i);
					continue;
				}
				if (i = this.tokenizer.tag(e)) {
					e = e.substring(i.raw.length), n.push(i);
					continue;
				}
				if (i = this.tokenizer.link(e)) {
					e = e.substring(i.raw.length), n.push(i);
					continue;
				}
				if (i = this.tokenizer.reflink(e, this.tokens.links)) {
					e = e.substring(i.raw.length);
					let u = n.at(-1);
					i.type === "text" && u?.type === "text" ? (u.raw += i.raw, u.text += i.text) : n.push(i);
					continue;
				}
				let a = e[0];
				if (a === "*" || a === "_") {
					let u = t.length - e.length;
					if (oe(this.tokenizer, t, a) <= u) {
						let h = 1;
						for (; h < e.length && e.charCodeAt(h) === a.charCodeAt(0);) h++;
						let p = e.substring(0, h), k = n.at(-1);
						k?.type === "text" && !k.escaped ? (k.raw += p, k.text += p) : n.push({
							type: "text",
							raw: p,
							text: p,
							escaped: !1
						}), e = e.substring(h), s = a, r = !0;
						continue;
					}
				} else if (a === "~") {
					let u = t.length - e.length;
					if (ae(this.tokenizer, t) <= u) {
						let h = 1;
						for (; h < e.length && e.charCodeAt(h) === 126;) h++;
						let p = e.substring(0, h), k = n.at(-1);
						k?.type === "text" && !k.escaped ? (k.raw += p, k.text += p) : n.push({
							type: "text",
							raw: p,
							text: p,
							escaped: !1
						}), e = e.substring(h), s = a, r = !0;
						continue;
					}
				}
				if (i = this.tokenizer.emStrong(e, t, s)) {
					e = e.substring(i.raw.length), n.push(i);
					continue;
				}
				if (i = this.tokenizer.codespan(e)) {
					e = e.substring(i.raw.length), n.push(i);
					continue;
				}
				if (i = this.tokenizer.br(e)) {
					e = e.substring(i.raw.length), n.push(i);
					continue;
				}
				if (i = this.tokenizer.del(e, t, s)) {
					e = e.substring(i.raw.length), n.push(i);
					continue;
				}
				if (i = this.tokenizer.autolink(e)) {
					e = e.substring(i.raw.length), n.push(i);
					continue;
				}
				if (!this.state.inLink && (i = this.tokenizer.url(e))) {
					e = e.substring(i.raw.length), n.push(i);
					continue;
				}
				let c = e;
				if (this.options.extensions?.startInline) {
					let u = 1 / 0, d = e.slice(1), h;
					this.options.extensions.startInline.forEach((p) => {
						h = p.call({ lexer: this }, d), typeof h == "number" && h >= 0 && (u = Math.min(u, h));
					}), u < 1 / 0 && u >= 0 && (c = e.substring(0, u + 1));
				}
				if (i = this.tokenizer.inlineText(c)) {
					e = e.substring(i.raw.length), i.raw.slice(-1) !== "_" && (s = i.raw.slice(-1)), r = !0;
					let u = n.at(-1);
					u?.type === "text" ? (u.raw += i.raw, u.text += i.text) : n.push(i);
					continue;
				}
				if (e) {
					this.infiniteLoopError(e.charCodeAt(0));
					break;
				}
			}
			return n;
		}
		#n(e) {
			let { blockSkip: t, tag: n, autolink: r } = this.tokenizer.rules.inline, s = "", o = 0, i;
			for (t.lastIndex = 0; i = t.exec(e);) {
				let a = i.index + (i[2] ? i[2].length : 0), c = i.index + i[0].length;
				if (e.charAt(a) === "<") {
					let u = e.slice(a), d = n.exec(u) || r.exec(u);
					if (!d) {
						t.lastIndex = a + 1;
						continue;
					}
					c = a + d[0].length, t.lastIndex = c;
				}
				s += e.slice(o, a) + "[" + "a".repeat(c - a - 2) + "]", o = c;
			}
			return s + e.slice(o);
		}
		#r(e) {
			let t = e;
			if (this.tokens.links && e.includes("[")) {
				let n = this.tokenizer.rules.inline.reflinkSearch, r = (s) => {
					let o = s.lastIndexOf("[");
					if (!Object.hasOwn(this.tokens.links, W(s.slice(o + 1, -1)))) return s;
					if (o > 1 && s.charAt(0) !== "!") {
						let i = s.slice(1, o - 1);
						if (this.linkInText(i)) return "[" + i.replace(n, r) + "][" + "a".repeat(s.length - o - 2) + "]";
					}
					return "[" + "a".repeat(s.length - 2) + "]";
				};
				t = t.replace(n, r);
			}
			return t = t.replace(this.tokenizer.rules.inline.anyPunctuationOutsideCode, (n, r, s) => s ? "+".repeat(n.length) : r ? r + n.slice(r.length, -r.length).replace(/\`/g, "+") + r : n), t = this.#n(t), t = this.options.hooks?.emStrongMask?.call({ lexer: this }, t) ?? t, t;
		}
		infiniteLoopError(e) {
			let t = "Infinite loop on byte: " + e;
			if (this.options.silent) console.error(t);
			else throw new Error(t);
		}
	};
	var I = class {
		options;
		parser;
		constructor(e) {
			this.options = e || S;
		}
		space(e) {
			return "";
		}
		code({ text: e, lang: t, escaped: n }) {
			let r = (t || "").match(O.notSpaceStart)?.[0], s = e ? e.replace(O.endingNewline, "") + \`
\` : "";
			return r ? "<pre><code class=\\"language-" + y(r) + "\\">" + (n ? s : y(s, !0)) + \`</code></pre>
\` : "<pre><code>" + (n ? s : y(s, !0)) + \`</code></pre>
\`;
		}
		blockquote({ tokens: e }) {
			return \`<blockquote>
\${this.parser.parse(e)}</blockquote>
\`;
		}
		html({ text: e }) {
			return e;
		}
		def(e) {
			return "";
		}
		heading({ tokens: e, depth: t }) {
			return \`<h\${t}>\${this.parser.parseInline(e)}</h\${t}>
\`;
		}
		hr(e) {
			return \`<hr>
\`;
		}
		list(e) {
			let t = e.ordered, n = e.start, r = "";
			for (let i = 0; i < e.items.length; i++) {
				let a = e.items[i];
				r += this.listitem(a);
			}
			let s = t ? "ol" : "ul", o = t && n !== 1 ? " start=\\"" + n + "\\"" : "";
			return "<" + s + o + \`>
\` + r + "</" + s + \`>
\`;
		}
		listitem(e) {
			return \`<li>\${this.parser.parse(e.tokens)}</li>
\`;
		}
		checkbox({ checked: e }) {
			return "<input " + (e ? "checked=\\"\\" " : "") + "disabled=\\"\\" type=\\"checkbox\\"> ";
		}
		paragraph({ tokens: e }) {
			return \`<p>\${this.parser.parseInline(e)}</p>
\`;
		}
		table(e) {
			let t = "", n = "";
			for (let s = 0; s < e.header.length; s++) n += this.tablecell(e.header[s]);
			t += this.tablerow({ text: n });
			let r = "";
			for (let s = 0; s < e.rows.length; s++) {
				let o = e.rows[s];
				n = "";
				for (let i = 0; i < o.length; i++) n += this.tablecell(o[i]);
				r += this.tablerow({ text: n });
			}
			return r && (r = \`<tbody>\${r}</tbody>\`), \`<table>
<thead>
\` + t + \`</thead>
\` + r + \`</table>
\`;
		}
		tablerow({ text: e }) {
			return \`<tr>
\${e}</tr>
\`;
		}
		tablecell(e) {
			let t = this.parser.parseInline(e.tokens), n = e.header ? "th" : "td";
			return (e.align ? \`<\${n} align="\${e.align}">\` : \`<\${n}>\`) + t + \`</\${n}>
\`;
		}
		strong({ tokens: e }) {
			return \`<strong>\${this.parser.parseInline(e)}</strong>\`;
		}
		em({ tokens: e }) {
			return \`<em>\${this.parser.parseInline(e)}</em>\`;
		}
		codespan({ text: e }) {
			return \`<code>\${y(e, !0)}</code>\`;
		}
		br(e) {
			return "<br>";
		}
		del({ tokens: e }) {
			return \`<del>\${this.parser.parseInline(e)}</del>\`;
		}
		link({ href: e, title: t, text: n, tokens: r, autolink: s }) {
			let o = s ? y(n, !0) : this.parser.parseInline(r), i = xe(e);
			if (i === null) return o;
			e = y(i, s);
			let a = "<a href=\\"" + e + "\\"";
			return t && (a += " title=\\"" + y(t) + "\\""), a += ">" + o + "</a>", a;
		}
		image({ href: e, title: t, text: n, tokens: r }) {
			r && (n = this.parser.parseInline(r, this.parser.textRenderer));
			let s = xe(e);
			if (s === null) return y(n);
			e = s;
			let o = \`<img src="\${y(e)}" alt="\${y(n)}"\`;
			return t && (o += \` title="\${y(t)}"\`), o += ">", o;
		}
		text(e) {
			return "tokens" in e && e.tokens ? this.parser.parseInline(e.tokens) : "escaped" in e && e.escaped ? e.text : y(e.text);
		}
	};
	var z = class {
		parser;
		strong({ text: e, tokens: t }) {
			return t ? this.parser.parseInline(t, this) : e;
		}
		em({ text: e, tokens: t }) {
			return t ? this.parser.parseInline(t, this) : e;
		}
		codespan({ text: e }) {
			return e;
		}
		del({ text: e, tokens: t }) {
			return t ? this.parser.parseInline(t, this) : e;
		}
		html({ text: e }) {
			return e;
		}
		text({ text: e }) {
			return e;
		}
		link({ text: e, tokens: t }) {
			return t ? this.parser.parseInline(t, this) : e;
		}
		image({ text: e, tokens: t }) {
			return t ? this.parser.parseInline(t, this) : e;
		}
		br() {
			return \`
\`;
		}
		checkbox({ raw: e }) {
			return e;
		}
	};
	var P = class l {
		options;
		renderer;
		textRenderer;
		constructor(e) {
			this.options = e || S, this.options.renderer = this.options.renderer || new I(), this.renderer = this.options.renderer, this.renderer.options = this.options, this.renderer.parser = this, this.textRenderer = new z(), this.textRenderer.parser = this;
		}
		static parse(e, t) {
			return new l(t).parse(e);
		}
		static parseInline(e, t) {
			return new l(t).parseInline(e);
		}
		parse(e) {
			this.renderer.parser = this;
			let t = "";
			for (let n = 0; n < e.length; n++) {
				let r = e[n];
				if (this.options.extensions?.renderers?.[r.type]) {
					let o = r, i = this.options.extensions.renderers[o.type].call({ parser: this }, o);
					if (i !== !1 || ![
						"space",
						"hr",
						"heading",
						"code",
						"table",
						"blockquote",
						"list",
						"checkbox",
						"html",
						"def",
						"paragraph",
						"text"
					].includes(o.type)) {
						t += i === !1 ? "" : i ?? "";
						continue;
					}
				}
				let s = r;
				switch (s.type) {
					case "space":
						t += this.renderer.space(s);
						break;
					case "hr":
						t += this.renderer.hr(s);
						break;
					case "heading":
						t += this.renderer.heading(s);
						break;
					case "code":
						t += this.renderer.code(s);
						break;
					case "table":
						t += this.renderer.table(s);
						break;
					case "blockquote":
						t += this.renderer.blockquote(s);
						break;
					case "list":
						t += this.renderer.list(s);
						break;
					case "checkbox":
						t += this.renderer.checkbox(s);
						break;
					case "html":
						t += this.renderer.html(s);
						break;
					case "def":
						t += this.renderer.def(s);
						break;
					case "paragraph":
						t += this.renderer.paragraph(s);
						break;
					case "text":
						t += this.renderer.text(s);
						break;
					default: {
						let o = "Token with \\"" + s.type + "\\" type was not found.";
						if (this.options.silent) return console.error(o), "";
						throw new Error(o);
					}
				}
			}
			return t;
		}
		parseInline(e, t = this.renderer) {
			this.renderer.parser = this;
			let n = "";
			for (let r = 0; r < e.length; r++) {
				let s = e[r];
				if (this.options.extensions?.renderers?.[s.type]) {
					let i = this.options.extensions.renderers[s.type].call({ parser: this }, s);
					if (i !== !1 || ![
						"escape",
						"html",
						"link",
						"image",
						"checkbox",
						"strong",
						"em",
						"codespan",
						"br",
						"del",
						"text"
					].includes(s.type)) {
						n += i === !1 ? "" : i ?? "";
						continue;
					}
				}
				let o = s;
				switch (o.type) {
					case "escape":
						n += t.text(o);
						break;
					case "html":
						n += t.html(o);
						break;
					case "link":
						n += t.link(o);
						break;
					case "image":
						n += t.image(o);
						break;
					case "checkbox":
						n += t.checkbox(o);
						break;
					case "strong":
						n += t.strong(o);
						break;
					case "em":
						n += t.em(o);
						break;
					case "codespan":
						n += t.codespan(o);
						break;
					case "br":
						n += t.br(o);
						break;
					case "del":
						n += t.del(o);
						break;
					case "text":
						n += t.text(o);
						break;
					default: {
						let i = "Token with \\"" + o.type + "\\" type was not found.";
						if (this.options.silent) return console.error(i), "";
						throw new Error(i);
					}
				}
			}
			return n;
		}
	};
	var A = class {
		options;
		block;
		constructor(e) {
			this.options = e || S;
		}
		static passThroughHooks = new Set([
			"preprocess",
			"postprocess",
			"processAllTokens",
			"emStrongMask"
		]);
		static passThroughHooksRespectAsync = new Set([
			"preprocess",
			"postprocess",
			"processAllTokens"
		]);
		preprocess(e) {
			return e;
		}
		postprocess(e) {
			return e;
		}
		processAllTokens(e) {
			return e;
		}
		emStrongMask(e) {
			return e;
		}
		provideLexer(e = this.block) {
			return e ? w.lex : w.lexInline;
		}
		provideParser(e = this.block) {
			return e ? P.parse : P.parseInline;
		}
	};
	function M(l, e) {
		if (Array.isArray(e)) for (let t = 0; t < e.length; t++) l.push(e[t]);
		else l.push(e);
	}
	var ne = class {
		defaults = G();
		options = this.setOptions;
		parse = this.parseMarkdown(!0);
		parseInline = this.parseMarkdown(!1);
		Parser = P;
		Renderer = I;
		TextRenderer = z;
		Lexer = w;
		Tokenizer = _;
		Hooks = A;
		constructor(...e) {
			this.use(...e);
		}
		walkTokens(e, t) {
			let n = [];
			for (let r of e) switch (M(n, t.call(this, r)), r.type) {
				case "table": {
					let s = r;
					for (let o of s.header) M(n, this.walkTokens(o.tokens, t));
					for (let o of s.rows) for (let i of o) M(n, this.walkTokens(i.tokens, t));
					break;
				}
				case "list": {
					let s = r;
					M(n, this.walkTokens(s.items, t));
					break;
				}
				default: {
					let s = r;
					this.defaults.extensions?.childTokens?.[s.type] ? this.defaults.extensions.childTokens[s.type].forEach((o) => {
						let i = s[o].flat(1 / 0);
						M(n, this.walkTokens(i, t));
					}) : s.tokens && M(n, this.walkTokens(s.tokens, t));
				}
			}
			return n;
		}
		use(...e) {
			let t = this.defaults.extensions || {
				renderers: Object.create(null),
				childTokens: Object.create(null)
			};
			return e.forEach((n) => {
				let r = { ...n };
				if (r.async = this.defaults.async || r.async || !1, n.extensions && (n.extensions.forEach((s) => {
					if (!s.name) throw new Error("extension name required");
					if ("renderer" in s) {
						let o = t.renderers[s.name];
						o ? t.renderers[s.name] = function(...i) {
							let a = s.renderer.apply(this, i);
							return a === !1 && (a = o.apply(this, i)), a;
						} : t.renderers[s.name] = s.renderer;
					}
					if ("tokenizer" in s) {
						if (!s.level || s.level !== "block" && s.level !== "inline") throw new Error("extension level must be 'block' or 'inline'");
						let o = t[s.level];
						o ? o.unshift(s.tokenizer) : t[s.level] = [s.tokenizer], s.start && (s.level === "block" ? t.startBlock ? t.startBlock.push(s.start) : t.startBlock = [s.start] : s.level === "inline" && (t.startInline ? t.startInline.push(s.start) : t.startInline = [s.start]));
					}
					"childTokens" in s && s.childTokens && (t.childTokens[s.name] = s.childTokens);
				}), r.extensions = t), n.renderer) {
					let s = this.defaults.renderer || new I(this.defaults);
					for (let o in n.renderer) {
						if (!(o in s)) throw new Error(\`renderer '\${o}' does not exist\`);
						if (["options", "parser"].includes(o)) continue;
						let i = o, a = n.renderer[i], c = s[i];
						s[i] = (...u) => {
							let d = a.apply(s, u);
							return d === !1 && (d = c.apply(s, u)), d === !1 ? "" : d ?? "";
						};
					}
					r.renderer = s;
				}
				if (n.tokenizer) {
					let s = this.defaults.tokenizer || new _(this.defaults);
					for (let o in n.tokenizer) {
						if (!(o in s)) throw new Error(\`tokenizer '\${o}' does not exist\`);
						if ([
							"options",
							"rules",
							"lexer"
						].includes(o)) continue;
						let i = o, a = n.tokenizer[i], c = s[i];
						s[i] = (...u) => {
							let d = a.apply(s, u);
							return d === !1 && (d = c.apply(s, u)), d;
						};
					}
					r.tokenizer = s;
				}
				if (n.hooks) {
					let s = this.defaults.hooks || new A();
					for (let o in n.hooks) {
						if (!(o in s)) throw new Error(\`hook '\${o}' does not exist\`);
						if (["options", "block"].includes(o)) continue;
						let i = o, a = n.hooks[i], c = s[i];
						A.passThroughHooks.has(o) ? s[i] = (u) => {
							if (s.options.async && A.passThroughHooksRespectAsync.has(o)) return (async () => {
								let h = await a.call(s, u);
								return c.call(s, h);
							})();
							let d = a.call(s, u);
							return c.call(s, d);
						} : s[i] = (...u) => {
							if (s.options.async) return (async () => {
								let h = await a.apply(s, u);
								return h === !1 && (h = await c.apply(s, u)), h;
							})();
							let d = a.apply(s, u);
							return d === !1 && (d = c.apply(s, u)), d;
						};
					}
					r.hooks = s;
				}
				if (n.walkTokens) {
					let s = this.defaults.walkTokens, o = n.walkTokens;
					r.walkTokens = function(i) {
						let a = [];
						return M(a, o.call(this, i)), s && M(a, s.call(this, i)), a;
					};
				}
				this.defaults = {
					...this.defaults,
					...r
				};
			}), this;
		}
		setOptions(e) {
			return this.defaults = {
				...this.defaults,
				...e
			}, this;
		}
		lexer(e, t) {
			return w.lex(e, t ?? this.defaults);
		}
		parser(e, t) {
			return P.parse(e, t ?? this.defaults);
		}
		parseMarkdown(e) {
			return (n, r) => {
				let s = { ...r }, o = {
					...this.defaults,
					...s
				}, i = this.onError(!!o.silent, !!o.async);
				if (this.defaults.async === !0 && s.async === !1) return i(new Error("marked(): The async option was set to true by an extension. Remove async: false from the parse options object to return a Promise."));
				if (typeof n > "u" || n === null) return i(new Error("marked(): input parameter is undefined or null"));
				if (typeof n != "string") return i(new Error("marked(): input parameter is of type " + Object.prototype.toString.call(n) + ", string expected"));
				if (o.hooks && (o.hooks.options = o, o.hooks.block = e), o.async) return (async () => {
					let a = o.hooks ? await o.hooks.preprocess(n) : n, u = await (o.hooks ? await o.hooks.provideLexer(e) : e ? w.lex : w.lexInline)(a, o), d = o.hooks ? await o.hooks.processAllTokens(u) : u;
					o.walkTokens && await Promise.all(this.walkTokens(d, o.walkTokens));
					let p = await (o.hooks ? await o.hooks.provideParser(e) : e ? P.parse : P.parseInline)(d, o);
					return o.hooks ? await o.hooks.postprocess(p) : p;
				})().catch(i);
				try {
					o.hooks && (n = o.hooks.preprocess(n));
					let c = (o.hooks ? o.hooks.provideLexer(e) : e ? w.lex : w.lexInline)(n, o);
					o.hooks && (c = o.hooks.processAllTokens(c)), o.walkTokens && this.walkTokens(c, o.walkTokens);
					let d = (o.hooks ? o.hooks.provideParser(e) : e ? P.parse : P.parseInline)(c, o);
					return o.hooks && (d = o.hooks.postprocess(d)), d;
				} catch (a) {
					return i(a);
				}
			};
		}
		onError(e, t) {
			return (n) => {
				if (n.message += \`
Please report this to https://github.com/markedjs/marked.\`, e) {
					let r = "<p>An error occurred:</p><pre>" + y(n.message + "", !0) + "</pre>";
					return t ? Promise.resolve(r) : r;
				}
				if (t) return Promise.reject(n);
				throw n;
			};
		}
	};
	var v = new ne();
	function x(l, e) {
		return v.parse(l, e);
	}
	x.options = x.setOptions = function(l) {
		return v.setOptions(l), x.defaults = v.defaults, ue(x.defaults), x;
	};
	x.getDefaults = G;
	x.defaults = S;
	function jt(...l) {
		return v.use(...l), x.defaults = v.defaults, ue(x.defaults), x;
	}
	x.use = jt;
	x.walkTokens = function(l, e) {
		return v.walkTokens(l, e);
	};
	x.parseInline = v.parseInline;
	x.Parser = P;
	x.parser = P.parse;
	x.Renderer = I;
	x.TextRenderer = z;
	x.Lexer = w;
	x.lexer = w.lex;
	x.Tokenizer = _;
	x.Hooks = A;
	x.parse = x;
	x.options;
	x.setOptions;
	x.walkTokens;
	x.parseInline;
	P.parse;
	var vn = w.lex;
	const longest = 4e4;
	const blanks = /[ \\t]{500}/u;
	const deepest = 40;
	const schemes = new Set([
		"http:",
		"https:",
		"mailto:"
	]);
	const entities = {
		"&amp;": "&",
		"&lt;": "<",
		"&gt;": ">",
		"&quot;": "\\"",
		"&#39;": "'"
	};
	const plain = (text) => text.replace(/&(?:amp|lt|gt|quot|#39);/gu, (entity) => entities[entity] ?? entity);
	const safeAddress = (address) => {
		try {
			const url = new URL(plain(address));
			return schemes.has(url.protocol) ? url.href : void 0;
		} catch {
			return;
		}
	};
	const linkTo = (address, ...inside) => {
		const safe = safeAddress(address);
		return safe === void 0 ? make("span", {
			class: "unsafe",
			title: address.slice(0, 300)
		}, ...inside) : make("a", {
			href: safe,
			title: safe.slice(0, 300),
			rel: "noopener noreferrer nofollow",
			target: "_blank",
			referrerpolicy: "no-referrer"
		}, ...inside);
	};
	const headings = [
		"h3",
		"h4",
		"h5",
		"h6"
	];
	const inside = (tokens, depth) => (tokens ?? []).flatMap((token) => shown$1(token, depth + 1));
	const cellOf = (tag, { align, tokens }, depth) => make(tag, align === null ? {} : { class: align === "right" ? "r" : align === "center" ? "c" : "" }, ...inside(tokens, depth));
	const tableOf = ({ header, rows }, depth) => make("div", { class: "wide" }, make("table", {}, make("thead", {}, make("tr", {}, ...header.map((cell) => cellOf("th", cell, depth)))), make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => cellOf("td", cell, depth)))))));
	const listOf = ({ items, ordered, start }, depth) => {
		const list = make(ordered ? "ol" : "ul", ordered && typeof start === "number" && start !== 1 ? { start: String(start) } : {});
		for (const item of items) list.append(make("li", item.task ? { class: "task" } : {}, ...inside(item.tokens, depth)));
		return list;
	};
	const codeOf = ({ lang, text }) => {
		const language = (lang ?? "").split(/\\s/u)[0] ?? "";
		const pre = language === "diff" || language === "patch" ? diffLines(text) : make("pre", { tabindex: "0" }, el("code", "", text));
		return language === "" ? pre : make("div", { class: "code" }, el("span", "lang", plain(language)), pre);
	};
	const shown$1 = (token, depth) => {
		if (depth > deepest) return [token.raw];
		const one = token;
		switch (one.type) {
			case "heading": return [make(headings[Math.min(one.depth, headings.length) - 1] ?? "h6", {}, ...inside(one.tokens, depth))];
			case "paragraph": return [make("p", {}, ...inside(one.tokens, depth))];
			case "text": return "tokens" in one && one.tokens !== void 0 ? inside(one.tokens, depth) : [plain(one.text)];
			case "escape": return [plain(one.text)];
			case "strong":
			case "em":
			case "del": return [make(one.type, {}, ...inside(one.tokens, depth))];
			case "codespan": return [el("code", "", one.text)];
			case "checkbox": return [one.checked ? "☑ " : "☐ "];
			case "br": return [el("br")];
			case "hr": return [el("hr")];
			case "code": return [codeOf(one)];
			case "blockquote": return [make("blockquote", {}, ...inside(one.tokens, depth))];
			case "list": return [listOf(one, depth)];
			case "table": return [tableOf(one, depth)];
			case "link": return [linkTo(one.href, ...inside(one.tokens, depth))];
			case "image": return [linkTo(one.href, \`[image: \${plain(one.text) || one.href.slice(0, 80)}]\`)];
			case "space":
			case "def": return [];
			default: return [one.raw];
		}
	};
	const tokensOf = (text) => {
		if (text.length > longest || blanks.test(text)) return void 0;
		try {
			return vn(text, {
				gfm: true,
				breaks: true
			});
		} catch (error) {
			if (error instanceof RangeError) return void 0;
			throw error;
		}
	};
	const markdown = (text) => {
		const tokens = tokensOf(text);
		return make("div", { class: "md" }, ...tokens === void 0 ? [folded(text)] : tokens.flatMap((token) => shown$1(token, 0)));
	};
	const diffLines = (text) => {
		const pre = make("pre", {
			class: "lines",
			tabindex: "0"
		});
		for (const line of text.replace(/\\n$/u, "").split("\\n")) pre.append(el("span", line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : line.startsWith("@@") ? "hunk" : "", \`\${line}\\n\`));
		return pre;
	};
	const window$1 = 150;
	const near = 60;
	const names = {
		system: "System",
		user: "User",
		assistant: "Model",
		tool: "Tool"
	};
	const writerOf = ({ model, origin, role }) => role === "assistant" ? model ?? names.assistant : origin === "runtime" && role === "user" ? "Runtime" : origin === "child" ? "Sub-agent" : names[role];
	const closed = (className, head, fill, isOpen = false) => {
		const box = make("details", { class: className }, make("summary", {}, ...head));
		let isFilled = false;
		const open = () => {
			if (isFilled) return;
			isFilled = true;
			box.append(...fill());
		};
		box.addEventListener("toggle", () => {
			if (box.open) open();
		});
		if (isOpen) {
			open();
			box.open = true;
		}
		return box;
	};
	const isGood = (status) => !isFailed({ status });
	const oneLine = (text) => text.slice(0, 300).replace(/\\s+/gu, " ");
	const imageOf = ({ local, mediaType, url }) => {
		if (!local || !url.startsWith("/api/")) return el("p", "dim", \`[image, \${mediaType}, not loaded: \${url.slice(0, 200)}]\`);
		const image = make("img", {
			src: url,
			alt: \`Image of the conversation (\${mediaType})\`,
			loading: "lazy",
			decoding: "async"
		});
		return make("a", {
			class: "image",
			href: url,
			target: "_blank",
			rel: "noopener"
		}, image);
	};
	const fileOf = ({ mediaType, name }) => el("p", "dim", \`[file\${name === void 0 ? "" : \` \${name}\`}, \${mediaType}]\`);
	const conversation = (actions) => {
		const earlier = button("", () => grow(), { class: "earlier" });
		const box = el("div", "messages");
		const jump = button("↓ Jump to the end", () => toEnd(), { class: "jump" });
		const scroller = make("div", {
			class: "scroller",
			tabindex: "0",
			role: "log",
			"aria-label": "Conversation"
		}, earlier, box);
		const element = make("div", { class: "conversation" }, scroller, jump);
		let messages = [];
		let first = 0;
		let isFollowing = true;
		let drawn = [];
		const cards = new Map();
		const resultOf = (message, part) => {
			const replay = actions.replay === void 0 ? [] : [button("Replay with another result", () => actions.replay?.(message, part), { class: "small" })];
			return make("div", { class: "result" }, make("div", { class: "actions" }, el("b", "", "Result"), copier(part.text), ...replay), shownText(part.text));
		};
		const callOf = (part) => {
			const state = el("span", "status");
			state.hidden = true;
			const head = [
				el("span", "kind", "⚙"),
				el("b", "", part.name),
				el("span", "args", oneLine(part.args)),
				state
			];
			const card = closed("call", head, () => [make("div", { class: "actions" }, el("b", "", "Arguments"), copier(part.args)), shownText(part.args)]);
			const diffs = part.diffs.map(({ path, text }) => closed("fileDiff", [el("span", "kind", "±"), el("b", "", path)], () => [diffLines(text)], text.length < 4e3));
			const children = part.children.map((id) => make("p", { class: "child" }, "Sub-agent: ", link(id, toSession(id))));
			const made = make("div", { class: "callBox" }, card, ...children, ...diffs);
			cards.set(part.id, card);
			return made;
		};
		const answerCall = (message, part) => {
			const card = cards.get(part.id);
			if (!(card instanceof HTMLDetailsElement)) return void 0;
			const state = card.querySelector("summary > .status");
			let result;
			const show = () => {
				if (!card.open || result !== void 0) return;
				result = resultOf(message, part);
				card.append(result);
			};
			card.addEventListener("toggle", show);
			show();
			card.classList.toggle("failed", !isGood(part.status));
			if (state instanceof HTMLElement) {
				state.hidden = false;
				state.className = isGood(part.status) ? "status" : "status bad";
				state.textContent = [part.status, duration(part.duration ?? 0)].filter(Boolean).join(" · ");
			}
			return () => {
				card.removeEventListener("toggle", show);
				result?.remove();
				if (state instanceof HTMLElement) state.hidden = true;
			};
		};
		const partOf = (message, part, undo) => {
			switch (part.type) {
				case "text": return part.text === "" ? [] : message.role === "system" ? [closed("long", [\`\${exact(part.text.length)} characters\`, el("span", "args", oneLine(part.text))], () => [markdown(part.text)])] : [markdown(part.text)];
				case "reasoning": return [closed("reasoning", [el("span", "", "Reasoning"), el("span", "args", oneLine(part.text))], () => [markdown(part.text)])];
				case "call": return [callOf(part)];
				case "result": {
					const back = answerCall(message, part);
					if (back !== void 0) undo.push(back);
					return back !== void 0 ? [] : [closed("call", [
						el("span", "kind", "⚙"),
						el("b", "", \`\${part.name}: result\`),
						el("span", isGood(part.status) ? "status" : "status bad", part.status)
					], () => [resultOf(message, part)])];
				}
				case "image": return [imageOf(part)];
				case "file": return [fileOf(part)];
			}
		};
		const draw = (message) => {
			const undo = [];
			const parts = message.parts.flatMap((part) => partOf(message, part, undo));
			if (parts.length === 0 && message.role === "tool") return {
				node: void 0,
				undo
			};
			const head = make("header", {}, el("b", "writer", writerOf(message)));
			if (message.at !== void 0 && message.at > 0) head.append(time(message.at));
			if (message.partial) head.append(el("span", "status bad", "broke off"));
			const { position, row } = message;
			if (row !== void 0) head.append(button("in the timeline", () => actions.toRow(row), { class: "small" }));
			if (actions.replay !== void 0 && position !== void 0 && (message.origin === "user" || message.role === "assistant")) head.append(button("Replay from here", () => actions.replay?.(message), { class: "small" }));
			if (actions.note !== void 0 && position !== void 0) head.append(button("Note", () => actions.note?.(position), { class: "small" }));
			const node = make("article", {
				class: \`turn \${message.role} \${message.origin}\`,
				"aria-label": writerOf(message)
			}, head, ...parts);
			if (row !== void 0) node.dataset["row"] = String(row);
			return {
				node,
				undo
			};
		};
		const drawEarlier = () => {
			earlier.hidden = first === 0;
			earlier.textContent = \`Show \${exact(first)} earlier \${first === 1 ? "message" : "messages"}\`;
		};
		const drawFrom = (place) => {
			const kept = Math.max(0, place - first);
			for (const { node, undo } of drawn.slice(kept).reverse()) {
				for (const back of undo) back();
				node?.remove();
			}
			drawn = drawn.slice(0, kept);
			for (const message of messages.slice(first + kept)) {
				const made = draw(message);
				drawn.push(made);
				if (made.node !== void 0) box.append(made.node);
			}
			drawEarlier();
		};
		const grow = () => {
			const fromEnd = scroller.scrollHeight - scroller.scrollTop;
			first = Math.max(0, first - 300);
			cards.clear();
			drawFrom(first);
			scroller.scrollTop = scroller.scrollHeight - fromEnd;
		};
		const toEnd = () => {
			isFollowing = true;
			jump.hidden = true;
			scroller.scrollTop = scroller.scrollHeight;
		};
		scroller.addEventListener("scroll", () => {
			isFollowing = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight <= near;
			jump.hidden = isFollowing;
		});
		jump.hidden = true;
		return {
			element,
			toEnd,
			update: ({ from, items }) => {
				const isFirst = messages.length === 0;
				messages = [...messages.slice(0, from), ...items];
				if (isFirst) first = Math.max(0, messages.length - window$1);
				drawFrom(Math.max(first, from));
				if (isFollowing && !isFirst) toEnd();
			},
			mark: (row) => {
				const place = messages.findIndex((message) => message.row === row);
				if (place < 0) return;
				if (place < first) {
					first = place;
					cards.clear();
					drawFrom(first);
				}
				for (const one of box.querySelectorAll(".marked")) one.classList.remove("marked");
				const node = box.querySelector(\`[data-row="\${row}"]\`);
				node?.classList.add("marked");
				node?.scrollIntoView({ block: "nearest" });
			}
		};
	};
	const readOnly = "Read-only: start hermes trace serve --write to replay from a step, to score and to take notes.";
	const valueOf = (text) => {
		const typed = text.trim();
		if (/^(yes|true)$/iu.test(typed)) return true;
		if (/^(no|false)$/iu.test(typed)) return false;
		const number = Number(typed);
		return typed !== "" && Number.isFinite(number) ? number : typed;
	};
	const runLabel = (runs, id) => {
		const place = runs.findIndex((run) => run.id === id);
		return place < 0 ? "session" : \`run \${place + 1}\`;
	};
	const runChoice = (runs) => choice([["", "the whole session"], ...runs.map(({ id, prompt }, index) => [id, \`run \${index + 1}\${prompt === void 0 ? "" : \`: \${prompt.slice(0, 40)}\`}\`])]);
	const form = (title, action, fields, submit) => {
		const problem = el("div");
		const made = make("form", {
			class: "inline",
			"aria-label": title
		}, ...fields, make("button", {
			type: "submit",
			class: "primary"
		}, action), problem);
		made.addEventListener("submit", (event) => {
			event.preventDefault();
			submit(problem);
		});
		return made;
	};
	const of = (run) => run === "" ? {} : { run };
	const feedback = (session, { notes, runs, scores }, isWritable, changed) => {
		const box = make("section", { class: "panel feedback" });
		const problem = el("div");
		const send = async (request, place) => attempt(place, async () => {
			await score(session, request);
			changed();
		});
		const takeBack = ({ name, run }) => button("Take back", () => void send({
			name,
			value: null,
			...of(run ?? "")
		}, problem), {
			class: "small",
			"aria-label": \`Take the score \${name} back\`
		});
		const columns = [
			{
				head: "Score",
				cell: ({ name }) => name,
				left: true
			},
			{
				head: "Value",
				cell: ({ value }) => typeof value === "boolean" ? value ? "yes" : "no" : String(value)
			},
			{
				head: "Of",
				cell: ({ run }) => runLabel(runs, run),
				left: true
			},
			{
				head: "Comment",
				cell: ({ comment = "" }) => comment,
				left: true
			},
			{
				head: "Time",
				cell: ({ at }) => time(at),
				left: true
			},
			{
				head: "",
				cell: (score) => isWritable ? takeBack(score) : "",
				left: true
			}
		];
		if (!isWritable) box.append(el("p", "dim", readOnly));
		box.append(el("h2", "", "Scores"), scores.length === 0 ? el("p", "dim", "No score yet.") : table("Scores", scores, columns), problem);
		const name = make("input", {
			required: "",
			maxlength: "100",
			placeholder: "correctness"
		});
		const value = make("input", {
			required: "",
			maxlength: "200",
			placeholder: "0.8, yes, good"
		});
		const comment = make("input", { maxlength: "2000" });
		const scored = runChoice(runs);
		if (isWritable) box.append(form("Add a score", "Add score", [
			field("Name", name),
			field("Value", value),
			field("Comment", comment),
			field("Of", scored)
		], (place) => send({
			name: name.value.trim(),
			value: valueOf(value.value),
			...of(scored.value),
			...comment.value.trim() === "" ? {} : { comment: comment.value.trim() }
		}, place)));
		box.append(el("h2", "", "Notes"));
		if (notes.length === 0) box.append(el("p", "dim", "No note yet."));
		for (const note of notes) {
			const place = note.position === void 0 ? runLabel(runs, note.run) : \`message \${note.position + 1}\`;
			box.append(make("article", { class: "note" }, make("header", {}, time(note.at), el("span", "dim", place)), el("p", "", note.text)));
		}
		const text = make("textarea", {
			required: "",
			rows: "3",
			maxlength: "20000"
		});
		const noted = runChoice(runs);
		if (isWritable) box.append(form("Add a note", "Add note", [field("Note", text), field("Of", noted)], (place) => attempt(place, async () => {
			await note(session, {
				text: text.value,
				...of(noted.value)
			});
			changed();
		})));
		return box;
	};
	const openNote = (session, position, changed) => {
		const text = make("textarea", {
			required: "",
			rows: "4",
			maxlength: "20000"
		});
		const problem = el("div");
		const dialog = make("dialog", {
			class: "form",
			"aria-labelledby": "noteTitle"
		});
		const made = make("form", { method: "dialog" }, make("h2", { id: "noteTitle" }, \`Note on message \${position + 1}\`), field("Note", text), problem, make("div", { class: "actions" }, make("button", {
			type: "submit",
			class: "primary"
		}, "Add note"), button("Cancel", () => dialog.close())));
		made.addEventListener("submit", (event) => {
			event.preventDefault();
			attempt(problem, async () => {
				await note(session, {
					text: text.value,
					position
				});
				dialog.close();
				changed();
			});
		});
		dialog.append(made);
		dialog.addEventListener("close", () => dialog.remove());
		document.body.append(dialog);
		dialog.showModal();
	};
	const promptOf = ({ parts }) => parts.flatMap((part) => part.type === "text" ? [part.text] : []).join("\\n");
	const textArea = (value) => {
		const made = make("textarea", {
			rows: "8",
			spellcheck: "true"
		});
		made.value = value;
		return made;
	};
	const requestOf = ({ message, result }, text, model) => {
		const other = model === "" ? {} : { model };
		if (result !== void 0) return {
			...other,
			result: {
				callId: result.id,
				text
			}
		};
		const { position } = message;
		return {
			...position === void 0 ? {} : { position },
			...other,
			...message.role === "user" && text !== promptOf(message) ? { prompt: text } : {}
		};
	};
	const titles = {
		user: "Replay from this prompt",
		assistant: "Ask for this answer again",
		result: "Replay with another result"
	};
	const explanations = {
		user: "The session is copied up to this prompt and runs again, as a new session. Tools run for real.",
		assistant: "The session is copied up to this answer, and the model answers again, as a new session. Tools run for real.",
		result: "The session is copied up to this step, and the model goes on from the result that you write, as a new session. Tools run for real."
	};
	const openReplay = (subject) => {
		const { message, models, result, session } = subject;
		const kind = result !== void 0 ? "result" : message.role === "user" ? "user" : "assistant";
		const text = textArea(result?.text ?? promptOf(message));
		const model = choice([["", "as before"], ...models.map((name) => [name, name])]);
		const problem = el("div");
		const dialog = make("dialog", {
			class: "form",
			"aria-labelledby": "replayTitle"
		});
		const start = make("button", {
			type: "submit",
			class: "primary"
		}, "Start");
		const form = make("form", { method: "dialog" }, make("h2", { id: "replayTitle" }, titles[kind]), el("p", "dim", explanations[kind]), ...kind === "assistant" ? [] : [field(kind === "user" ? "Prompt" : \`Result of \${result?.name ?? "the call"}\`, text)], ...models.length === 0 ? [] : [field("Model", model)], problem, make("div", { class: "actions" }, start, button("Cancel", () => dialog.close())));
		form.addEventListener("submit", (event) => {
			event.preventDefault();
			start.disabled = true;
			attempt(problem, async () => {
				const made = await replay(session, requestOf(subject, text.value, model.value));
				dialog.close();
				go(toSession(made.session));
			}).finally(() => {
				start.disabled = false;
			});
		});
		dialog.append(form);
		dialog.addEventListener("close", () => dialog.remove());
		document.body.append(dialog);
		dialog.showModal();
	};
	const tabs = [
		["conversation", "Conversation"],
		["timeline", "Timeline"],
		["totals", "Totals"],
		["feedback", "Scores and notes"]
	];
	const steps = {
		ArrowRight: 1,
		ArrowLeft: -1
	};
	const applied = (known, { from, items }) => [...known.slice(0, from), ...items];
	const patched = (known, patch) => {
		const made = [...applied(known, patch)];
		for (const [index, item] of patch.changed) made[index] = item;
		return made;
	};
	const dataOf = (before, { pool, rows, sums }) => {
		const [run] = before.runs;
		return {
			...before,
			pool: applied(before.pool, pool),
			runs: [{
				name: run?.name ?? "",
				sums,
				rows: patched(run?.rows ?? [], rows)
			}]
		};
	};
	const runsTable = (session, runs) => {
		const chosen = new Set();
		const compare = button("Compare two runs", () => {
			const [leftRun = "", rightRun = ""] = chosen;
			location.hash = address("compare", {
				left: session,
				leftRun,
				right: session,
				rightRun
			});
		}, { class: "small" });
		compare.disabled = true;
		const box = (id, index) => {
			const made = make("input", {
				type: "checkbox",
				"aria-label": \`Select run \${index + 1}\`
			});
			made.addEventListener("change", () => {
				if (made.checked) chosen.add(id);
				else chosen.delete(id);
				compare.disabled = chosen.size !== 2;
			});
			return made;
		};
		const numbered = runs.map((run, index) => ({
			...run,
			index
		}));
		const all = table("Runs", numbered, [
			...runs.length > 1 ? [{
				head: "",
				cell: (run) => box(run.id, run.index)
			}] : [],
			{
				head: "Run",
				cell: ({ index }) => String(index + 1)
			},
			{
				head: "Prompt",
				cell: ({ prompt = "" }) => prompt,
				left: true
			},
			{
				head: "State",
				cell: ({ status }) => statusChip(status),
				left: true
			},
			{
				head: "Exit",
				cell: ({ exit = "", failure }) => failure ?? exit,
				left: true
			},
			{
				head: "Model",
				cell: ({ model }) => model,
				left: true
			},
			{
				head: "Steps",
				cell: (run) => exact(run.steps)
			},
			{
				head: "Tokens",
				cell: ({ tokens }) => tokenFlow(tokens)
			},
			{
				head: "Cost",
				cell: (run) => costOf(run)
			},
			{
				head: "Time",
				cell: ({ endedAt, startedAt }) => endedAt === void 0 ? "" : duration(endedAt - startedAt)
			},
			{
				head: "Began",
				cell: ({ startedAt }) => time(startedAt),
				left: true
			}
		]);
		return make("div", {}, all, ...runs.length > 1 ? [compare] : []);
	};
	const agentsTable = (agents) => table("Agents", agents, [
		{
			head: "Agent",
			cell: ({ name, parent, session }) => parent === void 0 ? name : link(name, toSession(session)),
			left: true
		},
		{
			head: "State",
			cell: ({ status }) => statusChip(status),
			left: true
		},
		{
			head: "Calls",
			cell: ({ modelCalls }) => exact(modelCalls)
		},
		{
			head: "Tools",
			cell: ({ toolCalls }) => exact(toolCalls)
		},
		{
			head: "Errors",
			cell: ({ errors }) => errors === 0 ? "" : el("span", "bad", exact(errors))
		},
		{
			head: "Tokens",
			cell: ({ tokens }) => tokenFlow(tokens)
		},
		{
			head: "Cached",
			cell: ({ tokens }) => cacheShare(tokens)
		},
		{
			head: "Cost",
			cell: (agent) => costOf(agent)
		},
		{
			head: "Time",
			cell: (agent) => duration(agent.duration)
		}
	]);
	const modelsTable = (models) => table("Models", models, [
		{
			head: "Model",
			cell: ({ model }) => model,
			left: true
		},
		{
			head: "Calls",
			cell: ({ calls }) => exact(calls)
		},
		{
			head: "Errors",
			cell: ({ errors }) => errors === 0 ? "" : el("span", "bad", exact(errors))
		},
		{
			head: "Tokens",
			cell: ({ tokens }) => tokenFlow(tokens)
		},
		{
			head: "Cached",
			cell: ({ tokens }) => cacheShare(tokens)
		},
		{
			head: "Cost",
			cell: (model) => costOf(model)
		},
		{
			head: "p50",
			cell: ({ latency }) => duration(latency?.p50 ?? 0)
		},
		{
			head: "p90",
			cell: ({ latency }) => duration(latency?.p90 ?? 0)
		},
		{
			head: "p99",
			cell: ({ latency }) => duration(latency?.p99 ?? 0)
		}
	]);
	const kinship = ({ id, parent, replayOf, replays }) => [
		...parent === void 0 ? [] : ["sub-agent of ", link(parent, toSession(parent))],
		...replayOf === void 0 ? [] : [
			"replay of ",
			link(replayOf.session, toSession(replayOf.session)),
			\` with \${replayOf.changed.length === 0 ? "nothing changed" : \`another \${replayOf.changed.join(" and ")}\`} (\`,
			link("compare", address("compare", {
				left: replayOf.session,
				right: id
			})),
			") "
		],
		...replays.flatMap((replay) => [
			"replayed as ",
			link(replay, toSession(replay)),
			" (",
			link("compare", address("compare", {
				left: id,
				right: replay
			})),
			") "
		])
	];
	const sessionPage = (id, about) => {
		const aborter = new AbortController();
		let stop = () => void 0;
		let detail$2;
		const toTimeline = (row) => {
			if (buttons.some((one) => one.dataset["tab"] === "timeline" && one.checkVisibility())) choose("timeline");
			go$1(row);
		};
		const talk = conversation({
			toRow: toTimeline,
			replay: about.write ? (message, result) => openReplay({
				session: id,
				message,
				result,
				models: about.models
			}) : void 0,
			note: about.write ? (position) => openNote(id, position, () => void reread()) : void 0
		});
		const head = make("header", { class: "sessionHead" });
		const problem = el("div");
		const format = choice([
			["atif", "ATIF"],
			["jsonl", "JSON Lines"],
			["sharegpt", "ShareGPT"]
		], "", { "aria-label": "Format of the export" });
		const download = make("a", {
			class: "button",
			download: ""
		}, "Export");
		const drawDownload = () => {
			download.href = exportAddress({
				format: format.value,
				form: "file"
			}, [id], new URLSearchParams());
		};
		format.addEventListener("change", drawDownload);
		drawDownload();
		const live = make("span", {
			class: "live",
			role: "status"
		});
		const panels = {
			conversation: make("div", {
				class: "tabPanel",
				role: "tabpanel",
				"aria-label": "Conversation"
			}, talk.element),
			timeline: make("div", {
				class: "tabPanel",
				role: "tabpanel",
				"aria-label": "Timeline"
			}, viewer),
			totals: make("div", {
				class: "tabPanel",
				role: "tabpanel",
				"aria-label": "Totals"
			}),
			feedback: make("div", {
				class: "tabPanel",
				role: "tabpanel",
				"aria-label": "Scores and notes"
			})
		};
		const left = make("div", { class: "leftSide" }, panels.conversation, panels.totals, panels.feedback);
		const split = make("div", { class: "split" }, left, panels.timeline);
		const buttons = tabs.map(([tab, label], index) => {
			const made = make("button", {
				type: "button",
				role: "tab",
				"data-tab": tab
			}, label);
			made.addEventListener("click", () => choose(tab));
			made.addEventListener("keydown", ({ key }) => {
				const step = steps[key];
				if (step === void 0) return;
				const seen = buttons.filter((one) => one.checkVisibility());
				const next = seen[(seen.indexOf(made) + step + seen.length) % seen.length] ?? buttons[index];
				next?.click();
				next?.focus();
			});
			return made;
		});
		const bar = make("div", {
			class: "tabs",
			role: "tablist",
			"aria-label": "Views of the session"
		}, ...buttons);
		const element = make("section", { class: "session" }, head, problem, bar, split);
		const choose = (tab) => {
			element.dataset["tab"] = tab;
			for (const one of buttons) {
				const isChosen = one.dataset["tab"] === tab;
				one.setAttribute("aria-selected", String(isChosen));
				one.tabIndex = isChosen ? 0 : -1;
			}
			const [first] = buttons;
			if (first !== void 0 && buttons.every((one) => one.tabIndex < 0 || !one.checkVisibility())) first.tabIndex = 0;
			remember({ tab: tab === "conversation" ? "" : tab });
		};
		const drawHead = ({ scores, summary, warnings }) => {
			const { cwd, failure, source, startedAt, status } = summary;
			const kin = kinship(summary);
			head.replaceChildren(make("div", { class: "titleLine" }, el("h1", "", titleOf(summary)), statusChip(status), live, el("span", "gap"), button("Compare with …", () => openComparison(id)), format, download), make("div", { class: "figuresLine" }, ...figures(summary), ...scores.filter(({ run }) => run === void 0).slice(0, 4).map(({ name, value }) => el("span", "tag", \`\${name}: \${String(value)}\`))), make("div", { class: "meta dim" }, \`\${id} · \${source}\${cwd === void 0 ? "" : \` · \${cwd}\`} · \`, time(startedAt), ...kin.length > 0 ? [" · ", ...kin] : []), ...failure === void 0 ? [] : [el("p", "failure", failure)], ...about.write ? [] : [el("p", "dim hint", readOnly)], ...warnings.map((warning) => notice(warning, "bad")));
			live.textContent = status === "running" ? "● live" : "";
		};
		const drawSides = (shown) => {
			const { agents, models, runs } = shown;
			if (!panels.totals.contains(document.activeElement)) panels.totals.replaceChildren(make("section", { class: "panel" }, runsTable(id, runs), ...agents.length === 0 ? [] : [agentsTable(agents)], ...models.length === 0 ? [] : [modelsTable(models)]));
			if (!panels.feedback.contains(document.activeElement)) drawFeedback(shown);
		};
		const drawFeedback = (shown) => panels.feedback.replaceChildren(feedback(id, shown, about.write, () => void reread()));
		const reread = async () => {
			const now = await detail(id, aborter.signal);
			detail$2 = detail$2 === void 0 ? now : {
				...detail$2,
				summary: now.summary,
				scores: now.scores,
				notes: now.notes
			};
			drawHead(detail$2);
			drawFeedback(detail$2);
		};
		const follow = (event) => {
			if (detail$2 === void 0) return;
			const { messages, pool: _, rows: __, sums: ___, ...rest } = event;
			const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 60 && list.scrollHeight > list.clientHeight;
			detail$2 = {
				...rest,
				data: dataOf(detail$2.data, event),
				messages: applied(detail$2.messages, messages)
			};
			drawHead(detail$2);
			drawSides(detail$2);
			talk.update(messages);
			update(detail$2.data);
			if (isAtEnd) list.scrollTop = list.scrollHeight;
		};
		const show = (given) => {
			detail$2 = given;
			document.title = \`\${titleOf(given.summary)} · hermes studio\`;
			drawHead(given);
			drawSides(given);
			talk.update({
				from: 0,
				items: given.messages
			});
			load(given.data);
			restore();
			if (given.summary.status === "running") {
				talk.toEnd();
				list.scrollTop = list.scrollHeight;
			}
			stop = listenToSession(id, given.sequence, {
				on: follow,
				problem: (message) => problem.replaceChildren(notice(message, "bad")),
				lost: (isLost) => {
					problem.replaceChildren(...isLost ? [notice("The studio does not answer: what is shown may be old. It connects again by itself.", "bad")] : []);
				}
			});
		};
		const chooseAsked = () => {
			const asked = route().parameters.get("tab");
			choose(tabs.find(([tab]) => tab === asked)?.[0] ?? "conversation");
		};
		head.append(notice("Reading the session …"));
		chooseAsked();
		detail(id, aborter.signal).then(show).catch((error) => {
			if (!aborter.signal.aborted) head.replaceChildren(notice(messageOf(error), "bad"), link("Back to the list", address("")));
		});
		return {
			element,
			selected: () => talk.mark(state.selected),
			moved: () => {
				chooseAsked();
				if (detail$2 !== void 0) restore();
			},
			close: () => {
				aborter.abort();
				stop();
			}
		};
	};
	const main = make("main", {
		id: "main",
		tabindex: "-1"
	});
	const nav = make("nav", { "aria-label": "Pages" });
	const home = make("span", { class: "home dim" });
	let shown;
	const pages = [["", "Sessions"], ["insights", "Insights"]];
	const drawNav = () => {
		const { page, parameters } = route();
		nav.replaceChildren(...pages.map(([name, label]) => {
			const made = link(label, address(name, page === "" || page === "insights" ? kept(parameters) : void 0));
			if (page === name) made.setAttribute("aria-current", "page");
			return made;
		}));
	};
	const listPage = () => {
		const filters = sessionFilters(true);
		const { close, element } = sessionTable(filters);
		return {
			element: make("div", { class: "listPage" }, filters.element, element),
			close
		};
	};
	const insightsPage = () => {
		const filters = sessionFilters(false);
		const { close, element } = insights(filters);
		return {
			element: make("div", { class: "listPage" }, filters.element, element),
			close
		};
	};
	const failed = (message) => ({
		element: make("div", { class: "panel" }, notice(message, "bad"), link("Sessions", address(""))),
		close: () => void 0
	});
	const about = about$1();
	const pageOf = async () => {
		const { id, page } = route();
		switch (page) {
			case "":
				document.title = "Sessions · hermes studio";
				return listPage();
			case "insights":
				document.title = "Insights · hermes studio";
				return insightsPage();
			case "session": return sessionPage(id, await about);
			case "compare": return comparePage();
			default: return failed("There is no such page.");
		}
	};
	const identity = () => {
		const { id, page, parameters } = route();
		for (const name of [
			"row",
			"view",
			"tab"
		]) parameters.delete(name);
		return address(page, parameters, id);
	};
	let current;
	const keepTyping = (id, from) => {
		const field = id === void 0 ? null : document.getElementById(id);
		if (!(field instanceof HTMLInputElement)) return;
		field.focus();
		field.setSelectionRange(from, from);
	};
	const show = async () => {
		drawNav();
		const wanted = identity();
		if (wanted === current) return shown?.moved?.();
		const isFirst = current === void 0;
		current = wanted;
		const active = document.activeElement;
		const typing = active instanceof HTMLInputElement && active.id === "query" ? active : void 0;
		const caret = typing?.selectionStart ?? null;
		shown?.close();
		shown = void 0;
		closeHelp();
		let next;
		try {
			next = await pageOf();
		} catch (error) {
			next = failed(messageOf(error));
		}
		if (current !== wanted) return next.close();
		shown = next;
		main.replaceChildren(next.element);
		main.scrollTop = 0;
		if (typing !== void 0) keepTyping(typing.id, caret);
		else if (!isFirst) main.focus({ preventScroll: true });
	};
	address$1.read = () => {
		const { page, parameters } = route();
		const row = parameters.get("row");
		return new URLSearchParams({
			view: parameters.get("view") ?? (page === "compare" ? "2" : "0"),
			...row === null ? {} : { row }
		});
	};
	address$1.write = (given) => {
		const { page } = route();
		if (page === "session" || page === "compare") remember({
			row: given.get("row") ?? "",
			view: page === "compare" ? given.get("view") ?? "" : ""
		});
	};
	selected.listen(() => shown?.selected?.());
	document.body.append(make("header", { class: "frame" }, make("a", {
		href: "#main",
		class: "skip"
	}, "Skip to the content"), el("b", "brand", "hermes studio"), nav, home), main);
	document.querySelector(".skip")?.addEventListener("click", (event) => {
		event.preventDefault();
		main.focus();
	});
	start();
	document.addEventListener("keydown", (event) => {
		const isTyping = document.activeElement?.matches("input, textarea, select") ?? false;
		const search = document.getElementById("query");
		if (event.key !== "/" || isTyping || search === null || event.ctrlKey || event.metaKey || event.altKey) return;
		event.preventDefault();
		search.focus();
	});
	const drawHome = async () => {
		try {
			const { home: directory, unread, version, write } = await about;
			const leftOut = unread === 0 ? "" : \`\${unread === 1 ? "1 entry" : \`\${unread} entries\`} left out · \`;
			home.textContent = \`\${leftOut}\${version} · \${directory}\${write ? "" : " · read-only"}\`;
			home.classList.toggle("incomplete", unread > 0);
		} catch (error) {
			home.textContent = messageOf(error);
		}
		home.title = home.textContent;
	};
	drawHome();
	addEventListener("hashchange", () => void show());
	show();
})();
`

export const style = `
:root{color-scheme:light dark;--bg:#fff;--panel:#f7f8fa;--fg:#1b2330;--dim:#5c6675;--line:#dde2ea;--hot:#e8f0fe;--focus:#1a5fd0;
--agent:#56647a;--user:#1f7a46;--system:#79590b;--llm:#2558c4;--tool:#7d35ab;--approval:#9f4714;--mark:#5f6878;--bad:#c02626;--good:#1f7a46;--hit:#ffe58a}
@media(prefers-color-scheme:dark){:root{--bg:#12161c;--panel:#181d25;--fg:#dfe5ee;--dim:#949fb0;--line:#2b323d;--hot:#1c2b47;--focus:#7fb0ff;
--agent:#8b98ac;--user:#62bd88;--system:#d0ad52;--llm:#7aa7fa;--tool:#c48be8;--approval:#e8965f;--mark:#7d8798;--bad:#f27878;--good:#62bd88;--hit:#6b5a14}}
*{box-sizing:border-box}html,body{height:100%;margin:0}[hidden]{display:none!important}
body{display:flex;flex-direction:column;background:var(--bg);color:var(--fg);font:13px/1.5 system-ui,sans-serif}
h1{font-size:14px;font-weight:650;margin:0;letter-spacing:.01em}
#viewer{container:viewer/inline-size;flex:1;display:flex;flex-direction:column;min-height:0;min-width:0;position:relative}
#top{padding:10px 16px 8px;display:flex;gap:6px 18px;align-items:center;flex-wrap:wrap}
#views{display:flex;gap:4px;min-width:0;flex-wrap:wrap}
.tab{max-width:340px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
#sums{display:flex;gap:2px 16px;flex-wrap:wrap;color:var(--dim)}
.sum b{color:var(--fg);font-weight:600;font-variant-numeric:tabular-nums}.sum.bad,.sum.bad b{color:var(--bad)}
button,input,select,textarea{font:inherit;color:inherit;background:var(--bg);border:1px solid var(--line);border-radius:6px;padding:2px 9px}
button{cursor:pointer}button:hover:not(:disabled){border-color:var(--dim)}button:disabled{opacity:.5;cursor:default}
button[aria-pressed=true],button[aria-selected=true]{background:var(--hot);border-color:var(--focus)}
.chip{display:inline-flex;gap:4px}.chip[aria-pressed=false]{color:var(--dim);text-decoration:line-through}
:focus-visible{outline:2px solid var(--focus);outline-offset:-1px}
#tools{padding:0 16px 8px;display:flex;gap:6px;align-items:center;flex-wrap:wrap}
#search{width:260px;padding:3px 9px}#kinds,#chosen{display:flex;gap:4px;flex-wrap:wrap}#filters{display:none}
.gap{flex:1}#count{color:var(--dim);font-variant-numeric:tabular-nums}
#map{height:92px;width:100%;display:block;border-block:1px solid var(--line);background:var(--panel);cursor:crosshair;flex:none;touch-action:none}
.diff #map,.diff #axisRow{display:none}
#panes{flex:1;display:flex;min-height:0;border-top:1px solid var(--line);position:relative}
#left{flex:3;display:flex;flex-direction:column;min-width:0;min-height:0}
#right{flex:2;display:flex;flex-direction:column;min-width:0;min-height:0;border-left:1px solid var(--line);background:var(--panel);position:relative}
#closeDetail{display:none}
#sideNames{display:flex;gap:10px;padding:2px 14px 2px 10px;flex:none;border-bottom:1px solid var(--line);color:var(--dim);overflow-y:scroll;scrollbar-color:transparent transparent}#sideNames b{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;display:block}
#axisRow{display:none}
main{flex:1;display:flex;min-height:0;border-top:1px solid var(--line)}.diff main{margin-top:0}
#left{flex:3;display:flex;flex-direction:column;min-width:0}
#axisRow{display:flex;gap:10px;padding:0 14px 0 10px;height:20px;flex:none;border-bottom:1px solid var(--line);color:var(--dim);font-size:11px;align-items:center;overflow-y:scroll;scrollbar-color:transparent transparent}
#axisRow>:first-child{flex:1}#axis{position:relative;flex:none;width:26%;height:100%}#axis span{position:absolute;top:2px;padding-left:3px;border-left:1px solid var(--line);white-space:nowrap}
#list:focus-visible{outline-width:1px}#list{flex:1;overflow:auto;overflow-y:scroll;position:relative;min-height:0}
#detail{flex:1;overflow:auto;padding:12px 16px 32px;min-width:0;min-height:0}
#room{position:relative}#none{padding:24px;color:var(--dim)}
.row{position:absolute;left:0;right:0;height:26px;display:flex;align-items:center;gap:10px;padding:0 14px 0 10px;white-space:nowrap;cursor:pointer}
.row:hover{background:var(--panel)}.row.on{background:var(--hot);box-shadow:inset 3px 0 var(--focus)}
.what{flex:1;display:flex;gap:7px;align-items:center;min-width:0;overflow:hidden}
.fold{width:14px;flex:none;color:var(--dim);text-align:center}
.kind{flex:none;width:14px;text-align:center;font-weight:700}
.name{flex:0 1 auto;max-width:240px;min-width:40px;overflow:hidden;text-overflow:ellipsis;font-weight:600}
.text{flex:1;overflow:hidden;text-overflow:ellipsis;color:var(--dim);min-width:30px}
.status{border:1px solid currentColor;border-radius:4px;padding:0 5px;font-size:11px;color:var(--dim);margin-left:2px}h2 .status{margin-left:8px}.status.bad,.bad .name{color:var(--bad)}
.cost,.time{flex:none;text-align:right;color:var(--dim);font-variant-numeric:tabular-nums}.cost{width:104px}.time{width:72px}
.track{flex:none;width:26%;height:12px;position:relative;background:linear-gradient(var(--line),var(--line)) 0 50%/100% 1px no-repeat}
.bar{position:absolute;top:2px;height:8px;border-radius:2px;min-width:3px}.bar.around{opacity:.35}
mark{background:var(--hit);color:inherit;border-radius:2px}
.sign{flex:none;width:14px;text-align:center;font-weight:700}.half{flex:1;min-width:0;display:flex}.half+.half{border-left:1px solid var(--line);padding-left:10px}
.changed .sign{color:var(--system)}.removed .sign{color:var(--bad)}.added .sign{color:var(--good)}.same .name,.same .sign{font-weight:400;color:var(--dim)}
.changed{background:color-mix(in srgb,var(--system) 9%,transparent)}.removed{background:color-mix(in srgb,var(--bad) 9%,transparent)}.added{background:color-mix(in srgb,var(--good) 9%,transparent)}
#detail h2{font-size:15px;margin:2px 0 6px;overflow-wrap:anywhere}#detail h3{font-size:12px;margin:16px 0 4px;color:var(--dim);display:flex;align-items:center;gap:8px;font-weight:600}
#detail dl{display:grid;grid-template-columns:auto 1fr;gap:1px 14px;margin:0}#detail dt{color:var(--dim)}#detail dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}#detail dd.bad{color:var(--bad);font-weight:600}
.dim{color:var(--dim)}.trail{color:var(--dim);font-size:12px;margin-bottom:4px;overflow-wrap:anywhere}.link{border:0;background:none;padding:0;color:var(--focus);text-decoration:underline}
.copy,.more{font-size:11px;padding:0 7px}.more{margin-top:4px}
pre{margin:0;padding:8px 10px;white-space:pre-wrap;overflow-wrap:anywhere;background:var(--bg);border:1px solid var(--line);border-radius:6px;font:12px/1.5 ui-monospace,"DejaVu Sans Mono",monospace}
.j,.j-line{font:12px/1.6 ui-monospace,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}.j .j,.j .j-line{margin-left:16px}.j-line{padding-left:13px;text-indent:-13px}.j-text{text-indent:0}
summary{cursor:pointer;list-style-position:outside}.j>summary{list-style:none}.j>summary::before{content:"▸ ";color:var(--dim)}.j[open]>summary::before{content:"▾ "}
.j-key{color:var(--llm)}.j-string{color:var(--good)}.j-number,.j-boolean,.j-null{color:var(--approval)}.j-count{color:var(--dim);font-size:11px}
.message{border:1px solid var(--line);border-radius:6px;background:var(--bg);margin-top:4px;padding:4px 10px}.message>summary{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;color:var(--dim)}.message[open]>summary{margin-bottom:4px}.message pre{border:0;padding:4px 0}
.sides{display:grid;grid-template-columns:1fr 1fr;gap:14px}.lines span{display:block;margin:0 -10px;padding:0 10px;white-space:pre-wrap}.minus{background:color-mix(in srgb,var(--bad) 14%,transparent)}.plus{background:color-mix(in srgb,var(--good) 14%,transparent)}
dialog{border:1px solid var(--line);border-radius:10px;background:var(--bg);color:var(--fg);padding:16px 22px;max-width:460px}dialog::backdrop{background:rgb(0 0 0/.4)}dialog dl{display:grid;grid-template-columns:auto 1fr;gap:4px 16px;margin:8px 0 14px}dialog dd{margin:0}kbd{font:12px ui-monospace,monospace;border:1px solid var(--line);border-radius:4px;padding:0 5px;background:var(--panel)}
.folded{margin-top:12px}.folded>summary{list-style-position:inside;color:var(--dim);font-size:12px;font-weight:600}.folded>.copy{margin:4px 0}
.wide{overflow-x:auto;margin-bottom:14px}.totals{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}.totals th,.totals td{text-align:right;padding:2px 0 2px 9px;font-weight:400;white-space:nowrap;border-bottom:1px solid var(--line)}
.totals tr:first-child th{color:var(--dim);font-size:12px}.totals th:first-child{text-align:left;padding-left:0;max-width:150px;overflow:hidden;text-overflow:ellipsis}.totals .link{max-width:100%;overflow:hidden;text-overflow:ellipsis;vertical-align:bottom;text-align:left}.totals td.bad{color:var(--bad);font-weight:600}
@container viewer (max-width:900px){#panes{flex-direction:column}#right{display:none;border-left:0;border-top:2px solid var(--line)}
.open #right{display:flex;flex:3}.open #left{flex:2}#closeDetail{display:block;position:absolute;top:6px;right:18px;z-index:1}#detail h2{padding-right:40px}.trail{padding-right:40px}
.cost{display:none}.track,#axis{width:20%}#map{height:64px}
#search{flex:1;width:auto;min-width:120px;max-width:320px}#filters{display:block}#chosen{display:none;width:100%;order:5}#tools.open #chosen{display:flex}}
@container viewer (max-width:600px){#top{padding:6px 10px}#sums{gap:0 12px;font-size:12px}#tools{padding:0 10px 6px}#tools .gap{display:none}#count{margin-right:auto}#map{height:52px}
#axisRow{display:none}.row{padding:0 10px;gap:6px}.track{position:absolute;left:10px;right:10px;bottom:0;width:auto;height:3px;background:none}.bar{top:0;height:3px}.time{width:56px}.name{max-width:45%}
.totals th,.totals td{padding-left:6px;font-size:12px}.totals th:first-child{max-width:100px}.sides{grid-template-columns:1fr}#detail{padding:8px 10px 24px}}
@media(pointer:coarse){button,input,select{min-height:28px}}
@media print{#tools,#map,#axisRow{display:none}}

.uplot, .uplot *, .uplot *::before, .uplot *::after {box-sizing: border-box;}.uplot {font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Noto Sans", sans-serif, "Apple Color Emoji", "Segoe UI Emoji", "Segoe UI Symbol", "Noto Color Emoji";line-height: 1.5;width: min-content;}.u-title {text-align: center;font-size: 18px;font-weight: bold;}.u-wrap {position: relative;user-select: none;}.u-over, .u-under {position: absolute;}.u-under {overflow: hidden;}.uplot canvas {display: block;position: relative;width: 100%;height: 100%;}.u-axis {position: absolute;}.u-legend {font-size: 14px;margin: auto;text-align: center;}.u-inline {display: block;}.u-inline * {display: inline-block;}.u-inline tr {margin-right: 16px;}.u-legend th {font-weight: 600;}.u-legend th > * {vertical-align: middle;display: inline-block;}.u-legend .u-marker {width: 1em;height: 1em;margin-right: 4px;background-clip: padding-box !important;}.u-inline.u-live th::after {content: ":";vertical-align: middle;}.u-inline:not(.u-live) .u-value {display: none;}.u-series > * {padding: 4px;}.u-series th {cursor: pointer;}.u-legend .u-off > * {opacity: 0.3;}.u-select {background: rgba(0,0,0,0.07);position: absolute;pointer-events: none;}.u-cursor-x, .u-cursor-y {position: absolute;left: 0;top: 0;pointer-events: none;will-change: transform;}.u-hz .u-cursor-x, .u-vt .u-cursor-y {height: 100%;border-right: 1px dashed #607D8B;}.u-hz .u-cursor-y, .u-vt .u-cursor-x {width: 100%;border-bottom: 1px dashed #607D8B;}.u-cursor-pt {position: absolute;top: 0;left: 0;border-radius: 50%;border: 0 solid;pointer-events: none;will-change: transform;/*this has to be !important since we set inline "background" shorthand */background-clip: padding-box !important;}.u-axis.u-off, .u-select.u-off, .u-cursor-x.u-off, .u-cursor-y.u-off, .u-cursor-pt.u-off {display: none;}
:root{--ok:var(--good)}
body{overflow:hidden}
a{color:var(--focus)}
.frame{display:flex;flex-wrap:wrap;gap:4px 16px;align-items:center;padding:6px 16px;border-bottom:1px solid var(--line);flex:none}
.frame nav{display:flex;gap:4px}.frame nav a{padding:2px 10px;border-radius:6px;color:inherit;text-decoration:none}.frame nav a:hover{background:var(--panel)}.frame nav a[aria-current]{background:var(--hot);font-weight:600}
.brand{font-size:14px}.home{margin-left:auto;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;min-width:0;max-width:60ch}
.skip{position:absolute;left:-999px;top:4px;background:var(--bg);padding:4px 10px;z-index:5}.skip:focus{left:8px}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
#main{flex:1;min-height:0;display:flex;flex-direction:column;outline-offset:-2px}#main:focus-visible{outline-width:1px}
.gap{flex:1}.bad{color:var(--bad)}
.button,button.primary{display:inline-block;border:1px solid var(--line);border-radius:6px;padding:2px 9px;background:var(--bg);color:var(--fg);text-decoration:none}.button:hover{border-color:var(--dim)}.button[aria-disabled=true]{opacity:.5}
button.primary{background:var(--focus);border-color:var(--focus);color:var(--bg);font-weight:600}
.small{font-size:11px;padding:0 7px}
.notice{margin:8px 0;padding:6px 12px;border-left:3px solid var(--focus);background:var(--panel);overflow-wrap:anywhere}.notice.bad{border-color:var(--bad);color:var(--fg)}
.state{font-size:11px;padding:0 7px;border-radius:9px;border:1px solid currentColor;white-space:nowrap;color:var(--dim)}.state.ok{color:var(--good)}.state.error{color:var(--bad)}.state.interrupted{color:var(--system)}.state.running{color:var(--focus)}
.tag{display:inline-block;font-size:11px;color:var(--dim);background:var(--panel);border:1px solid var(--line);border-radius:4px;padding:0 5px;margin-left:6px;font-weight:400;max-width:100%;overflow:hidden;text-overflow:ellipsis;vertical-align:middle}
.field{display:inline-flex;gap:6px;align-items:center;min-width:0}.field>span{color:var(--dim);font-size:12px;white-space:nowrap}.field select,.field input{min-width:0;max-width:230px}
select{background:var(--bg)}
.listPage{flex:1;overflow:auto;min-height:0;padding-bottom:24px}
.filters{padding:10px 16px 6px;display:flex;gap:8px 14px;flex-wrap:wrap;align-items:flex-start}.filters #query{flex:1 1 260px;max-width:480px;min-width:0;padding:3px 9px}
.filterBox{flex:0 1 auto}.filterBox>summary{border:1px solid var(--line);border-radius:6px;padding:2px 9px;display:inline-block;list-style:none;user-select:none}.filterBox>summary::before{content:"▸ ";color:var(--dim)}.filterBox[open]>summary::before{content:"▾ "}
.filterBox[open]{flex-basis:100%;order:5}.fields{display:flex;flex-wrap:wrap;gap:6px 16px;padding:8px 0 2px}.fields input[type=number]{width:90px}
.panel{padding:4px 16px 16px;min-width:0}.panel>.actions,.actions{display:flex;gap:6px 10px;align-items:center;flex-wrap:wrap;padding:4px 0}
.empty{color:var(--dim);padding:24px 0}
.tableBox{overflow-x:auto}.sessions{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}
.sessions th{text-align:left;color:var(--dim);font-size:12px;font-weight:600;padding:4px 8px;border-bottom:1px solid var(--line);white-space:nowrap}.sessions td{padding:5px 8px;border-bottom:1px solid var(--line);vertical-align:top;white-space:nowrap}
.sessions tbody tr:hover{background:var(--panel)}.sessions td[data-name=Session]{white-space:normal;min-width:220px;max-width:560px;width:45%}.sessions td[data-name=Model]{max-width:180px;overflow:hidden;text-overflow:ellipsis}
.sessions .name{max-width:none;font-weight:400;overflow:visible}.sessions .name a{font-weight:600;text-decoration:none;color:var(--fg);overflow-wrap:anywhere}.sessions .name a:hover{text-decoration:underline}
.sub{color:var(--dim);font-size:12px;overflow:hidden;display:-webkit-box;-webkit-line-clamp:2;-webkit-box-orient:vertical;overflow-wrap:anywhere}.sub.bad{color:var(--bad)}
.sessions td[data-name=Steps],.sessions td[data-name=Tokens],.sessions td[data-name=Cost],.sessions td[data-name=Time],.sessions td[data-name=Errors],.sessions th:nth-child(n+5):nth-child(-n+9){text-align:right}
.wideButton{display:block;margin:12px auto}
.figures{border-collapse:collapse;font-variant-numeric:tabular-nums;min-width:min(100%,420px)}.figures caption{text-align:left;font-weight:600;padding:10px 0 4px;color:var(--fg)}.figures th,.figures td{text-align:right;padding:3px 0 3px 16px;border-bottom:1px solid var(--line);font-weight:400;white-space:nowrap}.figures th{color:var(--dim);font-size:12px}.turn pre{padding:6px 10px}.figures .l{text-align:left}.figures th:first-child,.figures td:first-child{padding-left:0}.figures td.l{max-width:360px;overflow:hidden;text-overflow:ellipsis}
.tiles{display:flex;flex-wrap:wrap;gap:8px}.tiles .sum{border:1px solid var(--line);border-radius:8px;padding:6px 12px;background:var(--panel);color:var(--dim);font-size:12px}.tiles .sum b{display:block;font-size:16px}
.charts{display:grid;align-items:start;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:14px;margin:14px 0}.chart{margin:0;border:1px solid var(--line);border-radius:8px;padding:8px 12px;min-width:0}.chart figcaption{font-weight:600}.plot{min-height:190px;overflow:hidden}.numbers summary{list-style-position:inside;color:var(--dim);font-size:12px}.numbers .wide{max-height:240px;overflow:auto}
.uplot{font:inherit}.u-legend{font-size:12px;text-align:left;color:var(--dim)}.u-legend th{font-weight:400}.u-legend .u-label{display:inline-block;max-width:190px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;vertical-align:bottom}.u-legend .u-value{color:var(--fg);font-variant-numeric:tabular-nums;display:inline-block;min-width:5ch}
.session{flex:1;display:flex;flex-direction:column;min-height:0}.sessionHead{padding:8px 16px 4px;flex:none;max-height:34vh;overflow:auto}.titleLine{display:flex;gap:6px 10px;align-items:center;flex-wrap:wrap}.titleLine h1{font-size:16px;overflow-wrap:anywhere;max-width:70ch;overflow:hidden;display:-webkit-box;-webkit-line-clamp:2;-webkit-box-orient:vertical}
.live{color:var(--good);font-weight:600;font-size:12px}.figuresLine{display:flex;gap:2px 14px;align-items:center;margin-top:3px;flex-wrap:wrap;color:var(--dim)}.meta{font-size:12px;overflow-wrap:anywhere}.failure{margin:2px 0;color:var(--bad);overflow-wrap:anywhere}.hint{margin:0;font-size:12px}
.tabs{display:flex;gap:4px;padding:4px 16px;border-bottom:1px solid var(--line);flex:none;flex-wrap:wrap}
.split{flex:1;display:flex;min-height:0}.leftSide{flex:1;min-width:0;display:flex;flex-direction:column;min-height:0}.tabPanel{min-height:0;min-width:0;display:none;flex:1;flex-direction:column}
.tabPanel[aria-label=Totals],.tabPanel[aria-label="Scores and notes"]{overflow:auto}
.session[data-tab=conversation] [aria-label=Conversation].tabPanel,.session[data-tab=totals] [aria-label=Totals].tabPanel,.session[data-tab=feedback] [aria-label="Scores and notes"].tabPanel,.session[data-tab=timeline] [aria-label=Timeline].tabPanel{display:flex}
.tabPanel[aria-label=Totals],.tabPanel[aria-label="Scores and notes"]{flex-direction:column}
.session #sums{display:none}.session #top{padding:0}.session #views{display:none}.session #tools{padding-top:8px}
.conversation{position:relative;flex:1;min-height:0;display:flex}.scroller{flex:1;overflow:auto;padding:8px 16px 24px;min-width:0}.earlier{display:block;margin:0 auto 8px}
.jump{position:absolute;bottom:14px;left:50%;transform:translateX(-50%);background:var(--hot);border-color:var(--focus)}
.messages{max-width:860px;margin:0 auto}.messages .turn{background:none;border:0;border-left:3px solid var(--line);border-radius:0;padding:2px 0 4px 12px;margin:10px 0;content-visibility:auto;contain-intrinsic-size:auto 120px;overflow-wrap:anywhere}
.turn.user{border-color:var(--user)}.turn.assistant{border-color:var(--llm)}.turn.system,.turn.runtime{border-color:var(--system)}.turn.tool{border-color:var(--tool)}.turn.child{border-color:var(--agent)}.turn.marked{background:var(--hot)}
.turn>header{display:flex;gap:4px 10px;align-items:baseline;flex-wrap:wrap;color:var(--dim);font-size:12px}.writer{color:var(--fg)}
.md>:first-child{margin-top:4px}.md>:last-child{margin-bottom:4px}.md p,.md ul,.md ol,.md blockquote{margin:6px 0}.md ul,.md ol{padding-left:22px}.md h3,.md h4,.md h5,.md h6{margin:10px 0 4px;font-size:14px}.md code{font:12px ui-monospace,"DejaVu Sans Mono",monospace;background:var(--panel);border-radius:4px;padding:1px 4px}.md pre code{background:none;padding:0}.md pre{margin:6px 0}.md .code pre,.md>pre{overflow-x:auto;white-space:pre;overflow-wrap:normal}.md blockquote{border-left:3px solid var(--line);padding-left:10px;color:var(--dim)}.md table{border-collapse:collapse}.md th,.md td{border:1px solid var(--line);padding:2px 8px;text-align:left}.md .r{text-align:right}.md .c{text-align:center}.md hr{border:0;border-top:1px solid var(--line)}
.md li.task{list-style:none;margin-left:-18px}.code{position:relative}.code pre{padding-top:20px!important}.lang{position:absolute;right:8px;top:4px;font-size:11px;color:var(--dim)}.unsafe{text-decoration:underline dotted;cursor:help}
.lines span{min-height:1.5em}.hunk{color:var(--llm)}
.callBox{margin:5px 0}.call,.fileDiff,.reasoning,.long{border:1px solid var(--line);border-radius:6px;background:var(--panel);padding:2px 10px;margin:4px 0;min-width:0}.call>summary,.fileDiff>summary,.reasoning>summary,.long>summary{display:flex;gap:7px;align-items:center;list-style:none;min-width:0}.call .kind,.fileDiff .kind{color:var(--tool)}.call>summary b{flex:none;max-width:60%;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}.call>summary::before,.fileDiff>summary::before,.reasoning>summary::before,.long>summary::before{content:"▸";color:var(--dim)}[open].call>summary::before,[open].fileDiff>summary::before,[open].reasoning>summary::before,[open].long>summary::before{content:"▾"}
.args{flex:1;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;color:var(--dim);min-width:0;font:12px ui-monospace,monospace}.call .status{flex:none}.call.failed{border-color:var(--bad)}.call.failed .kind{color:var(--bad)}.reasoning .md{color:var(--dim)}.child{margin:4px 0 4px 10px;font-size:12px}
.image{display:inline-block;min-width:24px;min-height:24px}.image img{max-width:100%;max-height:420px;border:1px solid var(--line);border-radius:6px;display:block;margin:6px 0}
.note{border:1px solid var(--line);border-radius:6px;padding:4px 12px;margin:6px 0;background:var(--panel)}.note header{display:flex;gap:10px;font-size:12px;color:var(--dim)}.note p{white-space:pre-wrap;overflow-wrap:anywhere;margin:4px 0}.feedback caption{position:absolute;clip-path:inset(50%)}.feedback h2{font-size:14px;margin:12px 0 4px}
.inline{display:flex;flex-wrap:wrap;gap:6px 12px;align-items:end;padding:8px 0}.inline .field{flex-direction:column;align-items:stretch;gap:2px}.inline textarea{width:min(100%,420px);min-width:240px}
dialog.form{width:min(640px,94vw);max-width:none}dialog.form h2{margin:0 0 4px;font-size:16px}dialog.form .field{display:flex;flex-direction:column;align-items:stretch;margin:8px 0}dialog.form .field select{max-width:100%}dialog.form textarea{width:100%;font:12px/1.5 ui-monospace,monospace}
.comparison{flex:1;display:flex;flex-direction:column;min-height:0}.numbersBox{flex:none;max-height:46vh;overflow:auto;padding:6px 16px;border-bottom:1px solid var(--line)}.numbersBox>summary{display:flex;gap:10px;align-items:baseline;list-style:none;min-width:0}.numbersBox>summary::before{content:"▸";color:var(--dim)}.numbersBox[open]>summary::before{content:"▾"}.numbersBox>summary .dim{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}.compare{table-layout:fixed;width:100%}.figures.compare th,.figures.compare td{white-space:normal;overflow-wrap:anywhere;padding-left:10px;vertical-align:top}.compare th:first-child{width:24%}.sideBySide{display:flex;gap:16px 28px;flex-wrap:wrap;align-items:flex-start}.sideBySide>.wide{flex:1 1 460px;max-width:820px;min-width:0;margin:0}.sideBySide>.first{flex:1 1 300px;min-width:0}.compare .up{color:var(--bad)}.compare .down{color:var(--good)}.first{border-left:3px solid var(--system);padding:2px 12px;margin:4px 0}.first div{overflow-wrap:anywhere}.first b{margin-right:10px}
@media(min-width:1000px){.session[data-tab=timeline] .tabs [data-tab=conversation]{background:var(--hot);border-color:var(--focus)}.leftSide{border-right:1px solid var(--line)}.session .tabPanel[aria-label=Timeline]{display:flex;flex:1.25}.tabs [data-tab=timeline]{display:none}.session[data-tab=timeline] [aria-label=Conversation].tabPanel{display:flex}.session .leftSide{flex:1}}
@media(max-width:999px){.session:not([data-tab=timeline]) .leftSide{display:flex}.session[data-tab=timeline] .leftSide{display:none}}
@media(max-width:820px){.sideBySide>.first{order:-1}.sessions thead{display:none}.sessions,.sessions tbody,.sessions tr,.sessions td{display:block}.sessions tr{display:flex;flex-wrap:wrap;gap:2px 14px;padding:8px 0 8px 30px;position:relative;border-bottom:1px solid var(--line)}.sessions td{border:0;padding:0;color:var(--dim)}.sessions td:empty{display:none}.sessions td[data-name=""]{position:absolute;left:4px;top:8px}.sessions td[data-name=Session]{width:100%;max-width:none;color:var(--fg);min-width:0}.sessions td[data-name=Steps]::after{content:" steps"}.sessions td[data-name=Errors]::after{content:" failed";color:var(--bad)}}
@media(max-width:600px){.figures td.l{max-width:170px}.frame{padding:4px 10px}.home{max-width:100%;margin-left:0}.filters,.panel{padding-left:10px;padding-right:10px}.sessionHead{padding:6px 10px 2px;max-height:30vh}.tabs{padding:4px 10px}.tabs button{padding:2px 7px}.scroller{padding:6px 10px 20px}.fields .field{width:100%;justify-content:space-between}.home:not(.incomplete),.sessionHead .hint{display:none}.titleLine select{width:100px}.tabs button{padding:2px 6px;font-size:12px}.titleLine h1{font-size:14px}}
`
