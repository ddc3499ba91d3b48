// Bundles the program and the scripts that tests start into a directory, with source maps.
// Arguments: the directory, and a name and a module for each script.
import { renameSync, rmSync } from "node:fs"
import { join } from "node:path"
import { rolldown } from "rolldown"
import { root } from "./sources.ts"

const [directory = "", ...scripts] = process.argv.slice(2)
const unfinished = `${directory}.${process.pid}`

const bundle = await rolldown({
  input: {
    main: join(root, "src/main.ts"),
    index: join(root, "src/index.ts"),
    ...Object.fromEntries(scripts.map((name) => [name, join(root, "test/support", `${name}.ts`)]))
  },
  cwd: root,
  platform: "node",
  tsconfig: false,
  external: ["sharp", "nemo-relay-node"]
})
await bundle.write({
  dir: unfinished,
  format: "esm",
  sourcemap: true,
  chunkFileNames: "chunks/[name]-[hash].js",
  // What many parts use is one file: a start takes as long as there are files to load.
  codeSplitting: {
    groups: [
      { name: "effect", test: /node_modules\/(?:effect|@effect)\//, minShareCount: 30 },
      { name: "shared", minShareCount: 10 }
    ]
  }
})
await bundle.close()
rmSync(directory, { recursive: true, force: true })
renameSync(unfinished, directory)
