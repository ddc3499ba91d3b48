/**
 * Decides whether a discovered plugin is loaded. Pure.
 *
 * Source: `hermes-contract.md` §3.3.
 */
import type { Candidate } from "./Candidate.ts"

/** The `enabled` and `disabled` lists of the configuration, with plugin keys or bare names. */
export interface Lists {
  readonly enabled: ReadonlyArray<string>
  readonly disabled: ReadonlyArray<string>
}

/** Decision whether a plugin is loaded. */
type Decision =
  | { readonly _tag: "Load" }
  /** The plugin is not loaded, for `reason`. `enabled` is the state that is displayed for it. */
  | { readonly _tag: "Leave"; readonly enabled: boolean; readonly reason: string | undefined }

const load: Decision = { _tag: "Load" }

const skipPlugin = (reason: string | undefined): Decision => ({ _tag: "Leave", enabled: reason === undefined, reason })

/** Returns true if a list names a plugin. */
const isListed = (list: ReadonlyArray<string>, { names }: Pick<Candidate, "names">): boolean =>
  list.some((entry) => names.includes(entry.trim()))

/**
 * Decides whether a plugin is loaded. The first matching rule decides. `disabled` takes precedence over `enabled`, even
 * if the lists use different names for the plugin.
 */
export const decideLoading = (candidate: Candidate, { disabled, enabled }: Lists): Decision => {
  const { key, kind, source } = candidate
  if (isListed(disabled, candidate)) return skipPlugin("disabled via config")
  if (kind === "exclusive") return skipPlugin("exclusive: chosen by the setting of what it provides")
  if (kind === "model-provider") return skipPlugin(undefined)
  if (source === "application") return load
  if (source === "bundled" && (kind === "backend" || kind === "platform")) return load
  return isListed(enabled, candidate)
    ? load
    : skipPlugin(`not enabled in config (run \`hermes plugins enable ${key}\` to activate)`)
}

/** Status label in `hermes plugins list`. */
export type Status = "enabled" | "disabled" | "not enabled"

/** Returns the {@link Status} of a plugin. */
export const describeStatus = (candidate: Candidate, lists: Lists): Status => {
  if (isListed(lists.disabled, candidate)) return "disabled"
  const decision = decideLoading(candidate, lists)
  return decision._tag === "Load" || decision.enabled || isListed(lists.enabled, candidate) ? "enabled" : "not enabled"
}
