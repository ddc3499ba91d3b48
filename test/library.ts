// `node test/library.ts DIRECTORY`: bundles the entries of the package into few files that they share, with `effect` and all other
// packages as imports: an application loads them in two thirds of the time of separate modules. Calls that make constants are marked
// as pure, so that an application's bundler leaves out what it does not use. `bin.js` starts the bundled program beside it.
import { copyFileSync, mkdirSync, rmSync } from "node:fs"
import { join, relative } from "node:path"
import { rolldown } from "rolldown"
import { entries } from "./support/entries.ts"
import { loopModules, options } from "./support/library.ts"
import { root } from "./support/sources.ts"

const [directory] = process.argv.slice(2)
if (directory === undefined) throw new Error("Give the directory to write to: node test/library.ts dist")
rmSync(directory, { recursive: true, force: true })
mkdirSync(join(directory, "internal"), { recursive: true })
for (const file of ["bin.js", "internal/require-node.js"]) copyFileSync(join(root, "src", file), join(directory, file))

const ofLoop = await loopModules()

const bundle = await rolldown({ ...options, input: Object.fromEntries(entries().map(({ name, source }) => [name, source])) })
const { output } = await bundle.write({
  dir: directory,
  format: "esm",
  chunkFileNames: "chunks/[name]-[hash].js",
  // Editors show the comments of the declarations and of `src`. Marks of calls stay for bundlers.
  comments: { annotation: true, jsdoc: false, legal: true },
  // What the loop needs and what else many entries need are files of their own: a bundler takes a file whole where a part of it is loaded late.
  codeSplitting: { groups: [{ name: "loop", test: (id) => ofLoop.has(id) }, { name: "common", minShareCount: 8 }] }
})
await bundle.close()
process.stdout.write(`${relative(root, directory) || directory}: ${output.filter(({ type }) => type === "chunk").length} files\n`)
