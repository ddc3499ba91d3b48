/**
 * Whether somebody is there who could be asked. Whoever starts a run for which nobody is (a child agent, a scheduled job, a
 * single query) says so, and what then happens to what needs an approval.
 *
 * **Example** (A job of the night)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Attendance, Runtime } from "hermes-effect"
 *
 * const program = Agent.run({ prompt: "Reply exactly done" }).pipe(
 *   Effect.provideService(Attendance.Attendance, Attendance.unattended("nightly job"))
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer()))).text)
 * // => done
 * ```
 *
 * Source: `hermes-product.md` §1.10 and §3.3 ("a child never prompts").
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"

/** See the module. */
export type Presence =
  | { readonly _tag: "Attended" }
  | {
    readonly _tag: "Unattended"
    /** Who runs, for people: `child agent`, `cron`, `single query`. */
    readonly who: string
    readonly otherwise: "deny" | "approve"
  }

/** Somebody can be asked, as far as this fiber knows. */
export const attended: Presence = { _tag: "Attended" }

/** Nobody can. */
export const unattended = (who: string, otherwise: "deny" | "approve" = "deny"): Presence => ({ _tag: "Unattended", who, otherwise })

/** The presence for what the fiber does; `Effect.provideService(Attendance, unattended("child agent"))`. */
export const Attendance = Context.Reference<Presence>("hermes-effect/tool/approval/Attendance", { defaultValue: () => attended })
