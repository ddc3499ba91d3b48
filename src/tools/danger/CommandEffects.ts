/** Effects of a command on later ones: the known text that it writes, and the directory to which it changes. */
import { makeTable, type Command, hasFlag, selectOperands, type Field } from "./Command.ts"
import * as Tree from "../shell/ShellTree.ts"
import { tidyPath } from "../fence/SensitivePaths.ts"

/** Maximum length of a directory that is tracked; after a longer chain of `cd`, the directory is unknown. */
const maxDirectory = 4_096

/** Directory in which a command runs, as far as the line determines it. */
export type Place = Pick<Command, "cwd" | "isAway">

/** Returns true for `$(git rev-parse --show-toplevel)`: the root of the repository of the call. */
const isTopLevel = ({ commands, shown }: Field): boolean =>
  shown === "$(…)" &&
  commands.length === 1 &&
  commands[0]?.program === "git" &&
  commands[0].args.join(" ") === "rev-parse --show-toplevel"

/** Returns the directory after a `cd` or `pushd`. */
export const changeDirectory = ({ cwd, isAway }: Place, { args, fields, program }: Command): Place => {
  const target = fields.find(({ text }) => !text.startsWith("-"))
  if (
    program === "popd" ||
    args.includes("-") ||
    (program === "pushd" && (target === undefined || /^[+]\d/.test(target.text)))
  ) {
    return { cwd: program === "popd" ? cwd : "~", isAway: true }
  }
  if (target === undefined) return { cwd: "~", isAway: false }
  const { glob, text, unknown } = target
  if (unknown || text === "") return { cwd: undefined, isAway: isAway || !isTopLevel(target) }
  const isAbsolute = text.startsWith("/") || text.startsWith("~")
  const path = isAbsolute ? text : tidyPath(text, cwd)
  const isLong = path.length > maxDirectory
  return { cwd: isLong ? undefined : path, isAway: glob || isLong || (isAway && !isAbsolute) }
}

const decodeEscapes = (text: string): string =>
  text.replace(
    /\\(x[0-9a-f]{1,2}|u[0-9a-f]{1,4}|U[0-9a-f]{1,8}|[0-7]{1,4}|[\s\S])/gi,
    (_, after: string) => Tree.readEscape(after)[1]
  )

const fromBase64 = (text: string): string | undefined => {
  try {
    return atob(text.replace(/[^A-Za-z0-9+/=]/g, ""))
  } catch {
    // The text is not base64, so the shell would receive nothing either.
    return undefined
  }
}

const fromHex = (text: string): string =>
  (text.replace(/0x|\\x|[^0-9a-fA-F]/g, "").match(/../g) ?? [])
    .map((pair) => String.fromCharCode(Number.parseInt(pair, 16)))
    .join("")

/** Programs that write their input in another form. */
const filters = makeTable<(text: string, args: ReadonlyArray<string>) => string | undefined>([
  ["cat tee", (text, args) => (selectOperands(args).every((arg) => arg === "-") ? text : undefined)],
  [
    "rev",
    (text) =>
      text
        .split("\n")
        .map((line) => Array.from(line).reverse().join(""))
        .join("\n")
  ],
  ["base64 openssl", (text, args) => (hasFlag(args, "dD", ["decode"]) ? fromBase64(text) : undefined)],
  ["xxd", (text, args) => (hasFlag(args, "r") ? fromHex(text) : undefined)]
])

/**
 * Computes the standard output of a command, to recognize `echo … | base64 -d | sh`; `undefined` if it is not known.
 */
export const computeOutput = ({ args, fields, program, stdin }: Command): string | undefined => {
  if (fields.some(({ unknown }) => unknown)) return undefined
  if (program === "echo") {
    const end = args.findIndex((arg) => !/^-[neE]+$/.test(arg))
    const text = end === -1 ? "" : args.slice(end).join(" ")
    return args.slice(0, end === -1 ? args.length : end).some((flag) => flag.includes("e")) ? decodeEscapes(text) : text
  }
  if (program === "printf") {
    const [format = "", ...values] = args[0] === "--" ? args.slice(1) : args
    return /%(?![sb])|%.*%/s.test(format) ? undefined : decodeEscapes(format).replace(/%[sb]/, () => values.join(" "))
  }
  return stdin === undefined ? undefined : filters.get(program)?.(stdin, args)
}
