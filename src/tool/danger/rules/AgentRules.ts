/**
 * Commands by which an agent would change its own rules: its settings, its approvals, what it loads, and other agents that
 * are started without any.
 *
 * **Details**
 *
 * A started `hermes` inherits the limits of the run that started it (`config/InheritedLimits.ts`), so that a plain query needs no
 * question. What asks is a subcommand that changes something, a flag that lifts approvals, and every way to take the
 * inherited limits out of its environment.
 */
import { type Command, operands } from "../Command.ts"
import { ask, asksForHelp, type Finding, named, type Rule } from "../DangerFinding.ts"

const changed: Finding = ask("configuration tampering", "change of the agent's own configuration")

const agents = named("hermes hermes-effect")
const runners = named("node nodejs tsx ts-node bun deno npx npm pnpm yarn bunx")
const entryFile = /(?:^|\/)(?:main|bin|hermes)\.(?:[cm]?[jt]s)$/

/** Groups of subcommands that hold rules. */
const groups = named("config model mcp plugins hooks tools cron gateway setup login logout")
/** Subcommands that only show something, or serve what is allowed already. */
const shows = named("list show get check path env-path info search status test schema doctor help serve tick validate")

/** Programs whose arguments are only text. */
const speaks = named("grep egrep fgrep rg ag ack echo printf git man cat sed awk less head tail jq which type")

/** The words after the program where the agent is what runs; undefined for every other program. */
const agentArguments = ({ args, program }: Command): ReadonlyArray<string> | undefined => {
  if (agents.has(program)) return args
  if (!runners.has(program)) return undefined
  const at = args.findIndex((arg) => entryFile.test(arg) || agents.has(arg.replace(/@[\w.-]+$/, "")))
  return at === -1 ? undefined : args.slice(at + 1)
}

const settings: Rule = (command) => {
  const args = agentArguments(command)
  if (args === undefined || asksForHelp(args)) return undefined
  const [group = "", verb] = operands(args)
  return groups.has(group) && verb !== undefined && !shows.has(verb) ? changed : undefined
}

const withoutApprovals: Rule = ({ args, program }) =>
  !speaks.has(program) && args.some((arg) => /^--(?:yolo|accept-hooks|dangerously-[a-z-]+)(?:=|$)/.test(arg)) ? changed : undefined

const ruling = /^HERMES_(?:YOLO|ACCEPT_HOOKS|REDACT_SECRETS|HOME|LIMITS|WRITE_SAFE|APPROVALS|SECURITY|COMMAND_ALLOWLIST|HOOKS|PLUGINS|MCP|TERMINAL)/

/** Variables that are set, exported or taken away in front of a program, or for the rest of the line. */
const environment: Rule = (command) => {
  const { args, assignments, program } = command
  if (assignments.some(([name, value]) => ruling.test(name) && (value !== "" || name === "HERMES_LIMITS"))) return changed
  if (/^(?:export|declare|typeset|readonly|setx)$/.test(program)) {
    return args.some((arg) => ruling.test(arg) && !/^HERMES_(?:YOLO|ACCEPT)\w*=$/.test(arg)) ? changed : undefined
  }
  if (program === "env") {
    const removed = args.some((arg, index) =>
      /^(?:-u|--unset)$/.test(args[index - 1] ?? "") && ruling.test(arg) || /^(?:-u|--unset=)HERMES_/.test(arg) && ruling.test(arg.replace(/^(?:-u|--unset=)/, "")))
    const emptied = args.some((arg) => /^(?:-|-[a-z]*i[a-z]*|--ignore-environment)$/.test(arg))
    return removed || emptied && args.some((arg) => agents.has(arg) || entryFile.test(arg)) ? changed : undefined
  }
  if (program === "unset") return args.some((arg) => ruling.test(arg)) ? changed : undefined
  return undefined
}

/** Commands by which an agent would change its own rules. */
export const rules: ReadonlyArray<Rule> = [settings, withoutApprovals, environment]
