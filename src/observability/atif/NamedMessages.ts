/**
 * Steps of the messages of a stream that names them (`message_refs` of a request, `position` of a mark): each is a step once, with
 * its origin, and what a session repeats of an earlier part of it is copied context.
 *
 * Source: `relay-atof-atif.md` §2.3, §2.4 and §2.6.
 */
import type * as Schema from "effect/Schema"
import type { MarkEvent, ScopeEvent } from "../Atof.ts"
import * as Answer from "./Answer.ts"
import * as CopiedSteps from "./CopiedSteps.ts"
import * as Draft from "./Draft.ts"
import * as Message from "./Message.ts"
import { contextOf } from "./RunContent.ts"
import { type AgentScope, index } from "./Scope.ts"
import { say, timestampText } from "./State.ts"
import { type Fields, fields, items, number, text } from "./Value.ts"

type Name = number | string

const isName = (value: unknown): value is Name => typeof value === "number" || typeof value === "string"

/** Names of a request's messages; undefined of a stream that has none. */
export const namesOf = (event: ScopeEvent): ReadonlyArray<Name> | undefined => {
  const listed = event.metadata?.["message_refs"]
  if (!Array.isArray(listed)) return undefined
  return items(listed).flatMap((one): ReadonlyArray<Name> => {
    if (isName(one)) return [one]
    const [from, to] = items(one)
    return typeof from === "number" && typeof to === "number" && to >= from ? Array.from({ length: to - from + 1 }, (_, at) => from + at) : []
  })
}

const contentOf = (message: Fields): ReturnType<typeof Message.whole> => Message.whole(message["content"])

/** Adds a result to the step of its call, unless it has one. A call whose process died was ended without one: it gets it here. */
const answer = (agent: AgentScope, callId: string, content: string, extra: Draft.Extra): void => {
  const step = agent.byId.get(callId)?.at(-1)?.step
  const known = step?.results.findLast((one) => one.callId === callId && one.content !== undefined)
  if (known === undefined) step?.results.push({ callId, content, children: [], extra })
  else if (known.content === "" && known.extra["status"] === "cancelled") {
    known.content = content
    known.extra = { ...known.extra, ...extra }
  }
}

/** A message of an earlier part of the session, as a copied step; undefined for a result, which goes to the step of its call. */
const copied = (agent: AgentScope, message: Fields, timestamp: string, origin: string | undefined): Draft.Step | undefined => {
  const rest = { is_copied_context: true }
  const content = contentOf(message) ?? ""
  switch (message["role"]) {
    case "assistant": {
      const { calls, message: said, reasoning } = Answer.read({ choices: [{ message }] })
      const step = Draft.step({
        source: "agent",
        message: said,
        timestamp,
        rest: { ...rest, ...(reasoning === undefined ? {} : { reasoning_content: reasoning }) },
        calls: calls.map(({ args, id, name }, at) => ({ id: id ?? `${name}:${at}`, name, args, extra: {} }))
      })
      index(agent, step)
      return step
    }
    case "tool":
      answer(agent, text(message["tool_call_id"]) ?? "", Message.plain(content), {})
      return undefined
    case "user":
      return Draft.step(origin === undefined
        ? { source: "user", message: content, timestamp, rest }
        : { source: "system", message: content, timestamp, rest, extra: { origin } })
    case "system":
      return Draft.step({ source: "system", message: content, timestamp, rest })
    default:
      return undefined
  }
}

/** A message that is sent and in no session: the system prompt, a nudge, the context of plugins. */
const transient = (message: Fields, timestamp: string): ReadonlyArray<Draft.Step> => {
  const content = contentOf(message) ?? ""
  if (message["role"] === "system") return [Draft.step({ source: "system", message: content, timestamp })]
  if (message["role"] !== "user") return []
  const before = contextOf(content)
  return [Draft.step({
    source: "system",
    message: before ?? content,
    timestamp,
    extra: {
      origin: "runtime",
      stored: false,
      ...(before === undefined ? {} : { context_management: { type: "injection", boundary: "append" } })
    }
  })]
}

/** Steps of the rewrites of the context since the last request; `content` is the context of the next one, empty where none came. */
export const rewritten = (agent: AgentScope, content: string): void => {
  for (const { facts, timestamp } of agent.told.rewritten.splice(0)) {
    say(agent, {
      source: "system",
      message: "",
      timestamp,
      results: [{ callId: undefined, content, children: [], extra: {} }],
      extra: { ...facts, context_management: { type: "compaction", boundary: "replace" } }
    })
  }
}

/** The steps of what is new in a request. */
export const asked = (agent: AgentScope, event: ScopeEvent, names: ReadonlyArray<Name>): void => {
  const { told } = agent
  // Messages that a session began with were there before its first turn.
  const timestamp = told.isAsked ? timestampText(event) : agent.draft.steps[0]?.timestamp ?? timestampText(event)
  const data = fields(event.data)
  // NeMo Relay puts a request beside its headers.
  const messages = items(data["messages"] ?? fields(data["content"])["messages"]).map(fields)
  if (told.rewritten.length > 0) {
    rewritten(agent, messages.flatMap((message) => message["role"] === "system" ? [] : [Message.plain(contentOf(message) ?? "")]).join("\n\n"))
    // The system prompt of a session that was never asked before is not told yet.
    names.forEach((name, at) => messages[at]?.["role"] === "system" || told.names.add(name))
  }
  const origins = fields(event.metadata?.["message_origins"])
  const steps = messages.flatMap((message, at): ReadonlyArray<Draft.Step> => {
    const name = names[at]
    if (name === undefined || told.names.has(name)) return []
    told.names.add(name)
    if (typeof name === "string") return transient(message, timestamp)
    // Later ones are told by marks, or are answers and results of this stream.
    return told.first === undefined || name < told.first ? [copied(agent, message, timestamp, text(origins[name]))].flatMap((step) => step ?? []) : []
  })
  // The prompt of the first turn was told before its request.
  const isBefore = (step: Draft.Step): boolean => !told.isAsked && (step.source === "system" && Object.keys(step.extra).length === 0 || step.rest.is_copied_context === true)
  const prefix = steps.filter(isBefore)
  const isCopied = (step: Draft.Step): boolean => step.rest.is_copied_context === true
  // A session that goes on from another one has a prompt of its own; a later part of one session repeats that too.
  if (agent.draft.extra["continues"] === undefined && prefix.some(isCopied)) for (const step of prefix) step.rest = { ...step.rest, is_copied_context: true }
  const beginning = told.isAsked || told.beginning === undefined ? [] : [CopiedSteps.rewrittenStep(told.beginning, timestamp)]
  agent.draft.steps.unshift(...prefix.filter((step) => !isCopied(step)), ...beginning, ...prefix.filter(isCopied))
  agent.draft.steps.push(...steps.filter((step) => !isBefore(step)))
  told.isAsked = true
}

/** A message of the session that a mark tells; false where the mark names none. */
export const appended = (agent: AgentScope, event: MarkEvent): boolean => {
  const facts = fields(event.metadata)
  const position = number(facts["position"])
  if (position === undefined) return false
  agent.told.names.add(position)
  agent.told.first = Math.min(position, agent.told.first ?? position)
  const timestamp = timestampText(event)
  if (facts["role"] === "tool") {
    answer(agent, text(facts["tool_call_id"]) ?? "", text(facts["content"]) ?? "", { status: "interrupted" })
    return true
  }
  const isPrompt = event.name === "hermes.turn.start"
  const message = Message.whole(isPrompt ? facts["user_message"] : facts["content"]) ?? ""
  const origin: Schema.Json = facts["origin"] ?? "user"
  if (isPrompt || origin === "user") say(agent, { source: "user", message, timestamp })
  else say(agent, { source: "system", message, timestamp, extra: facts["role"] === "system" ? {} : { origin } })
  return true
}
