/**
 * Questions of child agents. A child that waits ends its run, and its questions become questions of the call that
 * started it, so that the session of the user takes the answers.
 *
 * **Details**
 *
 * The call that delegates stores which sessions its children have, runs again after an answer, and continues each child
 * in its session. A child that has ended is not run again, also after its process was killed. The questions of a child
 * are stored with the session of the run that has no parent, and only there. On the way up, each call adds the
 * place of the child's question to its own place; on the way down, it removes it.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as Conversation from "../base/domain/Conversation.ts"
import { SessionId } from "../base/domain/Ids.ts"
import type { StoredQuestion } from "../base/domain/Question.ts"
import { Exit as RunExit } from "../base/domain/RunEvent.ts"
import * as TextCut from "../base/domain/TextCut.ts"
import type { Service as StoreService } from "../store/SessionStorePort.ts"
import type { AskingCall, QuestionPolicy } from "../tools/CallQuestions.ts"

/**
 * A question of a child, with the position of the answer whose call asked: the model may use the id of a call again.
 */
export interface ChildQuestion {
  readonly position: number
  readonly stored: StoredQuestion
}

/** Questions of a child whose run can be suspended. */
export interface ChildAsking {
  readonly policy: QuestionPolicy
  /** Questions of earlier runs of the child, with their answers. */
  readonly known: ReadonlyArray<ChildQuestion>
  /** Receives all questions of the calls that wait when the run of the child is suspended. */
  readonly passUp: (questions: ReadonlyArray<ChildQuestion>) => void
}

/** Returns the position of the last answer in a stored conversation, -1 without one. */
export const findAnswerPosition = (messages: ReadonlyArray<Prompt.Message>): number =>
  messages.findLastIndex(({ role }) => role === "assistant")

/** Returns the questions of a child about the calls of its last answer. */
export const selectCurrent = (
  { known }: Pick<ChildAsking, "known">,
  history: ReadonlyArray<Prompt.Message>
): ReadonlyArray<StoredQuestion> => {
  const current = findAnswerPosition(history)
  return known.flatMap(({ position, stored }) => (position === current ? [stored] : []))
}

const prefix = "child:"

/** Place of a child's question in the call that delegates: the child, the position, the child's call and its place. */
const Place = Schema.fromJsonString(Schema.Tuple([Schema.String, Schema.Int, Schema.String, Schema.String]))
const decodePlace = Schema.decodeUnknownOption(Place)

/** The child that asks, as its questions name it. */
export interface AskingChild {
  /** Name of the child within its call. */
  readonly key: string
  readonly sessionId: SessionId
  readonly goal: string
  readonly agent: string | undefined
}

const longestGoal = 200

/** Returns a question of a child as a question of the call that delegates. */
export const toPassed = (
  { callId }: Pick<AskingCall, "callId">,
  parentId: SessionId,
  { agent, goal, key, sessionId }: AskingChild,
  { position, stored }: ChildQuestion
): StoredQuestion => {
  const { question } = stored
  const child = { sessionId, goal: TextCut.shorten(goal, longestGoal), ...(agent === undefined ? {} : { agent }) }
  return {
    ...stored,
    place: prefix + JSON.stringify([key, position, question.callId ?? "", stored.place]),
    question: { ...question, sessionId: parentId, callId, origin: [child, ...(question.origin ?? [])] }
  }
}

/** Returns the questions of a call that come from a child, as the child asked them. */
export const listKnown = ({ book, callId }: AskingCall, key: string): ReadonlyArray<ChildQuestion> =>
  book.listOfCall(callId).flatMap((stored): ReadonlyArray<ChildQuestion> => {
    const { origin: [child, ...below] = [], ...question } = stored.question
    const place = stored.place.startsWith(prefix)
      ? Option.getOrUndefined(decodePlace(stored.place.slice(6)))
      : undefined
    if (child === undefined || place?.[0] !== key) return []
    const [, position, childCall, childPlace] = place
    return [
      {
        position,
        stored: {
          ...stored,
          place: childPlace,
          question: {
            ...question,
            sessionId: child.sessionId,
            callId: childCall,
            ...(below.length === 0 ? {} : { origin: below })
          }
        }
      }
    ]
  })

/** Children of one delegation, which are found again if their call runs again. */
const StoredChildren = Schema.Array(Schema.Struct({ sessionId: SessionId, subagentId: Schema.String }))
const decodeChildren = Schema.decodeUnknownOption(StoredChildren)

const childrenStep = "children:"

/** Returns the name of the step that stores the children of a delegation. */
export const formatChildrenStep = (delegation: number): string => `${childrenStep}${delegation}`

/** Returns true for the name of a step that stores children. Their call can run again after its process was killed. */
export const isChildrenStep = (name: string): boolean => name.startsWith(childrenStep)

/** Returns the name of the step that stores the report of a child that ended while another one waits. */
export const formatReportStep = (key: string): string => `report:${key}`

/** Reads the children of a delegation from the result of their step. */
export const readChildren = (value: unknown): typeof StoredChildren.Type =>
  Option.getOrElse(decodeChildren(value), () => [])

/** State of a child whose call runs again. */
export type ChildState =
  | { readonly _tag: "New" }
  | { readonly _tag: "Open" }
  | { readonly _tag: "Ended"; readonly exit: typeof RunExit.Type; readonly text: string }

const decodeExit = Schema.decodeUnknownOption(RunExit)

/** Reads the state of a child from its session. */
export const readChildState = Effect.fnUntraced(function* (
  store: Pick<StoreService, "get" | "messages">,
  id: SessionId
): Effect.fn.Return<ChildState, SessionStoreError> {
  const session = Option.getOrUndefined(yield* store.get(id))
  if (session === undefined || session.messageCount === 0) return { _tag: "New" }
  const last = (yield* store.messages(id)).at(-1)
  if (last?.role !== "assistant" || Conversation.listToolCalls(last).length > 0) return { _tag: "Open" }
  // A child that was killed after its last answer has no reason of its end.
  const exit = Option.getOrElse(decodeExit(session.endReason), () => "text_response" as const)
  return { _tag: "Ended", exit, text: Conversation.readText(last) }
})
