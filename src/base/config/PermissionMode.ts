/**
 * Permission modes. A mode defines the changes that a call may make without asking the user.
 *
 * **Details**
 *
 * | mode | runs without a question |
 * | --- | --- |
 * | `plan` | calls that are known or annotated to be read-only. Other calls are refused, and the model has to present its plan. New hosts need approval in every mode except `yolo` |
 * | `ask` | also edits of files in the working tree, except files that other programs run later; such files, and commands not known to be read-only, need approval |
 * | `edits` | also edits of files in the working tree that other programs run later, except files of git and of the agent itself |
 * | `auto` | like `ask`, but a model answers the questions (`approvals.mode: smart`) |
 * | `yolo` | everything except calls that never run, the deny globs and `permissions.deny` (`approvals.mode: off`) |
 *
 * `approvals.default_mode` sets the mode. If it is absent, `approvals.mode` sets the mode: `manual` means `ask`,
 * `smart` means `auto`, `off` means `yolo`. The mode of a run applies to everything that it starts: a child agent has
 * the mode of its parent.
 *
 * **Example** (The mode of a run)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, PermissionMode, Runtime, TerminalTools } from "hermes-effect"
 *
 * const program = Agent.run({ prompt: "Use the terminal tool exactly once to run 'touch note.txt'." }).pipe(
 *   Effect.provideService(PermissionMode.CurrentMode, "plan")
 * )
 * const { text } = await Effect.runPromise(Effect.provide(program, Runtime.layer({ tools: [TerminalTools.toolset] })))
 *
 * console.log(text.includes("plan mode"))
 * // => true
 * ```
 *
 * Source: `ARCHITECTURE.md` §7 (approvals).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"

/** The modes, strictest first. */
export const all = ["plan", "ask", "edits", "auto", "yolo"] as const

/** A permission mode; see the table above. */
export type PermissionMode = (typeof all)[number]

/** Modes that Shift+Tab cycles through; `yolo` can only be chosen by name. */
export const cycled = ["plan", "ask", "edits", "auto"] as const satisfies ReadonlyArray<PermissionMode>

const names = { manual: "ask", smart: "auto", off: "yolo" } as const

/** A value of `approvals.mode`. */
export type ApprovalsMode = keyof typeof names

/** Returns the mode for a value of `approvals.mode`. */
export const fromApprovals = (mode: ApprovalsMode): PermissionMode => names[mode]

/** Returns the value of `approvals.mode` that is closest to a mode without permitting more. */
export const toApprovals = (mode: PermissionMode): ApprovalsMode =>
  mode === "yolo" ? "off" : mode === "auto" ? "smart" : "manual"

/** Returns the stricter of two modes. */
export const selectNarrower = (one: PermissionMode, other: PermissionMode): PermissionMode =>
  all.indexOf(one) <= all.indexOf(other) ? one : other

/** Returns the mode that the settings define. */
export const fromSettings = ({
  defaultMode,
  mode
}: {
  readonly defaultMode?: PermissionMode | undefined
  readonly mode: ApprovalsMode
}): PermissionMode => defaultMode ?? fromApprovals(mode)

/** The mode of a run and its children; `undefined` if the mode of the settings applies. */
export const CurrentMode = Context.Reference<PermissionMode | undefined>("hermes-effect/config/PermissionMode", {
  defaultValue: () => undefined
})

/** The least strict mode that runs and their children may have; `undefined` if nothing limits it. */
export const LoosestMode = Context.Reference<PermissionMode | undefined>("hermes-effect/config/LoosestMode", {
  defaultValue: () => undefined
})

/**
 * The mode of an interactive session. The user may change it during a run. It applies if {@link CurrentMode} is
 * `undefined`.
 */
export const LiveMode = Context.Reference<() => PermissionMode | undefined>("hermes-effect/config/LiveMode", {
  defaultValue: () => () => undefined
})

/** Returns the permission mode that applies in the current fiber; `undefined` if the mode of the settings applies. */
export const current: Effect.Effect<PermissionMode | undefined> = Effect.withFiberSucceed((fiber) =>
  readFiberMode(fiber)
)

/**
 * Returns the permission mode that applies in a fiber; `undefined` if the mode of the settings applies, which
 * {@link LoosestMode} may limit.
 */
export const readFiberMode = (fiber: Fiber.Fiber<unknown, unknown>): PermissionMode | undefined => {
  const mode = fiber.getRef(CurrentMode) ?? fiber.getRef(LiveMode)()
  const loosest = fiber.getRef(LoosestMode)
  if (loosest === undefined) return mode
  return mode === undefined ? (loosest === "plan" ? loosest : undefined) : selectNarrower(mode, loosest)
}
