/**
 * The payloads as JSON Schema, for consumers that are not written in TypeScript and for `hermes hooks schema`.
 */
import type * as JsonSchema from "effect/JsonSchema"
import * as Schema from "effect/Schema"
import { observerVersion } from "./PayloadFields.ts"
import { type HookName, names, schemas } from "./Payloads.ts"

/** The JSON Schema document (draft 2020-12) of one payload. Made anew on each call. */
export const document = (name: HookName): JsonSchema.JsonSchema => {
  const { definitions, schema } = Schema.toJsonSchemaDocument(schemas[name])
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    $id: `${observerVersion}/${name}`,
    title: name,
    ...schema,
    ...(Object.keys(definitions).length === 0 ? {} : { $defs: definitions })
  }
}

/** The documents of all payloads, by hook. */
export const documents = (): ReadonlyArray<{ readonly name: HookName; readonly schema: JsonSchema.JsonSchema }> =>
  names.map((name) => ({ name, schema: document(name) }))
