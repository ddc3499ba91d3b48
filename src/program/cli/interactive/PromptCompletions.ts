/** The list below the typed line, shown while a word can be completed, and the keys that it handles. */
import * as Effect from "effect/Effect"
import * as Completions from "./Completions.ts"
import type { Dialog } from "./Dialog.ts"
import * as Editor from "./Editor.ts"
import type { Key } from "./Keys.ts"
import type { Choice, PromptResult } from "./PromptLine.ts"
import * as SlashCommands from "./SlashCommands.ts"

/** The list on the screen. */
interface Popup {
  readonly token: Completions.Token
  readonly selected: number
  /** True if the user moved the selection. */
  readonly isMoved: boolean
}

/** State of the list at one prompt. */
export interface CompletionList {
  popup: Popup | undefined
  /** The line for which the user closed the list. */
  closedLine: string | undefined
  /** Argument words of the command that is being typed. */
  words: { readonly command: string | undefined; readonly list: ReadonlyArray<SlashCommands.ArgumentWord> }
}

/** Creates the list of a prompt, which is not shown yet. */
export const make = (): CompletionList => ({
  popup: undefined,
  closedLine: undefined,
  words: { command: undefined, list: [] }
})

/** Updates the list for the typed text. A dismissed list reappears when another word is typed. */
const followPopup = (
  editor: Editor.State,
  before: Popup | undefined,
  closedLine: string | undefined
): Popup | undefined => {
  const token = editor.text === closedLine ? undefined : Completions.findToken(editor)
  if (token === undefined) return undefined
  const isSame = before?.token.query === token.query && before.token.from === token.from
  return isSame ? { ...before, token } : { token, selected: 0, isMoved: false }
}

/** Returns the items of the list. */
export const listChoices = (
  { commands, files }: Pick<Dialog, "commands" | "files">,
  { popup, words }: CompletionList
): ReadonlyArray<Choice<Completions.Completion>> =>
  popup === undefined
    ? []
    : Completions.listCompletions(popup.token, {
        commands,
        files: files.files(),
        words: words.command === popup.token.name ? words.list : []
      })

/** Inserts the selected completion into the line. Returns the line if the completion completes it. */
const acceptCompletion = (
  dialog: Pick<Dialog, "editor">,
  { from, isComplete, text }: Completions.Completion
): PromptResult | undefined => {
  const { editor } = dialog
  const rest = editor.text.slice(editor.cursor)
  const line = editor.text.slice(0, from) + text + rest
  dialog.editor = { ...Editor.withText(editor, line), cursor: line.length - rest.length }
  if (!isComplete) return undefined
  dialog.editor = { ...Editor.empty, killed: editor.killed }
  return { _tag: "Line", text: line, shown: line }
}

/** Passes a key to the list; returns `undefined` if the list does not handle the key. */
export const pressKey = (
  dialog: Pick<Dialog, "commands" | "editor" | "files">,
  list: CompletionList,
  key: Key
): { readonly line: PromptResult | undefined } | undefined => {
  const { popup } = list
  if (popup === undefined || key._tag !== "Key") return undefined
  const choices = listChoices(dialog, list)
  const chosen = choices[popup.selected]
  if (chosen === undefined) return undefined
  const { isMoved, selected, token } = popup
  const moveTo = (to: number) => {
    list.popup = { token, selected: Math.max(0, Math.min(choices.length - 1, to)), isMoved: true }
    return { line: undefined }
  }
  switch (key.name) {
    case "down":
      return moveTo(selected + 1)
    case "up":
      return moveTo(selected - 1)
    case "escape":
      list.closedLine = dialog.editor.text
      return { line: undefined }
    case "tab":
      return { line: acceptCompletion(dialog, { ...chosen.value, isComplete: false }) }
    case "enter": {
      const isExact = token.kind === "file" && choices.some(({ label }) => label === token.query)
      // The typed command is executed, unless the user selected another one.
      return isMoved || (token.kind === "file" && !isExact)
        ? { line: acceptCompletion(dialog, chosen.value) }
        : undefined
    }
    default:
      return undefined
  }
}

/** Updates the list after a change of the line. Words and files are loaded in the background, then `show` is called. */
export const followLine = Effect.fnUntraced(function* (dialog: Dialog, list: CompletionList, show: () => void) {
  const { argumentWords, commands, editor, files, live, options } = dialog
  list.popup = followPopup(editor, list.popup, list.closedLine)
  if (list.popup === undefined && editor.text !== list.closedLine) list.closedLine = undefined
  const name = list.popup?.token.name
  const found = name === undefined || name === list.words.command ? undefined : SlashCommands.find(commands, name)
  if (found?._tag === "Command") {
    list.words = { command: name, list: [] }
    yield* Effect.forkChild(
      Effect.map(argumentWords(found.command), (words) => {
        if (list.words.command === name) list.words = { command: name, list: words }
        show()
      })
    )
  }
  if (list.popup?.token.kind !== "file") return
  const { cwd = options.about.cwd } = (yield* live.state).session
  yield* Effect.forkChild(Effect.andThen(files.load(cwd), Effect.sync(show)))
})
