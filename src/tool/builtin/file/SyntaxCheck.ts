/**
 * A quick look at whether a written file still parses, where a parser is at hand: JSON, YAML and TOML. Files of any other
 * kind are not checked, and neither are JSON files that customarily have comments. A YAML file may have several
 * documents and tags of its own.
 *
 * Source: `hermes-product.md` §2.3 (`lint`).
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Problem from "./Problem.ts"

/** Result of the check: `output` says where and why it failed. */
export const Lint = Schema.Struct({
  status: Schema.Literals(["ok", "error"]),
  output: Schema.optionalKey(Schema.String)
})
/** See {@link Lint}. */
export type Lint = typeof Lint.Type

const maxChars = 1_000_000
const withComments = /(^|\/)(tsconfig[^/]*|jsconfig[^/]*|\.?oxlint[^/]*|\.eslintrc|devcontainer|settings|launch|tasks)\.json$/i

const failed = (output: string): Lint => ({ status: "error", output: Problem.clip(output, 500) })

const json = (text: string): Lint => {
  try {
    JSON.parse(text)
    return { status: "ok" }
  } catch (error) {
    return failed(error instanceof Error ? error.message : String(error))
  }
}

/** Checks the syntax of a text; `undefined` where there is no check for files of this name. */
export const check = (name: string, text: string): Effect.Effect<Lint | undefined> => {
  if (text.length > maxChars) return Effect.undefined
  const path = name.replaceAll("\\", "/").toLowerCase()
  if (path.endsWith(".json") && !withComments.test(path)) return Effect.sync(() => json(text))
  if (path.endsWith(".yaml") || path.endsWith(".yml")) {
    return Effect.map(Effect.promise(() => import("yaml")), ({ parseAllDocuments }) => {
      const documents = parseAllDocuments(text, { logLevel: "error" })
      const [error] = Array.from(documents).flatMap(({ errors }) => errors)
      return error === undefined ? { status: "ok" } : failed(error.message)
    })
  }
  if (path.endsWith(".toml")) {
    return Effect.map(Effect.promise(() => import("effect/encoding/Toml")), (Toml) => {
      const parsed = Toml.parse(text)
      return parsed._tag === "Success" ? { status: "ok" } : failed(parsed.failure.message)
    })
  }
  return Effect.undefined
}
