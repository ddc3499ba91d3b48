/**
 * Detects commands that would hang the call or continue unnoticed, and returns advice to the model instead of running
 * them. Quoted text and `--help`/`--version` are exempt.
 *
 * Source: `hermes-product.md` §2.3.
 */
import { read } from "../../shell/ShellScript.ts"
import type { Exit } from "./Shell.ts"
import { readKeyword, type Script, type Simple, type Terminator, type Word } from "../../shell/ShellTree.ts"

// Simple commands of a command line, parsed far enough to determine which programs would run and which would continue
// running. Nothing is expanded.
//
// **Gotchas**
//
// This is guidance and not a security boundary: `eval`, variables and scripts can hide any command. Quoted text remains
// text, so that prose that mentions a command is not treated as a command.

/** One simple command without redirections and quotes. */
export interface SimpleCommand {
  readonly words: ReadonlyArray<string>
  readonly terminator: Terminator
  /** 0 for a command of the line itself or of a group in it; greater than 0 inside `$(…)` and `<(…)`. */
  readonly depth: number
}

const reserved = new Set(["!", "{", "}", "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "time"])
const wrappers = new Set(["sudo", "env", "command", "exec", "builtin", "nice", "ionice", "stdbuf"])
const assignment = /^[A-Za-z_][A-Za-z0-9_]*\+?=/
const parentheses = new Set(["(", ")", "()"])

/**
 * Returns the words of a command starting with its program, without reserved words, assignments and prefixes such as
 * `sudo` and `env`. The program is named without its directory.
 */
const extractProgram = (words: ReadonlyArray<string>): ReadonlyArray<string> => {
  let index = 0
  let afterWrapper = false
  for (; index < words.length; index++) {
    const word = words[index] ?? ""
    if (wrappers.has(word)) afterWrapper = true
    else if (!reserved.has(word) && !assignment.test(word) && !(afterWrapper && word.startsWith("-"))) break
  }
  const [first, ...rest] = words.slice(index)
  return first === undefined ? [] : [first.slice(first.lastIndexOf("/") + 1), ...rest]
}

/** Renders a word, with `$name` for a variable and `$` for a substitution; `undefined` for a process substitution. */
const renderWord = (word: Word): string | undefined => {
  if (word.some((part) => part._tag === "Substitution" && part.asFile)) return undefined
  return word
    .map((part) =>
      part._tag === "Text" ? part.text : part._tag === "Variable" && part.name !== "((" ? `$${part.name}` : "$"
    )
    .join("")
}

/** Parentheses of groups and definitions, and `((…))` as a command, are not words of a program. */
const isWord = (word: Word, index: number): boolean => {
  const [first] = word
  return (
    !parentheses.has(readKeyword(word) ?? "") && !(index === 0 && first?._tag === "Variable" && first.name === "((")
  )
}

const collectCommands = (script: Script, depth: number, out: Array<SimpleCommand>): void => {
  for (const simple of script.commands) {
    for (const word of listSubstitutingWords(simple)) {
      for (const part of word) {
        // Commands of a substitution within quotes count as quoted and are not reported.
        if (part._tag === "Substitution" && !part.quoted) collectCommands(part.script, depth + 1, out)
      }
    }
    const words = simple.words.filter(isWord).flatMap((word) => renderWord(word) ?? [])
    const terminator = simple.terminator === "" && depth > 0 ? ";" : simple.terminator
    if (words.length > 0 || terminator === "&") out.push({ words, terminator, depth })
  }
}

const listSubstitutingWords = ({ redirections, words }: Simple): ReadonlyArray<Word> => [
  ...words,
  ...redirections.flatMap(({ operator, target }) => (operator === "<<" || operator === "<<-" ? [] : [target]))
]

/** Parses a command line. Never fails: unclosed or too deeply nested constructs end with the text. */
export const parse = (text: string): ReadonlyArray<SimpleCommand> => {
  const out: Array<SimpleCommand> = []
  collectCommands(read(text), 0, out)
  return out
}

// Meanings of exit codes that are not failures or need an explanation: `grep` found no match, `curl` found no host.
//
// Source: `hermes-product.md` §2.3.

const noMatch = { 1: "No line matched; this is not an error." }
const differ = { 1: "The inputs differ; this is not an error." }
const isFalse = { 1: "The condition is false; this is not an error." }

const meanings: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  grep: noMatch,
  egrep: noMatch,
  fgrep: noMatch,
  zgrep: noMatch,
  rg: noMatch,
  ag: noMatch,
  ack: noMatch,
  diff: differ,
  colordiff: differ,
  cmp: differ,
  find: { 1: "Some directories could not be read; what was found is still valid." },
  test: isFalse,
  "[": isFalse,
  "[[": isFalse,
  curl: {
    6: "The host name could not be resolved.",
    7: "The connection to the host failed.",
    22: "The server answered with an HTTP error status (400 or above).",
    28: "The request timed out."
  }
}

/** Returns the program whose exit codes a git command shares. */
const readGitProgram = (args: ReadonlyArray<string>): string | undefined => {
  const command = args.find((word) => !word.startsWith("-"))
  if (command === "grep") return "grep"
  const isCompared =
    command === "diff" && args.some((word) => word === "--exit-code" || word === "--quiet" || word === "--no-index")
  return isCompared ? "diff" : undefined
}

/**
 * Returns the meaning of a command line's exit code; `undefined` if the code needs no explanation. The code is assumed
 * to come from the last command.
 */
export const explainExit = (commands: ReadonlyArray<SimpleCommand>, exit: Exit): string | undefined => {
  if (exit.signal !== undefined) return `The command was ended by ${exit.signal}.`
  const own = commands.filter(({ depth, words }) => depth === 0 && extractProgram(words).length > 0)
  const last = own.at(-1)
  // After `&&`, an earlier command may have set the code; `!` inverts it.
  if (last === undefined || last.words[0] === "!" || own.at(-2)?.terminator === "&&") return undefined
  const [program, ...args] = extractProgram(last.words)
  const name = program === "git" ? readGitProgram(args) : program
  return name !== undefined && Object.hasOwn(meanings, name) ? meanings[name]?.[exit.code] : undefined
}

const detachers = new Set(["nohup", "setsid", "disown"])

/** `-h` and `-V` count only at the end, because servers also accept `-h <host>`. */
const isHelpRequest = (words: ReadonlyArray<string>): boolean => {
  const last = words.at(-1)
  return last === "-h" || last === "-V" || words.includes("--help") || words.includes("--version")
}

const serving = new Set(["dev", "start", "serve", "watch", "preview", "develop"])

/** Programs that run until they are stopped, if their arguments match. */
const servers: Readonly<Record<string, (args: ReadonlyArray<string>) => boolean>> = {
  next: ([first]) => first === "dev" || first === "start",
  nuxt: ([first]) => first === "dev" || first === "start",
  nuxi: ([first]) => first === "dev" || first === "preview",
  astro: ([first]) => first === undefined || first === "dev" || first === "preview",
  remix: ([first]) => first === "dev",
  gatsby: ([first]) => first === "develop" || first === "serve",
  vite: ([first]) => first === undefined || first.startsWith("-") || serving.has(first),
  ng: ([first]) => first === "serve",
  "vue-cli-service": ([first]) => first === "serve",
  "react-scripts": ([first]) => first === "start",
  webpack: ([first]) => first === "serve",
  "webpack-dev-server": () => true,
  "live-server": () => true,
  "http-server": () => true,
  serve: () => true,
  nodemon: () => true,
  uvicorn: () => true,
  gunicorn: () => true,
  hypercorn: () => true,
  flask: (args) => args.includes("run"),
  rails: ([first]) => first === "server" || first === "s",
  hugo: ([first]) => first === "server" || first === "serve",
  jekyll: ([first]) => first === "serve",
  mkdocs: ([first]) => first === "serve",
  streamlit: ([first]) => first === "run",
  php: (args) => args.includes("-S") || (args[0] === "artisan" && args[1] === "serve"),
  python: (args) => isPythonServer(args),
  docker: (args) => args[0] === "compose" && isComposeServer(args.slice(1)),
  "docker-compose": (args) => isComposeServer(args)
}

const isPythonServer = (args: ReadonlyArray<string>): boolean => {
  const module = args.indexOf("-m")
  return (
    (module !== -1 && ["http.server", "uvicorn", "gunicorn"].includes(args[module + 1] ?? "")) ||
    (args[0]?.endsWith("manage.py") === true && args[1] === "runserver")
  )
}

const isComposeServer = (args: ReadonlyArray<string>): boolean =>
  args.includes("up") && !args.some((arg) => arg === "-d" || arg === "--detach" || arg === "--no-start")

const packageManagers = new Set(["npm", "pnpm", "yarn", "bun", "deno"])
const runsPackage = new Set(["npx", "bunx", "pnpx"])
const takesValue = new Set([
  "--prefix",
  "-C",
  "--dir",
  "--cwd",
  "-w",
  "--workspace",
  "-F",
  "--filter",
  "-p",
  "--package"
])

/** Returns the arguments after the leading flags and their values. */
const skipFlags = (args: ReadonlyArray<string>): ReadonlyArray<string> => {
  let index = 0
  while (args[index]?.startsWith("-") === true) index += takesValue.has(args[index] ?? "") ? 2 : 1
  return args.slice(index)
}

const isServer = (words: ReadonlyArray<string>): boolean => {
  const [name, ...args] = words
  if (name === undefined) return false
  if (runsPackage.has(name)) return isServer(skipFlags(args))
  if (packageManagers.has(name)) {
    const [first, ...others] = skipFlags(args)
    if (first === undefined) return false
    const rest = skipFlags(others)
    if (first === "exec" || first === "dlx" || first === "x") return isServer(rest)
    return first === "run" || first === "task" ? serving.has(rest[0] ?? "") : serving.has(first)
  }
  const known = name.replace(/^python[\d.]+$/, "python")
  return Object.hasOwn(servers, known) && servers[known]?.(args) === true
}

const findDetacher = (commands: ReadonlyArray<SimpleCommand>): string | undefined => {
  for (const { words } of commands) {
    const [name, ...args] = extractProgram(words)
    if (name !== undefined && detachers.has(name) && !isHelpRequest(args.slice(0, 1))) return name
  }
  return undefined
}

/** Refuses a foreground command; returns `undefined` if it may run. */
export const refuseForeground = (commands: ReadonlyArray<SimpleCommand>): string | undefined => {
  const detacher = findDetacher(commands)
  if (detacher !== undefined) {
    return (
      `Not run: the command detaches a process with '${detacher}', whose output and exit would be lost. ` +
      "Call terminal with background=true and the plain command, then follow it with the process tool."
    )
  }
  if (commands.some(({ terminator }) => terminator === "&")) {
    return (
      "Not run: the command puts a process in the background with '&', whose output and exit would be lost. " +
      "Call terminal with background=true and the plain command (no '&'), then check it with a second call."
    )
  }
  for (const { words } of commands) {
    const started = extractProgram(words)
    if (isServer(started) && !isHelpRequest(started)) {
      return (
        `Not run: '${started.slice(0, 3).join(" ")}' looks like a server or watcher that does not end by ` +
        "itself. Call terminal with background=true, then check that it is up (process poll or log, or a " +
        "request to it) in a second call."
      )
    }
  }
  return undefined
}

/**
 * Refuses a background command whose shell would end at once and terminate the rest; returns `undefined` if it may run.
 */
export const refuseBackground = (commands: ReadonlyArray<SimpleCommand>): string | undefined => {
  const detacher = findDetacher(commands)
  const last = commands.findLast(({ depth }) => depth === 0)
  return detacher === undefined && last?.terminator !== "&"
    ? undefined
    : "Not run: with background=true the command must stay in its shell's foreground, so leave out " +
        `'${detacher ?? "&"}'. The process is kept running, and its output, input and exit are available through ` +
        "the process tool."
}
