/**
 * Resolves keys as users type them (`agent.max_turns`) in a file whose keys may have dots in them.
 *
 * **Details**
 *
 * A dot goes one level down, `\.` is a dot in a name. Where a key of the file is spelled with dots (model ids are), the
 * longest one that is there is meant: with a model `qwen3.6:35b`, `providers.x.models.qwen3.6:35b.timeout_seconds` is that
 * model's. A new mapping `qwen3` beside it would make such keys ambiguous, and is refused.
 *
 * Source: `hermes-product.md` §1.6.
 */
import * as Effect from "effect/Effect"
import { ConfigError } from "../domain/AgentError.ts"
import * as Tree from "./internal/Tree.ts"

const refuse = (key: string, reason: string): ConfigError => new ConfigError({ path: key, message: `${key}: ${reason}` })

/** The names in a key, escapes resolved. */
export const names = (key: string): Effect.Effect<ReadonlyArray<string>, ConfigError> => {
  const parts = Array.from(key.matchAll(/((?:[^\\.]|\\[^]|\\$)*)(?:\.|$)/g), ([, part = ""]) => part)
  // The expression also matches the empty rest behind the last name.
  const found = parts.slice(0, -1).map((part) => part.replaceAll(/\\([.\\])/g, "$1"))
  return found.length === 0 || found.includes("") || key.endsWith(".")
    ? Effect.fail(refuse(key, "a key is names with dots between them, such as agent.max_turns"))
    : Effect.succeed(found)
}

/** Number of the names that make the longest key of a mapping; 0 when it has none of them. */
const longest = (tree: Tree.Mapping, names: ReadonlyArray<string>): number => {
  for (let count = names.length; count > 0; count--) {
    if (Object.hasOwn(tree, names.slice(0, count).join("."))) return count
  }
  return 0
}

/** The place in a file that a key means, or would make. Fails where it could be confused with another. */
export const locate = (tree: unknown, key: string): Effect.Effect<ReadonlyArray<string>, ConfigError> =>
  Effect.flatMap(names(key), (all) => {
    const path: Array<string> = []
    let at: unknown = tree
    let rest = all
    while (rest.length > 0) {
      const mapping = Tree.isMapping(at) ? at : {}
      if (at !== undefined && at !== null && !Tree.isMapping(at)) {
        return Effect.fail(refuse(key, `${Tree.show(path)} holds ${Array.isArray(at) ? "a list" : "a value"}: nothing can stand below it`))
      }
      const count = Math.max(1, longest(mapping, rest))
      const name = rest.slice(0, count).join(".")
      rest = rest.slice(count)
      const shadowed = Object.keys(mapping).find((other) => other.startsWith(`${name}.`))
      if (rest.length > 0 && shadowed !== undefined && !Object.hasOwn(mapping, name)) {
        return Effect.fail(refuse(key, `${JSON.stringify(name)} beside ${JSON.stringify(shadowed)} would be ambiguous: write a dot in a name as \\.`))
      }
      path.push(name)
      at = Tree.get(mapping, [name])
    }
    return Effect.succeed(path)
  })

/** The value that a key means; positions of lists count as names. */
export const lookUp = (tree: unknown, names: ReadonlyArray<string>): unknown => {
  if (names.length === 0 || tree === undefined) return tree
  const count = Tree.isMapping(tree) ? Math.max(1, longest(tree, names)) : 1
  return lookUp(Tree.get(tree, [names.slice(0, count).join(".")]), names.slice(count))
}

/**
 * The variable that a key is kept in instead of the file: names that end in `_API_KEY`, `_TOKEN` or `_SECRET` are secrets.
 */
export const secretVariable = (names: ReadonlyArray<string>): string | undefined =>
  /_(?:api_key|token|secret)$/i.test(names.at(-1) ?? "")
    ? names.join("_").toUpperCase().replaceAll(/[^A-Z0-9_]/g, "_").replace(/^(?=\d)/, "_")
    : undefined
