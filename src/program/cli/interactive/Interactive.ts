/**
 * The interactive session of `hermes chat`: a prompt, the agent's work on it, and the next prompt.
 *
 * - A line goes to the agent, unless it begins with `!` (the shell, without the model; its output is sent with the next
 *   message), with `#` (a note for the memory) or is a command (`/name`). A line that begins with a space is always a
 *   message.
 * - Ctrl+C stops the current work; the output so far and the session remain. A second Ctrl+C within two seconds exits
 *   with code 130. At the prompt, Ctrl+C clears the line. Ctrl+D exits with code 0.
 * - Log lines of the runtime are written between the lines of the session, never inside them.
 * - On every exit, `on_session_finalize` is emitted and the command that resumes the session is shown.
 *
 * Settings and the terminal are passed as values; services come from the Context. The session uses the terminal
 * exclusively. The caller must ensure that a terminal is available.
 *
 * Source: `hermes-product.md` §1.3, §1.7, §1.8 and §1.9.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import type { Values } from "../../../base/config/Settings.ts"
import { redactText } from "../../../base/domain/Redaction.ts"
import { type HostEvent, isContinuation } from "../../../serve/host/HostEvent.ts"
import * as LiveSession from "../../../serve/host/LiveSession.ts"
import * as LiveStatus from "../../../serve/host/LiveStatus.ts"
import { joinAlternatives } from "../Failure.ts"
import { reviewSeconds } from "../SingleQuery.ts"
import * as LogLine from "../LogLine.ts"
import * as GoBack from "./GoBack.ts"
import * as ModeCommands from "./ModeCommands.ts"
import * as SafeText from "../render/SafeText.ts"
import * as LinearScreen from "../render/LinearScreen.ts"
import * as Screen from "../render/Screen.ts"
import * as Transcript from "../render/Transcript.ts"
import * as Theme from "../render/Theme.ts"
import * as BuiltinCommands from "./BuiltinCommands.ts"
import * as Completions from "./Completions.ts"
import { attachNamedFiles, makePictureFinder } from "./Attachments.ts"
import {
  printError,
  type Dialog,
  type DialogCommand,
  type Feed,
  type InteractiveOptions,
  showNote,
  rememberLine,
  type SessionServices,
  printLines,
  type TypedLine
} from "./Dialog.ts"
import * as Editor from "./Editor.ts"
import * as Notifications from "./Notifications.ts"
import * as Picker from "./Picker.ts"
import * as PromptLine from "./PromptLine.ts"
import * as SessionSwitch from "./SessionSwitch.ts"
import * as ShellLine from "./ShellLine.ts"
import * as SlashCommands from "./SlashCommands.ts"
import { abbreviateHome } from "./StatusLine.ts"
import * as ThemeCommand from "./ThemeCommand.ts"
import type { Next } from "./SlashCommands.ts"
import { makeKeyboard } from "./TerminalDevice.ts"
import * as Turn from "./Turn.ts"
import * as ViKeys from "./ViKeys.ts"

/** Returns the line to which a quick command expands, or `undefined` if the command does not define a line. */
const formatQuickLine = ({ command, target, type }: Values["quickCommands"][string]): string | undefined => {
  if (type === "exec") return command === undefined ? undefined : `!${command}`
  return target === undefined ? undefined : target.startsWith("/") ? target : `/${target}`
}

/** Creates the commands of `quick_commands`: each runs a shell line or is an alias of another line. */
const makeQuickCommands = (quickCommands: Values["quickCommands"]): ReadonlyArray<DialogCommand> =>
  Object.entries(quickCommands).flatMap(([name, quick]) => {
    const line = formatQuickLine(quick)
    if (line === undefined) return []
    return [
      {
        name,
        help: `Same as ${redactText(line)}`,
        run: (argument) => Effect.succeed<Next>({ _tag: "Type", line: `${line} ${argument}`.trimEnd() })
      }
    ]
  })

export type { About, Dialog, DialogCommand, InteractiveOptions } from "./Dialog.ts"

/**
 * Maximum number of expansions of quick commands in one line. Because a quick command may name another quick command, a
 * higher number indicates a cycle.
 */
const maxTyped = 10

/** Exit code, or `undefined` to continue the session. */
type Outcome = number | undefined

/** Wraps a reader so that each event it returns is also passed to `follow`. */
const followReader = (
  { arrived, poll, take }: LiveSession.Reader,
  follow: (event: HostEvent) => void
): LiveSession.Reader => ({
  arrived,
  poll: () => {
    const event = poll()
    if (event !== undefined) follow(event)
    return event
  },
  take: Effect.tap(take, (event) => Effect.sync(() => follow(event)))
})

/** Reads the status periodically and shows it. */
const keepStatus = (
  { refresh }: LiveStatus.LiveStatus,
  screen: Transcript.Transcript
): Effect.Effect<void, never, Scope.Scope> =>
  refresh.pipe(
    Effect.andThen(Effect.sync(screen.refresh)),
    Effect.repeat(Schedule.spaced("1 second")),
    Effect.forkScoped,
    Effect.asVoid
  )

/** Creates the dialog: opens the live session and starts to show it. */
const make = Effect.fnUntraced(function* (
  options: InteractiveOptions,
  screen: Transcript.Transcript,
  feed: Feed
): Effect.fn.Return<Dialog, never, Scope.Scope | SessionServices> {
  const { about, display, input, newSession, preload, terminal } = options
  const live = yield* LiveSession.make({
    forms: "client",
    session: { id: options.session.id, cwd: about.cwd },
    cwd: about.cwd,
    newSession,
    input: { streaming: display.streaming, platform: "cli", ...input },
    mode: options.mode,
    prepare: preload
  })
  // This process writes to the terminal, so turns wait for the reader and it is never disconnected.
  const reader = yield* live.subscribe({ whenBehind: "wait" })
  const statusLine =
    options.status === undefined
      ? undefined
      : { ...options.status, status: yield* LiveStatus.make(live, about.cwd, input.tools) }
  if (statusLine !== undefined) yield* keepStatus(statusLine.status, screen)
  const notifications =
    options.notify === undefined ? undefined : yield* Notifications.make(options.notify, terminal.write)
  const clock = yield* Clock.Clock
  const context = yield* Effect.context<SessionServices>()
  const { color, theme: current } = terminal.paint
  const themes =
    options.theme === undefined || current === undefined || !color
      ? undefined
      : ThemeCommand.make(options.theme, current)
  if (themes !== undefined) terminal.write(Theme.query)
  const dialog: Dialog = {
    options,
    live,
    reader: followReader(reader, (event) => {
      statusLine?.status.follow(event)
      notifications?.follow(event, clock.currentTimeMillisUnsafe())
    }),
    screen,
    feed,
    statusLine,
    files: yield* Completions.fileList,
    pictures: yield* makePictureFinder,
    argumentWords: ({ words }) =>
      words === undefined ? Effect.succeed([]) : Effect.provideContext(words(dialog), context),
    keyboard: makeKeyboard(terminal, (report) => {
      if (themes?.report(report) === true) screen.repaint()
    }),
    themes,
    commands: [
      ...BuiltinCommands.commands,
      ...makeQuickCommands(options.quickCommands ?? {}),
      ...(options.commands ?? [])
    ],
    verbosity: display.toolProgress,
    plan: undefined,
    shared: [],
    vi: display.editingMode === "vi" ? ViKeys.begin : undefined,
    editor: Editor.empty,
    interruptedAt: -Infinity,
    waiting: [],
    sent: new Map(),
    echoed: new Set(),
    questions: [],
    asked: undefined
  }
  return dialog
})

/** Creates a logger that prints log entries as lines of the session. */
const makeLogger = (screen: Transcript.Transcript, feed: Feed): Logger.Logger<unknown, void> =>
  Logger.make(({ logLevel, message }) => {
    showNote({ feed }, screen.asidePaint.text(SafeText.toLine(LogLine.render(logLevel, message)), "yellow"))
  })

/** Returns a function that shows the output of plugins line by line. */
const makePrinter = ({ feed, screen: { asidePaint } }: Dialog): ((text: string) => void) => {
  let rest = ""
  return (text) => {
    // An empty piece marks the end of the output.
    const lines = SafeText.toPlainText(rest + text + (text === "" && rest !== "" ? "\n" : "")).split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) showNote({ feed }, asidePaint.text(line, "dim"))
  }
}

const formatCommandNames = (names: ReadonlyArray<string>): string => joinAlternatives(names.map((name) => `/${name}`))

const describeUnknownCommand = (
  typed: string,
  found: Exclude<SlashCommands.CommandMatch<unknown>, { readonly _tag: "Command" }>
): string => {
  if (found._tag === "Several") return `/${typed} could be ${formatCommandNames(found.names)}.`
  return found.meant.length === 0
    ? `Unknown command /${typed}. Type /help for the commands, or put a space before the slash to send the ` +
        "line as a prompt."
    : `Unknown command /${typed}. Did you mean ${formatCommandNames(found.meant)}?`
}

/** Sends a message that is already on the screen. */
const sendMessage = ({ echoed, live }: Dialog, message: LiveSession.NewMessage): Effect.Effect<undefined> =>
  Effect.map(live.send(message), (sent) => {
    echoed.add(sent.message.id)
    return undefined
  })

/** Stores a note from the user in the memory. */
const storeNote = (
  dialog: Dialog,
  text: string,
  remember: NonNullable<InteractiveOptions["remember"]>
): Effect.Effect<undefined> =>
  Effect.match(remember(text), {
    onFailure: (error) => void printError(dialog, error),
    onSuccess: (where) =>
      void printLines(
        dialog,
        dialog.screen.asidePaint.text(
          `Saved in ${SafeText.toLine(abbreviateHome(where, dialog.options.about.userHome))}. New sessions use it.`,
          "muted"
        ),
        ""
      )
  })

/** Executes a line. Turns wait while the terminal is busy. */
const performLine: (dialog: Dialog, typed: TypedLine, depth: number) => Effect.Effect<Outcome, never, SessionServices> =
  Effect.fnUntraced(function* (dialog, { shown, text: line }, depth) {
    const holdTurns = <A, R>(work: Effect.Effect<A, never, R>) => Effect.scoped(Effect.andThen(dialog.live.hold, work))
    if (line.trim() === "") return undefined
    if (line.startsWith("!") && !/^!+\s*$/.test(line)) return yield* holdTurns(ShellLine.run(dialog, line))
    if (/^#\s*\S[^\n]*$/.test(line) && dialog.options.remember !== undefined)
      return yield* storeNote(dialog, line.slice(1).trim(), dialog.options.remember)
    const parsed = SlashCommands.parse(line)
    if (parsed === undefined)
      return yield* Effect.flatMap(attachNamedFiles(dialog, line.trim()), (prompt) =>
        sendMessage(dialog, { prompt: ShellLine.withShared(dialog, prompt), shown })
      )
    const found = SlashCommands.find(dialog.commands, parsed.name)
    if (found._tag !== "Command" || depth > maxTyped) {
      const said =
        found._tag === "Command"
          ? `/${parsed.name} refers to itself: correct quick_commands.`
          : describeUnknownCommand(parsed.name, found)
      printLines(dialog, dialog.screen.asidePaint.text(said, "yellow"), "")
      return undefined
    }
    const next = yield* holdTurns(found.command.run(parsed.argument, dialog))
    switch (next._tag) {
      case "Stay":
        return undefined
      case "Leave":
        return next.code
      case "Send":
        return yield* sendMessage(dialog, { prompt: next.prompt })
      case "Type":
        return yield* performLine(dialog, { shown: next.line, text: next.line }, depth + 1)
    }
  })

/** Shows an event outside of a shown turn, or the turn that starts with it. */
const handleEvent = Effect.fnUntraced(function* (
  dialog: Dialog,
  event: HostEvent
): Effect.fn.Return<Outcome, never, SessionServices> {
  switch (event._tag) {
    case "TurnStarted": {
      const { message } = event.turn
      dialog.sent.delete(message.id)
      if (!isContinuation(message) && !dialog.echoed.delete(message.id)) PromptLine.echo(dialog, message.shown)
      return yield* Turn.show(dialog, event.turn)
    }
    case "QuestionAsked":
      if (event.question._tag === "Plan") dialog.plan = event.question
      return undefined
    case "QuestionClosed":
      if (event.id === dialog.plan?.id) dialog.plan = undefined
      return undefined
    case "Notice":
      if (event.level === "error") printError(dialog, new Error(event.message))
      else printNotices(dialog, event.message.split("\n"))
      return undefined
    default:
      return undefined
  }
})

/**
 * Waits for the next line: a line typed while work was in progress, or a line typed at the prompt. Returns `undefined`
 * if an event comes first.
 */
const waitForLine = Effect.fnUntraced(function* (
  dialog: Dialog
): Effect.fn.Return<PromptLine.PromptResult | undefined> {
  const { live, reader, waiting } = dialog
  const { queue, turn } = yield* live.state
  const line = turn === undefined && queue.length === 0 ? waiting.shift() : undefined
  if (line !== undefined) return { _tag: "Line", ...line }
  let typed: PromptLine.PromptResult | undefined
  const prompted = Effect.map(PromptLine.prompt(dialog), (line) => {
    typed = line
  })
  // A line sent at the same moment as an event is not lost.
  yield* Effect.raceFirst(prompted, reader.arrived)
  return typed
})

/** Lets the user choose a previously sent line, newest first. */
const searchHistory = Effect.fnUntraced(function* (dialog: Dialog) {
  const entries = Array.from(new Set(dialog.options.history.entries().toReversed()))
  const choices = entries.map((value) => ({ label: SafeText.toLine(redactText(value)), value }))
  const found = yield* Picker.choose(dialog, { title: "History", choices })
  if (found !== undefined) dialog.editor = Editor.withText(Editor.empty, found)
})

const runDialog = Effect.fnUntraced(function* (dialog: Dialog): Effect.fn.Return<number, never, SessionServices> {
  while (true) {
    const event = dialog.reader.poll()
    if (event !== undefined) {
      const code = yield* handleEvent(dialog, event)
      if (code !== undefined) return code
      continue
    }
    const { plan } = dialog
    if (plan !== undefined) {
      dialog.plan = undefined
      yield* ModeCommands.askForPlan(dialog, plan)
      continue
    }
    const line = yield* waitForLine(dialog)
    if (line === undefined) continue
    if (line._tag === "Leave") return line.code
    if (line._tag === "Search") {
      yield* searchHistory(dialog)
      continue
    }
    if (line._tag === "GoBack") {
      yield* GoBack.goBack(dialog)
      continue
    }
    if (line._tag === "Transcript") {
      yield* PromptLine.showTranscript(dialog)
      continue
    }
    if (line.text.trim() === "") continue
    PromptLine.echo(dialog, line.shown)
    yield* rememberLine(dialog, line)
    const code = yield* performLine(dialog, line, 0)
    if (code !== undefined) return code
  }
})

/** Shows the results of reviews of the conversation. */
const printNotices = (dialog: Dialog, notices: ReadonlyArray<string>): void => {
  if (notices.length > 0)
    printLines(dialog, ...notices.map((notice) => dialog.screen.asidePaint.text(SafeText.toLine(notice), "dim")), "")
}

/** Waits a short time for a review of the conversation before the program exits. */
const awaitReview = Effect.fnUntraced(function* (dialog: Dialog) {
  const { background } = dialog.live
  if ((yield* background.list).some(({ kind }) => kind === "review")) {
    printLines(
      dialog,
      dialog.screen.asidePaint.text(
        `Reviewing the conversation for memory and skills, up to ${reviewSeconds} s. Ctrl+C ends it.`,
        "dim"
      )
    )
    const pressed = PromptLine.readKeys(
      dialog,
      (key) => Effect.succeed(Editor.apply(Editor.empty, key, []).action._tag === "Interrupt" ? true : undefined),
      Effect.void,
      true
    )
    yield* Effect.raceAllFirst([
      background.reviewed,
      Effect.asVoid(pressed),
      Effect.sleep(Duration.seconds(reviewSeconds))
    ])
  }
  printNotices(dialog, yield* background.takeNotices)
})

const openDialog = Effect.fnUntraced(function* (dialog: Dialog) {
  const { session } = dialog.options
  yield* SessionSwitch.printBanner(dialog)
  if (session.known === undefined) return
  yield* Effect.catch(SessionSwitch.openSession(dialog, session.known.id), (error) =>
    Effect.sync(() => printError(dialog, error))
  )
})

/** Runs the conversation until the user leaves. Returns the exit code. */
export const run = (options: InteractiveOptions): Effect.Effect<number, never, SessionServices> =>
  Effect.suspend(() => {
    const { terminal } = options
    const sink: Screen.Sink = { write: terminal.write, terminal: true, paint: terminal.paint }
    let getVerbosity = () => options.display.toolProgress
    const own = terminal.isLinear
      ? LinearScreen.make(terminal.write)
      : Screen.make({ answer: sink, aside: sink, size: terminal.size })
    const screen = Transcript.make(own, {
      markdown: options.display.finalResponseMarkdown,
      showReasoning: options.display.showReasoning,
      previewLength: options.display.toolPreviewLength,
      verbosity: () => getVerbosity()
    })
    const feed: Feed = { put: screen.put }
    return Effect.gen(function* () {
      const dialog = yield* make(options, screen, feed)
      getVerbosity = () => dialog.verbosity
      if (options.printed !== undefined) yield* options.printed(makePrinter(dialog))
      if (options.attach !== undefined) yield* options.attach(dialog.live.conversation)
      return yield* openDialog(dialog).pipe(
        Effect.andThen(runDialog(dialog)),
        // Ctrl+C exits without waiting.
        Effect.tap((code) => (code === 0 ? awaitReview(dialog) : Effect.void)),
        Effect.ensuring(SessionSwitch.leave(dialog))
      )
    }).pipe(Effect.scoped, Effect.provide(Logger.layer([makeLogger(screen, feed)])), Effect.withSpan("Interactive.run"))
  })
