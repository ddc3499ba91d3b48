/**
 * Destruction of files: deletion of trees, of what searches find, of what input names; emptying and overwriting.
 */
import { ask, asksForHelp, type Command, type Finding, floor, hasFlag, operands, type Rule, written } from "../Command.ts"
import * as PathClass from "../PathClass.ts"

// Disks: making file systems, writing raw devices, changing partitions.

const raw = "write to a raw disk device"

const format: Rule = ({ args, program }) => {
  if (/^(?:mkfs(?:\..+)?|mke2fs|mkswap|newfs(?:_.+)?|mkdosfs|mkntfs|mkexfatfs)$/.test(program) && !asksForHelp(args)) {
    return program === "mkswap" && !args.some(PathClass.isRawDevice)
      ? ask("disk", "making of a file system")
      : floor("disk", "making of a file system")
  }
  if (
    program === "format" && args.some((arg) => /^[a-z]:$/i.test(arg)) ||
    program === "format-volume" ||
    program === "clear-disk"
  ) {
    return floor("disk", "making of a file system")
  }
  if (
    program === "diskutil" &&
    args.some((arg) => /^(?:erase(?:disk|volume)?|zerodisk|secureerase|partitiondisk|reformat|randomdisk)$/i.test(arg))
  ) {
    return floor("disk", "making of a file system")
  }
  return undefined
}

const device: Rule = (command) => {
  const { args, program } = command
  if (written(command).some(PathClass.isRawDevice)) return floor("disk", raw)
  if (/^(?:dd|gdd|dcfldd|dc3dd|pv)$/.test(program)) {
    if (args.some((arg) => /^of=/i.test(arg) && PathClass.isRawDevice(arg.slice(3)))) return floor("disk", raw)
    if (args.some((arg) => /^if=/i.test(arg))) return ask("disk", "disk copy (dd)")
    if (args.some((arg) => /^of=\//i.test(arg))) return ask("disk", "disk copy (dd)")
  }
  const targets = operands(args)
  if (/^(?:tee|sponge|shred|wipefs|blkdiscard|badblocks|scrub|nwipe|srm)$/.test(program) && targets.some(PathClass.isRawDevice)) {
    if (program === "badblocks" && !hasFlag(args, "w")) return undefined
    if (program === "wipefs" && !hasFlag(args, "ao", ["all", "offset"])) return undefined
    return floor("disk", raw)
  }
  if (/^(?:cp|mv|install)$/.test(program) && PathClass.isRawDevice(targets.at(-1) ?? "")) return floor("disk", raw)
  if (program === "hdparm" && args.some((arg) => /^--(?:security-erase|trim-sector|write-sector|fwdownload)/.test(arg))) {
    return floor("disk", raw)
  }
  if (program === "nvme" && /^(?:format|sanitize)$/.test(targets[0] ?? "")) return floor("disk", raw)
  return program === "cryptsetup" && /^(?:luks(?:format|erase|killslot)|erase)$/i.test(targets[0] ?? "")
    ? floor("disk", raw)
    : undefined
}

const partitions: Rule = ({ args, program }) => {
  if (/^(?:fdisk|sfdisk|gdisk|sgdisk|cfdisk|parted|gparted|diskpart)$/.test(program)) {
    const looks = args.some((arg) => /^(?:-l|--list|-p|--print|print|--dump|-d)$/.test(arg)) &&
      !args.some((arg) => /^(?:rm|mklabel|mkpart|-Z|-o)$/.test(arg))
    return looks || asksForHelp(args) ? undefined : ask("disk", "change of partitions")
  }
  if (/^(?:lv|vg|pv)(?:remove|reduce)$/.test(program)) return ask("disk", "removal of a volume")
  if (/^(?:zpool|zfs)$/.test(program) && /^(?:destroy|labelclear|rollback)$/.test(args[0] ?? "")) {
    return ask("disk", "removal of a volume")
  }
  if (program === "mdadm" && args.some((arg) => /^--(?:zero-superblock|stop|fail|remove)$/.test(arg))) {
    return ask("disk", "removal of a volume")
  }
  if (program === "btrfs" && args[0] === "subvolume" && args[1] === "delete") return ask("disk", "removal of a volume")
  if (program === "tune2fs" || program === "debugfs" && hasFlag(args, "w")) return ask("disk", "change of a file system")
  if (program === "umount" && operands(args).some((path) => PathClass.territory(path) !== undefined)) {
    return ask("disk", "unmounting of a system path")
  }
  if (program === "mount" && (operands(args).length > 1 || args.some((arg) => /\bremount\b/.test(arg)))) {
    return ask("disk", "change of a file system")
  }
  if (program === "swapoff" && !asksForHelp(args)) return ask("disk", "change of a file system")
  return undefined
}

/** Disks. */
export const diskRules: ReadonlyArray<Rule> = [format, device, partitions]

const deleters = new Set(["rm", "srm", "grm", "remove-item", "ri", "rd", "rmdir", "del", "erase", "unlink", "shred", "trash", "rimraf", "wipe"])

const places = { root: "the root directory", system: "a system directory", home: "a home directory" } as const

const isRecursive = ({ args, program }: Command): boolean =>
  program === "rimraf" ||
  hasFlag(args, "rR", ["recursive", "recurse"]) || args.some((arg) => /^\/s$/i.test(arg) || /^-recurse\b/i.test(arg))

const contained = ({ wrappers }: Command): boolean => wrappers.some((wrapper) => /^(?:docker|podman|nerdctl|kubectl|docker-compose)$/.test(wrapper))

/** Deletes everything below a place that nobody can miss. */
const treeOf: Rule = (command) => {
  const { args, cwd, fields, program, wrappers } = command
  if (!deleters.has(program)) return undefined
  if (args.includes("--no-preserve-root")) return floor("file destruction", "recursive delete of the root directory")
  const recursive = isRecursive(command)
  for (const { text, unknown } of fields) {
    if (text.startsWith("-") || /^\/[a-z]$/i.test(text)) continue
    const place = unknown ? undefined : PathClass.territory(text, cwd)
    if (place !== undefined && (recursive || text.endsWith("*") && program === "rm")) {
      const key = `recursive delete of ${places[place]}`
      return contained(command) ? ask("file destruction", key) : floor("file destruction", key)
    }
  }
  if (recursive && !(program === "rmdir")) {
    return ask("file destruction", wrappers.includes("xargs") ? "delete of what the input names (xargs rm)" : "recursive delete")
  }
  return undefined
}

const single: Rule = ({ args, cwd, fields, program, wrappers }) => {
  if (!deleters.has(program) || asksForHelp(args)) return undefined
  if (wrappers.includes("xargs") || wrappers.includes("parallel")) {
    return ask("file destruction", "delete of what the input names (xargs rm)")
  }
  if (wrappers.some((wrapper) => /^(?:find|gfind|fd|fdfind|bfs)$/.test(wrapper))) {
    return ask("file destruction", "delete of what a search finds (find -exec rm)")
  }
  if (program === "shred" || program === "srm" || program === "wipe") {
    return ask("file destruction", "deletion that cannot be undone (shred)")
  }
  for (const { text } of fields) {
    if (text.startsWith("-")) continue
    const path = PathClass.tidy(text, cwd)
    if (/^\/[^/]+$/.test(path) && program !== "rmdir") return ask("file destruction", "delete in the root directory")
    if (PathClass.configuration(text, cwd) !== undefined && !/(?:^|\/)(?:\.env[^/]*|config\.ya?ml|\.envrc|\.npmrc)$/.test(text)) {
      return ask("configuration tampering", "delete of a configuration or credential file")
    }
    if (/^[~./]*\*$/.test(text) || text === ".*") return ask("file destruction", "delete of everything in a directory")
  }
  return /^(?:del|erase)$/.test(program) && args.some((arg) => /^\/[sqf]$/i.test(arg))
    ? ask("file destruction", "recursive delete")
    : undefined
}

const found = (command: Command): Finding | undefined => {
  const { args, cwd, program } = command
  if (!/^(?:find|gfind|bfs)$/.test(program)) return undefined
  const removes = args.some((arg, index) =>
    /^-exec(?:dir)?$|^-ok(?:dir)?$/.test(arg) && /(?:^|\/)(?:rm|shred|unlink|srm)$/.test(args[index + 1] ?? ""))
  if (!args.includes("-delete") && !removes) return undefined
  const firstTest = args.findIndex((arg) => /^[-(!]/.test(arg) && !/^-[HLP]$/.test(arg))
  const starts = firstTest === -1 ? args : args.slice(0, firstTest)
  const filtered = args.some((arg) => /^-i?(?:name|path|regex|wholename)$|^-(?:[acm](?:time|min)|newer.*|size|empty|user|perm)$/.test(arg))
  const whole = starts.some((start) => PathClass.territory(start, cwd) !== undefined)
  if (whole && !filtered) return floor("file destruction", "recursive delete of a whole system or home (find)")
  return ask("file destruction", removes ? "delete of what a search finds (find -exec rm)" : "delete of what a search finds (find -delete)")
}

const emptied: Rule = ({ args, cwd, fields, program }) => {
  const targets = operands(args)
  if (program === "truncate" && args.some((arg) => /^(?:-s|--size)=?/.test(arg)) && targets.some((path) => /^[/~]/.test(path))) {
    return ask("file destruction", "emptying of a file outside the project")
  }
  if (program === "mv" && targets.length > 1) {
    const last = targets.at(-1) ?? ""
    if (last === "/dev/null") return ask("file destruction", "move into nothing (/dev/null)")
    if (targets.slice(0, -1).some((path) => PathClass.territory(path, cwd) !== undefined)) {
      return ask("file destruction", "move of a system or home directory")
    }
  }
  if (program === "rsync" && args.some((arg) => /^--(?:delete|remove-source-files)/.test(arg)) && fields.length > 2) {
    return ask("file destruction", "synchronisation that deletes (rsync --delete)")
  }
  return undefined
}

const overwritten: Rule = ({ fields, program, redirects, cwd }) => {
  const aims = redirects.filter(({ operator }) => operator === ">" || operator === ">|").map(({ target }) => target.text)
  if ((program === "cp" || program === "ln") && fields[0]?.text === "/dev/null") {
    return ask("file destruction", "overwriting with nothing")
  }
  return aims.some((path) => PathClass.territory(path, cwd) !== undefined)
    ? ask("file destruction", "overwriting of a system path")
    : undefined
}

/** Destruction of files. */
export const rules: ReadonlyArray<Rule> = [treeOf, single, found, emptied, overwritten]
