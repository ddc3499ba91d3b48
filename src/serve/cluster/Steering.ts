/**
 * Delivers messages from other processes to the running turn of a session: with the next result of a tool, once.
 *
 * **Details**
 *
 * A message stays in the inbox until its turn is over. Its text in the session carries its number, so that a runner
 * that continues the turn of a dead one finds out which messages the model has. Messages that no tool result carried
 * are turns of the session after the running one. The same holds if another hook replaces tool results.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { SessionId } from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import { SessionStore } from "../../store/SessionStorePort.ts"
import * as TextMarks from "../../store/TextMarks.ts"
import type { ClusterError } from "./Cluster.ts"
import type { ReceivedMessage } from "./Inbox.ts"
import type { Request } from "./RunForms.ts"

/** Messages for the session of a run. */
export interface SteeringSource {
  /** Returns true if there is a message. */
  readonly hasArrived: () => boolean
  /** Completes when the first message is there. */
  readonly arrived: Effect.Effect<void>
  /** Reads the messages that are in the inbox, in order. */
  readonly read: Effect.Effect<ReadonlyArray<ReceivedMessage>, ClusterError>
  /** Removes messages that the model has. */
  readonly remove: (numbers: ReadonlyArray<number>) => Effect.Effect<void, ClusterError>
}

const label = "hermes-effect/cluster/steering"

/** Returns the line before the text of a message: the mark that it came with, or one with its number. */
const renderMark = ({ body, seq }: ReceivedMessage): string =>
  TextMarks.renderMark(TextMarks.readMarked(body)?.id ?? `${seq}`)

const readText = ({ body }: ReceivedMessage): string => TextMarks.readMarked(body)?.text ?? body

/** Returns the messages whose text a session has. */
const findStored = Effect.fnUntraced(function* (sessionId: string, received: ReadonlyArray<ReceivedMessage>) {
  const store = yield* SessionStore
  const messages = yield* store.messages(yield* store.newest(SessionId.make(sessionId)))
  const text = messages.flatMap((message) => (message.role === "tool" ? [JSON.stringify(message)] : [])).join("\n")
  return received.filter((message) => text.includes(renderMark(message)))
})

const isPossible = (hooks: Hooks.Hooks["Service"]): boolean =>
  hooks.list().every(({ events, label: other }) => other.startsWith(label) || !events.includes("transform_tool_result"))

/**
 * Delivers the messages of a run's session, from the first one on, until the scope closes. Then removes the messages
 * that the session has.
 */
export const deliverSteering = Effect.fnUntraced(function* (
  hooks: Hooks.Hooks["Service"],
  { arrived, hasArrived, read, remove }: SteeringSource,
  sessionId: string
): Effect.fn.Return<void, never, Scope.Scope | SessionStore> {
  const store = yield* SessionStore
  const turn = yield* Semaphore.make(1)
  const delivered = new Map<number, ReceivedMessage>()
  let isKnown = false
  const takeNew = turn.withPermit(
    Effect.gen(function* () {
      const messages = yield* read
      if (!isKnown) {
        // An earlier runner of this turn may have delivered some.
        for (const message of yield* findStored(sessionId, messages)) delivered.set(message.seq, message)
        isKnown = true
      }
      const added = messages.filter(({ seq }) => !delivered.has(seq))
      for (const message of added) delivered.set(message.seq, message)
      return added.map((message) => `${renderMark(message)}\n${readText(message)}`)
    })
  )
  const hook = Hooks.on("transform_tool_result", ({ result, session_id }) =>
    Effect.gen(function* () {
      if ((yield* store.newest(SessionId.make(sessionId))) !== session_id) return undefined
      const texts = yield* takeNew
      return texts.length === 0 ? undefined : [Json.toText(result), ...texts].join("\n\n")
    }).pipe(
      Effect.provideService(SessionStore, store),
      Effect.catch(({ message }) => Effect.as(Effect.logWarning(message), undefined))
    )
  )
  yield* Effect.addFinalizer(() =>
    delivered.size === 0
      ? Effect.void
      : findStored(sessionId, Array.from(delivered.values())).pipe(
          Effect.flatMap((stored) => remove(stored.map(({ seq }) => seq))),
          Effect.provideService(SessionStore, store),
          Effect.catch(({ message }) => Effect.logWarning(message))
        )
  )
  const register = Effect.suspend(() =>
    isPossible(hooks) ? hooks.register({ ...hook, label: `${label} ${sessionId}` }) : Effect.void
  )
  // No hook is on the road of results before there is a message.
  yield* hasArrived() ? register : Effect.forkScoped(Effect.andThen(arrived, register))
})

/** Returns the turn for a message that no tool result carried. It has the options of the turn that it was sent to. */
export const toTurnRequest = (request: Request, message: ReceivedMessage): Request => ({
  ...request,
  id: `${request.id}+${message.seq}`,
  input: JSON.stringify({
    ...Json.readFields(Json.parseOrKeep(request.input)),
    prompt: readText(message),
    received: TextMarks.readMarked(message.body)?.id
  })
})
