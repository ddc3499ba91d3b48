/**
 * Reserves the largest possible cost of each attempt in the ledger of its call (`SpendingPort`) before it is made, and
 * settles it afterwards, whatever its end.
 *
 * **Details**
 *
 * The largest cost consists of the estimated prompt with a margin, and of the output limit of the request. The ledger
 * may grant fewer output tokens than wanted; the request is then sent with that limit. A request without an output
 * limit gets one.
 *
 * An attempt settles what its provider counted. If the provider counted nothing because the answer broke off or the
 * call was interrupted, the prompt and the received part of the answer are estimated. A refused request costs nothing.
 */
import * as BigDecimal from "effect/BigDecimal"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { SessionStoreError, TenantRefused } from "../../base/domain/AgentError.ts"
import type * as Cost from "../../base/domain/Cost.ts"
import type { ModelCall, ModelResponse } from "../../base/domain/ModelCall.ts"
import { toNanos } from "../../base/domain/Tenant.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as CallTokens from "./CallTokens.ts"
import { reportWait, type RouteCallState } from "./RouteCallState.ts"
import type { PlannedCall, UsedTokens } from "./SpendingPort.ts"

/** Output limit of a request for which neither the call nor the model states one, in tokens. */
const defaultOutput = 16_384

/** Factor and addend by which a prompt may exceed its estimate, and the tokens of a file. */
const margin = 1.5
const addend = 256
const tokensPerFile = 4_000

const estimatePrompt = (call: ModelCall, ratio: number): number =>
  Math.ceil(CallTokens.estimateRequest(call) * Math.max(ratio, 1)) + CallTokens.countFiles(call) * tokensPerFile

const toUnits = ({ amount }: Pick<Cost.Cost, "amount">): number | undefined =>
  amount === undefined ? undefined : toNanos(BigDecimal.toNumberUnsafe(amount))

/** Describes the attempt that a call is about to make. */
const planCall = (state: RouteCallState): PlannedCall => {
  const {
    form,
    known,
    question: { call },
    route: { info, profile }
  } = state
  const limit = call.maxOutputTokens ?? profile.defaultLimit ?? defaultOutput
  return {
    model: info.model,
    promptTokens: Math.ceil(estimatePrompt(call, profile.ratio) * margin) + addend,
    wantedOutput: Math.min(limit, form.outputCap ?? Infinity, profile.outputMaximum ?? Infinity),
    computeNanos: (usage) => toUnits(known.cost(usage)),
    reportWait: (millis) =>
      reportWait(state, { reason: "the calls per minute are used up", duration: Duration.millis(millis), attempt: 1 })
  }
}

/** Estimates the usage of an attempt whose provider counted nothing. */
const estimateUsage = (state: RouteCallState): Usage.Usage => {
  const { parts = [] } = state.sent.progress ?? {}
  const written = parts.flat().reduce((sum, part) => sum + ("delta" in part ? part.delta.length : 0), 0)
  const inputTokens = estimatePrompt(state.question.call, state.route.profile.ratio)
  return { ...Usage.zero, inputTokens, outputTokens: Math.ceil(written / 3) }
}

/** Returns the usage of an attempt by its end. */
const readUsed = (state: RouteCallState, exit: Exit.Exit<ModelResponse, unknown>): UsedTokens => {
  if (Exit.isSuccess(exit)) {
    const counted = Usage.fromResponse(exit.value.usage)
    const usage = Usage.countTotalTokens(counted) > 0 ? counted : estimateUsage(state)
    return { usage, nanos: toUnits(state.known.cost(usage, exit.value.reportedCost)) }
  }
  const hasParts = (state.sent.progress?.parts.length ?? 0) > 0
  const isSent = hasParts || (Cause.hasInterrupts(exit.cause) && state.sent.request !== undefined)
  const usage = isSent ? estimateUsage(state) : Usage.zero
  return { usage, nanos: toUnits(state.known.cost(usage)) }
}

/**
 * Makes an attempt within the allowance of its call's ledger, if it has one. `attempt` receives the largest output
 * limit.
 */
export const reserveAttempt = <E>(
  state: RouteCallState,
  attempt: (outputLimit: number) => Effect.Effect<ModelResponse, E>
): Effect.Effect<ModelResponse, E> => {
  const { spending } = state.question
  if (spending === undefined) return attempt(Infinity)
  const reserved: Effect.Effect<ModelResponse, E | TenantRefused | SessionStoreError> = Effect.acquireUseRelease(
    spending.reserve(planCall(state)),
    ({ output }) => attempt(output),
    ({ settle }, exit) => settle(readUsed(state, exit))
  )
  // The failures of a ledger end the call as failures of middleware do, and the run reads them by their tags.
  return reserved as Effect.Effect<ModelResponse, E>
}
