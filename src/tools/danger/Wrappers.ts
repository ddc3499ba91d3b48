/**
 * Finds the program that a wrapper program runs. A command with an unlisted wrapper is not known to be read-only; the
 * floor also checks the program behind such a wrapper ({@link FloorRules.rules}).
 */
import { type Field, toKnownField, parseNames, toProgramName } from "./Command.ts"
import { toGlobExpression } from "./PathClass.ts"

/** Programs that run their remaining words as a command. */
const wrappers = parseNames(`
  sudo doas pkexec env command exec builtin nice ionice stdbuf nohup setsid time gtime unshare nsenter strace ltrace
  watch xargs parallel busybox toybox proxychains proxychains4 torsocks torify firejail runuser chronic caffeinate
  eatmydata fakeroot setpriv prlimit systemd-run coproc winpty numactl choom valgrind entr xvfb-run
`)

/** Wrappers with an operand before the program. */
const skipping = parseNames("timeout gtimeout chroot flock taskset gosu su-exec chrt setarch faketime ssh mosh")

/** Programs that run another program after a subcommand: `bundle exec`. */
const runners: ReadonlyArray<readonly [program: RegExp, verb: RegExp]> = [
  [/^(?:npm|pnpm|yarn|bun|mise|asdf|bundle|direnv|kubectl)$/, /^(?:exec|x|dlx)$/],
  [/^(?:poetry|pipenv|pdm|hatch|rye|uv|conda)$/, /^run$/],
  [/^(?:docker|podman|nerdctl|docker-compose)$/, /^(?:exec|run)$/],
  [/^perf$/, /^(?:stat|record|trace)$/]
]
const selfRunning = parseNames("npx bunx pnpx uvx")

/** Flags whose value is the next word. */
const valued = /^(?:-[ugahpnCRTUkcasIdLw]|--(?:user|group|unset|chdir|signal|kill-after|name|workdir))$/
const valuedOfSsh = /^-[BbcDEeFIiJLlmOopQRSWw]$/
/** Flags of some wrappers that look like {@link valued} but take no value. */
const alone: ReadonlyMap<string, RegExp> = new Map([
  ["sudo", /^-[sakn]$/],
  ["command", /^-p$/],
  ["time", /^-[ap]$/],
  ["exec", /^-c$/],
  ["setsid", /^-[cw]$/],
  ["xargs", /^-p$/]
])

const ownWord = /^(?:-|[A-Za-z_]\w*=)/
/** Matches values of flags that cannot be the name of a program. */
const plainValue = /^(?:\d+(?:\.\d+)?[smhd]?|\{\})$/

/** Returns the index of the first word that is neither a flag, the value of a flag, nor an assignment. */
const findProgramAt = (program: string, args: ReadonlyArray<Field>, start: number): number => {
  let index = start
  for (; index < args.length; index++) {
    const text = args[index]?.text ?? ""
    if (text === "--") return index + 1
    const isValue = !skipping.has(program) && plainValue.test(text) && args[index - 1]?.text.startsWith("-") === true
    if ((program === "ssh" ? valuedOfSsh : valued).test(text) && alone.get(program)?.test(text) !== true) index++
    else if (!isValue && !(skipping.has(program) ? /^-/ : ownWord).test(text)) break
  }
  return index
}

/** Returns true for a lookup: `command -v rm` only prints the location of a program. */
const isLookup = (program: string, args: ReadonlyArray<Field>): boolean =>
  program === "command" && /^-[pvV]*[vV][pvV]*$/.test(args[0]?.text ?? "")

const findPosition = (program: string, args: ReadonlyArray<Field>): number | undefined => {
  if (isLookup(program, args)) return undefined
  if (wrappers.has(program)) return findProgramAt(program, args, 0)
  if (skipping.has(program)) return findProgramAt(program, args, findProgramAt(program, args, 0) + 1)
  if (selfRunning.has(program)) return findProgramAt(program, args, 0)
  const runner = runners.find(([name]) => name.test(program))
  const verb = findProgramAt(program, args, /^(?:compose|container)$/.test(args[0]?.text ?? "") ? 1 : 0)
  if (runner?.[1].test(args[verb]?.text ?? "") !== true) return undefined
  const at = findProgramAt(program, args, verb + 1)
  return /^(?:docker|podman|nerdctl|kubectl|docker-compose|direnv)$/.test(program)
    ? findProgramAt(program, args, at + 1)
    : at
}

/** Returns the command that a wrapper runs; `undefined` if the program is not a wrapper or runs no command. */
export const unwrapCommand = (
  program: string,
  args: ReadonlyArray<Field>,
  stdin: string | undefined
): ReadonlyArray<Field> | undefined => {
  const at = findPosition(program, args)
  const inner = at === undefined ? [] : args.slice(at)
  if (inner.length === 0) return undefined
  return stdin === undefined || (program !== "xargs" && program !== "parallel")
    ? inner
    : [
        ...inner,
        ...stdin
          .split(/\s+/)
          .filter((item) => item !== "")
          .slice(0, 256)
          .map(toKnownField)
      ]
}

/** Returns the commands after `-exec` and similar flags of `find` and `fd`. */
export const listExecuted = (program: string, args: ReadonlyArray<Field>): ReadonlyArray<ReadonlyArray<Field>> => {
  if (!/^(?:find|gfind|fd|fdfind|bfs)$/.test(program)) return []
  const out: Array<ReadonlyArray<Field>> = []
  for (let index = 0; index < args.length; index++) {
    if (!/^(?:-exec|-execdir|-ok|-okdir|-x|-X|--exec|--exec-batch)$/.test(args[index]?.text ?? "")) continue
    let end = index + 1
    while (end < args.length && args[end]?.text !== ";" && args[end]?.text !== "+") end++
    out.push(args.slice(index + 1, end))
    // Words before the end belong to this command, regardless of their form.
    index = end
  }
  return out
}

/** Program names that an attacker would hide with globs. */
const globbed = [
  "rm",
  "dd",
  "mkfs.ext4",
  "shutdown",
  "reboot",
  "bash",
  "sh",
  "curl",
  "chmod",
  "sudo",
  "find",
  "kill",
  "shred",
  "wipefs",
  "cat",
  "python3"
]

/** Returns the program that a first word names, including a name hidden by a glob: `/bin/r?`. */
export const resolveProgram = ({ glob, text }: Field): string => {
  const name = toProgramName(text)
  const pattern = glob && name.length <= 24 ? toGlobExpression(name) : undefined
  return globbed.find((known) => pattern?.test(known)) ?? name
}
