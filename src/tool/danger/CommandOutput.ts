/**
 * Output of a harmless filter, when its input and arguments are known: enough to see through `echo … | base64 -d | sh`.
 */
import { type Command, hasFlag, operands } from "./Command.ts"
import { escape } from "../shell/ShellTree.ts"

const maxOutput = 65_536

const escaped = (text: string): string =>
  text.replace(
    /\\(x[0-9a-f]{1,2}|u[0-9a-f]{1,4}|U[0-9a-f]{1,8}|[0-7]{1,4}|[\s\S])/gi,
    (_, after: string) => escape(after)[1]
  )

const bytes = (text: string): string => {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(text, (char) => char.charCodeAt(0)))
  } catch {
    // Not UTF-8: the bytes as they are.
    return text
  }
}

const fromBase64 = (text: string): string | undefined => {
  try {
    return bytes(atob(text.replace(/[^A-Za-z0-9+/=]/g, "")))
  } catch {
    // Not base64: the shell would get nothing either.
    return undefined
  }
}

const base32Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

const fromBase32 = (text: string): string => {
  let bits = 0
  let held = 0
  let out = ""
  for (const char of text.toUpperCase()) {
    const value = base32Letters.indexOf(char)
    if (value === -1) continue
    held = (held << 5) | value
    bits += 5
    if (bits >= 8) {
      bits -= 8
      out += String.fromCharCode((held >> bits) & 0xff)
      held &= (1 << bits) - 1
    }
  }
  return bytes(out)
}

const fromHex = (text: string): string => {
  const digits = text.replace(/0x|\\x|[^0-9a-fA-F]/g, "")
  return bytes((digits.match(/../g) ?? []).map((pair) => String.fromCharCode(Number.parseInt(pair, 16))).join(""))
}

const ranges = (set: string): ReadonlyArray<string> =>
  Array.from(
    set.slice(0, 256).replace(/\[:upper:\]/g, "A-Z").replace(/\[:lower:\]/g, "a-z").replace(/\[:digit:\]/g, "0-9").replace(
      /([\s\S])-([\s\S])/g,
      (match, from: string, to: string) => {
        const [start, end] = [from.charCodeAt(0), to.charCodeAt(0)]
        return end < start || end - start > 128
          ? match
          : Array.from({ length: end - start + 1 }, (_, index) => String.fromCharCode(start + index)).join("")
      }
    )
  )

const translated = (text: string, args: ReadonlyArray<string>): string | undefined => {
  const [from, to] = operands(args).map((set) => ranges(escaped(set)))
  if (from === undefined) return undefined
  const table = new Map(from.map((char, index) => [char, to?.[Math.min(index, to.length - 1)] ?? ""]))
  return Array.from(text, (char) => table.get(char) ?? char).join("")
}

const substituted = (text: string, script: string): string | undefined => {
  if (!script.startsWith("s") || script.length < 4 || script.includes("\\")) return undefined
  const [from = "", to, global, ...rest] = script.slice(2).split(script.charAt(1))
  if (to === undefined || global === undefined || !/^g?$/.test(global) || rest.length > 0) return undefined
  if (from === "" || /[.*[\]^$+?]/.test(from)) return undefined
  return global === "g" ? text.replaceAll(from, () => to) : text.replace(from, () => to)
}

const formatted = (format: string, values: ReadonlyArray<string>): string => {
  let next = 0
  const once = (): string =>
    escaped(format).replace(/%(?:%|[-0-9.]{0,8}[a-zA-Z])/g, (spec) =>
      spec === "%%" ? "%" : spec.endsWith("b") ? escaped(values[next++] ?? "") : values[next++] ?? "")
  const out = [once()]
  // A format without places for values is written once.
  for (let before = 0; next > before && next < Math.min(values.length, 256);) {
    before = next
    out.push(once())
  }
  return out.join("")
}

const written = (command: Command): string | undefined => {
  const { args, fields, program, stdin } = command
  if (fields.some(({ unknown }) => unknown)) return undefined
  switch (program) {
    case "echo": {
      const end = args.findIndex((arg) => !/^-[neE]+$/.test(arg))
      const text = end === -1 ? "" : args.slice(end).join(" ")
      return args.slice(0, end === -1 ? args.length : end).some((flag) => flag.includes("e")) ? escaped(text) : text
    }
    case "printf": {
      const [format = "", ...values] = args[0] === "--" ? args.slice(1) : args
      return formatted(format, values)
    }
    case "cat":
    case "tee":
    case "head":
    case "tail":
    case "sort":
    case "base64url":
      return operands(args).every((arg) => arg === "-") ? stdin : undefined
    case "rev":
      return stdin?.split("\n").map((line) => Array.from(line).reverse().join("")).join("\n")
    case "tac":
      return stdin?.split("\n").toReversed().join("\n")
    case "tr":
      return stdin === undefined ? undefined : translated(stdin, args)
    case "sed":
      return stdin === undefined ? undefined : substituted(stdin, operands(args)[0] ?? "")
    case "base64":
      return stdin !== undefined && hasFlag(args, "dD", ["decode"]) ? fromBase64(stdin) : undefined
    case "base32":
      return stdin !== undefined && hasFlag(args, "dD", ["decode"]) ? fromBase32(stdin) : undefined
    case "openssl":
      return stdin !== undefined && args.some((arg) => /base64|^-a$/.test(arg)) && args.includes("-d")
        ? fromBase64(stdin)
        : undefined
    case "xxd":
      return stdin !== undefined && hasFlag(args, "r") ? fromHex(stdin) : undefined
    default:
      return undefined
  }
}

/** Computes what a command writes to its standard output; `undefined` when that cannot be known. */
export const output = (command: Command): string | undefined => {
  const text = written(command)
  return text === undefined ? undefined : text.slice(0, maxOutput)
}
