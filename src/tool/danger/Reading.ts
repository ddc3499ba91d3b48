/**
 * Commands that are known to do nothing but look: at files, at a repository, at the machine. Where no wall stands around commands,
 * every other one is asked about.
 *
 * **Details**
 *
 * Programs are named one by one, with the arguments that keep them from writing and from running something else. They are called
 * by their bare names or from a directory of the system. What stands around them must be as plain: no file is written, no variable
 * is set that a program reads, no value is computed that a shell might run (arithmetic, subscripts, `${x@P}`), no argument comes
 * from a place that only the machine knows where it could be a flag or the name of a secret.
 *
 * Pure, never throws, linear in the text.
 *
 * **Gotchas**
 *
 * Absence from the list says nothing: a test run or a build is not on it, because it runs what the project holds. `git` is on it, and
 * follows the settings of the repository that it stands in, which `fence/RepositorySettings` reads.
 *
 * Source: `ARCHITECTURE.md` §7 (walls: "without one, whatever is not known to read asks").
 */
import { byName, type Command, type Field, hasFlag, named, operands, written } from "./Command.ts"
import * as PathClass from "./PathClass.ts"

/** True when a program with these arguments does nothing but look. */
type Looks = (command: Command) => boolean

/** Programs that only look, whatever their arguments are. */
const looking = named(`
  ls dir vdir pwd cat head tail wc nl tac rev fold column cut tr paste join comm cmp diff od hexdump strings stat which type whereis
  whoami id groups uname uptime df du free pgrep basename dirname realpath readlink seq expr sleep md5sum sha1sum sha224sum
  sha256sum sha384sum sha512sum b2sum cksum sum grep egrep fgrep jq locale nproc lscpu tty getconf numfmt base64 base32 factor cal
  true false : popd dirs wait jobs exit return break continue echo printenv
`)

/** Those of {@link looking} that show nothing of what is in a file. */
const blind = named("ls dir vdir pwd wc stat which type whereis df du basename dirname realpath readlink md5sum sha1sum sha256sum sha512sum cksum echo printf test [ [[ cd pushd sleep seq")

/** Programs that take values which only the machine knows as text, never as a flag or a file. */
const speaking = named("echo printf test [ [[ read true false :")

/** Programs that run the rest of their words, which are judged on their own. */
const wrapping = named("time timeout nice ionice stdbuf command builtin xargs")

const without = (letters: string, long: ReadonlyArray<string> = []): Looks => ({ args }) => !hasFlag(args, letters, long)

const everyArgument = (pattern: RegExp): Looks => ({ args }) => args.every((arg) => pattern.test(arg))

/** The first word is one of these: no flag before it says where to look. */
const first = (words: ReadonlySet<string>): Looks => ({ args }) => words.has(args[0] ?? "")

const sedCommand = String.raw`(?:(?:\d+|\$|/[^/\\]*/)(?:,(?:\d+|\$|/[^/\\]*/))?)?\s*(?:[pdq=]|s([/|#,])(?:(?!\1)[^\\;\n])*\1(?:(?!\1)[^\\;\n])*\1[gpiI\d]{0,4})?`
const sedScript = new RegExp(String.raw`^\s*${sedCommand}(?:\s*[;\n]\s*${sedCommand.replaceAll("\\1", "\\2")})?\s*$`)

/** The scripts of sed: of its flags, or its first operand. */
const sed: Looks = ({ args }) => {
  const given = args.filter((_, index) => /^-n?[Er]?e$|^--expression$/.test(args[index - 1] ?? ""))
  const scripts = given.length > 0 ? given : operands(args).slice(0, 1)
  return scripts.length > 0 && scripts.every((script) => script.length <= 500 && sedScript.test(script)) &&
    args.every((arg) => !arg.startsWith("-") || /^-(?:[nErsuz]*e?|-quiet|-silent|-regexp-extended|-expression|-)$/.test(arg))
}

const awk: Looks = ({ args }) => {
  const script = args.findIndex((arg, index) => !arg.startsWith("-") && !/^-[Fv]$/.test(args[index - 1] ?? ""))
  return script !== -1 && !/system|getline|[|>@`]|-i\b|close|fflush|ENVIRON|ARGV/.test(args[script] ?? "") &&
    args.slice(0, script).every((arg, index) => /^-[Fv]/.test(arg) || /^-[Fv]$/.test(args[index - 1] ?? "")) &&
    args.slice(script + 1).every((arg) => !arg.startsWith("-"))
}

const gitLooks = named(`
  status log show diff diff-tree diff-index ls-files ls-tree rev-parse rev-list grep blame annotate describe cat-file shortlog
  merge-base name-rev show-ref for-each-ref cherry count-objects check-ignore check-attr whatchanged version
`)
const gitRuns = /^(?:--no-index|--output|--open-files-in-pager|-O|--ext-diff|--textconv|--filters|--exec|--upload-pack|--paginate)/
const gitChanges = ["delete", "move", "copy", "force", "set-upstream", "unset-upstream", "edit-description", "create-reflog", "track", "annotate", "sign", "message", "file", "local-user"]

const listsRefs = (args: ReadonlyArray<string>): boolean => hasFlag(args, "l", ["list", "merged", "no-merged", "contains", "points-at"])

/** Subcommands that look with some words: all of them, and the first that is no flag. */
const gitRules: Readonly<Record<string, (rest: ReadonlyArray<string>, what: string | undefined) => boolean>> = {
  branch: (rest, what) => (what === undefined || listsRefs(rest)) && !hasFlag(rest, "dDmMcCfut", gitChanges),
  tag: (rest, what) => (what === undefined || listsRefs(rest)) && !hasFlag(rest, "dasmFfu", gitChanges),
  remote: (_, what) => what === undefined || what === "get-url",
  stash: (_, what) => what === "list" || what === "show",
  reflog: (_, what) => what === undefined || what === "show",
  worktree: (_, what) => what === "list",
  config: (rest) => /^(?:--get(?:-all|-regexp)?|--list|-l)$/.test(rest[0] ?? "") && !hasFlag(rest, "e", ["edit", "unset", "unset-all", "add", "replace-all"])
}

/** In the directory of the call alone: the settings of another repository may name programs. */
const git: Looks = ({ args, cwd }) => {
  const at = args.findIndex((arg) => !/^--no-(?:pager|optional-locks)$/.test(arg))
  const [verb = "", ...rest] = at === -1 ? [] : args.slice(at)
  if (cwd !== undefined || rest.some((arg) => gitRuns.test(arg))) return false
  const rule = Object.hasOwn(gitRules, verb) ? gitRules[verb] : undefined
  return rule === undefined ? gitLooks.has(verb) : rule(rest, operands(rest)[0])
}

/** A search that writes nothing; the command after `-exec` is judged on its own. */
const finding: Looks = (command) =>
  command.args.every((arg) => !/^-(?:execdir|ok|delete|fprint|fls|files0-from)/.test(arg)) && (!command.args.includes("-exec") || staysBelow(command))

/** True of a command that names nothing but places below the directory of the call. */
const staysBelow = ({ cwd, fields }: Command): boolean =>
  cwd === undefined && fields.every(({ commands, text, unknown }) => !unknown && commands.length === 0 && !/^[/~]|(?:^|\/)\.\.(?:\/|$)/.test(text))

/** A directory below `/proc/<id>` hides what its files are. */
const outsideOfProcesses: Looks = ({ fields }) => fields.every(({ shown }) => !/^\/*proc\/+[\d$*s]/.test(shown))

const nothing: Looks = ({ args }) => args.length === 0

/** The first words of an archive's listing, and nothing but files after them. */
const listing = (first: RegExp): Looks => ({ args }) => first.test(args[0] ?? "") && args.slice(1).every((arg) => !arg.startsWith("-"))

const withoutWords = (pattern: RegExp): Looks => ({ args }) => !args.some((arg) => pattern.test(arg))

const units = first(named("status list-units list-unit-files is-active is-enabled is-failed show"))

/** Programs that only look with some arguments. */
const rules = byName<Looks>([
  ["git", git],
  // With `e` it shows the environments of processes.
  ["ps", ({ args }) => args.every((arg, index) => !/^(?:[a-df-z]*e[a-z]*|-[a-zA-Z]*E)$/.test(arg) || /^-(?:[a-zA-Z]*[oOCuUpgGt]|-\w[\w-]*)$/.test(args[index - 1] ?? ""))],
  ["cd pushd", outsideOfProcesses],
  ["sed", sed],
  ["awk gawk mawk", awk],
  ["find", finding],
  ["fd fdfind", without("xX", ["exec", "exec-batch"])],
  ["rg", without("", ["pre", "hostname-bin"])],
  ["file", without("C", ["compile"])],
  ["sort", without("o", ["output", "compress-program"])],
  ["tree", without("o")],
  ["yq", without("i", ["inplace"])],
  ["uniq", ({ args }) => operands(args).length <= 1],
  ["xxd", ({ args }) => operands(args).length <= 1 && !hasFlag(args, "r", ["revert"])],
  ["date", ({ args }) => operands(args).every((arg) => arg.startsWith("+")) && !hasFlag(args, "s", ["set"])],
  ["hostname env", nothing],
  ["less more bat", everyArgument(/^[^-+]/)],
  ["printf", without("v")],
  ["test [", withoutWords(/^-[vR]$/)],
  // Its numbers are expressions, which may hold commands.
  ["[[", withoutWords(/^-(?:v|R|eq|ne|lt|le|gt|ge)$/)],
  ["set", everyArgument(/^(?:[-+][eux]*o?|pipefail)$/)],
  ["read", everyArgument(/^(?:-r|[a-z_][a-z0-9_]{0,30})$/)],
  ["tar", listing(/^-?t[vzjJf]*$/)],
  ["unzip", listing(/^-l$/)],
  ["npm", first(named("ls list root prefix"))],
  ["pip pip3", first(named("list show freeze"))],
  ["docker podman", first(named("ps images version info logs inspect top"))],
  ["systemctl", (command) => units(command) && without("HM", ["host", "machine"])(command)],
  ["dpkg", ({ args }) => /^-[lLsS]$/.test(args[0] ?? "")],
  ["crontab", ({ args }) => args.length === 1 && args[0] === "-l"],
  ["hermes", ({ args }) => args.length === 1 && /^(?:version|--version|--help)$/.test(args[0] ?? "")]
])

const systemDirectory = /^\/(?:usr\/(?:local\/)?)?s?bin\/[^/]+$/

/** The program by its name alone, or from a directory of the system; undefined for any other. */
const nameOf = ({ called: { commands, glob, text, unknown }, program }: Command): string | undefined =>
  unknown || glob && !text.startsWith("[") || commands.length > 0 || text.includes("/") && !systemDirectory.test(text) || !text.endsWith(program) ? undefined : program

/** A value that is not there to be read, or could be taken for a flag. */
const isOpen = ({ commands, glob, text, unknown }: Field): boolean => unknown || commands.length > 0 || glob && /^[*?[]/.test(text)

const daily = /(?:^|\/)\.env(?:\.[^/]*)?$/i

/** The secret that a program would show. */
const showsSecret = (program: string, { args, cwd, fields, redirects }: Command): boolean => {
  if (blind.has(program)) return false
  const paths = [...args, ...redirects.map(({ target }) => target.text)]
  // A pattern may stand for what its words do not say.
  if (redirects.some(({ target }) => target.glob) || fields.some(({ glob, text }) => glob && (/^[/~]|(?:^|\/)\.[^/]*[*?[]/.test(text) || cwd !== undefined))) return true
  const isRecursive = program === "rg" || /^(?:[ef]?grep|diff)$/.test(program) && hasFlag(args, "rR", ["recursive", "dereference-recursive"])
  if (isRecursive && (paths.some((path) => /^[/~]|(?:^|\/)\.\.(?:\/|$)/.test(path)) || cwd !== undefined)) return true
  return paths.some((path) => PathClass.isOwnSecretFile(path, cwd) || PathClass.isSecret(path, cwd) && !(/^[ef]?grep$/.test(program) && daily.test(path)))
}

const setsForShell = /^[a-z_][a-z0-9_]*$/

/** True when a command is known to do nothing but look; what stands around it is judged on its own. */
export const isLooking = (command: Command): boolean => {
  const { args, assignments, fields, redirects, wrappers } = command
  const targets = written(command).filter((path) => path !== "/dev/null")
  const opens = redirects.some(({ target }) => target.unknown && target.commands.length === 0 || /^\/dev\/(?:tcp|udp)\//.test(target.text))
  if (opens || targets.length > 0 || assignments.some(([name]) => !setsForShell.test(name) || name.endsWith("path"))) return false
  if (command.called.text === "" && !command.called.unknown) return command.called.commands.length === 0
  const program = nameOf(command)
  if (program === undefined || assignments.length > 0) return false
  if (args.length === 1 && /^--(?:version|help)$/.test(args[0] ?? "")) return true
  if (showsSecret(program, command)) return false
  if (wrapping.has(program)) return !args.some((arg) => /^-[a-z]*o|^--output/.test(arg) && program === "time")
  // Names from elsewhere may be those of any file.
  if (wrappers.includes("xargs") && !blind.has(program) && !command.input.every(staysBelow)) return false
  if (looking.has(program)) return speaking.has(program) || blind.has(program) || fields.every(({ commands, unknown }) => !unknown && commands.length === 0)
  return rules.get(program)?.(command) === true && !wrappers.includes("xargs") && (speaking.has(program) || blind.has(program) || !fields.some(isOpen))
}

/** Arithmetic, subscripts and the expansions that a shell runs or computes. */
const computes = /\(\(|\$\[|\$\{(?![A-Za-z_]\w*(?:\}|:?-|%|#))|\$\{#|\w\[[^\]]{0,200}\]?\+?=/

/** True when all commands of a line, as they were read from it, are known to do nothing but look. */
export const onlyReads = (line: string, commands: ReadonlyArray<Command>): boolean =>
  commands.length > 0 && !computes.test(line) && commands.every(isLooking)
