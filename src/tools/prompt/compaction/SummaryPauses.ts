/**
 * Stores until when no note is requested for a conversation, after a model failed to write one. The next program that
 * continues the conversation observes the pause, too.
 *
 * The file is `cache/compaction.json` in the home directory. It may be lost without harm.
 *
 * Source: `hermes-llm.md` §10.5.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import type { SessionId } from "../../../base/domain/Ids.ts"
import * as HomeFile from "../../../models/routing/HomeFile.ts"

/** Stores the pauses of conversations. A conversation is identified by its first session. */
export interface Service {
  /** Returns the time until which no note is requested, in milliseconds since 1970; 0 without a pause. */
  readonly load: (conversation: SessionId) => Effect.Effect<number>
  readonly save: (conversation: SessionId, until: number) => Effect.Effect<void>
}

/** Store that saves nothing. */
export const none: Service = { load: () => Effect.succeed(0), save: () => Effect.void }

/** Reference to the store of pauses. By default, pauses are lost when the process ends. */
export const SummaryPauses = Context.Reference<Service>("hermes-effect/prompt/SummaryPauses", {
  defaultValue: () => none
})

const Saved = Schema.Struct({ version: Schema.Literal(1), until: Schema.Record(Schema.String, Schema.Finite) })

/** Opens the store in a home directory. The file is read when a note is needed. */
export const openFile = (home: string): Effect.Effect<Service, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const text = Schema.fromJsonString(Saved)
    const { load, save } = yield* HomeFile.makeMemory(home, "cache/compaction.json", text, { version: 1, until: {} })
    const writing = yield* Semaphore.make(1)
    return {
      load: (conversation) =>
        Effect.map(load, ({ until }) => (Object.hasOwn(until, conversation) ? (until[conversation] ?? 0) : 0)),
      save: (conversation, end) =>
        writing.withPermit(
          Effect.gen(function* () {
            const now = yield* Clock.currentTimeMillis
            const { until } = yield* load
            const current = Object.entries(until).filter(([, time]) => time > now)
            yield* save({ version: 1, until: { ...Object.fromEntries(current), [conversation]: end } })
          })
        )
    }
  })
