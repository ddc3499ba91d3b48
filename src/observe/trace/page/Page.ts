/**
 * Entry point of the script of the one-file page. It shows the runs that are embedded in the page.
 *
 * **Details**
 *
 * Text from a run is shown as text, never as markup. `npm run build:page` bundles these modules into
 * `dist/pages/trace.js`; `test/tsconfig.page.json` checks them against the types of a browser.
 */
import type { Data } from "../PageData.ts"
import { load } from "./PageState.ts"
import { list, viewer } from "./Skeleton.ts"
import { restore } from "./Tabs.ts"
import { start } from "./Viewer.ts"

const embedded = document.getElementById("data")
if (embedded === null) throw new Error("the page has no data")
document.body.append(viewer)
start()
// `JSON.parse` returns `any`, but `TraceView` wrote this element from a value of type `Data`.
const data: Data = JSON.parse(embedded.textContent)
load(data)
restore()
addEventListener("hashchange", restore)
list.focus({ preventScroll: true })
