/**
 * Sessions as lists show them: with a topic, and with the folder and branch to which they belong.
 *
 * The topic is the title, or the beginning of the first prompt as long as there is no title. The branch is the one on
 * which the session began.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Redaction from "../../base/domain/Redaction.ts"
import { renderUserText } from "../../serve/host/SessionMoves.ts"
import type { Session, SessionFolder } from "../../store/SessionStore.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import * as SafeText from "./render/SafeText.ts"
import * as Width from "./render/Width.ts"
import { findOtherFolder } from "./SessionChoice.ts"

/** A session in a list. */
export interface ListedSession {
  readonly session: Session
  /** Title, or the beginning of the first prompt, or the id. */
  readonly topic: string
  /** Folder of the session; `undefined` if it belongs to the folder of the list. */
  readonly otherFolder: string | undefined
  /** Branch on which the session began. */
  readonly branch: string | undefined
}

/** Maximum width of a topic that is taken from a prompt, in columns. */
const topicColumns = 60

/** Number of messages in which the first prompt is searched; messages of a prefill may precede it. */
const searchedMessages = 4

/** Reads the beginning of the first prompt. Unreadable messages are ignored, because a list needs no topic. */
const readFirstPrompt = ({ id }: Session): Effect.Effect<string | undefined, never, SessionStore> =>
  SessionStore.use((store) => store.messages(id, { from: 0, to: searchedMessages })).pipe(
    Effect.map((messages) => {
      const prompt = messages.find(({ role }) => role === "user")
      if (prompt?.role !== "user") return undefined
      const [line = ""] = renderUserText(prompt).trim().split("\n", 1)
      const text = Width.cut(SafeText.toLine(Redaction.redactText(line)), topicColumns)
      return text === "" ? undefined : text
    }),
    Effect.orElseSucceed(() => undefined)
  )

/** Describes sessions for a list. Without `folder`, every session counts as one of this folder. */
export const describeSessions = Effect.fnUntraced(function* (
  sessions: ReadonlyArray<Session>,
  folder: SessionFolder | undefined
): Effect.fn.Return<ReadonlyArray<ListedSession>, never, FileSystem.FileSystem | Path.Path | SessionStore> {
  return yield* Effect.forEach(
    sessions,
    Effect.fnUntraced(function* (session) {
      const { branch, id, title } = session
      const topic = title === undefined ? ((yield* readFirstPrompt(session)) ?? id) : SafeText.toLine(title)
      return {
        session,
        topic,
        otherFolder: folder === undefined ? undefined : yield* findOtherFolder(folder, session),
        branch: branch === undefined ? undefined : SafeText.toLine(branch)
      }
    })
  )
})

/** Formats the folder and branch of a session: `this folder (main)`. */
export const formatPlace = ({ branch, otherFolder }: Pick<ListedSession, "branch" | "otherFolder">): string =>
  `${otherFolder ?? "this folder"}${branch === undefined ? "" : ` (${branch})`}`
