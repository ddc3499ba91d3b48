/**
 * Reads the version of a Claude model from its id, so that a model newer than this program gets the abilities of the
 * newest known generation.
 *
 * Source: `hermes-llm.md` §4.2, §14.2.
 */

/** Version assumed for ids without a version (`claude-mythos-preview`), which count as the newest generation. */
const newest = 9_999

/**
 * Returns the major and minor version of a Claude model as one number (`4.6` is 406), or `undefined` for models of
 * other vendors.
 */
export const parseVersion = (model: string): number | undefined => {
  const id = model.toLowerCase()
  const at = id.indexOf("claude")
  if (at === -1) return undefined
  const match = /(?<!\d)(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?/.exec(id.slice(at + 6))
  return match === null ? newest : Number(match[1]) * 100 + Number(match[2] ?? 0)
}

/**
 * Tests whether a Claude model keeps the thinking of earlier turns in its context. Opus keeps it from 4.5 on, Sonnet
 * and newer families from 4.6 on. Older models and Haiku remove it when the next turn begins.
 */
export const keepsThinking = (model: string): boolean => {
  const version = parseVersion(model)
  if (version === undefined || /haiku/i.test(model)) return false
  return version >= (/opus/i.test(model) ? 405 : 406)
}
