/**
 * Conditions of a suspended run, which bound the run that continues it: the tools, the permission mode, the budget that
 * is left, and the working directory.
 *
 * **Details**
 *
 * The conditions are stored with each call that waits, and removed with its result. The run that continues has the
 * conditions that its caller states, as far as they are not looser than the stored ones. Everything else comes from the
 * process that continues: the code of tools, middleware and hooks, approvals, the route, and the policy of questions.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as BigDecimal from "effect/BigDecimal"
import * as PermissionMode from "../base/config/PermissionMode.ts"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import type { SessionId } from "../base/domain/Ids.ts"
import * as Usage from "../base/domain/Usage.ts"
import type { Service as StoreService, StepResult } from "../store/SessionStorePort.ts"
import { ToolContext } from "../tools/ToolContext.ts"
import { everything, type Selection } from "../tools/ToolRegistry.ts"
import type * as Budget from "./Budget.ts"
import type { AgentSettings, StartOptions } from "./RunInput.ts"
import type { RunState } from "./RunState.ts"
import { Services } from "./Services.ts"

/** Rest of the limits of a run. Absent limits did not apply. */
const Left = Schema.Struct({
  iterations: Schema.Finite,
  tokens: Schema.optionalKey(Schema.Finite),
  dollars: Schema.optionalKey(Schema.Finite),
  seconds: Schema.optionalKey(Schema.Finite),
  toolCalls: Schema.optionalKey(Schema.Finite)
})

const RunConditions = Schema.Struct({
  /** Time of the suspension, in epoch milliseconds. */
  at: Schema.Finite,
  cwd: Schema.optionalKey(Schema.String),
  mode: Schema.optionalKey(Schema.Literals(PermissionMode.all)),
  /** Names of the tools, if the run did not have all tools. */
  tools: Schema.optionalKey(Schema.Array(Schema.String)),
  left: Left
})
/** Type of the conditions of a suspended run. */
export type RunConditions = typeof RunConditions.Type

const decodeConditions = Schema.decodeUnknownOption(RunConditions)

const prefix = "conditions:"

/** Returns true for the name of a step that stores conditions. */
export const isConditionsStep = (name: string): boolean => name.startsWith(prefix)

/** Counts the calls that run again although they have used up a call of the quota. */
const countRepeated = ({ book }: RunState, callIds: ReadonlyArray<string>): number => {
  const added = new Set(book.listNew(callIds))
  const waited = new Set(
    book
      .listAll(callIds)
      .flatMap((stored) => (stored.state === "open" && !added.has(stored) ? (stored.question.callId ?? []) : []))
  )
  return callIds.filter((id) => !waited.has(id)).length
}

const computeLeft = (
  { cost, iterations, limits, startedAt, toolCalls, usage, usedIterations }: Budget.Budget,
  now: number,
  repeated: number
) => {
  const { dollars, seconds, tokens, toolCalls: mostCalls } = limits
  const keepPositive = (value: number): number => Math.max(0, value)
  return {
    iterations: keepPositive(iterations - usedIterations),
    ...(tokens === undefined ? {} : { tokens: keepPositive(tokens - Usage.countTotalTokens(usage)) }),
    ...(dollars === undefined ? {} : { dollars: keepPositive(dollars - BigDecimal.toNumberUnsafe(cost.amount)) }),
    ...(seconds === undefined ? {} : { seconds: keepPositive(seconds - (now - startedAt) / 1000) }),
    ...(mostCalls === undefined ? {} : { toolCalls: keepPositive(mostCalls - toolCalls + repeated) })
  }
}

/** Returns the steps that store the conditions of a run with its calls that wait. */
export const collectConditions = Effect.fnUntraced(function* (
  run: RunState,
  callIds: ReadonlyArray<string>
): Effect.fn.Return<ReadonlyArray<StepResult>, never, Services> {
  const { registry } = yield* Services
  const at = yield* Clock.currentTimeMillis
  const mode = yield* PermissionMode.current
  const place = Option.getOrUndefined(yield* Effect.serviceOption(ToolContext))
  const tools = run.tools === everything ? undefined : (yield* registry.snapshot(run.tools)).names
  const value: RunConditions = {
    at,
    left: computeLeft(run.budget, at, countRepeated(run, callIds)),
    ...(place === undefined ? {} : { cwd: place.cwd }),
    ...(mode === undefined ? {} : { mode }),
    ...(tools === undefined ? {} : { tools })
  }
  return callIds.map((callId) => ({ callId, name: `${prefix}${run.turnId}`, value }))
})

/** Reads the conditions of the suspended runs of a session, the oldest first. */
export const readConditions = (
  store: Pick<StoreService, "listSteps">,
  sessionId: SessionId
): Effect.Effect<ReadonlyArray<RunConditions>, SessionStoreError> =>
  Effect.map(store.listSteps(sessionId), (steps) =>
    steps
      .flatMap(({ name, value }) =>
        isConditionsStep(name)
          ? Option.match(decodeConditions(value), { onNone: () => [], onSome: (one) => [one] })
          : []
      )
      .sort((one, other) => one.at - other.at)
  )

const selectLess = (one: number | undefined, other: number | undefined): number | undefined =>
  one === undefined || other === undefined ? (one ?? other) : Math.min(one, other)

const narrowTools = (selection: Selection, names: ReadonlyArray<string>): Selection => {
  const known = new Set(names)
  return { ...selection, tool: (name) => known.has(name) && (selection.tool?.(name) ?? true) }
}

/** Default limit of model calls with tools in one run. */
export const defaultMaxIterations = 90

/** Returns the options of a run that continues under the conditions of the suspended one. */
export const narrowOptions = (
  options: StartOptions,
  settings: Pick<AgentSettings, "budget" | "maxIterations" | "tools">,
  { cwd, left, tools }: RunConditions
): StartOptions => {
  const budget = { ...settings.budget, ...options.budget }
  const selection = options.tools ?? settings.tools ?? everything
  return {
    ...options,
    cwd: options.cwd ?? cwd,
    maxIterations: Math.min(options.maxIterations ?? settings.maxIterations ?? defaultMaxIterations, left.iterations),
    budget: {
      tokens: selectLess(budget.tokens, left.tokens),
      dollars: selectLess(budget.dollars, left.dollars),
      seconds: selectLess(budget.seconds, left.seconds),
      toolCalls: selectLess(budget.toolCalls, left.toolCalls)
    },
    ...(tools === undefined ? {} : { tools: narrowTools(selection, tools) })
  }
}

/** Runs an effect in no looser mode than the suspended runs had. */
export const limitMode = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  conditions: ReadonlyArray<RunConditions>
): Effect.Effect<A, E, R> => {
  const modes = conditions.flatMap(({ mode }) => mode ?? [])
  if (modes.length === 0) return effect
  return Effect.flatMap(PermissionMode.LoosestMode, (loosest) =>
    Effect.provideService(
      effect,
      PermissionMode.LoosestMode,
      modes.reduce((one, other) => PermissionMode.selectNarrower(one, other), loosest ?? "yolo")
    )
  )
}
