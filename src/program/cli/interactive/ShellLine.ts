/**
 * `!command`: a command that the user runs in the shell, without the model. Its output and its exit code are shown.
 *
 * The command does not receive input. Its output is sent with the next message, so that the model can answer questions
 * about it; with `!!` it is not sent. Secrets in its output are masked, as everywhere. Ctrl+C ends it and all processes
 * that it started. It does not need an approval, because the user typed it; commands that are always blocked are also
 * blocked here.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Prompt from "effect/ai/Prompt"
import type { RunInput } from "../../../agent/RunInput.ts"
import * as RedactionStream from "../../../base/domain/RedactionStream.ts"
import { ProcessEnvironment } from "../../../base/platform/ProcessVariables.ts"
import * as TrustedPrograms from "../../../base/platform/TrustedPrograms.ts"
import * as Shell from "../../../tools/builtin/terminal/Shell.ts"
import * as Danger from "../../../tools/danger/Danger.ts"
import * as SafeText from "../render/SafeText.ts"
import { formatElapsed } from "../render/ToolText.ts"
import * as Dialogs from "./Dialog.ts"
import type { Dialog, SessionServices } from "./Dialog.ts"
import * as BusyPrompt from "./BusyPrompt.ts"

/**
 * Maximum number of characters of command output that are shared with the model, taken from its beginning and its end.
 */
const mostShared = 20_000

/** Number of characters stored from each end of an output, and maximum number of stored outputs. */
const mostOutput = 100_000
const mostCommands = 10

/** Formats a command with its output for the model. */
const formatSharedText = (command: string, output: string, ending: string): string => {
  const half = mostShared / 2
  const shown =
    output.length <= mostShared
      ? output
      : `${output.slice(0, half)}\n… ${output.length - mostShared} characters left out …\n${output.slice(-half)}`
  return (
    `<user_shell command=${JSON.stringify(command)} ` +
    `ending=${JSON.stringify(ending)}>\n${shown.replace(/\n?$/, "\n")}</user_shell>`
  )
}

/** Appends the output of earlier commands to a message. The output is removed from the dialog. */
export const withShared = (dialog: Dialog, prompt: RunInput["prompt"]): RunInput["prompt"] => {
  const { shared } = dialog
  if (shared.length === 0) return prompt
  dialog.shared = []
  const after = shared.join("\n\n")
  return typeof prompt === "string" ? `${prompt}\n\n${after}` : [...prompt, Prompt.textPart({ text: after })]
}

/** Runs a line, including its `!` marks. Returns the exit code if the user leaves the program. */
export const run = Effect.fnUntraced(function* (
  dialog: Dialog,
  line: string
): Effect.fn.Return<number | undefined, never, SessionServices> {
  const { screen } = dialog
  const isShared = !line.startsWith("!!")
  const command = line.replace(/^!+/, "").trim()
  let output = ""
  const { floor } = Danger.judge(command)
  if (floor !== undefined) {
    const { asidePaint } = screen
    Dialogs.printLines(
      dialog,
      asidePaint.text(`Blocked: ${floor.key}. Run it in your own shell if you are sure.`, "yellow"),
      ""
    )
    return undefined
  }
  const shell = yield* Shell.make
  const { cwd = dialog.options.about.cwd } = (yield* dialog.live.state).session
  const environment = yield* TrustedPrograms.shellEnvironment
  const decoder = new TextDecoder()
  const harmless = SafeText.makeStream()
  const hidden = RedactionStream.make()
  const printOutput = (text: string): void => {
    output += text
    if (output.length > 2 * mostOutput) output = output.slice(0, mostOutput) + output.slice(-mostOutput)
    screen.say(text)
  }
  const showPiece = (text: string): void => printOutput(harmless.push(hidden.push(text)))
  const startedAt = yield* Clock.currentTimeMillis
  const worked = yield* BusyPrompt.runWork(dialog, {
    run: Effect.scoped(
      Effect.flatMap(
        shell.start({
          command,
          cwd,
          stdin: "ignore",
          onOutput: (chunks) =>
            Effect.sync(() => {
              for (const chunk of chunks) showPiece(decoder.decode(chunk, { stream: true }))
            })
        }),
        ({ exit }) => exit
      )
    ).pipe(Effect.provideService(ProcessEnvironment, environment)),
    stop: Effect.succeed(false),
    view: (_, now) =>
      now - startedAt < 1000
        ? []
        : [screen.asidePaint.text(`┊ running · ${formatElapsed(now - startedAt)} · Ctrl+C stops`, "dim")]
  })
  showPiece(decoder.decode())
  printOutput(harmless.push(hidden.end()) + harmless.end())
  screen.endLine()
  if (worked._tag === "Leave") {
    Dialogs.printLines(dialog, "")
    return worked.code
  }
  if (Exit.isFailure(worked.exit) && !worked.stopped) {
    Dialogs.printError(dialog, Cause.squash(worked.exit.cause))
    return undefined
  }
  const code = Exit.isSuccess(worked.exit) ? worked.exit.value.code : undefined
  const told = code === undefined ? "stopped" : `exit ${code}`
  if (isShared) dialog.shared = [...dialog.shared, formatSharedText(command, output, told)].slice(-mostCommands)
  Dialogs.printLines(
    dialog,
    screen.asidePaint.text(
      isShared ? `${told} · sent with your next message (use !! to leave it out)` : told,
      code === 0 ? "muted" : "warning"
    ),
    ""
  )
  return undefined
})
