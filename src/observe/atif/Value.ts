/** Reads JSON from other programs. */
import type * as Schema from "effect/Schema"
import * as Json from "../../base/domain/Json.ts"
import * as Option from "effect/Option"

/** A JSON object. */
export interface Fields {
  readonly [key: string]: Schema.Json | undefined
}

const none: Fields = {}

/** Returns the value if it is an object; otherwise an empty object. */
export const toFields = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? // Everything that is read here came from JSON.
      (value as Fields)
    : none

/** Returns the value if it is a list; otherwise an empty list. */
export const toItems = (value: unknown): ReadonlyArray<Schema.Json> =>
  // As above.
  Array.isArray(value) ? (value as ReadonlyArray<Schema.Json>) : []

/** Returns the value if it is a non-empty string; otherwise `undefined`. */
export const toNonEmptyText = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined

/** Returns the value if it is a finite number; otherwise `undefined`. */
export const toFiniteNumber = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) ? value : undefined

/** Returns the arguments of a call as an object. Accepts every form in which models send them. */
export const toArguments = (value: unknown): { readonly [key: string]: Schema.Json } => {
  if (value === undefined || value === null || value === "") return {}
  if (typeof value === "string") {
    const parsed = Option.getOrUndefined(Json.parse(value))
    return parsed === undefined
      ? { raw: value }
      : toArguments(parsed === null || typeof parsed === "string" ? { value: parsed } : parsed)
  }
  // As above.
  return typeof value === "object" && !Array.isArray(value)
    ? (value as { [key: string]: Schema.Json })
    : { value: value as Schema.Json }
}
