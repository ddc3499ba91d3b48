/**
 * Ids and arguments of tool calls on the wire.
 *
 * **Details**
 *
 * The text of arguments is canonical, compact with sorted keys, so that the same history is always the same bytes for a
 * prompt cache. Arguments that were no JSON are sent back as `{}`: many endpoints parse the arguments of the history
 * and would refuse every later request; the model reads in the result of the call what was wrong with them.
 *
 * Ids that a server left out or gave twice are derived from the call and never random, so that the same answer always
 * has the same ids.
 *
 * Source: `hermes-llm.md` §7.1.
 */
import * as Assembler from "../../base/domain/Assembler.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Digest from "../../base/platform/Digest.ts"

const sortKeys = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (!Json.isFields(value)) return typeof value === "string" ? value.toWellFormed() : value
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, sortKeys(value[key])])
  )
}

/** Returns the canonical text of arguments; `{}` for values that are not JSON. */
export const toText = (params: unknown): string =>
  typeof params === "string" || params === undefined || params === null ? "{}" : JSON.stringify(sortKeys(params))

/** Arguments as an API sends them: text, or an object where the server has parsed them already. */
export const fromWire = (value: unknown): unknown =>
  typeof value === "string" ? Assembler.parseParams(value) : (value ?? {})

/** A piece of the text of arguments, from a stream. */
export const toPieceText = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value)

/** Derives an id for a call without one. */
export const deriveId = (name: string, argumentsText: string, index: number): string =>
  `call_${Digest.toHex(`${name}\n${argumentsText}\n${index}`, 24)}`

/** `id`, or a variation of it that is not taken yet; takes it. */
export const makeUniqueId = (taken: Set<string>, id: string, index: number): string => {
  const own = taken.has(id) ? `${id}_${index}` : id
  taken.add(own)
  return own
}
