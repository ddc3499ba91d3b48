// `node test/library.ts DIRECTORY`: bundles the entries of the package into few files that they share, with `effect`
// and all other packages as imports: an application loads them in half of the time of separate modules. Calls that make
// constants are marked as pure, so that an application's bundler leaves out what it does not use. `bin.js` starts the
// bundled program beside it.
import { copyFileSync, mkdirSync, rmSync } from "node:fs"
import { join, relative } from "node:path"
import { rolldown } from "rolldown"
import { writeAscii } from "./support/asciiText.ts"
import { outputOptions, packageOptions } from "./support/library.ts"
import { writeNodeParts } from "./support/nodeParts.ts"
import { root } from "./support/sources.ts"

const [directory] = process.argv.slice(2)
if (directory === undefined) throw new Error("Give the directory to write to: node test/library.ts dist")
rmSync(directory, { recursive: true, force: true })
mkdirSync(join(directory, "internal"), { recursive: true })
for (const file of ["bin.js", "require-node.js"]) copyFileSync(join(root, "src", file), join(directory, file))

const bundle = await rolldown(packageOptions)
const { output } = await bundle.write({ ...(await outputOptions()), dir: directory })
await bundle.close()
const chunks = output.filter((part) => part.type === "chunk")
writeAscii(chunks, directory)
await writeNodeParts(chunks, directory)
process.stdout.write(`${relative(root, directory) || directory}: ${chunks.length} files\n`)
