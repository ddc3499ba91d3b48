/**
 * Prefixes of commands that an approval may be granted for: a program and its subcommand, such as `git push`.
 *
 * **Details**
 *
 * A prefix matches one simple command that is completely literal: no second command, no redirection, no variable, no
 * substitution, no assignment before the program, and no argument that runs another command. Only programs with known
 * subcommands have a prefix. Shells, interpreters and programs that run other programs (`bash`, `sudo`, `env`, `xargs`,
 * `find`, `ssh`) never have one, nor do programs whose first argument is the object they act on (`rm`). The program
 * must be called by its bare name, and everything up to the end of the prefix must be unquoted.
 *
 * In `command_allowlist` a prefix is a glob of words that ends with a star, `git push *`. It covers single commands
 * only, while any other glob of an operator covers a line all of whose commands match it.
 *
 * Pure, never throws, linear in the text.
 *
 * Source: `ARCHITECTURE.md` §7 (approvals).
 */
import { maxLength } from "../danger/Danger.ts"
import { type Finding, parseNames } from "../danger/Command.ts"
import * as ScriptInterpreter from "../danger/ScriptInterpreter.ts"
import * as ShellScript from "../shell/ShellScript.ts"
import { readKeyword, readLiteral, type Redirection, type Simple, type Word } from "../shell/ShellTree.ts"

/** Programs whose second word is a subcommand. */
const programs = parseNames(`
  git gh glab hub jj hg svn npm pnpm yarn bun deno cargo rustup go pip pip3 pipx uv poetry pipenv conda mamba gem
  bundle composer dotnet mvn gradle brew apt apt-get dnf yum pacman zypper snap flatpak docker podman nerdctl
  docker-compose kubectl helm minikube kind oc terraform tofu pulumi vagrant packer systemctl service aws gcloud az
  gsutil doctl fly flyctl heroku vercel netlify wrangler supabase firebase make just task rake turbo nx prisma alembic
  flyway redis-cli
`)

/** First words of two-word subcommands. */
const groups = parseNames(`
  run stash remote worktree submodule reflog bisect notes lfs pr issue repo release workflow secret gist auth api
  compose container image volume network system builder buildx context service stack swarm node rollout config state
  workspace profile role s3 s3api ec2 ecs eks iam lambda rds dynamodb sqs sns logs cloudformation compute projects
  storage sql functions vm group account db migrate package dist-tag access owner team cache tool env
`)

/** Subcommands that run the words after them, or that change the effect of later subcommands. */
const runners = parseNames(
  "exec x dlx run-script foreach filter-branch filter-repo config alias eval shell ssh attach debug cp-exec script api"
)
const getRunners: Readonly<Record<string, ReadonlySet<string>>> = {
  git: parseNames("bisect"),
  docker: parseNames("run"),
  podman: parseNames("run"),
  nerdctl: parseNames("run"),
  "docker-compose": parseNames("run"),
  kubectl: parseNames("run"),
  oc: parseNames("run rsh"),
  uv: parseNames("run"),
  poetry: parseNames("run"),
  pipenv: parseNames("run"),
  conda: parseNames("run"),
  mamba: parseNames("run"),
  pipx: parseNames("run"),
  cargo: parseNames("run"),
  go: parseNames("run generate"),
  deno: parseNames("run"),
  bun: parseNames("run"),
  dotnet: parseNames("run"),
  aws: parseNames("ssm"),
  gcloud: parseNames("ssh")
}

const plainWord = /^[a-z][a-z0-9]*(?:[-_:.][a-z0-9]+)*$/i

/** Characters that end a line or are invisible. */
const control = new RegExp(String.raw`[\u0000-\u001f\u007f-\u009f]`)

/**
 * Parses the single simple command of a line; `undefined` if there are several commands or anything other than words.
 */
const parseSingleCommand = (line: string): Simple | undefined => {
  const text = line.trim()
  if (text.length > maxLength || control.test(text)) return undefined
  const {
    commands: [command, ...more],
    fault
  } = ShellScript.read(text)
  return fault === undefined &&
    command !== undefined &&
    more.length === 0 &&
    command.terminator === "" &&
    command.redirections.length === 0 &&
    command.words.every((word) => readLiteral(word) !== undefined) &&
    ScriptInterpreter.read(text).commands.length === 1
    ? command
    : undefined
}

/**
 * Returns the prefix of a command line that may be approved, such as `git push`; `undefined` if no prefix may be
 * approved.
 */
export const findPrefix = (line: string): string | undefined => {
  const [program = "", verb = "", object = ""] = (parseSingleCommand(line)?.words ?? [])
    .slice(0, 3)
    .map((word) => readKeyword(word) ?? "")
  if (!programs.has(program) || !plainWord.test(verb)) return undefined
  const isRunner = (word: string): boolean =>
    runners.has(word) || (Object.hasOwn(getRunners, program) && getRunners[program]?.has(word) === true)
  if (isRunner(verb)) return undefined
  if (!groups.has(verb)) return `${program} ${verb}`
  return plainWord.test(object) && !isRunner(object) ? `${program} ${verb} ${object}` : undefined
}

/** Returns the glob of `command_allowlist` for a prefix. */
export const toGlob = (prefix: string): string => `${prefix} *`

/** Returns the words of a glob that represents a prefix; `undefined` for any other glob. */
export const parseGlob = (glob: string): ReadonlyArray<string> | undefined =>
  /^[^\s*?]+(?: [^\s*?]+)* \*$/.test(glob) ? glob.slice(0, -2).split(" ") : undefined

/** Dangers that are unrelated to the purpose of the command's program. */
const hidden: ReadonlySet<Finding["family"]> = new Set(["exfiltration", "remote code", "encoded payload", "unreadable"])
/** Dangers of a command that runs or configures a program other than the program that it names. */
const borrowed: ReadonlySet<Finding["family"]> = new Set(["inline code", "privilege", "configuration tampering"])

/** Returns true if an approval of a command prefix, as offered by a question, may cover this danger. */
export const canHoldFor = (finding: Finding): boolean => isListable(finding) && !borrowed.has(finding.family)

/** Returns true if a prefix from the operator's list, for a program without offered prefixes, may cover this danger. */
export const isListable = ({ family, gravity }: Finding): boolean => gravity === "ask" && !hidden.has(family)

/**
 * Creates a test for whether a command line is a single command that begins with the words of one of these prefixes.
 */
export const makeMatcher =
  (prefixes: ReadonlyArray<ReadonlyArray<string>>) =>
  (line: string): boolean => {
    if (prefixes.length === 0) return false
    const words = parseSingleCommand(line)?.words.map(readKeyword)
    return words !== undefined && prefixes.some((prefix) => prefix.every((word, index) => words[index] === word))
  }

const systemProgram = /^\/(?:usr\/(?:local\/)?)?s?bin\/[^/]+$/

const isHarmless = ({ operator, target }: Redirection): boolean => {
  const text = readLiteral(target)
  return (
    operator === "<<" ||
    operator === "<<-" ||
    operator === "<<<" ||
    text === "/dev/null" ||
    ((operator === ">&" || operator === "<&") && text !== undefined && /^(?:\d+|-)$/.test(text))
  )
}

const isAssignment = (word: Word): boolean => {
  const [first] = word
  return first?._tag === "Text" && !first.quoted && /^[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=/.test(first.text)
}

const isPlain = ({ redirections, words: [first, ...rest] }: Simple): boolean => {
  if (!redirections.every(isHarmless)) return false
  if (first === undefined) return true
  const program = readLiteral(first)
  if (program?.includes("/") === true && !systemProgram.test(program)) return false
  return rest.length === 0 || !isAssignment(first)
}

/**
 * Returns true if a line consists only of programs and arguments, so that globs of commands may allow it: no
 * redirection reads or writes a file, no variable is set for a program, and no program is called by a path outside the
 * system's directories.
 */
export const isPlainLine = (line: string): boolean => ShellScript.read(line).commands.every(isPlain)
