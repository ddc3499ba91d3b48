/**
 * Follows what plugins register while they are loaded, for a check of a plugin. Registration is unchanged; without an
 * observer nothing is collected.
 */
import * as Context from "effect/Context"
import type * as Schema from "effect/Schema"
import type { Contribution } from "./Plugin.ts"

/** Functions that receive the registrations of plugins, each with the key of the plugin. */
export interface Observer {
  readonly onContribution: (key: string, contribution: Contribution<unknown>, config: Schema.Top | undefined) => void
  /** Receives a warning about the plugin, and the stack of the call that caused it. */
  readonly onWarning: (key: string, line: string, stack: string) => void
  /** Receives the error for which a plugin is not loaded. */
  readonly onFailure: (key: string, error: unknown) => void
}

/** The observer of the plugins that a runtime loads, if any. */
export const RegistrationObserver = Context.Reference<Observer | undefined>(
  "hermes-effect/plugin/RegistrationObserver",
  { defaultValue: () => undefined }
)
