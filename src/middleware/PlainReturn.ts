/** Runs plain functions that return a value, a promise or an Effect. */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import { ExecutionBlocked } from "../base/domain/AgentError.ts"
import * as Interruption from "../base/domain/Interruption.ts"
import { runPlain } from "./Requesters.ts"

/** Failure of a plain function: the value that it threw, or with which its promise or Effect failed. */
export class Thrown {
  readonly _tag = "Thrown"
  readonly error: unknown
  constructor(error: unknown) {
    this.error = error
  }
}

/** Runs a plain function and waits for the returned promise or Effect. Defects of a returned Effect count as thrown. */
export const call = <A>(run: () => A): Effect.Effect<unknown, Thrown, unknown> =>
  Effect.flatMap(Effect.try({ try: () => runPlain(run), catch: (error) => new Thrown(error) }), resolveReturn)

/** Reads a veto. A module without the class throws an error with its name, and a reason or a message. */
const readVeto = (error: unknown): ExecutionBlocked | undefined => {
  if (error instanceof ExecutionBlocked) return error
  if (!Predicate.isObject(error) || error["name"] !== "ExecutionBlocked") return undefined
  const { message, metadata, reason } = error
  const why = [reason, message].find((text): text is string => typeof text === "string" && text !== "")
  return new ExecutionBlocked({
    reason: why ?? "no reason was given",
    metadata: Predicate.isObject(metadata) ? Object.fromEntries(Object.entries(metadata)) : {}
  })
}

/** Runs a function of middleware like {@link call}. A thrown error with the name `ExecutionBlocked` is a veto. */
export const callMiddleware = <A>(run: () => A): Effect.Effect<unknown, Thrown, unknown> =>
  Effect.mapError(call(run), (thrown) => {
    const veto = readVeto(thrown.error)
    return veto === undefined || veto === thrown.error ? thrown : new Thrown(veto)
  })

const resolveReturn = (value: unknown): Effect.Effect<unknown, Thrown, unknown> => {
  if (Effect.isEffect(value)) {
    return value.pipe(
      Effect.catchDefect((defect) => Effect.fail(defect)),
      Interruption.contain(() => new Interruption.SelfInterrupted("it")),
      Effect.mapError((error) => new Thrown(error))
    )
  }
  if (Predicate.isPromiseLike(value)) {
    return Effect.tryPromise({ try: () => value, catch: (error) => new Thrown(error) })
  }
  return Effect.succeed(value)
}
