// `npm run docs`: writes the documentation as a static site into `dist/site`, with `llms.txt`. With a version, the site
// is written into a folder of that name, beside the sites of other versions.
//
// `node test/docs.ts DIRECTORY --package`: writes the reference and `llms.txt` of the published package into `dist`.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { parseArgs } from "node:util"
import { renderPackageDocs } from "./support/packageDocs.ts"
import { readImages, renderSite } from "./support/site.ts"
import { renderVersions } from "./support/siteVersions.ts"

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { package: { type: "boolean" }, version: { type: "string" } }
})
const [directory] = positionals
if (directory === undefined) throw new Error("Give the directory to write to: node test/docs.ts dist/site")

const writeAll = (to: string, files: ReadonlyMap<string, string | Uint8Array>): void => {
  for (const [path, text] of files) {
    mkdirSync(dirname(join(to, path)), { recursive: true })
    writeFileSync(join(to, path), text)
  }
  process.stdout.write(`${to}: ${files.size} files\n`)
}

if (values.package === true) {
  rmSync(join(directory, "docs"), { recursive: true, force: true })
  writeAll(directory, renderPackageDocs())
} else {
  const own = join(directory, values.version ?? "")
  rmSync(own, { recursive: true, force: true })
  writeAll(own, renderSite({ version: values.version }))
  writeAll(own, readImages())
  if (values.version !== undefined) writeAll(directory, renderVersions(readdirSync(directory)))
}
