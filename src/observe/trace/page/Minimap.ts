/**
 * The map above the timeline. It always shows the whole run, with parallel rows in lanes and the zoomed part
 * highlighted. Dragging selects or moves the zoomed part.
 */
import type { Row } from "../Row.ts"
import { colours, el } from "./Elements.ts"
import { formatRowDuration } from "./Figures.ts"
import { type Extent, extent, inScale, isDiff, rows, state, visible, whole, zoomTo } from "./PageState.ts"
import { reveal } from "./Selection.ts"
import { getBarColour } from "./Timeline.ts"
import { byId, map, viewer } from "./Skeleton.ts"

/** Height of a lane and of the axis above the lanes, in pixels. */
const laneHeight = 7
const axisHeight = 16
const lanes = 10

/** Width reserved for a tick of the axis, in pixels. */
const tickWidth = 52

/** Distance from which a mouse movement counts as a drag and not as a click, in pixels. */
const dragFrom = 6

/** Returns round amounts between 0 and the length of an interval, approximately `most` of them. */
const ticks = ({ from, to }: Extent, most: number): ReadonlyArray<number> => {
  const raw = (to - from) / most
  const power = Math.pow(10, Math.floor(Math.log10(raw)))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw) ?? raw
  const found: Array<number> = []
  for (let at = step; at < to - from; at += step) found.push(at)
  return found
}

/** Draws the axis in the header of the timeline. */
const drawAxis = (): void => {
  const { from, to } = visible()
  const marks = ticks(visible(), Math.max(1, Math.min(5, byId("axis").clientWidth / tickWidth))).filter(
    (at) => at / (to - from) < 0.9
  )
  byId("axis").replaceChildren(
    ...marks.map((at) => {
      const tick = el("span", "", inScale(from - whole().from + at))
      tick.style.left = `${(at / (to - from)) * 100}%`
      return tick
    })
  )
}

/** Tests whether a row has a bar on the map. The top agent does not, because its bar would span the whole map. */
const isOnMap = (row: Row): boolean => row.kind !== "agent" || row.depth > 0

const computeLane = (row: Row): number => Math.min(row.depth - 1 + row.lane, lanes - 1)

const shownRows = (): ReadonlyArray<Row> => {
  const all = rows()
  return state.shown.flatMap((key) => all[key] ?? [])
}

/** A drag over the map, in pixels. It moves the zoomed part if it began inside that part. */
interface Drag {
  readonly from: number
  to: number
  readonly moves: Extent | undefined
}

let dragged: Drag | undefined

const drawTicks = (pen: CanvasRenderingContext2D, width: number, height: number): void => {
  const { from, to } = whole()
  pen.font = "11px system-ui, sans-serif"
  pen.textBaseline = "top"
  for (const at of ticks(whole(), Math.max(2, Math.floor(width / 120)))) {
    const x = Math.round((at / (to - from)) * width) + 0.5
    pen.fillStyle = colours.line
    pen.fillRect(x, 0, 1, height)
    pen.fillStyle = colours.dim
    pen.fillText(inScale(at), x + 4, 2)
  }
}

const drawBar = (pen: CanvasRenderingContext2D, row: Row, width: number): void => {
  const where = extent(row)
  if (where === undefined || !isOnMap(row)) return
  const { from, to } = whole()
  const left = Math.max(0, ((where.from - from) / (to - from)) * width)
  const right = Math.min(width, ((where.to - from) / (to - from)) * width)
  if (right < 0 || left > width || right < left) return
  const y = axisHeight + Math.max(0, computeLane(row)) * laneHeight
  pen.globalAlpha = row.kind === "agent" ? 0.35 : 1
  pen.fillStyle = getBarColour(row)
  pen.fillRect(left, y, Math.max(1.5, right - left), laneHeight - 2)
  pen.globalAlpha = 1
  if (row.id === state.selected) {
    pen.fillStyle = colours.fg
    pen.fillRect(left, y + laneHeight - 2, Math.max(3, right - left), 2)
  }
}

const toPixels = (zoom: Extent): Extent => {
  const { from, to } = whole()
  const scale = map.clientWidth / (to - from)
  return { from: (zoom.from - from) * scale, to: (zoom.to - from) * scale }
}

/** Dims the map outside the zoomed part, and draws a frame around that part. */
const drawZoom = (pen: CanvasRenderingContext2D, zoom: Extent, width: number, height: number): void => {
  const { from, to } = toPixels(zoom)
  pen.fillStyle = colours.panel
  pen.globalAlpha = 0.72
  pen.fillRect(0, 0, from, height)
  pen.fillRect(to, 0, width - to, height)
  pen.globalAlpha = 1
  pen.fillStyle = colours.focus
  pen.fillRect(from, 0, Math.max(2, to - from), 2)
  pen.fillRect(from, height - 2, Math.max(2, to - from), 2)
  pen.fillRect(from - 1, 0, 2, height)
  pen.fillRect(to - 1, 0, 2, height)
}

/** Draws the map and the axis. In the difference view, both are hidden. */
export const drawMinimap = (): void => {
  viewer.classList.toggle("diff", isDiff())
  byId("unzoom").hidden = isDiff() || state.zoom === undefined
  if (isDiff()) return
  drawAxis()
  const { clientHeight: height, clientWidth: width } = map
  const scale = window.devicePixelRatio || 1
  map.width = width * scale
  map.height = height * scale
  const pen = map.getContext("2d")
  if (pen === null) return
  pen.scale(scale, scale)
  pen.clearRect(0, 0, width, height)
  drawTicks(pen, width, height)
  for (const row of shownRows()) drawBar(pen, row, width)
  // The selected row is drawn again above the others.
  const selected = rows()[state.selected]
  if (selected !== undefined) drawBar(pen, selected, width)
  if (dragged !== undefined && dragged.moves === undefined) {
    pen.fillStyle = colours.hot
    pen.globalAlpha = 0.6
    pen.fillRect(Math.min(dragged.from, dragged.to), 0, Math.abs(dragged.to - dragged.from), height)
    pen.globalAlpha = 1
  }
  if (state.zoom !== undefined) drawZoom(pen, state.zoom, width, height)
}

/** Returns the time or the tokens at a horizontal position on the map. */
const amountAt = (x: number): number => {
  const { from, to } = whole()
  return from + Math.max(0, Math.min(1, x / map.clientWidth)) * (to - from)
}

/** Returns the index of the shown row that is nearest to a point of the map, or -1 if no row has a bar. */
const nearest = (x: number, y: number): number => {
  const at = amountAt(x)
  const { from, to } = whole()
  const lane = Math.floor((y - axisHeight) / laneHeight)
  let best = -1
  let distance = Infinity
  shownRows().forEach((row, place) => {
    const where = extent(row)
    if (where === undefined || !isOnMap(row)) return
    // If several rows contain the point, the shortest one is selected.
    const away = at < where.from ? where.from - at : at > where.to ? at - where.to : (where.to - where.from) / 1e6
    const off = away / (to - from) + Math.abs(computeLane(row) - lane) * 0.02
    if (off < distance) {
      distance = off
      best = place
    }
  })
  return best
}

const isInZoom = (x: number): boolean => {
  if (state.zoom === undefined) return false
  const { from, to } = toPixels(state.zoom)
  return x >= from && x <= to
}

const onMove = (x: number, y: number): void => {
  if (dragged === undefined) {
    const row = shownRows()[nearest(x, y)]
    map.title =
      row === undefined ? "" : [row.name, row.text.slice(0, 80), formatRowDuration(row)].filter(Boolean).join("\n")
    map.style.cursor = isInZoom(x) ? "grab" : "crosshair"
    return
  }
  dragged.to = x
  const { moves } = dragged
  if (moves === undefined) return drawMinimap()
  const by = amountAt(dragged.to) - amountAt(dragged.from)
  zoomTo({ from: moves.from + by, to: moves.to + by })
}

/** Listens to the events of the map and of its scale buttons. */
export const startMinimap = (): void => {
  map.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return
    dragged = { from: event.offsetX, to: event.offsetX, moves: isInZoom(event.offsetX) ? state.zoom : undefined }
    map.setPointerCapture(event.pointerId)
  })
  map.addEventListener("pointermove", (event) => onMove(event.offsetX, event.offsetY))
  map.addEventListener("pointercancel", () => {
    dragged = undefined
  })
  map.addEventListener("pointerup", (event) => {
    if (dragged === undefined) return
    const { from, moves, to } = dragged
    dragged = undefined
    if (Math.abs(to - from) < dragFrom) {
      reveal(nearest(event.offsetX, event.offsetY))
      drawMinimap()
    } else if (moves === undefined) zoomTo({ from: amountAt(Math.min(from, to)), to: amountAt(Math.max(from, to)) })
  })
  map.addEventListener("dblclick", () => zoomTo(undefined))
  byId("unzoom").addEventListener("click", () => zoomTo(undefined))
  byId("scale").addEventListener("click", () => {
    state.scale = state.scale === "time" ? "tokens" : "time"
    byId("scale").textContent = `by ${state.scale}`
    zoomTo(undefined)
  })
}
