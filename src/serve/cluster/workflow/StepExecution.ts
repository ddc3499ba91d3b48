/**
 * Executes steps inside a workflow of `effect/workflow`: work that is stored once, its repetitions, pauses.
 *
 * **Details**
 *
 * The result of a step is stored when its work has ended. Work that was running when its process died is run again by
 * the next process, with the same {@link StepCall.key}. Work whose result is stored is never run again.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Pull from "effect/Pull"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Activity from "effect/workflow/Activity"
import * as DurableClock from "effect/workflow/DurableClock"
import type { WorkflowEngine, WorkflowInstance } from "effect/workflow/WorkflowEngine"
import { StepFailed } from "./WorkflowError.ts"
import { WorkflowStore } from "./WorkflowStore.ts"

/** Schema of a value that is stored: its JSON is encoded and decoded without services. */
export type ValueSchema<A> = Schema.ConstraintCodec<A, unknown, never, never>

/** Values of the steps so far, by name. */
export type StepState = Readonly<Record<string, unknown>>

/** Position in an execution. */
export interface Place {
  /** Id of the execution. */
  readonly execution: string
  /** Path of the containing steps, such as `answers[2]/`; empty at the top. */
  readonly prefix: string
  /** Sessions of the agents that have run, by the name of their step. */
  readonly sessions: Map<string, string>
}

/** Services of the engine that executes a step. */
export type StepServices = WorkflowEngine | WorkflowInstance | WorkflowStore

/** Facts about one execution of a step's work. */
export interface StepCall {
  /** Id of the execution. */
  readonly execution: string
  /** Place of the step, such as `answers[2]/draft`. */
  readonly path: string
  /** Number of this attempt, counted from 1 over the repetitions of `retry`. */
  readonly attempt: number
  /**
   * Name of this piece of work: the same for each attempt, also after the process was killed. Pass it to services that
   * recognise a repeated request.
   */
  readonly key: string
}

/** Returns the path of a step. */
export const toPath = ({ prefix }: Place, name: string): string => `${prefix}${name}`

/** Returns the place inside a step. */
export const enterStep = (place: Place, name: string, mark = ""): Place => ({
  ...place,
  prefix: `${place.prefix}${name}${mark}/`
})

const describeDefect = (defect: unknown): string =>
  (defect instanceof Error ? defect.message : String(defect)).replaceAll(/\s+/gu, " ")

const makeDefectFailure = (path: string, defect: unknown): StepFailed =>
  new StepFailed({ step: path, reason: "defect", message: `step ${path} broke off: ${describeDefect(defect)}` })

/** Computes a value from the state. A function that throws fails the step. */
export const computeValue = <A>(path: string, compute: () => A): Effect.Effect<A, StepFailed> =>
  Effect.try({ try: compute, catch: (defect) => makeDefectFailure(path, defect) })

/** A piece of work whose result is stored. */
export interface StoredWork<A, E, R> {
  readonly name: string
  readonly kind: string
  readonly output: ValueSchema<A>
  readonly error?: ValueSchema<E> | undefined
  readonly sessionId?: string | undefined
  readonly execute: (call: StepCall) => Effect.Effect<A, E, R>
  /** Returns true for a failure after which the step continues. Readers do not see it. */
  readonly isPause?: ((error: E | StepFailed) => boolean) | undefined
  /** True if the work is a part of a step, which readers do not see. */
  readonly isInner?: boolean | undefined
  /** Reason or choice that readers see beside the step. */
  readonly describe?: ((value: A) => string | undefined) | undefined
}

const describeError = (error: unknown): string =>
  typeof error === "object" && error !== null && "message" in error && typeof error.message === "string"
    ? error.message || ("_tag" in error ? String(error._tag) : "failed")
    : String(error)

/** Runs work and stores its result, or returns the stored result. */
export const runStored = <A, E, R>(
  place: Place,
  {
    describe,
    error,
    execute,
    isInner = false,
    isPause = () => false,
    kind,
    name,
    output,
    sessionId
  }: StoredWork<A, E, R>
): Effect.Effect<A, E | StepFailed, Exclude<R, Scope.Scope | WorkflowEngine | WorkflowInstance> | StepServices> => {
  const path = toPath(place, name)
  const work = Effect.gen(function* () {
    const store = yield* WorkflowStore
    const attempt = yield* Activity.CurrentAttempt
    const call: StepCall = { execution: place.execution, path, attempt, key: `${place.execution}/${path}` }
    const checked = Effect.catchDefect(
      Effect.suspend(() => execute(call)),
      (defect) => Effect.fail(makeDefectFailure(path, defect))
    )
    if (isInner) return yield* checked
    yield* Effect.orDie(
      store.beginStep(place.execution, { path, name, kind, state: "running", attempts: attempt, sessionId })
    )
    return yield* checked.pipe(
      Effect.tap((value) => Effect.orDie(store.endStep(place.execution, path, "done", describe?.(value)))),
      Effect.tapError((failure) =>
        isPause(failure)
          ? Effect.void
          : Effect.orDie(store.endStep(place.execution, path, "failed", describeError(failure)))
      )
    )
  })
  return Activity.make({
    name: path,
    success: output,
    // The type of a step without a schema of failures excludes failures.
    error: error === undefined ? (StepFailed as ValueSchema<E | StepFailed>) : Schema.Union([error, StepFailed]),
    execute: work
  })
}

/** Waits inside a workflow. A pause of more than two seconds survives the process to the second. */
export const waitFor = (path: string, duration: Duration.Input): Effect.Effect<void, never, StepServices> =>
  DurableClock.sleep({ name: path, duration, inMemoryThreshold: "2 seconds" })

/** Repeats failed work by a schedule. The pauses are durable, and each attempt is stored. */
export const retryStored = <A, E, R>(
  work: Effect.Effect<A, E, R>,
  path: string,
  schedule: Schedule.Schedule<unknown, E>
): Effect.Effect<A, E, R | StepServices> =>
  Effect.gen(function* () {
    const advance = yield* Schedule.toStep(schedule)
    const runAttempt = (number: number): Effect.Effect<A, E, R | StepServices> =>
      Effect.catch(Effect.provideService(work, Activity.CurrentAttempt, number), (failure) =>
        Effect.gen(function* () {
          const delay = yield* Effect.map(
            advance(yield* Clock.currentTimeMillis, failure),
            ([, duration]) => duration
          ).pipe(Pull.catchDone(() => Effect.succeed(undefined)))
          if (delay === undefined) return yield* Effect.fail(failure)
          yield* waitFor(`${path} retry ${number}`, delay)
          return yield* runAttempt(number + 1)
        })
      )
    return yield* runAttempt(1)
  })
