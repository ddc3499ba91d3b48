/**
 * Arguments of tool calls as the OpenAI protocols write them: JSON text.
 *
 * **Details**
 *
 * The text is canonical, compact with sorted keys, so that the same history is always the same bytes for a prompt cache
 * (`hermes-llm.md` §7.1). Arguments that were no JSON are sent back as `{}`: many endpoints parse the arguments of the
 * history and would refuse every later request; what was wrong with them the model reads in the result of the call.
 *
 * @since 0.1.0
 */
import * as Assembler from "../domain/Assembler.ts"
import * as Raw from "./Raw.ts"

const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted)
  if (!Raw.isFields(value)) return typeof value === "string" ? value.toWellFormed() : value
  return Object.fromEntries(
    Object.keys(value).sort().map((key) => [key, sorted(value[key])])
  )
}

/** The text of arguments; see the module. */
export const toText = (params: unknown): string =>
  typeof params === "string" || params === undefined || params === null ? "{}" : JSON.stringify(sorted(params))

/** Arguments as an API sends them: text, or an object where the server has parsed them already. */
export const fromWire = (value: unknown): unknown => typeof value === "string" ? Assembler.params(value) : value ?? {}

/** A piece of the text of arguments, from a stream. */
export const pieceOf = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value)
