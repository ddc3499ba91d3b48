/**
 * Bounds on the approvals of a run: the choices that its questions offer, and whether its commands may leave the
 * sandbox. Clients other than the owner get narrower bounds than the owner.
 *
 * **Details**
 *
 * Bounds apply to the run of a fiber and to everything that the run starts. They narrow the choices of a question; they
 * never lift a question or a denial.
 *
 * Source: `ARCHITECTURE.md` §7 (approvals).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { CurrentWorkspace } from "../../base/domain/CallContext.ts"
import { CurrentTenant } from "../../store/TenantScope.ts"
import type { Choice } from "./ApprovalRequest.ts"

/** Bounds on the approvals of a run. */
export interface Bounds {
  /** Choices that a question may offer; another answer is a denial. */
  readonly choices: ReadonlyArray<Choice>
  /**
   * Reason, for the model, why no command of this run may leave the sandbox; `undefined` if the user may approve
   * leaving it.
   */
  readonly confinement: string | undefined
}

/** Bounds of a run whose questions the owner answers. */
export const ofOwner: Bounds = { choices: ["once", "session", "always", "deny"], confinement: undefined }

/**
 * Bounds of a run for a client that the owner admitted under a name: approvals cover one call at a time, and commands
 * stay inside the sandbox.
 */
export const ofClient: Bounds = {
  choices: ["once", "deny"],
  confinement:
    "Only the owner of this server can let a command run outside of the sandbox, and this client has another key."
}

/** Bounds of the current run; by default, the bounds of the owner. */
export const CurrentBounds = Context.Reference<Bounds>("hermes-effect/tool/approval/ApprovalBounds", {
  defaultValue: () => ofOwner
})

const confinedToWorkspace = "The commands of this run stay inside the sandbox, with the files of its workspace."

/**
 * Reads the bounds of the current run. In the work for a tenant, no approval is permanent, because it would hold for
 * the other tenants, and no command leaves the sandbox if the tenant has a workspace.
 */
export const readBounds: Effect.Effect<Bounds> = Effect.withFiber((fiber) => {
  const { choices, confinement } = fiber.getRef(CurrentBounds)
  return Effect.succeed({
    choices: fiber.getRef(CurrentTenant) === undefined ? choices : choices.filter((choice) => choice !== "always"),
    confinement: confinement ?? (fiber.getRef(CurrentWorkspace) === undefined ? undefined : confinedToWorkspace)
  })
})
