// `node test/library.ts DIRECTORY`: bundles the entries of the package into few files that they share, with `effect` and all other
// packages as imports: an application loads them in two thirds of the time of separate modules. Calls that make constants are marked
// as pure, so that an application's bundler leaves out what it does not use. `bin.js` starts the bundled program beside it.
import { copyFileSync, mkdirSync, rmSync } from "node:fs"
import { join, relative } from "node:path"
import { rolldown } from "rolldown"
import { entries } from "./support/entries.ts"
import { pureCalls } from "./support/pureCalls.ts"
import { root } from "./support/sources.ts"

const [directory] = process.argv.slice(2)
if (directory === undefined) throw new Error("Give the directory to write to: node test/library.ts dist")
rmSync(directory, { recursive: true, force: true })
mkdirSync(join(directory, "internal"), { recursive: true })
for (const file of ["bin.js", "internal/require-node.js"]) copyFileSync(join(root, "src", file), join(directory, file))

const bundle = await rolldown({
  cwd: root,
  platform: "node",
  tsconfig: false,
  input: Object.fromEntries(entries().map(({ name, source }) => [name, source])),
  experimental: { nativeMagicString: true },
  checks: { bundlerTimings: false },
  plugins: [pureCalls(join(root, "src"))],
  external: (id) => !id.startsWith(".") && !id.startsWith("/"),
  // The root exports many parts by name that other parts load when they use them.
  onLog: (level, log, handle) => {
    if (log.code !== "INEFFECTIVE_DYNAMIC_IMPORT") handle(level, log)
  }
})
const { output } = await bundle.write({
  dir: directory,
  format: "esm",
  chunkFileNames: "chunks/[name]-[hash].js",
  codeSplitting: { groups: [{ name: "common", minShareCount: 8 }] }
})
await bundle.close()
process.stdout.write(`${relative(root, directory) || directory}: ${output.filter(({ type }) => type === "chunk").length} files\n`)
