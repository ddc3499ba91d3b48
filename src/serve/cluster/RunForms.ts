/**
 * The forms of submitted runs: requests, outcomes, and the rows that queries return.
 */
import * as Schema from "effect/Schema"

/** A submitted run. */
export const Request = Schema.Struct({
  /** Unique id of the run. A run is executed only once, even if its id is submitted several times. */
  id: Schema.String,
  /** Name of the batch or conversation that the run belongs to. */
  batch: Schema.String,
  /** Name of the handler that executes the run. */
  kind: Schema.String,
  sessionId: Schema.String,
  /** Input of the handler, as JSON. */
  input: Schema.String,
  /** Number of attempts after a failure. */
  retries: Schema.Int,
  /** Tenant for which the run works. */
  tenant: Schema.optionalKey(Schema.String)
})
/** One {@link Request}. */
export type Request = typeof Request.Type

/** Outcome of a run. */
export const Outcome = Schema.Struct({
  status: Schema.Literals(["finished", "failed"]),
  /** Output of the handler, as JSON. */
  output: Schema.optionalKey(Schema.String),
  /** Reason for the failure. `isPassing` states if another attempt may help. */
  message: Schema.optionalKey(Schema.String),
  isPassing: Schema.optionalKey(Schema.Boolean),
  /**
   * True if the run did not end by itself: its program or its database failed. `retry` continues it in its session,
   * where its messages are.
   */
  isBroken: Schema.optionalKey(Schema.Boolean),
  /** True if the run was cancelled. `retry` continues it in its session. */
  isCancelled: Schema.optionalKey(Schema.Boolean)
})
/** One {@link Outcome}. */
export type Outcome = typeof Outcome.Type

/** End of an attempt whose run waits for answers to questions of its session. */
export const Suspended = Schema.Struct({
  status: Schema.Literal("suspended"),
  /** Time at which the run continues without an answer, in epoch milliseconds. */
  wakeAt: Schema.optionalKey(Schema.Finite),
  /** Number of starts of the run, which the next answers refer to. */
  starts: Schema.optionalKey(Schema.Int)
})
/** One {@link Suspended}. */
export type Suspended = typeof Suspended.Type

/** Number of runs in a batch, by state. */
export interface Counts {
  readonly batch: string
  readonly waiting: number
  /** Number of runs that wait for answers. */
  readonly suspended: number
  readonly running: number
  readonly finished: number
  readonly failed: number
}

/** A run that failed. */
export interface Failure {
  readonly id: string
  readonly batch: string
  readonly sessionId: string
  readonly message: string
}

/** A stored run. */
export interface StoredRun {
  readonly id: string
  readonly batch: string
  readonly sessionId: string
  readonly tenant: string | undefined
  readonly state: "done" | "running" | "suspended" | "waiting"
  readonly outcome: Outcome | undefined
  /** Times of the first start and of the end, in epoch milliseconds. */
  readonly startedAt: number | undefined
  readonly endedAt: number | undefined
  /** Id of the run that does its work again, if it failed and was started again. */
  readonly retriedAs: string | undefined
  /** Number of times that the run was started. */
  readonly starts: number
}

/** A run that waits for answers to the questions of its session. */
export type SuspendedRun = Pick<StoredRun, "sessionId" | "starts">

/** A run that has just been started. */
export interface StartedRun {
  /** Number of messages in its session before its first start. */
  readonly firstPosition: number
  /** Number of times that the run was started, including this start. */
  readonly starts: number
  /**
   * Number of consecutive starts, including this one, that followed the death of a runner and found no new message in
   * the session.
   */
  readonly stalls: number
  /** True if the inbox has messages for the session. */
  readonly hasMessages: boolean
}

/** The turn after a run in its session. */
export interface NextTurn {
  readonly next: string | undefined
  /** True if the inbox has messages that the model of a turn did not get. */
  readonly hasMessages: boolean
}

/** Place of a run in its session. */
export interface RunPlace {
  /** True if an earlier run of the session is not over. */
  readonly isBehind: boolean
  /** True if no attempt of the run was stored by its workflow: it did not begin, or the runner died during one. */
  readonly isFresh: boolean
}
