// `node test/declarations.ts DIRECTORY`: keeps the type declarations that an entry of the package leads to, with their
// maps. The others describe modules that no application can import.
import { readdirSync, readFileSync, rmSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { entries } from "./support/entries.ts"
import { importsOf, root } from "./support/sources.ts"

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
  if (!reached.has(file)) for (const path of [file, `${file}.map`]) rmSync(join(directory, path))
process.stdout.write(
  `${relative(root, directory) || directory}: ${reached.size} of ${declarations.length} declarations\n`
)
