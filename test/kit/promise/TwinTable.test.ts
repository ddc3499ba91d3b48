// Each option of a runtime, of a run and of an agent has its twin in the promise facade, or a reason to have none. An
// option without a row does not compile, and a row without its check fails.
import { assert, describe, it } from "vitest"
import type * as Agent from "../../../src/agent/Agent.ts"
import type { OutputInput } from "../../../src/agent/RunInput.ts"
import { createHermes, type Hermes, type HermesInput, type HermesOptions } from "../../../src/kit/entry/promise.ts"
import type * as Middleware from "../../../src/middleware/Middleware.ts"
import type { ModelRoute } from "../../../src/models/routing/RouteChain.ts"
import type * as Runtime from "../../../src/program/Runtime.ts"

/** Name of the twin, or the reason for which there is none. */
type Twin<Options> = keyof Options | { readonly none: string }

type RuntimeOptions = Runtime.Options<[], [], [], [], never, never, never, never, ReadonlyArray<ModelRoute>, never>

const ofRuntime: { readonly [Name in keyof RuntimeOptions]-?: Twin<HermesOptions> } = {
  approvals: "approve",
  budget: "budget",
  changes: { none: "an undo is a plan that a user confirms: FileUndo in a layer" },
  cwd: "cwd",
  delegation: "delegation",
  environment: "environment",
  fallback: "fallback",
  hookSettings: "hookLimits",
  hooks: "on",
  hosts: "hosts",
  identity: "identity",
  instructions: "instructions",
  keepTurnContext: "keepTurnContext",
  loopGuard: "loopGuard",
  maxIterations: "maxIterations",
  maxOutputTokens: "maxOutputTokens",
  middleware: "middleware",
  output: "output",
  passSessionId: "passSessionId",
  platform: "platform",
  plugins: "plugins",
  prefill: "prefill",
  promptCache: "promptCache",
  promptCacheRoutes: "promptCacheRoutes",
  provider: "model",
  questions: "questions",
  reasoningEffort: "reasoningEffort",
  record: { none: "the record belongs to the store: `store`" },
  resultLimits: "resultLimits",
  retry: "retry",
  reviews: "reviews",
  routes: "model",
  stopTools: "stopTools",
  store: "store",
  temperature: "temperature",
  tenants: "tenants",
  toolUseEnforcement: "toolUseEnforcement",
  tools: "tools"
}

/** Options of the facade that stand for a layer or a combination of options. */
const ownOfRuntime = ["agents"]

type RunOptions = Agent.RunInput<never> & OutputInput<unknown, unknown>

const ofRun: { readonly [Name in keyof RunOptions]-?: Twin<HermesInput> } = {
  budget: "budget",
  context: "context",
  cwd: "cwd",
  ephemeralSystemPrompt: "ephemeralSystemPrompt",
  expectedSession: "expectedSession",
  goesOn: "goesOn",
  hasUnreadMessage: "hasUnreadMessage",
  history: "history",
  maxIterations: "maxIterations",
  onEvent: "onEvent",
  onInterrupt: "onInterrupt",
  onUsageAfter: "onUsageAfter",
  openCalls: "openCalls",
  output: "output",
  platform: "platform",
  prompt: "prompt",
  readsText: "readsText",
  questions: "questions",
  reasoningEffort: "reasoningEffort",
  route: "model",
  seed: "seed",
  sessionId: "sessionId",
  source: "source",
  stopTools: "stopTools",
  streaming: "streaming",
  systemPrompt: "systemPrompt",
  tenant: "tenant",
  tools: "tools"
}

/** `retry` is RetryPolicy.CallPolicy, and `signal` is the interruption of the fiber. */
const ownOfRun = ["retry", "signal"]

const ofAgent: { readonly [Name in keyof Agent.Service]: Twin<Hermes> } = {
  callTool: "callTool",
  compact: "compactSession",
  deleteSession: "deleteSession",
  finalize: "endSession",
  promptLayers: { none: "a view of the program on its own prompt" },
  questions: "questions",
  resume: "resume",
  resumeStream: "resumeStream",
  run: "run",
  stop: "stop",
  stream: "stream"
}

const ofMiddleware: {
  readonly [Kind in Middleware.Contained["kind"]]: keyof NonNullable<HermesOptions["middleware"]>
} = {
  lifecycle: "lifecycle",
  llm_execution: "llm_execution",
  llm_request: "llm_request",
  tool_execution: "tool_execution",
  tool_request: "tool_request",
  wrap_model_call: "wrap_model_call",
  wrap_tool_call: "wrap_tool_call"
}

const namesOf = (table: Readonly<Record<string, unknown>>, own: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...new Set([...Object.values(table).filter((twin) => typeof twin === "string"), ...own])
]

/** An option that is undefined is absent, but its name is checked. */
const optionsOf = (names: ReadonlyArray<string>) => Object.fromEntries(names.map((name) => [name, undefined]))

describe("twins of the options", () => {
  it("of a runtime are options of createHermes, and of a run options of run", async () => {
    await using hermes = createHermes({ ...optionsOf(namesOf(ofRuntime, ownOfRuntime)), model: "offline" })
    const input = { ...optionsOf(namesOf(ofRun, ownOfRun)), prompt: "Reply exactly hello" }
    assert.strictEqual((await hermes.run(input)).text, "hello")
  })

  it("of an agent are methods, and of middleware its kinds", () => {
    const hermes = createHermes({ model: "offline" })
    for (const name of namesOf(ofAgent, [])) assert.isTrue(Object.hasOwn(hermes, name), name)
    const kinds = Object.fromEntries(namesOf(ofMiddleware, []).map((kind) => [kind, []]))
    assert.doesNotThrow(() => createHermes({ model: "offline", middleware: kinds }))
  })
})
