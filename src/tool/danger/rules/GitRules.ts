/**
 * History that cannot be brought back: of repositories, and the record of what was done.
 */
import { ask, type Command, hasFlag, operands, type Rule, written } from "../Command.ts"

const valued = new Set(["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"])

/** The subcommand of git and what follows it. */
const subcommand = ({ args }: Command): readonly [verb: string, rest: ReadonlyArray<string>] => {
  let index = 0
  while (index < args.length && args[index]?.startsWith("-") === true) index += valued.has(args[index] ?? "") ? 2 : 1
  return [args[index] ?? "", args.slice(index + 1)]
}

const rewrites = "rewriting of history (git)"

const git: Rule = (command) => {
  if (command.program !== "git") return undefined
  const [verb, args] = subcommand(command)
  const targets = operands(args)
  switch (verb) {
    case "reset":
      return hasFlag(args, "", ["hard", "merge", "keep"]) && args.some((arg) => arg.startsWith("--h"))
        ? ask("history rewriting", "loss of uncommitted changes (git reset --hard)")
        : undefined
    case "push":
      if (
        hasFlag(args, "f", ["force", "force-with-lease", "force-if-includes", "mirror", "prune"]) ||
        targets.some((target) => target.startsWith("+"))
      ) {
        return ask("history rewriting", "forced push (git push --force)")
      }
      return hasFlag(args, "d", ["delete"]) || targets.slice(1).some((target) => target.startsWith(":"))
        ? ask("history rewriting", "delete of a remote branch or tag")
        : undefined
    case "clean":
      return hasFlag(args, "f", ["force"]) && !hasFlag(args, "n", ["dry-run"])
        ? ask("history rewriting", "delete of untracked files (git clean -f)")
        : undefined
    case "branch":
      return args.some((arg) => /^-[a-z]*D/.test(arg)) || hasFlag(args, "d", ["delete"]) && hasFlag(args, "f", ["force"])
        ? ask("history rewriting", "forced delete of a branch (git branch -D)")
        : undefined
    case "filter-branch":
    case "filter-repo":
    case "replace":
      return ask("history rewriting", rewrites)
    case "rebase":
      return hasFlag(args, "", ["root"]) || args.some((arg) => /^(?:-x|--exec)/.test(arg))
        ? ask("history rewriting", rewrites)
        : undefined
    case "update-ref":
      return hasFlag(args, "d", ["delete", "stdin"]) ? ask("history rewriting", rewrites) : undefined
    case "reflog":
      return /^(?:expire|delete)$/.test(targets[0] ?? "") ? ask("history rewriting", rewrites) : undefined
    case "gc":
      return args.some((arg) => /^--prune=(?:now|all)/.test(arg) || arg === "--aggressive" && args.includes("--prune=now"))
        ? ask("history rewriting", rewrites)
        : undefined
    case "prune":
      return hasFlag(args, "n", ["dry-run"]) ? undefined : ask("history rewriting", rewrites)
    case "stash":
      return /^(?:drop|clear)$/.test(targets[0] ?? "") ? ask("history rewriting", "loss of stashed changes") : undefined
    case "checkout":
    case "switch":
      return hasFlag(args, "f", ["force", "discard-changes"]) ||
        targets.some((target) => target === "." || target === ":/") && !args.includes("-b")
        ? ask("history rewriting", "loss of uncommitted changes (git checkout)")
        : undefined
    case "restore":
      return targets.some((target) => target === "." || target === ":/") &&
        (!hasFlag(args, "S", ["staged"]) || hasFlag(args, "W", ["worktree"]))
        ? ask("history rewriting", "loss of uncommitted changes (git restore)")
        : undefined
    case "worktree":
      return targets[0] === "remove" && hasFlag(args, "f", ["force"])
        ? ask("history rewriting", "loss of uncommitted changes (git worktree)")
        : undefined
    default:
      return undefined
  }
}

const dangerousSetting = /^(?:alias\.|core\.(?:hookspath|sshcommand|editor|pager|fsmonitor|gitproxy|askpass)|credential\.|url\.|http\..*(?:sslverify|proxy)|http\.(?:sslverify|proxy)|filter\.|diff\..*\.(?:command|textconv)|include|protocol\.|gpg\.|safe\.directory)/i

/** Editors and pagers that everybody knows, with flags at most. */
const ordinaryProgram =
  /^(?:cat|less|more|most|bat|delta|diff-so-fancy|vim?|nvim|nano|emacs|emacsclient|code|subl|hx|micro)(?:\s+-[\w=-]*)*$/i
const choosesProgram = (setting: string, value: string): boolean =>
  /^core\.(?:editor|pager)$/i.test(setting) && ordinaryProgram.test(value.trim())

const settings: Rule = (command) => {
  if (command.program !== "git") return undefined
  const [verb, args] = subcommand(command)
  const inline = command.args.some((arg, index) => command.args[index - 1] === "-c" && dangerousSetting.test(arg) && !choosesProgram(arg.split("=", 1)[0] ?? "", arg.slice(arg.indexOf("=") + 1)) && /!|hookspath|sshcommand|fsmonitor|gitproxy|askpass|sslverify=(?:false|0)|pager|editor/i.test(arg))
  if (inline) return ask("configuration tampering", "git setting that runs programs")
  if (verb !== "config") return undefined
  const [name = "", value] = operands(args)
  const writes = value !== undefined || hasFlag(args, "e", ["unset", "unset-all", "replace-all", "add", "edit", "remove-section"])
  if (
    !writes ||
    /^(?:--get|--list|-l)/.test(args.find((arg) => arg.startsWith("--get") || arg === "--list" || arg === "-l") ?? "")
  ) {
    return undefined
  }
  if (!dangerousSetting.test(name) || choosesProgram(name, value ?? "") || /^alias\./i.test(name) && value?.trimStart().startsWith("!") !== true) return undefined
  return /^safe\.directory/i.test(name) && value !== "*"
    ? undefined
    : ask("configuration tampering", "git setting that runs programs")
}

const record = /(?:^|\/)\.(?:(?:bash|zsh|sh|python|node_repl|mysql|psql|sqlite|rediscli)_history|zhistory|history|local\/share\/fish\/fish_history)$|^\/var\/log(?:\/|$)/

const traces: Rule = (command) => {
  const { args, assignments, program } = command
  const key = "removal of the record of what was done"
  if (program === "history" && (hasFlag(args, "cdwa") && !hasFlag(args, "", ["help"])) && hasFlag(args, "cd")) {
    return ask("history rewriting", key)
  }
  if (program === "unset" && args.some((arg) => /^HIST(?:FILE|SIZE)$/.test(arg))) return ask("history rewriting", key)
  const declared = /^(?:export|declare|typeset)$/.test(program) ? args : []
  const variables = [
    ...assignments,
    ...declared.map((arg): readonly [string, string] => [arg.split("=", 1)[0] ?? "", arg.slice(arg.indexOf("=") + 1)])
  ]
  if (
    variables.some(([name, value]) => name === "HISTFILE" && /^(?:\/dev\/null)?$/.test(value) || /^HIST(?:FILE)?SIZE$/.test(name) && value === "0")
  ) {
    return ask("history rewriting", key)
  }
  if (/^(?:rm|shred|truncate|unlink|tee|ln|cp)$/.test(program) && operands(args).some((path) => record.test(path))) {
    return ask("history rewriting", key)
  }
  if (
    command.redirects.some(({ operator, target }) => /^>\|?$/.test(operator) && record.test(target.text)) &&
    written(command).length > 0
  ) {
    return ask("history rewriting", key)
  }
  if (program === "journalctl" && args.some((arg) => /^--(?:vacuum|rotate|flush)/.test(arg))) return ask("history rewriting", key)
  if (program === "set" && args.join(" ") === "+o history") return ask("history rewriting", key)
  return program === "wevtutil" && /^(?:cl|clear-log)$/i.test(args[0] ?? "") ||
    program === "auditctl" && hasFlag(args, "De") ||
    program === "logrotate" && hasFlag(args, "f")
    ? ask("history rewriting", key)
    : undefined
}

/** History that cannot be brought back. */
export const rules: ReadonlyArray<Rule> = [git, settings, traces]
