// What the types of hooks promise. Checked by the compiler, never run.
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type * as Layer from "effect/Layer"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import type { Approve, Block } from "../../src/hooks/Payloads.ts"
import * as PairedEvents from "../../src/hooks/PairedEvents.ts"
import { apiAnswer, apiRequest, toolCall, toolDone } from "./support/events.ts"

class A extends Context.Service<A, { readonly a: number }>()("test/A") {}
class B extends Context.Service<B, { readonly b: number }>()("test/B") {}

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <A, B>(_: Equal<A, B>): void => undefined

// A listener knows its event, and what it needs is what the layer needs.
const needsA = Hooks.on("post_tool_call", (event) => Effect.andThen(A, Effect.log(event.tool_name)))
same<typeof needsA, Hook<A>>(true)
const needsBoth = Hooks.observer(
  { label: "both", mode: "queued" },
  {
    pre_api_request: (event) => Effect.andThen(A, Effect.log(event.api_request_id)),
    subagent_stop: (event) => Effect.andThen(B, Effect.log(event.child_status))
  }
)
same<typeof needsBoth, Hook<A | B>>(true)
const none = Hooks.layer([Hooks.on("on_session_end", () => Effect.void)])
same<typeof none, Layer.Layer<Hooks.Hooks>>(true)
const empty = Hooks.layer([])
same<typeof empty, Layer.Layer<Hooks.Hooks>>(true)
const both = Hooks.layer([needsA, needsBoth])
same<typeof both, Layer.Layer<Hooks.Hooks, never, A | B>>(true)

// @ts-expect-error: there is no such hook
Hooks.on("post_tol_call", () => Effect.void)
// @ts-expect-error: a guard answers with a directive
Hooks.on("pre_tool_call", () => Effect.succeed("answer"))
Hooks.on("pre_tool_call", () => Effect.succeed({ action: "block", message: "no" } as const), { onFailure: "closed" })
// @ts-expect-error: who may answer is waited for
Hooks.on("pre_tool_call", () => Effect.void, { mode: "queued" })
// @ts-expect-error: only a guard can be closed
Hooks.on("transform_tool_result", () => Effect.void, { onFailure: "closed" })
// @ts-expect-error: a payload is not to be changed
Hooks.fromPlain("pre_tool_call", (event) => void (event.tool_name = "other"))

export const program = Effect.gen(function* () {
  const hooks = yield* Hooks.Hooks
  const directive = yield* hooks.ask("pre_tool_call", () => toolCall)
  same<typeof directive, Block | Approve | undefined>(true)
  const text = yield* hooks.ask("transform_llm_output", () => ({
    response_text: "hi",
    session_id: toolDone.session_id === "" ? yield_() : toolDone.session_id,
    model: "m",
    platform: "cli"
  }))
  same<typeof text, string | undefined>(true)
  // @ts-expect-error: fields are missing
  yield* hooks.emit("post_tool_call", () => toolCall)
  // @ts-expect-error: an observer's hook is not asked
  yield* hooks.ask("post_tool_call", () => toolDone)
  const bracketed = PairedEvents.bracket(Effect.as(B, Effect.fail("no" as const)).pipe(Effect.flatten), hooks, {
    open: ["pre_api_request", () => apiRequest],
    close: (exit) => {
      same<typeof exit, Exit.Exit<never, "no">>(true)
      return ["post_api_request", () => apiAnswer]
    }
  })
  same<typeof bracketed, Effect.Effect<never, "no", B>>(true)
  yield* PairedEvents.bracket(Effect.void, hooks, {
    open: ["pre_api_request", () => apiRequest],
    // @ts-expect-error: this event closes another one
    close: () => ["post_tool_call", () => toolDone]
  })
})

declare const yield_: () => never
