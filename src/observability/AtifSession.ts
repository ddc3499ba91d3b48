/**
 * The trajectory of a stored session. It knows what was said and done, and what all of it cost; when each thing happened and
 * what each answer cost is only in the events of a run.
 */
import type * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import * as Usage from "../domain/Usage.ts"
import { copyOf } from "../hooks/Sanitizer.ts"
import type { Session } from "../session/SessionStore.ts"
import type * as Atif from "./Atif.ts"
import * as Draft from "./atif/Draft.ts"
import * as Message from "./atif/Message.ts"
import { args } from "./atif/Value.ts"

/** A session with what is in it. */
export interface Stored {
  readonly session: Session
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Sessions that this one delegated to. */
  readonly children: ReadonlyArray<Stored>
}

const answered = (draft: Draft.Draft, part: Prompt.ToolResultPart): void => {
  const step = draft.steps.findLast(({ calls, results }) =>
    calls.some(({ id }) => id === part.id) && !results.some(({ callId }) => callId === part.id))
  const result: Draft.Result = {
    callId: step === undefined ? undefined : part.id,
    content: Message.output(copyOf(part.result)),
    children: [],
    extra: part.isFailure ? { status: "error" } : {}
  }
  if (step !== undefined) step.results.push(result)
  else draft.steps.push(Draft.step({ source: "system", message: "", timestamp: undefined, results: [result] }))
}

const spoke = (draft: Draft.Draft, message: Prompt.AssistantMessage): void => {
  const text = message.content.flatMap((part) => part.type === "text" ? [part.text] : []).join("")
  const reasoning = message.content.flatMap((part) => part.type === "reasoning" ? [part.text] : []).join("\n")
  const calls = message.content.flatMap((part): ReadonlyArray<Draft.Call> =>
    part.type === "tool-call" ? [{ id: part.id, name: part.name, args: args(copyOf(part.params)), extra: {} }] : []
  )
  draft.steps.push(Draft.step({
    source: "agent",
    // What is in a copy is redacted, as everything that leaves the runtime.
    message: String(copyOf(text)),
    timestamp: undefined,
    rest: { llm_call_count: 1, ...(reasoning === "" ? {} : { reasoning_content: String(copyOf(reasoning)) }) },
    calls: calls.filter(({ id }, index) => calls.findIndex((other) => other.id === id) === index)
  }))
}

const draftOf = ({ children, messages, session }: Stored): Draft.Draft => {
  const draft: Draft.Draft = {
    sessionId: session.id,
    agent: { name: "Hermes Agent", version: "unknown" },
    goal: undefined,
    steps: session.systemPrompt === ""
      ? []
      : [Draft.step({ source: "system", message: String(copyOf(session.systemPrompt)), timestamp: new Date(session.startedAt).toISOString() })],
    model: session.model,
    tools: [],
    extra: { source: session.source, provider: session.provider, ...(session.title === undefined ? {} : { title: session.title }) }
  }
  for (const message of messages) {
    if (message.role === "assistant") spoke(draft, message)
    else if (message.role === "tool") for (const part of message.content) if (part.type === "tool-result") answered(draft, part)
    if (message.role === "user" || message.role === "system") {
      const content: Schema.Json = copyOf(message.content)
      draft.steps.push(Draft.step({ source: message.role, message: Message.content(content) ?? "", timestamp: undefined }))
    }
  }
  for (const child of children) {
    const delegation = draft.steps.flatMap((step) => step.results.flatMap((result) =>
      result.children.length === 0 && step.calls.some((call) => call.id === result.callId && call.name === "delegate_task") ? [result] : []))
    const place = delegation[0]
    if (place !== undefined) place.children.push(draftOf(child))
    else {
      const result: Draft.Result = { callId: undefined, content: undefined, children: [draftOf(child)], extra: {} }
      draft.steps.push(Draft.step({ source: "system", message: "", timestamp: undefined, results: [result], extra: { event: "subagent" } }))
    }
  }
  return draft
}

/** Dollars of a session and of those that it delegated to; undefined when no call of them has a price. */
const costOf = ({ children, session: { cost } }: Stored): number | undefined => {
  const own = cost.status === "unknown" ? undefined : cost.usd ?? undefined
  return [own, ...children.map(costOf)].reduce((sum, one) => one === undefined ? sum : (sum ?? 0) + one, undefined)
}

/** See the module; undefined for a session in which nothing was said. */
export const trajectory = (stored: Stored): Atif.Trajectory | undefined => {
  const made = Draft.trajectory(draftOf(stored))
  const { usage } = stored.session
  const cost = costOf(stored)
  return made === undefined ? undefined : {
    ...made,
    final_metrics: {
      ...made.final_metrics,
      total_prompt_tokens: Usage.promptTokens(usage),
      total_completion_tokens: usage.outputTokens,
      total_cached_tokens: usage.cacheReadTokens,
      ...(cost === undefined ? {} : { total_cost_usd: cost })
    }
  }
}
