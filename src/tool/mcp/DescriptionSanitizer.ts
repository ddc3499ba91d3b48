/**
 * Sanitises what a server says of its tools: a text that wants to command the model is left out, in the
 * description of the tool and in its schema, and so are keys.
 *
 * Source: `hermes-llm.md` §19.3 (patterns), `ARCHITECTURE.md` §5.
 */
import { redactKeys } from "../../domain/Redaction.ts"
import * as TextHygiene from "../../domain/TextHygiene.ts"
import * as Injection from "../fence/Injection.ts"
import type { Descriptor } from "./Connection.ts"

const maxDepth = 32

/** Members of a JSON Schema that are prose. */
const prose = new Set(["description", "title", "$comment", "examples", "default", "markdownDescription"])

/** A text, or texts, of prose without keys. */
const withoutKeys = (value: unknown): unknown =>
  typeof value === "string" ? redactKeys(value) : Array.isArray(value) ? value.map(withoutKeys) : value

/** A schema without the prose that is suspicious; the names of its properties are data, and stay. */
const schemaValue = (value: unknown, named: boolean, depth: number): unknown => {
  if (typeof value !== "object" || value === null || depth >= maxDepth) return value
  if (Array.isArray(value)) return value.map((item: unknown) => schemaValue(item, false, depth + 1))
  const kept = Object.entries(value).filter(([key, item]) =>
    named || !prose.has(key) || Injection.scan(JSON.stringify(item) ?? "", "tool description").length === 0
  )
  return Object.fromEntries(kept.map(([key, item]) => [
    key,
    schemaValue(!named && prose.has(key) ? withoutKeys(item) : item, key === "properties" && !named, depth + 1)
  ]))
}

/** Description of a tool as a model may read it. */
export interface SanitizedDescription {
  readonly description: string
  readonly inputSchema: Descriptor["inputSchema"]
}

/** Sanitises a server's description of its tools. `fallback` stands where the server says nothing. */
export const of = ({ description, inputSchema, name }: Descriptor, fallback: string): SanitizedDescription => ({
  description: description === undefined
    ? fallback
    : Injection.toolDescription(name, redactKeys(TextHygiene.withoutControls(TextHygiene.wellFormed(description)))).text,
  // A schema stays one: only prose is taken out of it.
  inputSchema: schemaValue(TextHygiene.wellFormedValue(inputSchema), false, 0) as Descriptor["inputSchema"]
})
