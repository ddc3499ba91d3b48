/**
 * Reasoning efforts as OpenAI's own models take them.
 *
 * **Details**
 *
 * `minimal` exists on GPT-5 itself, `none` from GPT-5.1 on, `xhigh` from GPT-5.2 and on the largest Codex models. An effort
 * that a model does not have becomes the nearest that it has.
 *
 * @since 0.1.0
 */
import type { ReasoningEffort } from "../domain/Model.ts"

/** Whether a model, named without vendor, thinks before it answers. */
export const reasons = (model: string): boolean => /^(o\d|gpt-5|gpt-oss|codex)/.test(model) && !model.includes("-chat")

const generation = (model: string): number => Number(/^gpt-(\d+(?:\.\d+)?)/.exec(model)?.[1] ?? 0)

/** The effort for a model, undefined where the field must not be sent. */
export const openAi = (model: string, effort: ReasoningEffort): ReasoningEffort | undefined => {
  if (!reasons(model)) return undefined
  const age = generation(model)
  switch (effort) {
    case "none":
      return age > 5 ? "none" : undefined
    case "minimal":
      return age === 5 && !model.includes("codex") ? "minimal" : "low"
    case "xhigh":
      return age >= 5.2 || model.includes("codex-max") ? "xhigh" : "high"
    default:
      return effort
  }
}
