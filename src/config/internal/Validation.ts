/**
 * Checks raw settings: remarks about keys that are unknown or have no effect yet and about numbers out of bounds, and a line
 * for each place that the Schema refuses.
 *
 * **Details**
 *
 * {@link prepare} runs before the Schema, {@link explain} reads its refusal, and {@link judge} does both for one place that is
 * about to be changed. Keys without a value (`base_url:`) count as absent.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as SchemaIssue from "effect/SchemaIssue"
import { ConfigError } from "../../domain/AgentError.ts"
import { redactText } from "../../domain/Redaction.ts"
import { nearest } from "../../domain/Similarity.ts"
import { fileKey, providerKeysKey, SettingsSchema } from "../Settings.ts"
import * as UnsupportedSettings from "../UnsupportedSettings.ts"
import * as Coerce from "./Coerce.ts"
import * as Shape from "./Shape.ts"
import * as Tree from "./Tree.ts"

/** A remark about a place. */
export interface Remark {
  readonly path: Tree.Path
  readonly text: string
  /** No run may start with it. */
  readonly stops?: boolean
}

/** Puts the `<provider>.api_keys` of the top level, whose names are free, under one key that the Schema knows. */
export const gatherProviderKeys = (tree: unknown, root: Shape.Shape): unknown => {
  if (!Tree.isMapping(tree) || root._tag !== "Section") return tree
  const isPool = ([key, value]: readonly [string, unknown]): boolean =>
    !root.fields.has(key) && Tree.isMapping(value) && Object.hasOwn(value, "api_keys")
  const entries = Object.entries(tree)
  const pools = entries.filter(isPool)
  if (pools.length === 0) return tree
  return { ...Object.fromEntries(entries.filter((entry) => !isPool(entry))), [providerKeysKey]: Object.fromEntries(pools) }
}

/** Prepares raw settings for the Schema; the remarks say what was changed or ignored. */
export const prepare = (
  tree: unknown,
  root: Shape.Shape
): { readonly tree: unknown; readonly remarks: ReadonlyArray<Remark> } => {
  const remarks: Array<Remark> = []

  const single = (value: unknown, { facts }: Shape.Value, path: Tree.Path): unknown => {
    if (typeof value === "string" && facts.words === true) return Coerce.boolean(value) ?? value
    if (facts.scalars === true && (typeof value === "number" || typeof value === "boolean")) return String(value)
    if (typeof value !== "number") return value
    const bounded = Math.min(Math.max(value, facts.least ?? -Infinity), facts.most ?? Infinity)
    if (bounded !== value && !Number.isNaN(value)) {
      remarks.push({ path, text: `${value} is out of bounds, using ${bounded}` })
      return bounded
    }
    return value
  }

  const unknownKey = (key: string, { fields, open }: Shape.Section, path: Tree.Path): void => {
    const meant = nearest(key, fields.keys())
    if (open && meant === undefined) return
    const hint = meant === undefined ? "" : `; did you mean "${Tree.show([...path.slice(0, -1), meant])}"?`
    remarks.push({ path, text: `unknown key, ignored${hint}` })
  }

  const walk = (value: unknown, shape: Shape.Shape, path: Tree.Path): unknown => {
    switch (shape._tag) {
      case "Section": {
        if (!Tree.isMapping(value)) return value
        return Object.fromEntries(Object.entries(value).flatMap(([key, item]) => {
          const field = shape.fields.get(key)
          if (field === undefined) unknownKey(key, shape, [...path, key])
          return field === undefined || item === null || item === "" ? [] : [[key, walk(item, field, [...path, key])]]
        }))
      }
      case "MapOf": {
        if (!Tree.isMapping(value)) return value
        const present = Object.entries(value).filter(([, item]) => item !== null)
        return Object.fromEntries(present.map(([key, item]) => [key, walk(item, shape.item, [...path, key])]))
      }
      case "ListOf":
        return Array.isArray(value) ? value.map((item, index) => walk(item, shape.item, [...path, index])) : value
      case "Value":
        return single(value, shape, path)
    }
  }

  const prepared = walk(tree, root, [])
  return { tree: prepared, remarks: [...remarks, ...UnsupportedSettings.remarks(prepared, root)] }
}

/** The place of each refusal; the Schema may speak of it by either name of a key. */
const placesOf = (issue: SchemaIssue.Issue, path: ReadonlyArray<PropertyKey> = []): ReadonlyArray<ReadonlyArray<PropertyKey>> => {
  switch (issue._tag) {
    case "Pointer":
      return placesOf(issue.issue, [...path, ...issue.path])
    case "Encoding":
    case "Filter":
      return placesOf(issue.issue, path)
    case "Composite":
      return issue.issues.flatMap((inner) => placesOf(inner, path))
    default:
      return [path]
  }
}

/** The place in words of the file, no deeper than something is declared. */
const filePath = (root: Shape.Shape, path: ReadonlyArray<PropertyKey>): Tree.Path => {
  const out: Array<string | number> = []
  let shape: Shape.Shape | undefined = root
  for (const key of path) {
    const name: string | number = typeof key === "number" ? key : shape._tag === "Section" ? fileKey(String(key)) : String(key)
    const inside: Shape.Shape | undefined = Shape.at(shape, [name])
    if (inside === undefined) break
    out.push(name)
    shape = inside
  }
  return out
}

const maxShownChars = 60

const shorten = (text: string): string => text.length > maxShownChars ? `${text.slice(0, maxShownChars)}…` : text

/** A value as an error may show it. */
const foundText = (value: unknown, shape: Shape.Shape | undefined): string => {
  if (value === undefined || value === null) return "nothing"
  if (Array.isArray(value)) return "a list"
  if (Tree.isMapping(value)) return "a mapping"
  if (shape !== undefined && Shape.isSecret(shape)) return `a ${typeof value}`
  return typeof value === "string" ? JSON.stringify(shorten(redactText(value))) : String(value)
}

/** The lines of a refusal, by place. */
export const explain = (
  issue: SchemaIssue.Issue,
  root: Shape.Shape,
  tree: unknown
): ReadonlyArray<{ readonly path: Tree.Path; readonly text: string }> => {
  const paths = new Map(placesOf(issue).map((place) => {
    const path = filePath(root, place)
    return [Tree.show(path), path]
  }))
  return Array.from(paths.values(), (path) => {
    const shape = Shape.at(root, path)
    const expected = shape === undefined ? "a mapping" : Shape.expected(shape)
    return { path, text: `expected ${expected}, got ${foundText(Tree.get(tree, path), shape)}` }
  })
}

const decode = Schema.decodeUnknownResult(SettingsSchema)

/** Tests whether a place is in `path`, or `path` in it. */
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
