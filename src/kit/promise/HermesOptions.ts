/**
 * Options of a runtime and of its runs as plain values, and their checks for programs without a type checker.
 *
 * Source: `ARCHITECTURE.md` §4.
 */
import * as Layer from "effect/Layer"
import type * as Prompt from "effect/ai/Prompt"
import type { AgentSettings, RunInput } from "../../agent/RunInput.ts"
import type { Plugin } from "../../agent/plugin/Plugin.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import type { Answer } from "../../base/domain/Question.ts"
import type { RunCall, RunDetails, SucceededCall } from "../../base/domain/RunDetails.ts"
import type { RunEvent, RunResult, UsageReported, ValueDelta } from "../../base/domain/RunEvent.ts"
import type { Platform } from "../../base/platform/ChildProcesses.ts"
import type * as CommandEnvironment from "../../places/CommandEnvironment.ts"
import type { Fetch } from "../../base/platform/ModelTransport.ts"
import type { Question } from "../../tools/approval/ApprovalRequest.ts"
import type * as FileTools from "../../tools/builtin/FileTools.ts"
import type * as TerminalTools from "../../tools/builtin/TerminalTools.ts"
import type * as Todo from "../../tools/builtin/Todo.ts"
import type { NeedsOf, Selection } from "../../tools/ToolRegistry.ts"
import type * as Toolset from "../../tools/Toolset.ts"
import type { CallOf } from "../../tools/ToolsetCalls.ts"
import { HermesError } from "./HermesError.ts"
import { agentsCheck, delegationCheck, type HermesAgent, type HermesDelegation } from "./PlainAgents.ts"
import type { ContextOption, RunScope } from "./PlainContext.ts"
import { type HookLimits, hookLimitsCheck, type Listeners, listenersCheck } from "./PlainListeners.ts"
import { type HermesMiddleware, middlewareCheck } from "./PlainMiddleware.ts"
import { type HermesModel, type HermesModelName, modelCheck, type ModelChoice, modelsCheck } from "./PlainModels.ts"
import * as Options from "./PlainOptions.ts"
import type { PartialValueOf, PlainOutput, ValueOf } from "./PlainOutput.ts"
import { fallbackCheck, type HermesFallback, type HermesRetry, retryCheck } from "./PlainPolicies.ts"
import type { PlainMessage, PlainPrompt } from "./PlainPrompt.ts"
import type { HermesMcp } from "./PlainServers.ts"
import { type HermesTenants, tenantsCheck } from "./PlainTenants.ts"
import type { HermesTool } from "./StandardTool.ts"

/** Services that the built-in toolsets need, which every runtime provides. */
export type BuiltinNeeds = NeedsOf<typeof FileTools.toolset | typeof TerminalTools.toolset | typeof Todo.toolset>

/** Tools of a runtime. `Context` is the part of a run's `context` that they read. */
export type HermesTools<Context = unknown> = ReadonlyArray<
  HermesTool<Context> | HermesMcp | Toolset.Toolset<never, BuiltinNeeds>
>

type CallOfEntry<Entry> =
  Entry extends HermesTool<never, infer Call> ? Call : Entry extends Toolset.Any ? CallOf<Entry> : RunCall

/** Calls of the tools of a runtime. The calls of MCP servers have no types, and neither have any others beside them. */
export type CallsOf<Tools extends ReadonlyArray<unknown>> =
  RunCall extends CallOfEntry<Tools[number]> ? RunCall : CallOfEntry<Tools[number]>

/**
 * Options of a runtime. `Context` is the part of a run's `context` that its functions read, `Schema` is the output of
 * its runs, and `Tools` are its tools.
 */
export interface HermesOptions<
  Context = unknown,
  Schema extends PlainOutput = PlainOutput,
  Tools extends ReadonlyArray<unknown> = HermesTools<Context>
> extends Omit<AgentSettings, "delegation" | "output" | "prefill" | "tools"> {
  /** Models in order of preference. */
  readonly model: ModelChoice
  /** Repeats failed calls. Default: three attempts with waits of 5 and 10 seconds. */
  readonly retry?: HermesRetry | undefined
  /** Leaves a model for the next one of `model`, and returns to the first. */
  readonly fallback?: HermesFallback | undefined
  /**
   * Tools created from functions (`tool`), MCP servers (`mcp`), and toolsets of the package: `FileTools.toolset`, …
   */
  readonly tools?: (Tools & HermesTools<Context>) | undefined
  /** Sub-agents, to which the model sends tasks. */
  readonly agents?: ReadonlyArray<HermesAgent<Context>> | undefined
  /** Limits and permissions of all sub-agents. */
  readonly delegation?: HermesDelegation | undefined
  /** Schema of the value in which each run ends, unless the run names another one. */
  readonly output?: Schema | undefined
  /** Example messages before the conversation of each model call. They are never stored. */
  readonly prefill?: ReadonlyArray<PlainMessage | Prompt.Message> | undefined
  readonly on?: Listeners<Context> | undefined
  /** Limits of all listeners. */
  readonly hookLimits?: HookLimits | undefined
  /**
   * Decides whether a dangerous call may run: `true` or `"once"`, `"session"`, …; any other value denies the call.
   * Without this option, dangerous calls are denied.
   */
  readonly approve?: ((question: Question, scope: RunScope<Context>) => unknown) | undefined
  /**
   * Hosts that tools may access without an approval: `example.com`, `*.example.com`, `localhost:8080`. `approve` is
   * asked about all other hosts.
   */
  readonly hosts?: ReadonlyArray<string> | undefined
  /**
   * Store of sessions. By default, sessions with a `sessionId` are stored in memory, and other sessions end with their
   * run. `"memory"` also stores sessions without a name, `"none"` stores none after its run, and a SQLite file or a
   * Postgres database (`postgres://…`) stores all of them. Memory holds 5,000 sessions, each for 24 hours after its
   * last run.
   */
  readonly store?: "memory" | "none" | { readonly sqlite: string } | { readonly postgres: string } | undefined
  /** Sends the requests of model calls, instead of the connections of the runtime. */
  readonly fetch?: Fetch | undefined
  /**
   * Tenants, their limits and their models: a list, or a function that looks one up. Runs name theirs with `tenant`.
   * Their spending is stored where `store` is: in memory, in a file beside the SQLite file (`….tenants`), or in the
   * Postgres database.
   */
  readonly tenants?: HermesTenants | undefined
  /** Functions around model calls and tool calls, by their kind. */
  readonly middleware?: HermesMiddleware<Context> | undefined
  /** Plugins of the package, such as exporters of traces. They come before all other parts. */
  readonly plugins?: ReadonlyArray<Plugin> | undefined
  /**
   * Place in which the built-in tools run commands and store files: a layer such as `Sandbox.layer({ … })`. Default:
   * this machine, without a sandbox.
   */
  readonly environment?: Layer.Layer<CommandEnvironment.CommandEnvironment, ConfigError, Platform> | undefined
}

/** Input of one run. */
export interface HermesInput<Schema extends PlainOutput = PlainOutput> extends Omit<
  RunInput,
  "context" | "history" | "onEvent" | "onUsageAfter" | "prompt" | "route" | "tools"
> {
  /** The user's message: a text, or texts, images and files as the AI SDK writes them. */
  readonly prompt: PlainPrompt
  /** Conversation that a new session begins with: `{ role, content }`, with calls and results of tools. */
  readonly history?: ReadonlyArray<PlainMessage | Prompt.Message> | undefined
  /**
   * Schema of the value in which the run ends: of Zod, ArkType, Valibot or Effect, or a JSON Schema. The result has the
   * checked `value`; a run without a value rejects with `InvalidOutput`.
   */
  readonly output?: Schema | undefined
  /** Model of the run, instead of the models of the runtime. */
  readonly model?: HermesModelName | HermesModel | undefined
  /** Repeats failed calls of the run, instead of the policies of the runtime. */
  readonly retry?: HermesRetry | undefined
  /** Names of the tools and toolsets of the run, or a selection by functions. Default: all tools. */
  readonly tools?: ReadonlyArray<string> | Selection | undefined
  /** Value of the application for tools, listeners, middleware and approvals. It is never stored. */
  readonly context?: unknown
  /** Signal that ends the run, which then rejects with `Aborted`. */
  readonly signal?: AbortSignal | undefined
  /**
   * Treatment of a streamed run whose reader leaves the loop: it ends (the default), or continues for readers that
   * return by `watch`. A run that continues does not wait for a slow reader, and needs a session that is stored.
   */
  readonly whenLeft?: "end" | "continue" | undefined
  /** Called with each event. If it returns a promise, the run waits for it. */
  readonly onEvent?: ((event: RunEvent) => unknown) | undefined
  /** Called with the usage of reviews and background sub-agents that is charged to the run after its end. */
  readonly onUsageAfter?: ((usage: UsageReported) => unknown) | undefined
}

/** Input of a run that continues a suspended session. */
export interface HermesResumeInput<Schema extends PlainOutput = PlainOutput> extends Omit<
  HermesInput<Schema>,
  "expectedSession" | "goesOn" | "history" | "openCalls" | "prompt" | "sessionId" | "source" | "systemPrompt"
> {
  readonly sessionId: string
  /** Answers to the open questions of the session: all of them, some, or none. */
  readonly answers?: ReadonlyArray<Answer> | undefined
  /** Audience that answers, if it is not the owner of the session. */
  readonly audience?: string | undefined
}

/** Input of a run, as a text or with options. A runtime whose functions read a context requires it. */
export type RunArgument<Schema extends PlainOutput, Context> =
  | (unknown extends Context ? string : never)
  | (HermesInput<Schema> & ContextOption<Context>)

/** Input of a run that names its output schema. */
export type OutputArgument<Schema extends PlainOutput, Context> = HermesInput<Schema> &
  ContextOption<Context> & { readonly output: Schema }

/** Input of a run that ends in the value of its runtime, if it has one. */
export type PlainArgument<Context> =
  | (unknown extends Context ? string : never)
  | (HermesInput & ContextOption<Context> & { readonly output?: undefined })

/** Schema of a run whose own may be absent. `Output` is the schema of its runtime. */
export type OptionalOutput<Schema, Output> = Schema | (PlainOutput extends Output ? undefined : Output)

/**
 * Result of a run with its details: calls, messages in the form of `history`, files, and the usage of each step. They
 * are not part of its JSON. With an `output` schema, `value` is the value of the answer.
 */
export type HermesResult<Schema, Call = RunCall> = RunResult &
  Omit<RunDetails<Call>, "messages"> & {
    readonly messages: ReadonlyArray<PlainMessage>
  } & (unknown extends ValueOf<Schema> ? unknown : { readonly value: ValueOf<Schema> })

type FinishedOf<Call> =
  Call extends SucceededCall<infer Name, unknown, infer Result>
    ? ToolFinishedEvent & { readonly name: Name; readonly result?: Result }
    : never

type ToolFinishedEvent = Extract<RunEvent, { readonly _tag: "ToolFinished" }>

/** Events of a run. With an `output` schema, `ValueDelta` and the result carry its types. */
export type HermesEvent<Schema, Call = RunCall> =
  | Exclude<RunEvent, RunResult | ToolFinishedEvent | typeof ValueDelta.Type>
  | FinishedOf<Call>
  | (unknown extends ValueOf<Schema>
      ? typeof ValueDelta.Type
      : typeof ValueDelta.Type & { readonly value: PartialValueOf<Schema> })
  | HermesResult<Schema, Call>

/** Tests whether a tool of a runtime is an MCP server. */
export const isServer = (one: unknown): one is HermesMcp => Json.isFields(one) && Json.isFields(one["mcp"])

/** Checks the tools of a runtime or of a server. */
export const checkToolList: Options.Check = (value, at) => {
  if (!Array.isArray(value)) return Options.list(value, at)
  const names = new Set<unknown>()
  const servers = new Set<string>()
  return Array.from(value).flatMap((one: unknown, index) => {
    if (isServer(one)) {
      const twice = Object.keys(one.mcp).filter((name) => servers.has(name) || !servers.add(name))
      return twice.map(
        (name) => `${at}[${index}]: another MCP server has the name ${JSON.stringify(name)}: give each its own`
      )
    }
    const toolset = Json.isFields(one) && "toolset" in one ? one["toolset"] : one
    if (!Json.isFields(toolset) || !("bind" in toolset))
      return [`${at}[${index}] is not a tool: make it by tool({ … }), or give a toolset of the package`]
    if (names.has(toolset["name"]))
      return [`${at}[${index}]: another tool has the name ${JSON.stringify(toolset["name"])}: give each its own`]
    names.add(toolset["name"])
    return []
  })
}

const checkOutput = Options.makeKindCheck(
  "a schema",
  (output) => (typeof output === "object" && output !== null) || typeof output === "function"
)

const limits: Options.Checks<NonNullable<HermesOptions["budget"]>> = {
  tokens: Options.amount,
  dollars: Options.amount,
  seconds: Options.amount,
  toolCalls: Options.amount
}
const budget = Options.makeMembersCheck("limit", limits)

const resultLimits: Options.Checks<NonNullable<HermesOptions["resultLimits"]>> = {
  perResult: Options.count,
  perTurn: Options.count
}

const thresholds: Options.Checks<NonNullable<HermesOptions["loopGuard"]>["warnAfter"]> = {
  exactFailure: Options.count,
  sameToolFailure: Options.count,
  noProgress: Options.count
}
const checkThresholds = Options.makeMembersCheck("threshold", thresholds, Object.keys(thresholds))

const loopGuard: Options.Checks<NonNullable<HermesOptions["loopGuard"]>> = {
  warnings: Options.flag,
  hardStop: Options.flag,
  warnAfter: checkThresholds,
  hardStopAfter: checkThresholds
}

const reviews: Options.Checks<NonNullable<HermesOptions["reviews"]>> = {
  memoryTurns: Options.amount,
  skillSteps: Options.amount
}

const questionPolicy: Options.Checks<NonNullable<HermesOptions["questions"]>> = {
  unanswered: Options.makeChoiceCheck(["deny", "suspend"]),
  wait: Options.time,
  expiresAfter: Options.time,
  audience: Options.text
}
const checkQuestionPolicy = Options.makeMembersCheck("part of questions", questionPolicy)

const runtimeOptions: Options.Checks<HermesOptions> = {
  model: modelsCheck,
  retry: retryCheck,
  fallback: fallbackCheck,
  tools: checkToolList,
  agents: agentsCheck,
  delegation: delegationCheck,
  output: checkOutput,
  prefill: Options.list,
  on: listenersCheck,
  hookLimits: hookLimitsCheck,
  approve: Options.callback,
  hosts: Options.names,
  store: Options.makeKindCheck(
    '"memory", "none", { sqlite: path } or { postgres: url }',
    (store) =>
      store === "memory" ||
      store === "none" ||
      (Json.isFields(store) && (typeof store["sqlite"] === "string" || typeof store["postgres"] === "string"))
  ),
  middleware: middlewareCheck,
  plugins: Options.makeKindCheck(
    "a list of plugins",
    (plugins) => Array.isArray(plugins) && Array.from(plugins).every((one) => Json.isFields(one) && "name" in one)
  ),
  tenants: tenantsCheck,
  environment: Options.makeKindCheck("a layer, such as Sandbox.layer({ … })", Layer.isLayer),
  platform: Options.text,
  toolUseEnforcement: Options.makeKindCheck(
    '"auto", true, false, or a list of parts of names',
    (value) => value === "auto" || typeof value === "boolean" || Array.isArray(value)
  ),
  promptCache: Options.makeChoiceCheck(["auto", "5m", "1h", "off"]),
  promptCacheRoutes: Options.makeChoiceCheck(["known", "always"]),
  keepTurnContext: Options.flag,
  passSessionId: Options.flag,
  loopGuard: Options.makeMembersCheck("setting", loopGuard, Object.keys(loopGuard)),
  resultLimits: Options.makeMembersCheck("limit", resultLimits, ["perResult", "perTurn"]),
  reviews: Options.makeMembersCheck("interval", reviews),
  budget,
  cwd: Options.text,
  fetch: Options.callback,
  identity: Options.text,
  instructions: Options.text,
  maxIterations: Options.count,
  maxOutputTokens: Options.count,
  questions: checkQuestionPolicy,
  reasoningEffort: Options.effort,
  stopTools: Options.names,
  temperature: Options.number
}

const expectedSession: Options.Checks<NonNullable<RunInput["expectedSession"]>> = {
  sessionId: Options.name,
  messages: Options.amount
}

const selection: Options.Checks<Selection> = {
  toolset: Options.callback,
  tool: Options.callback,
  ofRunAlone: Options.callback,
  refusal: Options.callback
}
const checkFunctions = Options.makeMembersCheck("function of a selection", selection)

const checkSelection: Options.Check = (value, at) => (Array.isArray(value) ? Options.names : checkFunctions)(value, at)

const runOptions: Options.Checks<HermesInput> = {
  prompt: Options.makeKindCheck(
    "a text, or a list of parts",
    (prompt) => typeof prompt === "string" || Array.isArray(prompt)
  ),
  sessionId: Options.name,
  goesOn: Options.flag,
  expectedSession: Options.makeMembersCheck("member", expectedSession, ["sessionId", "messages"]),
  openCalls: Options.makeChoiceCheck(["close", "run"]),
  onInterrupt: Options.makeChoiceCheck(["close", "leave"]),
  questions: checkQuestionPolicy,
  source: Options.text,
  platform: Options.text,
  history: Options.list,
  output: checkOutput,
  context: Options.skipCheck,
  retry: retryCheck,
  model: modelCheck,
  tenant: Options.text,
  systemPrompt: Options.text,
  ephemeralSystemPrompt: Options.text,
  cwd: Options.text,
  tools: checkSelection,
  hasUnreadMessage: Options.callback,
  onUsageAfter: Options.callback,
  seed: Options.number,
  stopTools: Options.names,
  maxIterations: Options.count,
  budget,
  reasoningEffort: Options.effort,
  streaming: Options.flag,
  readsText: Options.flag,
  signal: Options.makeKindCheck("an AbortSignal", (signal) => signal instanceof AbortSignal),
  whenLeft: Options.makeChoiceCheck(["end", "continue"]),
  onEvent: Options.callback
}

const {
  expectedSession: _expected,
  goesOn: _goesOn,
  history: _history,
  openCalls: _openCalls,
  prompt: _prompt,
  source: _source,
  systemPrompt: _systemPrompt,
  ...commonOptions
} = runOptions

const answer: Options.Checks<Answer> = { questionId: Options.name, answer: Options.skipCheck, by: Options.text }
const checkAnswer = Options.makeMembersCheck("member of an answer", answer, ["questionId"])
const checkAnswers: Options.Check = (value, at) =>
  Array.isArray(value)
    ? Array.from(value, (one: unknown, index) => checkAnswer(one, `${at}[${index}]`)).flat()
    : Options.list(value, at)

const resumeOptions: Options.Checks<HermesResumeInput> = {
  ...commonOptions,
  answers: checkAnswers,
  audience: Options.text
}

const findOptionProblems = Options.makeMembersCheck("option of createHermes", runtimeOptions, ["model"])
const findInputProblems = Options.makeMembersCheck("option of a run", runOptions)
const findResumeProblems = Options.makeMembersCheck("option of a resumption", resumeOptions, ["sessionId"])

/** Throws an error that lists all problems. */
const throwProblems = (tag: "ConfigError" | "InvalidInput", problems: ReadonlyArray<string>): void => {
  if (problems.length > 0) throw new HermesError(tag, problems.join("; "))
}

/** Throws a `ConfigError` that lists all problems of the options of a runtime. */
export const checkOptions = (options: HermesOptions<never>): void =>
  throwProblems("ConfigError", findOptionProblems(options, ""))

/** Throws an `InvalidInput` that lists all problems of the input of a run. */
export const checkInput = (input: HermesInput): void => throwProblems("InvalidInput", findInputProblems(input, ""))

/** Throws an `InvalidInput` that lists all problems of the input of a resumption. */
export const checkResumeInput = (input: HermesResumeInput): void =>
  throwProblems("InvalidInput", findResumeProblems(input, ""))
