/**
 * What an operator says about approvals; fixed when the process starts.
 *
 * Source: `hermes-product.md` §1.10, `hermes-llm.md` §19.7.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"

/** How approvals are decided. */
export type Mode = "manual" | "smart" | "off"

/** See the module. */
export interface Policy {
  readonly mode: Mode
  /** Skips everything but the floor and the deny globs. */
  readonly yolo: boolean
  /** Globs of commands that never run. */
  readonly deny: ReadonlyArray<string>
  /** Entries of approvals for good, and globs of commands that need no approval: `approval/AllowList.ts`. */
  readonly allow: ReadonlyArray<string>
  readonly timeout: Duration.Duration
}

/** Silence is deny after a minute, and nothing is allowed beforehand. */
export const defaultPolicy: Policy = { mode: "manual", yolo: false, deny: [], allow: [], timeout: Duration.seconds(60) }
