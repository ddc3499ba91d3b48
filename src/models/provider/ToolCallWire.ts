/**
 * Encodes and decodes the ids and arguments of tool calls.
 *
 * **Details**
 *
 * Arguments are encoded canonically, as compact JSON with sorted keys, so that the same history always produces the
 * same bytes for a prompt cache. Arguments that were invalid JSON are sent back as `{}`: many endpoints parse the
 * arguments in the history and would refuse every later request. The model reads about the error in the call's result.
 *
 * Ids that a server omitted or repeated are derived from the call and are never random, so the same answer always has
 * the same ids.
 *
 * Source: `hermes-llm.md` §7.1.
 */
import * as Assembler from "../../base/domain/Assembler.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Digest from "../../base/platform/Digest.ts"

/** Returns true if the member of a plain object with a single member is encoded as it is. */
const isUnchanged = (value: Json.Fields, name: string): boolean =>
  Object.getPrototypeOf(value) === Object.prototype && sortKeys(value[name]) === value[name]

const sortKeys = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (!Json.isFields(value)) return typeof value === "string" ? value.toWellFormed() : value
  const names = Object.keys(value)
  const [only] = names
  if (only !== undefined && names.length === 1 && isUnchanged(value, only)) return value
  return Object.fromEntries(names.sort().map((key) => [key, sortKeys(value[key])]))
}

/** Returns the canonical JSON text of arguments. Returns `{}` for a string, `null` or `undefined`. */
export const toText = (params: unknown): string =>
  typeof params === "string" || params === undefined || params === null ? "{}" : JSON.stringify(sortKeys(params))

/** Decodes arguments received from an API, which are JSON text, or an object that the server has already parsed. */
export const fromWire = (value: unknown): unknown =>
  typeof value === "string" ? Assembler.parseParams(value) : (value ?? {})

/** Returns a streamed piece of arguments as text. */
export const toPieceText = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value)

/** Derives an id from the name, arguments and index of a tool call to which the server gave no id. */
export const deriveId = (name: string, argumentsText: string, index: number): string =>
  `call_${Digest.toHex(`${name}\n${argumentsText}\n${index}`, 24)}`

/** Returns `id`, or `id` with the index appended if it is already taken, and adds the result to `taken`. */
export const makeUniqueId = (taken: Set<string>, id: string, index: number): string => {
  const own = taken.has(id) ? `${id}_${index}` : id
  taken.add(own)
  return own
}
