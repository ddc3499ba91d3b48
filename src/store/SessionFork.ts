/**
 * Creates a new session that begins with messages of another session. The other session is not changed. The run record
 * of the new session begins with a link to its source.
 *
 * **Details**
 *
 * A fork is not a sub-agent of its source: it has no parent, its usage is counted separately, and removing one session
 * does not affect the other. The system prompt is byte for byte identical to the system prompt of the source, so that
 * provider caches still match.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import * as Ids from "../base/domain/Ids.ts"
import * as ContextCopy from "./ContextCopy.ts"
import { appendChecked, RunRecord } from "./RunRecord.ts"
import { type Session, SessionStore } from "./SessionStorePort.ts"

/** Contents of a fork. */
export interface Fork {
  /** Initial messages of the fork. Unchanged messages are the same objects as in `originals`. */
  readonly history: ReadonlyArray<Prompt.Message>
  /**
   * Messages of the source, beginning with the first one. They include at least all messages that `history` repeats.
   */
  readonly originals: ReadonlyArray<Prompt.Message>
  /** Number of messages of the source before the fork point. */
  readonly position: number
  /** Names of the differences from the source: `prompt`, `result`, `model`. */
  readonly changed: ReadonlyArray<string>
  readonly source: string
  /** Model of the fork. The default is the model of the source. */
  readonly model?: string | undefined
  readonly title?: string | undefined
}

/** Creates a fork. If this fails, all its data is removed. */
export const fork = Effect.fnUntraced(function* (
  session: Session,
  { changed, history, model = session.model, originals, position, source, title }: Fork
): Effect.fn.Return<Session, SessionStoreError, RunRecord | SessionStore> {
  const store = yield* SessionStore
  const known = yield* store.get(session.id)
  const id = yield* Ids.makeSessionId
  const made = yield* store.create({
    id,
    source,
    provider: session.provider,
    model,
    // A session from a list does not include its system prompt.
    systemPrompt: Option.match(known, {
      onNone: () => session.systemPrompt,
      onSome: ({ systemPrompt }) => systemPrompt
    }),
    hasOwnPrompt: session.hasOwnPrompt,
    tenant: session.tenant,
    title,
    cwd: session.cwd,
    branch: session.branch
  })
  const turnId = Ids.TurnId.make(`${id}:${source}`)
  yield* Effect.gen(function* () {
    if (history.length > 0) yield* store.append(id, history)
    const link = { _tag: "ReplayBegun", source: session.id, position, changed } as const
    const at = yield* appendChecked(id, turnId, link)
    const record = yield* RunRecord
    const copies = ContextCopy.findCopies(history, originals)
    yield* record.append((yield* ContextCopy.makeEntries(record, { sessionId: id, turnId, at, link }, copies)).slice(1))
  }).pipe(Effect.onError(() => Effect.ignore(store.remove(id))))
  return made
})

/**
 * Returns the messages up to the end of a step. A step is an answer with the results of its calls. Returns `undefined`
 * if there are fewer steps, and all messages if no step is given.
 */
export const sliceToStep = (
  messages: ReadonlyArray<Prompt.Message>,
  step: number | undefined
): ReadonlyArray<Prompt.Message> | undefined => {
  if (step === undefined) return messages
  const answers = messages.flatMap(({ role }, index) => (role === "assistant" ? [index] : []))
  const answer = answers[step - 1]
  if (answer === undefined) return undefined
  const end = messages.findIndex(({ role }, index) => index > answer && role !== "tool")
  return end === -1 ? messages : messages.slice(0, end)
}
