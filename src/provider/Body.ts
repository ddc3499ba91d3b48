/**
 * The body of an answer that should be a JSON object.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Json from "../domain/Json.ts"
import * as Raw from "./Raw.ts"

/** The value of a text that is JSON, else the text. */
export const parsed = (text: string): unknown => Option.getOrElse(Json.parse(text), () => text)

/** The object, or what is wrong with the body in its place. Text is parsed: servers mislabel JSON. */
export const read = (raw: unknown): Raw.Fields | string => {
  if (raw === undefined || raw === null || raw === "") return "the answer is empty"
  const value = typeof raw === "string" ? parsed(raw) : raw
  if (Raw.isFields(value)) return value
  return typeof raw === "string" && raw.trimStart().startsWith("<")
    ? "the answer is an HTML page and not JSON: correct the base URL"
    : "the answer is no JSON object"
}
