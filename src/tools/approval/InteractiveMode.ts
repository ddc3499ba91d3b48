/**
 * True if a user can be asked. A run without a user (a child agent, a scheduled job, a single query) declares this, and
 * declares how to treat calls that need an approval.
 *
 * **Example** (A nightly job)
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

/** Presence of a user: attended, or unattended with the treatment of calls that need an approval. */
export type Presence =
  | { readonly _tag: "Attended" }
  | {
      readonly _tag: "Unattended"
      /** Kind of run, for people: `child agent`, `cron`, `single query`. */
      readonly who: string
      readonly otherwise: "deny" | "approve"
      /** True if the judge of `approvals.mode: smart` rules first. */
      readonly judged: boolean
    }

/** Presence for a fiber whose user can be asked. */
export const attended: Presence = { _tag: "Attended" }

/**
 * Creates the presence for a run in which no user can be asked. Without `judged`, no model decides in the user's place
 * either.
 */
export const makeUnattended = (who: string, otherwise: "deny" | "approve" = "deny", judged = false): Presence => ({
  _tag: "Unattended",
  who,
  otherwise,
  judged
})

/**
 * The presence of a user for the current fiber. Set it with
 * `Effect.provideService(InteractiveMode, unattended("child agent"))`.
 */
export const InteractiveMode = Context.Reference<Presence>("hermes-effect/tool/approval/InteractiveMode", {
  defaultValue: () => attended
})

/**
 * Sessions of the runs that started this run, nearest last. Hosts approved for those sessions are also approved here,
 * because a child agent works on the same user's request and cannot ask.
 */
export const StartingSessions = Context.Reference<ReadonlyArray<string>>(
  "hermes-effect/tool/approval/StartingSessions",
  { defaultValue: () => [] }
)

/**
 * Environment variables for programs that a tool starts. They contain the limits of this run, so that a nested `hermes`
 * can only tighten them. A nested `hermes` cannot ask a user, and it allows the same unattended calls as this run.
 */
export const variables: Effect.Effect<Readonly<Record<string, string>>> = Effect.gen(function* () {
  const current = yield* InheritedLimits.Current
  const chosen = (yield* PermissionMode.current) ?? (yield* PermissionMode.LoosestMode)
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
      // Limits that this program inherited remain the outermost limits.
      roots: limits.roots.length === 0 ? roots : limits.roots
    })
  }
})
