/**
 * The prompt, at which a line is typed, edited and sent.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as SafeText from "../render/SafeText.ts"
import type { Paint } from "../render/Paint.ts"
import * as Screen from "../render/Screen.ts"
import * as Width from "../render/Width.ts"
import * as SlashCommands from "./SlashCommands.ts"
import * as PermissionMode from "../../../base/config/PermissionMode.ts"
import type { Dialog } from "./Dialog.ts"
import { mayNamePicture } from "./Attachments.ts"
import * as Editor from "./Editor.ts"
import type { Key } from "./Keys.ts"
import * as Pastes from "./Pastes.ts"
import * as PromptCompletions from "./PromptCompletions.ts"
import * as StatusLine from "./StatusLine.ts"
import * as ViKeys from "./ViKeys.ts"

/** Time within which a second Ctrl+C exits, in milliseconds. */
export const leaveMillis = 2000

/** Time within which a second Esc goes back to an earlier message, in milliseconds. */
const againMillis = 800

/** Exit code after leaving with Ctrl+C. */
export const interruptedCode = 130

/** Result of the prompt. */
export type PromptResult =
  /** `shown` is the line as typed, with marks for long pastes, and `text` is the full text. */
  | { readonly _tag: "Line"; readonly text: string; readonly shown: string }
  | { readonly _tag: "Leave"; readonly code: number }
  /** The user wants to search the history for a line. */
  | { readonly _tag: "Search" }
  /** The user wants to go back to an earlier message. */
  | { readonly _tag: "GoBack" }
  /** The user wants to browse the conversation. */
  | { readonly _tag: "Transcript" }

/** Renders the mark before user text. */
export const renderMark = (paint: Paint): string => `${paint.text("›", "bold", "cyan")} `

/** Creates the view of the typed text, with other lines below it. */
export const makeView =
  (dialog: Pick<Dialog, "editor" | "screen" | "statusLine">, below: ReadonlyArray<string>): Screen.View =>
  (size) => {
    const {
      editor,
      screen: { asidePaint },
      statusLine
    } = dialog
    return Editor.render(
      editor,
      {
        prompt: renderMark(asidePaint),
        indent: 2,
        below: [...below, ...StatusLine.renderLines(statusLine, size.columns, asidePaint)]
      },
      size
    )
  }

/** Prints a sent line on the screen, as the user typed it. */
export const echo = ({ screen }: Pick<Dialog, "screen">, text: string): void => screen.put({ _tag: "User", text })

/** Suspends the program, and continues when it is in the foreground again. */
export const suspend = ({ options, screen }: Pick<Dialog, "options" | "screen">): Effect.Effect<void> =>
  Effect.andThen(
    Effect.sync(() => {
      screen.live(Screen.renderNothing)
      screen.endLine()
    }),
    options.terminal.suspend
  )

/** An item of a list to choose from. */
export interface Choice<out A> {
  readonly label: string
  /** Additional information in one line. */
  readonly detail?: string | undefined
  readonly value: A
}

/** Maximum number of rows of a list, and maximum width of its labels in columns. */
const mostRows = 8
const widestLabel = 32

/** Renders the rows of a list around the selected row. */
export const renderRows = (
  choices: ReadonlyArray<Choice<unknown>>,
  selected: number,
  size: Screen.Size,
  paint: Paint
): ReadonlyArray<string> => {
  const most = Math.max(1, Math.min(mostRows, size.rows - 6))
  const first = Math.max(0, Math.min(selected - (most >> 1), choices.length - most))
  const room = Math.max(1, size.columns - 3)
  const label = Math.min(room, widestLabel, Math.max(0, ...choices.map((choice) => Width.measure(choice.label))))
  return choices.slice(first, first + most).map((choice, index) => {
    const isMarked = first + index === selected
    const name = Width.cut(choice.label, choice.detail === undefined ? room : label)
    const detail = choice.detail === undefined ? "" : Width.cut(choice.detail, Math.max(0, room - label - 2))
    const padded = detail === "" ? name : `${Width.pad(name, label)}  `
    return `${isMarked ? paint.text("❯ ", "bold", "cyan") : "  "}${isMarked ? paint.text(padded, "bold") : padded}${paint.text(detail, "dim")}`
  })
}

/** Renders the chips of attached pictures in one line. */
const renderChips = (chips: ReadonlyArray<string>, columns: number, paint: Paint): ReadonlyArray<string> =>
  chips.length === 0 ? [] : [paint.text(Width.cut(`  ${chips.join("  ")}`, columns - 1), "cyan")]

/** Completes the typed text. Returns the possible names, which are shown below it. */
export const complete = (dialog: Dialog): ReadonlyArray<string> => {
  const { line, names } = SlashCommands.complete(dialog.commands, dialog.editor.text)
  dialog.editor = Editor.withText(dialog.editor, line)
  const { columns } = dialog.screen.size()
  return names.length === 0
    ? []
    : [dialog.screen.asidePaint.text(Width.cut(names.map((name) => `/${name}`).join("  "), columns - 1), "dim")]
}

/** Returns the result of the prompt for a sent line. */
export const toLine = ({
  pastes = [],
  text
}: Extract<Editor.Action, { readonly _tag: "Submit" }>): Extract<PromptResult, { readonly _tag: "Line" }> => ({
  _tag: "Line",
  text: Pastes.expand(text, pastes),
  shown: text
})

/** Inserts unsent lines before the typed text. Long lines are folded like pastes. */
export const putBack = (dialog: Pick<Dialog, "editor">, lines: ReadonlyArray<string>): void => {
  let { pastes } = dialog.editor
  const folded = lines.map((line) => {
    const { pastes: all, text } = Pastes.fold(pastes, line)
    pastes = all
    return text
  })
  const typed = dialog.editor.text === "" ? [] : [dialog.editor.text]
  dialog.editor = Editor.withText({ ...dialog.editor, pastes }, [...folded, ...typed].join("\n"))
}

/** Describes a paste that was rejected because of its size. */
export const describeLargePaste = (paint: Paint, characters: number): string =>
  paint.text(
    `The paste is too large (${Math.ceil(characters / 1_048_576)} MiB, at most 1 MiB). Save it in a file ` +
      "and name the file.",
    "yellow"
  )

/** Opens the prompt in the user's editor. Returns lines to display if the editor cannot be used. */
const editInEditor = (
  { editor, options, ...rest }: Dialog,
  set: (state: Editor.State) => void
): Effect.Effect<ReadonlyArray<string>> => {
  const {
    editText,
    terminal: { lend }
  } = options
  const { screen } = rest
  if (editText === undefined || lend === undefined)
    return Effect.succeed([screen.asidePaint.text("No editor can be opened here.", "dim")])
  screen.live(Screen.renderNothing)
  // An event that arrives in the meantime does not discard the text in the editor.
  return Effect.uninterruptible(lend(editText(Pastes.expand(editor.text, editor.pastes)))).pipe(
    Effect.match({
      onFailure: (error) => [screen.asidePaint.text(SafeText.toLine(error.message), "yellow")],
      onSuccess: (text) => {
        set(Editor.withText({ ...editor, pastes: [] }, SafeText.sanitise(text.trimEnd())))
        return []
      }
    })
  )
}

/** Switches to the next mode; after `yolo` comes the most restrictive mode. */
export const switchMode = Effect.fnUntraced(function* ({ live }: Pick<Dialog, "live">) {
  const { mode } = yield* live.state
  const { cycled } = PermissionMode
  const next = cycled[(cycled.findIndex((one) => one === mode) + 1) % cycled.length]
  // If the program may not use the mode, the current mode remains.
  if (next !== undefined) yield* Effect.ignore(live.setMode(next))
})

/** Shows the whole conversation until the user returns to the prompt. */
export const showTranscript = (dialog: Dialog): Effect.Effect<void> =>
  Effect.flatMap(
    Effect.promise(() => import("./TranscriptView.ts")),
    ({ show }) => show(dialog)
  )

/** Passes each typed key to `press` until it returns a result; `ended` is the result when the input ends. */
export const readKeys = <A, R>(
  { keyboard, screen }: Pick<Dialog, "keyboard" | "screen">,
  press: (key: Key) => Effect.Effect<A | undefined, never, R>,
  show: Effect.Effect<void>,
  ended: A
): Effect.Effect<A, never, R> =>
  Effect.gen(function* () {
    let resized = false
    while (true) {
      const event = yield* keyboard.next
      if (event._tag === "Resized") resized = true
      else if (event._tag !== "Resumed") {
        const answer = yield* press(event)
        if (answer !== undefined) return answer
      }
      if (keyboard.pending()) continue
      // A window reports many sizes while it is resized; only the last size is used.
      if (resized) screen.redraw()
      resized = false
      yield* show
    }
    // The only failure of the keyboard is the end of its input.
  }).pipe(Effect.catch(() => Effect.succeed(ended)))

/** State of one prompt. */
interface Prompt {
  readonly dialog: Dialog
  readonly list: PromptCompletions.CompletionList
  /** Lines below the list, which the next key removes. */
  below: ReadonlyArray<string>
  /** Chips of the pictures that the typed line names. */
  pictures: { readonly text: string; readonly chips: ReadonlyArray<string> }
  /** Time of the last Esc. */
  escapedAt: number
}

const showPrompt = (prompt: Prompt): void => {
  const { dialog, list } = prompt
  const { asidePaint } = dialog.screen
  dialog.screen.live((size) =>
    makeView(dialog, [
      ...renderChips(prompt.pictures.chips, size.columns, asidePaint),
      ...renderRows(PromptCompletions.listChoices(dialog, list), list.popup?.selected ?? 0, size, asidePaint),
      ...prompt.below
    ])(size)
  )
}

/** Discards the typed line. Without a line, the second Ctrl+C exits. */
const handleInterrupt = (prompt: Prompt): Effect.Effect<PromptResult | undefined> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const { dialog } = prompt
    const again = now - dialog.interruptedAt < leaveMillis
    const typed = dialog.editor.text !== ""
    dialog.interruptedAt = typed ? -Infinity : now
    dialog.editor = Editor.empty
    if (again && !typed) return { _tag: "Leave", code: interruptedCode }
    if (!typed) prompt.below = [dialog.screen.asidePaint.text("Press Ctrl+C again or Ctrl+D to exit", "dim")]
    return undefined
  })

/** Finds the pictures that the typed line names, in the background. */
const followPictures = Effect.fnUntraced(function* (prompt: Prompt) {
  const { editor, live, options, pictures } = prompt.dialog
  const { pastes, text } = editor
  if (text === prompt.pictures.text) return
  prompt.pictures = { text, chips: [] }
  if (!mayNamePicture(text)) return
  const { cwd = options.about.cwd } = (yield* live.state).session
  yield* Effect.forkChild(
    Effect.map(pictures(Pastes.expand(text, pastes), cwd, options.places), (chips) => {
      if (prompt.pictures.text === text) prompt.pictures = { text, chips }
      showPrompt(prompt)
    })
  )
})

/** Inserts the path of the picture on the clipboard. */
const pastePicture = Effect.fnUntraced(function* (prompt: Prompt) {
  const { dialog } = prompt
  const { clipboard, history } = dialog.options
  const file = yield* clipboard?.picture ?? Effect.undefined
  if (file === undefined) prompt.below = [dialog.screen.asidePaint.text("There is no picture on the clipboard.", "dim")]
  else dialog.editor = Editor.apply(dialog.editor, { _tag: "Text", text: `"${file}" ` }, history.entries()).state
})

/** Goes back to an earlier message after a second Esc without a line. */
const handleEscape = (prompt: Prompt): Effect.Effect<PromptResult | undefined> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const isSecond = now - prompt.escapedAt < againMillis && prompt.dialog.editor.text === ""
    prompt.escapedAt = now
    return isSecond ? { _tag: "GoBack" } : undefined
  })

/** Runs the action of a key, and returns the result of the prompt, if it ends with the key. */
const runAction = Effect.fnUntraced(function* (
  prompt: Prompt,
  action: Editor.Action
): Effect.fn.Return<PromptResult | undefined> {
  const { dialog } = prompt
  const { screen } = dialog
  switch (action._tag) {
    case "Submit":
      return toLine(action)
    case "Leave":
      return { _tag: "Leave", code: 0 }
    case "Interrupt":
      return yield* handleInterrupt(prompt)
    case "Suspend":
      return yield* Effect.as(suspend(dialog), undefined)
    case "ClearScreen":
      screen.clear()
      return undefined
    case "OpenEditor":
      prompt.below = yield* editInEditor(dialog, (next) => {
        dialog.editor = next
      })
      return undefined
    case "PastePicture":
      return yield* Effect.as(pastePicture(prompt), undefined)
    case "TooLarge":
      prompt.below = [describeLargePaste(screen.asidePaint, action.characters)]
      return undefined
    case "SearchHistory":
      return { _tag: "Search" }
    case "OpenTranscript":
      return { _tag: "Transcript" }
    case "Escape":
      return yield* handleEscape(prompt)
    case "Complete":
    case "None":
      return undefined
  }
})

/** Applies a key to the line, with the vi keys if they are in use. */
const applyKey = (prompt: Prompt, key: Key): Editor.Action => {
  const { dialog } = prompt
  const entries = dialog.options.history.entries()
  const vi = dialog.vi === undefined ? undefined : ViKeys.apply(dialog.vi, dialog.editor, key, entries)
  const { action, state } = vi?.applied ?? Editor.apply(dialog.editor, key, entries)
  dialog.vi = vi?.vi
  if (vi?.vi.mode === "normal")
    prompt.below = [dialog.screen.asidePaint.text(`  normal${vi.vi.keys === "" ? "" : ` ${vi.vi.keys}`}`, "muted")]
  dialog.editor = state
  return action
}

const editLine = Effect.fnUntraced(function* (prompt: Prompt, key: Key): Effect.fn.Return<PromptResult | undefined> {
  const { dialog, list } = prompt
  prompt.below = []
  if (key._tag === "Key" && key.name === "backtab") return yield* Effect.as(switchMode(dialog), undefined)
  const listedKey = PromptCompletions.pressKey(dialog, list, key)
  return listedKey === undefined ? yield* runAction(prompt, applyKey(prompt, key)) : listedKey.line
})

/** Reads a line at the prompt. */
export const prompt = Effect.fnUntraced(function* (dialog: Dialog): Effect.fn.Return<PromptResult> {
  const state: Prompt = {
    dialog,
    list: PromptCompletions.make(),
    below: [],
    pictures: { text: "", chips: [] },
    escapedAt: -Infinity
  }
  const redrawPrompt = (): void => showPrompt(state)
  redrawPrompt()
  const pressKey = (key: Key): Effect.Effect<PromptResult | undefined> =>
    Effect.tap(editLine(state, key), () =>
      Effect.andThen(followPictures(state), PromptCompletions.followLine(dialog, state.list, redrawPrompt))
    )
  const ended: PromptResult = { _tag: "Leave", code: 0 }
  return yield* readKeys(dialog, pressKey, Effect.sync(redrawPrompt), ended).pipe(
    Effect.ensuring(Effect.sync(() => dialog.screen.live(Screen.renderNothing)))
  )
})
