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
import { isContinuation, type Message } from "./HostEvent.ts"
import type { StateOwner } from "./StateOwner.ts"

/** Content of a message. */
export interface MessageContent {
  readonly prompt: RunInput["prompt"]
  /** Text that represents the message on a screen. Defaults to the prompt's text. */
  readonly shown?: string | undefined
}

/** The queue of a live session. All members must run on the fiber of the `StateOwner`. */
export interface MessageQueue {
  /** Makes a message with an id that is unique in the session. Does not add it to the queue. */
  readonly makeMessage: (content: MessageContent, origin: Message["origin"]) => Message
  /** Replaces the queue and the steering messages, and publishes the change. */
  readonly replace: (queue: ReadonlyArray<Message>, steering: ReadonlyArray<string>) => void
  /** Adds a message to the queue, at the position that its origin determines: answers are first. */
  readonly add: (message: Message) => void
  /** Moves the undelivered steering messages to the queue, before the other messages from clients. */
  readonly requeueSteering: () => void
  /** Removes a message from the queue and returns it. Returns `undefined` if the message is no longer queued. */
  readonly remove: (id: string) => Message | undefined
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
}

const steeringLabel = "hermes-effect/host/steering"

const appendUserMessages = (result: string, messages: ReadonlyArray<string>): string =>
  `${result}\n\n[The user says, while you work:]\n${messages.join("\n")}`

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
  const makeMessage: MessageQueue["makeMessage"] = ({ prompt, shown }, origin) => ({
    id: `m${++count}`,
    origin,
    prompt,
    shown: shown ?? renderPromptText(prompt)
  })
  const replace: MessageQueue["replace"] = (queue, steering) =>
    owner.change({ queue, steering }, { _tag: "QueueChanged", queue, steering })
  return {
    makeMessage,
    replace,
    add: (message) => {
      const { queue, steering } = owner.state()
      replace(insertMessage(queue, message), steering)
    },
    requeueSteering: () => {
      const { queue, steering } = owner.state()
      if (steering.length === 0) return
      const added = steering.map((text) => makeMessage({ prompt: text }, "client"))
      replace(insertBeforeClients(queue, added), [])
    },
    remove: (id) => {
      const { queue, steering } = owner.state()
      const found = queue.find((message) => message.id === id)
      if (found !== undefined)
        replace(
          queue.filter((message) => message !== found),
          steering
        )
      return found
    },
    takeFromClients: () => {
      const { queue, steering } = owner.state()
      const waiting = queue.filter(({ origin }) => origin === "client")
      const taken = [...steering.map((prompt) => makeMessage({ prompt }, "client")), ...waiting]
      if (taken.length === 0) return taken
      replace(
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
  { replace }: MessageQueue,
  delivery: SteeringDelivery
): Effect.Effect<unknown, never, Scope.Scope> =>
  hooks.register({
    ...Hooks.on("transform_tool_result", ({ result, session_id }) => {
      const isMeant = (): boolean => owner.state().steering.length > 0 && owner.state().turn?.sessionId === session_id
      return !isMeant()
        ? Effect.undefined
        : owner.run(
            Effect.sync(() => {
              const { queue, steering, turn } = owner.state()
              if (!isMeant() || turn === undefined) return undefined
              replace(queue, [])
              delivery.isUnread = true
              owner.readers.publish({ _tag: "Steered", turn: turn.id, texts: steering })
              return appendUserMessages(Json.toText(result), steering)
            })
          )
    }),
    label: steeringLabel
  })
