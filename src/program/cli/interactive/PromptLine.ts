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
import * as Completions from "./Completions.ts"
import type { Dialog } from "./Dialog.ts"
import { mayNamePicture } from "./Attachments.ts"
import * as Editor from "./Editor.ts"
import type { Key } from "./Keys.ts"
import * as Pastes from "./Pastes.ts"
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

/** The list below the line, shown while a word can be completed. */
interface Popup {
  readonly token: Completions.Token
  readonly selected: number
  /** True if the user moved the selection. */
  readonly isMoved: boolean
}

/** Updates the list for the typed text. A dismissed list reappears when another word is typed. */
const followPopup = (
  editor: Editor.State,
  before: Popup | undefined,
  hidden: string | undefined
): Popup | undefined => {
  const token = editor.text === hidden ? undefined : Completions.findToken(editor)
  if (token === undefined) return undefined
  const isSame = before?.token.query === token.query && before.token.from === token.from
  return isSame ? { ...before, token } : { token, selected: 0, isMoved: false }
}

/** Reads a line at the prompt. */
export const prompt = Effect.fnUntraced(function* (dialog: Dialog): Effect.fn.Return<PromptResult> {
  const { commands, files, live, options, screen } = dialog
  let below: ReadonlyArray<string> = []
  let popup: Popup | undefined
  /** Chips of the pictures that the typed line names. */
  let pictures: { readonly text: string; readonly chips: ReadonlyArray<string> } = { text: "", chips: [] }
  /** Time of the last Esc. */
  let escapedAt = -Infinity
  /** Argument words of the command that is being typed. */
  let words: { readonly command: string | undefined; readonly list: ReadonlyArray<SlashCommands.ArgumentWord> } = {
    command: undefined,
    list: []
  }
  /** The line for which the user closed the list. */
  let hidden: string | undefined
  const listChoices = (): ReadonlyArray<Choice<Completions.Completion>> =>
    popup === undefined
      ? []
      : Completions.listCompletions(popup.token, {
          commands,
          files: files.files(),
          words: words.command === popup.token.name ? words.list : []
        })
  const showPrompt = (): void =>
    screen.live((size) =>
      makeView(dialog, [
        ...renderChips(pictures.chips, size.columns, screen.asidePaint),
        ...renderRows(listChoices(), popup?.selected ?? 0, size, screen.asidePaint),
        ...below
      ])(size)
    )
  showPrompt()

  const interrupt = Effect.map(Clock.currentTimeMillis, (now): PromptResult | undefined => {
    const again = now - dialog.interruptedAt < leaveMillis
    const typed = dialog.editor.text !== ""
    dialog.interruptedAt = typed ? -Infinity : now
    dialog.editor = Editor.empty
    if (again && !typed) return { _tag: "Leave", code: interruptedCode }
    if (!typed) below = [screen.asidePaint.text("Press Ctrl+C again or Ctrl+D to exit", "dim")]
    return undefined
  })

  /** Inserts the selected completion into the line. Returns the line if the completion completes it. */
  const acceptCompletion = ({ from, isComplete, text }: Completions.Completion): PromptResult | undefined => {
    const { editor } = dialog
    const rest = editor.text.slice(editor.cursor)
    const line = editor.text.slice(0, from) + text + rest
    dialog.editor = { ...Editor.withText(editor, line), cursor: line.length - rest.length }
    if (!isComplete) return undefined
    dialog.editor = { ...Editor.empty, killed: editor.killed }
    return { _tag: "Line", text: line, shown: line }
  }

  /** Passes a key to the list; returns `undefined` if the list does not handle the key. */
  const pressInPopup = (key: Key): { readonly line: PromptResult | undefined } | undefined => {
    if (popup === undefined || key._tag !== "Key") return undefined
    const choices = listChoices()
    const chosen = choices[popup.selected]
    if (chosen === undefined) return undefined
    const { isMoved, selected, token } = popup
    const moveTo = (to: number) => {
      popup = { token, selected: Math.max(0, Math.min(choices.length - 1, to)), isMoved: true }
      return { line: undefined }
    }
    switch (key.name) {
      case "down":
        return moveTo(selected + 1)
      case "up":
        return moveTo(selected - 1)
      case "escape":
        hidden = dialog.editor.text
        return { line: undefined }
      case "tab":
        return { line: acceptCompletion({ ...chosen.value, isComplete: false }) }
      case "enter": {
        const isExact = token.kind === "file" && choices.some(({ label }) => label === token.query)
        // The typed command is executed, unless the user selected another one.
        return isMoved || (token.kind === "file" && !isExact) ? { line: acceptCompletion(chosen.value) } : undefined
      }
      default:
        return undefined
    }
  }

  const followPictures = Effect.gen(function* () {
    const { text } = dialog.editor
    if (text === pictures.text) return
    pictures = { text, chips: [] }
    if (!mayNamePicture(text)) return
    const { cwd = options.about.cwd } = (yield* live.state).session
    yield* Effect.forkChild(
      Effect.map(dialog.pictures(Pastes.expand(text, dialog.editor.pastes), cwd, options.places), (chips) => {
        if (pictures.text === text) pictures = { text, chips }
        showPrompt()
      })
    )
  })

  const follow = Effect.gen(function* () {
    yield* followPictures
    popup = followPopup(dialog.editor, popup, hidden)
    if (popup === undefined && dialog.editor.text !== hidden) hidden = undefined
    const name = popup?.token.name
    const found = name === undefined || name === words.command ? undefined : SlashCommands.find(commands, name)
    if (found?._tag === "Command") {
      words = { command: name, list: [] }
      yield* Effect.forkChild(
        Effect.map(dialog.argumentWords(found.command), (list) => {
          if (words.command === name) words = { command: name, list }
          showPrompt()
        })
      )
    }
    if (popup?.token.kind !== "file") return
    const { cwd = options.about.cwd } = (yield* live.state).session
    yield* Effect.forkChild(Effect.andThen(files.load(cwd), Effect.sync(showPrompt)))
  })

  const editLine = Effect.fnUntraced(function* (key: Key): Effect.fn.Return<PromptResult | undefined> {
    below = []
    if (key._tag === "Key" && key.name === "backtab") return yield* Effect.as(switchMode(dialog), undefined)
    const listedKey = pressInPopup(key)
    if (listedKey !== undefined) return listedKey.line
    const entries = options.history.entries()
    const vi = dialog.vi === undefined ? undefined : ViKeys.apply(dialog.vi, dialog.editor, key, entries)
    const { action, state } = vi?.applied ?? Editor.apply(dialog.editor, key, entries)
    dialog.vi = vi?.vi
    if (vi?.vi.mode === "normal")
      below = [screen.asidePaint.text(`  normal${vi.vi.keys === "" ? "" : ` ${vi.vi.keys}`}`, "muted")]
    dialog.editor = state
    switch (action._tag) {
      case "Submit":
        return toLine(action)
      case "Leave":
        return { _tag: "Leave", code: 0 }
      case "Interrupt":
        return yield* interrupt
      case "Suspend":
        yield* suspend(dialog)
        return undefined
      case "ClearScreen":
        screen.clear()
        return undefined
      case "OpenEditor":
        below = yield* editInEditor(dialog, (next) => {
          dialog.editor = next
        })
        return undefined
      case "PastePicture": {
        const file = yield* options.clipboard?.picture ?? Effect.undefined
        if (file === undefined) below = [screen.asidePaint.text("There is no picture on the clipboard.", "dim")]
        else dialog.editor = Editor.apply(state, { _tag: "Text", text: `"${file}" ` }, entries).state
        return undefined
      }
      case "TooLarge":
        below = [describeLargePaste(screen.asidePaint, action.characters)]
        return undefined
      case "SearchHistory":
        return { _tag: "Search" }
      case "OpenTranscript":
        return { _tag: "Transcript" }
      case "Escape": {
        const now = yield* Clock.currentTimeMillis
        const isSecond = now - escapedAt < againMillis && state.text === ""
        escapedAt = now
        return isSecond ? { _tag: "GoBack" } : undefined
      }
      case "Complete":
      case "None":
        return undefined
    }
  })

  const pressKey = (key: Key): Effect.Effect<PromptResult | undefined> => Effect.tap(editLine(key), follow)

  const ended: PromptResult = { _tag: "Leave", code: 0 }
  return yield* readKeys(dialog, pressKey, Effect.sync(showPrompt), ended).pipe(
    Effect.ensuring(Effect.sync(() => screen.live(Screen.renderNothing)))
  )
})
