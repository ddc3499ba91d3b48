/**
 * Events of background processes for their session: a process ended, or printed a watched pattern. The runner of the
 * conversation takes the events and adds them to it.
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
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** A process whose end was to be reported has ended. */
export interface ProcessCompleted extends Base {
  readonly _tag: "ProcessCompleted"
  readonly exitCode: number
  readonly reason: "exited" | "killed"
  /** The end of its output. */
  readonly output: string
  /** Reason if the environment of commands stopped it. */
  readonly stoppedBy?: string | undefined
}

/** A process printed lines that were watched for. */
export interface WatchMatched extends Base {
  readonly _tag: "WatchMatched"
  readonly pattern: string
  readonly lines: ReadonlyArray<string>
  /** Matches since the last such event that were left out. */
  readonly suppressed: number
}

/** A process matched too often: from now on only its end is reported. */
export interface WatchDemoted extends Base {
  readonly _tag: "WatchDemoted"
}

/** An event of a background process that its session has not heard of. */
export type ProcessEvent = ProcessCompleted | WatchMatched | WatchDemoted

/** Events that wait at most. */
export const capacity = 256

/** Keeps events of background processes until their session takes them. */
export interface Service {
  readonly publish: (event: ProcessEvent) => Effect.Effect<void>
  /** Takes what waits for a session, oldest first, without waiting. */
  readonly drain: (sessionId: SessionId) => Effect.Effect<ReadonlyArray<ProcessEvent>>
  /** Takes the oldest event of a session, or waits for one. */
  readonly take: (sessionId: SessionId) => Effect.Effect<ProcessEvent>
  /** Done as soon as a session has an event. It stays until it is taken. */
  readonly arrived: (sessionId: SessionId) => Effect.Effect<void>
}

/** The service that stores events of background processes. */
export class ProcessEvents extends Context.Service<ProcessEvents, Service>()(
  "hermes-effect/tool/builtin/ProcessEvents"
) {}

/** Makes a keeper of events without any, bounded for each session. */
export const make: Effect.Effect<Service> = Effect.sync(() => {
  const { offer: publish, ...events } = SessionQueue.make<ProcessEvent>(capacity)
  return { publish, ...events }
})

/** Events in memory; none wait at first. */
export const layer: Layer.Layer<ProcessEvents> = Layer.effect(ProcessEvents, make)
