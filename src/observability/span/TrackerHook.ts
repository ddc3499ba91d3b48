/**
 * The hook behind exporters of spans: tells a tracker what happens, where it happened, and when.
 *
 * **Details**
 *
 * It listens inline, so that spans begin and end when what they are of did; what it does there is to make small objects.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Hook } from "../../hooks/Hook.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import type { Fields } from "../atof/Facts.ts"
import * as Tracker from "./Tracker.ts"

/** Who makes spans, as the hook needs it. */
export interface Parts<Span> {
  readonly exporter: Tracker.Exporter<Span>
  /** Told of an event before it is recorded: its instant in nanoseconds, and what is in the fiber of the run. */
  readonly enter: (now: bigint, context: Context.Context<never>) => void
  /** Done after each event. */
  readonly leave: Effect.Effect<void>
}

const names = [
  "on_session_end", "on_session_finalize", "pre_llm_call", "post_llm_call", "pre_api_request", "post_api_request",
  "api_request_error", "pre_tool_call", "post_tool_call", "pre_approval_request", "post_approval_response", "subagent_start",
  "subagent_stop"
] as const

/** A hook and what it tracks. */
export interface Tracked<Span> {
  readonly hook: Hook
  readonly tracker: Tracker.Tracker<Span>
  /** Ends everything that is open. */
  readonly close: Effect.Effect<void>
}

/** See the module. Whoever has it closes it. */
export const of = <Span>(label: string, { enter, exporter, leave }: Parts<Span>): Tracked<Span> => {
  const tracker = Tracker.make(exporter)
  const doing = (record: () => void): Effect.Effect<void> =>
    Effect.contextWith((context: Context.Context<never>) => {
      enter(Context.get(context, Clock.Clock).currentTimeNanosUnsafe(), context)
      record()
      return leave
    })
  // A payload is JSON; those of its legacy members that are read are made then.
  const handle = (name: string) => (payload: object): Effect.Effect<void> => doing(() => tracker.record(name, payload as Fields))
  const handlers = Object.fromEntries(names.map((name) => [name, handle(name)]))
  return { hook: Hooks.observer({ label }, handlers), tracker, close: doing(tracker.close) }
}

/** A hook, for as long as the scope lives. */
export const make = <Span>(label: string, parts: Parts<Span>): Effect.Effect<Tracked<Span>, never, Scope.Scope> =>
  Effect.acquireRelease(Effect.sync(() => of(label, parts)), ({ close }) => close)
