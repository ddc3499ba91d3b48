/** The viewer of runs, assembled from its modules. A page shows {@link viewer} and passes runs to it with `load`. */
import { drawDetails, openDetails, startDetails } from "./DetailPane.ts"
import { readColours } from "./Elements.ts"
import { choose, drawChoice, drawFilters, startFilters } from "./Filters.ts"
import { drawMinimap, startMinimap } from "./Minimap.ts"
import { startKeys } from "./PageKeys.ts"
import { loaded, redraw, selected, viewed } from "./PageState.ts"
import { help, viewer } from "./Skeleton.ts"
import { drawTabs, makeTabs, remember } from "./Tabs.ts"
import { drawTimeline, startTimeline } from "./Timeline.ts"

/** Starts listening to the viewer and to its state. Must be called once per page. */
export const start = (): void => {
  redraw.listen(drawTimeline, drawMinimap)
  selected.listen(drawDetails, openDetails, redraw.emit, remember)
  viewed.listen(drawTabs, drawFilters, choose, drawDetails, openDetails, remember)
  loaded.listen(makeTabs, drawChoice, drawTabs, drawFilters, choose, drawDetails)
  startTimeline()
  startMinimap()
  startFilters()
  startDetails()
  startKeys()
  new ResizeObserver(() => {
    if (viewer.isConnected) redraw.emit()
  }).observe(viewer)
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours()
    if (viewer.isConnected) redraw.emit()
  })
}

/** Closes the dialog that lists the keyboard shortcuts. */
export const closeHelp = (): void => help.close()
