/**
 * What a model of the Messages API can do, read from its id.
 *
 * **Details**
 *
 * The reference names generations one by one (4.6, 4.7); here the version in the id is compared, so that a model that is
 * younger than this file gets the abilities of the youngest generation that it knows. Other vendors' models behind this
 * protocol think by a budget, whatever number their names carry.
 *
 * Source: `hermes-llm.md` §14.2.
 *
 * @since 0.1.0
 */

/** How a model is asked to think: by an effort, by a number of tokens, or not at all. */
export type ThinkingStyle = "adaptive" | "budget" | "never"

/** See the module. */
export interface Abilities {
  readonly thinking: ThinkingStyle
  /** Whether the effort `xhigh` exists; where it does not, `max` stands in for it. */
  readonly xhigh: boolean
  /** Whether `temperature` is accepted. */
  readonly sampling: boolean
  /** Whether the answer can be bound to a JSON Schema. */
  readonly structured: boolean
}

/** Major and minor version of a Claude model as one number, `4.6` as 406; undefined where the id names none. */
const version = (id: string): number | undefined => {
  const match = /(?<!\d)(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?/.exec(id.slice(id.indexOf("claude") + 6))
  return match === null ? undefined : Number(match[1]) * 100 + Number(match[2] ?? 0)
}

/** The youngest generation: ids without a version (`claude-mythos-preview`) are new. */
const newest = 9_999

/** See the module. */
export const abilities = (model: string): Abilities => {
  const id = model.toLowerCase()
  if (!id.includes("claude")) return { thinking: "budget", xhigh: false, sampling: true, structured: false }
  const generation = version(id) ?? newest
  const thinking = id.includes("haiku") || generation < 307 ? "never" : generation >= 406 ? "adaptive" : "budget"
  return { thinking, xhigh: generation >= 407, sampling: generation < 407, structured: generation >= 405 }
}
