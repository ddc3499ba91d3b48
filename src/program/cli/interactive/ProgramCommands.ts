/**
 * Slash commands with a counterpart on the command line: `/config`, `/doctor`, `/permissions`, `/mcp`, `/export` and
 * `/bug`.
 *
 * **Details**
 *
 * Settings changed here take effect at the next start; `/mode`, `/model`, `/theme` and `/effort` apply at once.
 *
 * `/bug` writes a directory for a report about this program: versions, the findings of `hermes doctor`, the settings
 * and the session, without secrets. Nothing is sent.
 *
 * Source: `hermes-product.md` §1.6, §1.7 and §1.8.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Json from "../../../base/domain/Json.ts"
import { describeReason } from "../../../base/domain/PathProblem.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import { Secrets } from "../../../base/domain/Secrets.ts"
import { type CalledProgram, splitWords } from "../ProgramCalls.ts"
import * as SafeText from "../render/SafeText.ts"
import type { Choice } from "./PromptLine.ts"
import { type Dialog, type DialogCommand, printLines, type SessionServices } from "./Dialog.ts"
import * as Picker from "./Picker.ts"
import { stay } from "./SlashCommands.ts"

/** Prints the output of a program command. */
const printResult = (dialog: Dialog, { text }: CalledProgram): void =>
  printLines(dialog, ...(text === "" ? "Done." : text).split("\n"), "")

const callProgram = (dialog: Dialog, argv: ReadonlyArray<string>): Effect.Effect<CalledProgram> =>
  dialog.options.program?.(argv) ?? Effect.succeed({ code: 1, text: "This client cannot run program commands." })

/** Creates a slash command that runs a program command with its arguments. */
const makeProgramCommand =
  (name: string, otherwise: ReadonlyArray<string>, split = splitWords): DialogCommand["run"] =>
  (argument, dialog) =>
    Effect.gen(function* () {
      const words = split(argument)
      const argv = [name, ...(words.length === 0 ? otherwise : words)]
      const called = callProgram(dialog, argv)
      const { lend } = dialog.options.terminal
      // The terminal is lent to the editor of `/config edit`.
      printResult(dialog, yield* words[0] === "edit" && lend !== undefined ? lend(called) : called)
      return stay
    })

/** Parses the arguments of `test`: the call after `test` is one word, exactly as typed. */
const parseTestCall = (argument: string): ReadonlyArray<string> => {
  const [, call = ""] = /^test\s+(.+)$/s.exec(argument) ?? []
  return call === "" ? splitWords(argument) : ["test", call]
}

const servers = Schema.decodeUnknownOption(Schema.Array(Schema.Struct({ name: Schema.String })))

const pickServer = Effect.fnUntraced(function* (dialog: Dialog) {
  const { text } = yield* callProgram(dialog, ["mcp", "list", "--json"])
  const found = Option.getOrElse(Option.flatMap(Json.parse(text), servers), () => [])
  if (found.length === 0)
    return printLines(dialog, "No MCP servers. Add one: hermes mcp add NAME --command PROGRAM, or --url URL", "")
  const name = yield* Picker.choose(dialog, {
    title: "MCP servers: connect and list the tools",
    choices: found.map(({ name }): Choice<string> => ({ label: SafeText.toLine(name), value: name }))
  })
  if (name !== undefined) printResult(dialog, yield* callProgram(dialog, ["mcp", "test", name]))
})

const formats = ["md", "jsonl", "html"] as const

const exportSession = Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
  const [first = "", ...rest] = splitWords(argument)
  const format = formats.find((one) => one === first)
  const named = format === undefined ? [first, ...rest] : rest
  const [path = ""] = named
  if (named.length > 1 || (format === undefined && first !== "" && !formats.some((one) => first.endsWith(`.${one}`)))) {
    return printLines(dialog, "Use /export with md, jsonl or html, and a file: /export html session.html", "")
  }
  const stored = yield* Effect.orElseSucceed(dialog.live.known, () => undefined)
  if (stored === undefined) return printLines(dialog, "Nothing to export: the session has no messages yet.", "")
  const kind = format ?? formats.find((one) => path.endsWith(`.${one}`)) ?? "md"
  const files = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const { cwd = dialog.options.about.cwd } = (yield* dialog.live.state).session
  const file = paths.resolve(cwd, path === "" ? `hermes-${stored.id}.${kind}` : path)
  if (yield* Effect.orElseSucceed(files.exists(file), () => false))
    return printLines(dialog, `${SafeText.toLine(file)} exists. Name another file: /export ${kind} FILE`, "")
  printResult(
    dialog,
    yield* callProgram(dialog, ["sessions", "export", "--session-id", stored.id, "--format", kind, "--output", file])
  )
})

/** Lists the parts of a report with the commands that print them. */
const listReportParts = (
  session: string | undefined
): ReadonlyArray<readonly [file: string, argv: ReadonlyArray<string>]> => [
  ["doctor.txt", ["doctor"]],
  ["settings.yaml", ["config", "show"]],
  ["permissions.txt", ["permissions", "list"]],
  ["plugins.txt", ["plugins", "list"]],
  ...(session === undefined
    ? []
    : [["session.jsonl", ["sessions", "export", "--session-id", session, "--format", "jsonl"]] as const])
]

const writeBugReport = Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
  const {
    options: { about, home }
  } = dialog
  const files = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const secrets = yield* Secrets
  const now = yield* Clock.currentTimeMillis
  const stored = yield* Effect.orElseSucceed(dialog.live.known, () => undefined)
  const stamp = new Date(now).toISOString().replace(/[:.]/g, "-")
  const folder = paths.join(home ?? about.cwd, "bug-reports", stamp)
  const writePart = (name: string, text: string) =>
    files.writeFileString(paths.join(folder, name), `${Redaction.redactText(text, secrets)}\n`, { mode: 0o600 })
  const written = Effect.gen(function* () {
    yield* files.makeDirectory(folder, { recursive: true, mode: 0o700 })
    yield* writePart(
      "report.md",
      [
        `# ${argument === "" ? "What happened?" : argument}`,
        "",
        `- program: hermes ${about.version}`,
        `- model: ${about.model} of ${about.provider}`,
        `- terminal: ${dialog.screen.size().columns} columns`,
        `- session: ${stored?.id ?? "not stored"}`
      ].join("\n")
    )
    for (const [name, argv] of listReportParts(stored?.id))
      yield* writePart(name, (yield* callProgram(dialog, argv)).text)
  })
  yield* Effect.match(written, {
    onFailure: (error) =>
      printLines(dialog, `The report cannot be written to ${SafeText.toLine(folder)}: ${describeReason(error)}.`, ""),
    onSuccess: () =>
      printLines(
        dialog,
        `The report is in ${SafeText.toLine(folder)}`,
        dialog.screen.asidePaint.text(
          "Secrets are masked, and nothing was sent. Check it before you share it: session.jsonl contains " +
            "the conversation.",
          "muted"
        ),
        ""
      )
  })
})

const makeAction =
  (work: (argument: string, dialog: Dialog) => Effect.Effect<void, never, SessionServices>): DialogCommand["run"] =>
  (argument, dialog) =>
    Effect.as(work(argument, dialog), stay)

const makeWords =
  (...list: ReadonlyArray<string>): DialogCommand["words"] =>
  () =>
    Effect.succeed(list.map((label) => ({ label, value: label })))

/** Commands of the dialogue about the program: settings, checks, permissions, MCP, exports and bug reports. */
export const commands: ReadonlyArray<DialogCommand> = [
  {
    name: "config",
    usage: "[get|set|unset KEY]",
    help: "Show or change the settings, effective from the next start",
    words: makeWords("show", "get", "set", "unset", "check", "edit", "path"),
    run: makeProgramCommand("config", ["show"])
  },
  {
    name: "doctor",
    help: "Check the installation and explain how to fix problems",
    run: makeProgramCommand("doctor", [])
  },
  {
    name: "permissions",
    usage: "[test CALL]",
    help: "List the rules about tool calls, or explain one call",
    words: makeWords("list", "test"),
    run: makeProgramCommand("permissions", ["list"], parseTestCall)
  },
  {
    name: "mcp",
    usage: "[COMMAND]",
    help: "Choose an MCP server and list its tools",
    words: makeWords("list", "test"),
    run: (argument, dialog) =>
      argument === "" ? Effect.as(pickServer(dialog), stay) : makeProgramCommand("mcp", [])(argument, dialog)
  },
  {
    name: "export",
    usage: "[md|jsonl|html] [FILE]",
    help: "Write this session to a file",
    words: makeWords(...formats),
    run: makeAction(exportSession)
  },
  {
    name: "bug",
    usage: "[WORDS]",
    help: "Write a report about this program to a directory, without secrets",
    run: makeAction(writeBugReport)
  }
]
