/**
 * A quick look at whether a written file still parses, where a parser is at hand: JSON, YAML and TOML. Files of any other
 * kind are not checked, and neither are JSON files that customarily have comments.
 *
 * **Gotchas**
 *
 * The YAML parser reads the usual part of YAML; what it says it does not support is not reported as an error.
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

const attempt = (parse: () => unknown): Lint | undefined => {
  try {
    parse()
    return { status: "ok" }
  } catch (error) {
    const output = error instanceof Error ? error.message : String(error)
    return /not supported/i.test(output) ? undefined : { status: "error", output: Problem.clip(output, 500) }
  }
}

/** Checks the syntax of a text; `undefined` where there is no check for files of this name. */
export const check = (name: string, text: string): Effect.Effect<Lint | undefined> => {
  if (text.length > maxChars) return Effect.undefined
  const path = name.replaceAll("\\", "/").toLowerCase()
  if (path.endsWith(".json") && !withComments.test(path)) return Effect.sync(() => attempt(() => JSON.parse(text)))
  if (path.endsWith(".yaml") || path.endsWith(".yml")) {
    return Effect.map(Effect.promise(() => import("effect/encoding/Yaml")), (Yaml) => attempt(() => Yaml.parse(text)))
  }
  if (path.endsWith(".toml")) {
    return Effect.map(Effect.promise(() => import("effect/encoding/Toml")), (Toml) => {
      const parsed = Toml.parse(text)
      return parsed._tag === "Success"
        ? { status: "ok" }
        : { status: "error", output: Problem.clip(parsed.failure.message, 500) }
    })
  }
  return Effect.undefined
}
