// Writes the files of a bundle in ASCII: V8 stores a file with a single other character in two bytes per character, and
// needs a third more time to compile it.
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { OutputChunk } from "rolldown"
import { parseSync } from "rolldown/utils"

const escapeUnits = (text: string): string =>
  Array.from({ length: text.length }, (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`).join("")

/** A raw template shows escapes as they are written. */
const rawTemplate = /\braw\s*`[^`]*\P{ASCII}/u

/**
 * Writes all characters outside of ASCII as escapes. Returns the code as it is if that would change it, which is so in
 * raw templates.
 */
export const toAscii = (code: string): string => {
  if (rawTemplate.test(code)) return code
  const escaped = code.replaceAll(
    /(\\*)(\P{ASCII})/gu,
    (_, before: string, character: string) =>
      // The backslash of an escape that means the character itself.
      `${before.length % 2 === 1 ? before.slice(1) : before}${escapeUnits(character)}`
  )
  return escaped === code || parseSync("chunk.js", escaped).errors.length === 0 ? escaped : code
}

/** Rewrites the files of a bundle that was written to a directory. */
export const writeAscii = (chunks: ReadonlyArray<OutputChunk>, directory: string): void => {
  for (const { fileName } of chunks) {
    const path = join(directory, fileName)
    const code = readFileSync(path, "utf8")
    const ascii = toAscii(code)
    if (ascii !== code) writeFileSync(path, ascii)
  }
}
