/**
 * Privileges: permissions for everybody, ownership of root, root shells, users and groups.
 */
import { ask, asksForHelp, hasFlag, operands, type Rule } from "../Command.ts"
import * as PathClass from "../PathClass.ts"
import * as Wrappers from "../Wrappers.ts"

const elevators = new Set(["sudo", "doas", "pkexec", "su", "runuser", "gosu", "su-exec"])

const mode: Rule = ({ args, cwd, program, fields }) => {
  if (program === "chmod") {
    const modes = args.filter((arg) => /^-?[ugoa]*[-+=][rwxXst]+(?:,[ugoa]*[-+=][rwxXst]*)*$|^[0-7]{3,5}$/.test(arg))
    if (modes.some((arg) => /^0*[0-7]?(?:777|666|776|767|772|773|757|667|676|747|722|733|755[67]|[0-7][0-7][2367])$/.test(arg))) {
      return ask("privilege", "permissions for everybody (chmod 777)")
    }
    if (
      modes.some((arg) => /(?:^|,)(?:[ug]*[oa][ugoa]*)?[+=][rxXst]*w/.test(arg) && !/^[ug]+[+=]/.test(arg) && !/^\+w$/.test(arg))
    ) {
      return ask("privilege", "permissions for everybody (chmod 777)")
    }
    if (modes.some((arg) => /[ug]?\+[rwxX]*s|^0*[2467][0-7]{3}$/.test(arg))) return ask("privilege", "set-user or set-group bit")
    const targets = operands(args).filter((arg) => !modes.includes(arg))
    if (hasFlag(args, "R", ["recursive"]) && targets.some((path) => PathClass.territory(path, cwd) !== undefined)) {
      return ask("privilege", "recursive permissions on a system directory")
    }
    return targets.some((path) => /^\/(?:etc|usr|s?bin|lib|boot|root)(?:\/|$)/.test(PathClass.tidy(path, cwd)))
      ? ask("privilege", "permissions of a system file")
      : undefined
  }
  if (program === "chown" || program === "chgrp") {
    const [owner = "", ...paths] = operands(args)
    const recursive = hasFlag(args, "R", ["recursive"])
    if (recursive && /^(?:root|0)?(?::(?:root|wheel|0)?)?$/.test(owner)) {
      return ask("privilege", "recursive ownership for root (chown -R root)")
    }
    if (
      paths.some((path) => /^\/(?:etc|usr|s?bin|lib|boot|root)(?:\/|$)/.test(PathClass.tidy(path, cwd)) || recursive && PathClass.territory(path, cwd) !== undefined)
    ) {
      return ask("privilege", "ownership of a system path")
    }
  }
  if (program === "setfacl" && args.some((arg) => /(?:^|[:,])o(?:ther)?::?[r-]*w/.test(arg))) {
    return ask("privilege", "permissions for everybody (chmod 777)")
  }
  if (program === "setcap" && fields.length > 1) return ask("privilege", "capabilities of a program")
  return program === "icacls" && args.some((arg) => /[fmw]/.test(arg.toLowerCase().split("everyone").slice(1).join(" ")))
    ? ask("privilege", "permissions for everybody (chmod 777)")
    : undefined
}

const elevation: Rule = ({ args, fields, input, program }) => {
  if (!elevators.has(program) || asksForHelp(args)) return undefined
  const key = "shell with the rights of root"
  if (program === "su") return ask("privilege", key)
  if (
    hasFlag(args.slice(0, 1), "is", ["login", "shell"]) ||
    args.some((arg) => /^-[a-zA-Z]*[is]$/.test(arg)) && args[0]?.startsWith("-") === true
  ) {
    return ask("privilege", key)
  }
  if (
    program === "sudo" && hasFlag(args.slice(0, 3), "S", ["stdin"]) ||
    input.some(({ program }) => program === "echo") && hasFlag(args, "S")
  ) {
    return ask("privilege", "password for sudo on its input")
  }
  const inner = Wrappers.wrapped(program, fields, undefined)
  const first = inner?.[0]
  if (first === undefined) return undefined
  const name = Wrappers.resolved(first)
  if (Wrappers.shells.has(name) || elevators.has(name)) return ask("privilege", key)
  if (first.unknown && first.text === "") return ask("privilege", "unknown program with the rights of root")
  return /^(?:vi|vim|nvim|nano|emacs|ed|visudo|less|more|man)$/.test(name) ? ask("privilege", key) : undefined
}

const accounts: Rule = ({ args, program }) => {
  if (
    /^(?:useradd|adduser|userdel|deluser|usermod|groupadd|groupdel|groupmod|gpasswd|passwd|chpasswd|newusers|vipw|vigr|visudo|chsh|dscl|sysadminctl)$/.test(program)
  ) {
    const looks = asksForHelp(args) || program === "passwd" && args.some((arg) => /^(?:-S|--status)$/.test(arg)) ||
      program === "dscl" && args.some((arg) => /^-?(?:read|list|search)$/.test(arg)) || program === "visudo" && args.includes("-c")
    return looks ? undefined : ask("privilege", "change of users, groups or passwords")
  }
  if (
    /^net1?$/.test(program) &&
    /^(?:user|localgroup)$/i.test(args[0] ?? "") &&
    args.some((arg) => /^\/(?:add|delete)$/i.test(arg))
  ) {
    return ask("privilege", "change of users, groups or passwords")
  }
  return /^(?:insmod|modprobe|rmmod|kldload|kextload)$/.test(program) && !asksForHelp(args)
    ? ask("privilege", "change of the kernel's modules")
    : undefined
}

const acls: Rule = ({ args, program }) =>
  program === "setfacl" && !asksForHelp(args) ? ask("privilege", "change of who may use a file") : undefined

const introspection: Rule = ({ program }) =>
  program === "nsenter" || program === "capsh" ? ask("privilege", "entering of another namespace") : undefined

/** Privileges. */
export const rules: ReadonlyArray<Rule> = [mode, elevation, accounts, acls, introspection]
