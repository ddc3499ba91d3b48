/**
 * Configuration: files that decide how the machine, the shell or the agent behaves, schedules, firewalls, protection.
 */
import { ask, asksForHelp, type Command, type Finding, hasFlag, named, operands, type Rule, written } from "../Command.ts"
import * as PathClass from "../PathClass.ts"

// Commands by which an agent would change its own rules: its settings, its approvals, what it loads, and other agents that
// are started without any.
//
// **Details**
//
// A started `hermes` inherits the limits of the run that started it (`config/InheritedLimits.ts`), so that a plain query needs no
// question. What asks is a subcommand that changes something, a flag that lifts approvals, and every way to take the
// inherited limits out of its environment.

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
const agentVariables: Rule = (command) => {
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

const change = (what: string): Finding => ask("configuration tampering", `change of ${what}`)

const template = /\.(?:example|sample|template|dist|defaults)(?:\.\w+)?$/

/** True for a directory into which only parts of a system are unpacked. */
const unpacksSystem = (path: string): boolean => path === "/" || PathClass.configuration(path) !== undefined

/** Files that a command writes as an argument, the names of unknown variables in place of their values. */
export const destinations = (command: Command): ReadonlyArray<string> => {
  const { program } = command
  const args = command.fields.map(({ shown }) => shown)
  const targets = operands(args)
  const last = targets.at(-1)
  switch (program) {
    case "mkdir":
      return targets
    case "tee":
    case "sponge":
    case "truncate":
    case "touch":
      return program === "touch" ? [] : targets
    case "cp":
    case "mv":
    case "install":
    case "ln":
    case "rsync":
    case "scp": {
      const into = args[args.findIndex((arg) => arg === "-t" || arg === "--target-directory") + 1]
      const target = hasFlag(args, "t", ["target-directory"]) ? into : last
      if (target === undefined || targets.length < 2 && into === undefined) return []
      // A copy of the example is how a project is set up.
      return targets.slice(0, -1).every((path) => template.test(path)) && /(?:^|\/)(?:\.env|config\.ya?ml)/.test(target)
        ? []
        : [target]
    }
    case "dd":
      return args.flatMap((arg) => arg.startsWith("of=") ? [arg.slice(3)] : [])
    case "sed":
    case "gsed":
    case "perl":
    case "ruby":
      return args.some((arg) => /^-(?:[a-zA-Z]*i|-in-place)/.test(arg))
        ? targets.slice(1).concat(targets.length === 1 ? targets : [])
        : []
    case "awk":
    case "gawk":
      return args.includes("inplace") ? targets : []
    case "curl":
      return args.flatMap((arg, index) => /^(?:-o|--output)$/.test(args[index - 1] ?? "") ? [arg] : /^-o./.test(arg) ? [arg.slice(2)] : [])
    case "wget":
      return args.flatMap((arg, index) => /^(?:-O|--output-document)$/.test(args[index - 1] ?? "") ? [arg] : /^-O./.test(arg) ? [arg.slice(2)] : [])
    case "find":
      return args.flatMap((arg, index) => /^-f(?:print[0f]?|ls)$/.test(args[index - 1] ?? "") ? [arg] : [])
    case "tar":
    case "gtar":
    case "unzip":
    case "cpio":
      return args.flatMap((arg, index) => /^(?:-C|-d|-D|--directory)$/.test(args[index - 1] ?? "") && unpacksSystem(arg) ? [arg === "/" ? "/etc" : arg] : [])
    case "patch":
      return targets.slice(0, 1)
    case "ex":
    case "ed":
    case "crudini":
      return targets
    default:
      return []
  }
}

const files: Rule = (command) => {
  if (command.program === "chmod") {
    const what = operands(command.args).slice(1).map((path) => PathClass.runsLater(PathClass.tidy(path, command.cwd))).find((found) => found !== undefined)
    return what === undefined ? undefined : change(what)
  }
  for (const path of [...written(command), ...destinations(command)]) {
    if (path === "/dev/null") continue
    const what = PathClass.configuration(path, command.cwd)
    if (what !== undefined) return change(what)
  }
  return undefined
}

const schedules: Rule = ({ args, program }) => {
  if (program === "crontab") {
    return args.length === 0 || asksForHelp(args) || args.includes("-l") && !args.includes("-r")
      ? undefined
      : change("scheduled commands")
  }
  if (program === "at" || program === "batch") {
    return args.some((arg) => /^-[lV]$/.test(arg)) ? undefined : change("scheduled commands")
  }
  return program === "schtasks" && args.some((arg) => /^\/(?:create|delete|change)$/i.test(arg))
    ? change("scheduled commands")
    : undefined
}

const protection: Rule = ({ args, program }) => {
  const verb = operands(args)[0] ?? ""
  const firewall = "the firewall or another protection"
  if (/^(?:iptables|ip6tables|ebtables|arptables)$/.test(program)) {
    return hasFlag(args, "LS", ["list", "list-rules", "help"]) && !hasFlag(args, "FXPDAI") ? undefined : change(firewall)
  }
  if (program === "nft") return /^(?:list|monitor|describe)$/.test(verb) ? undefined : change(firewall)
  if (program === "ufw") return /^(?:status|show|app|version)$/.test(verb) ? undefined : change(firewall)
  if (program === "firewall-cmd") {
    return args.some((arg) => /^--(?:add|remove|set|reload|panic|permanent)/.test(arg)) ? change(firewall) : undefined
  }
  if (program === "pfctl") return hasFlag(args, "dFfe") ? change(firewall) : undefined
  if (
    program === "setenforce" ||
    program === "csrutil" && verb !== "status" ||
    program === "spctl" && args.some((arg) => /disable/.test(arg))
  ) {
    return change(firewall)
  }
  if (program === "aa-disable" || program === "aa-teardown" || program === "apparmor_parser" && hasFlag(args, "R")) {
    return change(firewall)
  }
  if (
    program === "netsh" &&
    args.some((arg) => /^(?:advfirewall|firewall)$/i.test(arg)) &&
    !args.some((arg) => /^show$/i.test(arg))
  ) {
    return change(firewall)
  }
  if (program === "set-mppreference" || program === "set-executionpolicy") return change(firewall)
  if (program === "chattr" || program === "xattr" && args.includes("com.apple.quarantine")) return change(firewall)
  return program === "vssadmin" && /^delete$/i.test(verb) || program === "bcdedit" && args.some((arg) => /^\/set|^\/delete/i.test(arg))
    ? change(firewall)
    : undefined
}

const machine: Rule = ({ args, program }) => {
  const verb = operands(args)[0] ?? ""
  if (program === "sysctl" && (hasFlag(args, "wp", ["write", "load", "system"]) || args.some((arg) => /^[\w.]+=/.test(arg)))) {
    return change("kernel settings")
  }
  if (
    program === "defaults" && /^(?:write|delete)$/.test(verb) ||
    program === "reg" && /^(?:add|delete|import)$/i.test(verb) ||
    program === "scutil" && args.includes("--set")
  ) {
    return change("system configuration")
  }
  if (/^(?:update-alternatives|alternatives)$/.test(program) && args.some((arg) => /^--(?:set|install|remove)/.test(arg))) {
    return change("system configuration")
  }
  if (/^(?:timedatectl|hostnamectl|localectl)$/.test(program) && verb.startsWith("set-") || program === "chsh") {
    return change("system configuration")
  }
  if (/^(?:ip|route|ifconfig)$/.test(program) && args.some((arg) => /^(?:del|delete|flush|down)$/.test(arg))) {
    return change("the network")
  }
  if (
    /^(?:npm|pnpm|yarn|pip3?)$/.test(program) &&
    verb === "config" &&
    args.includes("set") &&
    args.some((arg) => /registry|index-url|script-shell|ignore-scripts|strict-ssl|cafile|proxy/.test(arg))
  ) {
    return change("where packages come from")
  }
  if (program === "ssh-keygen" && args.some((arg) => /^-R$/.test(arg))) return change("SSH configuration")
  if (program === "ssh-copy-id") return change("SSH configuration")
  return undefined
}

const preload = /^(?:LD_PRELOAD|LD_LIBRARY_PATH|LD_AUDIT|DYLD_INSERT_LIBRARIES|PROMPT_COMMAND|BASH_ENV|GIT_SSH_COMMAND|GIT_EXTERNAL_DIFF)$/

const environment: Rule = ({ args, assignments, program }) => {
  const exported = /^(?:export|declare|typeset|setx|env)$/.test(program) ? args.map((arg) => arg.split("=", 2)) : []
  for (const [name = "", value = ""] of [...assignments, ...exported]) {
    if (
      preload.test(name) &&
      name !== "LD_LIBRARY_PATH" &&
      value !== "" &&
      !(name === "GIT_SSH_COMMAND" && !/\s-o\s*(?:Proxy|Strict)/i.test(value))
    ) {
      return change("what every program loads")
    }
  }
  const variables = [...assignments, ...exported.map(([name = "", value = ""]): readonly [string, string] => [name, value])]
  if (
    variables.some(([name, value]) =>
      name === "NODE_OPTIONS" && /--(?:require|import|loader|experimental-loader)\b|(?:^|\s)-r\s/.test(value) ||
      name === "PERL5OPT" && /-[Mm]/.test(value) ||
      name === "RUBYOPT" && /-r/.test(value) ||
      name === "PATH" && /(?:^|:)(?:\/tmp|\/var\/tmp|\/dev\/shm)(?:\/|:|$)/.test(value)
    )
  ) {
    return change("what every program loads")
  }
  if (program === "hash" && hasFlag(args, "p")) return change("what common commands mean")
  return program === "alias" &&
    args.some((arg) => /^(?:sudo|ls|cd|cat|git|ssh|rm|cp|su|npm|curl|which)=/.test(arg) && !/^(?:ls|rm|cp|cat)=(?:ls|rm|cp|bat)\b/.test(arg))
    ? change("what common commands mean")
    : undefined
}

/** Configuration. */
export const rules: ReadonlyArray<Rule> = [files, schedules, protection, machine, environment, settings, withoutApprovals, agentVariables]
