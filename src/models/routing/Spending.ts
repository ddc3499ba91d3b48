/**
 * Reserves the largest possible cost of each attempt in the ledger of its call (`SpendingPort`) before it is made, and
 * settles it afterwards, whatever its end.
 *
 * **Details**
 *
 * The largest cost consists of the bound of the prompt (`PromptBound`) and of the output limit of the request. The
 * ledger may grant fewer output tokens than wanted; the request is then sent with that limit. A request without an
 * output limit gets one. If the endpoint takes no output limit, the longest answer of the model is reserved.
 *
 * An attempt settles what its provider counted. Counts without the output of an answer are not used. A request that
 * the provider refused costs nothing, and one that was not sent is not counted. If the provider counted nothing because
 * the answer broke off or the call was interrupted, the usage is an estimate, and the ledger decides what it counts.
 *
 * The call is reserved before it waits for its turn at the key, so that a call that waits for its allowance does not
 * keep a key busy.
 */
import * as BigDecimal from "effect/BigDecimal"
import type * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { memoize } from "effect/Function"
import type { SessionStoreError, TenantRefused } from "../../base/domain/AgentError.ts"
import type * as Cost from "../../base/domain/Cost.ts"
import type { ModelResponse } from "../../base/domain/ModelCall.ts"
import { toNanos } from "../../base/domain/Tenant.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as ModelAbilities from "../provider/ModelAbilities.ts"
import * as NetworkFailure from "../provider/NetworkFailure.ts"
import { outputLimits } from "./Adaptation.ts"
import * as CallTokens from "./CallTokens.ts"
import * as PromptBound from "./PromptBound.ts"
import { findProviderFailure, reportWait, type RouteCallState } from "./RouteCallState.ts"
import { HoldsReservation, type PlannedCall, type UsedTokens } from "./SpendingPort.ts"

/** Output limit of a request for which neither the call nor the model states one, in tokens. */
const defaultOutput = 16_384

/** Factor and addend by which a prompt may exceed its estimate. */
const margin = 1.5
const addend = 256

/** Estimated number of bytes of a token. */
const bytesPerToken = 3

/** Failure of an attempt whose request would have a larger output limit than granted, such as a budget of thinking. */
export class OutputRaised {
  readonly _tag = "OutputRaised"
  readonly output: number

  constructor(output: number) {
    this.output = output
  }
}

const estimatePrompt = ({ question: { call }, route: { profile } }: RouteCallState): number =>
  Math.ceil(CallTokens.estimateRequest(call) * Math.max(profile.ratio, 1)) +
  CallTokens.countFiles(call) * PromptBound.tokensPerFile

const toUnits = ({ amount }: Pick<Cost.Cost, "amount">): number | undefined =>
  amount === undefined ? undefined : toNanos(BigDecimal.toNumberUnsafe(amount))

/** Returns the function that computes the cost of usage in nanodollars, one for each function of the catalogue. */
const findNanosFunction = memoize(
  (computeCost: RouteCallState["known"]["cost"]): PlannedCall["computeNanos"] =>
    (usage) =>
      toUnits(computeCost(usage))
)

/** Tests whether the requests of a route have no output limit: the endpoint refuses it, or has no parameter for it. */
const isWithoutLimit = ({ route: { info, profile } }: RouteCallState): boolean =>
  info.provider === "openai-codex" ||
  outputLimits.some((name) => profile.parameters.has(name) && profile.parameters.get(name) === undefined)

/** Returns the largest output limit of a call, and the least one with which its request can be sent. */
const planOutput = (state: RouteCallState): Pick<PlannedCall, "wantedOutput" | "requiredOutput"> => {
  const {
    form,
    question: { call },
    route: { info, profile }
  } = state
  const most = profile.outputMaximum ?? Infinity
  if (isWithoutLimit(state)) {
    const output = Math.min(most, ModelAbilities.findOutputLimit(info.model))
    return { wantedOutput: output, requiredOutput: output }
  }
  const limit = call.maxOutputTokens ?? profile.defaultLimit ?? defaultOutput
  return { wantedOutput: Math.min(limit, form.outputCap ?? Infinity, most) }
}

/** Describes the attempt that a call is about to make. */
const planCall = (state: RouteCallState): PlannedCall => {
  const { known, question, route } = state
  // A continuation sends the received part of the answer with two messages around it.
  const delivered = question.progress?.broken.received ?? ""
  const continued = delivered === "" ? 0 : PromptBound.boundText(delivered) + addend
  return {
    provider: route.info.provider,
    model: route.info.model,
    prompt: {
      bound: PromptBound.boundPrompt(route.id, question.call) + continued,
      estimate: Math.ceil(estimatePrompt(state) * margin) + addend + Math.ceil(continued / bytesPerToken)
    },
    ...planOutput(state),
    computeNanos: findNanosFunction(known.cost),
    reportWait: (millis) =>
      reportWait(state, { reason: "the tenant's limits", duration: Duration.millis(millis), attempt: 1 })
  }
}

/** Counts the characters of the part of an answer that has arrived. */
const countReceived = ({ sent: { progress } }: RouteCallState): number =>
  (progress?.parts ?? []).flat().reduce((sum, part) => sum + ("delta" in part ? part.delta.length : 0), 0)

const estimateUsage = (state: RouteCallState, outputBytes: number): Usage.Usage => ({
  ...Usage.zero,
  requestCount: 1,
  inputTokens: estimatePrompt(state),
  outputTokens: Math.ceil(outputBytes / bytesPerToken)
})

const unused: UsedTokens = { usage: Usage.zero, nanos: 0, mostOutput: undefined }

const readResponse = (state: RouteCallState, { parts, reportedCost, usage }: ModelResponse): UsedTokens => {
  const { known, question, route } = state
  const counted = Usage.fromResponse(usage)
  const isComplete = counted.outputTokens > 0 || parts.length === 0
  if (isComplete && Usage.countTotalTokens(counted) > 0) {
    PromptBound.noteCounted(route.id, question.call, Usage.countPromptTokens(counted))
    return { usage: counted, nanos: toUnits(known.cost(counted, reportedCost)), mostOutput: undefined }
  }
  const bytes = parts.reduce((sum, part) => sum + PromptBound.boundText(JSON.stringify(part)), 0)
  const estimate = estimateUsage(state, bytes)
  return { usage: estimate, nanos: toUnits(known.cost(estimate)), mostOutput: bytes }
}

const refusals = new Set([
  "AuthenticationError",
  "ContentPolicyError",
  "InternalProviderError",
  "InvalidRequestError",
  "QuotaExhaustedError",
  "RateLimitError"
])

/** Tests whether a provider answered a request with an error before the answer began, or was not reached. */
const isRefused = (cause: Cause.Cause<unknown>): boolean => {
  const reason = findProviderFailure(cause)?.reason
  if (reason === undefined) return false
  return refusals.has(reason._tag) || (reason._tag === "NetworkError" && NetworkFailure.isUnsent(reason.cause))
}

/** Returns the usage of an attempt by its end; `undefined` if no request was sent. */
const readUsed = (
  state: RouteCallState,
  exit: Exit.Exit<ModelResponse | undefined, unknown>
): UsedTokens | undefined => {
  if (Exit.isSuccess(exit)) return exit.value === undefined ? undefined : readResponse(state, exit.value)
  const received = countReceived(state)
  if (!state.sent.isExecuted) return undefined
  if (received === 0 && isRefused(exit.cause)) return unused
  const usage = estimateUsage(state, received)
  return { usage, nanos: toUnits(state.known.cost(usage)), mostOutput: Infinity }
}

/** An attempt with the largest output limit of its request. */
type Attempt<A, E> = (outputLimit: number) => Effect.Effect<A, E | OutputRaised>

/**
 * Makes an attempt within the allowance of its call's ledger, if it has one. `toResponse` returns the answer of the
 * attempt, or `undefined` if it made no request.
 */
export const reserveAttempt = <A, E>(
  state: RouteCallState,
  attempt: Attempt<A, E>,
  toResponse: (result: A) => ModelResponse | undefined
): Effect.Effect<A, E> => {
  const { spending } = state.question
  // Without a ledger every output limit is granted.
  if (spending === undefined) return attempt(Infinity) as Effect.Effect<A, E>
  const reserveOnce = (planned: PlannedCall) =>
    Effect.acquireUseRelease(
      spending.reserve(planned),
      ({ output }) => Effect.provideService(attempt(output), HoldsReservation, true),
      ({ settle }, exit) => settle(readUsed(state, Exit.map(exit, toResponse)))
    )
  const planned = planCall(state)
  const reserved: Effect.Effect<A, E | OutputRaised | TenantRefused | SessionStoreError> = Effect.catch(
    reserveOnce(planned),
    (error) =>
      error instanceof OutputRaised
        ? reserveOnce({ ...planned, wantedOutput: error.output, requiredOutput: error.output })
        : Effect.fail(error)
  )
  // The failures of a ledger end the call as failures of middleware do, and the run reads them by their tags.
  return reserved as Effect.Effect<A, E>
}
