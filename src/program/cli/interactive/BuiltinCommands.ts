/**
 * The program's own commands of a session.
 *
 * `/clear` also starts a new session, because the screen is then empty; nothing is lost, and both sessions can be
 * resumed. `/retry` sends the same prompt again in the same session: stored messages are never removed.
 *
 * Commands about what works beside the conversation, and about messages to an agent that is busy, do the same while it
 * works and at the prompt, as far as there is something to do. `/stop` ends the turn that is under way, with its
 * children. At the prompt it ends what works in the background; with the beginning of an id it ends that one, at any
 * time.
 *
 * Source: `hermes-product.md` §1.8 and §1.9.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Prompt from "effect/ai/Prompt"
import type { Item } from "../../../agent/BackgroundWork.ts"
import { Children } from "../../../agent/Children.ts"
import type { AgentError } from "../../../base/domain/AgentError.ts"
import * as Cost from "../../../base/domain/Cost.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import * as ContextFill from "../../../serve/host/ContextFill.ts"
import * as SessionReports from "../../../serve/host/SessionReports.ts"
import { SessionStore } from "../../../store/SessionStore.ts"
import { ToolRegistry } from "../../../tools/ToolRegistry.ts"
import * as ErrorLine from "../ErrorLine.ts"
import { findOtherFolder } from "../SessionChoice.ts"
import { plainStyle } from "../render/Paint.ts"
import * as SafeText from "../render/SafeText.ts"
import type { Verbosity } from "../render/ToolFeed.ts"
import * as ToolText from "../render/ToolText.ts"
import * as UsageText from "../render/UsageText.ts"
import * as Width from "../render/Width.ts"
import * as Wrap from "../render/Wrap.ts"
import * as ChangeCommands from "./ChangeCommands.ts"
import * as BusyPrompt from "./BusyPrompt.ts"
import {
  printError,
  type Dialog,
  type DialogCommand,
  showNote,
  formatResumeCommand,
  printLines,
  type SessionServices
} from "./Dialog.ts"
import * as ModelPicker from "./ModelPicker.ts"
import * as ModeCommands from "./ModeCommands.ts"
import * as ProgramCommands from "./ProgramCommands.ts"
import * as ShareCommands from "./ShareCommands.ts"
import * as ThemeCommand from "./ThemeCommand.ts"
import * as Overview from "./Overview.ts"
import * as Picker from "./Picker.ts"
import * as Recap from "./Recap.ts"
import * as SessionSwitch from "./SessionSwitch.ts"
import { type Next, stay } from "./SlashCommands.ts"

const leave: Next = { _tag: "Leave", code: 0 }

/** Makes the words of an argument with their meanings. */
const makeWords =
  (meanings: Readonly<Record<string, string>>): DialogCommand["words"] =>
  () =>
    Effect.succeed(Object.entries(meanings).map(([label, detail]) => ({ label, detail, value: label })))

/** Sessions that `/sessions` lists. */
const listed = 15

type Failure = AgentError

/** A command that ends at the prompt, and whose failure is a line. */
const makeAction =
  (work: (argument: string, dialog: Dialog) => Effect.Effect<void, Failure, SessionServices>): DialogCommand["run"] =>
  (argument, dialog) =>
    work(argument, dialog).pipe(
      Effect.catch((error) => Effect.sync(() => printError(dialog, error))),
      Effect.as(stay)
    )

const help = makeAction((_, dialog) =>
  Effect.sync(() =>
    printLines(
      dialog,
      ...UsageText.renderPairs(
        dialog.commands.map(({ aliases = [], help, name, usage = "" }) => {
          const others = aliases.map((alias) => ` (/${alias})`).join("")
          return [
            SafeText.toLine(`/${name}${usage === "" ? "" : ` ${usage}`}${others}`),
            SafeText.toLine(help)
          ] as const
        })
      ),
      "",
      ...UsageText.renderPairs([
        ["!COMMAND", "Run a shell command; the next message tells the model what it printed (!! does not)"],
        ["#TEXT", "Keep a note in the memory, for new sessions"],
        ["Enter", "Send; during a turn, queue for the next one"],
        ["Alt+Enter, Ctrl+J, \\ Enter", "Insert a line break"],
        ["Esc", "Stop the turn; twice at the prompt: go back to an earlier message"],
        ["Ctrl+C", "Stop the turn, or clear the line; twice to exit"],
        ["@PATH", "Attach a file; :10-20 behind it attaches these lines"],
        ["Tab", "Complete a command or a file"],
        ["Shift+Tab", "Next mode: plan, ask, edits, auto"],
        ["Ctrl+R", "Search what was sent before"],
        ["Ctrl+V", "Attach the picture on the clipboard"],
        ["Ctrl+G", "Write in $VISUAL or $EDITOR"],
        ["Ctrl+O", "Go through the conversation: fold and open calls"],
        ["Ctrl+D", "Leave"]
      ]),
      ""
    )
  )
)

const makeBeginCommand = (prepare: (dialog: Dialog) => void) =>
  makeAction(
    Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
      const { from, id, isResumable } = yield* dialog.live.begin(argument === "" ? undefined : argument)
      prepare(dialog)
      const { asidePaint } = dialog.screen
      printLines(
        dialog,
        `New session ${id}`,
        ...(isResumable ? [asidePaint.text(`Previous session: ${formatResumeCommand(from)}`, "dim")] : []),
        ""
      )
    })
  )

/** Shows a tool that the user picks: its description and its arguments. */
const pickTool = Effect.fnUntraced(function* (dialog: Dialog, offered: ReadonlyArray<SessionReports.OfferedTools>) {
  const { definitions } = yield* ToolRegistry.use(({ snapshot }) => snapshot(dialog.options.input.tools ?? {}))
  const choices = offered.flatMap(({ names, toolset }) =>
    names.map((name) => {
      const definition = definitions.find((one) => one.name === name)
      return {
        label: SafeText.toLine(name),
        detail: SafeText.toLine(`${toolset}: ${definition?.description ?? ""}`),
        value: { name, definition }
      }
    })
  )
  const chosen = yield* Picker.choose(dialog, { title: "Tools", choices })
  if (chosen === undefined) return
  const { description = "", parameters = {} } = chosen.definition ?? {}
  const { asidePaint, size } = dialog.screen
  const wrapped = SafeText.sanitise(description)
    .trim()
    .split("\n")
    .flatMap((text) => Wrap.wrapLines([{ text, style: plainStyle }], size().columns - 1, asidePaint))
  const properties: unknown = Reflect.get(parameters, "properties")
  const names = typeof properties === "object" && properties !== null ? Object.keys(properties) : []
  printLines(
    dialog,
    asidePaint.text(SafeText.toLine(chosen.name), "bold"),
    ...wrapped,
    asidePaint.text(names.length === 0 ? "No arguments" : SafeText.toLine(`Arguments: ${names.join(", ")}`), "muted"),
    ""
  )
})

const tools = makeAction(
  Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
    const offered = yield* SessionReports.listTools(dialog.options.input.tools)
    if (argument === "" && offered.length > 0) return yield* pickTool(dialog, offered)
    const rows = offered.map(
      ({ names, toolset }) => [SafeText.toLine(toolset), SafeText.toLine(names.join(", "))] as const
    )
    printLines(dialog, ...(rows.length === 0 ? ["No tools: see `hermes tools`."] : UsageText.renderPairs(rows)), "")
  })
)

const measureFill = ({ live, options }: Dialog) => ContextFill.measure(live, options.input)

const usage = makeAction(
  Effect.fnUntraced(function* (_: string, dialog: Dialog) {
    const { duration, side, ...sums } = yield* SessionReports.readUsage(dialog.live)
    printLines(
      dialog,
      ...UsageText.renderUsage({
        ...sums,
        side: Array.from(side, ([task, { cost, usage }]) => ({ task, usage, cost: Cost.toSpent(cost) })),
        duration: ToolText.formatDuration(duration),
        context: Overview.formatContext(yield* measureFill(dialog))
      }),
      ""
    )
  })
)

const context = makeAction(
  Effect.fnUntraced(function* (_: string, dialog: Dialog) {
    printLines(dialog, ...Overview.renderContext(yield* measureFill(dialog), dialog.screen.asidePaint), "")
  })
)

const insights = makeAction(
  Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
    const { defaultDays, isPeriod, renderLines, mostDays } = yield* Effect.promise(
      () => import("../InsightsCommand.ts")
    )
    const days = argument === "" ? defaultDays : Number(argument)
    if (!isPeriod(days)) return printLines(dialog, `/insights takes a number of days, 1 to ${mostDays}.`, "")
    const { asidePaint, size } = dialog.screen
    printLines(dialog, ...(yield* renderLines(days, { columns: size().columns, paint: asidePaint })), "")
  })
)

const history = makeAction(
  Effect.fnUntraced(function* (_: string, dialog: Dialog) {
    const messages = yield* dialog.live.messages
    const { asidePaint, size } = dialog.screen
    const lines = Recap.render(messages, Recap.full, size().columns, asidePaint)
    printLines(dialog, ...(lines.length === 0 ? ["No messages yet."] : lines), "")
  })
)

const expand = makeAction(
  Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
    const { found, isFiltered, total } = yield* SessionReports.findRemovedMessages(dialog.live, argument)
    if (total === 0) return printLines(dialog, "Nothing was compacted: the conversation is whole.", "")
    if (found.length === 0)
      return printLines(
        dialog,
        "No message that was compacted fits. Fewer words find more; word* finds words that begin so.",
        ""
      )
    const { asidePaint, size } = dialog.screen
    // Answers to a question that stayed are shown below a mark in its place.
    const shown =
      found[0]?.role === "user" ? found : [Prompt.userMessage({ content: [Prompt.textPart({ text: "…" })] }), ...found]
    printLines(
      dialog,
      `${UsageText.formatQuantity(total, "message")} left out of the conversation${isFiltered ? `, ${UsageText.formatQuantity(found.length, "message")} around "${SafeText.toLine(argument)}"` : ""}:`,
      "",
      ...Recap.render(shown, Recap.full, size().columns, asidePaint),
      ""
    )
  })
)

const title = makeAction(
  Effect.fnUntraced(function* (argument: string, { live, screen }: Dialog) {
    if (argument !== "") return printLines({ screen }, `Title: ${yield* live.rename(argument)}`, "")
    const stored = yield* live.known
    const now = stored?.title ?? (yield* live.state).session.title
    printLines({ screen }, now === undefined ? "No title. Set one with /title NAME." : SafeText.toLine(now), "")
  })
)

const sessions = makeAction(
  Effect.fnUntraced(function* (_: string, dialog: Dialog) {
    const list = yield* SessionStore.use((store) => store.list({ limit: listed }))
    const now = yield* Clock.currentTimeMillis
    const { session } = yield* dialog.live.state
    const lines = Overview.renderSessions(list, session.id, now, dialog.screen.size().columns)
    printLines(
      dialog,
      ...(lines.length === 0
        ? ["No sessions yet."]
        : [...lines, "", "Resume one with /resume and its id, id prefix or title."]),
      ""
    )
  })
)

const compactConversation: DialogCommand["run"] = Effect.fnUntraced(function* (argument, dialog): Effect.fn.Return<
  Next,
  never,
  SessionServices
> {
  const { live, screen } = dialog
  const here = /^here(?:\s+(\d+))?$/iu.exec(argument)
  const keepExchanges = here === null ? undefined : Math.max(1, Number(here[1] ?? 1))
  const focus = argument === "" || keepExchanges !== undefined ? undefined : argument
  const before = yield* live.state
  const since = yield* Clock.currentTimeMillis
  const worked = yield* BusyPrompt.runWork(dialog, {
    run: live.compact({ focus, keepExchanges }),
    stop: Effect.succeed(false),
    view: (_, now) =>
      now - since < 1000
        ? []
        : [screen.asidePaint.text(`┊ compacting · ${ToolText.formatElapsed(now - since)} · Ctrl+C stops`, "dim")]
  })
  if (worked._tag === "Leave") {
    printLines(dialog, "")
    return worked
  }
  if (Exit.isFailure(worked.exit)) {
    if (worked.stopped) printLines(dialog, screen.asidePaint.text("Not compacted: stopped.", "yellow"), "")
    else
      printLines(
        dialog,
        screen.asidePaint.text(SafeText.toLine(ErrorLine.render(ErrorLine.fromCause(worked.exit.cause).line)), "red"),
        ""
      )
    return stay
  }
  const { value } = worked.exit
  const formatSize = ({ messages, tokens }: typeof value.before): string =>
    `${messages} messages (about ${UsageText.abbreviateCount(tokens)} tokens)`
  if (value.sessionId === before.session.id) {
    printLines(
      dialog,
      SafeText.toLine(
        value.warning === undefined
          ? `Nothing to compact: the conversation has ${formatSize(value.before)}.`
          : `Not compacted: ${value.warning}`
      ),
      ""
    )
  } else {
    printLines(
      dialog,
      `Compacted from ${formatSize(value.before)} to ${formatSize(value.after)}.`,
      screen.asidePaint.text(`Session ${value.sessionId}`, "dim"),
      ""
    )
  }
  return stay
})

/** Sessions that can be chosen. */
const pickable = 200

const pickSession = Effect.fnUntraced(function* (dialog: Dialog) {
  const list = yield* SessionStore.use((store) => store.list({ limit: pickable }))
  const {
    session: { id }
  } = yield* dialog.live.state
  const now = yield* Clock.currentTimeMillis
  const { folder } = dialog.options
  const choices = yield* Effect.forEach(
    list.filter((session) => session.id !== id),
    (session) =>
      Effect.map(folder === undefined ? Effect.undefined : findOtherFolder(folder, session), (other) => ({
        label: SafeText.toLine(session.title ?? session.id),
        detail: [
          Overview.formatAgo(now - (session.endedAt ?? session.startedAt)),
          UsageText.formatQuantity(session.messageCount, "message"),
          ...(other === undefined ? [] : [other]),
          ...(session.title === undefined ? [] : [session.id])
        ].join(", "),
        value: session.id
      }))
  )
  if (choices.length === 0) return printLines(dialog, "No other session to resume.", "")
  return yield* Picker.choose(dialog, { title: "Sessions", choices })
})

const resume = makeAction(
  Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
    const reference = argument === "" ? yield* pickSession(dialog) : argument
    if (reference !== undefined) yield* SessionSwitch.resume(dialog, reference)
  })
)

const status = makeAction(
  Effect.fnUntraced(function* (_: string, dialog: Dialog) {
    const {
      live,
      options: { about },
      verbosity
    } = dialog
    const { duration, routes, session, stored, tokens } = yield* SessionReports.readStatus(live)
    printLines(
      dialog,
      ...Overview.renderStatus(
        about,
        { ...session, cwd: session.cwd ?? about.cwd, tokens },
        stored,
        duration,
        verbosity,
        routes
      ),
      ""
    )
  })
)

const levels: ReadonlyArray<Verbosity> = ["off", "new", "all", "verbose"]

const levelHelp: Readonly<Record<Verbosity, string>> = {
  off: "tool calls are not shown",
  new: "the first call of each tool is shown",
  all: "each tool call is shown",
  verbose: "each tool call is shown with its arguments and result"
}

const verbose = makeAction((argument, dialog) =>
  Effect.sync(() => {
    const wanted = levels.find((level) => level === argument.toLowerCase())
    if (argument !== "" && wanted === undefined)
      return printLines(dialog, `/verbose takes one of ${levels.join(", ")}.`, "")
    const next = wanted ?? levels[(levels.indexOf(dialog.verbosity) + 1) % levels.length] ?? "all"
    dialog.verbosity = next
    printLines(dialog, `${next}: ${levelHelp[next]}`, "")
  })
)

const retryPrompt: DialogCommand["run"] = (_, dialog) =>
  Effect.map(dialog.live.state, ({ session: { lastPrompt } }): Next => {
    if (lastPrompt !== undefined) return { _tag: "Send", prompt: lastPrompt }
    printLines(dialog, "No prompt to retry yet.", "")
    return stay
  })

/** Prints lines, between the parts of an answer where one is being written. */
const printNotes = (dialog: Dialog, ...lines: ReadonlyArray<string>): void => {
  for (const line of lines) showNote(dialog, line)
}

const formatWork = (dialog: Dialog, { at, id, since, what }: Item, now: number): string => {
  const facts = ` · ${at} · ${ToolText.formatElapsed(now - since)}`
  const room = Math.max(10, dialog.screen.size().columns - Width.measure(id) - Width.measure(facts) - 3)
  return `${id}  ${Width.cut(SafeText.toLine(Redaction.redactText(what)), room)}${dialog.screen.asidePaint.text(facts, "dim")}`
}

const listWork = Effect.fnUntraced(function* (dialog: Dialog) {
  const items = yield* dialog.live.background.list
  const now = yield* Clock.currentTimeMillis
  const paused = yield* Children.use(({ isPaused }) => isPaused)
  printNotes(
    dialog,
    ...(items.length === 0 ? ["No background work."] : items.map((item) => formatWork(dialog, item, now))),
    ...(paused ? ["Delegation is paused. Type /agents resume to allow it."] : []),
    ...(items.length === 0 ? [] : [dialog.screen.asidePaint.text("/stop ID stops one of them", "dim")])
  )
})

const manageAgents = Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
  const word = argument.toLowerCase()
  if (word === "") return yield* listWork(dialog)
  if (word !== "pause" && word !== "resume") {
    return printNotes(dialog, "/agents lists background work; /agents pause or resume controls delegation.")
  }
  yield* Children.use(({ pause }) => pause(word === "pause"))
  printNotes(dialog, word === "pause" ? "Delegation paused. Type /agents resume to allow it." : "Delegation allowed.")
})

const stopOne = Effect.fnUntraced(function* (id: string, dialog: Dialog) {
  const stopped = yield* dialog.live.background.stop(id)
  printNotes(
    dialog,
    stopped === undefined
      ? `No background work with id ${SafeText.toLine(id)}. /agents lists it.`
      : `Stopped ${stopped.id}.`
  )
})

const stopAll = Effect.fnUntraced(function* (dialog: Dialog) {
  const stopped = yield* dialog.live.background.stopAll
  printNotes(
    dialog,
    stopped.length === 0 ? "Nothing is running." : `Stopped ${stopped.map(({ id }) => id).join(", ")}.`
  )
})

/** A command that says something and ends at the prompt. */
const makeReportCommand =
  (work: (argument: string, dialog: Dialog) => Effect.Effect<void, never, SessionServices>): DialogCommand["run"] =>
  (argument, dialog) =>
    Effect.as(
      Effect.andThen(
        work(argument, dialog),
        Effect.sync(() => showNote(dialog, ""))
      ),
      stay
    )

/** At the prompt a message for later is one for now. */
const makeSendCommand =
  (name: string): DialogCommand["run"] =>
  (argument, dialog) =>
    Effect.sync((): Next => {
      if (argument !== "") return { _tag: "Send", prompt: argument }
      printNotes(dialog, `/${name} needs a message: /${name} MESSAGE`, "")
      return stay
    })

const backgroundCommands: ReadonlyArray<DialogCommand> = [
  {
    name: "queue",
    usage: "MESSAGE",
    help: "Send a message when the current turn is done",
    run: makeSendCommand("queue"),
    meanwhile: (argument, _, { send }) => (argument === "" ? Effect.void : send(argument, "queue"))
  },
  {
    name: "steer",
    usage: "MESSAGE",
    help: "Send a message to the running turn, with the next tool result",
    run: makeSendCommand("steer"),
    meanwhile: (argument, _, { send }) => (argument === "" ? Effect.void : send(argument, "steer"))
  },
  {
    name: "agents",
    aliases: ["tasks"],
    usage: "[pause|resume]",
    words: makeWords({ pause: "start no more sub-agents", resume: "allow them again" }),
    help: "List sub-agents and processes, or pause and resume delegation",
    run: makeReportCommand(manageAgents),
    meanwhile: manageAgents
  },
  {
    name: "stop",
    usage: "[ID]",
    help: "Stop the turn, or background work",
    run: makeReportCommand((id, dialog) => (id === "" ? stopAll(dialog) : stopOne(id, dialog))),
    meanwhile: (id, dialog, { stop }) => (id === "" ? stop : stopOne(id, dialog))
  }
]

const listSessionWords: DialogCommand["words"] = Effect.fnUntraced(function* (dialog: Dialog) {
  const list = yield* Effect.orElseSucceed(
    SessionStore.use((store) => store.list({ limit: pickable })),
    () => []
  )
  return list
    .map(({ id, title }) => ({
      label: SafeText.toLine(title ?? id),
      detail: title === undefined ? undefined : id,
      value: id
    }))
    .filter(({ value }) => value !== dialog.options.session.id)
})

export const commands: ReadonlyArray<DialogCommand> = [
  { name: "help", aliases: ["?"], help: "Show this", run: help },
  {
    name: "new",
    aliases: ["reset"],
    usage: "[TITLE]",
    help: "Start a new session",
    run: makeBeginCommand(() => undefined)
  },
  {
    name: "clear",
    help: "Clear the screen and start a new session",
    run: makeBeginCommand(({ screen }) => screen.clear())
  },
  {
    name: "tools",
    usage: "[list]",
    help: "Look up a tool, or list them all",
    words: () => Effect.succeed([{ label: "list", value: "list" }]),
    run: tools
  },
  { name: "usage", help: "Show the tokens, cache hits and cost of this session", run: usage },
  { name: "context", help: "Show what fills the context window", run: context },
  {
    name: "compact",
    aliases: ["compress"],
    usage: "[here N|TOPIC]",
    help: "Summarise the older part of the conversation, but for the last N exchanges",
    words: makeWords({ here: "but for the last exchange" }),
    run: compactConversation
  },
  { name: "insights", usage: "[DAYS]", help: "Show what the sessions of the last days used", run: insights },
  { name: "expand", usage: "[WORDS]", help: "Show what compaction left out of the conversation", run: expand },
  { name: "history", help: "Show the messages of this session", run: history },
  { name: "title", usage: "[NAME]", help: "Show or set the title of this session", run: title },
  {
    name: "resume",
    usage: "[SESSION]",
    help: "Resume another session; without one, choose it",
    words: listSessionWords,
    run: resume
  },
  { name: "sessions", help: "List the latest sessions", run: sessions },
  {
    name: "verbose",
    usage: "[LEVEL]",
    help: "Set the detail of tool output: off, new, all, verbose",
    words: makeWords(levelHelp),
    run: verbose
  },
  { name: "status", help: "Show the state of this session", run: status },
  { name: "retry", help: "Send the last prompt again", run: retryPrompt },
  ...ShareCommands.commands,
  ...ChangeCommands.commands,
  ...ModelPicker.commands,
  ...ModeCommands.commands,
  ...ThemeCommand.commands,
  ...ProgramCommands.commands,
  ...backgroundCommands,
  { name: "quit", aliases: ["exit"], help: "Leave", run: () => Effect.succeed(leave) }
]
