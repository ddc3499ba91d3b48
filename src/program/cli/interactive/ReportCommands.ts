/**
 * Commands of a session that show its tools, its usage, its context window and its messages.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as Cost from "../../../base/domain/Cost.ts"
import * as ContextFill from "../../../serve/host/ContextFill.ts"
import * as SessionReports from "../../../serve/host/SessionReports.ts"
import { ToolRegistry } from "../../../tools/ToolRegistry.ts"
import { plainStyle } from "../render/Paint.ts"
import * as SafeText from "../render/SafeText.ts"
import * as ToolText from "../render/ToolText.ts"
import * as UsageText from "../render/UsageText.ts"
import * as Wrap from "../render/Wrap.ts"
import { type Dialog, type DialogCommand, makeCommandAction, printLines } from "./Dialog.ts"
import * as Overview from "./Overview.ts"
import * as Picker from "./Picker.ts"
import * as Recap from "./Recap.ts"

/** Shows the description and the arguments of a tool selected by the user. */
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

const tools = makeCommandAction(
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

const usage = makeCommandAction(
  Effect.fnUntraced(function* (_: string, dialog: Dialog) {
    const { duration, side, ...sums } = yield* SessionReports.readUsage(dialog.live)
    printLines(
      dialog,
      ...UsageText.renderUsage({
        ...sums,
        misses: yield* SessionReports.readMisses(dialog.live),
        side: Array.from(side, ([task, { cost, usage }]) => ({ task, usage, cost: Cost.toSpent(cost) })),
        duration: ToolText.formatDuration(duration),
        context: Overview.formatContext(yield* measureFill(dialog))
      }),
      ""
    )
  })
)

const context = makeCommandAction(
  Effect.fnUntraced(function* (_: string, dialog: Dialog) {
    printLines(dialog, ...Overview.renderContext(yield* measureFill(dialog), dialog.screen.asidePaint), "")
  })
)

const insights = makeCommandAction(
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

const history = makeCommandAction(
  Effect.fnUntraced(function* (_: string, dialog: Dialog) {
    const messages = yield* dialog.live.messages
    const { asidePaint, size } = dialog.screen
    const lines = Recap.render(messages, Recap.full, size().columns, asidePaint)
    printLines(dialog, ...(lines.length === 0 ? ["No messages yet."] : lines), "")
  })
)

const expand = makeCommandAction(
  Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
    const { found, isFiltered, total } = yield* SessionReports.findRemovedMessages(dialog.live, argument)
    if (total === 0) return printLines(dialog, "Nothing was compacted: the conversation is complete.", "")
    if (found.length === 0)
      return printLines(
        dialog,
        "No compacted message matches. Use fewer words, or word* for words with that beginning.",
        ""
      )
    const { asidePaint, size } = dialog.screen
    // If the compacted messages begin with an answer, a mark is shown in place of its question.
    const shown =
      found[0]?.role === "user" ? found : [Prompt.userMessage({ content: [Prompt.textPart({ text: "…" })] }), ...found]
    const filter = isFiltered
      ? `, ${UsageText.formatQuantity(found.length, "message")} around "${SafeText.toLine(argument)}"`
      : ""
    printLines(
      dialog,
      `${UsageText.formatQuantity(total, "message")} left out of the conversation${filter}:`,
      "",
      ...Recap.render(shown, Recap.full, size().columns, asidePaint),
      ""
    )
  })
)

/** Commands that show information about the session. */
export const commands: ReadonlyArray<DialogCommand> = [
  {
    name: "tools",
    usage: "[list]",
    help: "Show a tool, or list all tools",
    words: () => Effect.succeed([{ label: "list", value: "list" }]),
    run: tools
  },
  { name: "usage", help: "Show the tokens, cache hits and cost of this session", run: usage },
  { name: "context", help: "Show what fills the context window", run: context },
  { name: "insights", usage: "[DAYS]", help: "Show the usage of recent sessions", run: insights },
  { name: "expand", usage: "[WORDS]", help: "Show messages that compaction removed", run: expand },
  { name: "history", help: "Show the messages of this session", run: history }
]
