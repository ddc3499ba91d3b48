/**
 * Interceptors of the calls of a run: the middleware that may change them and the hooks that are told of them.
 */
import type { Service as Hooks } from "../hooks/Hooks.ts"
import type { Stack } from "./Stack.ts"

/** The middleware and hooks of a runtime. */
export interface Interceptors {
  readonly stack: Stack
  readonly hooks: Hooks
}
