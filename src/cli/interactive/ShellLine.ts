/**
 * `!command`: the user's own command, run in the shell without the model. What it prints is shown, and how it ended.
 *
 * It gets no input, and nothing of it is part of the conversation. Secrets in what it prints are masked, as everywhere. Ctrl+C ends it with all that it started. It needs no
 * approval, as the user typed it; what nothing can allow does not run here either.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as RedactionStream from "../../domain/RedactionStream.ts"
import * as Shell from "../../tool/builtin/terminal/Shell.ts"
import * as Danger from "../../tool/danger/Danger.ts"
import * as SafeText from "../render/SafeText.ts"
import { elapsed } from "../render/ToolText.ts"
import * as Dialogs from "./Dialog.ts"
import type { Dialog, SessionServices } from "./Dialog.ts"
import * as BusyPrompt from "./BusyPrompt.ts"

/** Gives the exit code with which the program is left, if it is. */
export const run = Effect.fnUntraced(function*(dialog: Dialog, command: string): Effect.fn.Return<number | undefined, never, SessionServices> {
  const { screen } = dialog
  const { floor } = Danger.judge(command)
  if (floor !== undefined) {
    const { asidePaint } = screen
    Dialogs.say(dialog, asidePaint.text(`Blocked: ${floor.key}. Run it in your own shell if you are sure.`, "yellow"), "")
    return undefined
  }
  const shell = yield* Shell.make
  const { cwd = dialog.options.about.cwd } = (yield* dialog.live.state).session
  const decoder = new TextDecoder()
  const harmless = SafeText.stream()
  const hidden = RedactionStream.make()
  const show = (text: string): void => screen.say(harmless.push(hidden.push(text)))
  const startedAt = yield* Clock.currentTimeMillis
  const worked = yield* BusyPrompt.during(dialog, {
    run: Effect.scoped(Effect.flatMap(
      shell.start({
        command,
        cwd,
        stdin: "ignore",
        onOutput: (chunks) =>
          Effect.sync(() => {
            for (const chunk of chunks) show(decoder.decode(chunk, { stream: true }))
          })
      }),
      ({ exit }) => exit
    )),
    stop: Effect.succeed(false),
    view: (_, now) =>
      now - startedAt < 1000 ? [] : [screen.asidePaint.text(`┊ running · ${elapsed(now - startedAt)} · Ctrl+C stops`, "dim")]
  })
  show(decoder.decode())
  screen.say(harmless.push(hidden.end()) + harmless.end())
  screen.endLine()
  if (worked._tag === "Leave") {
    Dialogs.say(dialog, "")
    return worked.code
  }
  if (Exit.isFailure(worked.exit) && !worked.stopped) {
    Dialogs.complain(dialog, Cause.squash(worked.exit.cause))
    return undefined
  }
  const code = Exit.isSuccess(worked.exit) ? worked.exit.value.code : undefined
  const told = code === undefined ? "stopped" : `exit ${code}`
  Dialogs.say(dialog, screen.asidePaint.text(told, code === 0 ? "dim" : "yellow"), "")
  return undefined
})
