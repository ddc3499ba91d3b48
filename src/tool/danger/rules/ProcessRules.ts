/**
 * Processes and the machine itself: killing everything, fork bombs, shutting down, services.
 */
import { ask, asksForHelp, type Command, floor, hasFlag, operands, type Rule, written } from "../Command.ts"

const everybody = "kill of every process"

const kill: Rule = ({ args, fields, input, program, wrappers }) => {
  if (program === "killall5") return floor("process kill", everybody)
  if (program === "kill") {
    if (args.some((arg) => /^-l$|^-L$|^--list/.test(arg))) return undefined
    const end = args.indexOf("--")
    const signal = end === 0 ? -1 : args.findIndex((arg) => arg.startsWith("-"))
    const valued = /^(?:-s|-n|--signal)$/.test(args[signal] ?? "")
    const targets = args.filter((arg, index) => arg !== "--" && index !== signal && !(valued && index === signal + 1))
    if (targets.some((target) => /^-0*1$/.test(target))) return floor("process kill", everybody)
    if (targets.some((target) => /^0*[01]$/.test(target)) && !args.includes("-0")) {
      return ask("process kill", "kill of the first process or the own group")
    }
    const searches = (commands: ReadonlyArray<Command>) => commands.some(({ program }) => /^(?:pgrep|pidof|ps)$/.test(program))
    return fields.some(({ commands }) => searches(commands)) || wrappers.includes("xargs") && searches(input)
      ? ask("process kill", "kill of what a process search finds")
      : undefined
  }
  if (!/^(?:pkill|killall|skill|taskkill|stop-process)$/.test(program)) return undefined
  const names = operands(args)
  if (names.some((name) => /\bhermes\b|gateway/i.test(name))) return ask("process kill", "kill of the agent itself")
  if (program === "taskkill") return args.some((arg) => /^\/f$/i.test(arg)) ? ask("process kill", "kill by force") : undefined
  if (names.some((name) => /^[.^*$]*$/.test(name))) return ask("process kill", "kill of processes by force")
  if (
    args.some((arg) => /^-(?:9|KILL|SIGKILL|u|U|-signal=?(?:9|KILL|SIGKILL)?|-user|-euid|-uid)$/i.test(arg) || /^-(?:s)$/.test(arg) && /9|kill/i.test(args.join(" ")))
  ) {
    return ask("process kill", "kill of processes by force")
  }
  return hasFlag(args, "9") || program === "stop-process" && args.some((arg) => /^-force/i.test(arg))
    ? ask("process kill", "kill of processes by force")
    : undefined
}

const bomb: Rule = ({ inside, program, terminator }) =>
  program !== "" && (inside.includes(program) || program === "$0") && (terminator === "|" || terminator === "&")
    ? floor("process kill", "fork bomb")
    : undefined

const power = new Set(["shutdown", "reboot", "halt", "poweroff", "stop-computer", "restart-computer", "systemctl-poweroff"])

const machine: Rule = (command) => {
  const { args, program } = command
  const down = floor("shutdown", "shutdown or restart of the machine")
  if (power.has(program)) {
    const harmless = asksForHelp(args) || args.includes("-c") || args.includes("--show") || args.some((arg) => /^\/a$/i.test(arg))
    return harmless ? undefined : down
  }
  if ((program === "init" || program === "telinit") && /^[06]$/.test(args[0] ?? "")) return down
  if (
    (program === "systemctl" || program === "loginctl") &&
    /^(?:poweroff|reboot|halt|kexec|soft-reboot|emergency|rescue|hibernate|suspend|exit)$/.test(operands(args)[0] ?? "")
  ) {
    return down
  }
  if (program === "systemctl" && args.includes("isolate")) return down
  if (program === "loginctl" && /^(?:terminate|kill)-/.test(operands(args)[0] ?? "")) return ask("process kill", "end of somebody's session")
  if (/^(?:busctl|dbus-send|gdbus|qdbus)$/.test(program) && args.some((arg) => /\b(?:poweroff|reboot|halt)\b/i.test(arg))) {
    return down
  }
  return written(command).some((path) => /^\/+proc\/+sysrq-trigger$/.test(path)) ||
      program === "tee" && args.some((arg) => /^\/proc\/sysrq-trigger$/.test(arg))
    ? down
    : undefined
}

const service: Rule = ({ args, program }) => {
  const stops = "stopping or changing of a system service"
  const verb = operands(args)[0] ?? ""
  if (
    program === "systemctl" &&
    /^(?:stop|restart|try-restart|reload-or-restart|disable|mask|kill|enable|link|edit|set-default|revert|daemon-reexec|reenable|unmask)$/.test(verb)
  ) {
    return ask("service", stops)
  }
  if (
    (program === "service" || program === "rc-service") &&
    operands(args).some((arg) => /^(?:stop|restart|force-reload|--full-restart)$/.test(arg))
  ) {
    return ask("service", stops)
  }
  if (program === "launchctl" && /^(?:unload|remove|bootout|kill|disable|load|bootstrap|submit)$/.test(verb)) {
    return ask("service", stops)
  }
  if (/^(?:sc|net)$/.test(program) && /^(?:stop|delete|config)$/i.test(verb)) return ask("service", stops)
  if (/^(?:update-rc\.d|chkconfig)$/.test(program)) return ask("service", stops)
  return undefined
}

const agent: Rule = (command) => {
  const { args, program } = command
  if (program !== "hermes") return undefined
  const [verb, what] = operands(args)
  if (verb === "gateway" && /^(?:stop|restart|uninstall)$/.test(what ?? "") || verb === "update" || verb === "uninstall") {
    return ask("service", "stopping or updating of the agent")
  }
  if (verb === "gateway" && detached(command)) return ask("service", "start of the agent in the background")
  return undefined
}

const detached = ({ terminator, wrappers }: Command): boolean =>
  terminator === "&" || wrappers.some((wrapper) => wrapper === "nohup" || wrapper === "setsid")

/** Processes and the machine itself. */
export const rules: ReadonlyArray<Rule> = [kill, bomb, machine, service, agent]
