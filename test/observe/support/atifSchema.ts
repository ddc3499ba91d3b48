// The form of trajectories as a JSON Schema, judged by a validator that others wrote.
import { Ajv2020 } from "ajv/dist/2020.js"
import { readFileSync } from "node:fs"

const validate = new Ajv2020({ strict: true, strictRequired: false, strictTypes: false, allErrors: true }).compile(
  JSON.parse(readFileSync(new URL("./atif-v1.7.schema.json", import.meta.url), "utf8"))
)

/** Everything about the form of a document that is wrong. */
export const errors = (document: unknown): ReadonlyArray<string> =>
  validate(document) ? [] : (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath}: ${message}`)
