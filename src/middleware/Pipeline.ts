/**
 * Runs request middleware: each receives the current and the original payload, and may return a complete replacement.
 * Middleware that fails or is too slow is skipped, unless it is registered as closed. `ExecutionBlocked` is a veto here
 * too.
 *
 * **Details**
 *
 * Every accepted replacement adds one trace entry, even if it is identical to the payload. Source: `hermes-contract.md`
 * §1.4 and §1.6, with the order of `ARCHITECTURE.md` §7 (a pipeline, where the contract folds).
 */
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { ExecutionBlocked, MiddlewareFailure } from "../base/domain/AgentError.ts"
import type { TurnId } from "../base/domain/Ids.ts"
import * as IsolatedCall from "../base/domain/IsolatedCall.ts"
import { timeEffect } from "./CallTimer.ts"
import { type Faults, SetAside } from "./Faults.ts"
import * as Frozen from "./Frozen.ts"
import type { CallPurpose, Kind, OnFailure, TraceEntry } from "./Kind.ts"
import { addRequester } from "./Requesters.ts"
import { isPayload, makeError } from "./ResultContract.ts"

/** Time limit of one request middleware (`ARCHITECTURE.md` §7). */
const deadline = Duration.seconds(30)

/** Answer that leaves the payload unchanged. */
interface UnchangedPayload {
  readonly _tag: "Unchanged"
}

/** Answer that replaces the whole payload. */
interface RewrittenPayload<Payload> {
  readonly _tag: "Rewritten"
  readonly payload: Payload
  readonly trace: TraceEntry
}

/** Answer of request middleware. */
export type Answer<Payload> = UnchangedPayload | RewrittenPayload<Payload>

/** Returns the payload unchanged; see {@link UnchangedPayload}. */
export const unchanged: UnchangedPayload = { _tag: "Unchanged" }

/** Replaces the payload; see {@link RewrittenPayload}. The trace defaults to `{ source: "plugin" }`. */
export const replacePayload = <Payload>(payload: Payload, trace: TraceEntry = {}): RewrittenPayload<Payload> => ({
  _tag: "Rewritten",
  payload,
  trace: toTraceEntry(trace)
})

/** Returns the non-empty strings among `source`, `reason` and `name`. */
export const toTraceEntry = (given: object): TraceEntry => {
  const entry: Record<string, string> = {}
  for (const key of ["source", "reason", "name"]) {
    const value: unknown = Reflect.get(given, key)
    if (typeof value === "string" && value !== "") entry[key] = value
  }
  return Object.keys(entry).length === 0 ? { source: "plugin" } : entry
}

/** Request middleware as the pipeline runs it. */
export interface Rewriter<Payload, Info> {
  readonly kind: Kind
  readonly name: string
  readonly onFailure: OnFailure
  readonly rewrite: (payload: Payload, context: Info) => Effect.Effect<Answer<Payload>, unknown, unknown>
}

/** Final payload, and the trace of the accepted rewrites. */
export interface Outcome<Payload> {
  readonly payload: Payload
  readonly trace: ReadonlyArray<TraceEntry>
}

const noTrace: ReadonlyArray<TraceEntry> = []

/** Reads the answer of request middleware. Nothing leaves the payload unchanged. Throws for any other value. */
const readAnswer = <Payload>(given: Answer<Payload>): Answer<Payload> => {
  // The types of plugins on disk are not checked.
  const answer: Answer<Payload> | undefined | null = Frozen.acceptRequest(given)
  if (answer === undefined || answer === null || answer._tag === "Unchanged") return unchanged
  if (answer._tag !== "Rewritten") throw makeError(given, "unchanged, or replacePayload with an object")
  if (!isPayload(answer.payload)) throw makeError(answer.payload, "a replacement that is an object")
  return { ...answer, trace: toTraceEntry(answer.trace ?? {}) }
}

/** Runs the rewriters in order over one payload. `makeContext` creates the context of each, with the trace so far. */
export const run = Effect.fnUntraced(function* <Payload, Info extends CallPurpose & { readonly turnId: TurnId }>(
  rewriters: ReadonlyArray<Rewriter<Payload, Info>>,
  faults: Faults,
  original: Payload,
  makeContext: (trace: ReadonlyArray<TraceEntry>) => Info
): Effect.fn.Return<Outcome<Payload>, MiddlewareFailure | ExecutionBlocked, unknown> {
  let payload = original
  let trace = noTrace
  for (const rewriter of rewriters) {
    const { kind, name, onFailure, rewrite } = rewriter
    const context = makeContext(trace)
    const turnId = context.runTurnId ?? context.turnId
    if (faults.isSetAside(rewriter, turnId)) {
      if (onFailure === "open") continue
      return yield* Effect.fail(new MiddlewareFailure({ kind, middleware: name, cause: new SetAside() }))
    }
    const rewriting = Effect.suspend(() => rewrite(Frozen.makeView(payload), Frozen.makeView(context)))
    const contained = IsolatedCall.contain(Effect.map(rewriting, readAnswer<Payload>), { what: "it", deadline })
    const answer = yield* timeEffect(contained, (millis) => faults.noteCall(rewriter, turnId, millis)).pipe(
      Effect.updateContext((services: Context.Context<unknown>) => addRequester(services, rewriter)),
      Effect.catchCause((cause): Effect.Effect<UnchangedPayload, MiddlewareFailure | ExecutionBlocked> => {
        if (Cause.hasInterrupts(cause))
          return Effect.failCause(Cause.fromReasons(cause.reasons.filter(Cause.isInterruptReason)))
        const error = Cause.squash(cause)
        if (error instanceof ExecutionBlocked) return Effect.fail(error)
        if (onFailure === "closed") {
          faults.count(rewriter, turnId, error)
          return Effect.fail(new MiddlewareFailure({ kind, middleware: name, cause: error }))
        }
        const consequence = "the request continues unchanged"
        return Effect.as(faults.report({ kind, name, error, consequence, turn: turnId }), unchanged)
      })
    )
    if (answer._tag === "Rewritten") {
      payload = answer.payload
      trace = [...trace, answer.trace]
    }
  }
  return { payload, trace }
})
