/**
 * Feeds spans with what the run record gets, away from the runs: whoever writes the record goes on at once. At the end of the
 * scope what was written is taken, and what is still open is ended.
 */
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Entry } from "../domain/RecordEvent.ts"
import { RunRecord } from "../session/RunRecord.ts"
import * as RunSpans from "./RunSpans.ts"

/**
 * Makes spans of the runs of this process, for as long as the scope lives. `needsMessages` is true where the view shows what a
 * model was sent: a session that goes on is then read from the record once.
 */
export const listen = (
  view: RunSpans.View,
  sink: RunSpans.Sink,
  needsMessages: boolean
): Effect.Effect<void, never, RunRecord | Scope.Scope> =>
  Effect.gen(function*() {
    const record = yield* RunRecord
    const spans = RunSpans.live(view, sink)
    const queue = yield* Queue.unbounded<Entry, Cause.Done>()

    const earlier = ({ sessionId }: Entry): Effect.Effect<void> =>
      Stream.runCollect(record.read({ sessionId, kinds: ["MessageAppended", "ToolsOffered"] })).pipe(
        Effect.map(spans.remember),
        Effect.catch((error) => Effect.logDebug(`spans of the session ${sessionId} lack its earlier messages: ${error.message}`))
      )
    const take = Effect.fnUntraced(function*(entries: ReadonlyArray<Entry>) {
      if (needsMessages) {
        for (const entry of entries) {
          if (entry.event._tag === "RunStarted" && entry.event.resumed && !spans.knows(entry.sessionId)) yield* earlier(entry)
        }
      }
      spans.add(entries)
    })
    const worker = yield* Effect.forkScoped(
      Effect.catchTag(Effect.forever(Effect.flatMap(Queue.takeAll(queue), take)), "Done", () => Effect.void)
    )
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => Queue.endUnsafe(queue)).pipe(
        Effect.andThen(Fiber.await(worker)),
        Effect.andThen(Clock.currentTimeMillis),
        Effect.map(spans.close)
      )
    )
    yield* record.listen((entries) => void Queue.offerAllUnsafe(queue, entries))
  })
