import * as LiveSpans from "../../../src/observe/LiveSpans.ts"
import type { View } from "../../../src/observe/RunSpans.ts"

/** Live spans of one view; what its sink throws is thrown. */
export const live = (view: View, sink: LiveSpans.Sink) => {
  const spans = LiveSpans.make((error) => {
    throw error
  })
  return { add: spans.add, close: spans.show(view, sink) }
}
