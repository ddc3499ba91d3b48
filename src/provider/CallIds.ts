/**
 * Ids of tool calls that a server left out or gave twice.
 *
 * **Details**
 *
 * They are derived from the call and never random, so that the same answer always has the same ids
 * (`hermes-llm.md` §7.1.6).
 *
 * @since 0.1.0
 */
import * as Digest from "./internal/Digest.ts"

/** An id for a call that has none. */
export const derive = (name: string, argumentsText: string, index: number): string =>
  `call_${Digest.hex(`${name}\n${argumentsText}\n${index}`, 24)}`

/** `id`, or a variation of it that is not taken yet; takes it. */
export const unique = (taken: Set<string>, id: string, index: number): string => {
  const own = taken.has(id) ? `${id}_${index}` : id
  taken.add(own)
  return own
}
