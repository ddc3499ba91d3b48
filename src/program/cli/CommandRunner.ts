/**
 * Runs a command line and returns an exit code.
 *
 * Source: `hermes-product.md` §1.1, `style.md` F13.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as CliConfig from "effect/cli/CliConfig"
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import type { HelpDoc } from "effect/cli/HelpDoc"
import * as TerminalCapabilities from "effect/cli/TerminalCapabilities"
import * as Secrets from "../../base/domain/Secrets.ts"
import { findClosest } from "../../base/domain/Similarity.ts"
import { version } from "../../base/domain/Version.ts"
import * as ArgumentOrder from "./ArgumentOrder.ts"
import * as ErrorLine from "./ErrorLine.ts"
import * as HelpText from "./render/HelpText.ts"
import { joinAlternatives, unusable } from "./Failure.ts"
import { commandNames, makeRootCommand } from "./Hermes.ts"
import { Output } from "./ProgramOutput.ts"
import type { Program } from "./Program.ts"

const maxSuggestions = 3

/**
 * Formats suggestions for a misspelled word. `prefix` is printed before each suggestion and is not part of the
 * comparison.
 */
const formatSuggestion = (word: string, known: ReadonlyArray<string>, prefix = ""): string => {
  const words = findClosest(word, known, maxSuggestions)
  return words.length === 0 ? "" : `did you mean ${joinAlternatives(words.map((word) => prefix + word))}?`
}

const listFlagNames = (doc: HelpDoc): ReadonlyArray<string> =>
  [...doc.flags, ...(doc.inheritedFlags ?? []), ...(doc.globalFlags ?? [])].map(({ name }) => name)

const listCommandNames = (doc: HelpDoc): ReadonlyArray<string> =>
  (doc.subcommands ?? []).flatMap(({ commands }) => commands.map(({ name }) => name))

const describeUnknownFlag = ({ command, option }: CliError.UnrecognizedOption, doc: HelpDoc): string => {
  const where = command?.join(" ") ?? "hermes"
  const flags = listFlagNames(doc)
  const name = option.replace(/^-+/, "")
  if (flags.includes(name)) return `${option} belongs after the command: ${where} ${option} …`
  return `unknown flag ${option}: ${formatSuggestion(name, flags, "--") || `run \`${where} --help\` for a list`}`
}

/** Converts Effect's description of an expected value to a form that fits inside a sentence. */
const formatExpectation = (expected: string): string =>
  expected.replace(/^Expected:? */, "").replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())

/** Flags that accept fractional numbers. The parser's error does not distinguish them from whole numbers. */
const fractions: ReadonlyMap<string, string> = new Map([["run-budget", "a number of seconds"]])

const describeWrongValue = ({ expected, kind, option, value }: CliError.InvalidValue): string => {
  const name = kind === "flag" ? `--${option}` : `<${option}>`
  const wanted =
    fractions.get(option) ?? (/finite number|integer/.test(expected) ? "a whole number" : formatExpectation(expected))
  return value === "" ? `${name} needs a value: ${wanted}` : `${name} "${value}" is invalid: expected ${wanted}`
}

/** Quotes a word for a POSIX shell. */
const quoteWord = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

const describePromptHint = (text: string): string =>
  `Unknown command ${JSON.stringify(text.split(" ", 1)[0])}. To send it as a prompt: hermes -q ${quoteWord(text)}`

/** Words of other programs that are flags here. */
const renamedFlags: ReadonlyMap<string, string> = new Map([
  ["resume", "continue a session with `hermes --resume SESSION`"],
  ["continue", "continue the latest session of this folder with `hermes --continue`"],
  ["export", "export a session with `hermes sessions export SESSION`"]
])

/** Returns the way to a session whose id is in the place of a command of `hermes sessions`. */
const describeSessionWord = (word: string, path: string): string | undefined =>
  path === "hermes sessions" && /^(?:latest|\d{8}_\d{6}\w*)$/.test(word)
    ? `show a session with \`hermes sessions show ${word}\`, continue it with \`hermes --resume ${word}\``
    : undefined

const describeUsageError = (error: CliError.NonShowHelpErrors, doc: HelpDoc, path: string): string => {
  switch (error._tag) {
    case "UnrecognizedOption":
      return describeUnknownFlag(error, doc)
    case "InvalidValue":
      return describeWrongValue(error)
    case "MissingOption":
      return `--${error.option} is missing: run \`${path} --help\``
    case "MissingArgument":
      return `<${error.argument}> is missing: run \`${path} --help\``
    case "UnexpectedArgument":
      return path === "hermes chat"
        ? describePromptHint(error.arguments.join(" "))
        : `unexpected argument ${error.arguments.map((word) => JSON.stringify(word)).join(", ")} of ` +
            `\`${path}\`: run \`${path} --help\``
    default:
      return error.message.replaceAll(/\s+/g, " ")
  }
}

/**
 * Returns the error text for an invalid command line: one line for a flag or a value, three lines for an unknown
 * command with a likely correction. The usage text is not printed.
 */
const formatUsageError = (
  errors: ReadonlyArray<CliError.NonShowHelpErrors>,
  doc: HelpDoc,
  commandPath: ReadonlyArray<string>,
  argv: ReadonlyArray<string>
): string => {
  const path = commandPath.join(" ")
  const [first] = errors
  if (first?._tag !== "UnknownSubcommand")
    return first === undefined ? "" : ErrorLine.render(describeUsageError(first, doc, path))
  const commands = listCommandNames(doc)
  const words = argv.slice(argv.indexOf(first.subcommand))
  // Several words are more likely a prompt.
  const renamed = path === "hermes" && words.length < 3 ? renamedFlags.get(first.subcommand) : undefined
  const instead = renamed ?? describeSessionWord(first.subcommand, path)
  if (instead !== undefined) return ErrorLine.render(`unknown command "${first.subcommand}" of ${path}: ${instead}`)
  const suggestion = formatSuggestion(first.subcommand, commands)
  const prompt = words.join(" ")
  if (path === "hermes" && (suggestion === "" || argv.at(-1) !== first.subcommand)) {
    const meant = suggestion === "" ? "" : ` (${suggestion})`
    return ErrorLine.render(`${describePromptHint(prompt)}${meant}`)
  }
  return [
    `Error: unknown command "${first.subcommand}" of ${path}`,
    suggestion === "" ? `The commands are ${commands.join(", ")}` : suggestion.replace("did", "Did"),
    `Help: ${path} --help`,
    ""
  ].join("\n")
}

/** The version flag is `-V`, because `-v` means `--verbose`. */
const versionFlag = GlobalFlag.Action({
  flag: Flag.Boolean("version").pipe(
    Flag.withAlias("V"),
    Flag.withoutNegation,
    Flag.withDescription("Show the version"),
    Flag.withDefault(false)
  ),
  run: (_, { command, version }) =>
    Effect.flatMap(CliOutput.Presenter, (presenter) =>
      presenter.present({ _tag: "Version", name: command.name, version })
    )
})

const config = CliConfig.make({ builtIns: [GlobalFlag.Help, versionFlag, GlobalFlag.Completions] })

const makePresenter = (
  { err, out, streams }: Output["Service"],
  { canColor }: TerminalCapabilities.TerminalCapabilities,
  argv: ReadonlyArray<string>
): CliOutput.Presenter => ({
  present: (event) => {
    switch (event._tag) {
      case "Help":
        return Effect.sync(() =>
          streams.answer.write(`${HelpText.render(event.helpDoc, event.commandPath[1], canColor)}\n`)
        )
      case "Version":
        return out(`${event.name} ${event.version}\n`)
      case "InvalidInvocation":
        return err(formatUsageError(event.errors, event.helpDoc, event.commandPath, argv))
    }
  }
})

/**
 * Maps a failure of the parser, which was already printed, to an exit code: 0 for requested help, otherwise the code
 * for an invalid command line.
 */
const toExitCode = (error: CliError.CliError): number =>
  error._tag === "ShowHelp" && error.errors.length === 0 ? 0 : unusable

/** Runs a plugin command if the first word is not a program command. */
const runPluginCommand = Effect.fnUntraced(function* ([word = "", ...args]: ReadonlyArray<string>) {
  if (!/^[A-Za-z]\S*$/.test(word) || commandNames.includes(word)) return undefined
  const { run } = yield* Effect.promise(() => import("./PluginsCommand.ts"))
  return yield* run(word, args, commandNames)
})

/** Services that a command line needs. */
export type ProgramServices = Command.Environment | Output | Program

/** Runs a command line and returns its exit code. Errors are printed to stderr. */
export const execute = (argv: ReadonlyArray<string>): Effect.Effect<number, never, ProgramServices> =>
  Secrets.provideRegistry(runCommandLine(argv))

const runCommandLine = Effect.fnUntraced(function* (
  argv: ReadonlyArray<string>
): Effect.fn.Return<number, never, ProgramServices> {
  const output = yield* Output
  const capabilities = yield* TerminalCapabilities.TerminalCapabilities
  const given = ArgumentOrder.expandCommandWords(argv, commandNames)
  const words = ArgumentOrder.rewrite(given, commandNames)
  const own = Effect.flatMap(makeRootCommand(words), (command) => Command.runWith(command, { version })(words)).pipe(
    Effect.provideService(CliConfig.CliConfig, config),
    Effect.provideService(CliOutput.Presenter, makePresenter(output, capabilities, argv)),
    Effect.as(0)
  )
  return yield* Effect.flatMap(runPluginCommand(given), (code) =>
    code === undefined ? own : Effect.succeed(code)
  ).pipe(
    Effect.catchCause((cause) => {
      if (Cause.hasInterrupts(cause)) return Effect.interrupt
      const error = Cause.squash(cause)
      if (CliError.isCliError(error)) return Effect.succeed(toExitCode(error))
      const { code, line } = ErrorLine.fromError(error)
      return Effect.as(line === "" ? Effect.void : output.err(ErrorLine.render(line)), code)
    })
  )
})
