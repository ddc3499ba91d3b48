// `node test/schemas.ts DIRECTORY`: writes the JSON Schemas of config.yaml, of events and of hook payloads.
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { jsonSchemas } from "./support/jsonSchemas.ts"

const [directory] = process.argv.slice(2)
if (directory === undefined) throw new Error("Give the directory to write to: node test/schemas.ts dist/schemas")
rmSync(directory, { recursive: true, force: true })
const schemas = Object.entries(jsonSchemas())
for (const [name, schema] of schemas) {
  const path = join(directory, name)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, `${JSON.stringify(schema, null, 2)}\n`)
}
process.stdout.write(`${directory}: ${schemas.length} schemas\n`)
