/**
 * Code that comes from elsewhere: downloads that are run, decoded text that is run, connections that run a shell.
 */
import { ask, type Command, type Finding, hasFlag, named, operands, programName, type Rule } from "../Command.ts"
import * as Wrappers from "../Wrappers.ts"

const downloaders = named(`
  curl wget aria2c fetch http https xh lynx w3m nc ncat netcat socat scp ftp tftp iwr irm invoke-webrequest invoke-
  restmethod
`)

const interpreters = /^(?:python[\d.]*|pypy3?|perl|ruby|node|nodejs|deno|bun|php|lua|osascript|tclsh|rscript|groovy|julia)$/

/** A program that runs what it reads. */
const runs = (program: string): boolean => Wrappers.shells.has(program) ||
  interpreters.test(program) ||
  /^(?:source|\.|eval|iex|invoke-expression|at|batch|crontab)$/.test(program)

/** A shell or interpreter whose program is its standard input. */
const readsInput = ({ args, program }: Command): boolean => {
  if (program === "source" || program === ".") return args[0] === "/dev/stdin" || args[0] === "/proc/self/fd/0"
  if (program === "eval") return false
  if (program === "at" || program === "batch" || /^(?:iex|invoke-expression)$/.test(program)) return true
  if (program === "crontab") return args.includes("-")
  if (args.includes("-") || args.includes("-s") || args.includes("/dev/stdin")) return true
  // The word after a script's flags is the script; with `-c` there is another one.
  return !args.some((arg, index) => !arg.startsWith("-") && !/^-[oO]$/.test(args[index - 1] ?? "")) &&
    !args.some((arg) => /^-[a-z]*[cem]$|^--(?:eval|print|help|version)/.test(arg))
}

const decoders = (commands: ReadonlyArray<Command>): boolean =>
  commands.some(({ args, program }) =>
    /^(?:base64|base32|gbase64|uudecode|basenc)$/.test(program) && (program === "uudecode" || hasFlag(args, "dD", ["decode"])) ||
    program === "xxd" && hasFlag(args, "r", ["revert"]) ||
    program === "openssl" && args.some((arg) => arg === "-d") ||
    /^(?:tr|rev|tac|gunzip|zcat|bzcat|xzcat|unxz|bunzip2)$/.test(program) ||
    /^(?:gzip|bzip2|xz|zstd)$/.test(program) && hasFlag(args, "d", ["decompress"]) ||
    program === "printf" && args.some((arg) => /\\x[0-9a-f]{2}|\\[0-7]{3}/i.test(arg)) ||
    program === "echo" && args.some((arg) => /\\x[0-9a-f]{2}|\\0[0-7]{2,3}/i.test(arg)))

const downloads = (commands: ReadonlyArray<Command>): boolean => commands.some(({ program }) => downloaders.has(program))

const piped: Rule = (command) => {
  const { args, input, program } = command
  if (!runs(program) || !readsInput(command)) return undefined
  if (downloads(input)) return ask("remote code", "download piped to a shell or interpreter")
  if (decoders(input)) return ask("encoded payload", "decoded text piped to a shell or interpreter")
  if (Wrappers.shells.has(program) && input.length > 0) return ask("remote code", "text piped to a shell")
  const document = command.redirects.some(({ operator }) => operator.startsWith("<<"))
  if (document && (interpreters.test(program) || Wrappers.shells.has(program))) {
    return ask("inline code", "script in a here-document")
  }
  return Wrappers.shells.has(program) &&
    args.length === 0 &&
    command.redirects.some(({ target }) => /^\/dev\/(?:tcp|udp)\//.test(target.text))
    ? ask("remote code", "shell over the network")
    : undefined
}

/** `bash <(curl …)`, `eval "$(curl …)"`, `sh -c "$(curl …)"`. */
const substituted: Rule = ({ args, fields, program, redirects }) => {
  const made = [...fields.flatMap(({ commands }) => commands), ...(runs(program) ? redirects.flatMap(({ target }) => target.commands) : [])]
  if (made.length === 0) return undefined
  const handed = runs(program) || program === "" || program === "make" || program === "gmake"
  if (!handed && !(Wrappers.scriptOf(program, fields) !== undefined && args.length > 0)) return undefined
  if (downloads(made)) return ask("remote code", "download run by a shell or interpreter")
  return decoders(made) ? ask("encoded payload", "decoded text run by a shell or interpreter") : undefined
}

/** `… | tee >(sh)`. */
const forked: Rule = ({ fields, input, redirects }) => {
  const shells = [...fields, ...redirects.map(({ target }) => target)].flatMap(({ commands }) => commands)
  return input.length > 0 &&
    shells.some((command) => Wrappers.shells.has(command.program) && command.input.length === 0 && readsInput(command))
    ? ask("remote code", "text piped to a shell")
    : undefined
}

/** A program whose name is made of the output of another one. */
const computed: Rule = ({ fields, program }) =>
  program === "" && fields.some(({ text }) => /^-[a-zA-Z]*[rRf]/.test(text)) && fields.some(({ text }) => /^[/~]/.test(text))
    ? ask("encoded payload", "program that is not known before it runs")
    : undefined

const shellAtEnd = /(?:^|[\s:,/])(?:ba|z|k|da|a)?sh\b|cmd\.exe|powershell/i

const connected: Rule = ({ args, program, redirects }) => {
  const key = "shell over the network"
  const sockets = redirects.map(({ target }) => target.text).filter((text) => /^\/dev\/(?:tcp|udp)\//.test(text))
  if (sockets.some((socket) => !/^\/dev\/\w+\/(?:localhost|127\.0\.0\.1|\[?::1\]?)\//.test(socket))) {
    return ask("remote code", key)
  }
  if (sockets.length > 0 && Wrappers.shells.has(program)) return ask("remote code", key)
  if (
    /^(?:nc|ncat|netcat|nc\.(?:traditional|openbsd))$/.test(program) &&
    (hasFlag(args, "ec", ["exec", "sh-exec", "lua-exec"]) || args.some((arg) => shellAtEnd.test(arg)))
  ) {
    return ask("remote code", key)
  }
  if (program === "socat" && args.some((arg) => /^(?:exec|system|shell):/i.test(arg))) return ask("remote code", key)
  if (/^(?:telnet)$/.test(program) && args.some((arg) => shellAtEnd.test(arg))) return ask("remote code", key)
  return undefined
}

/** Programs that fetch code and run it, from an address. */
const fetched: Rule = ({ args, program }) => {
  const targets = operands(args)
  const key = "run of code from an address"
  const address = targets.some((target) => /^(?:https?|ftp|git\+\w+):\/\//i.test(target))
  if (/^(?:deno|bun)$/.test(program) && targets[0] === "run" && address) return ask("remote code", key)
  if (/^(?:source|\.|node|bash|sh|zsh|iex)$/.test(program) && address) return ask("remote code", key)
  if (
    /^(?:pip3?|uv|pipx)$/.test(program) &&
    (args.some((arg) => /^(?:git\+)?http:\/\//i.test(arg)) ||
      args.some((arg) => /^--(?:trusted-host|extra-index-url|index-url)/.test(arg)) && !/pypi\.org|pythonhosted|pytorch\.org/.test(args.join(" ")))
  ) {
    return ask("remote code", "packages from a source that is not trusted")
  }
  return /^(?:mshta|regsvr32|rundll32|certutil|bitsadmin)$/.test(program) &&
    args.some((arg) => /https?:|-urlcache|-decode|\/i:/i.test(arg))
    ? ask("remote code", key)
    : undefined
}

/** The files that a download leaves. */
const saved = ({ args, program, redirects }: Command): ReadonlyArray<string> => {
  if (!downloaders.has(program)) return []
  const named = args.flatMap((arg, index) => {
    const flag = args[index - 1] ?? ""
    if (program === "curl" ? /^-[a-zA-Z]*o$|^--output$/.test(flag) : /^-[a-zA-Z]*O$|^--output-document$|^-o$/.test(flag)) {
      return [arg]
    }
    return /^--output(?:-document)?=(.+)$/.exec(arg)?.slice(1) ?? []
  })
  const aside = redirects.filter(({ operator }) => operator.startsWith(">")).map(({ target }) => target.text)
  const own = program === "wget" || args.some((arg) => /^-[a-zA-Z]*O|^--remote-name$/.test(arg))
  return [...named, ...aside, ...(named.length === 0 && own ? operands(args) : [])].map((path) => programName(path.replace(/[?#].*$/s, "")))
}

/** Over the whole line: a file that is fetched, or made executable, and then run. */
export const fetchedAndRun = (commands: ReadonlyArray<Command>): Finding | undefined => {
  const executable = new Set<string>()
  const downloaded = new Set<string>()
  for (const command of commands) {
    const { args, fields, program } = command
    for (const file of saved(command)) downloaded.add(file)
    if (program === "chmod" && args.some((arg) => /^[ugoa]*\+[rwst]*x|^0?[157][0-7]{2}$/.test(arg))) {
      for (const path of operands(args).slice(1)) executable.add(programName(path))
    } else if (executable.size > 0 || downloaded.size > 0) {
      const run = runs(program) ? fields.map(({ text }) => programName(text)) : [program]
      if (run.some((name) => name !== "" && executable.has(name))) {
        return ask("remote code", "script made executable and run at once")
      }
      if (run.some((name) => name !== "" && downloaded.has(name))) return ask("remote code", "download that is run at once")
    }
  }
  return undefined
}

/** Code that comes from elsewhere. */
export const rules: ReadonlyArray<Rule> = [piped, substituted, forked, computed, connected, fetched]
