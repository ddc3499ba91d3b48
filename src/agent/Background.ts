/**
 * Delivers reports of background children as messages to the session that started them, including reports that were
 * never collected.
 *
 * **Details**
 *
 * No state is stored apart from the sessions. The result of the call that started a child names the child's session,
 * which stores everything the child does as it happens. The message with its report names the delegation. Hence any
 * process that continues a session finds the undelivered reports and delivers each at least once. The status of a child
 * whose process died midway is `unknown`.
 *
 * Source: `hermes-product.md` §3.4.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as GrowingList from "../base/domain/GrowingList.ts"
import { SessionId } from "../base/domain/Ids.ts"
import * as Json from "../base/domain/Json.ts"
import { RedactSecrets, redactStart } from "../base/domain/Redaction.ts"
import { isCompletedExit } from "../base/domain/RunEvent.ts"
import type { Service as SessionStore } from "../store/SessionStore.ts"
import * as ResultText from "../tools/ResultText.ts"
import type { Delivery } from "./Children.ts"
import { Services } from "./Services.ts"

/** Maximum length of a goal or an error, in characters. */
const longest = 300

/** A report of a background child. */
interface BackgroundReport {
  readonly delegationId: string
  readonly goal: string
  readonly status: string
  readonly facts: ReadonlyArray<string>
  readonly summary: string
}

/**
 * Returns the beginning of a string in one line. Secrets are removed before it is cut, because a partial secret cannot
 * be recognised.
 */
const shortenLine = (text: string, redact: boolean): string => {
  const line = text.replaceAll(/\s+/g, " ").trim()
  if (line.length <= longest) return line
  return `${redact ? redactStart(line, longest) : line.slice(0, longest)}…`
}

const renderReport = ({ delegationId, facts, goal, status, summary }: BackgroundReport, redact: boolean): string =>
  [
    `[Report of the background delegation ${delegationId}: ${status}]`,
    `Goal: ${shortenLine(goal, redact)}`,
    facts.join(" · "),
    "",
    summary === "" ? "It left no summary." : summary
  ].join("\n")

/** Formats a count with its noun, in the singular or the plural. */
export const formatCount = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`

/** Renders a report as a message. `redact` is the value of `Redaction.RedactSecrets`. */
export const renderDelivery = ({ delegationId, goal, report }: Delivery, redact: boolean): string =>
  renderReport(
    {
      delegationId,
      goal,
      status: report.status,
      summary: report.summary,
      facts: [
        `exit reason ${report.exit_reason}`,
        formatCount(report.api_calls, "model call"),
        formatCount(report.tool_trace.length, "tool call"),
        `${Math.round(report.duration_seconds)} s`,
        `session ${report.session_id}`,
        ...(report.error === undefined ? [] : [`error: ${shortenLine(report.error, redact)}`]),
        ...(report.stale_paths === undefined ? [] : [`changed since you read them: ${report.stale_paths.join(", ")}`])
      ]
    },
    redact
  )

interface SentChild {
  readonly delegationId: string
  readonly sessionId: string
  readonly goal: string
}

const isText = (value: unknown): value is string => typeof value === "string"

const readSentChildren = (result: unknown): ReadonlyArray<SentChild> => {
  if (!isText(result) || !result.includes('"status":"dispatched"')) return []
  const body = Option.getOrUndefined(Json.parse(result))
  if (typeof body !== "object" || body === null) return []
  const { delegation_id, goal, session_id }: { delegation_id?: unknown; goal?: unknown; session_id?: unknown } = body
  return isText(delegation_id) && isText(session_id)
    ? [{ delegationId: delegation_id, sessionId: session_id, goal: isText(goal) ? goal : "" }]
    : []
}

const readText = (message: Prompt.Message): string =>
  message.role === "user" || message.role === "assistant"
    ? message.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")
    : ""

/** Collects the children that a conversation started and whose reports are not in the conversation. */
const untoldIn = GrowingList.fold<Prompt.Message, { children: ReadonlyArray<SentChild> }>({
  begin: () => ({ children: [] }),
  add: (state, message) => {
    if (message.role === "user" && state.children.length > 0) state.children = filterUnreported(state.children, message)
    if (message.role !== "tool") return
    const sent = message.content.flatMap((part) =>
      part.type === "tool-result" && part.name === "delegate_task" ? readSentChildren(part.result) : []
    )
    if (sent.length > 0) state.children = [...state.children, ...sent]
  },
  copy: ({ children }) => ({ children })
})

/** Returns the children that are not mentioned in any user message. */
const filterUnreported = (
  children: ReadonlyArray<SentChild>,
  message: Prompt.UserMessage
): ReadonlyArray<SentChild> => {
  const text = readText(message)
  return children.filter(({ delegationId }) => !text.includes(delegationId))
}

/** Recovers from the store the report of a child that was never delivered. */
const recoverReport = Effect.fnUntraced(function* (
  store: SessionStore,
  { delegationId, goal, sessionId }: SentChild,
  redact: boolean
) {
  const id = SessionId.make(sessionId)
  const session = Option.getOrUndefined(yield* store.get(id))
  const messages = session === undefined ? [] : yield* store.messages(id)
  const summary = messages.findLast((message) => message.role === "assistant" && readText(message) !== "")
  const reason = session?.endReason
  const status = reason === undefined ? "unknown" : isCompletedExit(reason) ? "completed" : reason
  return renderReport(
    {
      delegationId,
      goal,
      status,
      summary: summary === undefined ? "" : readText(summary),
      facts: [
        ...(reason === undefined
          ? ["the process that it worked in ended before it did: look what is done before you use it"]
          : []),
        `session ${sessionId}`
      ]
    },
    redact
  )
})

/** Returns the reports that a session has not received, for the run that begins with `prompt`. */
export const collectMissedReports = Effect.fnUntraced(function* (
  sessionId: SessionId,
  history: ReadonlyArray<Prompt.Message>,
  prompt: Prompt.UserMessage
): Effect.fn.Return<ReadonlyArray<Prompt.UserMessage>, SessionStoreError, Services> {
  const untold = filterUnreported(untoldIn(history).children, prompt)
  if (untold.length === 0) return []
  const { children, store } = yield* Services
  const waiting = yield* children.take(sessionId)
  const working = new Set((yield* children.list).map(({ delegationId }) => delegationId))
  const redact = yield* RedactSecrets
  const texts = yield* Effect.forEach(untold, (child): Effect.Effect<ReadonlyArray<string>, SessionStoreError> => {
    const delivery = waiting.find(({ delegationId }) => delegationId === child.delegationId)
    if (delivery !== undefined) return Effect.succeed([renderDelivery(delivery, redact)])
    return working.has(child.delegationId)
      ? Effect.succeed([])
      : Effect.map(recoverReport(store, child, redact), (text) => [text])
  })
  return texts
    .flat()
    .map((said) =>
      Prompt.userMessage({
        content: [Prompt.textPart({ text: ResultText.cleanText(said, { foreign: false, redact }) })]
      })
    )
})
