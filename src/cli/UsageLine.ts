/**
 * Error texts for an invalid command line: one line for a flag or a value, three for a command that
 * does not exist and has a likely correction. No usage dump.
 *
 * Source: `hermes-product.md` §1.1, `style.md` F13.
 */
import type * as CliError from "effect/cli/CliError"
import type { HelpDoc } from "effect/cli/HelpDoc"
import { render } from "./ErrorLine.ts"
import { closest } from "../domain/Similarity.ts"

const maxSuggestions = 3

/** `a`, `a or b`, `a, b or c`. */
const either = (words: ReadonlyArray<string>): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`

/** `prefix` stands before each word, and is no part of its likeness. */
const meant = (word: string, known: ReadonlyArray<string>, prefix = ""): string => {
  const words = closest(word, known, maxSuggestions)
  return words.length === 0 ? "" : `did you mean ${either(words.map((word) => prefix + word))}?`
}

const flagsOf = (doc: HelpDoc): ReadonlyArray<string> =>
  [...doc.flags, ...doc.inheritedFlags ?? [], ...doc.globalFlags ?? []].map(({ name }) => name)

const commandsOf = (doc: HelpDoc): ReadonlyArray<string> =>
  (doc.subcommands ?? []).flatMap(({ commands }) => commands.map(({ name }) => name))

const unknownFlag = ({ command, option }: CliError.UnrecognizedOption, doc: HelpDoc): string => {
  const where = command?.join(" ") ?? "hermes"
  const flags = flagsOf(doc)
  const name = option.replace(/^-+/, "")
  if (flags.includes(name)) return `${option} belongs behind the command: ${where} ${option} …`
  return `unknown flag ${option}: ${meant(name, flags, "--") || `run \`${where} --help\` for those that there are`}`
}

/** Expected value as Effect names it, for use inside a sentence. */
const words = (expected: string): string =>
  expected.replace(/^Expected:? */, "").replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())

/** Flags whose number need not be whole: what the parser says of a word in place of a number is the same for both. */
const fractions: ReadonlyMap<string, string> = new Map([["run-budget", "a number of seconds"]])

const wrongValue = ({ expected, kind, option, value }: CliError.InvalidValue): string => {
  const name = kind === "flag" ? `--${option}` : `<${option}>`
  const wanted = fractions.get(option) ?? (/finite number|integer/.test(expected) ? "a whole number" : words(expected))
  return value === "" ? `${name} needs a value: ${wanted}` : `${name} "${value}" is invalid: expected ${wanted}`
}

const asPrompt = (text: string): string => `Unknown command "${text}". To send it as a prompt: hermes -q "${text}"`

const oneLine = (error: CliError.NonShowHelpErrors, doc: HelpDoc, path: string): string => {
  switch (error._tag) {
    case "UnrecognizedOption":
      return unknownFlag(error, doc)
    case "InvalidValue":
      return wrongValue(error)
    case "MissingOption":
      return `--${error.option} is missing: run \`${path} --help\``
    case "MissingArgument":
      return `<${error.argument}> is missing: run \`${path} --help\``
    case "UnexpectedArgument":
      return path === "hermes chat"
        ? asPrompt(error.arguments.join(" "))
        : `unexpected argument ${error.arguments.map((word) => JSON.stringify(word)).join(", ")} of \`${path}\`: run \`${path} --help\``
    default:
      return error.message.replaceAll(/\s+/g, " ")
  }
}

/** The text for stderr. */
export const of = (
  errors: ReadonlyArray<CliError.NonShowHelpErrors>,
  doc: HelpDoc,
  commandPath: ReadonlyArray<string>
): string => {
  const path = commandPath.join(" ")
  const [first] = errors
  if (first?._tag !== "UnknownSubcommand") return first === undefined ? "" : render(oneLine(first, doc, path))
  const commands = commandsOf(doc)
  const suggestion = meant(first.subcommand, commands)
  if (suggestion === "" && path === "hermes") return render(asPrompt(first.subcommand))
  return [
    `Error: unknown command "${first.subcommand}" of ${path}`,
    suggestion === "" ? `The commands are ${commands.join(", ")}` : suggestion.replace("did", "Did"),
    `Help: ${path} --help`,
    ""
  ].join("\n")
}
