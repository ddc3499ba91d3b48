/**
 * Events of background processes for their session: a process ended, or printed a watched pattern. The runner of the
 * conversation takes the events and adds them to the conversation.
 *
 * **Details**
 *
 * Events wait per session until they are taken. At most {@link capacity} events of all sessions are stored; the oldest
 * are dropped first.
 *
 * Source: `hermes-product.md` §2.3.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { SessionId, TaskId } from "../../../base/domain/Ids.ts"
import * as SessionQueue from "../../../base/domain/SessionQueue.ts"

interface Base {
  readonly processId: string
  readonly sessionId: SessionId
  readonly taskId: TaskId
  readonly command: string
  /** Time of the event, in milliseconds since the epoch. */
  readonly at: number
}

/** Event for the end of a process whose session requested a notification. */
export interface ProcessCompleted extends Base {
  readonly _tag: "ProcessCompleted"
  readonly exitCode: number
  readonly reason: "exited" | "killed"
  /** The end of the process's output. */
  readonly output: string
  /** Reason why the command environment stopped the process, if it did. */
  readonly stoppedBy?: string | undefined
}

/** Event for output lines that match a watched pattern. */
export interface WatchMatched extends Base {
  readonly _tag: "WatchMatched"
  readonly pattern: string
  readonly lines: ReadonlyArray<string>
  /** Number of unreported matches since the last such event. */
  readonly suppressed: number
}

/** Event for a process that matched too often. From now on, only its end is reported. */
export interface WatchDemoted extends Base {
  readonly _tag: "WatchDemoted"
}

/** An event of a background process that its session has not received yet. */
export type ProcessEvent = ProcessCompleted | WatchMatched | WatchDemoted

/** Maximum number of waiting events. */
export const capacity = 256

/** Stores events of background processes until their session takes them. */
export interface Service {
  readonly publish: (event: ProcessEvent) => Effect.Effect<void>
  /** Takes the waiting events of a session, oldest first, without waiting for more. */
  readonly drain: (sessionId: SessionId) => Effect.Effect<ReadonlyArray<ProcessEvent>>
  /** Takes the oldest event of a session, or waits for one. */
  readonly take: (sessionId: SessionId) => Effect.Effect<ProcessEvent>
  /** Completes as soon as a session has an event. The event remains until it is taken. */
  readonly arrived: (sessionId: SessionId) => Effect.Effect<void>
}

/** The service that stores events of background processes. */
export class ProcessEvents extends Context.Service<ProcessEvents, Service>()(
  "hermes-effect/tool/builtin/ProcessEvents"
) {}

/** Creates an empty store of events. */
export const make: Effect.Effect<Service> = Effect.sync(() => {
  const { offer: publish, ...events } = SessionQueue.make<ProcessEvent>(capacity)
  return { publish, ...events }
})

/** Provides an empty in-memory store of events. */
export const layer: Layer.Layer<ProcessEvents> = Layer.effect(ProcessEvents, make)
