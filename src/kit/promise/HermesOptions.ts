/**
 * Options of a runtime and of its runs as plain values, and their checks for programs without a type checker.
 *
 * Source: `ARCHITECTURE.md` §4.
 */
import * as Layer from "effect/Layer"
import type * as Prompt from "effect/ai/Prompt"
import type { AgentSettings, RunInput } from "../../agent/RunInput.ts"
import * as Json from "../../base/domain/Json.ts"
import type { Answer } from "../../base/domain/Question.ts"
import type { RunEvent, RunResult, ValueDelta } from "../../base/domain/RunEvent.ts"
import { type HookEvents, type HookName, names as hookNames } from "../../hooks/Payloads.ts"
import type { Provider } from "../../models/provider/Provider.ts"
import type { ModelRoute } from "../../models/routing/EmbeddedRoutes.ts"
import type { Question } from "../../tools/approval/ApprovalRequest.ts"
import type * as FileTools from "../../tools/builtin/FileTools.ts"
import type * as TerminalTools from "../../tools/builtin/TerminalTools.ts"
import type * as Todo from "../../tools/builtin/Todo.ts"
import type { NeedsOf } from "../../tools/ToolRegistry.ts"
import type * as Toolset from "../../tools/Toolset.ts"
import { HermesError } from "./HermesError.ts"
import * as Options from "./PlainOptions.ts"
import type { PartialValueOf, PlainOutput, ValueOf } from "./PlainOutput.ts"
import { type HermesMiddleware, middlewareKinds } from "./PlainMiddleware.ts"
import type { PlainMessage, PlainPrompt } from "./PlainPrompt.ts"
import type { HermesMcp } from "./PlainServers.ts"
import type { HermesTool } from "./StandardTool.ts"

/** A provider and a model in one text, such as `ollama/qwen3`. */
export type HermesModelName = `${string}/${string}`

/**
 * A model, its provider, and one API key or several keys used in turn. Without a provider and an address, a model
 * `provider/model` names both.
 */
export interface HermesModel extends Omit<ModelRoute, "apiKey" | "retry"> {
  readonly apiKey?: string | ReadonlyArray<string> | undefined
}

/** Listeners, by the name of their hook. A listener may return a promise, and an answer if the hook accepts one. */
export type Listeners = { readonly [Name in HookName]?: ((event: HookEvents[Name]) => unknown) | undefined }

/** Services that the built-in toolsets need, which every runtime provides. */
export type BuiltinNeeds = NeedsOf<typeof FileTools.toolset | typeof TerminalTools.toolset | typeof Todo.toolset>

/** Options of a runtime. */
export interface HermesOptions extends Pick<
  AgentSettings,
  | "budget"
  | "cwd"
  | "identity"
  | "instructions"
  | "maxIterations"
  | "maxOutputTokens"
  | "questions"
  | "reasoningEffort"
  | "stopTools"
  | "temperature"
> {
  /**
   * Models in order of preference: the first is called first, and the others are fallbacks if it cannot answer.
   * `offline` is the built-in stand-in, which uses no network. `provider/model` is a model that needs no key. A
   * layer is a custom provider, such as a model of the AI SDK (`FromAiSdk.layer` of `hermes-effect/ai-sdk`).
   */
  readonly model: "offline" | HermesModelName | HermesModel | ReadonlyArray<HermesModel> | Layer.Layer<Provider>
  /**
   * Tools created from functions (`tool`), MCP servers (`mcp`), and toolsets of the package: `FileTools.toolset`, …
   */
  readonly tools?: ReadonlyArray<HermesTool | HermesMcp | Toolset.Toolset<never, BuiltinNeeds>> | undefined
  readonly on?: Listeners | undefined
  /**
   * Decides whether a dangerous call may run: `true` or `"once"`, `"session"`, …; any other value denies the call.
   * Without this option, dangerous calls are denied.
   */
  readonly approve?: ((question: Question) => unknown) | undefined
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
  /** Functions around model calls and tool calls, by their kind. */
  readonly middleware?: HermesMiddleware | undefined
}

/** Input of one run. */
export interface HermesInput<Schema extends PlainOutput = PlainOutput> extends Omit<
  RunInput,
  "context" | "hasUnreadMessage" | "history" | "onEvent" | "onUsageAfter" | "prompt"
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
  /** Signal that ends the run, which then rejects with `Aborted`. */
  readonly signal?: AbortSignal | undefined
  /** Called with each event. If it returns a promise, the run waits for it. */
  readonly onEvent?: ((event: RunEvent) => unknown) | undefined
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

/** Result of a run. With an `output` schema, `value` is the value of the answer. */
export type HermesResult<Schema> =
  unknown extends ValueOf<Schema> ? RunResult : RunResult & { readonly value: ValueOf<Schema> }

/** Events of a run. With an `output` schema, `ValueDelta` and the result carry its types. */
export type HermesEvent<Schema> =
  unknown extends ValueOf<Schema>
    ? RunEvent
    : | Exclude<RunEvent, RunResult | typeof ValueDelta.Type>
      | (typeof ValueDelta.Type & { readonly value: PartialValueOf<Schema> })
      | HermesResult<Schema>

/** Tests whether a tool of a runtime is an MCP server. */
export const isServer = (one: unknown): one is HermesMcp => Json.isFields(one) && Json.isFields(one["mcp"])

const modelOptions: Options.Checks<HermesModel> = {
  provider: Options.text,
  model: Options.text,
  apiKey: Options.makeKindCheck(
    "a key, or a list of keys",
    (key) => typeof key === "string" || (Array.isArray(key) && key.every((one) => typeof one === "string"))
  ),
  baseUrl: Options.text,
  apiMode: Options.text,
  headers: Options.fields,
  abilities: Options.fields
}

const isModelName = (value: unknown): value is HermesModelName => typeof value === "string" && /^[\w-]+\/./u.test(value)

const oneModel = Options.makeMembersCheck("option of a model", modelOptions, ["model"])

const expectedModel =
  '{ provider, model, apiKey }, a list of them, "provider/model", "offline", or a layer of a provider'

const checkModelChoice: Options.Check = (value, at) => {
  if (value === "offline" || isModelName(value) || Layer.isLayer(value)) return []
  const models: ReadonlyArray<unknown> = Array.isArray(value) ? value : [value]
  if (models.length === 0 || !models.every(Json.isFields)) return [`${at}: expected ${expectedModel}`]
  return models.flatMap((one, index) => oneModel(one, Array.isArray(value) ? `${at}[${index}]` : at))
}

const checkToolList: Options.Check = (value, at) => {
  if (!Array.isArray(value)) return Options.list(value, at)
  const names = new Set<unknown>()
  const servers = new Set<string>()
  return value.flatMap((one: unknown, index) => {
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

const limits: Options.Checks<NonNullable<HermesOptions["budget"]>> = {
  tokens: Options.amount,
  dollars: Options.amount,
  seconds: Options.amount,
  toolCalls: Options.amount
}
const budget = Options.makeMembersCheck("limit", limits)

const checkFunctions: Options.Check = (value, at) =>
  Array.isArray(value)
    ? value.flatMap((one, index) => Options.callback(one, `${at}[${index}]`))
    : Options.callback(value, at)

const questionPolicy: Options.Checks<NonNullable<HermesOptions["questions"]>> = {
  unanswered: Options.makeChoiceCheck(["deny", "suspend"]),
  wait: Options.time,
  expiresAfter: Options.time,
  audience: Options.text
}
const checkQuestionPolicy = Options.makeMembersCheck("part of questions", questionPolicy)

const runtimeOptions: Options.Checks<HermesOptions> = {
  model: checkModelChoice,
  tools: checkToolList,
  on: Options.makeMembersCheck("hook", Object.fromEntries(hookNames.map((name) => [name, Options.callback]))),
  approve: Options.callback,
  hosts: Options.list,
  store: Options.makeKindCheck(
    '"memory", "none", { sqlite: path } or { postgres: url }',
    (store) =>
      store === "memory" ||
      store === "none" ||
      (Json.isFields(store) && (typeof store["sqlite"] === "string" || typeof store["postgres"] === "string"))
  ),
  middleware: Options.makeMembersCheck(
    "kind of middleware",
    Object.fromEntries(middlewareKinds.map((kind) => [kind, checkFunctions]))
  ),
  budget,
  cwd: Options.text,
  identity: Options.text,
  instructions: Options.text,
  maxIterations: Options.count,
  maxOutputTokens: Options.count,
  questions: checkQuestionPolicy,
  reasoningEffort: Options.effort,
  stopTools: Options.list,
  temperature: Options.number
}

const runOptions: Options.Checks<HermesInput> = {
  prompt: Options.makeKindCheck(
    "a text, or a list of parts",
    (prompt) => typeof prompt === "string" || Array.isArray(prompt)
  ),
  sessionId: Options.text,
  goesOn: Options.flag,
  expectedSession: Options.fields,
  openCalls: Options.makeChoiceCheck(["close", "run"]),
  onInterrupt: Options.makeChoiceCheck(["close", "leave"]),
  questions: checkQuestionPolicy,
  source: Options.text,
  platform: Options.text,
  history: Options.list,
  output: Options.makeKindCheck(
    "a schema",
    (output) => (typeof output === "object" && output !== null) || typeof output === "function"
  ),
  systemPrompt: Options.text,
  ephemeralSystemPrompt: Options.text,
  cwd: Options.text,
  tools: Options.fields,
  seed: Options.number,
  stopTools: Options.list,
  maxIterations: Options.count,
  budget,
  route: Options.fields,
  reasoningEffort: Options.effort,
  streaming: Options.flag,
  readsText: Options.flag,
  signal: Options.makeKindCheck("an AbortSignal", (signal) => signal instanceof AbortSignal),
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
const resumeOptions: Options.Checks<HermesResumeInput> = {
  ...commonOptions,
  answers: Options.list,
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
export const checkOptions = (options: HermesOptions): void =>
  throwProblems("ConfigError", findOptionProblems(options, ""))

/** Throws an `InvalidInput` that lists all problems of the input of a run. */
export const checkInput = (input: HermesInput): void => throwProblems("InvalidInput", findInputProblems(input, ""))

/** Throws an `InvalidInput` that lists all problems of the input of a resumption. */
export const checkResumeInput = (input: HermesResumeInput): void =>
  throwProblems("InvalidInput", findResumeProblems(input, ""))
