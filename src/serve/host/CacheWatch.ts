/**
 * Predicts that the next message of a live session will pay for its whole prefix again, because the provider's cache
 * has expired, or because the model or the tools were changed.
 *
 * **Details**
 *
 * The last request of the session is read from the run record once per turn. Nothing is predicted for a route that has
 * not reported cached tokens, for a prefix of less than 20,000 tokens, and while a turn is running. A change of the
 * model is a change of the route that is chosen for runs; a fallback does not count.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as CacheMisses from "../../base/domain/CacheMisses.ts"
import * as Cost from "../../base/domain/Cost.ts"
import type { TurnId } from "../../base/domain/Ids.ts"
import type { ToolDefinition } from "../../base/domain/ModelCall.ts"
import type { RouteInfo } from "../../base/domain/Route.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import { RunRecord } from "../../store/RunRecord.ts"
import { type Selection, ToolRegistry } from "../../tools/ToolRegistry.ts"
import type { LiveSession } from "./LiveSession.ts"
import * as PromptCalls from "./PromptCalls.ts"

/** Minimum size of a prefix whose loss is predicted, in tokens. */
const leastTokens = 20_000

/** A prediction that the next message pays for its prefix again. */
export interface CacheLoss {
  readonly reason: "cache expired" | "another model" | "other tools"
  /** Size of the last prompt in tokens. */
  readonly tokens: number
  /** Cost of the tokens above the price of cached tokens in US dollars; `undefined` if unknown or included. */
  readonly price: number | undefined
}

/** The cached prefix of a session, and the choices with which it was sent. */
interface CachedPrefix {
  readonly call: CacheMisses.PromptCall
  readonly chosen: Pick<RouteInfo, "provider" | "model">
  readonly tools: ReadonlyArray<ToolDefinition>
}

/** Predicts the cost of the next message. */
export interface CacheWatch {
  /** Reads the last request again if `turn` is another turn, and compares the next request with it. */
  readonly refresh: (turn: TurnId | undefined) => Effect.Effect<void, SessionStoreError>
  /** Returns the prediction for a message that is sent at a time. */
  readonly predict: (now: number) => CacheLoss | undefined
}

/** The choices for the next request, and the price of the prefix on its route. */
interface NextRequest extends Pick<CachedPrefix, "chosen" | "tools">, Pick<CacheLoss, "price"> {}

const findReason = (
  { call, chosen, tools }: CachedPrefix,
  next: NextRequest,
  now: number
): CacheLoss["reason"] | undefined => {
  if (next.chosen.model !== chosen.model || next.chosen.provider !== chosen.provider) return "another model"
  if (next.tools !== tools) return "other tools"
  return CacheMisses.hasExpired(call, now - call.at) ? "cache expired" : undefined
}

/** Watches the cached prefix of a live session. `tools` selects the tools of its runs. */
export const watchPrefix = Effect.fnUntraced(function* (
  live: Pick<LiveSession, "state">,
  tools: Selection | undefined
): Effect.fn.Return<CacheWatch, never, RunRecord | ToolRegistry> {
  const record = yield* RunRecord
  const registry = yield* ToolRegistry
  const router = Option.getOrUndefined(yield* Effect.serviceOption(ModelRouter))
  const selection = tools ?? {}
  let known: { readonly place: string; readonly prefix: CachedPrefix | undefined } = { place: "", prefix: undefined }
  let next: NextRequest | undefined

  /** Returns the offered tools: the same list as before if they are equal. */
  const readTools = Effect.map(registry.snapshot(selection), ({ definitions }) => {
    const before = known.prefix?.tools
    const isSame =
      before !== undefined && (before === definitions || JSON.stringify(before) === JSON.stringify(definitions))
    return isSame ? before : definitions
  })

  const readPrefix = Effect.fnUntraced(function* (filter: Parameters<typeof PromptCalls.readPromptCalls>[0]) {
    const { calls, chosen } = yield* Effect.provideService(PromptCalls.readPromptCalls(filter), RunRecord, record)
    const main = CacheMisses.selectMainCalls(calls)
    const call = main.at(-1)
    const caches = main.some(({ tokens }) => tokens.cacheRead + tokens.cacheWrite > 0)
    if (call === undefined || chosen === undefined || !caches) return undefined
    if (CacheMisses.countPrompt(call.tokens) < leastTokens) return undefined
    return { call, chosen, tools: (yield* registry.snapshot(selection)).definitions }
  })

  /** Returns the price of a prefix on the next route, if it is known. */
  const findPrice = Effect.fnUntraced(function* ({ tokens }: CacheMisses.PromptCall) {
    const { route } = yield* live.state
    if (router?.catalogue === undefined || router.primaryRoute === undefined) return undefined
    const { cost } = yield* router.catalogue.known(route ?? (yield* router.primaryRoute))
    const rates = Cost.findPromptRates(cost)
    const size = CacheMisses.countPrompt(tokens)
    return rates === undefined ? undefined : CacheMisses.priceTokens(size, tokens.cacheWrite > 0 ? size : 0, rates)
  })

  const readNext = Effect.fnUntraced(function* (
    { primary }: ModelRouter["Service"],
    { call }: CachedPrefix
  ): Effect.fn.Return<NextRequest> {
    const { route } = yield* live.state
    return { chosen: route ?? (yield* primary), tools: yield* readTools, price: yield* findPrice(call) }
  })

  return {
    refresh: Effect.fnUntraced(function* (turn) {
      const { session, turn: running } = yield* live.state
      if (running !== undefined || router === undefined) return
      const place = `${session.id} ${turn ?? ""}`
      if (place !== known.place) {
        const filter = turn === undefined ? { sessionId: session.id } : { sessionId: session.id, turnId: turn }
        known = { place, prefix: yield* readPrefix(filter) }
      }
      next = known.prefix === undefined ? undefined : yield* readNext(router, known.prefix)
    }),
    predict: (now) => {
      const { prefix } = known
      const reason = prefix === undefined || next === undefined ? undefined : findReason(prefix, next, now)
      return prefix === undefined || reason === undefined
        ? undefined
        : { reason, tokens: CacheMisses.countPrompt(prefix.call.tokens), price: next?.price }
    }
  }
})
