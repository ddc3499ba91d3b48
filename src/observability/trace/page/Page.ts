/**
 * Entry point of the page's script, and the one place where its modules are put together.
 *
 * **Details**
 *
 * Text of a run gets to the screen as text, never as markup. `npm run build:page` bundles these modules into
 * `trace/PageScript.ts`; `test/tsconfig.page.json` checks them against the types of a browser.
 */
import { changeDetails } from "./DiffView.ts"
import { detail, list, readColours } from "./Elements.ts"
import { choose, drawFilters, startFilters } from "./Filters.ts"
import { drawMinimap, startMinimap } from "./Minimap.ts"
import { startKeys } from "./PageKeys.ts"
import { changes, isDiff, redraw, rows, selected, state, viewed } from "./PageState.ts"
import { rowDetails } from "./RowDetails.ts"
import { drawTabs, remember, restore, startTabs } from "./Tabs.ts"
import { drawTimeline, startTimeline } from "./Timeline.ts"

const drawDetails = (): void => {
  const change = isDiff() ? changes[state.selected] : undefined
  const row = rows()[state.selected]
  detail.replaceChildren(...(change !== undefined ? [changeDetails(change)] : row !== undefined ? [rowDetails(row)] : []))
  detail.scrollTop = 0
}

redraw.listen(drawTimeline, drawMinimap)
selected.listen(drawDetails, redraw.emit, remember)
viewed.listen(drawTabs, drawFilters, choose, remember)

startTimeline()
startMinimap()
startFilters()
startKeys()
addEventListener("resize", redraw.emit)
addEventListener("hashchange", restore)
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readColours()
  redraw.emit()
})
startTabs()
list.focus({ preventScroll: true })
