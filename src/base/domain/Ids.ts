/**
 * Branded identifiers and their constructors. Every kind of id that leaves the runtime (in events, hooks, traces and
 * the store) has its own brand, so that a session id cannot be passed where a turn id is expected.
 *
 * **Example** (The ids of a run)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Ids } from "hermes-effect"
 *
 * const program = Effect.gen(function*() {
 *   const session = yield* Ids.makeSessionId
 *   return yield* Ids.makeTurnId(session, Ids.TaskId.make("nightly"))
 * })
 *
 * console.log((await Effect.runPromise(program)).includes(":nightly:"))
 * // => true
 * ```
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"

/**
 * Identity of a conversation. The runtime creates ids of the form `YYYYMMDD_HHMMSS_<6 hex>` (`hermes-product.md`
 * §1.7); an application may use its own ids.
 */
export const SessionId = Schema.NonEmptyString.pipe(Schema.brand("SessionId"))
/** Type of {@link SessionId}. */
export type SessionId = typeof SessionId.Type

/** Converts the id of a session to a part of a file name. */
export const toFileName = (sessionId: string): string => sessionId.replace(/[^\w.@#=+-]/gu, "_").slice(0, 200)

/** Identity of one run (a user turn), shared by its model attempts and tool calls. Opaque. */
export const TurnId = Schema.NonEmptyString.pipe(Schema.brand("TurnId"))
/** Type of {@link TurnId}. */
export type TurnId = typeof TurnId.Type

/** Identity of a task: the session id for a top-level run, the subagent id for a delegated task. */
export const TaskId = Schema.NonEmptyString.pipe(Schema.brand("TaskId"))
/** Type of {@link TaskId}. */
export type TaskId = typeof TaskId.Type

/** Identity of one attempt to call a provider. Opaque. */
export const ApiRequestId = Schema.NonEmptyString.pipe(Schema.brand("ApiRequestId"))
/** Type of {@link ApiRequestId}. */
export type ApiRequestId = typeof ApiRequestId.Type

/** Identity of one tool call, as assigned by the model; unique within its assistant message. */
export const ToolCallId = Schema.NonEmptyString.pipe(Schema.brand("ToolCallId"))
/** Type of {@link ToolCallId}. */
export type ToolCallId = typeof ToolCallId.Type

/**
 * Returns `count` lower-case hexadecimal digits from the fiber's `Random`, so that a test with a seed is reproducible.
 */
export const makeHex = (count: number): Effect.Effect<string> =>
  Effect.map(Random.nextIntBetween(0, 16 ** Math.min(count, 12)), (n) => n.toString(16).padStart(count, "0"))

const padTwoDigits = (n: number): string => String(n).padStart(2, "0")

/** The newest stamp, with its time in seconds since 1970. */
const newest = { second: Number.NaN, text: "" }

/** Returns a time as `YYYYMMDD_HHMMSS` in the machine's time zone. */
const formatStamp = (millis: number): string => {
  const second = Math.floor(millis / 1000)
  if (second === newest.second) return newest.text
  // The getters of a date read the zone of the machine; formatting in a zone takes a hundred times as long.
  const at = new Date(millis)
  const day = `${at.getFullYear()}${padTwoDigits(at.getMonth() + 1)}${padTwoDigits(at.getDate())}`
  newest.text = `${day}_${padTwoDigits(at.getHours())}${padTwoDigits(at.getMinutes())}${padTwoDigits(at.getSeconds())}`
  newest.second = second
  return newest.text
}

/**
 * The ids created in the current second. They are remembered because six random digits often collide if hundreds of
 * sessions begin at once.
 */
const given = { at: "", ids: new Set<string>() }

/** Draws an id of a second until it is new. */
const drawSessionId = (at: string): Effect.Effect<SessionId> =>
  Effect.flatMap(makeHex(6), (tail) => {
    const id = `${at}_${tail}`
    if (given.ids.has(id)) return drawSessionId(at)
    given.ids.add(id)
    return Effect.succeed(SessionId.make(id))
  })

/** Creates a new {@link SessionId} that is unique within this process. */
export const makeSessionId: Effect.Effect<SessionId> = Effect.clockWith((clock) => {
  const at = formatStamp(clock.currentTimeMillisUnsafe())
  if (given.at !== at) {
    given.at = at
    given.ids.clear()
  }
  return drawSessionId(at)
})

/** Creates a new {@link TurnId}: `<session>:<task>:<8 hex>` (`hermes-contract.md` §2.7). */
export const makeTurnId = (sessionId: SessionId, taskId: TaskId): Effect.Effect<TurnId> =>
  Effect.map(makeHex(8), (tail) => TurnId.make(`${sessionId}:${taskId}:${tail}`))
