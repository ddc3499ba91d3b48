/**
 * Whether a change fits the Schema, before it is written. Only the place that changes is judged: a file with another
 * mistake can still be mended.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { ConfigError } from "../../domain/AgentError.ts"
import { SettingsSchema } from "../Settings.ts"
import { explain } from "./Issues.ts"
import { gatherProviderKeys, prepare } from "./Prepare.ts"
import * as Shape from "./Shape.ts"
import * as Tree from "./Tree.ts"

const decode = Schema.decodeUnknownResult(SettingsSchema)

/** Whether one of two places is in the other. */
const touches = (path: ReadonlyArray<string>) => (place: { readonly path: Tree.Path }): boolean => {
  const other = Tree.inFile(place.path)
  return other.slice(0, path.length).every((key, index) => String(key) === path[index])
}

/** Remarks about the changed place, or the error that it is. A reference to a variable is judged when it is known. */
export const judge = (tree: unknown, path: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<string>, ConfigError> => {
  const root = Shape.root()
  const prepared = prepare(gatherProviderKeys(tree, root), root)
  const decoded = decode(prepared.tree, { errors: "all" })
  const line = ({ path, text }: { readonly path: Tree.Path; readonly text: string }) => `${Tree.show(path)}: ${text}`
  const wrong = decoded._tag === "Success" ? [] : explain(decoded.failure.issue, root, prepared.tree)
    .filter(touches(path))
    .filter((place) => !String(Tree.get(prepared.tree, place.path)).includes("${"))
  return wrong.length === 0
    ? Effect.succeed(prepared.remarks.filter(touches(path)).map(line))
    : Effect.fail(new ConfigError({ path: Tree.show(path), message: wrong.map(line).join("\n") }))
}
