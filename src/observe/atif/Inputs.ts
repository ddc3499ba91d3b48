/**
 * Finds the new messages of a request by their position in the conversation, so that a repeated text makes two steps
 * and a repeated request makes none.
 *
 * Source: `relay-atof-atif.md` §2.4, §2.6 and §2.7.
 */
import type * as Atif from "../Atif.ts"
import { toPlainText, type Request, type RequestMessage } from "./Message.ts"

/** Additions of a request to the conversation so far. */
interface News {
  /** Messages of the system and of the user that were not there before. */
  readonly fresh: ReadonlyArray<RequestMessage & { readonly copied: boolean }>
  /** The replacement of the conversation, when the request has less of it than there was. */
  readonly replaced: Atif.Content | undefined
  /** The request does not contain the conversation: it is a separate question. */
  readonly isAside: boolean
}

/** The conversation of one agent, request by request. */
export interface Inputs {
  readonly take: (request: Request) => News
}

const isSpoken = (said: RequestMessage): boolean => said.role === "system" || said.role === "user"

/** The beginning of a conversation. */
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
      // Messages before an answer that is not in this stream are copied from an earlier part of the session.
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
