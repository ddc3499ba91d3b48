// `npm run docs`: writes the documentation as a static site into a directory, with `llms.txt`.
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { renderSite } from "./support/site.ts"

const [directory] = process.argv.slice(2)
if (directory === undefined) throw new Error("Give the directory to write to: node test/docs.ts dist/docs")
rmSync(directory, { recursive: true, force: true })
const files = renderSite()
for (const [path, text] of files) {
  mkdirSync(dirname(join(directory, path)), { recursive: true })
  writeFileSync(join(directory, path), text)
}
process.stdout.write(`${directory}: ${files.size} files\n`)
