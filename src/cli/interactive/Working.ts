/**
 * The time in which the agent, or a command of the user's, works: what it is at is shown, Ctrl+C stops it, and what is typed
 * meanwhile waits for its turn.
 *
 * **Details**
 *
 * The first Ctrl+C asks the work to stop, a second one within two seconds leaves the program. Leaving waits for the work to
 * end, but no longer than {@link graceMillis}.
 *
 * What is sent meanwhile is done afterwards (`display.busy_input_mode: queue`), or stops the work first (`interrupt`);
 * `steer` needs a run that takes messages, and does as `queue`. `/stop` is never kept waiting.
 *
 * Source: `hermes-product.md` §1.8.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { frameMillis } from "../render/EventPrinter.ts"
import * as Neutral from "../render/Neutral.ts"
import * as Screen from "../render/Screen.ts"
import * as Width from "../render/Width.ts"
import * as Commands from "./Commands.ts"
import type { Dialog } from "./Dialog.ts"
import * as Editor from "./Editor.ts"
import * as Prompting from "./Prompting.ts"

/** How long leaving waits for the work to end. */
export const graceMillis = 1500

/** Something that takes its time. */
export interface Work<A, E> {
  readonly run: Effect.Effect<A, E>
  /** Asks it to end; false when that can not be asked, and it is interrupted. */
  readonly stop: Effect.Effect<boolean>
  /** What it is at. */
  readonly view: (size: Screen.Size, now: number) => ReadonlyArray<string>
}

/** How it ended: by itself, or with the program. */
export type Worked<A, E> =
  | { readonly _tag: "Ended"; readonly exit: Exit.Exit<A, E>; readonly stopped: boolean }
  | { readonly _tag: "Leave"; readonly code: number }

const viewOf = (dialog: Dialog, lines: ReadonlyArray<string>): Screen.View => (size) => {
  const { asidePaint } = dialog.screen
  const waiting = dialog.waiting.map((line) => asidePaint.text(Width.cut(`next: ${Neutral.line(line)}`, size.columns - 1), "dim"))
  const above = [...lines, ...waiting].slice(-Math.max(1, size.rows - 4))
  if (dialog.editor.text === "") return { lines: above }
  const { cursor, lines: typed } = Prompting.view(dialog, [])({ ...size, rows: Math.max(3, size.rows - above.length) })
  return {
    lines: [...above, ...typed],
    cursor: cursor === undefined ? undefined : { row: above.length + cursor.row, column: cursor.column }
  }
}

/** See the module. */
export const during = Effect.fnUntraced(function*<A, E>(dialog: Dialog, work: Work<A, E>): Effect.fn.Return<Worked<A, E>> {
  const { keyboard, options, screen } = dialog
  let stopped = false
  let interruptedAt = -Infinity

  // The work may not end when it is interrupted, and nobody waits for it then.
  const fiber = yield* Effect.forkDetach(work.run)
  const interrupt = Effect.suspend(() => {
    fiber.interruptUnsafe()
    return Effect.raceFirst(Effect.interruptible(Fiber.await(fiber)), Effect.interruptible(Effect.sleep(graceMillis)))
  })

  const stopping = [screen.asidePaint.text("┊ stopping · Ctrl+C again leaves", "dim")]
  const show = Effect.map(Clock.currentTimeMillis, (now) =>
    screen.live(viewOf(dialog, stopped ? stopping : work.view(screen.size(), now))))

  const stop = Effect.gen(function*() {
    stopped = true
    if (!(yield* work.stop)) yield* Effect.forkDetach(Fiber.interrupt(fiber))
  })

  const send = Effect.fnUntraced(function*(line: string) {
    if (line.trim() === "") return
    const command = Commands.parse(line)
    const found = command === undefined ? undefined : Commands.find(dialog.commands, command.name)
    if (found?._tag === "Command" && found.command.name === "stop") return yield* stop
    dialog.waiting.push(line)
    if (options.display.busyInputMode === "interrupt" && command === undefined) yield* stop
  })

  const press = Effect.fnUntraced(function*(key: Parameters<typeof Editor.apply>[1]) {
    const { action, state } = Editor.apply(dialog.editor, key, options.history.entries())
    dialog.editor = state
    switch (action._tag) {
      case "Submit":
        return yield* send(action.text)
      case "Interrupt": {
        const now = yield* Clock.currentTimeMillis
        if (now - interruptedAt < Prompting.leaveMillis) return Prompting.interruptedCode
        interruptedAt = now
        return yield* stop
      }
      case "Suspend":
        return yield* Prompting.suspend(dialog)
      case "Complete":
        Prompting.complete(dialog)
        return undefined
      case "Leave":
      case "ClearScreen":
      case "None":
        return undefined
    }
  })

  const watch = Effect.gen(function*() {
    while (true) {
      const event = yield* keyboard.next
      if (event._tag === "Resized") screen.redraw()
      else if (event._tag !== "Resumed") {
        const code = yield* press(event)
        if (code !== undefined) return code
      }
      if (!keyboard.pending()) yield* show
    }
  })
  const leave = watch.pipe(
    Effect.catch(() => Effect.succeed(0)),
    Effect.map((code): Worked<A, E> => ({ _tag: "Leave", code }))
  )
  const ended = Effect.map(Fiber.await(fiber), (exit): Worked<A, E> => ({ _tag: "Ended", exit, stopped }))
  const animate = Effect.forever(Effect.andThen(show, Effect.sleep(frameMillis)))

  return yield* Effect.raceAllFirst([ended, leave, animate]).pipe(
    Effect.onExit((exit) =>
      Exit.isSuccess(exit) && exit.value._tag === "Ended" ? Effect.void : interrupt
    ),
    Effect.ensuring(Effect.sync(() => screen.live(Screen.nothing)))
  )
})
