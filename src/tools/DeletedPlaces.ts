/**
 * Paths of the files that a command line deletes or overwrites, as far as its words name them. An undo has to store
 * these files first.
 *
 * **Details**
 *
 * A loss that the command judge finds has places if the words name all deleted files: operands of `rm`, the directories
 * and the single pattern of a search, or files that git lists. If the files depend on a variable, a substitution,
 * another machine or container, or code of another language, the loss has no known places and still requires a
 * question.
 *
 * Pure.
 */
import type { Listing, NamedPlace } from "../places/NamedFiles.ts"
import {
  makeFinding,
  isHelpRequest,
  type Command,
  type Field,
  type Finding,
  toKnownField,
  parseNames,
  selectOperands,
  listRedirectTargets
} from "./danger/Command.ts"
import { interpreters } from "./danger/EmbeddedCommands.ts"
import { isSearchDeletion, losses, readGitSubcommand } from "./danger/rules/LossRules.ts"
import * as ScriptInterpreter from "./danger/ScriptInterpreter.ts"

/**
 * A loss, and the places of all files that it deletes; `undefined` places if they are not known before the command
 * runs.
 */
export interface Loss {
  readonly finding: Finding
  readonly places: ReadonlyArray<NamedPlace> | undefined
  /** Reason why the places are not known, if the key does not say it. */
  readonly open: string | undefined
}

/** Files deleted and overwritten by a command line. */
export interface Deletions {
  /** Losses that the judge finds, each key once, and deletions that do not lead to a question. */
  readonly losses: ReadonlyArray<Loss>
  readonly overwritten: ReadonlyArray<NamedPlace>
  /**
   * Deletions that do not lead to a question and whose files no word names. A snapshot of the tree around the command
   * finds these files.
   */
  readonly unnamed: ReadonlyArray<Finding>
}

/** Wrapper commands that change the meaning of a path. */
const elsewhere = parseNames("chroot docker podman nerdctl kubectl docker-compose ssh mosh unshare nsenter su runuser")
const searches = /^(?:find|gfind|bfs)$/
const removes = /^(?:rm|grm|unlink|rmdir|rimraf)$/
/** Programs that replace the content of the files named in their arguments. */
const overwriting = /^(?:mv|cp|install|truncate|tee|sed|gsed|dd|ln)$/

/** Returns the places that the words name; `undefined` if they are known only when the command runs. */
const toPlaces = (
  { cwd, wrappers }: Command,
  fields: ReadonlyArray<Field>,
  name?: string
): ReadonlyArray<NamedPlace> | undefined => {
  const isKnown =
    fields.length > 0 &&
    !wrappers.some((wrapper) => elsewhere.has(wrapper)) &&
    fields.every(
      ({ commands, text, unknown, varies }) => !unknown && !varies && commands.length === 0 && !text.includes("{}")
    )
  return isKnown ? fields.map(({ glob, text }) => ({ path: text, directory: cwd, isPattern: glob, name })) : undefined
}

const selectOperandFields = ({ args, fields }: Command): ReadonlyArray<Field> => {
  const given = selectOperands(args)
  return fields.filter(({ text }) => text !== "--" && given.includes(text))
}

/** Returns the places that a search covers, using its single name pattern. */
const readSearchPlaces = (command: Command): ReadonlyArray<NamedPlace> | undefined => {
  const { args, fields } = command
  if (args.some((arg) => /^-(?:L|follow|files0-from)$|shred|srm/.test(arg))) return undefined
  const start = Math.max(
    args.findIndex((arg) => !/^-[HP]$/.test(arg)),
    0
  )
  const test = args.findIndex((arg, index) => index >= start && /^[-(!]/.test(arg))
  const starts = fields.slice(start, test === -1 ? args.length : test)
  const isPlain =
    args.filter((arg) => arg === "-name").length === 1 &&
    !args.some((arg) => /^(?:-o|-or|!|-not|,|\(|-prune)$/.test(arg))
  const name = isPlain ? fields[args.indexOf("-name") + 1] : undefined
  return toPlaces(
    command,
    starts.length === 0 ? [toKnownField(".")] : starts,
    name?.unknown === false && !name.varies ? name.text : undefined
  )
}

/** Returns the places named by a pipeline of a search and filters. */
const readPipelinePlaces = ([first, ...rest]: ReadonlyArray<Command>): ReadonlyArray<NamedPlace> | undefined =>
  first !== undefined &&
  searches.test(first.program) &&
  rest.every(({ program }) => /^(?:[ef]?grep|sort|uniq|head|tail)$/.test(program))
    ? readSearchPlaces(first)
    : undefined

/**
 * Git subcommands whose losses can be listed beforehand. The list does not cover moved branches and files of nested
 * repositories.
 */
const listings: ReadonlyArray<readonly [words: RegExp, listing: Listing]> = [
  [/^reset(?: -\S+| HEAD| @)*$/, "changed"],
  [/^(?:checkout|switch|restore) /, "changed"],
  [/^clean(?!.* -\S*f\S*f|.* -\S*f.* -\S*f)(?: -[dfq]+| --force)+(?: [^-]\S*)*$/, "untracked"],
  [/^clean(?!.* -\S*f\S*f|.* -\S*f.* -\S*f)(?: -[dfqxX]+| --force)+(?: [^-]\S*)*$/, "ignored"]
]

const readGitPlaces = (command: Command): ReadonlyArray<NamedPlace> | undefined => {
  const { args, wrappers } = command
  const words = readGitSubcommand(args)
  const listing = listings.find(([pattern]) => pattern.test(words))?.[1]
  // The files in the repository of another directory are unknown.
  const isHere = args[0]?.startsWith("-") !== true && !wrappers.some((wrapper) => elsewhere.has(wrapper))
  return listing === undefined || !isHere ? undefined : [{ path: ".", directory: command.cwd, listing }]
}

/** Returns the places that a command deletes. */
const readDeletedPlaces = (command: Command): ReadonlyArray<NamedPlace> | undefined => {
  const { args, input, program, wrappers } = command
  const given = selectOperandFields(command)
  if (program === "git") return readGitPlaces(command)
  if (isSearchDeletion(command)) return readSearchPlaces(command)
  if (program === "mv") return toPlaces(command, given.slice(0, -1))
  if (program === "cp" || program === "ln") return toPlaces(command, given.slice(1))
  if (program === "rsync")
    return given.length === 2 && !args.some((arg) => arg.includes(":")) ? toPlaces(command, given) : undefined
  if (!removes.test(program)) return undefined
  // This `rm` belongs to its search, which names the places.
  if (/(?:^|\/)rm$/.test(command.called.text) && searches.test(wrappers.at(-1) ?? "")) return []
  if (wrappers.includes("xargs")) return wrappers.length === 1 ? readPipelinePlaces(input) : undefined
  return wrappers.some((wrapper) => /^(?:parallel|fd|fdfind)$/.test(wrapper) || searches.test(wrapper))
    ? undefined
    : toPlaces(command, given)
}

/**
 * Returns true if the words of a command may be incomplete: `xargs -I% sh -c '…'`, or partly parsed code of another
 * language.
 */
const isPartial = ({ args, program }: Command): boolean =>
  program === "parallel" ||
  (program === "xargs" && args.some((arg) => /^-(?:[iI]|-replace)/.test(arg))) ||
  (interpreters.test(program) && args.some((arg) => arg.includes("(")))

const explainOpenLoss = ({ args, program }: Command): string | undefined => {
  if (program === "git") return readGitSubcommand(args).startsWith("reset") ? "the branch moves" : undefined
  return removes.test(program) || searches.test(program) || program === "rsync"
    ? "its files are known only when it runs"
    : undefined
}

const small = makeFinding("file destruction", "delete of files")

/** Reads the deletions of a command line. */
export const findDeletions = (line: string): Deletions => {
  const { commands } = ScriptInterpreter.read(line)
  const isOpen = commands.some(isPartial)
  const found = new Map<string, Loss>()
  const unnamed: Array<Finding> = []
  for (const command of commands) {
    const findings = losses.flatMap((rule) => rule(command) ?? [])
    const isSmall = findings.length === 0 && removes.test(command.program) && !isHelpRequest(command.args)
    const places = isOpen || (findings.length === 0 && !isSmall) ? undefined : readDeletedPlaces(command)
    if (isSmall && places === undefined && unnamed.length === 0) unnamed.push(small)
    // A deletion that does not lead to a question still does not lead to one if its files are unknown.
    for (const finding of isSmall ? (places === undefined ? [] : [small]) : findings) {
      const before = found.get(finding.key) ?? { places: [], open: undefined }
      const isKnown = before.places !== undefined && places !== undefined
      found.set(finding.key, {
        finding,
        places: isKnown ? [...before.places, ...places] : undefined,
        open: isKnown ? undefined : (before.open ?? explainOpenLoss(command))
      })
    }
  }
  const listOverwrittenPlaces = (command: Command): ReadonlyArray<NamedPlace> => [
    ...(overwriting.test(command.program) ? (toPlaces(command, selectOperandFields(command)) ?? []) : []),
    ...listRedirectTargets(command).map((path) => ({ path, directory: command.cwd }))
  ]
  return { losses: Array.from(found.values()), overwritten: commands.flatMap(listOverwrittenPlaces), unnamed }
}
