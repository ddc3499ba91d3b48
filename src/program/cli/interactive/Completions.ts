/**
 * Completions of the typed text: commands after `/`, words of their arguments, files after `@`. Files ignored by
 * `.gitignore` are left out. A file named in a message is attached to it (`Attachments`).
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Stream from "effect/Stream"
import * as SafeText from "../render/SafeText.ts"
import type { DialogCommand } from "./Dialog.ts"
import type * as Editor from "./Editor.ts"
import * as FuzzyMatch from "./FuzzyMatch.ts"
import type { Choice } from "./PromptLine.ts"
import { type ArgumentWord, listNames } from "./SlashCommands.ts"

/** Text that replaces a part of the line. */
export interface Completion {
  readonly from: number
  readonly text: string
  /** True if the line is complete after the replacement: a command that needs no argument. */
  readonly isComplete: boolean
}

/** Word at the cursor that can be completed. */
export interface Token {
  readonly kind: "argument" | "command" | "file"
  /** Offset at which the word begins, including a leading `/` or `@`. */
  readonly from: number
  /** Text of the word without a leading `/` or `@`. */
  readonly query: string
  /** Name of the command whose argument is completed; `undefined` for other words. */
  readonly name?: string
}

/** Returns the word before the cursor to complete, or `undefined` if there is no such word. */
export const findToken = ({ cursor, text }: Pick<Editor.State, "cursor" | "text">): Token | undefined => {
  const before = text.slice(0, cursor)
  const command = /^\/([\w?-]*)$/.exec(text)
  if (command !== null && cursor === text.length) return { kind: "command", from: 0, query: command[1] ?? "" }
  const [, begin = "", name = "", query = ""] = /^(\/([\w?-]+) +)([^\s@]*)$/.exec(text) ?? []
  if (begin !== "" && cursor === text.length) return { kind: "argument", from: begin.length, query, name }
  const file = /(?:^|\s)@([^\s@]*)$/.exec(before)
  return file === null ? undefined : { kind: "file", from: cursor - (file[1] ?? "").length - 1, query: file[1] ?? "" }
}

/** Maximum number of rows of a list. */
const mostListed = 50

/** Names that start with the query come first, so that the first row is the command that Enter would run. */
const matchCommands = (
  commands: ReadonlyArray<DialogCommand>,
  { from, query }: Token
): ReadonlyArray<Choice<Completion>> => {
  const known = commands.filter((command, index) => commands.findIndex(({ name }) => name === command.name) === index)
  const begin = known.filter((command) =>
    listNames(command).some((name) => name.toLowerCase().startsWith(query.toLowerCase()))
  )
  const others =
    query === ""
      ? []
      : FuzzyMatch.rank(
          query,
          known.filter((command) => !begin.includes(command)),
          ({ name }) => name,
          mostListed
        )
  return [...begin, ...others].map(({ help, name, usage = "" }) => ({
    label: SafeText.toLine(`/${name}${usage === "" ? "" : ` ${usage}`}`),
    detail: SafeText.toLine(help),
    value: { from, text: usage === "" ? `/${name}` : `/${name} `, isComplete: usage === "" || usage.startsWith("[") }
  }))
}

const matchFiles = (files: ReadonlyArray<string>, { from, query }: Token): ReadonlyArray<Choice<Completion>> =>
  FuzzyMatch.rank(query, files, (file) => file, mostListed).map((file) => ({
    label: SafeText.toLine(file),
    value: { from, text: `@${file} `, isComplete: false }
  }))

const matchArguments = (
  words: ReadonlyArray<ArgumentWord>,
  { from, query }: Token
): ReadonlyArray<Choice<Completion>> =>
  FuzzyMatch.rank(query, words, ({ label, value }) => (label === value ? label : `${label} ${value}`), mostListed).map(
    ({ detail, label, value }) => ({ label, detail, value: { from, text: value, isComplete: true } })
  )

/** Sources of completions; `words` are the argument words of the command being typed. */
interface Sources {
  readonly commands: ReadonlyArray<DialogCommand>
  readonly files: ReadonlyArray<string>
  readonly words?: ReadonlyArray<ArgumentWord> | undefined
}

/** Lists the choices for a word, best first. */
export const listCompletions = (
  token: Token,
  { commands, files, words = [] }: Sources
): ReadonlyArray<Choice<Completion>> => {
  if (token.kind === "command") return matchCommands(commands, token)
  return token.kind === "file" ? matchFiles(files, token) : matchArguments(words, token)
}

/** List of the files below the working directory. */
export interface FileList {
  readonly files: () => ReadonlyArray<string>
  /** Reads the files, unless they were read recently. */
  readonly load: (cwd: string) => Effect.Effect<void>
}

/** Maximum number of files in the list. */
const mostFiles = 20_000

/** Time for which a list is reused, in milliseconds. */
const freshMillis = 5000

/** Creates the list of files that complete a path after `@`. */
export const fileList: Effect.Effect<FileList, never, FileSystem.FileSystem | Path.Path> = Effect.map(
  Effect.context<FileSystem.FileSystem | Path.Path>(),
  (context) => {
    let files: ReadonlyArray<string> = []
    let readAt = -Infinity
    let place = ""
    return {
      files: () => files,
      load: (cwd) =>
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          if (cwd === place && now - readAt < freshMillis) return
          if (cwd !== place) files = []
          place = cwd
          readAt = now
          const FileWalk = yield* Effect.promise(() => import("../../../places/FileWalk.ts"))
          // Names with white space are left out, because the word would end there.
          files = yield* FileWalk.walkFiles(cwd, { unreadable: 0, exhausted: false }).pipe(
            Stream.map(({ relative }) => relative),
            Stream.filter((relative) => !/[\s@]/.test(relative)),
            Stream.take(mostFiles),
            Stream.runCollect
          )
        }).pipe(Effect.provideContext(context))
    }
  }
)
