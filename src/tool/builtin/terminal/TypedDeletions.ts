/**
 * Deletions that are typed into a process in the background, which may be a shell: no snapshot stands around them, so
 * each is asked about.
 *
 * **Details**
 *
 * A line may be typed in pieces. What was judged of a line that has not ended is judged again with each further piece.
 */
import * as Effect from "effect/Effect"
import type { Concern } from "../../approval/Question.ts"
import * as Danger from "../../danger/Danger.ts"
import * as DeletedPlaces from "../../DeletedPlaces.ts"
import { ToolContext } from "../../ToolContext.ts"
import * as Toolset from "../../Toolset.ts"
import type { BackgroundProcess } from "./BackgroundProcess.ts"
import { ProcessRegistry } from "./ProcessRegistry.ts"

/** Characters of an unfinished line that are judged again. */
const longestLine = 8_192

/** Keys of the deletions of a text, also of those that are not asked about where a snapshot stands around a command. */
const findDeletions = (text: string): ReadonlyArray<string> => {
  const { losses, unnamed } = DeletedPlaces.of(text)
  return [...losses.map(({ finding }) => finding.key), ...unnamed.map(({ key }) => key)]
}

/** Reasons to ask about a text that is typed behind an unfinished line, beside those that the text has by itself. */
export const findConcerns = (unfinished: string, text: string): ReadonlyArray<Concern> => {
  const line = unfinished + text
  const joined = unfinished === "" ? [] : Danger.askedAbout(Danger.judge(line), "confined")
    .flatMap(({ family, key }) => family === "unreadable" ? [] : [key])
  const own = new Set(Danger.judge(text).findings.map(({ key }) => key))
  const keys = new Set([...findDeletions(text), ...findDeletions(line), ...joined].filter((key) => !own.has(key)))
  return Array.from(keys, (key) => ({
    key: `${key}, not covered by undo: it is typed into a process in the background`,
    permanent: false
  }))
}

/** The part of a text behind its last line end, of what is typed behind an unfinished line. */
const readUnfinished = (unfinished: string, text: string): string => {
  const line = unfinished + text
  return line.slice(Math.max(line.lastIndexOf("\n"), line.lastIndexOf("\r")) + 1).slice(-longestLine)
}

/** The toolset with questions about deletions that `process` types. */
export const guardInput = <E, R>(toolset: Toolset.Toolset<E, R>): Toolset.Toolset<E, R | ProcessRegistry> =>
  Toolset.withConcerns(toolset, Effect.map(ProcessRegistry, (registry) => {
    // By what was judged, not by what was typed: the calls of one answer are judged before the first of them runs.
    const lines = new WeakMap<BackgroundProcess, string>()
    return (tool, { action, data, session_id }) =>
      tool !== "process" || typeof session_id !== "string" || action !== "write" && action !== "submit"
        ? Effect.succeed([])
        : Effect.gen(function*() {
          const { sessionId } = yield* ToolContext
          const process = yield* registry.find(session_id, sessionId)
          const unfinished = lines.get(process) ?? ""
          const text = (typeof data === "string" ? data : "") + (action === "submit" ? "\n" : "")
          lines.set(process, readUnfinished(unfinished, text))
          return findConcerns(unfinished, text)
        }).pipe(
          // The call itself says that there is no such process.
          Effect.catchTag("ProcessNotFound", () => Effect.succeed([]))
        )
  }))
