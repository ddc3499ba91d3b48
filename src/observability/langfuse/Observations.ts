/**
 * The view of runs as Langfuse has it: a run is a chain, a child an agent, a model call a generation, a tool call a tool, an
 * approval a guardrail. Pure.
 *
 * **Details**
 *
 * - The runs of one session share a trace, whose id follows from the session, so that others can find it; each run is a root in
 *   it. A child is in the trace of its parent, below the tool call that delegated to it.
 * - A session is sampled whole, by the id of its trace.
 * - The output of a run is its final text, with the tool calls that were made and what each of them gave.
 *
 * Source: `hermes-contract.md` §5 ("Trace model"); the attribute names are those that Langfuse's OpenTelemetry ingestion reads.
 */
import type * as Schema from "effect/Schema"
import * as Digest from "../../platform/Digest.ts"
import { promptOf } from "../otel/Attributes.ts"
import * as RunSpans from "../RunSpans.ts"
import type { Approval, Call, Child, Node, Run, Tree } from "../RunTree.ts"
import * as Generation from "./Generation.ts"
import type { Settings } from "./LangfuseSettings.ts"
import * as Values from "./Values.ts"

const { addMetadata, json } = Generation

const types = { run: "chain", step: "chain", child: "agent", attempt: "generation", call: "tool", approval: "guardrail" } as const

const nameOf = (node: Node): string => {
  switch (node.kind) {
    case "attempt":
      return node.start.task === undefined ? `LLM call ${node.start.step}` : `LLM call: ${node.start.task}`
    case "call":
      return `Tool: ${node.name}`
    case "approval":
      return `Approval: ${node.event.patterns?.[0] ?? "command"}`
    case "child":
      return `Subagent: ${node.start.role || node.start.subagentId}`
    default:
      return "Hermes turn"
  }
}

/** Decides whether a trace is sent; the same for all who ask. */
export const isSampled = (id: string, rate: number): boolean => Number.parseInt(id.slice(0, 8), 16) < rate * 2 ** 32

/**
 * The trace of a session: the first 128 bits of the SHA-256 of a seed, in hexadecimal, as Langfuse's own clients make a trace
 * id. The task of a run that is no child is its session.
 */
export const traceIdOf = (sessionId: string): string => Digest.hex(`${sessionId}::${sessionId}`, 32)

const rootOf = (run: Run): Run => run.child === undefined ? run : rootOf(run.child.parent)

const factsOf = ({ end, start, steps, turnId }: Run): Readonly<Record<string, Schema.Json | undefined>> => ({
  turn_id: turnId,
  platform: start?.platform,
  provider: start?.provider,
  model: start?.model,
  api_mode: steps[0]?.attempts[0]?.start.route.apiMode,
  exit: end?.exit
})

const levelOf = (status: string | undefined): string => status === "ok" ? "DEFAULT" : status === "error" ? "ERROR" : "WARNING"

/** Adds attributes of the observations of runs, with texts of at most `maxChars` characters. */
const adding = (maxChars: number) => {
  const bounded = (value: unknown): Schema.Json => Values.bounded(Values.whole(value), maxChars)
  const resultOf = (call: Call): Schema.Json => Values.result(call.name, Values.whole(RunSpans.resultOf(call) ?? ""), maxChars)

  /** Text, reasoning and calls of a run, with what each call gave. */
  const outputOf = ({ end, steps }: Run): string => {
    const answers = steps.flatMap(({ attempts }) => attempts.flatMap((attempt) =>
      attempt.end === undefined || attempt.end.answer.length === 0 ? [] : [Generation.answer(attempt.end.answer, maxChars)]))
    const made = new Map(steps.flatMap(({ calls }) => calls.map((call) => [call.id, call] as const)))
    const calls = answers.flatMap((answer) => answer.calls).map((asked) => {
      const call = made.get(String(asked["id"]))
      if (call === undefined || RunSpans.resultOf(call) === undefined) return asked
      const output = resultOf(call)
      const inner = asked["function"]
      return { ...asked, output, ...(typeof inner === "object" && inner !== null ? { function: { ...inner, output } } : {}) }
    })
    const last = answers.at(-1)
    return JSON.stringify({
      content: end?.text === undefined ? last?.content ?? "" : bounded(end.text),
      ...(last?.reasoning === undefined ? {} : { reasoning: last.reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls })
    })
  }

  const addRun = (out: Generation.Growing, run: Run, outcome: RunSpans.Outcome): void => {
    const { end, sessionId, start } = run
    const message = json(bounded(promptOf(run)))
    const output = outputOf(run)
    const completed = end?.exit === "text_response"
    out["langfuse.observation.input"] = message
    out["langfuse.trace.input"] = message
    out["langfuse.observation.output"] = output
    out["langfuse.trace.output"] = output
    if (!completed) out["langfuse.observation.level"] = outcome._tag === "Cut" ? "WARNING" : "ERROR"
    if (outcome._tag !== "Done") out["langfuse.observation.status_message"] = Generation.reasonOf(outcome)
    addMetadata(out, {
      source: "hermes",
      task_id: start?.parent?.subagentId ?? sessionId,
      ...factsOf(run),
      completed,
      interrupted: outcome._tag === "Cut"
    })
  }
  const addChild = (out: Generation.Growing, { end, run, start }: Child): void => {
    out["langfuse.observation.input"] = json(bounded(start.goal))
    out["langfuse.observation.output"] = json(bounded(end?.summary ?? ""))
    out["langfuse.observation.level"] = end?.status === "completed" ? "DEFAULT" : "WARNING"
    addMetadata(out, {
      child_session_id: start.sessionId,
      child_subagent_id: start.subagentId,
      child_role: start.role,
      ...(run === undefined ? {} : factsOf(run)),
      child_status: end?.status ?? "interrupted",
      duration_ms: end?.durationMillis
    })
  }
  const addCall = (out: Generation.Growing, call: Call, outcome: RunSpans.Outcome): void => {
    const { args, end, id, start } = call
    out["langfuse.observation.input"] = JSON.stringify(Values.whole(start?.args ?? args ?? {}))
    if (RunSpans.resultOf(call) !== undefined) out["langfuse.observation.output"] = json(resultOf(call))
    out["langfuse.observation.level"] = levelOf(end?.status)
    if (outcome._tag !== "Done") out["langfuse.observation.status_message"] = Generation.reasonOf(outcome)
    addMetadata(out, {
      tool_call_id: id,
      status: end?.status ?? "cancelled",
      error_type: outcome._tag === "Failed" ? outcome.failure.type : undefined,
      duration_ms: end?.durationMillis
    })
  }
  const addApproval = (out: Generation.Growing, { event: { choice, decidedBy, description, patterns, subject, surface } }: Approval): void => {
    out["langfuse.observation.input"] = JSON.stringify(bounded({ command: subject, description: description ?? "", pattern_keys: patterns ?? [] }))
    out["langfuse.observation.output"] = choice
    out["langfuse.observation.level"] = /deny|timeout/u.test(choice) ? "WARNING" : "DEFAULT"
    addMetadata(out, { surface, decided_by: decidedBy })
  }

  return (out: Generation.Growing, node: Node, outcome: RunSpans.Outcome, tree: Pick<Tree, "sent" | "tools">): void => {
    switch (node.kind) {
      case "run":
        return addRun(out, node, outcome)
      case "child":
        return addChild(out, node)
      case "attempt":
        return Generation.add(out, node, outcome, tree, maxChars)
      case "call":
        return addCall(out, node, outcome)
      case "approval":
        return addApproval(out, node)
      case "step":
        return undefined
    }
  }
}

/** The view of these settings. */
export const view = (
  { environment, maxChars, release, sampleRate, tags, userId }: Pick<Settings, "environment" | "maxChars" | "release" | "sampleRate" | "tags" | "userId">
): RunSpans.View => {
  const add = adding(maxChars)
  const allTags = ["hermes", "langfuse", ...tags]
  return {
    hasSteps: false,
    trace: ({ sessionId }) => {
      const traceId = traceIdOf(sessionId)
      return { traceId, parentSpanId: undefined, sampled: isSampled(traceId, sampleRate) }
    },
    name: nameOf,
    attributes: (node, outcome, tree) => {
      const out: Generation.Growing = { "session.id": rootOf(RunSpans.runOf(node)).sessionId }
      if (userId !== undefined) out["user.id"] = userId
      if (environment !== undefined) out["langfuse.environment"] = environment
      if (release !== undefined) out["langfuse.release"] = release
      out["langfuse.trace.name"] = "Hermes turn"
      out["langfuse.trace.tags"] = allTags
      out["langfuse.observation.type"] = types[node.kind]
      add(out, node, outcome, tree)
      return out
    }
  }
}
