/**
 * Finds shell scripts that programs receive as text: after a flag that runs them, in a variable or setting that names a
 * pager or an editor, in the code of another language, or typed into another terminal. Each is judged as a separate
 * script.
 *
 * **Gotchas**
 *
 * One table covers all programs: any text that may be a script is read as a script. Programs whose arguments are prose
 * or patterns ({@link isProse}) are excluded.
 */
import { makeTable, type Command, type Field, toKnownField, parseNames } from "./Command.ts"
import { joinFields } from "./WordExpansion.ts"

/** Programs that read a script: shells. */
export const shells = parseNames("sh bash zsh dash ksh mksh ash fish csh tcsh rbash yash pwsh powershell")

/** Programs that run code in their own language. */
export const interpreters =
  /^(?:python[\d.]*|pypy3?|perl|ruby|node|nodejs|deno|bun|tsx|php|lua|osascript|tclsh|rscript|groovy|julia|elixir)$/

/** Programs that show, search or write text without executing it. */
const textual = parseNames(`
  echo printf cat grep egrep fgrep rg ag ack gh glab head tail wc diff jq yq tee sort cut tr code touch ls test [ [[
  mkdir cp mv open curl wget jest vitest pytest claude hermes psql mysql sqlite3 notify-send logger which type whereis
  alias stat
`)
const gitProse =
  /^(?:commit|tag|log|show|grep|notes|stash|merge|revert|am|shortlog|branch|checkout|switch|add|diff|blame)$/

/** Returns true for a program whose arguments are not commands, even if they look like commands. */
export const isProse = ({ args, program }: Pick<Command, "args" | "program">): boolean =>
  textual.has(program) ||
  (program === "git" &&
    gitProse.test(args.find((arg, index) => !arg.startsWith("-") && args[index - 1] !== "-c") ?? "") &&
    !args.includes("-c"))

/** Variables and settings whose values a shell executes. */
const runSetting = new RegExp(
  "pager|editor|command$|^shell$|visual|askpass|^git_external_diff$|lessopen|lessclose|^browser$|gitproxy|" +
    String.raw`fsmonitor|\.(?:helper|external|textconv|cmd|clean|smudge|driver|process)$`,
  "i"
)

/** Flags whose value is executed, and letters after which a text of several words is executed. */
const runFlag = new RegExp(
  "^--?(?:exec|eval|ex|cmd|run|command|call|pager|rsh|rsync-path|upload-pack|to-command|use-compress-program|" +
    String.raw`\w+-filter|split-string)$`
)
const runLetter = /^-[a-zA-Z]*[cexPIFo]$/

/** Programs that execute all of their text arguments. */
const positional = parseNames(
  "tmux screen watch parallel ssh mosh hyperfine concurrently expect xterm konsole alacritty kitty " +
    "gnome-terminal entr su"
)

const quoted = String.raw`\[?\s{0,8}(["'])((?:\\.|(?!\1)[^\\]){1,2000})\1`
/** Returns an expression for calls of functions by name with a quoted first argument. */
const makeCallExpression = (names: ReadonlyArray<string>): RegExp =>
  new RegExp(String.raw`\b(?:${names.join("|")})\s{0,8}\(?\s{0,8}${quoted}`, "g")

const shellCall = makeCallExpression([
  "system",
  "popen",
  "Popen",
  String.raw`exec\w{0,16}`,
  String.raw`spawn\w{0,16}`,
  "run",
  "call",
  String.raw`check_\w{0,16}`,
  "shell_exec",
  "passthru",
  "getoutput",
  "execute",
  "shell-command(?:-to-string)?",
  "do shell script"
])
const treeCall = makeCallExpression([
  "rmtree",
  "rmSync",
  "rm_rf",
  "rm_r",
  "rmdirSync",
  "removeSync",
  "remove_entry",
  "rimraf",
  "emptyDirSync"
])

/** Reads the quoted shell commands in the code of another language. */
export const readCode = (code: string): ReadonlyArray<string> => [
  ...Array.from(code.matchAll(shellCall), ([, , command = ""]) => command),
  ...Array.from(code.matchAll(/(?:`|%x[({])([^`)}]{1,2000})/g), ([, command = ""]) => command),
  ...Array.from(code.matchAll(treeCall), ([, , path = ""]) => `rm -rf '${path}'`)
]

const isMarked = /^(?:ext::|exec=|\+?["']?:?\s{0,4}!)/

/** Removes the markers from a text that identify it as a command. */
const stripMarks = (text: string): string =>
  text
    .replace(isMarked, "")
    .replace(/^\|\s{0,4}-?/, "")
    .replaceAll("%s", "")

const sedCommand = /(?:^|;)\s{0,4}(?:\d{1,9}|\$)?e\s(.+)$/s

/** Returns the command after `git submodule foreach` and similar words. */
const readGitCommand = (args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const run = args.findIndex((arg, index) => index > 0 && (arg === "foreach" || arg === "run"))
  if (run === -1) return []
  const words = args.slice(run + 1).filter((arg) => arg !== "--recursive" && arg !== "--quiet")
  return [words.join(" ")]
}

const listArgumentCommands = ({ args, program }: Command): ReadonlyArray<string> => {
  const [isGit, isSed, runsText] = [program === "git", /^g?sed$/.test(program), positional.has(program)]
  const isConfig = isGit && args.includes("config")
  /** Returns true for a value that a flag, a setting or its position makes a command. */
  const isRun = (flag: string, value: string, setting: string | undefined, isLast: boolean): boolean =>
    runFlag.test(flag) ||
    isMarked.test(value) ||
    (setting !== undefined && runSetting.test(setting)) ||
    (isGit && runLetter.test(flag)) ||
    (runsText && (/[\s{$]/.test(value) || isLast)) ||
    (/\s/.test(value) && runLetter.test(flag))
  const readArgument = (arg: string, index: number): ReadonlyArray<string> => {
    const at = arg.startsWith("--") ? arg.indexOf("=") : -1
    const [flag = "", value] = at === -1 ? [args[index - 1], arg] : [arg.slice(0, at), arg.slice(at + 1)]
    const setting = /^([\w.-]{1,100})=/.exec(value)?.[1] ?? (isConfig ? args[index - 1] : undefined)
    if (!isRun(flag, value, setting, index === args.length - 1)) return isSed ? [sedCommand.exec(value)?.[1] ?? ""] : []
    const isSetting = setting !== undefined && (isGit || runSetting.test(setting))
    return [stripMarks(isSetting ? value.replace(/^[\w.-]{1,100}=/, "") : value)]
  }
  return [...(isGit ? readGitCommand(args) : []), ...args.flatMap(readArgument)]
}

/** Lists shell commands that a program receives in a program-specific way. */
export const listEmbeddedCommands = (command: Command): ReadonlyArray<string> => {
  const { args, assignments, program, stdin } = command
  const settings = assignments.flatMap(([name, value]) => (runSetting.test(name) ? [stripMarks(value)] : []))
  if (program === "alias") return [...settings, ...args.map((arg) => arg.replace(/^[^=]*=/, ""))]
  if (isProse(command) || shells.has(program)) return settings
  const code = args.flatMap(readCode)
  if (interpreters.test(program) && program !== "tclsh") return [...settings, ...code]
  const typed =
    /^(?:at|batch|newgrp|ed|ex|tclsh)$/.test(program) && stdin !== undefined
      ? stdin.split("\n").slice(0, 256).map(stripMarks)
      : []
  return [...settings, ...code, ...typed, ...listArgumentCommands(command)]
}

/** Flags before a script, by program. */
const scriptFlags = makeTable([
  [Array.from(shells).join(" "), /^-[abd-zA-Z]*c[a-zA-Z]*$/i],
  ["su sg runuser script flock", /^(?:-[a-z]*c|--command)$/],
  ["cmd", /^\/[ck]$/i],
  ["env", /^-(?:[a-zA-Z]*S|-split-string)/]
])

/** Returns the script argument of a shell, `eval` or `env -S`, if any. Such a script must parse. */
export const findScript = (program: string, args: ReadonlyArray<Field>): Field | undefined => {
  if (program === "trap") return args[0]
  if (program === "eval") return joinFields(args.filter(({ text }, index) => index > 0 || text !== "--"))
  const pattern = scriptFlags.get(program)
  const at = pattern === undefined ? -1 : args.findIndex(({ text }) => pattern.test(text))
  if (at === -1) return undefined
  if (program !== "env") return args.slice(at + 1).find(({ text }) => !/^[-+][a-zA-Z]*$/.test(text) && text !== "--")
  const own = args[at]?.text.replace(/^-(?:[a-zA-Z]*S|-split-string=?)/, "") ?? ""
  return joinFields([...(own === "" ? [] : [toKnownField(own)]), ...args.slice(at + 1)])
}
