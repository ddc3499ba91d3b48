/**
 * Finds the new messages of a request by their position in the conversation. A message that is repeated with the same
 * text therefore creates a second step, and a repeated request does not create a step. A request that shares no user
 * message with the conversations before it begins another conversation.
 *
 * Source: `relay-atof-atif.md` §2.4, §2.6 and §2.7.
 */
import type * as Atif from "../Atif.ts"
import { toPlainText, type Request, type RequestMessage } from "./Message.ts"

/** Additions of a request to the conversations so far. */
interface News {
  /** New system and user messages. */
  readonly fresh: ReadonlyArray<RequestMessage & { readonly copied: boolean }>
  /** The new conversation, if the request contains a smaller part of the conversation than the previous request. */
  readonly replaced: Atif.Content | undefined
}

/** The conversations of one agent, processed request by request. */
export interface Inputs {
  readonly take: (request: Request) => News
}

/** Texts of the user's messages in a conversation, and the number of its system messages. */
interface Conversation {
  readonly users: ReadonlyArray<string>
  readonly systems: number
}

const isSpoken = (said: RequestMessage): boolean => said.role === "system" || said.role === "user"

/** Lists the text of the messages with a role. */
const listTexts = (messages: ReadonlyArray<RequestMessage>, role: "system" | "user"): ReadonlyArray<string> =>
  messages.flatMap((one) => (one.role === role ? [toPlainText(one.content)] : []))

/** Returns what a shortened conversation consists of, without its last message. */
const joinRest = (messages: ReadonlyArray<RequestMessage>): string =>
  messages
    .filter(({ role }) => role !== "system")
    .slice(0, -1)
    .map(({ content }) => toPlainText(content))
    .filter(Boolean)
    .join("\n\n")

/** Creates the state of an agent without conversations. */
export const make = (): Inputs => {
  /** Conversations, in the order of their latest requests. */
  let conversations: ReadonlyArray<Conversation> = []
  const seenSystems = new Set<string>()

  /** Finds the conversation that a request continues. */
  const findConversation = (users: ReadonlyArray<string>): Conversation | undefined => {
    const now = new Set(users)
    const known = conversations.findLast((one) => one.users.some((text) => now.has(text)))
    return known ?? (users.length === 0 ? conversations.at(-1) : undefined)
  }
  const selectFresh = (messages: ReadonlyArray<RequestMessage>, skipUsers: number, known: Conversation | undefined) => {
    const isFirst = conversations.length === 0
    const lastUser = messages.findLastIndex(({ role }) => role === "user")
    const answered = messages.findLastIndex(({ role }, index) => role === "assistant" && index < lastUser)
    let user = 0
    let system = 0
    return messages.flatMap((said, index) => {
      const isNew =
        said.role === "user"
          ? user++ >= skipUsers
          : said.role === "system" &&
            (known === undefined ? !seenSystems.has(toPlainText(said.content)) : system++ >= known.systems)
      // In the first request, user messages before an answer are copied from an earlier part of the session that is not
      // in this stream.
      return isNew ? [{ ...said, copied: isFirst && said.role === "user" && index < answered }] : []
    })
  }

  return {
    take: ({ messages }) => {
      const said = messages.filter(isSpoken)
      const now = listTexts(said, "user")
      const known = findConversation(now)
      const before = new Set(known?.users)
      const isShorter = known !== undefined && now.length < known.users.length
      const skip = isShorter ? now.findLastIndex((text) => before.has(text)) + 1 : (known?.users.length ?? 0)
      const news: News = {
        fresh: selectFresh(messages, skip, known),
        replaced: isShorter ? joinRest(messages) : undefined
      }
      for (const text of listTexts(said, "system")) seenSystems.add(text)
      const systems = Math.max(known?.systems ?? 0, said.length - now.length)
      conversations = [...conversations.filter((one) => one !== known), { users: now, systems }]
      return news
    }
  }
}
