/**
 * Rewrites the command line to the form that the parser accepts. Pure.
 *
 * - A prompt may begin with a dash: the argument after `-q` or `--query` is always its value.
 * - `-z TEXT`, and `--oneshot TEXT` without a query, pass a single prompt from a script.
 * - `-c` takes the next word as a name, unless that word is a flag or a command.
 * - A quoted argument with several words is a prompt, because no command has white space in its name. It becomes the
 *   value of `--query`.
 * - `--ignore_user_config` is `--ignore-user-config`: underscores in flag names are replaced by dashes.
 * - `--resume` of `batch` has no value: a batch run is named by `--run-name`.
 * - `--provider` of `plugins new` has no value and is `--model-provider`: no model is called.
 * - `--safe-mode` implies `--ignore-user-config` and `--ignore-rules`.
 * - Earlier names of commands are replaced: `batch` is `lab batch`, `plugins uninstall` is `plugins remove`, `ls` is
 *   `list`.
 * - A session has one form, the argument: `sessions show --session ID` and `--session-id ID` are `sessions show ID`.
 *   `sessions search`, where the argument is the query, takes `--session-id`. `sessions resume ID` is `--resume ID`.
 * - `hermes help COMMAND` is `hermes COMMAND --help`, and `hermes version` is `hermes --version`.
 *
 * Arguments after `--` are unchanged.
 *
 * Source: `style.md` F13, the NeMo Relay document (`--ignore_user_config`), `hermes-product.md` §1.1 (`--safe-mode`).
 */

const withDashes = (token: string): string => {
  const end = token.indexOf("=")
  const name = end === -1 ? token : token.slice(0, end)
  return name.replaceAll("_", "-") + token.slice(name.length)
}

/**
 * Splits a word of combined short flags that ends in `letter`. Returns the other flags, or `undefined` if the word has
 * another form.
 */
const splitShortFlags = (token: string, letter: string): ReadonlyArray<string> | undefined =>
  /^-[A-Za-z]+$/.test(token) && token.endsWith(letter)
    ? Array.from(token.slice(1, -1), (other) => `-${other}`)
    : undefined

/**
 * Flags that have no value, or whose value is part of the same token. Every other flag takes the next token as its
 * value.
 */
const switches: ReadonlySet<string> = new Set([
  "--accept-hooks",
  "--continue",
  "--help",
  "--ignore-rules",
  "--ignore-user-config",
  "--oneshot",
  "--pass-session-id",
  "--quiet",
  "--safe-mode",
  "--verbose",
  "--version",
  "--yolo"
])
const takesNext = (token: string): boolean =>
  token.startsWith("--") ? !token.includes("=") && !switches.has(token) : /^-[A-Za-z]*[mtrs]$/.test(token)

/** Returns the position of the first operand, or the number of tokens. */
const findOperand = (tokens: ReadonlyArray<string>): number => {
  let index = 0
  while (index < tokens.length) {
    const token = tokens[index] ?? ""
    if (!token.startsWith("-") || token === "-") return index
    index += takesNext(token) ? 2 : 1
  }
  return tokens.length
}

/** Commands of `hermes lab` that are also accepted without `lab`. */
export const researchNames = ["batch", "eval", "swe", "rl"] as const

/** Earlier names of commands, with the words that replace them. */
const renamedCommands: ReadonlyMap<string, ReadonlyArray<string>> = new Map([
  ["cron add", ["cron", "create"]],
  ["cron resnap", ["cron", "edit", "--current-model"]],
  ["middleware explain", ["middleware"]],
  ["middleware list", ["middleware", "--bundled"]],
  ["plugins uninstall", ["plugins", "remove"]],
  ["sessions resume", ["--resume"]],
  ["tools list", ["tools"]]
])

/** Earlier names of subcommands. `mcp` and the research commands never had them. */
const renamedWords: ReadonlyMap<string, string> = new Map([
  ["ls", "list"],
  ["rm", "remove"]
])

/** Commands whose first argument is a session. */
const sessionCommands: ReadonlySet<string> = new Set([
  ...["show", "rename", "export", "fork", "delete", "diff", "undo"].map((name) => `sessions ${name}`),
  "trace view",
  "trace stats",
  "prompt show"
])

/** Makes the value of `--session` or `--session-id` the first argument of a command that takes a session. */
const placeSession = (tokens: ReadonlyArray<string>): ReadonlyArray<string> => {
  const at = findOperand(tokens)
  const name = `${tokens[at]} ${tokens[at + 1]}`
  const place = tokens.findIndex((token, index) => index > at + 1 && /^--session(?:-id)?(?:=|$)/.test(token))
  const flag = tokens[place]
  if (flag === undefined) return tokens
  if (name === "sessions search") return tokens.with(place, flag.replace(/^--session(?:-id)?/, "--session-id"))
  if (!sessionCommands.has(name)) return tokens
  const end = flag.indexOf("=")
  const value = end === -1 ? tokens[place + 1] : flag.slice(end + 1)
  // A missing value is reported for the argument.
  const without = tokens.toSpliced(place, end === -1 ? 2 : 1)
  return value === undefined ? without : without.toSpliced(at + 2, 0, value)
}

/** Replaces an earlier name of a command by its current name. */
const replaceOldNames = (tokens: ReadonlyArray<string>, commands: ReadonlyArray<string>): ReadonlyArray<string> => {
  const at = findOperand(tokens)
  const command = tokens[at]
  if (command === undefined || !commands.includes(command)) return tokens
  if (researchNames.some((name) => name === command)) return tokens.toSpliced(at, 0, "lab")
  const word = tokens[at + 1] ?? ""
  const whole = renamedCommands.get(`${command} ${word}`)
  if (whole !== undefined) return tokens.toSpliced(at, 2, ...whole)
  const renamed = renamedWords.get(word)
  return renamed === undefined ? tokens : tokens.with(at + 1, renamed)
}

/** Makes the first operand the query if the operand cannot be a command and no query is given. */
const withPrompt = (tokens: ReadonlyArray<string>): ReadonlyArray<string> => {
  if (tokens.some((token) => /^--(?:query(?:-file)?|oneshot-prompt)(?:=|$)/.test(token))) return tokens
  let index = 0
  let chat = false
  while (index < tokens.length) {
    const token = tokens[index] ?? ""
    if (token.startsWith("-") && token !== "-") index += takesNext(token) ? 2 : 1
    else if (token === "chat" && !chat) {
      chat = true
      index += 1
    } else return /\s/.test(token.trim()) ? tokens.with(index, `--query=${token}`) : tokens
  }
  return tokens
}

/** Returns true if the word after `--oneshot` is its prompt, which requires that no other prompt is given. */
const isPrompt = (given: ReadonlyArray<string>, next: string | undefined, commands: ReadonlyArray<string>): boolean =>
  next !== undefined &&
  !next.startsWith("-") &&
  !commands.includes(next) &&
  !given.some((token) => /^--query(?:[-_]file)?(?:=|$)/.test(token) || /^-[A-Za-z]*q$/.test(token))

/** Returns the flag that the parser accepts after the words of a command. */
const renameFlag = (flag: string, before: ReadonlyArray<string>): string => {
  if (flag === "--resume" && before.includes("batch")) return "--resume=latest"
  const at = before.indexOf("plugins")
  return flag === "--provider" && at >= 0 && before[at + 1] === "new" ? "--model-provider" : flag
}

/** Rewrites a command line. `commands` are the words that `-c` does not take as its name. */
export const rewrite = (argv: ReadonlyArray<string>, commands: ReadonlyArray<string>): ReadonlyArray<string> => {
  const end = argv.indexOf("--")
  const given = end === -1 ? argv : argv.slice(0, end)
  const out: Array<string> = []
  for (let index = 0; index < given.length; index++) {
    const token = given[index] ?? ""
    const next = given[index + 1]
    const query = token === "--query" ? [] : splitShortFlags(token, "q")
    const script =
      token === "--oneshot-prompt" || (token === "--oneshot" && isPrompt(given, next, commands))
        ? []
        : splitShortFlags(token, "z")
    const resumed = token === "--continue" ? [] : splitShortFlags(token, "c")
    if (query !== undefined && next !== undefined) {
      out.push(...query, `--query=${next}`)
      index++
    } else if (script !== undefined && next !== undefined) {
      out.push(...script, `--oneshot-prompt=${next}`)
      index++
    } else if (resumed !== undefined && next !== undefined && !next.startsWith("-") && !commands.includes(next)) {
      out.push(...resumed, `--continue=${next}`)
      index++
    } else {
      const flag = token.startsWith("--") ? withDashes(token) : token
      const named = renameFlag(flag, out)
      out.push(...(named === "--safe-mode" ? ["--ignore-user-config", "--ignore-rules"] : []), named)
    }
  }
  const asked = withPrompt(placeSession(replaceOldNames(out, commands)))
  return end === -1 ? asked : [...asked, ...argv.slice(end)]
}

/** Replaces the words `help` and `version` in the position of a command with the corresponding flags. */
export const expandCommandWords = (
  argv: ReadonlyArray<string>,
  commands: ReadonlyArray<string>
): ReadonlyArray<string> => {
  const [word, ...rest] = argv
  if (word === "version" && rest.length === 0) return ["--version"]
  if (word !== "help") return argv
  const [command] = rest
  // Any other word is treated as a command, so that the error message lists the available commands.
  return command === undefined || command.startsWith("-")
    ? ["--help", ...rest]
    : commands.includes(command)
      ? [...rest, "--help"]
      : rest
}
