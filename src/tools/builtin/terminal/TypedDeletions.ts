/**
 * Deletions that are typed into a background process, which may be a shell. No snapshot covers them, so each needs an
 * approval.
 *
 * **Details**
 *
 * A line may be typed in pieces. An unfinished line is judged again with each further piece.
 *
 * A text is interpreted in three ways: as sent, after its line-editing keys are applied, and as code and database
 * statements, with the commands that interpreters pass to a shell (`!rm`, `\! rm`, `.system rm`). Other control
 * characters in a line of text lead to a question, because the text that the process reads is not known then.
 */
import * as Effect from "effect/Effect"
import type { Concern } from "../../approval/ApprovalRequest.ts"
import * as Danger from "../../danger/Danger.ts"
import { readCode } from "../../danger/EmbeddedCommands.ts"
import { databases } from "../../danger/rules/LossRules.ts"
import * as ScriptInterpreter from "../../danger/ScriptInterpreter.ts"
import * as DeletedPlaces from "../../DeletedPlaces.ts"
import { ToolContext } from "../../ToolContext.ts"
import * as Toolset from "../../Toolset.ts"
import type { BackgroundProcess } from "./BackgroundProcess.ts"
import { ProcessRegistry } from "./ProcessRegistry.ts"

/** Maximum number of characters of an unfinished line that are judged again. */
const longestLine = 8_192

/** Returns the keys of the deletions in a text, including deletions that need no question if a snapshot exists. */
const findDeletions = (text: string): ReadonlyArray<string> => {
  const { losses, unnamed } = DeletedPlaces.findDeletions(text)
  return [...losses.map(({ finding }) => finding.key), ...unnamed.map(({ key }) => key)]
}

const paste = new RegExp(String.raw`\u001b\[20[01]~`, "g")
const escape = new RegExp(String.raw`\u001b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?`, "gs")
const lineEnds = new Set(["\n", "\r", "\u0003", "\u0015"])

/**
 * Applies the keys that end or shorten a line: Ctrl-C, Ctrl-U, backspace, Ctrl-W. Removes the bracketed-paste markers
 * of a pasted text.
 */
const applyLineEditing = (text: string): string => {
  const lines: Array<string> = []
  let line: Array<string> = []
  for (const key of text.replace(paste, "")) {
    if (key === "\b" || key === "\u007f") line.pop()
    else if (key === "\u0017") line = Array.from(line.join("").trimEnd().replace(/\S*$/, ""))
    else if (lineEnds.has(key)) {
      lines.push(line.join(""))
      line = []
    } else line.push(key)
  }
  return [...lines, line.join("")].join("\n")
}

/** Returns true if a line of an edited text has both visible text and a control character whose effect is not known. */
const hasUnknownKeys = (edited: string): boolean =>
  edited.split("\n").some((line) => {
    const visible = line.replace(escape, "\u0000")
    return /[^\t -~\u0080-\u{10FFFF}]/u.test(visible) && /[!-~\u00A1-\u{10FFFF}]/u.test(visible)
  })

/** Matches a line with which an interpreter passes a command to a shell. */
const shellLine = /^\s{0,8}(?:\.(?:system|shell)\s|\\!|!{1,2}|%{1,2}(?:sx|system|sh|bash)\s|system\s)(.+)$/gm

const afterName = String.raw`\s{0,8}[(\s]`
/** Matches a call that deletes files, regardless of how the files are named. */
const deletingCall = new RegExp(
  [
    String.raw`\b(?:os\.(?:remove|removedirs|unlink|rmdir)|(?:File|Dir)\.(?:delete|unlink|rmdir)|rmtree|rm_rf?)` +
      afterName,
    String.raw`\b(?:rmdirSync|unlinkSync|rmSync|removeSync|remove_entry|rimraf|emptyDirSync|Deno\.remove\w*)` +
      afterName,
    String.raw`\.(?:unlink|rmdir)\(|\bunlink\(`
  ].join("|")
)

const quoteText = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`

/** Returns the keys of data losses caused by a command line, including losses inside the sandbox. */
const findLosses = (line: string): ReadonlyArray<string> =>
  Danger.selectAskedFindings(Danger.judge(line), "confined")
    .map(({ key }) => key)
    .concat(findDeletions(line))

/**
 * Returns the keys of data losses caused by a text that is interpreted as code, or as statements for a database client
 * started by `command`.
 */
const findLossesOfCode = (command: string, text: string): ReadonlyArray<string> => {
  const clients = ScriptInterpreter.read(command).commands.filter(({ program }) => databases.has(program))
  const shellLines = Array.from(text.matchAll(shellLine), ([, line = ""]) => line)
  return [
    ...(deletingCall.test(text) ? ["delete of files"] : []),
    ...readCode(text).concat(shellLines).flatMap(findLosses),
    ...clients.flatMap(({ program }) => findLosses(`${program} -c ${quoteText(text)}`))
  ]
}

/**
 * Finds reasons to ask about text that is typed after an unfinished line into the process of a command, in addition to
 * the reasons in the text itself.
 */
export const findConcerns = (unfinished: string, text: string, command: string): ReadonlyArray<Concern> => {
  const line = unfinished + text
  const edited = applyLineEditing(line)
  const findJoined = (joined: string): ReadonlyArray<string> =>
    Danger.selectAskedFindings(Danger.judge(joined), "confined").flatMap(({ family, key }) =>
      family === "unreadable" ? [] : [key]
    )
  const own = new Set(Danger.judge(text).findings.map(({ key }) => key))
  const keys = new Set(
    [
      ...findDeletions(text),
      ...findDeletions(line),
      ...(unfinished === "" ? [] : findJoined(line)),
      ...(edited === line ? [] : [...findDeletions(edited), ...findJoined(edited)]),
      ...findLossesOfCode(command, edited),
      ...(hasUnknownKeys(edited) ? ["control characters that may change the line they are typed into"] : [])
    ].filter((key) => !own.has(key))
  )
  return Array.from(keys, (key) => ({
    key: `${key}, not covered by undo: it is typed into a process in the background`,
    permanent: false
  }))
}

/** Appends a text to an unfinished line and returns the part after the last line ending. */
const readUnfinished = (unfinished: string, text: string): string => {
  const line = unfinished + text
  return line.slice(Math.max(line.lastIndexOf("\n"), line.lastIndexOf("\r")) + 1).slice(-longestLine)
}

/** Returns the toolset with questions about deletions that `process` types. */
export const guardInput = <E, R>(toolset: Toolset.Toolset<E, R>): Toolset.Toolset<E, R | ProcessRegistry> =>
  Toolset.withConcerns(
    toolset,
    Effect.map(ProcessRegistry, (registry) => {
      // Unfinished lines as judged, not as typed, because all calls of an answer are judged before the first call runs.
      const lines = new WeakMap<BackgroundProcess, string>()
      return (tool, { action, data, session_id }) =>
        tool !== "process" || typeof session_id !== "string" || (action !== "write" && action !== "submit")
          ? Effect.succeed([])
          : Effect.gen(function* () {
              const { sessionId } = yield* ToolContext
              const process = yield* registry.find(session_id, sessionId)
              const unfinished = lines.get(process) ?? ""
              const text = (typeof data === "string" ? data : "") + (action === "submit" ? "\n" : "")
              lines.set(process, readUnfinished(unfinished, text))
              return findConcerns(unfinished, text, process.options.command)
            }).pipe(
              // The call itself reports that the process does not exist.
              Effect.catchTag("ProcessNotFound", () => Effect.succeed([]))
            )
    })
  )
