/**
 * The interactive session of `hermes chat`: a prompt, what the agent does with it, and the next prompt.
 *
 * - A line goes to the agent, unless it begins with `!` (the shell, without the model) or is a command (`/name`). A line
 *   that begins with a space is never either of them.
 * - Ctrl+C stops what runs; what was said so far stays, and so does the session. A second one within two seconds leaves, with
 *   130; at the prompt it clears the line. Ctrl+D leaves with 0.
 * - What the runtime logs stands between the lines of the session, not across them.
 * - On leaving, however it comes, `on_session_finalize` is emitted and the command that resumes the session is shown.
 *
 * Settings and the terminal come as values, services from the Context. The session has the terminal to itself; whether there
 * is one is the caller's to know.
 *
 * Source: `hermes-product.md` §1.3, §1.7, §1.8 and §1.9.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import type * as Scope from "effect/Scope"
import { BackgroundWork } from "../../agent/BackgroundWork.ts"
import type { Values } from "../../config/Settings.ts"
import { redactText } from "../../domain/Redaction.ts"
import type { Hooks } from "../../hooks/Hooks.ts"
import { either } from "../Failure.ts"
import { reviewSeconds } from "../SingleQuery.ts"
import * as LogLine from "../LogLine.ts"
import * as SafeText from "../render/SafeText.ts"
import * as Screen from "../render/Screen.ts"
import * as Width from "../render/Width.ts"
import * as Wrap from "../render/Wrap.ts"
import * as BuiltinCommands from "./BuiltinCommands.ts"
import { complain, type Dialog, type DialogCommand, type InteractiveOptions, type SessionServices, say, sessionsOf } from "./Dialog.ts"
import * as Editor from "./Editor.ts"
import * as Overview from "./Overview.ts"
import * as PromptLine from "./PromptLine.ts"
import * as Questions from "./Questions.ts"
import * as SessionSwitch from "./SessionSwitch.ts"
import * as ShellLine from "./ShellLine.ts"
import * as SlashCommands from "./SlashCommands.ts"
import type { Next } from "./SlashCommands.ts"
import { keyboard } from "./TerminalDevice.ts"
import * as Turn from "./Turn.ts"
import * as TurnMessages from "./TurnMessages.ts"

/** The line that a command stands for; undefined for one that says nothing. */
const quickLineOf = ({ command, target, type }: Values["quickCommands"][string]): string | undefined => {
  if (type === "exec") return command === undefined ? undefined : `!${command}`
  return target === undefined ? undefined : target.startsWith("/") ? target : `/${target}`
}

/** Makes the commands of `quick_commands`: a line for the shell, or another name for a line. */
const quickCommandsOf = (quickCommands: Values["quickCommands"]): ReadonlyArray<DialogCommand> =>
  Object.entries(quickCommands).flatMap(([name, quick]) => {
    const line = quickLineOf(quick)
    if (line === undefined) return []
    return [{
      name,
      help: `Same as ${redactText(line)}`,
      run: (argument) => Effect.succeed<Next>({ _tag: "Type", line: `${line} ${argument}`.trimEnd() })
    }]
  })

export type { About, Dialog, DialogCommand, InteractiveOptions } from "./Dialog.ts"

/** A quick command may name another one; so many lines in one are a circle. */
const maxTyped = 10

/** The code to leave with, or undefined to go on. */
type Outcome = number | undefined

const make = Effect.fnUntraced(function*(
  options: InteractiveOptions
): Effect.fn.Return<Dialog, never, Hooks | Scope.Scope> {
  const { display, terminal } = options
  const scope = yield* Effect.scope
  const sink: Screen.Sink = { write: terminal.write, terminal: true, paint: terminal.paint }
  const screen = Screen.make({ answer: sink, aside: sink, size: terminal.size })
  const steered = (lines: ReadonlyArray<string>): void => {
    for (const line of lines) dialog.note(PromptLine.mark(screen.asidePaint) + SafeText.line(line))
  }
  const dialog: Dialog = {
    options,
    screen,
    keyboard: keyboard(terminal),
    commands: [
      ...BuiltinCommands.commands,
      ...quickCommandsOf(options.quickCommands ?? {}),
      ...options.commands ?? []
    ],
    questions: Questions.make((question) => {
      if (question === undefined) return screen.refresh()
      for (const line of Questions.lines(question, screen.size().columns, screen.asidePaint)) dialog.note(line)
    }),
    injected: yield* TurnMessages.injected,
    steering: yield* TurnMessages.steering(steered),
    current: yield* SessionSwitch.fresh(options, options.session.id, undefined),
    verbosity: display.toolProgress,
    editor: Editor.empty,
    interruptedAt: -Infinity,
    waiting: [],
    begun: new Set(),
    aside: (work) => Effect.asVoid(Effect.forkIn(work, scope)),
    note: (line) => screen.say(`${line}\n`)
  }
  return dialog
})

/** Logs are lines of the session. */
const logger = (dialog: Dialog): Logger.Logger<unknown, void> =>
  Logger.make(({ logLevel, message }) => {
    const line = Width.cut(SafeText.line(LogLine.render(logLevel, message)), dialog.screen.size().columns - 1)
    dialog.note(dialog.screen.asidePaint.text(line, "yellow"))
  })

/** Shows what plugins print, line by line. */
const prints = (dialog: Dialog): (text: string) => void => {
  const { asidePaint, size } = dialog.screen
  let rest = ""
  return (text) => {
    // Nothing more comes behind an empty piece.
    const lines = SafeText.plain(rest + text + (text === "" && rest !== "" ? "\n" : "")).split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) {
      for (const row of Wrap.lines([{ text: line, style: { attributes: ["dim"] } }], size().columns - 1, asidePaint)) dialog.note(row)
    }
  }
}

const slashed = (names: ReadonlyArray<string>): string => either(names.map((name) => `/${name}`))

const misunderstood = (typed: string, found: Exclude<SlashCommands.Found<unknown>, { readonly _tag: "Command" }>): string => {
  if (found._tag === "Several") return `/${typed} could be ${slashed(found.names)}.`
  return found.meant.length === 0
    ? `Unknown command /${typed}. Type /help for the commands, or put a space before the slash to send the line as a prompt.`
    : `Unknown command /${typed}. Did you mean ${slashed(found.meant)}?`
}

/** Does what a line says. */
const perform: (dialog: Dialog, line: string, depth: number) => Effect.Effect<Outcome, never, SessionServices> = Effect.fnUntraced(
  function*(dialog, line, depth) {
    if (line.trim() === "") return undefined
    if (line.startsWith("!") && line.trim() !== "!") return yield* ShellLine.run(dialog, line.slice(1).trim())
    const parsed = SlashCommands.parse(line)
    if (parsed === undefined) return yield* Turn.run(dialog, line.trim())
    const found = SlashCommands.find(dialog.commands, parsed.name)
    if (found._tag !== "Command" || depth > maxTyped) {
      const said = found._tag === "Command" ? `/${parsed.name} names itself: correct quick_commands.` : misunderstood(parsed.name, found)
      say(dialog, dialog.screen.asidePaint.text(said, "yellow"), "")
      return undefined
    }
    const next = yield* found.command.run(parsed.argument, dialog)
    switch (next._tag) {
      case "Stay":
        return undefined
      case "Leave":
        return 0
      case "Send":
        return yield* Turn.run(dialog, next.prompt)
      case "Type":
        return yield* perform(dialog, next.line, depth + 1)
    }
  }
)

/** A message of a plugin, or of what works in the background. */
interface Message {
  readonly _tag: "Message"
  readonly text: string
  /** Text shown for it. */
  readonly shown: string
}

/** Waits for the next input: of a plugin, of the queue, of background work, or typed. */
const nextLine = Effect.fnUntraced(function*(dialog: Dialog): Effect.fn.Return<Message | PromptLine.Prompted, never, BackgroundWork> {
  const background = yield* BackgroundWork
  while (true) {
    const message = yield* dialog.injected.take
    if (message !== undefined) return { _tag: "Message", text: message, shown: message }
    const text = dialog.waiting.shift()
    if (text !== undefined) return { _tag: "Line", text }
    const ids = sessionsOf(dialog)
    const told = (yield* Effect.forEach(ids, background.take)).flat()
    if (told.length > 0) {
      const shown = told.map((message) => message.split("\n", 1)[0] ?? "").join("\n")
      return { _tag: "Message", text: told.join("\n\n"), shown }
    }
    yield* tellNotices(dialog)
    const arrived = Effect.raceAllFirst([dialog.injected.arrived, ...ids.map(background.arrived)])
    const prompted = yield* Effect.raceFirst(PromptLine.prompt(dialog), arrived)
    if (prompted !== undefined) return prompted
  }
})

const converse = Effect.fnUntraced(function*(dialog: Dialog): Effect.fn.Return<number, never, SessionServices> {
  const { history } = dialog.options
  while (true) {
    const line = yield* nextLine(dialog)
    if (line._tag === "Leave") return line.code
    if (line._tag === "Message") {
      PromptLine.echo(dialog, line.shown)
      const code = yield* Turn.run(dialog, line.text)
      if (code !== undefined) return code
      continue
    }
    if (line.text.trim() === "") continue
    PromptLine.echo(dialog, line.text)
    // A command for the shell is remembered as long as the session, and no longer.
    yield* history.add(line.text, { keep: !line.text.startsWith("!") })
    const code = yield* perform(dialog, line.text, 0)
    if (code !== undefined) return code
  }
})

/** Shows what reviews of the conversation did. */
const tellNotices = Effect.fnUntraced(function*(dialog: Dialog) {
  const background = yield* BackgroundWork
  const notices = (yield* Effect.forEach(sessionsOf(dialog), background.takeNotices)).flat()
  if (notices.length > 0) say(dialog, ...notices.map((notice) => dialog.screen.asidePaint.text(SafeText.line(notice), "dim")), "")
})

/** Gives a review of the conversation a little time before the program is left. */
const awaitReview = Effect.fnUntraced(function*(dialog: Dialog) {
  const background = yield* BackgroundWork
  const ids = sessionsOf(dialog)
  const items = (yield* Effect.forEach(ids, background.list)).flat()
  if (items.some(({ kind }) => kind === "review")) {
    say(dialog, dialog.screen.asidePaint.text(`Reviewing the conversation for memory and skills, up to ${reviewSeconds} s. Ctrl+C ends it.`, "dim"))
    const pressed = PromptLine.typed(dialog, (key) => Effect.succeed(Editor.apply(Editor.empty, key, []).action._tag === "Interrupt" ? true : undefined), Effect.void, true)
    const settled = Effect.asVoid(Effect.forEach(ids, background.reviewed))
    yield* Effect.raceAllFirst([settled, Effect.asVoid(pressed), Effect.sleep(Duration.seconds(reviewSeconds))])
  }
  yield* tellNotices(dialog)
})

const open = Effect.fnUntraced(function*(dialog: Dialog) {
  const { options, screen } = dialog
  const { session } = options
  const look = { columns: screen.size().columns, paint: screen.asidePaint }
  say(dialog, ...Overview.banner(options.about, session.id, look), "")
  if (session.known === undefined) return
  yield* Effect.catch(SessionSwitch.enter(dialog, session.known), (error) => Effect.sync(() => complain(dialog, error)))
})

/** Talks until the user leaves. Gives the exit code. */
export const run = (options: InteractiveOptions): Effect.Effect<number, never, SessionServices> =>
  Effect.gen(function*() {
    const dialog = yield* make(options)
    if (options.printed !== undefined) yield* options.printed(prints(dialog))
    if (options.attach !== undefined) yield* options.attach(dialog.injected.conversation)
    return yield* open(dialog).pipe(
      Effect.andThen(converse(dialog)),
      // Ctrl+C leaves at once.
      Effect.tap((code) => code === 0 ? awaitReview(dialog) : Effect.void),
      Effect.ensuring(SessionSwitch.leave(dialog)),
      Effect.provide(Logger.layer([logger(dialog)]))
    )
  }).pipe(Effect.scoped, Effect.withSpan("Interactive.run"))
