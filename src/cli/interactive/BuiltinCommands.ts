/**
 * The program's own commands of a session.
 *
 * `/clear` also begins a new session, as the screen shows none then; nothing is lost, both sessions can be resumed. `/retry`
 * asks the same again, in the same session: what is stored is never taken back.
 *
 * Commands about what works beside the conversation, and about messages to an agent that is busy, do the same while it works and
 * at the prompt, as far as there is something to do. `/stop` ends the turn that is under way, with its children. At the prompt it
 * ends what works in the background; with the beginning of an id it ends that one, at any time.
 *
 * Source: `hermes-product.md` §1.8 and §1.9.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Prompt from "effect/ai/Prompt"
import { Agent } from "../../agent/Agent.ts"
import { BackgroundWork, type Item } from "../../agent/BackgroundWork.ts"
import { Children } from "../../agent/Children.ts"
import type { AgentError } from "../../domain/AgentError.ts"
import * as Cost from "../../domain/Cost.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import * as Redaction from "../../domain/Redaction.ts"
import * as Usage from "../../domain/Usage.ts"
import * as SummaryText from "../../prompt/compaction/SummaryText.ts"
import { Auxiliary } from "../../routing/Auxiliary.ts"
import { RouterStatus } from "../../routing/ModelRouter.ts"
import * as SearchQuery from "../../session/SearchQuery.ts"
import * as SearchScan from "../../session/SearchScan.ts"
import * as SessionChain from "../../session/SessionChain.ts"
import { SessionStore } from "../../session/SessionStore.ts"
import * as StoredForm from "../../session/StoredForm.ts"
import * as Title from "../../session/Title.ts"
import { ToolRegistry } from "../../tool/ToolRegistry.ts"
import * as SafeText from "../render/SafeText.ts"
import type { Verbosity } from "../render/ToolFeed.ts"
import * as ToolText from "../render/ToolText.ts"
import * as UsageText from "../render/UsageText.ts"
import * as Width from "../render/Width.ts"
import * as ContextFill from "./ContextFill.ts"
import { complain, type Dialog, type DialogCommand, resumeCommand, say, sessionsOf, type SessionServices } from "./Dialog.ts"
import * as Overview from "./Overview.ts"
import * as Recap from "./Recap.ts"
import * as SessionSwitch from "./SessionSwitch.ts"
import { type Next, stay } from "./SlashCommands.ts"

const leave: Next = { _tag: "Leave" }

/** Sessions that `/sessions` lists. */
const listed = 15

type Failure = AgentError

/** A command that ends at the prompt, and whose failure is a line. */
const doing = (work: (argument: string, dialog: Dialog) => Effect.Effect<void, Failure, SessionServices>): DialogCommand["run"] =>
  (argument, dialog) =>
    work(argument, dialog).pipe(
      Effect.catch((error) => Effect.sync(() => complain(dialog, error))),
      Effect.as(stay)
    )

const help = doing((_, dialog) =>
  Effect.sync(() =>
    say(
      dialog,
      ...UsageText.pairs(dialog.commands.map(({ aliases = [], help, name, usage = "" }) => {
        const others = aliases.map((alias) => ` (/${alias})`).join("")
        return [SafeText.line(`/${name}${usage === "" ? "" : ` ${usage}`}${others}`), SafeText.line(help)] as const
      })),
      "",
      ...UsageText.pairs([
        ["!COMMAND", "Run a shell command without the model"],
        ["Enter", "Send; during a turn, queue for the next one"],
        ["Alt+Enter, Ctrl+J, \\ Enter", "Insert a line break"],
        ["Ctrl+C", "Stop the turn, or clear the line; twice to exit"],
        ["Ctrl+D", "Leave"]
      ]),
      ""
    )
  )
)

const begin = (prepare: (dialog: Dialog) => void) =>
  doing(Effect.fnUntraced(function*(argument: string, dialog: Dialog) {
    const title = argument === "" ? undefined : yield* Title.clean("new session", argument)
    const stored = yield* SessionSwitch.known(dialog)
    const from = yield* SessionSwitch.begin(dialog, title)
    prepare(dialog)
    const { asidePaint } = dialog.screen
    say(
      dialog,
      `New session ${dialog.current.id}`,
      ...stored === undefined ? [] : [asidePaint.text(`Previous session: ${resumeCommand(from)}`, "dim")],
      ""
    )
  }))

const tools = doing(Effect.fnUntraced(function*(_: string, dialog: Dialog) {
  const registry = yield* ToolRegistry
  const { input } = dialog.options
  const sets = yield* registry.list
  const offered = new Set((yield* registry.snapshot(input.tools ?? {})).names)
  const rows = sets.flatMap(({ tools, toolset }) => {
    const names = tools.map(({ tool }) => tool.name).filter((name) => offered.has(name))
    return names.length === 0 ? [] : [[SafeText.line(toolset), SafeText.line(names.join(", "))] as const]
  })
  say(dialog, ...rows.length === 0 ? ["No tools: see `hermes tools`."] : UsageText.pairs(rows), "")
}))

const nothingUsed: SessionChain.Sums = { usage: Usage.zero, cost: Cost.spent(Cost.nothing), models: [], compactions: 0 }

const usage = doing(Effect.fnUntraced(function*(_: string, dialog: Dialog) {
  const session = yield* SessionSwitch.known(dialog)
  const sums = session === undefined ? nothingUsed : yield* SessionChain.sums(session)
  const used = [...yield* Auxiliary.use(({ used }) => used)]
  const now = yield* Clock.currentTimeMillis
  say(dialog, ...UsageText.table({
    ...sums,
    side: used.map(([task, { cost, usage }]) => ({ task, usage, cost: Cost.spent(cost) })),
    duration: ToolText.duration(now - dialog.current.since),
    context: ContextFill.line(yield* ContextFill.measure(dialog))
  }), "")
}))

const context = doing(Effect.fnUntraced(function*(_: string, dialog: Dialog) {
  say(dialog, ...ContextFill.render(yield* ContextFill.measure(dialog), dialog.screen.asidePaint), "")
}))

const insights = doing(Effect.fnUntraced(function*(argument: string, dialog: Dialog) {
  const { defaultDays, isPeriod, lines, mostDays } = yield* Effect.promise(() => import("../InsightsCommand.ts"))
  const days = argument === "" ? defaultDays : Number(argument)
  if (!isPeriod(days)) return say(dialog, `/insights takes a number of days, 1 to ${mostDays}.`, "")
  const { asidePaint, size } = dialog.screen
  say(dialog, ...yield* lines(days, { columns: size().columns, paint: asidePaint }), "")
}))

const history = doing(Effect.fnUntraced(function*(_: string, dialog: Dialog) {
  const messages = yield* SessionStore.use((store) => store.messages(dialog.current.id))
  const { asidePaint, size } = dialog.screen
  const lines = Recap.render(messages, Recap.full, size().columns, asidePaint)
  say(dialog, ...lines.length === 0 ? ["No messages yet."] : lines, "")
}))

/** Messages by exchange: each group begins with a message of the user, but for the first. */
const exchangesOf = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<ReadonlyArray<Prompt.Message>> => {
  const groups: Array<Array<Prompt.Message>> = []
  for (const message of messages) {
    const last = groups.at(-1)
    if (last === undefined || message.role === "user") groups.push([message])
    else last.push(message)
  }
  return groups
}

const expand = doing(Effect.fnUntraced(function*(argument: string, dialog: Dialog) {
  const session = yield* SessionSwitch.known(dialog)
  const removed = session === undefined ? [] : (yield* SessionChain.removed(session)).filter((message) => !SummaryText.isStandIn(message))
  if (removed.length === 0) return say(dialog, "Nothing was compacted: the conversation is whole.", "")
  const query = SearchQuery.parse(argument)
  const fits = (message: Prompt.Message): boolean => query.length === 0 || SearchScan.find(query, StoredForm.searchText(message)) !== undefined
  const found = exchangesOf(removed).filter((group) => group.some(fits)).flat()
  if (found.length === 0) return say(dialog, "No message that was compacted fits. Fewer words find more; word* finds words that begin so.", "")
  const { asidePaint, size } = dialog.screen
  // Answers to a question that stayed are shown below a mark in its place.
  const shown = found[0]?.role === "user" ? found : [Prompt.userMessage({ content: [Prompt.textPart({ text: "…" })] }), ...found]
  say(
    dialog,
    `${UsageText.counted(removed.length, "message")} left out of the conversation${query.length === 0 ? "" : `, ${UsageText.counted(found.length, "message")} around "${SafeText.line(argument)}"`}:`,
    "",
    ...Recap.render(shown, Recap.full, size().columns, asidePaint),
    ""
  )
}))

const title = doing(Effect.fnUntraced(function*(argument: string, dialog: Dialog) {
  const session = yield* SessionSwitch.known(dialog)
  if (argument === "") {
    const now = session?.title ?? dialog.current.title
    return say(dialog, now === undefined ? "No title. Set one with /title NAME." : SafeText.line(now), "")
  }
  const wanted = yield* Title.clean("rename session", argument)
  if (session === undefined) dialog.current = { ...dialog.current, title: wanted }
  else yield* SessionStore.use((store) => store.rename(session.id, wanted))
  say(dialog, `Title: ${wanted}`, "")
}))

const sessions = doing(Effect.fnUntraced(function*(_: string, dialog: Dialog) {
  const list = yield* SessionStore.use((store) => store.list({ limit: listed }))
  const now = yield* Clock.currentTimeMillis
  const lines = Overview.sessions(list, dialog.current.id, now, dialog.screen.size().columns)
  say(dialog, ...lines.length === 0 ? ["No sessions yet."] : [...lines, "", "Resume one with /resume and its id, id prefix or title."], "")
}))

const compact: DialogCommand["run"] = (argument, dialog) =>
  Effect.gen(function*() {
    const agent = yield* Agent
    const { tools } = dialog.options.input
    let why: string | undefined
    const onEvent = (events: ReadonlyArray<RunEvent>): Effect.Effect<void> =>
      Effect.sync(() => {
        for (const event of events) if (event._tag === "Notice" && event.level === "warning") why = event.message
      })
    const here = /^here(?:\s+(\d+))?$/iu.exec(argument)
    const keepExchanges = here === null ? undefined : Math.max(1, Number(here[1] ?? 1))
    const focus = argument === "" || keepExchanges !== undefined ? undefined : argument
    const { after, before, sessionId } = yield* agent.compact({ sessionId: dialog.current.id, cwd: dialog.current.cwd, tools, focus, keepExchanges, onEvent })
    const size = ({ messages, tokens }: typeof before): string => `${messages} messages (about ${UsageText.short(tokens)} tokens)`
    if (sessionId === dialog.current.id) {
      say(dialog, SafeText.line(why === undefined ? `Nothing to compact: the conversation has ${size(before)}.` : `Not compacted: ${why}`), "")
    } else {
      yield* SessionSwitch.follow(dialog)
      say(dialog, `Compacted from ${size(before)} to ${size(after)}.`, dialog.screen.asidePaint.text(`Session ${sessionId}`, "dim"), "")
    }
  }).pipe(
    Effect.catch((error) => Effect.sync(() => complain(dialog, error))),
    Effect.as(stay)
  )

const resume = doing(Effect.fnUntraced(function*(argument: string, dialog: Dialog) {
  if (argument === "") return say(dialog, "No session given. Use /resume with an id, id prefix, title or `latest`; /sessions lists them.", "")
  const store = yield* SessionStore
  const named = yield* store.resolve(argument)
  const newest = yield* Effect.flatMap(store.newest(named.id), store.get)
  yield* SessionSwitch.go(dialog, Option.getOrElse(newest, () => named))
}))

const status = doing(Effect.fnUntraced(function*(_: string, dialog: Dialog) {
  const { current, options, verbosity } = dialog
  const session = yield* SessionSwitch.known(dialog)
  const now = yield* Clock.currentTimeMillis
  const routes = Option.match(yield* Effect.serviceOption(RouterStatus), { onNone: () => Effect.succeed([]), onSome: ({ routes }) => routes })
  const tokens = session === undefined ? 0 : Usage.totalTokens((yield* SessionChain.sums(session)).usage)
  say(dialog, ...Overview.status(options.about, { ...current, tokens }, session, now - current.since, verbosity, yield* routes), "")
}))

const levels: ReadonlyArray<Verbosity> = ["off", "new", "all", "verbose"]

const levelHelp: Readonly<Record<Verbosity, string>> = {
  off: "tool calls are not shown",
  new: "the first call of each tool is shown",
  all: "each tool call is shown",
  verbose: "each tool call is shown with its arguments and result"
}

const verbose = doing((argument, dialog) =>
  Effect.sync(() => {
    const wanted = levels.find((level) => level === argument.toLowerCase())
    if (argument !== "" && wanted === undefined) return say(dialog, `/verbose takes one of ${levels.join(", ")}.`, "")
    const next = wanted ?? levels[(levels.indexOf(dialog.verbosity) + 1) % levels.length] ?? "all"
    dialog.verbosity = next
    say(dialog, `${next}: ${levelHelp[next]}`, "")
  })
)

const retry: DialogCommand["run"] = (_, dialog) =>
  Effect.sync((): Next => {
    const { lastPrompt } = dialog.current
    if (lastPrompt !== undefined) return { _tag: "Send", prompt: lastPrompt }
    say(dialog, "No prompt to retry yet.", "")
    return stay
  })

/** Prints lines, between the parts of an answer where one is being written. */
const tell = (dialog: Dialog, ...lines: ReadonlyArray<string>): void => {
  for (const line of lines) dialog.note(line)
}

const workLine = (dialog: Dialog, { at, id, since, what }: Item, now: number): string => {
  const facts = ` · ${at} · ${ToolText.elapsed(now - since)}`
  const room = Math.max(10, dialog.screen.size().columns - Width.of(id) - Width.of(facts) - 3)
  return `${id}  ${Width.cut(SafeText.line(Redaction.redactText(what)), room)}${dialog.screen.asidePaint.text(facts, "dim")}`
}

const listWork = Effect.fnUntraced(function*(dialog: Dialog) {
  const items = (yield* BackgroundWork.use(({ list }) => Effect.forEach(sessionsOf(dialog), list))).flat()
  const now = yield* Clock.currentTimeMillis
  const paused = yield* Children.use(({ isPaused }) => isPaused)
  tell(
    dialog,
    ...items.length === 0 ? ["No background work."] : items.map((item) => workLine(dialog, item, now)),
    ...paused ? ["Delegation is paused. Type /agents resume to allow it."] : [],
    ...items.length === 0 ? [] : [dialog.screen.asidePaint.text("/stop ID stops one of them", "dim")]
  )
})

const agents = Effect.fnUntraced(function*(argument: string, dialog: Dialog) {
  const word = argument.toLowerCase()
  if (word === "") return yield* listWork(dialog)
  if (word !== "pause" && word !== "resume") {
    return tell(dialog, "/agents lists background work; /agents pause or resume controls delegation.")
  }
  yield* Children.use(({ pause }) => pause(word === "pause"))
  tell(dialog, word === "pause" ? "Delegation paused. Type /agents resume to allow it." : "Delegation allowed.")
})

const stopOne = Effect.fnUntraced(function*(id: string, dialog: Dialog) {
  const stopped = yield* BackgroundWork.use(({ stop }) =>
    Effect.reduce(sessionsOf(dialog), (): Item | undefined => undefined, (found, session) => found === undefined ? stop(session, id) : Effect.succeed(found)))
  tell(dialog, stopped === undefined ? `No background work with id ${SafeText.line(id)}. /agents lists it.` : `Stopped ${stopped.id}.`)
})

const stopAll = Effect.fnUntraced(function*(dialog: Dialog) {
  const stopped = (yield* BackgroundWork.use(({ stopAll }) => Effect.forEach(sessionsOf(dialog), stopAll))).flat()
  tell(dialog, stopped.length === 0 ? "Nothing is running." : `Stopped ${stopped.map(({ id }) => id).join(", ")}.`)
})

/** A command that says something and ends at the prompt. */
const saying = (work: (argument: string, dialog: Dialog) => Effect.Effect<void, never, SessionServices>): DialogCommand["run"] => (argument, dialog) =>
  Effect.as(Effect.andThen(work(argument, dialog), Effect.sync(() => dialog.note(""))), stay)

/** At the prompt a message for later is one for now. */
const send = (name: string): DialogCommand["run"] => (argument, dialog) =>
  Effect.sync((): Next => {
    if (argument !== "") return { _tag: "Send", prompt: argument }
    tell(dialog, `/${name} needs a message: /${name} MESSAGE`, "")
    return stay
  })

/** A message is never taken for a command. */
const literal = (text: string): string => /^[/!]/.test(text) ? ` ${text}` : text

const backgroundCommands: ReadonlyArray<DialogCommand> = [
  {
    name: "queue",
    usage: "MESSAGE",
    help: "Send a message when the current turn is done",
    run: send("queue"),
    meanwhile: (argument, _, { queue }) =>
      Effect.sync(() => {
        if (argument !== "") queue(literal(argument))
      })
  },
  {
    name: "steer",
    usage: "MESSAGE",
    help: "Send a message to the running turn, with the next tool result",
    run: send("steer"),
    meanwhile: (argument, _, { queue, steer }) =>
      Effect.sync(() => {
        if (argument !== "" && !steer(argument)) queue(literal(argument))
      })
  },
  {
    name: "agents",
    aliases: ["tasks"],
    usage: "[pause|resume]",
    help: "List sub-agents and processes, or pause and resume delegation",
    run: saying(agents),
    meanwhile: agents
  },
  {
    name: "stop",
    usage: "[ID]",
    help: "Stop the turn, or background work",
    run: saying((id, dialog) => id === "" ? stopAll(dialog) : stopOne(id, dialog)),
    meanwhile: (id, dialog, { stop }) => id === "" ? stop : stopOne(id, dialog)
  }
]

export const commands: ReadonlyArray<DialogCommand> = [
  { name: "help", aliases: ["?"], help: "Show this", run: help },
  { name: "new", aliases: ["reset"], usage: "[TITLE]", help: "Start a new session", run: begin(() => undefined) },
  { name: "clear", help: "Clear the screen and start a new session", run: begin(({ screen }) => screen.clear()) },
  { name: "tools", help: "List the available tools", run: tools },
  { name: "usage", help: "Show the tokens, cache hits and cost of this session", run: usage },
  { name: "context", help: "Show what fills the context window", run: context },
  { name: "compact", aliases: ["compress"], usage: "[here N|TOPIC]", help: "Summarise the older part of the conversation, but for the last N exchanges", run: compact },
  { name: "insights", usage: "[DAYS]", help: "Show what the sessions of the last days used", run: insights },
  { name: "expand", usage: "[WORDS]", help: "Show what compaction left out of the conversation", run: expand },
  { name: "history", help: "Show the messages of this session", run: history },
  { name: "title", usage: "[NAME]", help: "Show or set the title of this session", run: title },
  { name: "resume", usage: "SESSION", help: "Resume another session", run: resume },
  { name: "sessions", help: "List the latest sessions", run: sessions },
  { name: "verbose", usage: "[LEVEL]", help: "Set the detail of tool output: off, new, all, verbose", run: verbose },
  { name: "status", help: "Show the state of this session", run: status },
  { name: "retry", help: "Send the last prompt again", run: retry },
  ...backgroundCommands,
  { name: "quit", aliases: ["exit"], help: "Leave", run: () => Effect.succeed(leave) }
]
