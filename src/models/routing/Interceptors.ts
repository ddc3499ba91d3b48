/** The middleware and hooks that observe or change the model calls of a run. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Hooks, make as makeHooks, type Service as HooksService } from "../../hooks/Hooks.ts"
import * as Stack from "../../middleware/Stack.ts"

/** Middleware that may change the model calls of a run, and hooks that are notified of them. */
export interface Interceptors {
  readonly stack: Stack.Stack
  readonly hooks: HooksService
}

/** Returns interceptors with the given middleware and the hooks of the context, if it has any. */
export const make = Effect.fnUntraced(function* (middleware: Parameters<typeof Stack.make>[0]) {
  const hooks = yield* Effect.serviceOption(Hooks)
  return { stack: Stack.make(middleware), hooks: Option.isSome(hooks) ? hooks.value : yield* makeHooks() }
})
