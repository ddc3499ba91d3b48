/**
 * Hook of the ATOF and ATIF exporters: records a run as a stream of events and passes each event to every sink.
 *
 * **Details**
 *
 * The hook runs inline, so that timestamps are exact and no event is dropped. It builds one small object per event; sinks
 * write in their own fibers.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import type { Hook } from "../hooks/Hook.ts"
import * as Hooks from "../hooks/Hooks.ts"
import type { Event } from "./Atof.ts"
import type { Fields } from "./atof/Facts.ts"
import * as Recorder from "./atof/Recorder.ts"

/** Receiver of events: a file, a collector of trajectories. */
export interface Sink {
  readonly write: (events: ReadonlyArray<Event>) => Effect.Effect<void>
}

/** Name and version of the recorded agent. */
export type Agent = Recorder.Agent

const names = [
  "on_session_start", "on_session_end", "on_session_finalize", "on_session_reset", "pre_llm_call", "post_llm_call",
  "pre_api_request", "post_api_request", "api_request_error", "pre_tool_call", "post_tool_call", "pre_approval_request",
  "post_approval_response", "subagent_start", "subagent_stop"
] as const

const microsOf = (clock: Clock.Clock): number => Number(clock.currentTimeNanosUnsafe() / 1000n)

/** Builds the hook for the lifetime of the scope. Closing the scope ends every open event. */
export const make = (agent: Agent, sinks: ReadonlyArray<Sink>): Effect.Effect<Hook, never, Scope.Scope> =>
  Effect.gen(function*() {
    const recorder = Recorder.make(agent, yield* Random.nextIntBetween(0, 2 ** 32))
    const send = (events: ReadonlyArray<Event>): Effect.Effect<void> =>
      sinks.length === 1 && sinks[0] !== undefined
        ? sinks[0].write(events)
        : Effect.forEach(sinks, (sink) => sink.write(events), { discard: true })
    yield* Effect.addFinalizer(() => Clock.clockWith((clock) => send(recorder.close(microsOf(clock)))))
    // A payload is JSON; its legacy members, which are made when first read, are never read here.
    const handle = (name: string) => (payload: object): Effect.Effect<void> =>
      Clock.clockWith((clock) => send(recorder.record(name, payload as Fields, microsOf(clock))))
    return Hooks.observer({ label: "trace" }, Object.fromEntries(names.map((name) => [name, handle(name)])))
  })
