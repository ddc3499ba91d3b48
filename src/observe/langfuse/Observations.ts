/**
 * Presents runs as Langfuse observations: a run is a chain, a child an agent, a model call a generation, a tool call a
 * tool, and an approval a guardrail. All functions are pure.
 *
 * **Details**
 *
 * - The runs of one session share a trace, in which each run is a root. The id of the trace is derived from the session
 *   id, so that other programs can compute it. A child is in the trace of its parent, below the tool call that
 *   delegated to it.
 * - Sampling applies to whole sessions, by their trace id.
 * - The output of a run is its final text, with its tool calls and their results.
 *
 * Source: `hermes-contract.md` §5 ("Trace model"); the attribute names are those that Langfuse's OpenTelemetry
 * ingestion reads.
 */
import type * as Schema from "effect/Schema"
import { isCompletedExit } from "../../base/domain/RunEvent.ts"
import * as Digest from "../../base/platform/Digest.ts"
import { readPrompt } from "../otel/Attributes.ts"
import * as RunSpans from "../RunSpans.ts"
import type { Approval, Call, Child, Node, Run, Tree } from "../RunTree.ts"
import * as Generation from "./Generation.ts"
import type { Settings } from "./LangfuseSettings.ts"
import * as Values from "./Values.ts"

const { addMetadata, toAttributeText } = Generation

const types = {
  run: "chain",
  step: "chain",
  child: "agent",
  attempt: "generation",
  call: "tool",
  approval: "guardrail"
} as const

const formatName = (node: Node): string => {
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

/** Returns true if a trace is sampled. The result depends only on the trace id and the rate. */
const isSampled = (id: string, rate: number): boolean => Number.parseInt(id.slice(0, 8), 16) < rate * 2 ** 32

/**
 * Returns the trace id of a session: the first 128 bits of the SHA-256 of a seed, in hexadecimal, as Langfuse's own
 * clients compute it. The seed contains the session id twice, because the task of a root run is its session.
 */
export const makeTraceId = (sessionId: string): string => Digest.toHex(`${sessionId}::${sessionId}`, 32)

const findRoot = (run: Run): Run => (run.child === undefined ? run : findRoot(run.child.parent))

const collectRunFacts = ({ end, start, steps, turnId }: Run): Readonly<Record<string, Schema.Json | undefined>> => ({
  turn_id: turnId,
  platform: start?.platform,
  provider: start?.provider,
  model: start?.model,
  api_mode: steps[0]?.attempts[0]?.start.route.apiMode,
  exit: end?.exit
})

const toLevel = (status: string | undefined): string =>
  status === "ok" ? "DEFAULT" : status === "error" ? "ERROR" : "WARNING"

/** Creates a function that adds the attributes of an observation, with strings of at most `maxChars` characters. */
const makeAttributeAdder = (maxChars: number) => {
  const boundValue = (value: unknown): Schema.Json => Values.boundValue(Values.toWholeValue(value), maxChars)
  const boundResult = (call: Call): Schema.Json =>
    Values.renderResult(call.name, Values.toWholeValue(RunSpans.readResultText(call) ?? ""), maxChars)

  /** Renders the text, reasoning and calls of a run, with the result of each call. */
  const renderRunOutput = ({ end, steps }: Run): string => {
    const answers = steps.flatMap(({ attempts }) =>
      attempts.flatMap((attempt) =>
        attempt.end === undefined || attempt.end.answer.length === 0
          ? []
          : [Generation.getAnswerForm(attempt.end.answer, maxChars)]
      )
    )
    const made = new Map(steps.flatMap(({ calls }) => calls.map((call) => [call.id, call] as const)))
    const calls = answers
      .flatMap((answer) => answer.calls)
      .map((asked) => {
        const call = made.get(String(asked["id"]))
        if (call === undefined || RunSpans.readResultText(call) === undefined) return asked
        const output = boundResult(call)
        const inner = asked["function"]
        return {
          ...asked,
          output,
          ...(typeof inner === "object" && inner !== null ? { function: { ...inner, output } } : {})
        }
      })
    const last = answers.at(-1)
    return JSON.stringify({
      content: end?.text === undefined ? (last?.content ?? "") : boundValue(end.text),
      ...(last?.reasoning === undefined ? {} : { reasoning: last.reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls })
    })
  }

  const addRun = (out: Generation.ObservationAttributes, run: Run, outcome: RunSpans.Outcome): void => {
    const { end, sessionId, start } = run
    const message = toAttributeText(boundValue(readPrompt(run)))
    const output = renderRunOutput(run)
    const completed = isCompletedExit(end?.exit)
    out["langfuse.observation.input"] = message
    out["langfuse.trace.input"] = message
    out["langfuse.observation.output"] = output
    out["langfuse.trace.output"] = output
    if (!completed) out["langfuse.observation.level"] = outcome._tag === "Cut" ? "WARNING" : "ERROR"
    if (outcome._tag !== "Done") out["langfuse.observation.status_message"] = Generation.describeOutcome(outcome)
    addMetadata(out, {
      source: "hermes",
      task_id: start?.parent?.subagentId ?? sessionId,
      ...collectRunFacts(run),
      completed,
      interrupted: outcome._tag === "Cut"
    })
  }
  const addChild = (out: Generation.ObservationAttributes, { end, run, start }: Child): void => {
    out["langfuse.observation.input"] = toAttributeText(boundValue(start.goal))
    out["langfuse.observation.output"] = toAttributeText(boundValue(end?.summary ?? ""))
    out["langfuse.observation.level"] = end?.status === "completed" ? "DEFAULT" : "WARNING"
    addMetadata(out, {
      child_session_id: start.sessionId,
      child_subagent_id: start.subagentId,
      child_role: start.role,
      ...(run === undefined ? {} : collectRunFacts(run)),
      child_status: end?.status ?? "interrupted",
      duration_ms: end?.durationMillis
    })
  }
  const addCall = (out: Generation.ObservationAttributes, call: Call, outcome: RunSpans.Outcome): void => {
    const { args, end, id, start } = call
    out["langfuse.observation.input"] = JSON.stringify(Values.toWholeValue(start?.args ?? args ?? {}))
    if (RunSpans.readResultText(call) !== undefined)
      out["langfuse.observation.output"] = toAttributeText(boundResult(call))
    out["langfuse.observation.level"] = toLevel(end?.status)
    if (outcome._tag !== "Done") out["langfuse.observation.status_message"] = Generation.describeOutcome(outcome)
    addMetadata(out, {
      tool_call_id: id,
      status: end?.status ?? "cancelled",
      error_type: outcome._tag === "Failed" ? outcome.failure.type : undefined,
      duration_ms: end?.durationMillis
    })
  }
  const addApproval = (
    out: Generation.ObservationAttributes,
    { event: { choice, decidedBy, description, patterns, subject, surface } }: Approval
  ): void => {
    out["langfuse.observation.input"] = JSON.stringify(
      boundValue({ command: subject, description: description ?? "", pattern_keys: patterns ?? [] })
    )
    out["langfuse.observation.output"] = choice
    out["langfuse.observation.level"] = /deny|timeout/u.test(choice) ? "WARNING" : "DEFAULT"
    addMetadata(out, { surface, decided_by: decidedBy })
  }

  return (
    out: Generation.ObservationAttributes,
    node: Node,
    outcome: RunSpans.Outcome,
    tree: Pick<Tree, "sent" | "tools">
  ): void => {
    switch (node.kind) {
      case "run":
        return addRun(out, node, outcome)
      case "child":
        return addChild(out, node)
      case "attempt":
        return Generation.addGeneration(out, node, outcome, tree, maxChars)
      case "call":
        return addCall(out, node, outcome)
      case "approval":
        return addApproval(out, node)
      case "step":
        return undefined
    }
  }
}

/** Creates the view with the given settings. */
export const makeView = ({
  environment,
  maxChars,
  release,
  sampleRate,
  tags,
  userId
}: Pick<Settings, "environment" | "maxChars" | "release" | "sampleRate" | "tags" | "userId">): RunSpans.View => {
  const add = makeAttributeAdder(maxChars)
  const allTags = ["hermes", "langfuse", ...tags]
  return {
    hasSteps: false,
    trace: ({ sessionId }) => {
      const traceId = makeTraceId(sessionId)
      return { traceId, parentSpanId: undefined, sampled: isSampled(traceId, sampleRate) }
    },
    name: formatName,
    attributes: (node, outcome, tree) => {
      const out: Generation.ObservationAttributes = { "session.id": findRoot(RunSpans.findRun(node)).sessionId }
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
