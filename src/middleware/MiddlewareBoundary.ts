/**
 * Runs one wrapper around one call, according to the failure table of `ARCHITECTURE.md` §6. Each possible behaviour of
 * execution middleware (it returns, fails, dies, is interrupted, or calls `next` never, once, twice or too late)
 * matches exactly one row.
 *
 * **Details**
 *
 * | the wrapper | result |
 * | --- | --- |
 * | succeeds with a value | the value |
 * | succeeds with a value that breaks the contract of its kind (`ResultContract`) | as if it had died |
 * | succeeds with nothing | the result of the inner call; without a result, as if the wrapper had died before `next` |
 * | fails with a typed failure | that failure, which is intended: a veto or a translation |
 * | dies before `next` | the rest of the chain, unwrapped |
 * | dies after `next` succeeded | the value of the inner call |
 * | dies after `next` failed | the failure of the inner call, with the defect attached |
 * | dies after it interrupted `next` itself | `wrap_model_call`: the call runs again; others: `MiddlewareFailure` |
 * | ends while its `next` is still running in another fiber | the call is awaited, then as if it had died |
 * | calls `next` while an earlier call of `next` is running | the second call waits for the first and then fails, so that nothing runs twice; if this is unhandled, the wrapper dies |
 * | calls `next` in the `onPart` of its call | that call is refused immediately, which is a failure of the `onPart` |
 * | is interrupted with the run | interruption |
 * | wraps a tool call that waits for an answer | the call is suspended, whatever the wrapper returns |
 * | interrupts itself, joins a fiber that was interrupted, or hangs until its deadline | as if it had died |
 *
 * If a wrapper that is registered as closed dies, the call fails with `MiddlewareFailure` instead. A wrapper runs in a
 * separate fiber, and its deadline excludes the time of the inner call. If a wrapper only returns its call of `next`,
 * the inner call runs as it would without the wrapper. The request, the context and the inner value are immutable
 * views, and so are the values that the wrapper passes outwards.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { MiddlewareFailure } from "../base/domain/AgentError.ts"
import type { TurnId } from "../base/domain/Ids.ts"
import * as CallSuspension from "../base/domain/CallSuspension.ts"
import * as Interruption from "../base/domain/Interruption.ts"
import * as IsolatedCall from "../base/domain/IsolatedCall.ts"
import { CallTimer } from "./CallTimer.ts"
import type { Faults } from "./Faults.ts"
import * as Frozen from "./Frozen.ts"
import type { CallPurpose, Kind, OnFailure } from "./Kind.ts"
import * as Requesters from "./Requesters.ts"
import * as ResultContract from "./ResultContract.ts"
import {
  AttachedDefect,
  Downstream,
  isPassedThrough,
  isVeto,
  makeRefusal,
  NextMisused,
  StreamVeto
} from "./WrapperFailures.ts"

/** Runs the inner call. Without a request, the wrapper's own request is used. */
export interface Next<Req, Options, A, E, R> {
  (request?: Req, options?: Options): Effect.Effect<A, E, R>
}

/** A wrapper in the form that the chain runs. Its types are checked at construction and erased here. */
export interface Wrapper<Req, Options, A, Info> {
  readonly kind: Kind
  readonly name: string
  readonly onFailure: OnFailure
  /** True if a second call of `next` is a defect. */
  readonly singleUse: boolean
  readonly wrap: (
    next: Next<Req, Options, A, unknown, unknown>,
    context: Info
  ) => (request: Req) => Effect.Effect<A | undefined | null, unknown, unknown>
  /**
   * Present if the wrapper only provides services to the inner call. It then runs outside all wrappers, without a
   * separate fiber.
   */
  readonly services?: Services<Info> | undefined
  /** True if the services put each call into a span, which replaces the runtime's own span of the call. */
  readonly traces?: boolean | undefined
}

/** Returns the services for a call, derived from its current services. */
export interface Services<Info> {
  (given: Context.Context<never>, context: Info): Context.Context<never>
}

/** An entry that only provides services. */
export interface SurroundingServices<Info> {
  readonly kind: Kind
  readonly name: string
  readonly services: Services<Info>
}

/** A wrapper's call of `next`, with operations for the inner call. */
export interface NextInvocation {
  /**
   * Reports that the wrapper failed in the middle of the stream, or ends the stream if the wrapper is registered as
   * closed.
   */
  readonly fault: (error: unknown, consequence: string) => Effect.Effect<void>
  /** Returns the services of a fiber that runs the wrapper's `onPart` for this call. */
  readonly toOwnServices: <R>(services: Context.Context<R>) => Context.Context<R>
  /** Sets the effect that runs if the wrapper returns the result of this call. */
  readonly whenStanding: (release: Effect.Effect<void, unknown, unknown>) => void
}

/** The call of `next` whose stream the fiber is processing. */
const Streaming = Context.Reference<object | undefined>("hermes-effect/middleware/Streaming", {
  defaultValue: () => undefined
})

/**
 * Runs the inner call of a frame. `options` are the wrapper's own options, which are merged with the options of the
 * outer wrapper.
 */
interface CallBelow<Req, Options, A> {
  (request: Req, options: Options | undefined, calling: NextInvocation): Effect.Effect<A, unknown, unknown>
}

/** A call outside of any wrapper. */
const unwrapped: NextInvocation = {
  fault: () => Effect.void,
  toOwnServices: (services) => services,
  whenStanding: () => {}
}

const isNothing = (value: unknown): value is undefined | null => value === undefined || value === null

/** Data that all wrappers of a chain share. */
interface ChainContext<A, Info> {
  readonly faults: Faults
  readonly contract: ResultContract.ResultContract<A, Info>
  /** Returns the time limit in milliseconds for the wrapper's own work. Called when a wrapper has to be awaited. */
  readonly deadline: () => number
}

/** State of one call of one wrapper. */
class Frame<Req, Options, A, Info> {
  readonly #wrapper: Wrapper<Req, Options, A, Info>
  readonly #request: Req
  readonly #below: CallBelow<Req, Options, A>
  readonly #surroundings: ChainContext<A, Info>
  readonly #seen: Req
  readonly #turn: TurnId
  #time: IsolatedCall.OwnTime | undefined
  readonly #timer = new CallTimer()
  #calls = 0
  #running = false
  /** Fiber of the newest call of `next`. */
  #caller: Fiber.Fiber<unknown, unknown> | undefined
  #revoked = false
  /** Fails the calls of `next` that were made while another call was running. */
  #refused: Deferred.Deferred<never, never> | undefined
  #last: Exit.Exit<A, unknown> | undefined
  #cut: Exit.Exit<A, unknown> | undefined
  /** View of the newest inner value that the wrapper received. */
  #shown: A | undefined
  #release: Effect.Effect<void, unknown, unknown> | undefined
  #calling: NextInvocation | undefined
  /** Requesters outside of the wrapper, which apply to the code of `next`. */
  #outer: Requesters.RequesterSet | undefined
  /** State of the tool call that the wrapper wraps, if it can be suspended. */
  #suspension: CallSuspension.CallSuspension | undefined
  /** Newest call of `next` without options, and its request. */
  #plainCall: Effect.Effect<A, unknown, unknown> | undefined
  #asked: Req | undefined

  constructor(
    wrapper: Wrapper<Req, Options, A, Info>,
    request: Req,
    below: CallBelow<Req, Options, A>,
    surroundings: ChainContext<A, Info>,
    turn: TurnId
  ) {
    this.#wrapper = wrapper
    this.#request = request
    this.#below = below
    this.#surroundings = surroundings
    this.#seen = Frozen.makeView(request)
    this.#turn = turn
  }

  /** Calls the wrapper, runs its effect in a separate fiber, and interprets the result. */
  run(context: Info, restore: IsolatedCall.Restore): Effect.Effect<A, unknown, unknown> {
    const wrapped = this.#wrapped(context)
    // The wrapper only returned its call of `next`, so it has no code that must be run or observed.
    if (wrapped === this.#plainCall && this.#calls === 0) {
      this.#revoked = true
      this.#noteCall()
      return restore(this.#passOn(this.#asked))
    }
    return IsolatedCall.forkIsolated(
      Effect.withFiber((fiber) => {
        this.#timer.start(fiber.getRef(Clock.Clock))
        this.#outer = fiber.getRef(Requesters.Requesters)
        this.#suspension = fiber.getRef(CallSuspension.CurrentSuspension)
        this.#suspension?.fibers.push(fiber)
        fiber.setContext(Requesters.addRequester(fiber.context, this.#wrapper))
        return wrapped
      }),
      (fiber) => this.#read(IsolatedCall.awaitExit(fiber, this.#own(), restore, true), context, restore)
    )
  }

  /** Runs the inner call of a wrapper that does nothing else. A request that is refused is the wrapper's failure. */
  #passOn(asked: Req | undefined): Effect.Effect<A, unknown, unknown> {
    let request: Req
    try {
      request = this.#requested(asked)
    } catch (error) {
      return this.#failed(error)
    }
    return this.#below(request, undefined, unwrapped)
  }

  #wrapped(context: Info): Effect.Effect<unknown, unknown, unknown> {
    try {
      return this.#wrapper.wrap(this.#next, context)(this.#seen)
    } catch (defect) {
      return Effect.die(defect)
    }
  }

  #own(): IsolatedCall.OwnTime {
    return (this.#time ??= IsolatedCall.makeOwnTime(this.#surroundings.deadline))
  }

  #requested(given: Req | undefined): Req {
    return isNothing(given) || given === this.#seen ? this.#request : Frozen.acceptRequest(given)
  }

  readonly #next: Next<Req, Options, A, unknown, unknown> = (given, options) => {
    const call = Effect.withFiber((fiber) => this.#call(given, options, fiber))
    if (options === undefined) {
      this.#plainCall = call
      this.#asked = given
    }
    return call
  }

  #call(
    given: Req | undefined,
    options: Options | undefined,
    caller: Fiber.Fiber<unknown, unknown>
  ): Effect.Effect<A, unknown, unknown> {
    const { kind, name, singleUse } = this.#wrapper
    if (this.#revoked)
      return Effect.die(new NextMisused(`${kind} middleware "${name}" called next() after it returned`))
    // Waiting inside the call's own stream would never end.
    if (this.#running && caller.getRef(Streaming) === this.#calling) return Effect.die(makeRefusal(kind, name))
    // The second call is rejected only after the running call has ended. Otherwise the failure would interrupt that
    // call.
    if (this.#running) return Deferred.await((this.#refused ??= Deferred.makeUnsafe()))
    if (this.#calls > 0 && singleUse) return Effect.die(makeRefusal(kind, name))
    const request = this.#requested(given)
    this.#calls++
    this.#running = true
    this.#caller = caller
    this.#last = undefined
    this.#release = undefined
    this.#own().pause()
    this.#timer.pause()
    const calling: NextInvocation = {
      fault: this.#fault,
      toOwnServices: (services) => Context.add(Requesters.addRequester(services, this.#wrapper), Streaming, calling),
      whenStanding: this.#whenStanding
    }
    this.#calling = calling
    const called = this.#below(request, options, calling)
    const own = caller.context
    if (this.#outer !== undefined) caller.setContext(Context.add(own, Requesters.Requesters, this.#outer))
    const restoreContext = (exit: Exit.Exit<A, unknown>): Effect.Effect<void> => {
      caller.setContext(own)
      return this.#ended(exit)
    }
    return Effect.map(Effect.onExit(called, restoreContext), (value) => (this.#shown = Frozen.makeView(value)))
  }

  readonly #whenStanding: NextInvocation["whenStanding"] = (release) => {
    this.#release = release
  }

  readonly #fault: NextInvocation["fault"] = (error, consequence) =>
    this.#wrapper.onFailure === "closed"
      ? Effect.die(new StreamVeto(this.#wrapper, error))
      : this.#report(error, consequence)

  readonly #ended = (exit: Exit.Exit<A, unknown>): Effect.Effect<void> => {
    this.#own().resume()
    this.#timer.resume()
    this.#running = false
    if (this.#refused !== undefined)
      Deferred.doneUnsafe(this.#refused, Effect.die(makeRefusal(this.#wrapper.kind, this.#wrapper.name)))
    this.#refused = undefined
    // A call that the wrapper itself interrupted (a timeout, a race) has neither a value nor a failure.
    if (Exit.hasInterrupts(exit)) this.#cut = exit
    else this.#last = exit
    return Effect.void
  }

  #read(
    ended: Effect.Effect<Exit.Exit<unknown, unknown> | undefined>,
    context: Info,
    restore: IsolatedCall.Restore
  ): Effect.Effect<A, unknown, unknown> {
    return Effect.matchCauseEffect(ended, {
      onFailure: (cause) => {
        this.#revoked = true
        this.#noteCall()
        return Effect.failCause(cause)
      },
      onSuccess: (exit) => {
        this.#revoked = true
        this.#noteCall()
        return this.#running ? restore(this.#abandoned(exit, context)) : this.#interpret(exit, context, restore)
      }
    })
  }

  /** Interprets the end of the wrapper; `undefined` if it missed its deadline. */
  #interpret(
    exit: Exit.Exit<unknown, unknown> | undefined,
    context: Info,
    restore: IsolatedCall.Restore
  ): Effect.Effect<A, unknown, unknown> {
    if (this.#suspension?.isSuspended === true) return Effect.fail(new CallSuspension.CallSuspended())
    if (exit === undefined) return restore(this.#failed(this.#late()))
    if (Exit.isFailure(exit)) return restore(this.#onFailure(exit.cause))
    if (isNothing(exit.value)) return restore(this.#onNothing())
    if (this.#last !== undefined && Exit.isSuccess(this.#last) && exit.value === this.#shown) {
      const { value } = this.#last
      return this.#release === undefined ? Effect.succeed(value) : restore(this.#standing(value))
    }
    return this.#judged(exit.value, context, restore)
  }

  #noteCall(): void {
    this.#surroundings.faults.noteCall(this.#wrapper, this.#turn, this.#timer.getSpentMillis())
  }

  #late(): IsolatedCall.DeadlineExceeded {
    return new IsolatedCall.DeadlineExceeded(this.#surroundings.deadline())
  }

  #report(error: unknown, consequence: string): Effect.Effect<void> {
    const { kind, name } = this.#wrapper
    return this.#surroundings.faults.report({ kind, name, error, consequence, turn: this.#turn })
  }

  #closed(cause: unknown): Effect.Effect<never, MiddlewareFailure> {
    const { kind, name } = this.#wrapper
    this.#surroundings.faults.count(this.#wrapper, this.#turn, cause)
    return Effect.fail(new MiddlewareFailure({ kind, middleware: name, cause }))
  }

  /** Handles a failure after the wrapper interrupted its own call of `next`. */
  #unknown(cause: unknown): Effect.Effect<A, unknown, unknown> {
    const { kind, name, singleUse } = this.#wrapper
    if (singleUse || kind !== "wrap_model_call")
      return Effect.fail(new MiddlewareFailure({ kind, middleware: name, cause, isResultUnknown: true }))
    return Effect.andThen(
      this.#report(cause, "the call is repeated without it"),
      this.#below(this.#request, undefined, unwrapped)
    )
  }

  /**
   * Handles a wrapper that ended while its call of `next` runs in another fiber. The call is awaited, and interrupted
   * with the run. A veto still takes effect, and so does the wrapper's end if it interrupted the call.
   */
  #abandoned(exit: Exit.Exit<unknown, unknown> | undefined, context: Info): Effect.Effect<A, unknown, unknown> {
    const caller = this.#caller
    const over =
      caller === undefined ? Effect.void : Effect.onInterrupt(Fiber.await(caller), () => Fiber.interrupt(caller))
    return Effect.andThen(
      over,
      Effect.suspend(() =>
        this.#last === undefined || (exit !== undefined && Exit.isFailure(exit) && isVeto(exit.cause))
          ? this.#interpret(exit, context, (effect) => effect)
          : this.#failed(
              exit === undefined ? this.#late() : new Error("it ended while its call of next was still running")
            )
      )
    )
  }

  /** Handles a wrapper that returns the result of the inner call. */
  #standing(value: A): Effect.Effect<A, unknown, unknown> {
    return this.#release === undefined ? Effect.succeed(value) : Effect.as(this.#release, value)
  }

  /** Accepts a value that the wrapper created, or treats it as a failure if it breaks the contract of the kind. */
  #judged(value: unknown, context: Info, restore: IsolatedCall.Restore): Effect.Effect<A, unknown, unknown> {
    const { contract } = this.#surroundings
    const fault = () => this.#failed(ResultContract.makeError(value, contract.expected))
    try {
      if (contract.isResult(value)) {
        const accepted = Frozen.accept(value)
        return this.#release === undefined ? Effect.succeed(accepted) : restore(this.#onValue(accepted))
      }
      const reading = contract.read?.(value, context)
      return restore(
        reading === undefined
          ? fault()
          : Effect.matchCauseEffect(reading, {
              onFailure: (cause) => (Cause.hasInterrupts(cause) ? Effect.failCause(cause) : fault()),
              onSuccess: Effect.succeed
            })
      )
    } catch (error) {
      // A getter or a proxy of the value failed.
      return restore(this.#failed(error))
    }
  }

  /** Handles a failure of the wrapper itself. */
  #failed(error: unknown): Effect.Effect<A, unknown, unknown> {
    const last = this.#last
    if (this.#suspension?.isSuspended === true) return Effect.fail(new CallSuspension.CallSuspended())
    if (this.#wrapper.onFailure === "closed") return this.#closed(error)
    if (this.#calls === 0) {
      return Effect.andThen(
        this.#report(error, "the call continues without it"),
        this.#below(this.#request, undefined, unwrapped)
      )
    }
    if (last === undefined) return this.#unknown(error)
    if (Exit.isSuccess(last))
      return Effect.andThen(this.#report(error, "the result from below is kept"), this.#standing(last.value))
    return Effect.andThen(
      this.#report(error, "the failure from below is kept"),
      Effect.failCause(Cause.annotate(last.cause, Context.make(AttachedDefect, error)))
    )
  }

  #onNothing(): Effect.Effect<A, unknown, unknown> {
    const last = this.#last
    if (last === undefined) return this.#failed(new Error("it returned nothing, and there is no result from below"))
    return Exit.isSuccess(last) ? this.#standing(last.value) : last
  }

  #onValue(value: A): Effect.Effect<A, unknown, unknown> {
    const last = this.#last
    return last !== undefined && Exit.isSuccess(last) && last.value === value
      ? this.#standing(value)
      : Effect.succeed(value)
  }

  #onFailure(cause: Cause.Cause<unknown>): Effect.Effect<A, unknown, unknown> {
    const last = this.#last
    const misuse = cause.reasons.find((reason) => Cause.isDieReason(reason) && reason.defect instanceof NextMisused)
    if (misuse !== undefined && Cause.isDieReason(misuse)) {
      const others = Cause.fromReasons(cause.reasons.filter((reason) => reason !== misuse))
      if (!Cause.hasFails(others) || isPassedThrough(others, last)) return this.#failed(misuse.defect)
    }
    if (Cause.hasFails(cause)) {
      return last === undefined || Exit.isSuccess(last) || isPassedThrough(cause, last) || isVeto(cause)
        ? Effect.failCause(cause)
        : Effect.failCause(Cause.annotate(cause, Context.make(Downstream, last.cause)))
    }
    if (Cause.hasInterrupts(cause)) {
      return isPassedThrough(cause, this.#cut)
        ? Effect.failCause(cause)
        : this.#failed(new Interruption.SelfInterrupted("it"))
    }
    if (isPassedThrough(cause, last)) {
      const veto = cause.reasons.find((reason) => Cause.isDieReason(reason) && reason.defect instanceof StreamVeto)
      return veto !== undefined &&
        Cause.isDieReason(veto) &&
        veto.defect instanceof StreamVeto &&
        veto.defect.wrapper === this.#wrapper
        ? this.#closed(veto.defect.cause)
        : Effect.failCause(cause)
    }
    return this.#failed(Cause.squash(cause))
  }
}

/** Evaluates one wrapper around one call by the failure table. The wrapper cannot change `context`. */
export const evaluate = <Req, Options, A, Info extends CallPurpose & { readonly turnId: TurnId }>(
  wrapper: Wrapper<Req, Options, A, Info>,
  context: Info,
  request: Req,
  below: CallBelow<Req, Options, A>,
  surroundings: ChainContext<A, Info>
): Effect.Effect<A, unknown, unknown> =>
  Effect.uninterruptibleMask((restore) =>
    new Frame(wrapper, request, below, surroundings, context.runTurnId ?? context.turnId).run(context, restore)
  )
