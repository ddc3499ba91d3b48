// A live session on a model that does what the user's words say, and readers of it.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as HostEvents from "../../../src/serve/host/HostEvent.ts"
import * as LiveSession from "../../../src/serve/host/LiveSession.ts"
import * as Ids from "../../../src/base/domain/Ids.ts"
import type { Hook } from "../../../src/hooks/Hook.ts"
import { SessionStore } from "../../../src/store/SessionStore.ts"
import * as Beside from "../../support/interactiveServices.ts"
import * as Model from "../../support/interactiveModel.ts"

type HostEvent = HostEvents.HostEvent

export interface Changes extends LiveSession.Options, Beside.Given {
  readonly listeners?: ReadonlyArray<Hook<never>> | undefined
}

export interface World {
  readonly live: LiveSession.LiveSession
  readonly model: ReturnType<typeof Model.make>
  readonly store: SessionStore["Service"]
}

export const first = Ids.SessionId.make("20260101_000000_aaaaaa")

/** Makes a live session, and gives it to `body` for as long as that takes. */
export const live = <A, E, R>(
  { auxiliary, background, children, listeners = [], routes, ...options }: Changes,
  body: (world: World) => Effect.Effect<A, E, R>
) => {
  const model = Model.make(0)
  let next = 0
  return Effect.gen(function* () {
    const live = yield* LiveSession.make({
      session: { id: first },
      newSession: Effect.sync(() => Ids.SessionId.make(`20260101_00000${++next}_bbbbbb`)),
      ...options
    })
    return yield* body({ live, model, store: yield* SessionStore })
  }).pipe(
    Effect.scoped,
    Effect.provide(
      Layer.mergeAll(
        Model.layer(model, listeners),
        Beside.layer({ auxiliary, background, children, routes }),
        NodeServices.layer
      )
    )
  )
}

/** Reads on until an event fits; gives all that were read. */
export const until = (
  reader: LiveSession.Reader,
  fits: (event: HostEvent) => boolean
): Effect.Effect<ReadonlyArray<HostEvent>> =>
  Effect.gen(function* () {
    const events: Array<HostEvent> = []
    while (true) {
      const event = yield* reader.take
      events.push(event)
      if (fits(event)) return events
    }
  }).pipe(Effect.orDie)

/** All events that are there. */
export const drain = (reader: LiveSession.Reader): ReadonlyArray<HostEvent> => {
  const found: Array<HostEvent> = []
  for (let event = reader.poll(); event !== undefined; event = reader.poll()) found.push(event)
  return found
}

export const untilTag = (reader: LiveSession.Reader, tag: HostEvent["_tag"]) =>
  until(reader, ({ _tag }) => _tag === tag)

/** One line for each event; deltas of one turn together. */
export const lines = (events: ReadonlyArray<HostEvent>): ReadonlyArray<string> => {
  const found: Array<string> = []
  for (const event of events) {
    const line = lineOf(event)
    if (line === undefined) continue
    const last = found.at(-1)
    if (event._tag === "RunEvents" && last?.startsWith("text ")) found[found.length - 1] = `${last}${line.slice(5)}`
    else found.push(line)
  }
  return found
}

const lineOf = (event: HostEvent): string | undefined => {
  switch (event._tag) {
    case "TurnStarted":
      return `started ${event.turn.id} ${event.turn.message.origin}: ${event.turn.message.shown}`
    case "RunEvents": {
      const text = event.events.map((one) => (one._tag === "TextDelta" ? one.text : "")).join("")
      return text === "" ? undefined : `text ${text}`
    }
    case "TurnEnded":
      return `ended ${event.turn.id} ${event.exit._tag === "Success" ? event.exit.value.exit : "failed"}${event.turn.isStopping ? " stopped" : ""}`
    case "QueueChanged":
      return `queue [${event.queue.map(({ shown }) => shown).join(", ")}] steering [${event.steering.join(", ")}]`
    case "QuestionAsked":
      return `asked ${event.question.id} ${event.question._tag}`
    case "QuestionClosed":
      return `closed ${event.id} ${event.answer === undefined ? "without an answer" : JSON.stringify(event.answer)}`
    case "SessionChanged":
      return `session ${event.change} ${event.session.id}`
    case "MessagesReturned":
      return `returned ${event.messages.map(({ shown }) => shown).join(", ")}`
    case "Steered":
      return `steered ${event.texts.join(", ")}`
    case "Notice":
      return `notice ${event.level}: ${event.message}`
    default:
      return event._tag
  }
}
