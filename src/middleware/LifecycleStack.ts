/**
 * Runs the phases of lifecycle middleware in order, isolates each method, and stores the methods created for each run.
 *
 * Source: `nexau.md` §1.3–1.7, `ARCHITECTURE.md` §6.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import { ExecutionBlocked, MiddlewareFailure } from "../base/domain/AgentError.ts"
import type { SessionId, TaskId, TurnId } from "../base/domain/Ids.ts"
import { type ExecuteOptions, type OnPart, type StreamPart, withParts } from "../base/domain/ModelCall.ts"
import * as IsolatedCall from "../base/domain/IsolatedCall.ts"
import { hasSubstance } from "./Chain.ts"
import { type Faults, SetAside } from "./Faults.ts"
import { timeEffect } from "./CallTimer.ts"
import * as Frozen from "./Frozen.ts"
import type { CallPurpose, Kind, PhaseKind } from "./Kind.ts"
import type {
  BoundMethods,
  DeniedCall,
  Entry,
  Fields,
  Phase,
  RunFacts,
  SkippedCall,
  StreamPartInput
} from "./Lifecycle.ts"
import type { CallContext, ModelAnswer, ModelCallParams } from "./Middleware.ts"
import type { Wrapper } from "./MiddlewareBoundary.ts"
import { cut, type MethodOutcome, nothing, readResult } from "./LifecycleResult.ts"
import type { LoopControl } from "./LoopControl.ts"
import * as PlainReturn from "./PlainReturn.ts"

/** Time limit of one method (`ARCHITECTURE.md` §7). */
const deadline = Duration.seconds(30)

/** Failure of a phase: a failed policy, or a veto. */
export type PhaseFailure = MiddlewareFailure | ExecutionBlocked

/** Changes made in one phase, with the last value of each field. */
export interface Changes {
  readonly fields: Readonly<Partial<Fields>>
  /** Denial or skip by a `beforeTool` method, which ends the phase. */
  readonly stopped?: DeniedCall | SkippedCall | undefined
  /** Control of the loop by a method, with the name of its middleware. It ends a `before*` phase. */
  readonly control?: { readonly by: string; readonly result: LoopControl } | undefined
  /** Name of the middleware that made the last change. */
  readonly by?: string | undefined
}

/** The lifecycle middleware of a stack. */
export interface LifecycleStack {
  readonly entries: ReadonlyArray<Entry>
  /** Creates the methods of a run. A failing factory that is registered as closed fails the run. */
  readonly open: (run: RunFacts) => Effect.Effect<void, MiddlewareFailure>
  readonly close: (turnId: TurnId) => void
  /** Returns the facts of an open run, or facts of the call itself if it belongs to no open run. */
  readonly getFacts: (ids: CallOwner) => RunFacts
  /**
   * Runs a phase. `toInput` builds the input of a method from the current fields. `seen` is the state of the
   * `streamPart` methods in one stream.
   */
  readonly run: (
    phase: Phase,
    ids: CallOwner,
    toInput: (run: RunFacts, fields: Readonly<Partial<Fields>>) => object,
    seen?: StreamMethodState
  ) => Effect.Effect<Changes, PhaseFailure>
  /** Returns the methods of an entry for a call. */
  readonly getMethods: (entry: Entry, ids: CallOwner) => Effect.Effect<BoundMethods, unknown, unknown>
}

/** State of the `streamPart` methods in one stream. */
interface StreamMethodState {
  /** Entries that missed their deadline and are skipped. */
  readonly late: Set<Entry>
  /** Entries that changed parts. If one of them fails, no more text is shown, so that removed content stays removed. */
  readonly guards: Set<Entry>
  isCut: boolean
}

/** Ids that identify the run and call for which a method runs. */
export interface CallOwner extends Pick<CallPurpose, "runTurnId" | "task"> {
  readonly sessionId: SessionId
  readonly taskId: TaskId
  readonly turnId: TurnId
  readonly platform?: string | undefined
}

const wireName: { readonly [K in Phase]: PhaseKind } = {
  beforeAgent: "before_agent",
  afterAgent: "after_agent",
  beforeModel: "before_model",
  afterModel: "after_model",
  beforeTool: "before_tool",
  afterTool: "after_tool",
  streamPart: "stream_part"
}

const isFirstToLast = (phase: Phase): boolean => !phase.startsWith("after")

/** Returns the value with which foreign code failed. */
const unwrapThrown = (cause: Cause.Cause<unknown>): unknown => {
  const error = Cause.squash(cause)
  return error instanceof PlainReturn.Thrown ? error.error : error
}

/** Handling of a failed call of foreign code. */
interface ForeignCall<A> {
  readonly kind: Kind | PhaseKind
  readonly turn: TurnId
  /** Result that replaces a failed call. */
  readonly fallback: A
  /** Consequence of the failure, which ends the warning. */
  readonly consequence: string
  /** State of the `streamPart` methods in one stream. */
  readonly seen?: StreamMethodState | undefined
}

/** Creates the lifecycle middleware of a stack, or returns `undefined` if there are no entries. */
export const make = (entries: ReadonlyArray<Entry>, faults: Faults): LifecycleStack | undefined => {
  if (entries.length === 0) return undefined
  const runs = new Map<TurnId, { readonly facts: RunFacts; readonly methods: ReadonlyMap<Entry, BoundMethods> }>()
  const findFacts = ({ platform = "library", runTurnId, sessionId, task, taskId, turnId }: CallOwner): RunFacts => {
    const facts = runs.get(runTurnId ?? turnId)?.facts ?? { sessionId, taskId, turnId, platform, isChild: false }
    return task === undefined ? facts : { ...facts, turnId, platform, task }
  }

  /** Contains a failure of foreign code: returns `fallback` if the entry is registered as open. */
  const runWithFallback = <A>(
    entry: Entry,
    effect: Effect.Effect<A, unknown, unknown>,
    { consequence, fallback, kind, seen, turn }: ForeignCall<A>
  ): Effect.Effect<A, PhaseFailure> => {
    const { name, onFailure } = entry
    const fault = { kind, name }
    if (faults.isSetAside(fault, turn))
      return onFailure === "closed"
        ? Effect.fail(new MiddlewareFailure({ kind, middleware: name, cause: new SetAside() }))
        : Effect.succeed(fallback)
    const caught = IsolatedCall.contain(Effect.interruptible(effect), { what: "it", deadline }).pipe(
      Effect.catchCause((cause): Effect.Effect<A, PhaseFailure> => {
        if (Cause.hasInterrupts(cause))
          return Effect.failCause(Cause.fromReasons(cause.reasons.filter(Cause.isInterruptReason)))
        const error = unwrapThrown(cause)
        if (error instanceof IsolatedCall.DeadlineExceeded) seen?.late.add(entry)
        if (error instanceof ExecutionBlocked) return Effect.fail(error)
        if (onFailure === "open") return Effect.as(faults.report({ kind, name, error, consequence, turn }), fallback)
        faults.count(fault, turn, error)
        return Effect.fail(new MiddlewareFailure({ kind, middleware: name, cause: error }))
      })
    )
    const timed = timeEffect(caught, (millis) => faults.noteCall(fault, turn, millis))
    // The services of middleware are provided when the stack is created.
    return timed as Effect.Effect<A, PhaseFailure>
  }

  const makeMethods = (entry: Entry, facts: RunFacts): Effect.Effect<BoundMethods, PhaseFailure> =>
    entry.shared !== undefined
      ? Effect.succeed(entry.shared)
      : runWithFallback(
          entry,
          Effect.suspend(() => entry.make(facts)),
          { kind: "lifecycle", turn: facts.turnId, fallback: {}, consequence: "the run continues without it" }
        )

  const findMethods = (entry: Entry, ids: CallOwner): Effect.Effect<BoundMethods, PhaseFailure> => {
    const known = entry.shared ?? runs.get(ids.runTurnId ?? ids.turnId)?.methods.get(entry)
    return known === undefined ? makeMethods(entry, findFacts(ids)) : Effect.succeed(known)
  }

  return {
    entries,
    getFacts: findFacts,
    getMethods: findMethods,
    open: (facts) =>
      Effect.gen(function* () {
        const methods = new Map<Entry, BoundMethods>()
        for (const entry of entries) methods.set(entry, yield* makeMethods(entry, facts))
        runs.set(facts.turnId, { facts, methods })
      }).pipe(
        Effect.catchTag("ExecutionBlocked", (cause) =>
          Effect.fail(new MiddlewareFailure({ kind: "lifecycle", middleware: "factory", cause }))
        )
      ),
    close: (turnId) => void runs.delete(turnId),
    run: Effect.fnUntraced(function* (phase, ids, toInput, seen) {
      let fields: Readonly<Partial<Fields>> = {}
      let by: string | undefined
      let control: Changes["control"]
      const facts = findFacts(ids)
      for (const entry of isFirstToLast(phase) ? entries : entries.toReversed()) {
        if (seen?.late.has(entry) === true) continue
        const method = (yield* findMethods(entry, ids))[phase]
        if (method === undefined) continue
        const input = Object.freeze(toInput(facts, fields))
        const called = Effect.map(
          PlainReturn.call(() => method(input)),
          (value) => readResult(phase, value)
        )
        const isGuard = seen?.guards.has(entry) === true
        const given = yield* runWithFallback<MethodOutcome>(entry, called, {
          kind: wireName[phase],
          turn: ids.runTurnId ?? ids.turnId,
          fallback: isGuard ? cut : nothing,
          consequence: isGuard ? "the rest of the stream is withheld" : "it is skipped",
          seen
        })
        if (given === cut && seen !== undefined) {
          seen.isCut = true
          return { fields: cut.fields, by: entry.name }
        }
        if (given._tag === "NoChanges") continue
        by = entry.name
        if (given._tag === "Denied" || given._tag === "Skipped") return { fields, stopped: given, by }
        if (given._tag !== "Modifications") {
          control = { by, result: given }
          if (isFirstToLast(phase)) break
          continue
        }
        if (given.fields.parts !== undefined) seen?.guards.add(entry)
        const forced = fields.forceContinue === true
        fields = { ...fields, ...given.fields, ...(forced ? { forceContinue: true } : {}) }
      }
      return { fields, by, control }
    })
  }
}

/**
 * Creates the innermost wrapper of a model call, which passes the parts to the `streamPart` methods. Returns
 * `undefined` if there are no such methods.
 */
export const makeStreamWrapper = (
  lifecycle: () => LifecycleStack | undefined,
  entries: ReadonlyArray<Entry>
): ReadonlyArray<Wrapper<ModelCallParams, ExecuteOptions, ModelAnswer, CallContext>> => {
  const seeing = entries.filter(({ shared }) => shared === undefined || shared.streamPart !== undefined)
  if (seeing.length === 0) return []
  return [
    {
      kind: "wrap_model_call",
      name: "stream_part",
      onFailure: "closed",
      singleUse: false,
      wrap: (next, info) => (request) =>
        Effect.gen(function* () {
          const stack = lifecycle()
          const methods =
            stack === undefined ? [] : yield* Effect.forEach(seeing, (entry) => stack.getMethods(entry, info))
          if (stack === undefined || methods.every(({ streamPart }) => streamPart === undefined))
            return yield* next(request)
          const seen: StreamMethodState = { late: new Set(), guards: new Set(), isCut: false }
          let failed: PhaseFailure | undefined
          let lost = false
          const recordLoss = (
            given: ReadonlyArray<StreamPart>,
            parts: ReadonlyArray<StreamPart> = given
          ): ReadonlyArray<StreamPart> => {
            if (seen.isCut) lost ||= hasSubstance(given)
            return parts
          }
          const onPart: OnPart = (given) => {
            if (seen.isCut) return Effect.succeed(recordLoss(given, cut.fields.parts))
            return stack
              .run(
                "streamPart",
                info,
                (run, { parts = given }): StreamPartInput => ({ run, parts: Frozen.makeView(parts) }),
                seen
              )
              .pipe(
                Effect.map(({ fields }) => recordLoss(given, fields.parts)),
                Effect.catch((error) => {
                  failed = error
                  return Effect.die(error)
                })
              )
          }
          const answer = yield* Effect.catchCause(next(request, { onPart }), (cause) =>
            failed === undefined ? Effect.failCause(cause) : Effect.fail(failed)
          )
          return lost
            ? { ...answer, response: withParts(answer.response, answer.response.parts, "content-filter") }
            : answer
        })
    }
  ]
}

/**
 * Places the wrappers of lifecycle middleware in the stack of wrappers. Wrappers that a factory creates are looked up
 * for each call.
 */
export const makeLifecycleWrapper = <Req, Options, A, Info extends CallOwner>(
  lifecycle: () => LifecycleStack | undefined,
  entry: Entry,
  kind: "wrapModelCall" | "wrapToolCall"
): ReadonlyArray<Wrapper<Req, Options, A, Info>> => {
  if (entry.shared !== undefined && entry.shared[kind] === undefined) return []
  const wire = kind === "wrapModelCall" ? "wrap_model_call" : "wrap_tool_call"
  return [
    {
      kind: wire,
      name: entry.name,
      onFailure: entry.onFailure,
      singleUse: false,
      wrap: (next, info) => (request) =>
        Effect.flatMap(lifecycle()?.getMethods(entry, info) ?? Effect.succeed<BoundMethods>({}), (methods) => {
          const wrap = methods[kind]
          if (wrap === undefined) return next(request)
          // The typed constructors checked the shape of a wrapper. A wrapper in plain code is checked here.
          const wrapped = wrap(next, info)
          if (!Predicate.isFunction(wrapped))
            return Effect.die(new TypeError(`${wire} takes (next, context) and gives a function of the request`))
          const answer: unknown = wrapped(request)
          // A rejected promise is a fault of the wrapper. Only typed code has intended failures.
          const settled = Effect.isEffect(answer) ? answer : Effect.promise(async () => answer)
          return settled as Effect.Effect<A, unknown, unknown>
        })
    }
  ]
}
