/**
 * Validates a trajectory: first against the Schema, then against the rules that relate its parts. It is at least as
 * strict as the official validators of the format, and words identical errors as they do.
 *
 * **Details**
 *
 * An error makes the document unfit for exchange. A warning is about valid content that may confuse a reader: a call
 * without a result, timestamps out of order, an unreferenced child. All findings are reported, errors first.
 *
 * **Example** (What is wrong with a document)
 *
 * ```ts
 * import { Atif, AtifCheck } from "hermes-effect/observability"
 *
 * const issues = AtifCheck.check({
 *   schema_version: Atif.version,
 *   session_id: "s1",
 *   agent: { name: "hermes", version: "0.1.0" },
 *   steps: [{ step_id: 7, source: "user", message: "Hello" }]
 * })
 *
 * console.log(AtifCheck.isSound(issues), issues.map(({ path }) => path))
 * // => false [ 'steps[0].step_id' ]
 * ```
 *
 * Source: `relay-atof-atif.md` §2.2 to §2.5.
 */
import * as Result from "effect/Result"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Atif from "./Atif.ts"

/** A problem and its location, for example `steps[2].tool_calls[0].arguments`. */
export interface Issue {
  readonly severity: "error" | "warning"
  readonly path: string
  readonly message: string
}

type IssueReporter = (severity: Issue["severity"], path: string, message: string) => void

const formatted = SchemaIssue.makeFormatterStandardSchemaV1()

const formatPath = (path: ReadonlyArray<unknown>): string =>
  path.reduce<string>((text, part) => {
    const key: unknown = typeof part === "object" && part !== null && "key" in part ? part.key : part
    return typeof key === "number" ? `${text}[${key}]` : text === "" ? String(key) : `${text}.${String(key)}`
  }, "")

/** Validates a JSON value. A document is sound if there are no issues. */
export const check = (value: unknown): ReadonlyArray<Issue> => {
  const decoded = Atif.decode(value)
  if (Result.isFailure(decoded)) {
    return formatted(decoded.failure.issue).issues.map(({ message, path }): Issue => ({
      severity: "error",
      path: formatPath(path ?? []),
      message
    }))
  }
  const issues: Array<Issue> = []
  const report: IssueReporter = (severity, path, message) => issues.push({ severity, path, message })
  checkTrajectory(decoded.success, "", new Set(), report)
  return issues.toSorted((a, b) => Number(a.severity === "warning") - Number(b.severity === "warning"))
}

/** Returns true if no issue is an error. Such a document may be exchanged. */
export const isSound = (issues: ReadonlyArray<Issue>): boolean => issues.every(({ severity }) => severity !== "error")

const joinPath = (path: string, rest: string): string => (path === "" ? rest : `${path}.${rest}`)

const checkTrajectory = (document: Atif.Trajectory, path: string, ids: Set<string>, say: IssueReporter): void => {
  const { subagent_trajectories: children, trajectory_id: id } = document
  if (id === "") say("error", joinPath(path, "trajectory_id"), "an id is not empty")
  if (document.session_id === "") say("error", joinPath(path, "session_id"), "an id is not empty")
  if (path === "" && !document.session_id) {
    say("warning", "session_id", "a trajectory should name its session (required before version 1.7)")
  }
  if (id) {
    if (ids.has(id))
      say("error", joinPath(path, "trajectory_id"), `${id} is the id of another trajectory of this document`)
    ids.add(id)
  }
  document.steps.forEach((one, index) => {
    const where = joinPath(path, `steps[${index}]`)
    if (one.step_id !== index + 1)
      say("error", `${where}.step_id`, `step ids count from 1: expected ${index + 1}, got ${one.step_id}`)
    checkStep(one, where, say)
  })
  checkTimes(document.steps, path, say)
  checkReferences(document, path, say)
  checkTotals(document, path, say)
  children?.forEach((child, index) => {
    const where = joinPath(path, `subagent_trajectories[${index}]`)
    if (!child.trajectory_id) say("error", `${where}.trajectory_id`, "an embedded trajectory needs an id")
    checkTrajectory(child, where, ids, say)
  })
}

const agentOnly = ["model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"] as const

const hasValue = (value: unknown): boolean => value !== undefined && value !== null

const checkStep = (one: Atif.Step, path: string, say: IssueReporter): void => {
  if (one.source !== "agent") {
    for (const key of agentOnly) {
      if (hasValue(one[key]))
        say("error", `${path}.${key}`, `only a step of the agent has it, not one of the ${one.source}`)
    }
  }
  if (one.source === "agent" && one.llm_call_count === 0) {
    for (const key of ["metrics", "reasoning_content"] as const) {
      if (hasValue(one[key])) say("error", `${path}.${key}`, "a step without a model call (llm_call_count 0) has none")
    }
  }
  const { cached_tokens: cached, prompt_tokens: prompt } = one.metrics ?? {}
  if (hasValue(cached) && hasValue(prompt) && Number(cached) > Number(prompt)) {
    say("error", `${path}.metrics.cached_tokens`, "cached tokens are a part of the prompt's, and cannot be more")
  }
  checkCalls(one, path, say)
}

const checkCalls = (one: Atif.Step, path: string, say: IssueReporter): void => {
  const open = new Map<string, number>()
  one.tool_calls?.forEach(({ tool_call_id: id }, index) => {
    if (open.has(id))
      say("error", `${path}.tool_calls[${index}].tool_call_id`, `${id} is the id of another call of this step`)
    open.set(id, 0)
  })
  one.observation?.results.forEach((result, index) => {
    const where = `${path}.observation.results[${index}]`
    const { content, source_call_id: id, subagent_trajectory_ref: refs } = result
    if (hasValue(id)) {
      const answers = open.get(id ?? "")
      if (answers === undefined)
        say("error", `${where}.source_call_id`, `no call of this step is named ${JSON.stringify(id)}`)
      else if (answers > 0) say("warning", `${where}.source_call_id`, `${id} has another result`)
      open.set(id ?? "", (answers ?? 0) + 1)
    }
    if (!hasValue(content) && !hasValue(refs) && !hasValue(result.extra)) say("warning", where, "it says nothing")
  })
  for (const [id, answers] of open) {
    if (answers === 0 && one.tool_calls?.some((call) => call.tool_call_id === id)) {
      say("warning", `${path}.tool_calls`, `${id} has no result`)
    }
  }
}

const withOffset = /[T ].*(Z|[+-]\d\d(:?\d\d)?)$/u

const checkTimes = (steps: ReadonlyArray<Atif.Step>, path: string, say: IssueReporter): void => {
  let last = Number.NEGATIVE_INFINITY
  steps.forEach(({ timestamp }, index) => {
    if (!timestamp) return
    const where = joinPath(path, `steps[${index}].timestamp`)
    if (!withOffset.test(timestamp)) say("warning", where, "a time without an offset is ambiguous: add Z or an offset")
    const now = Date.parse(timestamp)
    if (now < last) say("warning", where, "it is earlier than the step before")
    last = Number.isNaN(now) ? last : now
  })
}

const checkReferences = (document: Atif.Trajectory, path: string, say: IssueReporter): void => {
  const embedded = new Set<string>()
  document.subagent_trajectories?.forEach(({ trajectory_id: id }, index) => {
    if (id && embedded.has(id))
      say("error", joinPath(path, `subagent_trajectories[${index}].trajectory_id`), `${id} is there twice`)
    if (id) embedded.add(id)
  })
  const pointed = new Set<string>()
  document.steps.forEach((one, stepIndex) =>
    one.observation?.results.forEach(({ subagent_trajectory_ref: refs }, resultIndex) =>
      refs?.forEach(({ trajectory_id: id, trajectory_path: file }, index) => {
        if (id) pointed.add(id)
        if (id && !embedded.has(id) && !file) {
          const where = joinPath(
            path,
            `steps[${stepIndex}].observation.results[${resultIndex}].subagent_trajectory_ref[${index}]`
          )
          say("error", where, `${id} is not among the embedded trajectories`)
        }
      })
    )
  )
  for (const id of embedded) {
    if (!pointed.has(id)) say("warning", joinPath(path, "subagent_trajectories"), `no step points to ${id}`)
  }
}

const checkTotals = (
  { final_metrics: metrics, notes, steps }: Atif.Trajectory,
  path: string,
  say: IssueReporter
): void => {
  const total = metrics?.total_steps
  if (hasValue(total) && total !== steps.length && !notes) {
    say(
      "error",
      joinPath(path, "final_metrics.total_steps"),
      `there are ${steps.length} steps, not ${total}, and no notes that explain it`
    )
  }
}

const listImagePaths = (content: Atif.Content | null | undefined): ReadonlyArray<string> =>
  typeof content === "string" || !content
    ? []
    : content.flatMap((part) => (part.type === "image" ? [part.source.path] : []))

/**
 * Returns the local image files that a document refers to, as paths relative to the document. References with a URL
 * scheme are excluded.
 */
export const listLocalImages = (document: Atif.Trajectory): ReadonlyArray<string> =>
  [
    ...document.steps.flatMap((one) => [
      ...listImagePaths(one.message),
      ...(one.observation?.results.flatMap(({ content }) => listImagePaths(content)) ?? [])
    ]),
    ...(document.subagent_trajectories?.flatMap(listLocalImages) ?? [])
  ].filter((path) => !/^[a-z][a-z\d+.-]*:\/\//iu.test(path))
