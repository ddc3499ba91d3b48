/**
 * Adapts the context engines of plugins. If the setting `context.engine` names a plugin's engine, it compacts
 * conversations instead of the runtime's own engine.
 *
 * **Details**
 *
 * An engine is foreign code: it receives copies, has two minutes, and its answer is used only if it is a smaller
 * conversation that can continue: it contains the system prompt and the newest user message, and each tool call has a
 * result and each result a call. Otherwise, or if the engine fails, the conversation stays unchanged and the user is
 * notified.
 *
 * Source: `hermes-contract.md` §3.5 (`register_context_engine`).
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Prompt from "effect/ai/Prompt"
import * as IsolatedCall from "../../base/domain/IsolatedCall.ts"
import * as LifecycleResult from "../../middleware/LifecycleResult.ts"
import type * as CompactionPort from "../../models/routing/CompactionPort.ts"

/** A context engine and its name in the setting `context.engine`. */
export interface ContextEngine {
  readonly name: string
  /** Returns the smaller conversation. With `undefined` or the same messages, the conversation stays unchanged. */
  readonly compact: (
    request: CompactionPort.Request
  ) => Effect.Effect<ReadonlyArray<Prompt.Message> | undefined, unknown>
  /** Share of the window above which a conversation is compacted, greater than 0 and at most 1. The default is 0.5. */
  readonly threshold?: number | undefined
}

/**
 * An engine of plain functions, also under the names in the contract. The functions may return values, promises or
 * Effects.
 */
export interface PlainContextEngine {
  readonly name: string
  readonly threshold?: number
  /**
   * Compacts a conversation. `messages` are copies of its messages, the system message first. The result contains some
   * of them, or `{ role, content }` objects.
   */
  readonly compress: (messages: ReadonlyArray<Prompt.Message>, info: PlainRequest) => unknown
}

/** Request to compact a conversation, with its reason, for plain functions. */
export interface PlainRequest {
  readonly session_id: string
  readonly reason: CompactionPort.Request["reason"]
  readonly window: number
  readonly tokens: number | undefined
  readonly focus_topic: string | undefined
}

const deadline = Duration.minutes(2)

const isShare = (value: unknown): value is number => typeof value === "number" && value > 0 && value <= 1

/**
 * Reads an engine of plain functions. `call` runs a function and its result. Returns `undefined` if the value is not an
 * engine.
 */
export const readEngine = (
  given: unknown,
  call: (run: () => unknown) => Effect.Effect<unknown, unknown>
): ContextEngine | undefined => {
  if (!Predicate.isObject(given)) return undefined
  const { compress, name, threshold } = given
  if (
    typeof name !== "string" ||
    name.trim() === "" ||
    !Predicate.isFunction(compress) ||
    (threshold !== undefined && !isShare(threshold))
  )
    return undefined
  return {
    name: name.trim(),
    threshold,
    compact: ({ focus, messages, reason, sessionId, tokens, window }) => {
      const info: PlainRequest = Object.freeze({ session_id: sessionId, reason, window, tokens, focus_topic: focus })
      // The caller validates that the result is a list of messages.
      return call(() => Reflect.apply(compress, given, [messages, info])) as Effect.Effect<
        ReadonlyArray<Prompt.Message> | undefined,
        unknown
      >
    }
  }
}

const collectCallIds = (
  messages: ReadonlyArray<Prompt.Message>,
  type: "tool-call" | "tool-result"
): ReadonlyArray<string> =>
  messages.flatMap(({ content }) =>
    typeof content === "string" ? [] : content.flatMap((part) => (part.type === type && "id" in part ? [part.id] : []))
  )

/** Returns the reason why the conversation returned by an engine cannot be used, or `undefined` if it can. */
const findFault = (before: ReadonlyArray<Prompt.Message>, after: ReadonlyArray<Prompt.Message>): string | undefined => {
  const [system] = before
  if (system?.role === "system" && after[0] !== system) return "it does not begin with the system prompt"
  const newest = before.findLast(({ role }) => role === "user")
  if (newest !== undefined && !after.includes(newest)) return "the newest message of the user is not in it"
  const [calls, results] = [new Set(collectCallIds(after, "tool-call")), new Set(collectCallIds(after, "tool-result"))]
  if (Array.from(results).some((id) => !calls.has(id))) return "a result of a tool is without its call"
  const answered = new Set(collectCallIds(before, "tool-result"))
  if (Array.from(calls).some((id) => answered.has(id) && !results.has(id)))
    return "a call of a tool is without its result"
  return JSON.stringify(after).length < JSON.stringify(before).length ? undefined : "it is not smaller"
}

/** Creates the compaction port for a plugin's engine. */
export const makePort = ({ compact, name, threshold }: ContextEngine): CompactionPort.Service => ({
  trigger: (window) => Math.floor(window * (isShare(threshold) ? threshold : 0.5)),
  compact: (request) => {
    const { messages, notify = () => Effect.void } = request
    const reportUnchanged = (why: string) =>
      Effect.as(notify(`the conversation stays as it is: context engine ${name}: ${why}`), messages)
    const work = Effect.suspend(() => compact({ ...request, messages: LifecycleResult.copyConversation(messages) }))
    return IsolatedCall.contain(work, { what: `the context engine ${name}`, deadline }).pipe(
      Effect.flatMap((answer) =>
        answer === undefined
          ? Effect.succeed(messages)
          : Effect.try({ try: () => LifecycleResult.readMessages(answer, 0), catch: (error) => error })
      ),
      Effect.flatMap((after) => {
        if (after.length === messages.length && after.every((message, at) => message === messages[at]))
          return Effect.succeed(messages)
        const wrong = findFault(messages, after)
        return wrong === undefined ? Effect.succeed(after) : reportUnchanged(wrong)
      }),
      Effect.catchCause((cause) =>
        Cause.hasInterrupts(cause) ? Effect.interrupt : reportUnchanged(IsolatedCall.describeFailure(cause))
      )
    )
  }
})
