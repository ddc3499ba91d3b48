/**
 * The program's own commands of a session.
 *
 * `/clear` also starts a new session, because the screen is then empty; nothing is lost, and both sessions can be
 * resumed. `/retry` sends the same prompt again in the same session: stored messages are never removed.
 *
 * Commands for background work, and for messages to a busy agent, behave the same during a turn and at the prompt, if
 * they have something to act on. `/stop` ends the current turn with its sub-agents. At the prompt it ends the
 * background work. With the beginning of an id it ends the item with that id, at any time.
 *
 * Source: `hermes-product.md` §1.8 and §1.9.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as SessionReports from "../../../serve/host/SessionReports.ts"
import { hiddenSources } from "../../../store/SessionSearch.ts"
import { SessionStore } from "../../../store/SessionStore.ts"
import * as ErrorLine from "../ErrorLine.ts"
import * as SessionList from "../SessionList.ts"
import * as SafeText from "../render/SafeText.ts"
import type { Verbosity } from "../render/ToolFeed.ts"
import * as ToolText from "../render/ToolText.ts"
import * as UsageText from "../render/UsageText.ts"
import * as BackgroundCommands from "./BackgroundCommands.ts"
import * as ChangeCommands from "./ChangeCommands.ts"
import * as BusyPrompt from "./BusyPrompt.ts"
import {
  makeArgumentWords,
  makeCommandAction,
  type Dialog,
  type DialogCommand,
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
import * as ReportCommands from "./ReportCommands.ts"
import * as SessionSwitch from "./SessionSwitch.ts"
import { type Next, stay } from "./SlashCommands.ts"

const leave: Next = { _tag: "Leave", code: 0 }

/** Number of sessions that `/sessions` lists. */
const listed = 15

const help = makeCommandAction((_, dialog) =>
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
        ["!COMMAND", "Run a shell command; its output is sent with the next message (!! does not send it)"],
        ["#TEXT", "Save a note in the memory, for new sessions"],
        ["Enter", "Send; during a turn, queue for the next one"],
        ["Alt+Enter, Ctrl+J, \\ Enter", "Insert a line break"],
        ["Esc", "Stop the turn; twice at the prompt: go back to an earlier message"],
        ["Ctrl+C", "Stop the turn, or clear the line; twice to exit"],
        ["@PATH", "Attach a file; append :10-20 to attach these lines"],
        ["Tab", "Complete a command or a file"],
        ["Shift+Tab", "Next mode: plan, ask, edits, auto"],
        ["Ctrl+R", "Search earlier prompts"],
        ["Ctrl+V", "Attach the picture on the clipboard"],
        ["Ctrl+G", "Write in $VISUAL or $EDITOR"],
        ["Ctrl+O", "Browse the conversation; fold and unfold calls"],
        ["Ctrl+D", "Leave"]
      ]),
      ""
    )
  )
)

const makeBeginCommand = (prepare: (dialog: Dialog) => void) =>
  makeCommandAction(
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

const title = makeCommandAction(
  Effect.fnUntraced(function* (argument: string, { live, screen }: Dialog) {
    if (argument !== "") return printLines({ screen }, `Title: ${yield* live.rename(argument)}`, "")
    const stored = yield* live.known
    const now = stored?.title ?? (yield* live.state).session.title
    printLines({ screen }, now === undefined ? "No title. Set one with /title NAME." : SafeText.toLine(now), "")
  })
)

/** Describes the newest sessions. Sessions of sub-agents and tools are left out. */
const describeStored = (dialog: Dialog, limit: number) =>
  Effect.flatMap(
    SessionStore.use((store) => store.list({ limit: Number.MAX_SAFE_INTEGER })),
    (list) =>
      SessionList.describeSessions(
        list.filter(({ source }) => !hiddenSources.includes(source)).slice(0, limit),
        dialog.options.folder
      )
  )

/** Lists the sessions of this folder, or of all folders if the argument is `all` or this folder has no others. */
const sessions = makeCommandAction(
  Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
    const all = yield* describeStored(dialog, listed)
    const here = all.filter(({ otherFolder }) => otherFolder === undefined)
    const isNarrow = argument.trim() !== "all" && here.length > 0
    const now = yield* Clock.currentTimeMillis
    const { session } = yield* dialog.live.state
    const { columns } = dialog.screen.size()
    const lines = Overview.renderSessions(isNarrow ? here : all, session.id, now, columns)
    const others = all.length - here.length
    printLines(
      dialog,
      ...(lines.length === 0
        ? ["No sessions yet."]
        : [
            ...lines,
            "",
            ...(isNarrow && others > 0 ? [`${others} more in other folders: /sessions all`] : []),
            "Resume one with /resume and its id, id prefix or title."
          ]),
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
          ? `Nothing to compact: the first and the last messages are always kept, and the conversation has only ` +
              `${formatSize(value.before)}. /compact here 1 keeps the last exchange alone.`
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

/** Maximum number of sessions offered in the picker. */
const pickable = 200

const toChoice = (listed: SessionList.ListedSession, waiting: ReadonlySet<string>, now: number) => {
  const { session, topic } = listed
  return {
    label: topic,
    detail: [
      ...(waiting.has(session.id) ? ["waits for an answer"] : []),
      Overview.formatAgo(now - (session.endedAt ?? session.startedAt)),
      UsageText.formatQuantity(session.messageCount, "message"),
      SessionList.formatPlace(listed),
      ...(topic === session.id ? [] : [session.id])
    ].join(", "),
    value: session.id
  }
}

/** Lets the user choose a session of this folder, or with Ctrl+A of all folders. */
const pickSession = Effect.fnUntraced(function* (dialog: Dialog) {
  const {
    session: { id }
  } = yield* dialog.live.state
  const now = yield* Clock.currentTimeMillis
  const all = (yield* describeStored(dialog, pickable)).filter(({ session }) => session.id !== id)
  const here = all.filter(({ otherFolder }) => otherFolder === undefined)
  if (all.length === 0) return printLines(dialog, "No other session to resume.", "")
  const open = yield* SessionStore.use((store) => store.listQuestions({ limit: Number.MAX_SAFE_INTEGER }))
  const waiting = new Set<string>(open.map(({ question }) => question.sessionId))
  const choices = all.map((one) => toChoice(one, waiting, now))
  if (here.length === 0 || here.length === all.length)
    return yield* Picker.choose(dialog, {
      title: here.length === 0 ? "Sessions of other folders" : "Sessions",
      choices
    })
  return yield* Picker.choose(dialog, {
    title: "Sessions of this folder",
    choices: here.map((one) => toChoice(one, waiting, now)),
    wider: { title: "Sessions of all folders", choices }
  })
})

const resume = makeCommandAction(
  Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
    const reference = argument === "" ? yield* pickSession(dialog) : argument
    if (reference !== undefined) yield* SessionSwitch.resume(dialog, reference)
  })
)

const status = makeCommandAction(
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

const verbose = makeCommandAction((argument, dialog) =>
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

/** Slash commands that every conversation has, in the order of `/help`. */
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
  ...ReportCommands.commands,
  {
    name: "compact",
    aliases: ["compress"],
    usage: "[here N|TOPIC]",
    help: "Summarise the conversation, except for the last N exchanges",
    words: makeArgumentWords({ here: "except for the last exchange" }),
    run: compactConversation
  },
  { name: "title", usage: "[NAME]", help: "Show or set the title of this session", run: title },
  {
    name: "resume",
    usage: "[SESSION]",
    help: "Resume another session, or choose one",
    words: listSessionWords,
    run: resume
  },
  { name: "sessions", help: "List the latest sessions", run: sessions },
  {
    name: "verbose",
    usage: "[LEVEL]",
    help: "Set the detail of tool output: off, new, all, verbose",
    words: makeArgumentWords(levelHelp),
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
  ...BackgroundCommands.commands,
  { name: "quit", aliases: ["exit"], help: "Leave", run: () => Effect.succeed(leave) }
]
