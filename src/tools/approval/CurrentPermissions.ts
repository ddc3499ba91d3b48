/** The rules of `permissions` in the context of approvals. {@link Permissions} creates and applies them. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { CallPaths, RuleSet } from "./PermissionJudgement.ts"

/** Rules of a program. */
export interface Service extends CallPaths {
  /** Returns the rules for calls that work in a folder. */
  readonly of: (cwd: string | undefined) => Effect.Effect<RuleSet>
  /** Stores permanent approvals as rules; `undefined` if nothing can be stored. */
  readonly kept?: KeptRules | undefined
}

/** Rules that permanent approvals add to `permissions.allow`. */
export interface KeptRules {
  /** File to which the rules are written. */
  readonly file: string
  /**
   * Adds rules to the current process and to the file. If the file cannot be changed, the rules hold for this process
   * only.
   */
  readonly add: (rules: ReadonlyArray<string>) => Effect.Effect<void>
}

/** Current {@link Service}. The default is `undefined`. */
export const Permissions = Context.Reference<Service | undefined>("hermes-effect/tool/approval/Permissions", {
  defaultValue: () => undefined
})
