/** The map above the tree: everything at once, what is parallel in lanes; dragging zooms. */
export const overview = String.raw`
  const lane = 7, axisTall = 16, lanes = 10;
  const ticks = (from, to, most) => {
    const raw = (to - from) / most;
    const power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw) || raw;
    const found = [];
    for (let at = step; at < to - from; at += step) found.push(at);
    return found;
  };
  const drawAxis = () => {
    const axis = byId("axis");
    const { from, to } = window_();
    const whole = limits[state.view === data.runs.length ? 0 : state.view][state.scale];
    axis.replaceChildren(...ticks(from, to, 5).filter((at) => at / (to - from) < 0.9).map((at) => {
      const tick = el("span", "", inScale(from - whole.from + at));
      tick.style.left = at / (to - from) * 100 + "%";
      return tick;
    }));
  };
  const drawMap = () => {
    document.body.classList.toggle("diff", isDiff());
    byId("unzoom").hidden = isDiff() || state.zoom === undefined;
    if (isDiff()) return;
    drawAxis();
    const { clientWidth: width, clientHeight: tall } = map;
    const scale = window.devicePixelRatio || 1;
    map.width = width * scale;
    map.height = tall * scale;
    const pen = map.getContext("2d");
    if (!pen) return;
    pen.scale(scale, scale);
    pen.clearRect(0, 0, width, tall);
    const { from, to } = window_();
    const whole = limits[state.view][state.scale];
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "top";
    for (const at of ticks(from, to, Math.max(2, Math.floor(width / 120)))) {
      const x = Math.round(at / (to - from) * width) + 0.5;
      pen.fillStyle = colours.line;
      pen.fillRect(x, 0, 1, tall);
      pen.fillStyle = colours.dim;
      pen.fillText(inScale(from - whole.from + at), x + 4, 2);
    }
    const selected = state.selected >= 0 ? run().rows[state.selected] : undefined;
    const paint = (row) => {
      const where = extent(row);
      if (where === undefined || row.kind === "agent" && row.depth === 0) return;
      const left = Math.max(0, (where.from - from) / (to - from) * width), right = Math.min(width, (where.to - from) / (to - from) * width);
      if (right < 0 || left > width || right < left) return;
      const y = axisTall + Math.min(Math.max(0, row.depth - 1 + row.lane), lanes - 1) * lane;
      pen.globalAlpha = row.kind === "agent" ? 0.35 : 1;
      pen.fillStyle = isBad(row) ? colours.bad : colours[row.kind];
      pen.fillRect(left, y, Math.max(1.5, right - left), lane - 2);
      pen.globalAlpha = 1;
      if (row === selected) {
        pen.fillStyle = colours.fg;
        pen.fillRect(left, y + lane - 2, Math.max(3, right - left), 2);
      }
    };
    state.shown.forEach(paint);
    if (selected) paint(selected);
    if (dragged) {
      pen.fillStyle = colours.hot;
      pen.globalAlpha = 0.6;
      pen.fillRect(Math.min(dragged.from, dragged.to), 0, Math.abs(dragged.to - dragged.from), tall);
      pen.globalAlpha = 1;
    }
  };
  const atPoint = (x) => {
    const { from, to } = window_();
    return from + Math.max(0, Math.min(1, x / map.clientWidth)) * (to - from);
  };
  const nearest = (x, y) => {
    const at = atPoint(x);
    const row = Math.floor((y - axisTall) / lane);
    let best = -1, distance = Infinity;
    state.shown.forEach((one, index) => {
      const where = extent(one);
      if (where === undefined || one.kind === "agent" && one.depth === 0) return;
      const away = at < where.from ? where.from - at : at > where.to ? at - where.to : (where.to - where.from) / 1e6;
      const off = away / (window_().to - window_().from) + Math.abs(Math.min(one.depth - 1 + one.lane, lanes - 1) - row) * 0.02;
      if (off < distance) { distance = off; best = index; }
    });
    return best;
  };
  let dragged;
  map.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    dragged = { from: event.offsetX, to: event.offsetX };
    map.setPointerCapture(event.pointerId);
  });
  map.addEventListener("pointermove", (event) => {
    if (dragged) {
      dragged.to = event.offsetX;
      drawMap();
      return;
    }
    const row = state.shown[nearest(event.offsetX, event.offsetY)];
    map.title = row && !isDiff() ? [row.name, row.text.slice(0, 80), lasted(row)].filter(Boolean).join("\n") : "";
  });
  map.addEventListener("pointerup", (event) => {
    if (!dragged) return;
    const { from, to } = dragged;
    dragged = undefined;
    if (Math.abs(to - from) < 6) {
      const index = nearest(event.offsetX, event.offsetY);
      if (index >= 0) reveal(index);
      return drawMap();
    }
    zoomTo({ from: atPoint(Math.min(from, to)), to: atPoint(Math.max(from, to)) });
  });
  map.addEventListener("dblclick", () => zoomTo(undefined));
  const zoomTo = (zoom) => {
    state.zoom = zoom;
    draw();
    drawMap();
  };
  byId("unzoom").addEventListener("click", () => zoomTo(undefined));
  byId("scale").addEventListener("click", () => {
    state.scale = state.scale === "time" ? "tokens" : "time";
    byId("scale").textContent = "by " + state.scale;
    zoomTo(undefined);
  });
`
