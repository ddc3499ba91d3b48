/**
 * Stored sessions as plain values: their list, and their messages in the form that a run takes as `history`.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../base/domain/Conversation.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as RunDetails from "../../base/domain/RunDetails.ts"
import * as Ids from "../../base/domain/Ids.ts"
import type { Question } from "../../base/domain/Question.ts"
import { type QuestionFilter, type Session, type Service as Store, SessionStore } from "../../store/SessionStore.ts"
import { HermesError } from "./HermesError.ts"
import type { PlainMessage, PlainPart } from "./PlainPrompt.ts"

/** A stored session. */
export interface HermesSession {
  readonly id: string
  readonly title: string | undefined
  readonly provider: string
  readonly model: string
  /** Times in epoch milliseconds. */
  readonly startedAt: number
  readonly endedAt: number | undefined
  /** Number of stored messages. */
  readonly messages: number
}

const toPlainSession = ({ endedAt, id, messageCount, model, provider, startedAt, title }: Session): HermesSession => ({
  id,
  title,
  provider,
  model,
  startedAt,
  endedAt,
  messages: messageCount
})

const toUserPart = (part: Prompt.UserMessagePart): PlainPart =>
  part.type === "text"
    ? { type: "text", text: part.text }
    : {
        type: "file",
        data: part.data,
        mediaType: part.mediaType,
        ...(part.fileName === undefined ? {} : { filename: part.fileName })
      }

type AnswerPart = Exclude<Extract<PlainMessage, { readonly role: "assistant" }>["content"], string>[number]

const toAnswerParts = (part: Prompt.AssistantMessagePart): ReadonlyArray<AnswerPart> => {
  switch (part.type) {
    case "text":
      return [{ type: "text", text: part.text }]
    case "tool-call":
      return [{ type: "tool-call", toolCallId: part.id, toolName: part.name, input: part.params }]
    default:
      // Reasoning belongs to the model that produced it.
      return []
  }
}

const toPlainMessages = (message: Prompt.Message): ReadonlyArray<PlainMessage> => {
  switch (message.role) {
    case "system":
      return []
    case "user":
      return [{ role: "user", content: message.content.map(toUserPart) }]
    case "assistant":
      return [{ role: "assistant", content: message.content.flatMap(toAnswerParts) }]
    case "tool":
      return [
        {
          role: "tool",
          content: message.content.flatMap((part) =>
            part.type === "tool-result"
              ? [
                  {
                    type: "tool-result" as const,
                    toolCallId: part.id,
                    toolName: part.name,
                    output: { type: part.isFailure ? "error-json" : "json", value: part.result }
                  }
                ]
              : []
          )
        }
      ]
  }
}

/** Presents the messages of a result in the form of `history`. Other events are unchanged. */
export const presentMessages = (events: ReadonlyArray<RunEvent>): ReadonlyArray<RunEvent> => {
  for (const event of events) {
    if (event._tag === "RunFinished") RunDetails.presentMessages(event, (messages) => messages.flatMap(toPlainMessages))
  }
  return events
}

const useStore = <A>(work: (store: Store) => Effect.Effect<A, unknown>): Effect.Effect<A, unknown> =>
  Effect.flatMap(
    Effect.serviceOption(SessionStore),
    Option.match({
      onNone: () => Effect.fail(new HermesError("ConfigError", "the layer of this runtime provides no session store")),
      onSome: work
    })
  )

/** Lists the newest sessions first. */
export const listSessions = (limit: number | undefined): Effect.Effect<ReadonlyArray<HermesSession>, unknown> =>
  useStore((store) => Effect.map(store.list(limit === undefined ? {} : { limit }), (all) => all.map(toPlainSession)))

/** Reads the messages of a conversation, also if it continues in another session after a compaction. */
export const readSession = (id: string): Effect.Effect<ReadonlyArray<PlainMessage> | undefined, unknown> =>
  useStore((store) =>
    Effect.gen(function* () {
      const newest = yield* store.newest(Ids.SessionId.make(id))
      if (Option.isNone(yield* store.get(newest))) return undefined
      return Conversation.withoutRejected(yield* store.messages(newest)).flatMap(toPlainMessages)
    })
  )

/** Lists the open questions of suspended sessions, oldest first. */
export const listQuestions = ({
  sessionId,
  ...filter
}: Omit<QuestionFilter, "sessionId" | "states"> & { readonly sessionId?: string | undefined }): Effect.Effect<
  ReadonlyArray<Question>,
  unknown
> =>
  useStore((store) =>
    Effect.gen(function* () {
      const newest = sessionId === undefined ? undefined : yield* store.newest(Ids.SessionId.make(sessionId))
      return (yield* store.listQuestions({ ...filter, sessionId: newest })).map(({ question }) => question)
    })
  )
