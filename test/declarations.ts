// `node test/declarations.ts DIRECTORY`: keeps the type declarations that an entry of the package leads to, with their
// maps and, in `src` of the directory, the sources that the maps lead to. The others describe modules that no
// application can import. Types of an optional package are `any` where it is
// not installed: a line that imports them is checked only where it can be.
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { entries } from "./support/entries.ts"
import { importsOf, root, src } from "./support/sources.ts"

const [directory] = process.argv.slice(2)
if (directory === undefined) throw new Error("Give the directory of the declarations: node test/declarations.ts dist")

const declarations = readdirSync(directory, { recursive: true, encoding: "utf8" }).filter((file) =>
  file.endsWith(".d.ts")
)
const reached = new Set(entries().map(({ name }) => join(`${name}.d.ts`)))
for (const file of reached) {
  for (const { specifier } of importsOf(readFileSync(join(directory, file), "utf8"))) {
    if (specifier.startsWith(".")) reached.add(join(dirname(file), specifier.replace(/\.ts$/, ".d.ts")))
  }
}
for (const file of declarations)
  if (!reached.has(file)) for (const path of [file, `${file}.map`]) rmSync(join(directory, path), { force: true })

const { peerDependenciesMeta }: { readonly peerDependenciesMeta: Readonly<Record<string, object>> } = JSON.parse(
  readFileSync(join(root, "package.json"), "utf8")
)
const optional = Object.keys(peerDependenciesMeta)
const isOptional = (specifier: string): boolean =>
  optional.some((name) => specifier === name || specifier.startsWith(`${name}/`))

/** Writes a comment before each line that imports an optional package, and an empty line into the map there. */
const excuseImports = (file: string): void => {
  const path = join(directory, file)
  const text = readFileSync(path, "utf8")
  if (!importsOf(text).some(({ specifier }) => isOptional(specifier))) return
  const excused = (line: string): boolean => importsOf(line).some(({ specifier }) => isOptional(specifier))
  const lines = text.split("\n")
  writeFileSync(
    path,
    lines.flatMap((line) => (excused(line) ? ["// @ts-ignore: this package is optional", line] : [line])).join("\n")
  )
  if (!existsSync(`${path}.map`)) return
  const map: { readonly mappings: string } = JSON.parse(readFileSync(`${path}.map`, "utf8"))
  const mappings = map.mappings
    .split(";")
    .flatMap((mapping, at) => (excused(lines[at] ?? "") ? ["", mapping] : [mapping]))
    .join(";")
  writeFileSync(`${path}.map`, JSON.stringify({ ...map, mappings }))
}

/** Copies the source of a declaration, and leads its map there. */
const copySource = (file: string): void => {
  const path = join(directory, `${file}.map`)
  if (!existsSync(path)) return
  const map: { readonly sources: ReadonlyArray<string> } = JSON.parse(readFileSync(path, "utf8"))
  const sources = map.sources.map((source) => {
    const original = join(directory, dirname(file), source)
    const copy = join(directory, "src", relative(src, original))
    mkdirSync(dirname(copy), { recursive: true })
    copyFileSync(original, copy)
    return relative(dirname(path), copy).replaceAll("\\", "/")
  })
  writeFileSync(path, JSON.stringify({ ...map, sources }))
}

for (const file of reached) {
  excuseImports(file)
  copySource(file)
}
process.stdout.write(
  `${relative(root, directory) || directory}: ${reached.size} of ${declarations.length} declarations\n`
)
