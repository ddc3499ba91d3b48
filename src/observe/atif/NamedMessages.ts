/**
 * Steps for the messages of a stream in which messages have names (`message_refs` of a request, `position` of a mark).
 * Each message is one step with its origin. Messages that a session repeats are copied context.
 *
 * Source: `relay-atof-atif.md` §2.3, §2.4 and §2.6.
 */
import type * as Schema from "effect/Schema"
import type { MarkEvent, ScopeEvent } from "../Atof.ts"
import * as Answer from "./Answer.ts"
import * as CopiedSteps from "./CopiedSteps.ts"
import * as Draft from "./Draft.ts"
import * as DraftSteps from "./DraftSteps.ts"
import * as Message from "./Message.ts"
import { type AgentScope, indexCalls } from "./Scope.ts"
import { addDraftStep, addStep, formatEventTime } from "./State.ts"
import { type Fields, toFields, toItems, toFiniteNumber, toNonEmptyText } from "./Value.ts"

type Name = number | string

const isName = (value: unknown): value is Name => typeof value === "number" || typeof value === "string"

/** Reads the names of the messages in a request. Returns `undefined` for a stream without names. */
export const readNames = (event: ScopeEvent): ReadonlyArray<Name> | undefined => {
  const listed = event.metadata?.["message_refs"]
  if (!Array.isArray(listed)) return undefined
  return toItems(listed).flatMap((one): ReadonlyArray<Name> => {
    if (isName(one)) return [one]
    const [from, to] = toItems(one)
    return typeof from === "number" && typeof to === "number" && to >= from
      ? Array.from({ length: to - from + 1 }, (_, at) => from + at)
      : []
  })
}

const readMessageContent = (message: Fields): ReturnType<typeof Message.readWholeContent> =>
  Message.readWholeContent(message["content"])

/**
 * Adds a result to the step of its call, unless the call already has one. The call may have ended without a result
 * because its process was killed.
 */
const addResult = (agent: AgentScope, callId: string, content: string, extra: Draft.Extra): void => {
  const step = agent.byId.get(callId)?.at(-1)?.step
  const known = step?.results.findLast((one) => one.callId === callId && one.content !== undefined)
  if (known === undefined) step?.results.push({ callId, content, children: [], extra })
  else if (known.content === "" && known.extra["status"] === "cancelled") {
    known.content = content
    known.extra = { ...extra, ...known.extra }
  }
}

/**
 * Creates a copied step for a message from an earlier part of the session. Returns `undefined` for a result, because it
 * is added to the step of its call.
 */
const makeCopiedStep = (
  agent: AgentScope,
  message: Fields,
  timestamp: string,
  origin: string | undefined
): Draft.Step | undefined => {
  const rest = { is_copied_context: true }
  const content = readMessageContent(message) ?? ""
  switch (message["role"]) {
    case "assistant": {
      const { calls, message: said, reasoning } = Answer.readAnswer({ choices: [{ message }] })
      const step = Draft.makeStep({
        source: "agent",
        message: said,
        timestamp,
        rest: { ...rest, ...(reasoning === undefined ? {} : { reasoning_content: reasoning }) },
        calls: calls.map(({ args, id, name }, at) => ({ id: id ?? `${name}:${at}`, name, args, extra: {} }))
      })
      indexCalls(agent, step)
      return step
    }
    case "tool":
      addResult(agent, toNonEmptyText(message["tool_call_id"]) ?? "", Message.toPlainText(content), {})
      return undefined
    case "user":
      return Draft.makeStep(
        origin === undefined
          ? { source: "user", message: content, timestamp, rest }
          : { source: "system", message: content, timestamp, rest, extra: { origin } }
      )
    case "system":
      return Draft.makeStep({ source: "system", message: content, timestamp, rest })
    default:
      return undefined
  }
}

/**
 * Creates steps for a message that is sent but not stored by a session: the system prompt, which has the time `before`,
 * or a nudge or context added by plugins, which have the time of the request.
 */
const makeTransientSteps = (message: Fields, before: string, asked: string): ReadonlyArray<Draft.Step> => {
  const content = readMessageContent(message) ?? ""
  if (message["role"] === "system") return [DraftSteps.makeSystemStep(content, before)]
  return message["role"] === "user" ? [DraftSteps.makeInjectionStep(content, asked)] : []
}

/**
 * Adds steps for the rewrites of the context since the last request. `content` is the context of the next request, or
 * an empty string if there is no next request.
 */
export const flushRewrites = (agent: AgentScope, content: string): void => {
  for (const { facts, timestamp } of agent.told.rewritten.splice(0))
    addDraftStep(agent, DraftSteps.makeCompactionStep(content, timestamp, facts))
}

/** Adds steps for the new messages of a request. */
export const addNewMessages = (agent: AgentScope, event: ScopeEvent, names: ReadonlyArray<Name>): void => {
  const { told } = agent
  // The messages in the first request of a session existed before its first turn.
  const timestamp = told.isAsked ? formatEventTime(event) : (agent.draft.steps[0]?.timestamp ?? formatEventTime(event))
  const data = toFields(event.data)
  // NeMo Relay stores a request under `content`, next to its headers.
  const messages = toItems(data["messages"] ?? toFields(data["content"])["messages"]).map(toFields)
  if (told.rewritten.length > 0) {
    flushRewrites(
      agent,
      messages
        .flatMap((message) =>
          message["role"] === "system" ? [] : [Message.toPlainText(readMessageContent(message) ?? "")]
        )
        .join("\n\n")
    )
    // The system prompt is not marked as known here, because the session may not have sent it before.
    names.forEach((name, at) => messages[at]?.["role"] === "system" || told.names.add(name))
  }
  const origins = toFields(event.metadata?.["message_origins"])
  const steps = messages.flatMap((message, at): ReadonlyArray<Draft.Step> => {
    const name = names[at]
    if (name === undefined || told.names.has(name)) return []
    told.names.add(name)
    if (typeof name === "string") return makeTransientSteps(message, timestamp, formatEventTime(event))
    // Later messages are reported by marks, or they are answers and results in this stream.
    return told.first === undefined || name < told.first
      ? [makeCopiedStep(agent, message, timestamp, toNonEmptyText(origins[name]))].flatMap((step) => step ?? [])
      : []
  })
  // The mark of the first turn precedes its request, so these steps are inserted before it.
  const isBefore = (step: Draft.Step): boolean =>
    !told.isAsked &&
    ((step.source === "system" && Object.keys(step.extra).length === 0) || step.rest.is_copied_context === true)
  const prefix = steps.filter(isBefore)
  const isCopied = (step: Draft.Step): boolean => step.rest.is_copied_context === true
  // A session that continues another session has its own system prompt, whereas a later part of the same session also
  // repeats the prompt.
  if (agent.draft.extra["continues"] === undefined && prefix.some(isCopied))
    for (const step of prefix) step.rest = { ...step.rest, is_copied_context: true }
  const beginning =
    told.isAsked || told.beginning === undefined ? [] : [CopiedSteps.makeRewrittenStep(told.beginning, timestamp)]
  agent.draft.steps.unshift(...prefix.filter((step) => !isCopied(step)), ...beginning, ...prefix.filter(isCopied))
  agent.draft.steps.push(...steps.filter((step) => !isBefore(step)))
  told.isAsked = true
}

/** Adds the session message that a mark reports. Returns false if the mark does not identify a message. */
export const appendMessage = (agent: AgentScope, event: MarkEvent): boolean => {
  const facts = toFields(event.metadata)
  const position = toFiniteNumber(facts["position"])
  if (position === undefined) return false
  agent.told.names.add(position)
  agent.told.first = Math.min(position, agent.told.first ?? position)
  const timestamp = formatEventTime(event)
  if (facts["role"] === "tool") {
    addResult(agent, toNonEmptyText(facts["tool_call_id"]) ?? "", toNonEmptyText(facts["content"]) ?? "", {
      status: "interrupted",
      ...Message.readImages(facts)
    })
    return true
  }
  const isPrompt = event.name === "hermes.turn.start"
  const message = Message.readWholeContent(isPrompt ? facts["user_message"] : facts["content"]) ?? ""
  const origin: Schema.Json = facts["origin"] ?? "user"
  const images = Message.readImages(facts)
  if (isPrompt || origin === "user") addStep(agent, { source: "user", message, timestamp, extra: images })
  else
    addStep(agent, {
      source: "system",
      message,
      timestamp,
      extra: { ...(facts["role"] === "system" ? {} : { origin }), ...images }
    })
  return true
}
