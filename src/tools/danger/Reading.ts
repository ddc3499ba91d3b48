/**
 * Recognizes commands that are known to only read files, a repository, or the state of the machine. Without a sandbox,
 * every other command leads to a question. Without a sandbox, every other command is asked about.
 *
 * **Details**
 *
 * Each program has a grammar of the exact flags and operands with which it is read-only (`reading/`). A flag that the
 * grammar does not name, including an abbreviated flag, is not known to be read-only. A program must be called by its
 * bare name or from a directory of the system. The rest of the line must be equally plain: no file is written, no
 * variable is set that a program reads, no function is defined, no value is computed for which a shell might run a
 * command (arithmetic, subscripts, `${x@P}`), and no argument that is known only at run time could be a flag or the
 * name of a secret.
 *
 * A variable counts with its value if the line sets it once, to words that are not flags. Otherwise the variable may
 * have a different value at run time: `x=-oz; test -f y && x=a; sort $x`. Otherwise the line may reach a command with
 * another value than the one that was read from it: `x=-oz; test -f y && x=a; sort $x`.
 *
 * Pure, never throws, linear in the text.
 *
 * **Gotchas**
 *
 * Absence from the grammars does not mean that a command is dangerous: test runs and builds are absent because they run
 * code of the project. `git` is present, and uses the settings of the repository in which it is called;
 * `fence/RepositorySettings` checks those settings. `git` is, and follows the settings of the repository that it is
 * called in, which `fence/RepositorySettings` reads.
 *
 * Source: `ARCHITECTURE.md` §7 (walls: "without one, whatever is not known to read asks").
 */
import { type Command, type Field, hasFlag, parseNames, listRedirectTargets } from "./Command.ts"
import * as EmbeddedCommands from "./EmbeddedCommands.ts"
import * as PathClass from "./PathClass.ts"
import { filePrograms } from "./reading/FilePrograms.ts"
import { type Grammar, matchCommand } from "./reading/FlagGrammar.ts"
import { readSubcommand } from "./reading/GitFlags.ts"
import { machinePrograms, verbs, versioned, versionFlags } from "./reading/MachinePrograms.ts"
import { hasWholeNames, scripted, isBelowDirectory } from "./reading/ScriptedPrograms.ts"
import { builtins, findShellScript, isPlainWrapper, isWrapping, tests } from "./reading/ShellBuiltins.ts"
import * as ScriptInterpreter from "./ScriptInterpreter.ts"

/** Programs that do not show the contents of a file. */
const blind = parseNames(`
  ls dir vdir pwd wc stat which type whereis df du basename dirname realpath readlink md5sum sha1sum sha224sum
  sha256sum sha384sum sha512sum b2sum cksum shasum echo printf test [ [[ cd pushd sleep seq command
`)

const systemDirectory = /^\/(?:usr\/(?:local\/)?)?s?bin\/[^/]+$/

/** Returns the program called by its bare name or from a directory of the system; `undefined` for any other program. */
const readProgram = ({ called: { commands, glob, text, unknown, varies }, program }: Command): string | undefined => {
  // A variable may be empty, so that the next word is the program.
  if (unknown || varies || commands.length > 0 || (glob && !text.startsWith("["))) return undefined
  return (text.includes("/") && !systemDirectory.test(text)) || !text.endsWith(program) ? undefined : program
}

/** Returns true for a value that is known only at run time. The name of a `<(…)` is never a flag. */
const isRuntime = ({ commands, shown, unknown }: Field): boolean => shown !== "<(…)" && (unknown || commands.length > 0)

/** Returns true for a value that is known only at run time, or that could be interpreted as a flag. */
const isOpen = (field: Field): boolean => isRuntime(field) || (field.glob && /^[*?[]/.test(field.text))

const daily = /(?:^|\/)\.env(?:\.[^/]*)?$/i

/** Values of flags and text after a colon (`HEAD:.env`) are also treated as paths. */
const listPathParts = (arg: string): ReadonlyArray<string> => {
  const parts = [arg.slice(arg.indexOf("=") + 1), arg.slice(arg.lastIndexOf(":") + 1), arg.replace(/^-[A-Za-z]/, "")]
  return [arg, ...parts.filter((part) => part !== arg)]
}

/** Returns true if a program could show a secret, or a file at a path that is known only at run time. */
const canShowSecret = (program: string, { args, cwd, fields, isAway, redirects }: Command): boolean => {
  if (blind.has(program)) return false
  if (isAway) return true
  const inputs = redirects.filter(({ operator }) => operator.startsWith("<"))
  const paths = [...args.flatMap(listPathParts), ...inputs.map(({ target }) => target.text)]
  // A pattern may match paths that its words do not name.
  if (
    redirects.some(({ target }) => target.glob) ||
    fields.some(({ glob, text }) => glob && (/^[/~]|(?:^|\/)\.[^/]*[*?[]/.test(text) || cwd !== undefined))
  )
    return true
  const isRecursive =
    program === "rg" ||
    (/^(?:[ef]?grep|diff)$/.test(program) && hasFlag(args, "rR", ["recursive", "dereference-recursive"]))
  if (isRecursive && (paths.some((path) => /^[/~]|(?:^|\/)\.\.(?:\/|$)/.test(path)) || cwd !== undefined)) return true
  return paths.some(
    (path) =>
      PathClass.isOwnSecretFile(path, cwd) ||
      (PathClass.isSecret(path, cwd) && !(/^[ef]?grep$/.test(program) && daily.test(path)))
  )
}

/** Variable names that only the script uses, because programs read other names. In zsh, `path` is also `PATH`. */
const setsForShell = /^(?:(?!.*path$)[a-z_][a-z0-9_]*|[A-Z]|FILES?|DIRS?|LINE|NAME|ITEM|PKG|PACKAGE|BRANCH|COMMIT)$/

/** Variables before a command that change how output is shown, with their permitted values. */
const plainSettings: ReadonlyMap<string, RegExp> = new Map([
  ...["GIT_PAGER", "PAGER", "MANPAGER"].map((name) => [name, /^cat$/] as const),
  ...["LC_ALL", "LANG", "LC_COLLATE", "LC_CTYPE"].map(
    (name) => [name, /^(?:C|POSIX|C\.UTF-?8|en_US\.UTF-?8)$/i] as const
  ),
  ["GIT_OPTIONAL_LOCKS", /^[01]$/],
  ["TZ", /^(?:UTC|GMT|[A-Z][a-z]{1,20}\/[A-Z][A-Za-z_]{1,20})$/],
  ["NO_COLOR", /^1?$/],
  ["COLUMNS", /^\d{1,4}$/],
  ["TERM", /^dumb$/]
])

const isPlainSetting =
  (program: string) =>
  ([name, value]: readonly [string, string]): boolean =>
    program === "read" && name === "IFS" ? value.length <= 1 : plainSettings.get(name)?.test(value) === true

/** Returns true if no word has to be known before the command runs according to the grammar. */
const hasKnownWords = ({ open }: Grammar, fields: ReadonlyArray<Field>): boolean =>
  open === "values" || fields.every((field) => (open === "files" ? !isRuntime(field) : !isOpen(field)))

/** Returns true if the first word names a subcommand that is read-only with the words after it. */
const isVerbMatch = (table: ReadonlyMap<string, Grammar>, command: Command): boolean => {
  const [verb, ...rest] = command.fields
  const grammar = verb === undefined || verb.unknown || verb.varies ? undefined : table.get(verb.text)
  return grammar !== undefined && !command.fields.some(isOpen) && matchCommand(grammar, command, rest) !== undefined
}

/** Returns true if git runs in the directory of the call: the settings of another repository may name programs. */
const isRepositoryRead = (command: Command): boolean => {
  if (command.cwd !== undefined || command.isAway || command.fields.some(isOpen)) return false
  const found = readSubcommand(command.fields)
  return found !== undefined && matchCommand(found.grammar, command, found.rest) !== undefined
}

/** Returns true if no path is below `/proc/<id>`, where names do not show the kind of a file. */
const isOutsideOfProcesses = ({ fields }: Command): boolean =>
  fields.every(({ glob, shown }) => !glob && !/^\/*proc\/+[\d$*s]/.test(shown))

/** Returns true if every flag of a program is read-only, because `xargs` and file patterns may pass it any word. */
const canTakeAnyWord = (program: string): boolean => {
  const grammar = filePrograms.get(program) ?? machinePrograms.get(program)
  return program === "echo" || (grammar !== undefined && grammar.open !== "closed")
}

/** Returns true if the program is read-only with the words of a command. */
const hasPlainWords = (program: string, command: Command): boolean => {
  const { args, fields } = command
  const [only = ""] = args
  if (args.length === 1 && (/^--(?:version|help)$/.test(only) || only === versionFlags.get(program))) {
    return versioned.has(program) || filePrograms.has(program)
  }
  if (program === "git") return isRepositoryRead(command)
  const table = verbs.get(program)
  if (table !== undefined) return isVerbMatch(table, command)
  const test = tests.get(program)
  if (test !== undefined) return test(command)
  const script = scripted.get(program)
  if (script !== undefined) return !fields.some(isOpen) && script(command)
  const grammar = builtins.get(program) ?? filePrograms.get(program) ?? machinePrograms.get(program)
  if (grammar === undefined || !hasKnownWords(grammar, fields)) return false
  return (
    matchCommand(grammar, command) !== undefined &&
    ((program !== "cd" && program !== "pushd") || isOutsideOfProcesses(command))
  )
}

/** Returns true if no program reads the variable that a script sets, and its value does not name a secret. */
const isPlainAssignment =
  (cwd: string | undefined) =>
  ([name, value]: readonly [string, string]): boolean =>
    setsForShell.test(name) &&
    value.split(/\s+/).every((word) => {
      const isPattern = /[*?[]/.test(word)
      const isHidden = [word, cwd ?? ""].some((path) => /^[/~]|(?:^|\/)\.(?!\/|$)/.test(path))
      return isPattern ? !isHidden : !PathClass.isOwnSecretFile(word, cwd) && !PathClass.isSecret(word, cwd)
    })

/** Returns true if no redirection writes a file or opens a connection. */
const hasPlainRedirects = (command: Command): boolean =>
  listRedirectTargets(command).every((path) => path === "/dev/null") &&
  command.redirects.every(
    ({ target }) => (!target.unknown || target.commands.length > 0) && !/^\/dev\/(?:tcp|udp)\//.test(target.text)
  )

/**
 * Programs for which no value of a variable is a flag that does more than read, or the name of a file that they show.
 */
const speaking = parseNames("echo true false : expr sleep type")

/** Returns true if the values of a command's variables cannot change the meaning of the command. */
const hasPlainVariables = (program: string, { fields }: Command, isSettled: boolean): boolean => {
  if (speaking.has(program) || !fields.some(({ varies }) => varies)) return true
  if (!isSettled) return blind.has(program) && canTakeAnyWord(program)
  return (
    canTakeAnyWord(program) ||
    tests.has(program) ||
    builtins.has(program) ||
    !fields.some((field) => field.varies && field.splits)
  )
}

/**
 * Returns true for a shell that runs a script which is read-only when judged by itself and uses no variable of the
 * surrounding line. The directory and the input of the script are judged with that line, which includes the script's
 * commands.
 */
const runsReadingScript = (command: Command): boolean => {
  const script = findShellScript(command)
  // Words from elsewhere would be inserted into the script, or read in its place.
  if (script === undefined || command.wrappers.some((wrapper) => !isWrapping(wrapper) || wrapper === "xargs"))
    return false
  const { commands, fault } = ScriptInterpreter.read(script, command.cwd)
  // One level is sufficient for everyday commands and keeps the work linear.
  return (
    fault === undefined &&
    !commands.some(({ program }) => EmbeddedCommands.shells.has(program)) &&
    isOnlyReading(script, commands)
  )
}

/**
 * Returns true if a command is known to be read-only; the rest of its line is judged separately. `isSettled` means that
 * variables have the values that were read from the line.
 */
const isLooking = (command: Command, isSettled: boolean): boolean => {
  const { assignments, called, cwd, wrappers } = command
  if (!hasPlainRedirects(command)) return false
  if (called.text === "" && !called.unknown) {
    return called.commands.length === 0 && assignments.every(isPlainAssignment(cwd)) && !canShowSecret("", command)
  }
  const program = readProgram(command)
  if (program === undefined || !assignments.every(isPlainSetting(program)) || canShowSecret(program, command))
    return false
  if (isWrapping(program)) return isPlainWrapper(command)
  if (EmbeddedCommands.shells.has(program) && command.fields.length > 1) return runsReadingScript(command)
  if (!hasPlainVariables(program, command, isSettled) || !hasPlainWords(program, command)) return false
  // Names from the input may refer to any file and may look like flags.
  if (wrappers.includes("xargs"))
    return canTakeAnyWord(program) && (blind.has(program) || command.input.every(isBelowDirectory))
  return wrappers.every(isWrapping) || hasWholeNames(command)
}

/**
 * Matches arithmetic, subscripts, expansions that a shell executes or computes, and redirections that store a
 * descriptor number.
 */
const computes = /\(\(|\$\[|\$\{(?![A-Za-z_]\w*(?:\}|:?-|%|#))|\$\{#|\w\[[^\]]{0,200}\]?\+?=|\{[A-Za-z_]\w*\}[<>&]/

/** Returns true if each variable of a line is set once, to words that are not flags. */
const hasSettledVariables = (commands: ReadonlyArray<Command>): boolean => {
  const names = new Set<string>()
  return commands.every(
    ({ assignments, program }) =>
      program !== "read" &&
      assignments.every(([name, value]) => {
        const isNew = !names.has(name)
        names.add(name)
        return isNew && !/(?:^|\s)[-+*?[]/.test(value)
      })
  )
}

/** Returns true if a shell computes a value of the line and may run a command to do so. */
export const computesValues = (line: string): boolean => computes.test(line)

/** Creates a test for the commands of a line that are known to be read-only. */
export const makeLookTest = (line: string, commands: ReadonlyArray<Command>): ((command: Command) => boolean) => {
  if (computesValues(line)) return () => false
  const isSettled = hasSettledVariables(commands)
  return (command) => isLooking(command, isSettled)
}

/** Returns true if all commands parsed from a line are known to be read-only. */
export const isOnlyReading = (line: string, commands: ReadonlyArray<Command>): boolean =>
  commands.length > 0 && commands.every(makeLookTest(line, commands))
