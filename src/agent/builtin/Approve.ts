/**
 * Requests approval of tool calls that the application selects, through the approvals of the runtime: the same person,
 * callback or queue as for dangerous commands, with the same memory, mode and hooks. Silence is a denial.
 *
 * **Details**
 *
 * `when` receives each call with its arguments as they reach the tool, and returns the reason to ask, or nothing. An
 * approval holds for a call with these arguments, once or for the session. A denied call is blocked, and the model
 * receives the reason. The middleware fails closed: a call that could not be checked does not run.
 *
 * In settings files its name is `approve`. `tools` lists names of tools, or globs such as `mcp_bank_*`, whose calls
 * always need approval. `reason` is the text shown to the approver. Calls are denied if the runtime does not provide
 * approvals.
 *
 * **Gotchas**
 *
 * Put it last in the list, so that no other middleware changes the arguments after the approval. The command floor, the
 * guards and the approvals of dangerous commands still apply.
 *
 * **Example** (Requiring approval for payments)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Schema from "effect/Schema"
 * import * as Tool from "effect/ai/Tool"
 * import * as Toolkit from "effect/ai/Toolkit"
 * import { Agent, Approvals, Runtime, Scripted, Toolset } from "hermes-effect"
 * import { Approve } from "hermes-effect/middleware"
 *
 * const parameters = Schema.Struct({ amount: Schema.Finite })
 * const payTool = Tool.make("pay", { parameters, success: Schema.String }).annotate(Tool.Readonly, false)
 * const toolkit = Toolkit.make(payTool)
 * const handlers = toolkit.toLayer({ pay: ({ amount }) => Effect.succeed(`paid ${amount}`) })
 * const bank = Toolset.make("bank", toolkit, handlers)
 *
 * const approve = Approve.toolCalls({
 *   when: ({ args, tool }) => tool === "pay" && Number(args["amount"]) > 100 ? "pays more than 100" : undefined
 * })
 * const approvals = Approvals.layerCallback(({ command, description }) => Effect.sync(() => {
 *   console.log(`${description}: ${command}`)
 *   return "deny"
 * }))
 * const pay = (amount: number) => Scripted.complete({ toolCalls: [{ name: "pay", params: { amount } }] })
 * const provider = Scripted.layer([pay(50), pay(500), Scripted.complete("One of two.")])
 *
 * const program = Agent.run({ prompt: "Pay." })
 * const runtime = Runtime.layer({ provider, tools: [bank], approvals, middleware: [approve] })
 * await Effect.runPromise(Effect.provide(program, runtime))
 * // => pays more than 100: pay {"amount":500}
 * ```
 *
 * Source: `ARCHITECTURE.md` §6 and §7.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type ConfigError, ExecutionBlocked } from "../../base/domain/AgentError.ts"
import * as Glob from "../../base/domain/Glob.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import { Approvals } from "../../tools/Approvals.ts"
import * as Parameters from "./Parameters.ts"

/** A call that may need an approval. */
export interface Call {
  readonly tool: string
  readonly args: Middleware.ToolArguments
}

/** Options of the middleware. */
export interface Options {
  /** Returns the reason to ask about a call, in a few words for people, or `undefined` if it may run. */
  readonly when: (call: Call) => string | undefined
}

const toolCallsBy = <R>(
  { when }: Options,
  service: Effect.Effect<Approvals["Service"], ExecutionBlocked, R>
): Middleware.WrapToolCall<never, never, R> =>
  Middleware.wrapToolCall<never, never, R>({
    name: "Approve",
    onFailure: "closed",
    wrap:
      (next, { toolName }) =>
      (args) =>
        Effect.gen(function* () {
          const reason = when({ tool: toolName, args })
          if (reason !== undefined) {
            const approvals = yield* service
            const answer = yield* approvals.request({
              tool: toolName,
              command: `${toolName} ${Json.toText(args)}`,
              concerns: [{ key: reason, permanent: false }]
            })
            if (answer.outcome === "deny" || answer.outcome === "timeout") {
              const why = answer.reason ?? (answer.outcome === "timeout" ? "no answer in time" : "it was denied")
              return yield* new ExecutionBlocked({ reason: `${reason}: ${why}`, metadata: { checked_by: "Approve" } })
            }
          }
          return yield* next(args)
        })
  })

/** Creates middleware that requests approval for the calls for which `when` returns a reason. */
export const toolCalls = (options: Options): Middleware.WrapToolCall<never, never, Approvals> =>
  toolCallsBy(options, Approvals)

const Params = Schema.Struct({
  tools: Schema.NonEmptyArray(Schema.NonEmptyString),
  reason: Schema.optional(Schema.NonEmptyString)
})

/** Approvals of the runtime, read from the context because a settings file cannot express service requirements. */
const ofRuntime = Effect.flatMap(
  Effect.serviceOption(Approvals),
  Option.match({
    onNone: () =>
      Effect.fail(
        new ExecutionBlocked({
          reason: "no approvals here: give the runtime some that can answer",
          metadata: { checked_by: "Approve" }
        })
      ),
    onSome: Effect.succeed
  })
)

/** Creates the middleware from unvalidated parameters: `tools` and `reason`. */
export const fromUnknown = (parameters: unknown): Result.Result<Middleware.WrapToolCall, ConfigError> =>
  Result.map(Parameters.read("approve", Params, parameters), ({ reason, tools }) =>
    toolCallsBy(
      {
        when: ({ tool }) =>
          tools.some((glob) => Glob.isMatch(glob, tool)) ? (reason ?? `${tool} needs an approval`) : undefined
      },
      ofRuntime
    )
  )
