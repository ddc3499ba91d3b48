// Searches bytes for planted values, in every form, whole and in parts: twelve characters in a row that belong to one
// value are a find.
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { encoded, selectedForeignKeys as foreignKeys, selectedKeys as plantedKeys } from "./plantedKeys.ts"

const length = 12

/** White space, also as an escape, frames of JSON and upper case hide nothing. */
const bare = (text: string): string => text.replaceAll(/\\+[nrt]|[\s\\"{}]+/g, "").toLowerCase()

const grams = (text: string): ReadonlySet<string> => {
  const out = new Set<string>()
  for (let at = 0; at + length <= text.length; at++) out.add(text.slice(at, at + length))
  return out
}

const index = new Map<string, string>()

/** Notes what belongs to a value alone: not what every key of its kind has. */
const note = (kind: string, own: string, other: string): void => {
  const common = grams(bare(other))
  for (const gram of grams(bare(own))) if (!common.has(gram)) index.set(gram, kind)
}

plantedKeys.forEach(([kind, key], at) => {
  const [, other = ""] = foreignKeys[at] ?? []
  for (const [form, encode] of Object.entries(encoded)) note(`${kind}, ${form}`, encode(key), encode(other))
  note(`${kind}, not held`, other, key)
})

/** Kinds and forms of the values that stand in a text, with the longest part that does. */
export const found = (text: string): ReadonlyArray<string> => {
  const whole = bare(text)
  const seen = new Map<string, string>()
  for (let at = 0; at + length <= whole.length; at++) {
    const kind = index.get(whole.slice(at, at + length))
    if (kind === undefined) continue
    let end = at + length
    while (end < whole.length && index.get(whole.slice(end + 1 - length, end + 1)) === kind) end++
    const part = whole.slice(at, end)
    if (part.length > (seen.get(kind)?.length ?? 0)) seen.set(kind, part)
    at = end - length
  }
  return Array.from(seen, ([kind, part]) => `${kind}: ${part}`)
}

/** All files below a directory. */
export const filesOf = (directory: string): ReadonlyArray<string> =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name, parentPath }) => join(parentPath, name))

/** Finds in files, by their paths; those that the user wrote are left out by name. */
export const foundInFiles = (directories: ReadonlyArray<string>, except: RegExp): ReadonlyArray<string> =>
  directories
    .flatMap(filesOf)
    .filter((file) => !except.test(file))
    .flatMap((file) => found(readFileSync(file, "latin1")).map((one) => `${file}: ${one}`))

/** Every value of some kinds that is held in every form, a line each, then those that nobody holds, as they are. */
export const plantedText = (from: number, to: number): string =>
  [
    ...plantedKeys
      .slice(from, to)
      .flatMap(([kind, key]) => Object.entries(encoded).map(([form, encode]) => `${kind} ${form}: ${encode(key)}`)),
    ...foreignKeys.slice(from, to).map(([kind, key]) => `${kind}: ${key}`)
  ].join("\n")

/** {@link plantedText} of all kinds that are selected. */
export const everything = plantedText(0, plantedKeys.length)
