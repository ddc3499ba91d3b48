/**
 * Answers what a server asks in the middle of a call, in the name of that call: of its user (`Elicitation`) or of a model
 * (`Sampling`). Of several calls at a time, which a server must be allowed to have, in the name of the newest.
 *
 * @since 0.1.0
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Elicitation from "./Elicitation.ts"
import * as Sampling from "./Sampling.ts"
import type { ServerConfig } from "./ServerConfig.ts"

/** See the module. */
export interface Questions {
  readonly elicit: (request: Elicitation.Request, signal: AbortSignal) => Promise<Elicitation.Answer>
  readonly sample: (request: Sampling.Request, signal: AbortSignal) => Promise<string>
  /** What is asked while a call runs is asked of whom that call could ask. */
  readonly during: <A, E>(call: Effect.Effect<A, E>) => Effect.Effect<A, E>
}

/** The questions of one connection. */
export const make = ({ name }: Pick<ServerConfig, "name">): Questions => {
  const calls: Array<Context.Context<never>> = []
  const inNameOfCall = <A, E>(signal: AbortSignal, work: Effect.Effect<A, E>): Promise<A> => {
    const services = calls.at(-1)
    return services === undefined
      ? Promise.reject(new Error("nothing was called, so nothing can be asked"))
      : Effect.runPromiseWith(services)(work, { signal })
  }
  return {
    elicit: (request, signal) => inNameOfCall(signal, Elicitation.answer(name, request)),
    sample: (request, signal) => inNameOfCall(signal, Sampling.answer(name, request)),
    during: (call) =>
      Effect.flatMap(Effect.context<never>(), (services) =>
        Effect.suspend(() => {
          calls.push(services)
          return Effect.ensuring(call, Effect.sync(() => calls.splice(calls.indexOf(services), 1)))
        }))
  }
}
