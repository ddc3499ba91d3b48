/**
 * Answers that take more than one key.
 *
 * @since 0.1.0
 */
import type { Values } from "./Settings.ts"

/** Seconds that a side task may take, where that is not the common 30 (`hermes-product.md` §6). */
const taskTimeouts = new Map([["vision", 120], ["web_extract", 360], ["compression", 120]])

/** Who does a side task. */
export interface AuxiliaryTask extends Omit<Values["auxiliary"][string], "timeout"> {
  /** Seconds. */
  readonly timeout: number
}

/** The settings of a side task; one that nobody configured is done by `auto`. */
export const auxiliaryTask = ({ auxiliary }: Pick<Values, "auxiliary">, task: string): AuxiliaryTask => {
  const configured = Object.hasOwn(auxiliary, task) ? auxiliary[task] : undefined
  return { provider: "auto", ...configured, timeout: configured?.timeout ?? taskTimeouts.get(task) ?? 30 }
}

/** A provider to turn to when the main one has failed. */
export type Fallback = Omit<Values["fallbackProviders"][number], "apiKeyEnv">

/** The chain of fallbacks: `fallback_providers`, or the one `fallback_model` of older files. */
export const fallbacks = ({ fallbackModel, fallbackProviders }: Values): ReadonlyArray<Fallback> => {
  const chain = fallbackProviders.length === 0 && fallbackModel !== undefined ? [fallbackModel] : fallbackProviders
  return chain.map(({ apiKeyEnv, ...fallback }) =>
    fallback.keyEnv === undefined && apiKeyEnv !== undefined ? { ...fallback, keyEnv: apiKeyEnv } : fallback
  )
}
