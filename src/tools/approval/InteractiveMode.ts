/**
 * True if a user can be asked. A run without a user (a child agent, a scheduled job, a single query) declares this, and
 * how to treat calls that need an approval.
 *
 * **Example** (A job of the night)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { InteractiveMode } from "hermes-effect/approvals"
 *
 * const program = Agent.run({ prompt: "Reply exactly done" }).pipe(
 *   Effect.provideService(InteractiveMode.InteractiveMode, InteractiveMode.makeUnattended("nightly job"))
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer()))).text)
 * // => done
 * ```
 *
 * Source: `hermes-product.md` §1.10 and §3.3 ("a child never prompts").
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as InheritedLimits from "../../base/config/InheritedLimits.ts"
import * as PermissionMode from "../../base/config/PermissionMode.ts"
import { ToolContext } from "../ToolContext.ts"

/** True if a user can be asked. */
export type Presence =
  | { readonly _tag: "Attended" }
  | {
      readonly _tag: "Unattended"
      /** Kind of run, for people: `child agent`, `cron`, `single query`. */
      readonly who: string
      readonly otherwise: "deny" | "approve"
      /** True when the judge of `approvals.mode: smart` rules first. */
      readonly judged: boolean
    }

/** A user can be asked, as far as this fiber knows. */
export const attended: Presence = { _tag: "Attended" }

/** No user can be asked. Without `judged`, no model decides in the user's place either. */
export const makeUnattended = (who: string, otherwise: "deny" | "approve" = "deny", judged = false): Presence => ({
  _tag: "Unattended",
  who,
  otherwise,
  judged
})

/**
 * The presence of a user for the current fiber; `Effect.provideService(InteractiveMode, unattended("child agent"))`.
 */
export const InteractiveMode = Context.Reference<Presence>("hermes-effect/tool/approval/InteractiveMode", {
  defaultValue: () => attended
})

/**
 * Sessions of the runs that started this one, the nearest last: hosts that were approved there for the session hold
 * here too, as a child agent works on the same request of the same user and cannot ask.
 */
export const StartingSessions = Context.Reference<ReadonlyArray<string>>(
  "hermes-effect/tool/approval/StartingSessions",
  { defaultValue: () => [] }
)

/**
 * Variables for the programs that a tool starts: the limits of this run, so that a nested `hermes` can only tighten
 * them. No user can be asked there; calls that are allowed unattended here are allowed there.
 */
export const variables: Effect.Effect<Readonly<Record<string, string>>> = Effect.gen(function* () {
  const current = yield* InheritedLimits.Current
  const chosen = yield* PermissionMode.current
  const limits =
    chosen === undefined
      ? current
      : {
          ...current,
          mode: PermissionMode.toApprovals(
            PermissionMode.selectNarrower(chosen, PermissionMode.fromApprovals(current.mode))
          )
        }
  const presence = yield* InteractiveMode
  const context = yield* Effect.serviceOption(ToolContext)
  const roots = context._tag === "Some" ? [context.value.cwd] : []
  return {
    [InheritedLimits.variable]: InheritedLimits.encodeLimits({
      ...limits,
      unattended: presence._tag === "Unattended" ? presence.otherwise : limits.mode === "off" ? "approve" : "deny",
      // Limits that this program itself inherited stay the outermost.
      roots: limits.roots.length === 0 ? roots : limits.roots
    })
  }
})
