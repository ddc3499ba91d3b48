/**
 * Writes of the studio: replays, scores and notes. A replay runs a session again from one of its messages, as a new
 * session.
 *
 * **Details**
 *
 * A replay copies the messages before that point and does not change the source. The record of the new session begins
 * with a link to its source. Scores and notes are entries in the record of the session that they refer to.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../base/domain/Conversation.ts"
import * as Ids from "../../base/domain/Ids.ts"
import type { RecordEvent } from "../../base/domain/RecordEvent.ts"
import { appendChecked } from "../../store/RunRecord.ts"
import * as SessionFork from "../../store/SessionFork.ts"
import { type Session, SessionStore } from "../../store/SessionStore.ts"
import type { SessionFacts } from "./SessionFacts.ts"
import type { Note, NoteRequest, Replayed, ReplayRequest, Score, ScoreRequest } from "./StudioApi.ts"
import { type Refusal, makeBadRequest } from "./StudioRequests.ts"

/** A prepared run of a replayed session. */
export interface ReplayRun {
  /** The new session. Its stored messages are the messages before the point of the replay. */
  readonly session: Session
  /** The message with which the run begins or from which it continues. */
  readonly prompt: Prompt.UserMessage["content"]
  /**
   * True if the run continues from the stored messages, which end with a user message or with results, without adding a
   * message.
   */
  readonly goesOn: boolean
  /** Model to use, or `undefined` for the model of the source. */
  readonly model: string | undefined
}

/**
 * Function that starts a run and returns once it is running. `heard` runs at each step. If the run is refused, the user
 * sees the failure message.
 */
export type Replay = (run: ReplayRun, heard: Effect.Effect<void>) => Effect.Effect<void, Refusal>

/** The session that a request refers to. */
export interface Target {
  readonly session: Session
  readonly facts: SessionFacts | undefined
}

/** Point at which a replay starts, and its differences from the source. */
interface ReplayPlace extends Pick<ReplayRun, "goesOn" | "prompt"> {
  readonly position: number
  readonly history: ReadonlyArray<Prompt.Message>
  readonly changed: ReadonlyArray<string>
}

const findLastQuestion = (messages: ReadonlyArray<Prompt.Message>): Prompt.UserMessage["content"] => {
  const message = messages.findLast(({ role }) => role === "user")
  return message?.role === "user" ? message.content : [Prompt.textPart({ text: "Continue." })]
}

/** Replaces the result of a call, and returns the messages up to the last result of its step. */
const replaceResult = (
  messages: ReadonlyArray<Prompt.Message>,
  callId: string,
  text: string
): ReadonlyArray<Prompt.Message> | undefined => {
  const at = messages.findLastIndex((message) => Conversation.listResultIds(message).includes(callId))
  if (at === -1) return undefined
  const end = messages.findIndex(({ role }, index) => index > at && role !== "tool")
  return messages
    .slice(0, end === -1 ? messages.length : end)
    .map((message, index) =>
      index !== at || message.role !== "tool"
        ? message
        : Prompt.toolMessage({
            ...message,
            content: message.content.map((part) =>
              part.type === "tool-result" && part.id === callId
                ? Prompt.toolResultPart({
                    id: part.id,
                    name: part.name,
                    isFailure: false,
                    result: text,
                    providerExecuted: part.providerExecuted
                  })
                : part
            )
          })
    )
}

/** Finds the point in the messages of the source at which a replay starts. */
const findReplayPlace = (
  messages: ReadonlyArray<Prompt.Message>,
  { model, position, prompt, result }: ReplayRequest
): Effect.Effect<ReplayPlace, Refusal> => {
  const models = model === undefined ? [] : ["model"]
  if (result !== undefined) {
    if (position !== undefined || prompt !== undefined)
      return Effect.fail(makeBadRequest("a replay with a result takes no position and no prompt"))
    const history = replaceResult(messages, result.callId, result.text)
    return history === undefined
      ? Effect.fail(makeBadRequest(`no call ${JSON.stringify(result.callId)} of this session has a result`))
      : Effect.succeed({
          position: history.length,
          history,
          prompt: findLastQuestion(history),
          goesOn: true,
          changed: ["result", ...models]
        })
  }
  const message = position === undefined ? undefined : messages[position]
  if (position === undefined || message === undefined)
    return Effect.fail(
      makeBadRequest(`position is missing or too large: this session has ${messages.length} messages, from 0`)
    )
  const history = messages.slice(0, position)
  if (message.role === "user") {
    const isSame = prompt === undefined
    const content = isSame
      ? message.content
      : [Prompt.textPart({ text: prompt }), ...message.content.filter(({ type }) => type === "file")]
    return Effect.succeed({
      position,
      history,
      prompt: content,
      goesOn: false,
      changed: [...(isSame ? [] : ["prompt"]), ...models]
    })
  }
  if (message.role !== "assistant")
    return Effect.fail(makeBadRequest("position is that of a user message or an answer; use result to change a result"))
  if (prompt !== undefined) return Effect.fail(makeBadRequest("a prompt goes with the position of a user message"))
  return Effect.succeed({ position, history, prompt: findLastQuestion(history), goesOn: true, changed: models })
}

const checkRun = ({ facts }: Target, run: string | undefined): Effect.Effect<void, Refusal> =>
  run === undefined || facts?.runs.has(run) === true
    ? Effect.void
    : Effect.fail(makeBadRequest(`this session has no run ${JSON.stringify(run)}`))

/** Appends an event to the record of a session. */
const appendEvent = (sessionId: Ids.SessionId, turnId: string, event: RecordEvent) =>
  appendChecked(sessionId, Ids.TurnId.make(turnId), event)

/** Creates the write operations of a studio. `heard` runs at each step of a replayed run. */
export const make = (replay: Replay, heard: Effect.Effect<void>) => ({
  replay: Effect.fnUntraced(function* ({ session }: Target, request: ReplayRequest) {
    const store = yield* SessionStore
    const messages = yield* store.messages(session.id)
    const place = yield* findReplayPlace(messages, request)
    const { changed, goesOn, history, position, prompt } = place
    const made = yield* SessionFork.fork(session, {
      history,
      originals: messages,
      position,
      changed,
      source: "replay",
      model: request.model
    })
    yield* replay({ session: made, prompt, goesOn, model: request.model }, heard).pipe(
      Effect.onError(() => Effect.ignore(store.remove(made.id)))
    )
    return { session: made.id } satisfies Replayed
  }),

  score: Effect.fnUntraced(function* (target: Target, { comment, name, run, value }: ScoreRequest) {
    yield* checkRun(target, run)
    const more = {
      ...(run === undefined ? {} : { run: Ids.TurnId.make(run) }),
      ...(comment === undefined ? {} : { comment })
    }
    const at = yield* appendEvent(target.session.id, `${target.session.id}:score`, {
      _tag: "Scored",
      name,
      value,
      ...more
    })
    return { name, value, ...more, at } satisfies Omit<Score, "value"> & { readonly value: Score["value"] | null }
  }),

  note: Effect.fnUntraced(function* (target: Target, { position, run, text }: NoteRequest) {
    yield* checkRun(target, run)
    if (position !== undefined && position >= target.session.messageCount)
      return yield* makeBadRequest(
        `position is too large: this session has ${target.session.messageCount} messages, from 0`
      )
    const more = {
      ...(run === undefined ? {} : { run: Ids.TurnId.make(run) }),
      ...(position === undefined ? {} : { position })
    }
    const at = yield* appendEvent(target.session.id, `${target.session.id}:note`, { _tag: "Noted", text, ...more })
    return { text, ...more, at } satisfies Note
  })
})
