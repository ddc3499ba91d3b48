/**
 * Programs that run another program: what they run, word by word, and scripts that shells, `eval` and the like are handed as
 * text.
 */
import { type Field, known, programName } from "./Command.ts"

interface Wrapper {
  /** Flags whose value is the next word. */
  readonly valued?: string
  /** Words of its own before the program. */
  readonly skip?: number
  /** Only what follows this word is run. */
  readonly after?: string
}

const wrapper = (valued = "", skip = 0): Wrapper => ({ valued, skip })

const wrappers: Readonly<Record<string, Wrapper>> = {
  "sudo": wrapper("-u -g -h -p -C -D -R -T -U -r -t --user --group --host --prompt --chdir --chroot"),
  "doas": wrapper("-u -C"),
  "pkexec": wrapper("--user"),
  "env": wrapper("-u --unset -C --chdir"),
  "command": wrapper(),
  "exec": wrapper("-a"),
  "builtin": wrapper(),
  "nice": wrapper("-n --adjustment"),
  "ionice": wrapper("-c -n -p --class --classdata"),
  "stdbuf": wrapper("-i -o -e"),
  "nohup": wrapper(),
  "setsid": wrapper(),
  "time": wrapper("-o -f --output --format"),
  "gtime": wrapper("-o -f"),
  "timeout": wrapper("-s -k --signal --kill-after", 1),
  "gtimeout": wrapper("-s -k", 1),
  "chroot": wrapper("--userspec --groups", 1),
  "unshare": wrapper("-R -w -S -G"),
  "nsenter": wrapper("-t --target -S -G"),
  "strace": wrapper("-o -e -p -u -s -E -P"),
  "ltrace": wrapper("-o -e -p -u -s"),
  "watch": wrapper("-n --interval"),
  "xargs": wrapper("-a -d -E -I -L -n -P -s --arg-file --delimiter --replace --max-args --max-procs --max-lines --max-chars"),
  "parallel": wrapper("-j --jobs -a -S -I -N -n --colsep"),
  "busybox": wrapper(),
  "toybox": wrapper(),
  "proxychains": wrapper("-f"),
  "proxychains4": wrapper("-f"),
  "torsocks": wrapper(),
  "torify": wrapper(),
  "firejail": wrapper(),
  "flock": wrapper("-w -E --timeout", 1),
  "gosu": wrapper("", 1),
  "su-exec": wrapper("", 1),
  "runuser": wrapper("-u -g -s"),
  "chronic": wrapper(),
  "caffeinate": wrapper("-t -w"),
  "eatmydata": wrapper(),
  "fakeroot": wrapper(),
  "taskset": wrapper("", 1),
  "chrt": wrapper("", 1),
  "setpriv": wrapper(),
  "capsh": { after: "--" },
  "prlimit": wrapper(),
  "systemd-run": wrapper("-p --property -u --unit --uid --gid -E"),
  "coproc": wrapper(),
  "winpty": wrapper(),
  "arch": wrapper(),
  "setarch": wrapper("", 1),
  "linux64": wrapper(),
  "faketime": wrapper("", 1),
  "dbus-run-session": wrapper("--config-file --dbus-daemon"),
  "numactl": wrapper("-N -m -C -i -p --cpunodebind --membind --physcpubind"),
  "choom": wrapper("-n --adjust"),
  "proot": wrapper("-r -b -w -R -S -q"),
  "valgrind": wrapper(),
  "entr": wrapper(),
  "start-stop-daemon": { after: "--exec" },
  "xvfb-run": wrapper("-n -s"),
  "doppler": { after: "--" },
  "op": { after: "--" },
  "dotenv": { after: "--" },
  "kubectl": { after: "--" },
  "hyperfine": { after: "--" }
}

/** Programs that read a script: shells. */
export const shells = new Set(["sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "yash", "busybox sh", "pwsh", "powershell"])

/** Programs that run another one after a word of theirs: `bundle exec`. */
const runners: Readonly<Record<string, ReadonlyArray<string>>> = {
  bundle: ["exec"], poetry: ["run"], pipenv: ["run"], pdm: ["run"], hatch: ["run"], rye: ["run"], uv: ["run"], conda: ["run"],
  mise: ["exec", "x"], asdf: ["exec"], pnpm: ["exec", "dlx"], yarn: ["exec", "dlx"], npm: ["exec", "x"], bun: ["x"],
  perf: ["stat", "record", "trace"], direnv: ["exec"], npx: [], bunx: [], pnpx: [], uvx: []
}

const containers = new Set(["docker", "podman", "nerdctl"])
const containerValues = new Set([
  "-v", "--volume", "-e", "--env", "-p", "--publish", "-w", "--workdir", "-u", "--user", "--name", "--network", "--net", "--mount",
  "--env-file", "--entrypoint", "-h", "--hostname", "--platform", "-m", "--memory", "--cpus", "--cap-add", "--device", "--label", "-l", "--pid"
])

/** The position after the flags, their values and assignments. */
const afterFlags = (args: ReadonlyArray<Field>, start: number, valued: (flag: string) => boolean): number => {
  let index = start
  for (; index < args.length; index++) {
    const text = args[index]?.text ?? ""
    if (text === "--") return index + 1
    if (text.startsWith("-")) {
      if (valued(text)) index++
    } else if (!/^[A-Za-z_]\w*=/.test(text)) break
  }
  return index
}

const position = (program: string, args: ReadonlyArray<Field>): number | undefined => {
  const texts = args.map(({ text }) => text)
  if (containers.has(program)) {
    const verb = texts[0] === "compose" || texts[0] === "container" ? 1 : 0
    const action = texts[verb]
    if (action !== "exec" && action !== "run") return undefined
    return afterFlags(args, verb + 1, (flag) => containerValues.has(flag)) + 1
  }
  if (program === "docker-compose") {
    return texts[0] === "exec" || texts[0] === "run" ? afterFlags(args, 1, (flag) => containerValues.has(flag)) + 1 : undefined
  }
  const verbs = Object.hasOwn(runners, program) ? runners[program] : undefined
  if (verbs !== undefined) {
    const at = afterFlags(args, 0, () => false)
    if (verbs.length === 0) return at
    if (!verbs.includes(texts[at] ?? "")) return undefined
    const valued = program === "conda" ? new Set(["-n", "--name", "-p", "--prefix", "--cwd"]) : new Set<string>()
    return afterFlags(args, at + 1, (flag) => valued.has(flag)) + (program === "direnv" ? 1 : 0)
  }
  const rule = Object.hasOwn(wrappers, program) ? wrappers[program] : undefined
  if (rule === undefined) return undefined
  if (rule.after !== undefined) {
    const at = texts.indexOf(rule.after)
    return at === -1 ? undefined : at + 1
  }
  const valued = new Set(rule.valued?.split(" "))
  // `xargs -I{}` and `nice -10` carry their values themselves.
  return afterFlags(args, 0, (flag) => valued.has(flag)) + (rule.skip ?? 0)
}

/** Returns the command that a wrapper runs; undefined when it is no wrapper, or runs nothing. */
export const wrapped = (
  program: string,
  args: ReadonlyArray<Field>,
  stdin: string | undefined
): ReadonlyArray<Field> | undefined => {
  const at = position(program, args)
  if (at === undefined) return undefined
  const inner = args.slice(at)
  if (inner.length === 0) return undefined
  if (program !== "xargs" && program !== "parallel") return inner
  return stdin === undefined ? inner : [...inner, ...stdin.split(/\s+/).filter((item) => item !== "").slice(0, 256).map(known)]
}

/** Commands after `-exec` and its kin of `find` and `fd`. */
export const executed = (program: string, args: ReadonlyArray<Field>): ReadonlyArray<ReadonlyArray<Field>> => {
  if (!/^(?:find|gfind|fd|fdfind|bfs)$/.test(program)) return []
  const out: Array<ReadonlyArray<Field>> = []
  for (let index = 0; index < args.length; index++) {
    if (!/^(?:-exec|-execdir|-ok|-okdir|-x|-X|--exec|--exec-batch)$/.test(args[index]?.text ?? "")) continue
    let end = index + 1
    while (end < args.length && args[end]?.text !== ";" && args[end]?.text !== "+") end++
    out.push(args.slice(index + 1, end))
    // Words before the end belong to this command, whatever they look like.
    index = end
  }
  return out
}

const joined = (fields: ReadonlyArray<Field>): Field => ({
  text: fields.map(({ text }) => text).join(" "),
  shown: fields.map(({ shown }) => shown).join(" "),
  unknown: fields.some(({ unknown }) => unknown),
  glob: false,
  variables: fields.flatMap(({ variables }) => variables),
  commands: fields.flatMap(({ commands }) => commands)
})

/** The text after a flag of a shell that takes a script: `-c`, `-lc`, `-ec`. */
const commandFlag = (args: ReadonlyArray<Field>, pattern: RegExp): Field | undefined => {
  const index = args.findIndex(({ text }) => pattern.test(text))
  return index === -1 ? undefined : args.slice(index + 1).find(({ text }) => !/^[-+][a-zA-Z]*$/.test(text) && text !== "--")
}

const remoteValues = new Set(Array.from("BbcDEeFIiJLlmOopQRSWw", (letter) => `-${letter}`))

const quotedText = String.raw`\[?\s{0,8}(["'])((?:\\.|(?!\1)[^\\]){1,2000})\1`
const shellCall = new RegExp(
  String.raw`\b(?:system|popen|Popen|exec\w{0,16}|spawn\w{0,16}|run|call|check_\w{0,16}|shell_exec|passthru|getoutput|execute|shell-command(?:-to-string)?|do shell script)\s{0,8}\(?\s{0,8}${quotedText}`,
  "g"
)
const treeCall = new RegExp(String.raw`\b(?:rmtree|rmSync|rm_rf|rm_r|rmdirSync|removeSync|remove_entry|rimraf|emptyDirSync)\s{0,8}\(?\s{0,8}${quotedText}`, "g")

/** Shell commands in the code of another language, as far as they stand there in quotes. */
const embedded = (code: string): string =>
  [
    ...Array.from(code.matchAll(shellCall), ([, , command = ""]) => command),
    ...Array.from(code.matchAll(/(?:`|%x[({])([^`)}]{1,2000})/g), ([, command = ""]) => command),
    ...Array.from(code.matchAll(treeCall), ([, , path = ""]) => `rm -rf '${path}'`)
  ].join("\n")

const codeFlags: ReadonlyArray<readonly [program: RegExp, flag: RegExp]> = [
  [/^(?:python[\d.]*|pypy3?)$/, /^-[a-zA-Z]*c$/],
  [/^(?:perl|ruby)[\d.]*$/, /^-[a-zA-Z0-9]*[eE]$/],
  [/^(?:node|nodejs|bun|tsx|lua|php|osascript|elixir|julia|rscript|groovy)$/, /^-(?:[a-z]*[epr]|-eval|-print)$/],
  [/^(?:g|m|n)?awk$/, /^(?!-)/],
  [/^emacs$/, /^--?eval$/],
  [/^deno$/, /^(?!-|eval$)/]
]

const codeOf = (program: string, args: ReadonlyArray<Field>): Field | undefined => {
  const rule = codeFlags.find(([name]) => name.test(program))
  if (rule === undefined) return undefined
  const index = args.findIndex(({ text }) => rule[1].test(text))
  const code = args[program.endsWith("awk") || program === "deno" ? index : index + 1]
  if (index === -1 || code === undefined) return undefined
  const text = embedded(code.text)
  // Quoted text is only part of a command there: it need not parse.
  return text === "" ? undefined : { ...code, text, shown: text, unknown: true }
}

/** The shell text that a program is handed as an argument, if any. */
export const scriptOf = (program: string, args: ReadonlyArray<Field>): Field | undefined => {
  if (program === "pwsh" || program === "powershell") return commandFlag(args, /^-c(?:ommand)?$/i)
  if (shells.has(program)) return commandFlag(args, /^-[abd-zA-Z]*c[a-zA-Z]*$/)
  switch (program) {
    case "eval":
      return joined(args.filter(({ text }, index) => index > 0 || text !== "--"))
    case "watch":
      return joined(args.slice(afterFlags(args, 0, (flag) => flag === "-n" || flag === "--interval" || flag === "-q")))
    case "su":
    case "runuser":
    case "script":
    case "flock":
      return commandFlag(args, /^(?:-c|--command|-[a-z]*c)$/)
    case "trap":
      return args[0]
    case "env": {
      const at = args.findIndex(({ text }) => /^-(?:[a-zA-Z]*S|-split-string)/.test(text))
      const flag = args[at]
      if (flag === undefined) return undefined
      const own = flag.text.replace(/^-(?:[a-zA-Z]*S|-split-string=?)/, "")
      return own === "" ? joined(args.slice(at + 1)) : joined([known(own), ...args.slice(at + 1)])
    }
    case "alias":
      return joined(args.map((field) => ({ ...field, text: `${field.text.replace(/^[^=]*=/, "")};` })))
    case "cmd":
      return commandFlag(args, /^\/[ck]$/i)
    case "ssh":
    case "mosh": {
      const at = afterFlags(args, 0, (flag) => remoteValues.has(flag)) + 1
      return at < args.length ? joined(args.slice(at)) : undefined
    }
    case "parallel":
    case "hyperfine":
    case "concurrently":
      return joined(args.filter(({ text }) => /\s/.test(text)).map((field) => ({ ...field, text: `${field.text};` })))
    default:
      return codeOf(program, args)
  }
}

/** The program of a first word, through what only globs hide: `/bin/r?`. */
export const resolved = (field: Field): string => {
  const name = programName(field.text)
  if (!field.glob || !/[*?[]/.test(name) || name.length > 24) return name
  try {
    const pattern = new RegExp(`^${name.replace(/[.+^${}()|\\]/g, String.raw`\$&`).replace(/\*+/g, ".*").replace(/\?/g, ".")}$`)
    return globbed.find((known) => pattern.test(known)) ?? name
  } catch {
    // A class that is not closed matches itself.
    return name
  }
}

/** Names that an attacker would spell with globs. */
const globbed = [
  "rm", "dd", "mkfs.ext4", "shutdown", "reboot", "halt", "poweroff", "chmod", "chown", "shred", "curl", "wget", "bash", "sh", "zsh", "nc", "ncat", "kill",
  "killall", "pkill", "find", "sudo", "cat", "python3", "perl", "wipefs", "init", "tee"
]
