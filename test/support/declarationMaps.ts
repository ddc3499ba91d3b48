// The maps of type declarations, by which "go to definition" ends in a source: each leads to a file of the same
// package, and each exported name to the place where that source declares it.
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { SourceMap, type SourceMapping } from "node:module"
import { dirname, join, relative } from "node:path"

const exported = /^export (?:declare )?(?:abstract )?(?:const|let|function|class|interface|type|enum|namespace) (\w+)/

const isFound = (entry: SourceMapping | object): entry is SourceMapping => "originalLine" in entry

/** Problems of one declaration; its lines are looked up one by one. */
const faultsOf = (folder: string, file: string): ReadonlyArray<string> => {
  const text = readFileSync(join(folder, file), "utf8")
  const [, url] = /^\/\/# sourceMappingURL=(\S+)$/m.exec(text) ?? []
  const place = url === undefined ? undefined : join(folder, dirname(file), url)
  if (place === undefined || !existsSync(place)) return [`${file}: it has no map`]
  const map = new SourceMap(JSON.parse(readFileSync(place, "utf8")))
  const sources = new Map(
    map.payload.sources.map((source) => [source, join(dirname(place), map.payload.sourceRoot, source)])
  )
  const outside = Array.from(sources.values()).filter(
    (path) => relative(folder, path).startsWith("..") || !existsSync(path)
  )
  if (outside.length > 0) return outside.map((path) => `${file}: ${relative(folder, path)} is not in the package`)
  const lines = new Map(Array.from(sources, ([source, path]) => [source, readFileSync(path, "utf8").split("\n")]))
  return text.split("\n").flatMap((line, at) => {
    const [all, name] = exported.exec(line) ?? []
    const column = all === undefined || name === undefined ? line.search(/\S/) : all.length - name.length
    const entry = map.findEntry(at, Math.max(column, 0))
    if (column < 0 || !isFound(entry))
      return name === undefined ? [] : [`${file}:${at + 1}: nothing says where ${name} is`]
    const found = lines.get(entry.originalSource)?.[entry.originalLine]
    if (found === undefined) return [`${file}:${at + 1}: ${entry.originalSource} has no line ${entry.originalLine + 1}`]
    return name === undefined || found.startsWith(name, entry.originalColumn)
      ? []
      : [`${file}:${at + 1}: line ${entry.originalLine + 1} of ${entry.originalSource} does not declare ${name}`]
  })
}

/** Declarations below `dist` of a package, and what is wrong with their maps. */
export const checkDeclarationMaps = (
  folder: string
): { readonly count: number; readonly faults: ReadonlyArray<string> } => {
  const files = readdirSync(join(folder, "dist"), { recursive: true, encoding: "utf8" })
    // Generated pages have no sources with lines.
    .filter((file) => file.endsWith(".d.ts") && !file.startsWith("pages"))
    .map((file) => join("dist", file))
  return { count: files.length, faults: files.flatMap((file) => faultsOf(folder, file)) }
}
