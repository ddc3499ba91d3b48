/**
 * Reads JSON that somebody else wrote.
 */
import type * as Schema from "effect/Schema"
import * as Json from "../../domain/Json.ts"
import * as Option from "effect/Option"

/** A JSON object. */
export interface Fields {
  readonly [key: string]: Schema.Json | undefined
}

const none: Fields = {}

/** The value as an object; an empty one when it is none. */
export const toFields = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? // Everything that is read here came from JSON.
      (value as Fields)
    : none

/** The value as a list; an empty one when it is none. */
export const toItems = (value: unknown): ReadonlyArray<Schema.Json> =>
  // As above.
  Array.isArray(value) ? (value as ReadonlyArray<Schema.Json>) : []

/** The value where it is text that says something. */
export const toNonEmptyText = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined

/** The value where it is a finite number. */
export const toFiniteNumber = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) ? value : undefined

/** Arguments of a call as an object, whatever the model sent. */
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
