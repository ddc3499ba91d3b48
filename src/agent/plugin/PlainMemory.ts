/**
 * Adapts external memories that plugins define as plain functions, which may return values, promises or Effects.
 *
 * Source: the middleware document, `hermes-contract.md` §3.5.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type { Service as MemoryProvider } from "../../base/domain/MemoryProvider.ts"
import * as Frozen from "../../middleware/Frozen.ts"
import * as PlainReturn from "../../middleware/PlainReturn.ts"

/**
 * An external memory of plain functions, also under the names in the contract (`sync_turn`, …). The functions may
 * return values, promises or Effects.
 */
export interface PlainMemory {
  readonly name: string
  /** Returns the text that is relevant to a message. */
  readonly prefetch: (text: string, ids: { readonly session_id: string; readonly turn_id: string }) => unknown
  readonly syncTurn?: (
    text: string,
    answer: string,
    ids: { readonly session_id: string; readonly turn_id: string }
  ) => unknown
  readonly systemPromptBlock?: () => unknown
  readonly onPreCompress?: (messages: ReadonlyArray<unknown>, ids: { readonly session_id: string }) => unknown
  /**
   * Receives a write to the memory files. `action` is add, replace or remove, and `target` is memory or user. `content`
   * is the new entry, or "" for a removal.
   */
  readonly onMemoryWrite?: (
    action: string,
    target: string,
    content: string,
    ids: { readonly session_id: string }
  ) => unknown
  readonly onSessionEnd?: (messages: ReadonlyArray<unknown>, ids: { readonly session_id: string }) => unknown
}

/** Returns the trimmed string, or `undefined` if the value is not a string or is blank. */
export const readText = (value: unknown): string | undefined =>
  typeof value === "string" && value.trim() !== "" ? value.trim() : undefined

/** Runs a plain function as an Effect. An exception becomes the failure. */
export const runPlain = (run: () => unknown): Effect.Effect<unknown, unknown> =>
  // The type of a returned Effect is unknown. Its services are provided as they were when the plugin was loaded.
  Effect.mapError(PlainReturn.call(run), ({ error }) => error) as Effect.Effect<unknown, unknown>

/** Adapts a memory of plain functions to a provider. Returns `undefined` if the value is not a memory. */
export const readMemoryProvider = (given: unknown): MemoryProvider | undefined => {
  if (!Predicate.isObject(given)) return undefined
  const name = readText(given["name"])
  /** Finds a method under one of its names. */
  const findMethod = (...names: ReadonlyArray<string>) => {
    const found = names.find((one) => Predicate.isFunction(given[one]))
    return found === undefined
      ? undefined
      : (...args: ReadonlyArray<unknown>) => runPlain(() => Reflect.apply(Object(given[found]), given, args))
  }
  const asText = Effect.map((value: unknown) => (typeof value === "string" ? value : undefined))
  const prefetch = findMethod("prefetch")
  const sync = findMethod("syncTurn", "sync_turn")
  const block = findMethod("systemPromptBlock", "system_prompt_block")
  const compacting = findMethod("onPreCompress", "on_pre_compress")
  const written = findMethod("onMemoryWrite", "on_memory_write")
  const ended = findMethod("onSessionEnd", "on_session_end")
  if (name === undefined || prefetch === undefined) return undefined
  const toPlainIds = ({ sessionId, turnId }: { readonly sessionId: string; readonly turnId: string }) =>
    Object.freeze({ session_id: sessionId, turn_id: turnId })
  const forSession = (tell: typeof compacting): MemoryProvider["ended"] =>
    tell === undefined
      ? undefined
      : ({ messages, sessionId }) =>
          Effect.asVoid(tell(Frozen.copy(messages), Object.freeze({ session_id: sessionId })))
  return {
    name,
    prefetch: (turn) => asText(prefetch(turn.text, toPlainIds(turn))),
    sync: sync === undefined ? undefined : (turn) => Effect.asVoid(sync(turn.text, turn.answer, toPlainIds(turn))),
    systemPrompt: block === undefined ? undefined : Effect.suspend(() => asText(block())),
    compacting: forSession(compacting),
    ended: forSession(ended),
    written:
      written === undefined
        ? undefined
        : ({ action, content = "", sessionId, target }) =>
            Effect.asVoid(written(action, target, content, Object.freeze({ session_id: sessionId })))
  }
}
