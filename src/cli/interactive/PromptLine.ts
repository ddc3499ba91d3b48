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
import * as StatusLine from "./StatusLine.ts"

/** Two Ctrl+C within this time leave. */
export const leaveMillis = 2000

/** The exit code of leaving by Ctrl+C. */
export const interruptedCode = 130

/** Result of the prompt. */
export type Prompted =
  | { readonly _tag: "Line"; readonly text: string }
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
        return { _tag: "Line", text: action.text } satisfies Prompted
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
      case "None":
        return undefined
    }
  })

  const ended: Prompted = { _tag: "Leave", code: 0 }
  return yield* typed(dialog, press, Effect.sync(show), ended).pipe(
    Effect.ensuring(Effect.sync(() => screen.live(Screen.nothing)))
  )
})
