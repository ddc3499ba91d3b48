/**
 * The floor, which no flag, mode or approval overrides: deletion of the root, a system directory or a home directory,
 * file systems and raw disks, fork bombs, killing every process, shutting down.
 */
import {
  makeFloorFinding,
  hasFlag,
  selectOperands,
  toProgramName,
  type Row,
  type Rule,
  listRedirectTargets
} from "../Command.ts"
import { isProse } from "../EmbeddedCommands.ts"
import * as PathClass from "../PathClass.ts"
import { deleters, isSearchDeletion, isRecursive } from "./LossRules.ts"

const down = "shutdown or restart of the machine"
const everybody = "kill of every process"
const notHelp = /^(?!-[hV]$|.*(?:^| )--(?:help|version)(?: |$))/

/** Dangers that are recognized by names and words alone. */
const rows: ReadonlyArray<Row> = [
  [/^(?:mkfs(?:\..+)?|mke2fs|newfs(?:_.+)?|mkdosfs|mkntfs|mkexfatfs)$/, notHelp, "disk", "making of a file system"],
  [/^(?:format-volume|clear-disk)$/, /^/, "disk", "making of a file system"],
  [/^format$/, /(?:^| )[a-z]:(?: |$)/i, "disk", "making of a file system"],
  [
    /^diskutil$/,
    /(?:^| )(?:erase(?:disk|volume)?|zerodisk|secureerase|partitiondisk|reformat|randomdisk)(?: |$)/i,
    "disk",
    "making of a file system"
  ],
  [
    /^(?:shutdown|reboot|halt|poweroff|stop-computer|restart-computer)$/,
    /^(?!-[hV]$|.*(?:^| )(?:-c|--show|--help|--version|\/[aA])(?: |$))/,
    "shutdown",
    down
  ],
  [/^(?:tel)?init$/, /^[06](?: |$)/, "shutdown", down],
  [
    /^(?:systemctl|loginctl)$/,
    /^(?:-\S+ )*(?:poweroff|reboot|halt|kexec|soft-reboot|emergency|rescue|hibernate|suspend|exit)(?: |$)/,
    "shutdown",
    down
  ],
  [/^systemctl$/, /(?:^| )isolate(?: |$)/, "shutdown", down],
  [/^(?:busctl|dbus-send|gdbus|qdbus)$/, /\b(?:poweroff|reboot|halt)\b/i, "shutdown", down],
  [/^tee$/, /(?:^| )\/proc\/sysrq-trigger(?: |$)/, "shutdown", down],
  [/^killall5$/, /^/, "process kill", everybody],
  // The first flag is the signal; a later `-1` selects every process.
  [/^kill$/, /^(?!.*(?:^| )(?:-l|-L|--list\S*)(?: |$))(?:[^-]\S* )*-\S+(?: .*)? -0*1(?: |$)/, "process kill", everybody]
]

const findNamedDanger: Rule = (command) => {
  const words = command.args.join(" ")
  const found = rows.find(([program, pattern]) => program.test(command.program) && pattern.test(words))
  if (found !== undefined) return makeFloorFinding(found[2], found[3])
  return listRedirectTargets(command).some((path) => /^\/+proc\/+sysrq-trigger$/.test(path))
    ? makeFloorFinding("shutdown", down)
    : undefined
}

/** Words of a command, and its operands. */
interface Operands {
  readonly args: ReadonlyArray<string>
  readonly targets: ReadonlyArray<string>
}

const aimsAtDevice = ({ targets }: Operands): boolean => targets.some(PathClass.isRawDevice)

/** Programs that write to devices, with the condition under which they do. */
const deviceWriters: ReadonlyArray<readonly [program: RegExp, writes: (operands: Operands) => boolean]> = [
  [/^(?:mkswap|tee|sponge|shred|blkdiscard|scrub|nwipe|srm)$/, aimsAtDevice],
  [
    /^(?:dd|gdd|dcfldd|dc3dd|pv)$/,
    ({ args }) => args.some((arg) => /^of=/i.test(arg) && PathClass.isRawDevice(arg.slice(3)))
  ],
  [/^badblocks$/, (operands) => aimsAtDevice(operands) && hasFlag(operands.args, "w")],
  [/^wipefs$/, (operands) => aimsAtDevice(operands) && hasFlag(operands.args, "ao", ["all", "offset"])],
  [/^(?:cp|mv|install)$/, ({ targets }) => PathClass.isRawDevice(targets.at(-1) ?? "")],
  [/^hdparm$/, ({ args }) => args.some((arg) => /^--(?:security-erase|trim-sector|write-sector|fwdownload)/.test(arg))],
  [/^nvme$/, ({ targets }) => /^(?:format|sanitize)$/.test(targets[0] ?? "")],
  [/^cryptsetup$/, ({ targets }) => /^(?:luks(?:format|erase|killslot)|erase)$/i.test(targets[0] ?? "")]
]

const findDeviceWrite: Rule = (command) => {
  const { args, program } = command
  const operands: Operands = { args, targets: selectOperands(args) }
  const writes =
    listRedirectTargets(command).some(PathClass.isRawDevice) ||
    deviceWriters.some(([pattern, writes]) => pattern.test(program) && writes(operands))
  return writes ? makeFloorFinding("disk", "write to a raw disk device") : undefined
}

const places = { root: "the root directory", system: "a system directory", home: "a home directory" } as const

const containers = /^(?:docker|podman|nerdctl|kubectl|docker-compose)$/

/**
 * Finds a deletion of everything below an essential directory. In a container, only the container's directory is
 * affected.
 */
const findTreeDeletion: Rule = (command) => {
  const { args, cwd, fields, program, wrappers } = command
  if (!deleters.has(program)) return undefined
  if (args.includes("--no-preserve-root"))
    return makeFloorFinding("file destruction", "recursive delete of the root directory")
  if (wrappers.some((wrapper) => containers.test(wrapper))) return undefined
  const recursive = isRecursive(command)
  for (const { text, unknown } of fields) {
    if (text.startsWith("-") || /^\/[a-z]$/i.test(text)) continue
    const place = unknown ? undefined : PathClass.classifyTerritory(text, cwd)
    if (place !== undefined && (recursive || (text.endsWith("*") && program === "rm")))
      return makeFloorFinding("file destruction", `recursive delete of ${places[place]}`)
  }
  return undefined
}

const findSearchDeletion: Rule = (command) => {
  const { args, cwd } = command
  if (!isSearchDeletion(command)) return undefined
  const firstTest = args.findIndex((arg) => /^[-(!]/.test(arg) && !/^-[HLP]$/.test(arg))
  const starts = firstTest === -1 ? args : args.slice(0, firstTest)
  const filtered = args.some((arg) =>
    /^-i?(?:name|path|regex|wholename)$|^-(?:[acm](?:time|min)|newer.*|size|empty|user|perm)$/.test(arg)
  )
  return !filtered && starts.some((start) => PathClass.classifyTerritory(start, cwd) !== undefined)
    ? makeFloorFinding("file destruction", "recursive delete of a whole system or home (find)")
    : undefined
}

const findForkBomb: Rule = ({ inside, program, terminator }) =>
  program !== "" && (inside.includes(program) || program === "$0") && (terminator === "|" || terminator === "&")
    ? makeFloorFinding("process kill", "fork bomb")
    : undefined

const destructive: ReadonlyArray<Rule> = [findNamedDanger, findDeviceWrite, findTreeDeletion]

/** Applies the same rule to a program that may run its remaining words, whether it is a known wrapper or not. */
const findHiddenDanger: Rule = (command) => {
  if (isProse(command) || containers.test(command.program)) return undefined
  const seen = new Set<string>()
  for (const [index, field] of command.fields.entries()) {
    const program = toProgramName(field.text)
    if (seen.has(program) || !/^(?:rm|rimraf|dd|shred|wipefs|mkfs(?:\..+)?)$/.test(program)) continue
    seen.add(program)
    const inner = {
      ...command,
      program,
      called: field,
      args: command.args.slice(index + 1),
      fields: command.fields.slice(index + 1)
    }
    const found = destructive.map((rule) => rule(inner)).find((finding) => finding !== undefined)
    if (found !== undefined) return found
  }
  return undefined
}

/** Rules of the floor. */
export const rules: ReadonlyArray<Rule> = [...destructive, findSearchDeletion, findForkBomb, findHiddenDanger]
