/**
 * Shell commands that programs are handed in ways of their own: by a variable that names a pager, by a setting of git, by a
 * command of an editor, by keys that are typed into another terminal. Each is judged as if it stood there alone.
 */
import { type Command, operands } from "./Command.ts"

type Invocation = Pick<Command, "program" | "args" | "assignments" | "stdin">

/** Variables whose values are run by a shell. */
const runVariable =
  /^(?:GIT_(?:SSH_COMMAND|PAGER|EDITOR|SEQUENCE_EDITOR|EXTERNAL_DIFF|ASKPASS|PROXY_COMMAND)|(?:MAN|SYSTEMD_)?PAGER|EDITOR|VISUAL|BROWSER|LESSOPEN|LESSCLOSE|(?:SSH|SUDO)_ASKPASS|PROMPT_COMMAND|FZF_DEFAULT_COMMAND)$/

const declaring = new Set(["export", "declare", "typeset", "local", "readonly", "env"])

const pair = (text: string): readonly [string, string] => {
  const at = text.indexOf("=")
  return at === -1 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)]
}

const variables = ({ args, assignments, program }: Invocation): ReadonlyArray<string> =>
  [...assignments, ...(declaring.has(program) ? args.map(pair) : [])]
    .flatMap(([name, value]) => runVariable.test(name) && value !== "" ? [value.replace(/^\|\s{0,4}-?/, "").replaceAll("%s", "")] : [])

/** Returns the values of a flag: the next word, or the text after an equals sign. */
const valuesOf = (args: ReadonlyArray<string>, flag: RegExp): ReadonlyArray<string> =>
  args.flatMap((arg, index) => {
    if (flag.test(args[index - 1] ?? "")) return [arg]
    const [name, value] = pair(arg)
    return arg.includes("=") && flag.test(name) ? [value] : []
  })

const gitSetting =
  /^(?:core\.(?:pager|editor|sshcommand|fsmonitor|askpass|gitproxy)|sequence\.editor|diff\.external|pager\.[\w-]+|credential\.(?:.*\.)?helper|.*\.(?:textconv|command|cmd|clean|smudge|driver|process))$/i

const ofSetting = (name: string, value: string): ReadonlyArray<string> => {
  const shell = value.trimStart().startsWith("!")
  if (!shell && !gitSetting.test(name)) return []
  return shell && !/^alias\.|helper$/i.test(name) && !gitSetting.test(name) ? [] : [value.trimStart().replace(/^!/, "")]
}

const git = (args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const settings = args.flatMap((arg, index) => args[index - 1] === "-c" ? ofSetting(...pair(arg)) : [])
  const words = operands(args)
  const [verb = "", name = "", value = ""] = words.filter((word) => !word.includes("=") || words[0] === "config")
  const rest = (word: string): string => args.slice(args.indexOf(word) + 1).join(" ")
  switch (true) {
    case verb === "config":
      return [...settings, ...ofSetting(name, value)]
    case args.includes("submodule") && args.includes("foreach"):
      return [...settings, rest("foreach").replace(/^(?:--(?:recursive|quiet)\s)+/, "")]
    case args.includes("bisect") && args.includes("run"):
      return [...settings, rest("run")]
    case args.includes("clone") || args.includes("fetch") || args.includes("ls-remote") || args.includes("pull"):
      return [
        ...settings,
        ...args.flatMap((arg) => arg.startsWith("ext::") ? [arg.slice(5)] : []),
        ...valuesOf(args, /^(?:--upload-pack|-u)$/)
      ]
    default:
      return [...settings, ...valuesOf(args, /^(?:-x|--exec|--(?:tree|index|env|msg|commit)-filter)$/)]
  }
}

const afterMark = (texts: ReadonlyArray<string>, mark: RegExp): ReadonlyArray<string> =>
  texts.flatMap((text) => {
    const found = mark.exec(text)?.[1]
    return found === undefined ? [] : [found]
  })

/** Verbs of terminal multiplexers that run a command, or type it. */
const typing = /^(?:new(?:-session|-window)?|neww|split-window|splitw|respawn-pane|respawn-window|run(?:-shell)?|send(?:-keys)?|if-shell|pipe-pane|popup)$/
const keyNames = /^(?:Enter|C-m|C-j|KPEnter)$/

/** The words from the first one on that is neither a flag nor the value of one. */
const afterFlags = (args: ReadonlyArray<string>, valued: RegExp): ReadonlyArray<string> => {
  const at = args.findIndex((arg, index) => !arg.startsWith("-") && !valued.test(args[index - 1] ?? ""))
  return at === -1 ? [] : args.slice(at)
}

const tmux = (args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const at = args.findIndex((arg) => typing.test(arg))
  return at === -1
    ? []
    : [afterFlags(args.slice(at + 1), /^-[a-zA-Z]*[tsncFexyp]$/).filter((arg) => !keyNames.test(arg)).join(" ")]
}

const screen = (args: ReadonlyArray<string>): string => {
  const [first = "", ...rest] = afterFlags(args, /^-[a-zA-Z]*[SptTc]$/)
  return [...(first === "stuff" ? [] : [first]), ...rest].join(" ")
}

const lines = (text: string | undefined): ReadonlyArray<string> => text === undefined ? [] : text.split("\n").slice(0, 256)

/** Shell commands that programs are handed in ways of their own. */
export const embeddedCommands = (command: Invocation): ReadonlyArray<string> => {
  const { args, program, stdin } = command
  const given = variables(command)
  switch (program) {
    case "git":
      return [...given, ...git(args)]
    case "vi":
    case "vim":
    case "nvim":
    case "view":
    case "ex":
    case "less":
    case "more":
      return [...given, ...afterMark(args, /^\+?["']?:?\s{0,4}!(.*)$/s)]
    case "ed":
      return [...given, ...afterMark(lines(stdin), /^\s{0,4}!(.*)$/)]
    case "man":
      return [...given, ...valuesOf(args, /^(?:-P|--pager)$/)]
    case "sed":
    case "gsed":
      return [...given, ...afterMark(args, /(?:^|;)\s{0,4}(?:\d{1,9}|\$)?e\s(.+)$/s)]
    case "gdb":
      return [...given, ...afterMark(args, /^(?:shell|!)\s{0,4}(.*)$/s)]
    case "tar":
    case "gtar":
      return [
        ...given,
        ...valuesOf(args, /^(?:-I|--use-compress-program|--to-command|--rsh-command|--info-script|-F)$/),
        ...afterMark(args, /^(?:--checkpoint-action=)?exec=(.*)$/s)
      ]
    case "rsync":
      return [...given, ...valuesOf(args, /^(?:-[a-zA-Z]*e|--rsh|--rsync-path)$/)]
    case "ssh":
    case "scp":
    case "sftp":
      return [...given, ...afterMark(args, /^(?:-o\s{0,4})?(?:ProxyCommand|LocalCommand|KnownHostsCommand)[=\s]\s{0,4}(.*)$/is)]
    case "make":
    case "gmake":
      return [...given, ...afterMark(args, /^SHELL=(.*)$/s), ...afterMark(args, /\$\(shell\s(.*)/s)]
    case "at":
    case "batch":
    case "newgrp":
      return stdin === undefined ? given : [...given, stdin]
    case "expect":
      return [...given, ...afterMark(args, /\b(?:spawn|exec|system)\s(.*)$/s)]
    case "tclsh":
      return [...given, ...afterMark(lines(stdin), /\bexec\s(.*)$/)]
    case "tmux":
      return [...given, ...tmux(args)]
    case "screen":
      return [...given, screen(args)]
    case "xterm":
    case "konsole":
    case "alacritty":
    case "kitty":
    case "gnome-terminal":
      return [...given, args.slice(args.findIndex((arg) => arg === "-e" || arg === "--") + 1).join(" ")]
    case "nix-shell":
    case "nix":
      return [...given, ...valuesOf(args, /^--(?:run|command)$/), ...(args.includes("-c") ? [args.slice(args.indexOf("-c") + 1).join(" ")] : [])]
    case "npx":
    case "npm":
    case "pnpm":
    case "yarn":
      return [...given, ...valuesOf(args, /^(?:-c|--call|--shell-mode)$/)]
    case "sg":
      return [...given, ...valuesOf(args, /^-c$/)]
    default:
      return given
  }
}
