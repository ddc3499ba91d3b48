/**
 * Sub-agents as plain values: the model of a run sends them tasks with the tool `Agent`, and receives their reports.
 *
 * **Details**
 *
 * A sub-agent works in a separate conversation. Without `tools` it has the tools of the runtime; a list names some of
 * them, or adds tools that only this sub-agent has. Without `model` it uses the model of the run.
 *
 * **Example** (An agent with a researcher)
 *
 * ```ts
 * import { createHermes } from "hermes-effect/promise"
 *
 * const hermes = createHermes({
 *   model: "offline",
 *   agents: [{ name: "researcher", description: "Looks things up", instructions: "Cite your sources.", tools: [] }]
 * })
 * await hermes.dispose()
 * ```
 */
import type { AgentSettings, DelegationSettings, SubAgent } from "../../agent/RunInput.ts"
import * as Json from "../../base/domain/Json.ts"
import * as SubAgents from "../../tools/builtin/SubAgents.ts"
import type { Selection } from "../../tools/ToolRegistry.ts"
import type * as Toolset from "../../tools/Toolset.ts"
import { type HermesMiddleware, middlewareCheck, toMiddleware } from "./PlainMiddleware.ts"
import { type HermesModel, type HermesModelName, modelCheck, toRoute } from "./PlainModels.ts"
import * as Options from "./PlainOptions.ts"
import { type PlainOutput, toOutput } from "./PlainOutput.ts"
import type { HermesTool } from "./StandardTool.ts"

/** A sub-agent. Absent options default to the options of the runtime, except its instructions and its output. */
export interface HermesAgent<Context = unknown> extends Pick<
  AgentSettings,
  "identity" | "instructions" | "maxIterations" | "maxOutputTokens" | "reasoningEffort" | "stopTools" | "temperature"
> {
  readonly name: string
  /** Tells the model when to use the sub-agent. */
  readonly description?: string | undefined
  /** Model of the sub-agent. Default: the model of the run that calls it. */
  readonly model?: HermesModelName | HermesModel | undefined
  /** Names of tools of the runtime, and tools that only this sub-agent has. Default: the tools of the runtime. */
  readonly tools?: ReadonlyArray<string | HermesTool<Context>> | undefined
  /** Schema of its report. */
  readonly output?: PlainOutput | undefined
  /** Middleware of the sub-agent, inside the middleware of the runtime. */
  readonly middleware?: HermesMiddleware<Context> | undefined
}

/** Limits and permissions of all sub-agents. */
export interface HermesDelegation extends Omit<DelegationSettings, "agents" | "childTimeoutMillis" | "route"> {
  /** Time limit of a sub-agent, in seconds. */
  readonly timeout?: number | undefined
}

type AnyAgent = HermesAgent<never>

const toSubAgent = (
  { description: _, maxIterations, middleware, model, name, output, tools, ...settings }: AnyAgent,
  at: string
): SubAgent => ({
  name,
  settings: { ...settings, ...(output === undefined ? {} : { output: toOutput(output) }) },
  maxIterations,
  ...(model === undefined ? {} : { route: toRoute(model, `${at}.model`) }),
  ...(tools === undefined ? {} : { tools: tools.map((one) => (typeof one === "string" ? one : one.toolset.name)) }),
  ...(middleware === undefined ? {} : { middleware: toMiddleware(middleware) })
})

/** Converts sub-agents and the limits of delegation to settings of the agent. */
export const toDelegation = (
  agents: ReadonlyArray<AnyAgent>,
  { timeout, ...limits }: HermesDelegation
): DelegationSettings => ({
  ...limits,
  ...(timeout === undefined ? {} : { childTimeoutMillis: timeout * 1_000 }),
  agents: agents.map((one, index) => toSubAgent(one, `agents[${index}]`))
})

const listOwnTools = (agents: ReadonlyArray<AnyAgent>): ReadonlyArray<Toolset.Toolset> => {
  const sets = agents.flatMap(({ tools = [] }) =>
    tools.flatMap((one) => (typeof one === "string" ? [] : [one.toolset]))
  )
  return [...new Set(sets)]
}

/** Returns the toolset that calls sub-agents, and the toolsets that only sub-agents have. */
export const listToolsets = (
  agents: ReadonlyArray<AnyAgent>,
  others: ReadonlyArray<{ readonly name: string }>
): ReadonlyArray<Toolset.Toolset> => {
  if (agents.length === 0) return []
  const names = new Set(others.map(({ name }) => name))
  return [SubAgents.make(agents), ...listOwnTools(agents).filter(({ name }) => !names.has(name))]
}

/** Returns the selection of a run of the runtime itself, which leaves out the tools of sub-agents. */
export const selectOwnTools = (
  agents: ReadonlyArray<AnyAgent>,
  others: ReadonlyArray<{ readonly name: string }>
): Selection | undefined => {
  const names = new Set(others.map(({ name }) => name))
  const hidden = new Set(listOwnTools(agents).flatMap(({ name }) => (names.has(name) ? [] : [name])))
  return hidden.size === 0 ? undefined : { toolset: (name) => !hidden.has(name) }
}

const checkTools: Options.Check = (value, at) =>
  Array.isArray(value)
    ? Array.from(value, (one: unknown, index) =>
        typeof one === "string" || (Json.isFields(one) && "toolset" in one)
          ? []
          : [`${at}[${index}]: expected the name of a tool, or tool({ … })`]
      ).flat()
    : Options.list(value, at)

const agentOptions: Options.Checks<AnyAgent> = {
  name: Options.makeKindCheck("a name", (name) => typeof name === "string" && name.trim() !== ""),
  description: Options.text,
  model: modelCheck,
  tools: checkTools,
  output: Options.skipCheck,
  middleware: middlewareCheck,
  identity: Options.text,
  instructions: Options.text,
  maxIterations: Options.count,
  maxOutputTokens: Options.count,
  reasoningEffort: Options.effort,
  stopTools: Options.names,
  temperature: Options.number
}

const checkAgent = Options.makeMembersCheck("option of an agent", agentOptions, ["name"])

/** Check for the option `agents`. */
export const agentsCheck: Options.Check = (value, at) => {
  if (!Array.isArray(value)) return Options.list(value, at)
  const names = new Set<unknown>()
  return Array.from(value, (one: unknown, index) => {
    const place = `${at}[${index}]`
    const name = Json.isFields(one) ? one["name"] : undefined
    const isTaken = names.has(name)
    names.add(name)
    return isTaken
      ? [`${place}: another agent has the name ${JSON.stringify(name)}: give each its own`]
      : checkAgent(one, place)
  }).flat()
}

const delegationOptions: Options.Checks<HermesDelegation> = {
  maxSpawnDepth: Options.count,
  maxConcurrentChildren: Options.count,
  maxCallsPerStep: Options.count,
  maxIterations: Options.count,
  timeout: Options.duration,
  autoApprove: Options.flag,
  reasoningEffort: Options.effort,
  inheritMcpToolsets: Options.flag
}

/** Check for the option `delegation`. */
export const delegationCheck = Options.makeMembersCheck("option of delegation", delegationOptions)
