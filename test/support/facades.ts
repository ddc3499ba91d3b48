// Removes the files of a bundle that only name exports of another file. A bundler writes one for each module that is
// imported when it is used; a start would find and read each of them.
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import type { OutputChunk } from "rolldown"

interface Facade {
  /** Path of the other file, relative to the directory of the facade. */
  readonly from: string
  /** Names of the exports, by their name in the other file. */
  readonly names: ReadonlyArray<readonly [string, string]>
}

/** Returns the exports of a file that does nothing but name those of another file; `undefined` for other files. */
export const readFacade = (code: string): Facade | undefined => {
  const [, list, from] = /^export\{([\w$ ,]+)\}from"(\.\/[^"]+)";?\s*$/.exec(code) ?? []
  if (list === undefined || from === undefined) return undefined
  const names = list.split(",").map((name) => {
    const [own = "", given = own] = name.trim().split(" as ")
    return [own, given] as const
  })
  return { from, names }
}

/** Writes the imports of facades in a file as imports of the other files. */
const inlineImports = (fileName: string, code: string, facades: ReadonlyMap<string, Facade>): string =>
  code.replaceAll(/\bimport\(`(\.[^`]+)`\)/g, (text, specifier: string) => {
    const path = join(dirname(fileName), specifier)
    const facade = facades.get(path)
    if (facade === undefined) return text
    const fields = facade.names.map(([own, given]) => `${given}:e.${own}`).join(",")
    const from = relative(dirname(fileName), join(dirname(path), facade.from))
    return `import(\`./${from}\`).then(e=>({${fields}}))`
  })

/**
 * Removes the facades of a minified bundle that was written to a directory, except for those that a file imports when
 * it is loaded. Returns the files that are left.
 */
export const removeFacades = (chunks: ReadonlyArray<OutputChunk>, directory: string): ReadonlyArray<OutputChunk> => {
  const texts = new Map(chunks.map(({ fileName }) => [fileName, readFileSync(join(directory, fileName), "utf8")]))
  const imported = new Set(chunks.flatMap(({ imports }) => imports))
  const facades = new Map(
    chunks.flatMap(({ fileName, isEntry }) => {
      const facade = readFacade(texts.get(fileName) ?? "")
      return facade === undefined || isEntry || imported.has(fileName) ? [] : [[fileName, facade] as const]
    })
  )
  for (const [fileName, code] of texts) {
    const inlined = inlineImports(fileName, code, facades)
    if (inlined !== code) writeFileSync(join(directory, fileName), inlined)
  }
  for (const fileName of facades.keys()) rmSync(join(directory, fileName))
  return chunks.filter(({ fileName }) => !facades.has(fileName))
}
