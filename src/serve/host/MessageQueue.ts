/**
 * The message queue of a live session, and the messages that wait to be delivered to the current turn (`steering`).
 * Both are part of the state of the session and change only on the owner's fiber.
 *
 * Answers come first, then messages from plugins, messages from clients, and reports of background work.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { RunInput } from "../../agent/RunInput.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import * as TextMarks from "../../store/TextMarks.ts"
import { isContinuation, type Message } from "./HostEvent.ts"
import type { StateOwner } from "./StateOwner.ts"

/** Content of a message. */
export interface MessageContent {
  readonly prompt: RunInput["prompt"]
  /** Text that represents the message on a screen. Defaults to the prompt's text. */
  readonly shown?: string | undefined
  /** Id of the text in the inbox of the session, if another process sent it. */
  readonly received?: string | undefined
}

/** A message for the current turn. */
interface SteeringText {
  readonly text: string
  readonly received: string | undefined
}

/** The queue of a live session. All members must run on the fiber of the `StateOwner`. */
export interface MessageQueue {
  /** Makes a message with an id that is unique in the session. Does not add it to the queue. */
  readonly makeMessage: (content: MessageContent, origin: Message["origin"]) => Message
  /** Replaces the queue, and publishes the change. */
  readonly replace: (queue: ReadonlyArray<Message>) => void
  /** Adds a message to the queue, at the position that its origin determines: answers are first. */
  readonly add: (message: Message) => void
  /** Adds a message for the current turn. */
  readonly addSteering: (text: string, received: string | undefined) => void
  /** Removes and returns the messages for the current turn. */
  readonly takeSteering: () => ReadonlyArray<SteeringText>
  /** Moves the undelivered steering messages to the queue, before the other messages from clients. */
  readonly requeueSteering: () => void
  /** Removes a message from the queue and returns it. Returns nothing if the message is no longer queued. */
  readonly remove: (id: string) => ReadonlyArray<Message>
  /**
   * Removes and returns the messages from clients, steering messages first. Publishes `MessagesReturned` if there are
   * any.
   */
  readonly takeFromClients: () => ReadonlyArray<Message>
}

/** Delivery of steering messages to the model. */
export interface SteeringDelivery {
  /** True from the delivery with a tool result until the model is called with that result. */
  isUnread: boolean
  /** Ids of the texts of other processes that the current turn received. */
  received: ReadonlyArray<string>
}

/** Returns the texts of other processes that a turn received, also as its message, and forgets them. */
export const takeReceived = (delivery: SteeringDelivery, message: Message): ReadonlyArray<string> => {
  const { received } = delivery
  delivery.received = []
  return message.received === undefined ? received : [message.received, ...received]
}

const steeringLabel = "hermes-effect/host/steering"

/** Adds messages to the result of a tool. Messages of other processes have a mark each. */
const appendUserMessages = (result: string, messages: ReadonlyArray<SteeringText>): string => {
  const own = messages.filter(({ received }) => received === undefined).map(({ text }) => text)
  const marked = messages.flatMap(({ received, text }) =>
    received === undefined ? [] : TextMarks.addMark(text, received)
  )
  const first = own.length === 0 ? [] : [`[The user says, while you work:]\n${own.join("\n")}`]
  return [result, ...first, ...marked].join("\n\n")
}

const renderPromptText = (prompt: RunInput["prompt"]): string =>
  typeof prompt === "string"
    ? prompt
    : prompt.map((part) => (part.type === "text" ? part.text : `[${part.mediaType}]`)).join(" ")

/** Inserts messages before the clients' messages. */
const insertBeforeClients = (queue: ReadonlyArray<Message>, added: ReadonlyArray<Message>): ReadonlyArray<Message> => {
  const place = queue.findIndex(({ origin }) => origin !== "plugin" && !isContinuation({ origin }))
  return place === -1 ? [...queue, ...added] : [...queue.slice(0, place), ...added, ...queue.slice(place)]
}

/** Inserts a message from a client before the reports of background work. */
const insertBeforeReports = (queue: ReadonlyArray<Message>, message: Message): ReadonlyArray<Message> => {
  const place = queue.findIndex(({ origin }) => origin === "background")
  return place === -1 ? [...queue, message] : queue.toSpliced(place, 0, message)
}

/** Inserts a message at the position that its origin determines. Another message would withdraw the questions. */
const insertMessage = (queue: ReadonlyArray<Message>, message: Message): ReadonlyArray<Message> => {
  if (isContinuation(message)) return [message, ...queue]
  return message.origin === "plugin" ? insertBeforeClients(queue, [message]) : insertBeforeReports(queue, message)
}

/** Makes the message queue of the session that `owner` manages. */
export const make = (owner: StateOwner): MessageQueue => {
  let count = 0
  /** The steering messages of the state, with their ids. */
  let texts: ReadonlyArray<SteeringText> = []
  const makeMessage: MessageQueue["makeMessage"] = ({ prompt, received, shown }, origin) => ({
    id: `m${++count}`,
    origin,
    prompt,
    shown: shown ?? renderPromptText(prompt),
    ...(received === undefined ? {} : { received })
  })
  const replaceAll = (queue: ReadonlyArray<Message>, added: ReadonlyArray<SteeringText>): void => {
    texts = added
    const steering = added.map(({ text }) => text)
    owner.change({ queue, steering }, { _tag: "QueueChanged", queue, steering })
  }
  const replace: MessageQueue["replace"] = (queue) => replaceAll(queue, texts)
  const toMessage = ({ received, text }: SteeringText): Message => makeMessage({ prompt: text, received }, "client")
  return {
    makeMessage,
    replace,
    add: (message) => replace(insertMessage(owner.state().queue, message)),
    addSteering: (text, received) => replaceAll(owner.state().queue, [...texts, { text, received }]),
    takeSteering: () => {
      const taken = texts
      replaceAll(owner.state().queue, [])
      return taken
    },
    requeueSteering: () => {
      if (texts.length === 0) return
      replaceAll(insertBeforeClients(owner.state().queue, texts.map(toMessage)), [])
    },
    remove: (id) => {
      const { queue } = owner.state()
      const found = queue.filter((message) => message.id === id)
      if (found.length > 0) replace(queue.filter((message) => !found.includes(message)))
      return found
    },
    takeFromClients: () => {
      const { queue } = owner.state()
      const waiting = queue.filter(({ origin }) => origin === "client")
      const taken = [...texts.map(toMessage), ...waiting]
      if (taken.length === 0) return taken
      replaceAll(
        queue.filter((message) => !waiting.includes(message)),
        []
      )
      owner.readers.publish({ _tag: "MessagesReturned", messages: taken })
      return taken
    }
  }
}

/** Returns true if no other hook replaces tool results, so that steering messages can be added to them. */
export const isSteeringPossible = (hooks: Hooks.Hooks["Service"]): boolean =>
  hooks.list().every(({ events, label }) => label === steeringLabel || !events.includes("transform_tool_result"))

/**
 * Registers a hook that adds steering messages to the next tool result of the current turn, for the lifetime of the
 * scope.
 */
export const registerSteering = (
  hooks: Hooks.Hooks["Service"],
  owner: StateOwner,
  { takeSteering }: MessageQueue,
  delivery: SteeringDelivery
): Effect.Effect<unknown, never, Scope.Scope> =>
  hooks.register({
    ...Hooks.on("transform_tool_result", ({ result, session_id }) => {
      const isMeant = (): boolean => owner.state().steering.length > 0 && owner.state().turn?.sessionId === session_id
      return !isMeant()
        ? Effect.undefined
        : owner.run(
            Effect.sync(() => {
              const { turn } = owner.state()
              if (!isMeant() || turn === undefined) return undefined
              const taken = takeSteering()
              delivery.isUnread = true
              delivery.received = [...delivery.received, ...taken.flatMap(({ received }) => received ?? [])]
              owner.readers.publish({ _tag: "Steered", turn: turn.id, texts: taken.map(({ text }) => text) })
              return appendUserMessages(Json.toText(result), taken)
            })
          )
    }),
    label: steeringLabel
  })
