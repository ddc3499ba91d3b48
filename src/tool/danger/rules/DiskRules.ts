/**
 * Disks: making file systems, writing raw devices, changing partitions.
 */
import { hasFlag, operands } from "../Command.ts"
import { ask, asksForHelp, floor, type Rule, written } from "../DangerFinding.ts"
import * as PathClass from "../PathClass.ts"

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
export const rules: ReadonlyArray<Rule> = [format, device, partitions]
