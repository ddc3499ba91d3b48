/**
 * Lets plugins call the tools of the runtime that they are loaded in.
 *
 * **Details**
 *
 * Plugins are loaded before there is an agent; a call that comes earlier is an error result. A call takes the way of a
 * model's call: hooks, middleware, fences and approvals. Where a call needs an approval and nobody can be asked, it is denied.
 *
 * Source: `hermes-contract.md` §3.5 (`dispatch_tool`).
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import * as Json from "../domain/Json.ts"

/** One call. */
export interface Call {
  readonly name: string
  readonly args: unknown
  readonly sessionId?: string | undefined
  readonly cwd?: string | undefined
}

/** Makes calls. */
export type Dispatcher = (call: Call) => Effect.Effect<{ readonly output: unknown; readonly isFailure: boolean }>

/** See the module. */
export interface ToolDesk {
  /** Who makes the calls, for as long as the scope lives. */
  readonly attach: (dispatcher: Dispatcher) => Effect.Effect<void, never, Scope.Scope>
  /** Gives the text of the result, or of the failure; `extra` may hold `session_id` and `cwd`. */
  readonly call: (name: string, args: unknown, extra?: unknown) => Promise<string>
}

const textOf = (extra: unknown, ...names: ReadonlyArray<string>): string | undefined => {
  if (!Predicate.isObject(extra)) return undefined
  const name = names.find((name) => typeof extra[name] === "string")
  return name === undefined ? undefined : String(extra[name])
}

const nobody: Dispatcher = () =>
  Effect.succeed({
    output: JSON.stringify({ error: "there is no agent yet: call tools from hooks, commands and tools, not while you register" }),
    isFailure: true
  })

/** A desk that nobody sits at. */
export const make = (): ToolDesk => {
  let attached: ((call: Call) => Promise<{ readonly output: unknown }>) | undefined
  return {
    attach: Effect.fnUntraced(function*(dispatcher) {
      const services = yield* Effect.context<never>()
      const dispatch = (call: Call) => Effect.runPromiseWith(services)(dispatcher(call))
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          attached = dispatch
        }),
        () =>
          Effect.sync(() => {
            if (attached === dispatch) attached = undefined
          })
      )
    }),
    call: async (name, args, extra) => {
      const call: Call = {
        name,
        args: args ?? {},
        sessionId: textOf(extra, "session_id", "sessionId"),
        cwd: textOf(extra, "cwd")
      }
      const { output } = attached === undefined ? await Effect.runPromise(nobody(call)) : await attached(call)
      return Json.toText(output)
    }
  }
}
