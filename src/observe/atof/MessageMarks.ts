/**
 * Marks for messages of a session that are neither the answer of a model call nor the result of a tool scope: prompts,
 * messages that the runtime adds, and answers that were stored in a different form than received.
 *
 * Source: `hermes-contract.md` §4.5.
 */
import type * as Prompt from "effect/ai/Prompt"
import type * as Record from "../../base/domain/RecordEvent.ts"
import * as MessageText from "../atif/Message.ts"
import {
  describeImages,
  readMessageAnswer,
  readPartsAnswer,
  renderToolResult,
  toContent,
  toJson
} from "../atif/RunContent.ts"
import type * as RunTree from "../RunTree.ts"
import * as AgentScopes from "./AgentScopes.ts"
import * as ChatCompletion from "./ChatCompletion.ts"
import { collectRunFacts } from "./RunFacts.ts"
import { getSession, type StreamState } from "./RunScopes.ts"

type Stored = Extract<Record.RecordEvent, { readonly _tag: "MessageAppended" }>

/**
 * Adds a mark for an answer that was stored in a different form than received: with calls repaired or left out, or
 * joined with an earlier part.
 */
const markStoredAnswer = (stream: StreamState, run: RunTree.Run, at: number, { message, position }: Stored): void => {
  const step = run.steps.at(-1)
  if (message?.role !== "assistant" || step === undefined) return
  const stored = readMessageAnswer(message)
  const last =
    step.attempts.findLast(({ end }) => end?.status === "answered") ??
    step.attempts.findLast(({ end }) => end !== undefined && end.answer.length > 0)
  const came = last?.end === undefined ? undefined : readPartsAnswer(last.end.answer, step.number)
  if (came !== undefined && ChatCompletion.isSameMessage(came, stored)) return
  AgentScopes.mark(stream.scopes, getSession(stream, run), {
    name: "hermes.answer.stored",
    key: `answer ${run.turnId}`,
    at,
    metadata: {
      ...collectRunFacts(run),
      ...(position === undefined ? {} : { position }),
      api_call_count: step.number,
      assistant_message: ChatCompletion.toAssistantMessage(stored)
    }
  })
}

/**
 * Adds marks for results that no scope of a call has: results of calls that no step of the run made, and results that
 * were stored after the record of the run was cut.
 */
const markForeignResults = (
  stream: StreamState,
  run: RunTree.Run,
  at: number,
  { content }: Extract<Prompt.Message, { readonly role: "tool" }>,
  { origin, position }: Stored
): void => {
  for (const part of content) {
    if (part.type !== "tool-result") continue
    const isOfRun = run.steps.some(({ calls }) => calls.some(({ id }) => id === part.id))
    if (isOfRun && run.end === undefined) continue
    AgentScopes.mark(stream.scopes, getSession(stream, run), {
      name: "hermes.message",
      key: `message ${run.turnId}`,
      at,
      metadata: {
        ...collectRunFacts(run),
        ...(position === undefined ? {} : { position }),
        origin,
        role: "tool",
        tool_call_id: part.id,
        content: MessageText.toPlainText(renderToolResult(part)),
        ...describeImages(part.modelOutput ?? [], stream.pictures)
      }
    })
  }
}

/** Adds a mark for a message of the session that is neither an answer of this run's model nor a result of its tools. */
export const handleMessage = (stream: StreamState, run: RunTree.Run, at: number, event: Stored): void => {
  const { message, origin, position } = event
  if (message === undefined || position === undefined) return
  if (message.role === "assistant") return markStoredAnswer(stream, run, at, event)
  if (message.role === "tool") return markForeignResults(stream, run, at, message, event)
  const facts = { ...collectRunFacts(run), position, ...describeImages(message.content, stream.pictures) }
  const content = toJson(toContent(message.content))
  const isPrompt = origin === "user" && !run.messages.some((one) => one.origin === "user" && one.message !== message)
  AgentScopes.mark(
    stream.scopes,
    getSession(stream, run),
    isPrompt
      ? {
          name: "hermes.turn.start",
          key: `turn start ${run.turnId}`,
          at,
          metadata: {
            ...facts,
            ...(run.start === undefined
              ? {}
              : { provider: run.start.provider, model: run.start.model, is_first_turn: !run.start.resumed }),
            user_message: content
          }
        }
      : {
          name: "hermes.message",
          key: `message ${run.turnId}`,
          at,
          metadata: { ...facts, origin, role: message.role, content }
        }
  )
}
