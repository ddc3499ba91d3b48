/**
 * A trajectory under construction, and the document built from it.
 *
 * **Details**
 *
 * A child is embedded under the id of its session, made unique in the document, and contains its own children. A child
 * without steps has its goal as its only step. If it does not have a goal either, the child and all references to it
 * are left out. Totals exclude copied steps and steps of children; the cost of a root includes its children and is
 * marked accordingly.
 *
 * Source: `relay-atof-atif.md` §2.2, §2.3 and §2.7.
 */
import type * as Schema from "effect/Schema"
import * as Atif from "../Atif.ts"

/** Fields of an `extra` object. */
export type Extra = Record<string, Schema.Json>

/** Known part of the result of a call. */
export interface Result {
  readonly callId: string | undefined
  content: Atif.Content | undefined
  readonly children: Array<Draft>
  extra: Extra
}

/** A call in a step. */
export interface Call {
  readonly id: string
  readonly name: string
  readonly args: { readonly [key: string]: Schema.Json }
  readonly extra: Extra
}

/** A step under construction. */
export interface Step {
  readonly source: Atif.Step["source"]
  message: Atif.Content
  readonly timestamp: string | undefined
  rest: Partial<Atif.Step>
  readonly calls: Array<Call>
  readonly results: Array<Result>
  readonly extra: Extra
}

/** A trajectory under construction. */
export interface Draft {
  readonly sessionId: string
  readonly agent: Atif.Agent
  readonly goal: string | undefined
  readonly steps: Array<Step>
  /** Model of the agent, if known. `tools` are the tools that the agent is known to have. */
  model: string | undefined
  tools: ReadonlyArray<{ readonly [key: string]: Schema.Json }>
  readonly extra: Extra
}

/** Creates a step with the given fields and defaults for all others. */
export const makeStep = (fields: Pick<Step, "source" | "message" | "timestamp"> & Partial<Step>): Step => ({
  rest: {},
  calls: [],
  results: [],
  extra: {},
  ...fields
})

const toOptionalExtra = (extra: Extra): { readonly extra?: Extra } => (Object.keys(extra).length === 0 ? {} : { extra })

/** A step or a child's trajectory that no longer changes, with the ids that were assigned to its children. */
interface MadeValue<A> {
  readonly value: A
  readonly index: number
  /**
   * Number of results when the step was built. A result may be added later, when a call that was left open is closed.
   */
  readonly results: number
  readonly children: ReadonlyArray<readonly [draft: Draft, id: string]>
}

/** Retained steps, and the parts of the document built from them. */
interface KeptSteps {
  readonly steps: WeakSet<Step>
  readonly made: WeakMap<Step, MadeValue<Atif.Step>>
  readonly documents: WeakMap<Draft, { readonly id: string; readonly value: Atif.Trajectory }>
}

interface DocumentBuild {
  readonly ids: Map<Draft, string>
  readonly taken: Set<string>
  readonly children: Array<Draft>
  /** Children of retained steps, whose documents no longer change. */
  readonly done: Set<Draft>
  readonly kept: KeptSteps
}

const listSteps = (draft: Draft): ReadonlyArray<Step> =>
  draft.steps.length > 0 || draft.goal === undefined
    ? draft.steps
    : [makeStep({ source: "user", message: draft.goal, timestamp: undefined })]

const makeSubagentRefs = (children: ReadonlyArray<Draft>, build: DocumentBuild): ReadonlyArray<Atif.SubagentRef> =>
  children.flatMap((child) => {
    if (listSteps(child).length === 0) return []
    let id = child.sessionId
    for (let n = 2; build.taken.has(id); n++) id = `${child.sessionId}#${n}`
    build.taken.add(id)
    build.ids.set(child, id)
    build.children.push(child)
    const { status } = child.extra
    return [{ trajectory_id: id, session_id: child.sessionId, ...(status === undefined ? {} : { extra: { status } }) }]
  })

const buildResult = (result: Result, build: DocumentBuild): Atif.ObservationResult => {
  const pointing = makeSubagentRefs(result.children, build)
  return {
    ...(result.callId === undefined ? {} : { source_call_id: result.callId }),
    ...(result.content === undefined ? {} : { content: result.content }),
    ...(pointing.length === 0 ? {} : { subagent_trajectory_ref: pointing }),
    ...toOptionalExtra(result.extra)
  }
}

const buildStep = (one: Step, index: number, build: DocumentBuild): Atif.Step => ({
  step_id: index + 1,
  ...(one.timestamp === undefined ? {} : { timestamp: one.timestamp }),
  source: one.source,
  message: one.message,
  ...one.rest,
  ...(one.calls.length === 0
    ? {}
    : {
        tool_calls: one.calls.map(({ args, extra, id, name }) => ({
          tool_call_id: id,
          function_name: name,
          arguments: args,
          ...toOptionalExtra(extra)
        }))
      }),
  ...(one.results.length === 0
    ? {}
    : { observation: { results: one.results.map((result) => buildResult(result, build)) } }),
  ...toOptionalExtra(one.extra)
})

/**
 * Builds a step of the document. A retained step is reused as long as its index and the ids of its children stay valid.
 */
const buildKeptStep = (one: Step, index: number, build: DocumentBuild): Atif.Step => {
  if (!build.kept.steps.has(one)) return buildStep(one, index, build)
  const known = build.kept.made.get(one)
  if (
    known?.index === index &&
    known.results === one.results.length &&
    known.children.every(([, id]) => !build.taken.has(id))
  ) {
    for (const [child, id] of known.children) {
      build.taken.add(id)
      build.ids.set(child, id)
      build.children.push(child)
      build.done.add(child)
    }
    return known.value
  }
  const from = build.children.length
  const value = buildStep(one, index, build)
  const children = build.children.slice(from).map((child) => [child, build.ids.get(child) ?? child.sessionId] as const)
  for (const [child] of children) build.done.add(child)
  build.kept.made.set(one, { value, index, results: one.results.length, children })
  return value
}

const sumMetric = (
  steps: ReadonlyArray<Atif.Step>,
  of: (metrics: Atif.Metrics) => number | null | undefined
): number | undefined => {
  const counts = steps.flatMap((one) => (one.is_copied_context === true || !one.metrics ? [] : (of(one.metrics) ?? [])))
  return counts.length === 0 ? undefined : counts.reduce((a, b) => a + b, 0)
}

const computeFinalMetrics = (
  steps: ReadonlyArray<Atif.Step>,
  children: ReadonlyArray<Atif.Trajectory>
): Atif.FinalMetrics => {
  const prompt = sumMetric(steps, (one) => one.prompt_tokens)
  const completion = sumMetric(steps, (one) => one.completion_tokens)
  const cached = sumMetric(steps, (one) => one.cached_tokens)
  const costs = [
    sumMetric(steps, (one) => one.cost_usd),
    ...children.map((child) => child.final_metrics?.total_cost_usd ?? undefined)
  ]
  const known = costs.filter((cost) => cost !== undefined)
  return {
    ...(prompt === undefined ? {} : { total_prompt_tokens: prompt }),
    ...(completion === undefined ? {} : { total_completion_tokens: completion }),
    ...(cached === undefined ? {} : { total_cached_tokens: cached }),
    ...(known.length === 0 ? {} : { total_cost_usd: known.reduce((a, b) => a + b, 0) }),
    total_steps: steps.length,
    ...(children.length === 0
      ? {}
      : { extra: { scope: "tokens and steps of this trajectory alone; cost with its subagents" } })
  }
}

const listIdsBelow = (trajectory: Atif.Trajectory): ReadonlyArray<string> =>
  (trajectory.subagent_trajectories ?? []).flatMap((child) => [child.trajectory_id ?? "", ...listIdsBelow(child)])

const buildDocument = (
  draft: Draft,
  id: string,
  taken: Set<string>,
  kept: KeptSteps,
  isDone: boolean
): Atif.Trajectory => {
  const known = isDone ? kept.documents.get(draft) : undefined
  if (known?.id === id) {
    const ids = listIdsBelow(known.value)
    if (ids.every((one) => !taken.has(one))) {
      for (const one of ids) taken.add(one)
      return known.value
    }
  }
  const build: DocumentBuild = { ids: new Map(), taken, children: [], done: new Set(), kept }
  const steps = listSteps(draft).map((one, index) => buildKeptStep(one, index, build))
  const children = build.children.map((child) =>
    buildDocument(child, build.ids.get(child) ?? child.sessionId, taken, kept, isDone || build.done.has(child))
  )
  const value: Atif.Trajectory = {
    schema_version: Atif.version,
    session_id: draft.sessionId,
    trajectory_id: id,
    agent: {
      ...draft.agent,
      ...(draft.model === undefined ? {} : { model_name: draft.model }),
      ...(draft.tools.length === 0 ? {} : { tool_definitions: draft.tools })
    },
    steps,
    final_metrics: computeFinalMetrics(steps, children),
    ...toOptionalExtra(draft.extra),
    ...(children.length === 0 ? {} : { subagent_trajectories: children })
  }
  if (isDone) kept.documents.set(draft, { id, value })
  return value
}

/** Builder of documents from a growing draft. */
export interface Drafts {
  /**
   * Retains steps that no longer change, except that results may be added. Their objects are reused in every later
   * document.
   */
  readonly keep: (steps: ReadonlyArray<Step>) => void
  /** Returns the document, or `undefined` for a trajectory without steps, because readers reject such a document. */
  readonly trajectory: (draft: Draft) => Atif.Trajectory | undefined
}

/** Creates a builder of documents from a growing draft. */
export const makeDraftBuilder = (): Drafts => {
  const kept: KeptSteps = { steps: new WeakSet(), made: new WeakMap(), documents: new WeakMap() }
  let count = 0
  return {
    keep: (steps) => {
      for (; count < steps.length; count++) {
        const one = steps[count]
        if (one !== undefined) kept.steps.add(one)
      }
    },
    trajectory: (draft) =>
      listSteps(draft).length === 0
        ? undefined
        : buildDocument(draft, draft.sessionId, new Set([draft.sessionId]), kept, false)
  }
}

/** Returns the document, or `undefined` for a trajectory without steps, because readers reject such a document. */
export const buildTrajectory = (draft: Draft): Atif.Trajectory | undefined => makeDraftBuilder().trajectory(draft)

/** Additional indentation of the members of a nested object, in spaces. */
const deeper = 4

/**
 * Creates an encoder of trajectories for files: JSON on several lines, indented by two spaces, with a line feed at the
 * end. Steps, trajectories of children and tool definitions that later documents repeat are encoded once.
 */
export const makeTrajectoryEncoder = (): ((trajectory: Atif.Trajectory) => string) => {
  const known = new WeakMap<object, { readonly depth: number; readonly text: string }>()

  const encode = (value: unknown, depth: number): string => {
    // Wrapping the value in lists gives it the required indentation. The text of the lists is removed afterwards.
    const lists = depth / 2
    let within = value
    for (let count = 0; count < lists; count++) within = [within]
    const text = JSON.stringify(within, null, 2)
    return lists === 0 ? text : text.slice(lists * (lists + 3), text.length - lists * (lists + 1))
  }
  const encodeOnce = <A extends object>(value: A, depth: number, make: (value: A, depth: number) => string): string => {
    const before = known.get(value)
    if (before?.depth === depth) return before.text
    const text = make(value, depth)
    known.set(value, { depth, text })
    return text
  }
  const encodeList = <A extends object>(
    values: ReadonlyArray<A>,
    depth: number,
    make: (value: A, depth: number) => string
  ): string => {
    const margin = `\n${" ".repeat(depth)}`
    return values.length === 0
      ? "[]"
      : `[${values.map((value) => `${margin}  ${encodeOnce(value, depth + 2, make)}`).join(",")}${margin}]`
  }
  const encodeObject = (value: object, depth: number, of: (name: string, member: unknown) => string): string => {
    const margin = `\n${" ".repeat(depth)}`
    const members = Object.entries(value).flatMap(([name, member]) =>
      member === undefined ? [] : [`${margin}  ${JSON.stringify(name)}: ${of(name, member)}`]
    )
    return members.length === 0 ? "{}" : `{${members.join(",")}${margin}}`
  }
  const encodeTrajectory = (trajectory: Atif.Trajectory, depth: number): string =>
    encodeObject(trajectory, depth, (name, member) => {
      if (name === "steps") return encodeList(trajectory.steps, depth + 2, encode)
      if (name === "subagent_trajectories" && trajectory.subagent_trajectories)
        return encodeList(trajectory.subagent_trajectories, depth + 2, encodeTrajectory)
      const { tool_definitions: tools } = trajectory.agent
      return name !== "agent" || !tools
        ? encode(member, depth + 2)
        : encodeObject(trajectory.agent, depth + 2, (field, value) =>
            field === "tool_definitions" ? encodeOnce(tools, depth + deeper, encode) : encode(value, depth + deeper)
          )
    })
  return (trajectory) => `${encodeTrajectory(trajectory, 0)}\n`
}
