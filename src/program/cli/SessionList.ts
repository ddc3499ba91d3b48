/**
 * Sessions as lists show them: with a topic, and with the folder and branch to which they belong.
 *
 * The topic is the title, or the beginning of the first prompt as long as there is no title. The branch is the one that
 * the folder is on now.
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
  /** Branch that the folder of the session is on. */
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

/** Reads the branch of a repository from its `HEAD`; `undefined` without a repository or a branch. */
const readBranch = Effect.fnUntraced(function* (
  folder: string
): Effect.fn.Return<string | undefined, never, FileSystem.FileSystem | Path.Path> {
  const files = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const readFile = (path: string) => Effect.orElseSucceed(files.readFileString(path), () => "")
  for (let at = paths.resolve(folder); ; at = paths.dirname(at)) {
    const mark = paths.join(at, ".git")
    // In a working tree that is not the main one, `.git` is a file that names the directory.
    const pointed = /^gitdir: (.+)$/m.exec(yield* readFile(mark))?.[1]
    const head = yield* readFile(paths.join(pointed === undefined ? mark : paths.resolve(at, pointed.trim()), "HEAD"))
    const branch = /^ref: refs\/heads\/(.+)$/m.exec(head)?.[1]
    if (branch !== undefined) return SafeText.toLine(branch.trim())
    if (head !== "" || at === paths.dirname(at)) return undefined
  }
})

/** Describes sessions for a list. Without `folder`, every session counts as one of this folder. */
export const describeSessions = Effect.fnUntraced(function* (
  sessions: ReadonlyArray<Session>,
  folder: SessionFolder | undefined
): Effect.fn.Return<ReadonlyArray<ListedSession>, never, FileSystem.FileSystem | Path.Path | SessionStore> {
  const branches = new Map<string, string | undefined>()
  return yield* Effect.forEach(
    sessions,
    Effect.fnUntraced(function* (session) {
      const { cwd, id, title } = session
      if (cwd !== undefined && !branches.has(cwd)) branches.set(cwd, yield* readBranch(cwd))
      const topic = title === undefined ? ((yield* readFirstPrompt(session)) ?? id) : SafeText.toLine(title)
      return {
        session,
        topic,
        otherFolder: folder === undefined ? undefined : yield* findOtherFolder(folder, session),
        branch: cwd === undefined ? undefined : branches.get(cwd)
      }
    })
  )
})

/** Formats the folder and branch of a session: `this folder (main)`. */
export const formatPlace = ({ branch, otherFolder }: Pick<ListedSession, "branch" | "otherFolder">): string =>
  `${otherFolder ?? "this folder"}${branch === undefined ? "" : ` (${branch})`}`
