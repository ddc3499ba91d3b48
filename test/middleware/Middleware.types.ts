// What these wrappers lack is the point: the expected errors below are those of the compiler.
// @effect-diagnostics missingEffectError:off missingEffectContext:off
// Errors and requirements of middleware stay exact. Checked by the type checker alone; nothing here runs.
import type { Anthropic } from "@anthropic-ai/sdk"
import type { InferenceConfiguration } from "@aws-sdk/client-bedrock-runtime"
import type { OpenAI } from "openai"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Schema from "effect/Schema"
import type * as AiError from "effect/ai/AiError"
import * as Agent from "../../src/agent/Agent.ts"
import type { ApiMode } from "../../src/base/domain/ApiMode.ts"
import { type AgentError, ExecutionBlocked } from "../../src/base/domain/AgentError.ts"
import type { RunDetails } from "../../src/base/domain/RunDetails.ts"
import type { RunResult } from "../../src/base/domain/RunEvent.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import type { ModelRouter } from "../../src/models/routing/ModelRouter.ts"
import type { SessionStore } from "../../src/store/SessionStore.ts"
import type { ToolRegistry } from "../../src/tools/ToolRegistry.ts"

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <A, B>(_: Equal<A, B>): void => undefined

class BudgetExceeded extends Schema.TaggedError<BudgetExceeded>()("BudgetExceeded", { spent: Schema.Finite }) {}
class Softened extends Schema.TaggedError<Softened>()("Softened", {}) {}
class Refunded extends Schema.TaggedError<Refunded>()("Refunded", { amount: Schema.Finite }) {}
class Ledger extends Context.Service<Ledger, { readonly spent: Effect.Effect<number> }>()("test/Ledger") {}

export const timing = Middleware.llmExecution({ name: "timing", wrap: (next) => (request) => next(request) })

export const budget = Middleware.llmExecution<AiError.AiError, BudgetExceeded, Ledger>({
  name: "budget",
  wrap: (next) => (request) =>
    next(request).pipe(
      Effect.catchTag("AiError", () =>
        Effect.flatMap(Ledger, ({ spent }) =>
          Effect.flatMap(spent, (amount) => Effect.fail(new BudgetExceeded({ spent: amount })))
        )
      )
    )
})

export const softener = Middleware.wrapModelCall<BudgetExceeded, Softened>({
  name: "softener",
  wrap: (next) => (params) => next(params).pipe(Effect.catchTag("BudgetExceeded", () => Effect.fail(new Softened())))
})

Middleware.llmExecution<never, never>({
  name: "undeclared",
  // @ts-expect-error a failure that the wrapper does not declare
  wrap: (next) => (request) => Effect.andThen(next(request), Effect.fail(new BudgetExceeded({ spent: 1 })))
})

Middleware.llmExecution<never, never>({
  name: "needy",
  // @ts-expect-error a service that the wrapper does not declare
  wrap: (next) => (request) => Effect.flatMap(Ledger, () => next(request))
})

Middleware.llmExecution({
  name: "empty",
  // @ts-expect-error a wrapper gives a response, never nothing
  wrap: (next) => (request) => Effect.asVoid(next(request))
})

Middleware.toolRequest({
  name: "wrong kind",
  // @ts-expect-error request middleware answers Unchanged or Rewritten
  rewrite: (args) => Effect.succeed(args)
})

type Surroundings = ModelRouter | ToolRegistry | SessionStore | Scope.Scope

const plain = Agent.make({ middleware: [timing] })
same<Effect.Success<typeof plain>, Agent.Service>(true)
same<Effect.Services<typeof plain>, Surroundings>(true)

const budgeted = Agent.make({ middleware: [timing, budget] })
same<Effect.Success<typeof budgeted>, Agent.Service<BudgetExceeded>>(true)
same<Effect.Services<typeof budgeted>, Surroundings | Ledger>(true)
export const run = Effect.flatMap(budgeted, (agent) => agent.run({ prompt: "go" }))
same<Effect.Success<typeof run>, RunResult & RunDetails>(true)
same<Effect.Error<typeof run>, AgentError | BudgetExceeded>(true)

// What an outer wrapper catches is gone, wherever the entries of the other kind stand in the list.
const softened = Agent.make({ middleware: [budget, softener] })
same<Effect.Success<typeof softened>, Agent.Service<Softened>>(true)

// A tool wrapper's failure is an error result for the model, never a failed run.
const guard = Middleware.toolExecution<never, BudgetExceeded>({
  name: "guard",
  wrap: () => () => Effect.fail(new BudgetExceeded({ spent: 2 }))
})
const guarded = Agent.make({ middleware: [guard] })
same<Effect.Success<typeof guarded>, Agent.Service>(true)

Agent.layer({ middleware: [timing] })
// @ts-expect-error middleware that adds a failure needs an agent with a key of its own
Agent.layer({ middleware: [budget] })

// A method changes what its phase may change, in either spelling.
export const hints = Middleware.lifecycle({
  name: "hints",
  beforeModel: ({ promptMessages }) => Middleware.withModifications({ promptMessages }),
  after_agent: () => Effect.as(Ledger, Middleware.withModifications({ agentResponse: "" })),
  beforeTool: () => Middleware.deny("no")
})
same<Middleware.NeedsOf<typeof hints>, Ledger>(true)

// A field of another phase does not compile.
export const wrongField = Middleware.lifecycle({
  name: "w",
  // @ts-expect-error: a field or a result of another phase
  beforeModel: () => Middleware.withModifications({ toolInput: {} })
})
export const wrongInEffect = Middleware.lifecycle({
  name: "w",
  // @ts-expect-error: a field or a result of another phase
  after_tool: () => Effect.succeed(Middleware.withModifications({ messages: [] }))
})
export const wrongInStream = Middleware.lifecycle({
  name: "w",
  // @ts-expect-error: a field of another phase
  streamPart: () => Middleware.withModifications({ messages: [] })
})
export const streamElsewhere = Middleware.lifecycle({
  name: "w",
  // @ts-expect-error: a field of the stream in another phase
  beforeModel: () => Middleware.withModifications({ parts: [] })
})
export const cutsStream = Middleware.lifecycle({
  name: "s",
  stream_part: ({ parts }) => Middleware.withModifications({ parts: parts.slice(1) })
})
// A result that controls the loop is allowed in its phases only.
export const directed = Middleware.lifecycle({
  name: "directed",
  beforeAgent: () => Middleware.endWith("cached"),
  beforeModel: ({ currentIteration }) =>
    currentIteration > 2 ? Middleware.endWith("enough") : Middleware.goToTools([{ name: "look", params: {} }]),
  afterModel: ({ originalResponse }) =>
    Effect.succeed(originalResponse === "" ? Middleware.goToModelWith("Answer.") : Middleware.end),
  after_tool: async () => Middleware.end
})
// @ts-expect-error after_agent cannot control the loop
export const endedTwice = Middleware.lifecycle({ name: "w", afterAgent: () => Middleware.endWith("x") })
// @ts-expect-error there is no answer to end with before the run
export const endedEarly = Middleware.lifecycle({ name: "w", beforeAgent: () => Middleware.end })
// @ts-expect-error the model is called after before_model anyway
export const modelBefore = Middleware.lifecycle({ name: "w", beforeModel: () => Middleware.goToModel })
// @ts-expect-error a call is denied or skipped, the run ends after it
export const endedBeforeTool = Middleware.lifecycle({ name: "w", before_tool: () => Effect.succeed(Middleware.end) })
// @ts-expect-error after_tool ends the run or lets it go on
export const toolsAfterTool = Middleware.lifecycle({ name: "w", after_tool: () => Middleware.goToTools([]) })
// @ts-expect-error the answer is a text
export const endedWithNumber = Middleware.lifecycle({ name: "w", afterModel: () => Middleware.endWith(4) })

// @ts-expect-error: a field or a result of another phase
export const deniedAfter = Middleware.lifecycle({ name: "w", afterTool: () => Middleware.deny("late") })
// @ts-expect-error: a field or a result of another phase
export const unknownField = Middleware.withModifications({ tool_imput: {} })

// What its wrapper fails with is in the type of an agent.
export const limited = Middleware.lifecycle<never, BudgetExceeded>({
  name: "limited",
  wrapModelCall: () => () => Effect.fail(new BudgetExceeded({ spent: 1 }))
})
same<Middleware.Errors<[typeof limited]>, BudgetExceeded>(true)

// Inside a wrapper the failures of every runtime are known by their tags.
export const tagged = Middleware.llmExecution({
  name: "tagged",
  wrap: (next) => (request) =>
    next(request).pipe(
      Effect.catchTag("AiError", (error) => {
        same<typeof error, AiError.AiError>(true)
        return Effect.fail(new BudgetExceeded({ spent: error.reason._tag === "RateLimitError" ? 0 : 1 }))
      })
    )
})
same<Middleware.Errors<[typeof tagged]>, BudgetExceeded>(true)
export const rethrowing = Middleware.llmExecution({
  name: "rethrowing",
  wrap: (next) => (request) => next(request).pipe(Effect.catch((error) => Effect.fail(error)))
})
same<Middleware.Errors<[typeof rethrowing]>, never>(true)
export const taggedTool = Middleware.wrapToolCall({
  name: "tagged",
  wrap: (next) => (args) =>
    next(args).pipe(Effect.catchTag("ToolFailed", ({ phase }) => Effect.succeed({ output: phase, isFailure: true })))
})
export const noFailure: Middleware.WrapToolCall = taggedTool

// What a wrapper fails with and needs is inferred; what every run can fail with adds nothing.
const inferred = Middleware.wrapModelCall({
  name: "inferred",
  wrap: (next) => (params) =>
    Effect.gen(function* () {
      const amount = yield* (yield* Ledger).spent
      if (amount > 9) return yield* new BudgetExceeded({ spent: amount })
      return yield* next(params)
    })
})
same<Middleware.Errors<[typeof inferred]>, BudgetExceeded>(true)
same<Middleware.NeedsOf<typeof inferred>, Ledger>(true)
const vetoing = Middleware.llmExecution({
  name: "vetoing",
  wrap: () => () => Effect.fail(new ExecutionBlocked({ reason: "no", metadata: {} }))
})
same<Middleware.Errors<[typeof vetoing]>, never>(true)

// What it catches of others is declared by their classes, and is known inside.
const catching = Middleware.wrapModelCall({
  name: "catching",
  catches: [BudgetExceeded, Softened],
  wrap: (next) => (params) =>
    next(params).pipe(
      Effect.catchTag("BudgetExceeded", ({ spent }) => Effect.fail(new Refunded({ amount: spent }))),
      Effect.catchTag("Softened", () => Effect.fail(new Refunded({ amount: 0 })))
    )
})
same<Middleware.Errors<[typeof catching, typeof inferred]>, Refunded>(true)
same<Middleware.Errors<[typeof inferred, typeof catching]>, BudgetExceeded | Refunded>(true)

// A failure of others that is not declared has no tag to be caught by.
Middleware.wrapModelCall({
  name: "undeclared",
  // @ts-expect-error: BudgetExceeded is none of the failures that come from below
  wrap: (next) => (params) => next(params).pipe(Effect.catchTag("BudgetExceeded", () => Effect.die("caught")))
})
// @ts-expect-error: nobody makes an opaque failure
export const forged: Middleware.OpaqueFailure = {}

// A wrapper that claims to catch a failure and lets it through adds it again.
const claiming = Middleware.wrapModelCall({
  name: "claiming",
  catches: [BudgetExceeded],
  wrap: (next) => (params) => next(params)
})
same<Middleware.Errors<[typeof claiming, typeof inferred]>, BudgetExceeded>(true)
Middleware.wrapModelCall<BudgetExceeded>({
  name: "claiming",
  // @ts-expect-error: it catches nothing
  wrap: (next) => (params) => next(params)
})
// @ts-expect-error: what catches nothing is not what catches something
export const widened: Middleware.WrapModelCall<BudgetExceeded> = Middleware.wrapModelCall({
  name: "w",
  wrap: (next) => next
})
// @ts-expect-error: what catches something is not what catches more
export const widenedMore: Middleware.WrapModelCall<BudgetExceeded | Softened, Refunded> = Middleware.wrapModelCall({
  name: "w",
  catches: [BudgetExceeded],
  wrap: (next) => (params) =>
    next(params).pipe(Effect.catchTag("BudgetExceeded", () => Effect.fail(new Refunded({ amount: 1 }))))
})

// A choice of wrappers catches only what each of them catches, and fails with what any of them fails with.
declare const flag: boolean
const passing = Middleware.wrapModelCall({ name: "passing", wrap: (next) => (params) => next(params) })
const chosen = [flag ? catching : passing, inferred] as const
same<Middleware.Errors<typeof chosen>, Refunded | BudgetExceeded>(true)
const both = [flag ? catching : softener, inferred] as const
same<Middleware.Errors<typeof both>, Refunded | Softened>(true)
const otherKind = [flag ? catching : timing, inferred] as const
same<Middleware.Errors<typeof otherKind>, Refunded | BudgetExceeded>(true)
// So does a list of which nobody knows the length or the members.
same<Middleware.Errors<ReadonlyArray<typeof catching | typeof inferred>>, Refunded | BudgetExceeded>(true)
same<Middleware.Errors<readonly [typeof catching] | readonly [typeof inferred]>, Refunded | BudgetExceeded>(true)
same<Middleware.Errors<readonly [...ReadonlyArray<typeof inferred>, typeof catching]>, Refunded | BudgetExceeded>(true)
same<Middleware.Errors<readonly [typeof catching, ...ReadonlyArray<typeof inferred>]>, Refunded | BudgetExceeded>(true)

// The same of a lifecycle record.
const record = Middleware.lifecycle({
  name: "record",
  catches: [BudgetExceeded],
  wrapModelCall: (next) => (params) =>
    next(params).pipe(Effect.catchTag("BudgetExceeded", () => Effect.fail(new Softened())))
})
same<Middleware.Errors<[typeof record, typeof inferred]>, Softened>(true)

// A comparison of `apiMode` gives a request the type of its SDK.
export const bodies = Middleware.llmRequest({
  name: "bodies",
  rewrite: (request) => {
    same<typeof request.apiMode, ApiMode>(true)
    switch (request.apiMode) {
      case "chat_completions":
        same<typeof request.messages, Array<OpenAI.ChatCompletionMessageParam>>(true)
        return Effect.succeed(Middleware.replacePayload({ ...request, temperature: 0 }))
      case "anthropic_messages":
        same<typeof request.max_tokens, number>(true)
        same<typeof request.system, string | Array<Anthropic.TextBlockParam> | undefined>(true)
        return Effect.succeed(Middleware.unchanged)
      case "codex_responses":
        same<typeof request.input, string | OpenAI.Responses.ResponseInput | undefined>(true)
        return Effect.succeed(Middleware.unchanged)
      case "bedrock_converse":
        same<typeof request.modelId, string | undefined>(true)
        same<typeof request.inferenceConfig, InferenceConfiguration | undefined>(true)
        return Effect.succeed(Middleware.unchanged)
      case "language_model":
        // @ts-expect-error: max_tokens of a foreign model is unknown
        same<typeof request.max_tokens, number>(true)
        return Effect.succeed(Middleware.unchanged)
    }
  }
})
export const body = Middleware.llmExecution({
  name: "body",
  wrap: (next) => (request) =>
    request.apiMode === "anthropic_messages" ? next({ ...request, max_tokens: request.max_tokens + 1 }) : next()
})

// State of a run belongs to lifecycle middleware: a wrapper that states keys would never receive them.
const Counted = Middleware.stateKey("types/counted", () => ({ count: 0 }))
export const withState = Middleware.lifecycle({ name: "with-state", state: [Counted], beforeTool: () => {} })
export const perRun = Middleware.lifecyclePerRun({ name: "per-run", state: [Counted], make: () => ({}) })
// @ts-expect-error a wrapper has no state of a run
Middleware.llmExecution({ name: "a", state: [Counted], wrap: (next) => (request) => next(request) })
// @ts-expect-error a wrapper has no state of a run
Middleware.toolExecution({ name: "a", state: [Counted], wrap: (next) => (args) => next(args) })
// @ts-expect-error a wrapper has no state of a run
Middleware.wrapModelCall({ name: "a", state: [Counted], wrap: (next) => (params) => next(params) })
// @ts-expect-error a wrapper has no state of a run
Middleware.wrapToolCall({ name: "a", state: [Counted], wrap: (next) => (args) => next(args) })
// @ts-expect-error request middleware has no state of a run
Middleware.llmRequest({ name: "a", state: [Counted], rewrite: () => Effect.succeed(Middleware.unchanged) })
// @ts-expect-error request middleware has no state of a run
Middleware.toolRequest({ name: "a", state: [Counted], rewrite: () => Effect.succeed(Middleware.unchanged) })
