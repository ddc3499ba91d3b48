/**
 * Finds the new messages of a request by their position in the conversation. A message that is repeated with the same
 * text therefore creates a second step, and a repeated request does not create a step.
 *
 * Source: `relay-atof-atif.md` §2.4, §2.6 and §2.7.
 */
import type * as Atif from "../Atif.ts"
import { toPlainText, type Request, type RequestMessage } from "./Message.ts"

/** Additions of a request to the conversation so far. */
interface News {
  /** New system and user messages. */
  readonly fresh: ReadonlyArray<RequestMessage & { readonly copied: boolean }>
  /** The new conversation, if the request contains a smaller part of the conversation than the previous request. */
  readonly replaced: Atif.Content | undefined
  /** True if the request is a separate question that does not contain the conversation. */
  readonly isAside: boolean
}

/** The conversation of one agent, processed request by request. */
export interface Inputs {
  readonly take: (request: Request) => News
}

const isSpoken = (said: RequestMessage): boolean => said.role === "system" || said.role === "user"

/** Creates an empty conversation. */
export const make = (): Inputs => {
  let users: ReadonlyArray<string> = []
  let systems = 0
  let isFirst = true

  const selectFresh = (messages: ReadonlyArray<RequestMessage>, skipUsers: number, skipSystems: number) => {
    const lastUser = messages.findLastIndex(({ role }) => role === "user")
    const answered = messages.findLastIndex(({ role }, index) => role === "assistant" && index < lastUser)
    let user = 0
    let system = 0
    return messages.flatMap((said, index) => {
      const isNew = said.role === "user" ? user++ >= skipUsers : said.role === "system" && system++ >= skipSystems
      // In the first request, user messages before an answer are copied from an earlier part of the session that is not
      // in this stream.
      return isNew ? [{ ...said, copied: isFirst && said.role === "user" && index < answered }] : []
    })
  }

  return {
    take: ({ messages }) => {
      const said = messages.filter(isSpoken)
      const now = said.flatMap((one) => (one.role === "user" ? [toPlainText(one.content)] : []))
      const before = new Set(users)
      const shrunk = now.length < users.length
      if (shrunk && !now.some((text) => before.has(text))) return { fresh: [], replaced: undefined, isAside: true }
      const known = shrunk ? now.findLastIndex((text) => before.has(text)) + 1 : users.length
      const news: News = {
        fresh: selectFresh(messages, known, systems),
        replaced: shrunk
          ? messages
              .filter(({ role }) => role !== "system")
              .slice(0, -1)
              .map(({ content }) => toPlainText(content))
              .filter(Boolean)
              .join("\n\n")
          : undefined,
        isAside: false
      }
      isFirst = false
      users = now
      systems = Math.max(systems, said.length - now.length)
      return news
    }
  }
}
