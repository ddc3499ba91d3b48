/** Layout of help text: rows of two columns and paragraphs, wrapped at words to the usual width of a terminal. */
import * as CliOutput from "effect/cli/CliOutput"
import type { HelpDoc } from "effect/cli/HelpDoc"
import * as Option from "effect/Option"
import * as Paint from "./Paint.ts"
import * as Width from "./Width.ts"

/** Maximum width of a line in columns. */
const columns = 80

/** Width of a row's first column above which its description starts on a separate line. */
const widest = 36

const indented = 6

const measureWidth = (text: string): number => Width.measure(Paint.strip(text))

/** Wraps text at spaces; a word that is too long is not divided. */
const wrapWords = (text: string, room: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let line = ""
  for (const word of text.split(/ +/)) {
    const longer = line === "" ? word : `${line} ${word}`
    if (line !== "" && measureWidth(longer) > room) {
      lines.push(line)
      line = word
    } else line = longer
  }
  return [...lines, line]
}

const fitLine = (line: string): ReadonlyArray<string> => {
  if (measureWidth(line) <= columns) return [line]
  const [, name = "", text = ""] = /^(\s+\S.*?\s{2,})(\S.*)$/u.exec(line) ?? []
  if (text === "") {
    const [indent = ""] = /^\s*/.exec(line) ?? []
    return wrapWords(line.trim(), columns - indent.length).map((part) => indent + part)
  }
  const indent = measureWidth(name)
  const room = columns - (indent > widest ? indented : indent)
  const parts = wrapWords(text, room)
  return indent > widest
    ? [name.trimEnd(), ...parts.map((part) => " ".repeat(indented) + part)]
    : parts.map((part, index) => (index === 0 ? name : " ".repeat(indent)) + part)
}

const isHeading = (line: string | undefined): boolean => line !== undefined && /^[A-Z][A-Z ]+$/.test(Paint.strip(line))

/** Wraps lines that are too wide, and separates headings. */
const fitHelp = (help: string): string => {
  const lines: Array<string> = []
  for (const line of help.split("\n")) {
    if (isHeading(line) && lines.length > 0 && lines.at(-1) !== "") lines.push("")
    lines.push(...fitLine(line))
  }
  return lines.join("\n")
}

/**
 * The flags that all commands share are described only by `hermes --help` and by the help of the command that uses
 * them.
 */
const makeFormatter = (colors: boolean, command: string | undefined): CliOutput.Formatter =>
  CliOutput.defaultFormatter({ colors, inheritedFlags: command === "chat" ? "full" : "summary", globalFlags: "none" })

/** Flags that `hermes --help` describes. All flags are in the help of `chat`. */
const usualFlags = ["query", "continue", "resume", "model", "provider", "mode", "quiet"]

/** Lines before the flags of `hermes --help`. */
const usage = [
  "USAGE",
  "  hermes                        Start a conversation about this folder",
  "  hermes -q 'Fix the bug'       Send one prompt, print the answer and exit",
  "  hermes <command> [flags]      See hermes <command> --help"
]

/** Formats a flag with the first part of its description. */
const formatFlag = ({ aliases, description, name }: HelpDoc["flags"][number]): string => {
  const [text = ""] = Option.getOrElse(description, () => "").split(/[,;:(] ?/, 1)
  return `  ${[...aliases, `--${name}`].join(", ").padEnd(15)} ${text.trim()}`
}

/** Renders the help of the program: the commands by use, and the usual flags. */
const renderProgram = (doc: HelpDoc): string => {
  const flags = [...doc.flags, ...(doc.inheritedFlags ?? [])]
  const usual = usualFlags.flatMap((name) => flags.filter((flag) => flag.name === name))
  return [
    doc.description,
    "",
    ...usage,
    ...(doc.subcommands ?? []).flatMap(({ commands, group }) => [
      group ?? "COMMANDS",
      ...commands.map(({ description, name }) => `  ${name.padEnd(12)} ${description}`)
    ]),
    "FLAGS",
    ...usual.map(formatFlag),
    "  --help          This text; all flags are in hermes chat --help"
  ].join("\n")
}

/** Renders the help of a command, or of the program if `command` is `undefined`. */
export const render = (doc: HelpDoc, command: string | undefined, colors: boolean): string =>
  fitHelp(command === undefined ? renderProgram(doc) : makeFormatter(colors, command).formatHelpDoc(doc))
