/**
 * The prompt: a line is typed, edited and sent.
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
import type { Dialog } from "./Dialog.ts"
import * as Editor from "./Editor.ts"
import type { Key } from "./Keys.ts"
import * as Pastes from "./Pastes.ts"
import * as StatusLine from "./StatusLine.ts"

/** Two Ctrl+C within this time leave. */
export const leaveMillis = 2000

/** The exit code of leaving by Ctrl+C. */
export const interruptedCode = 130

/** Result of the prompt. */
export type Prompted =
  /** `shown` is the line as it was typed, with marks for long pastes, and `text` what it means. */
  | { readonly _tag: "Line"; readonly text: string; readonly shown: string }
  | { readonly _tag: "Leave"; readonly code: number }

/** Mark before user text. */
export const mark = (paint: Paint): string => `${paint.text("›", "bold", "cyan")} `

/** The lines of what is being typed, with others under them. */
export const view = (dialog: Pick<Dialog, "editor" | "screen" | "statusLine">, below: ReadonlyArray<string>): Screen.View => (size) => {
  const { editor, screen: { asidePaint }, statusLine } = dialog
  return Editor.render(editor, { prompt: mark(asidePaint), indent: 2, below: [...below, ...StatusLine.lines(statusLine, size.columns, asidePaint)] }, size)
}

/** Leaves what was sent on the screen, as the user typed it. */
export const echo = ({ screen }: Pick<Dialog, "screen">, text: string): void => {
  const [first = "", ...rest] = SafeText.text(text).split("\n")
  screen.say([`${mark(screen.asidePaint)}${first}`, ...rest.map((line) => `  ${line}`), "", ""].join("\n"))
}

/** Puts the terminal in the background, and goes on when it is back. */
export const suspend = ({ options, screen }: Pick<Dialog, "options" | "screen">): Effect.Effect<void> =>
  Effect.andThen(
    Effect.sync(() => {
      screen.live(Screen.nothing)
      screen.endLine()
    }),
    options.terminal.suspend
  )

/** Completes what is typed; the names that it could become are shown under it. */
export const complete = (dialog: Dialog): ReadonlyArray<string> => {
  const { line, names } = SlashCommands.complete(dialog.commands, dialog.editor.text)
  dialog.editor = Editor.withText(dialog.editor, line)
  const { columns } = dialog.screen.size()
  return names.length === 0
    ? []
    : [dialog.screen.asidePaint.text(Width.cut(names.map((name) => `/${name}`).join("  "), columns - 1), "dim")]
}

/** The line that was sent. */
export const lineOf = ({ pastes = [], text }: Extract<Editor.Action, { readonly _tag: "Submit" }>): Extract<Prompted, { readonly _tag: "Line" }> =>
  ({ _tag: "Line", text: Pastes.expand(text, pastes), shown: text })

/** Says that a paste was not taken. */
export const tooLarge = (paint: Paint, characters: number): string =>
  paint.text(`The paste has ${Math.ceil(characters / 1_048_576)} MiB and was not taken; at most 1 MiB. Save it in a file and name the file.`, "yellow")

/** Lets the user's editor change what is typed; gives what is to be said about it. */
const inEditor = ({ editor, options, ...rest }: Dialog, set: (state: Editor.State) => void): Effect.Effect<ReadonlyArray<string>> => {
  const { editText, terminal: { lend } } = options
  const { screen } = rest
  if (editText === undefined || lend === undefined) return Effect.succeed([screen.asidePaint.text("No editor can be opened here.", "dim")])
  screen.live(Screen.nothing)
  // An event that comes meanwhile does not throw away the text in the editor.
  return Effect.uninterruptible(lend(editText(Pastes.expand(editor.text, editor.pastes)))).pipe(
    Effect.match({
      onFailure: (error) => [screen.asidePaint.text(SafeText.line(error.message), "yellow")],
      onSuccess: (text) => {
        set(Editor.withText({ ...editor, pastes: [] }, SafeText.text(text.trimEnd())))
        return []
      }
    })
  )
}

/** Gives each key that is typed to `press`, until it answers; `ended` is the answer when nobody can type any more. */
export const typed = <A, R>(
  { keyboard, screen }: Pick<Dialog, "keyboard" | "screen">,
  press: (key: Key) => Effect.Effect<A | undefined, never, R>,
  show: Effect.Effect<void>,
  ended: A
): Effect.Effect<A, never, R> =>
  Effect.gen(function*() {
    while (true) {
      const event = yield* keyboard.next
      if (event._tag === "Resized") screen.redraw()
      else if (event._tag !== "Resumed") {
        const answer = yield* press(event)
        if (answer !== undefined) return answer
      }
      if (!keyboard.pending()) yield* show
    }
    // The keyboard fails with its end alone.
  }).pipe(Effect.catch(() => Effect.succeed(ended)))

/** Reads a line. */
export const prompt = Effect.fnUntraced(function*(dialog: Dialog): Effect.fn.Return<Prompted> {
  const { options, screen } = dialog
  let below: ReadonlyArray<string> = []
  const show = (): void => screen.live(view(dialog, below))
  show()

  const interrupt = Effect.map(Clock.currentTimeMillis, (now): Prompted | undefined => {
    const again = now - dialog.interruptedAt < leaveMillis
    const typed = dialog.editor.text !== ""
    dialog.interruptedAt = typed ? -Infinity : now
    dialog.editor = Editor.empty
    if (again && !typed) return { _tag: "Leave", code: interruptedCode }
    if (!typed) below = [screen.asidePaint.text("Press Ctrl+C again or Ctrl+D to exit", "dim")]
    return undefined
  })

  const press = Effect.fnUntraced(function*(key: Key) {
    below = []
    const { action, state } = Editor.apply(dialog.editor, key, options.history.entries())
    dialog.editor = state
    switch (action._tag) {
      case "Submit":
        return lineOf(action)
      case "Leave":
        return { _tag: "Leave", code: 0 } satisfies Prompted
      case "Interrupt":
        return yield* interrupt
      case "Suspend":
        yield* suspend(dialog)
        return undefined
      case "ClearScreen":
        screen.clear()
        return undefined
      case "Complete":
        below = complete(dialog)
        return undefined
      case "OpenEditor":
        below = yield* inEditor(dialog, (next) => {
          dialog.editor = next
        })
        return undefined
      case "TooLarge":
        below = [tooLarge(screen.asidePaint, action.characters)]
        return undefined
      case "Escape":
      case "SearchHistory":
      case "None":
        return undefined
    }
  })

  const ended: Prompted = { _tag: "Leave", code: 0 }
  return yield* typed(dialog, press, Effect.sync(show), ended).pipe(
    Effect.ensuring(Effect.sync(() => screen.live(Screen.nothing)))
  )
})
