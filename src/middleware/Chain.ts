/**
 * Runs a call through its wrappers, the first one outermost. Without wrappers the call is the base operation itself.
 *
 * Source: `hermes-contract.md` §1.7, `ARCHITECTURE.md` §6.
 */
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Response from "effect/ai/Response"
import { MiddlewareFailure } from "../base/domain/AgentError.ts"
import * as Assembler from "../base/domain/Assembler.ts"
import type { TurnId } from "../base/domain/Ids.ts"
import * as Json from "../base/domain/Json.ts"
import {
  type ContentPart,
  type ExecuteOptions,
  hold,
  type ModelResponse,
  type OnPart,
  type StreamPart,
  withParts
} from "../base/domain/ModelCall.ts"
import * as IsolatedCall from "../base/domain/IsolatedCall.ts"
import type { ToolOutput } from "../base/domain/ToolOutput.ts"
import { type Faults, SetAside } from "./Faults.ts"
import type { CallPurpose, ToolArguments } from "./Kind.ts"
import * as Frozen from "./Frozen.ts"
import * as MiddlewareBoundary from "./MiddlewareBoundary.ts"
import { isParts, makeError, output, type ResultContract } from "./ResultContract.ts"

/** Base operation of the chain. */
interface Base<Req, Options, A, E, R> {
  (request: Req, options: Options | undefined): Effect.Effect<A, E, R>
}

/** Merges a wrapper's own options with the options from the outer wrapper, and returns the inner call. */
interface Join<Req, Options, A> {
  (
    below: (request: Req, options: Options | undefined) => Effect.Effect<A, unknown, unknown>,
    request: Req,
    own: Options | undefined,
    above: Options | undefined,
    calling: MiddlewareBoundary.NextInvocation,
    deadline: () => number
  ): Effect.Effect<A, unknown, unknown>
}

/** Properties of the calls that a chain runs. */
interface Shape<Req, Options, A, Info> {
  readonly join: Join<Req, Options, A>
  readonly contract: ResultContract<A, Info>
}

/** Passes calls without options on unchanged. */
const joinNothing = <Req, A>(
  below: (request: Req, options: undefined) => Effect.Effect<A, unknown, unknown>,
  request: Req
): Effect.Effect<A, unknown, unknown> => below(request, undefined)

/** Shape of tool calls, which have no options. */
export const toolCalls: Shape<ToolArguments, undefined, ToolOutput, unknown> = { join: joinNothing, contract: output }

/** The response that an outer wrapper receives after the streamed parts were changed. */
interface Responses<A> {
  readonly get: (answer: A) => ModelResponse
  readonly set: (answer: A, response: ModelResponse) => A
}

/** Maximum numbers of parts, and of characters in them, that an `onPart` may hold back. */
export const heldAtMost = { parts: 50_000, characters: 1_000_000 }

const endings: ReadonlySet<string> = new Set(["text-end", "reasoning-end", "response-metadata", "finish"])

/** Returns false for parts that only mark an end. */
export const hasSubstance = (parts: ReadonlyArray<StreamPart>): boolean => parts.some(({ type }) => !endings.has(type))

const countDeltaCharacters = (parts: ReadonlyArray<StreamPart>): number => {
  let size = 0
  for (const part of parts) if ("delta" in part) size += part.delta.length
  return size
}

const joinText = (parts: ReadonlyArray<ContentPart>): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("")

const serializeCalls = (parts: ReadonlyArray<ContentPart>): string =>
  Json.toText(parts.flatMap((part) => (part.type === "tool-call" ? [[part.id, part.name, part.params]] : [])))

/**
 * Returns true if an answer equals the streamed parts, or equals their end if the first part arrived in an earlier
 * attempt.
 */
const isSameAsSent = (
  answer: ReadonlyArray<ContentPart>,
  sent: ReadonlyArray<ContentPart>,
  continued: boolean
): boolean => {
  const text = joinText(sent)
  const isText = continued ? joinText(answer).endsWith(text) : joinText(answer) === text
  return isText && serializeCalls(answer) === serializeCalls(sent)
}

/** Returns true if an answer or its streamed parts contain text, a call or a file. */
const hasContent = (parts: ReadonlyArray<ContentPart | StreamPart>): boolean =>
  parts.some((part) =>
    "delta" in part
      ? part.delta !== ""
      : "text" in part
        ? part.text !== ""
        : part.type === "tool-call" || part.type === "file"
  )

/** Drops the first `length` characters of text from an answer. */
const dropText = (response: ModelResponse, length: number): ModelResponse => {
  let left = length
  const parts = response.parts.map((part) => {
    if (part.type !== "text" || left === 0) return part
    const { text } = part
    const dropped = Math.min(left, text.length)
    left -= dropped
    return Response.makePart("text", { text: text.slice(dropped), metadata: part.metadata })
  })
  return withParts(
    response,
    parts.filter((part) => part.type !== "text" || part.text !== "")
  )
}

/**
 * Splits an answer that did not stream into parts. `earlier` is the parts that were passed on from attempts that broke
 * off, with which the answer begins.
 */
const splitAnswer = (response: ModelResponse, earlier: ReadonlyArray<ContentPart>): ReadonlyArray<StreamPart> => {
  const text = joinText(earlier)
  const isContinued = text !== "" && joinText(response.parts).startsWith(text)
  return Assembler.toParts(isContinued ? dropText(response, text.length) : response)
}

/**
 * Combines the `onPart` of a model call's wrapper with the `onPart` of the outer wrapper: streamed parts pass through
 * both. If `onPart` changed a part, the response that the wrapper receives is assembled from the parts that `onPart`
 * passed on.
 *
 * **Details**
 *
 * A guard applies in every mode. A complete answer (because streaming is off, or the route or an inner wrapper does not
 * stream) passes through `onPart` in one call, before the wrapper receives it. An answer with which an inner wrapper
 * replaced the streamed answer also passes through `onPart`, but its parts are not passed on, because other text was
 * already shown.
 *
 * If `onPart` fails, the parts it held and all later parts are passed on without it. If it had changed a part before,
 * no further text is shown, so that removed content stays removed. The answer, also for the wrapper, is then the shown
 * text and ends with `content-filter`.
 */
export const joinOnPart =
  <Req, A>({ get, set }: Responses<A>): Join<Req, ExecuteOptions, A> =>
  (below, request, own, above, calling, deadline) => {
    const mine = own?.onPart
    if (mine === undefined) return below(request, above)
    const outer = above?.onPart
    let assembler = Assembler.make()
    /** All received parts, starting with the retained text of an attempt that broke off. */
    let sent = Assembler.make()
    let continued = false
    /** True after the first part of the current attempt arrived. */
    let streams = false
    /** True while a complete answer is read that replaces the parts already passed on. */
    let replaces = false
    let changed = false
    /** True after `onPart` changed a part, in any attempt. */
    let guards = false
    let broken = false
    /** True after a part was withheld. */
    let lost = false
    let held: Array<StreamPart> = []
    let size = 0
    let since: number | undefined

    const passOn = (parts: ReadonlyArray<StreamPart>): Effect.Effect<void> => {
      assembler.add(parts)
      return outer === undefined || replaces || parts.length === 0 ? Effect.void : Effect.asVoid(outer(parts))
    }
    const dropHeld = (): void => {
      held = []
      size = 0
      since = undefined
    }
    /** Passes on the parts after an `onPart` failed, unless it guards the rest. */
    const bypassOnPart = (parts: ReadonlyArray<StreamPart>): Effect.Effect<void> => {
      if (!guards) return passOn(parts)
      lost ||= hasSubstance(parts)
      return Effect.void
    }
    const handleOnPartFailure = (error: unknown, parts: ReadonlyArray<StreamPart>): Effect.Effect<void> => {
      broken = true
      dropHeld()
      const consequence = guards ? "the rest of the stream is withheld" : "the rest of the stream bypasses it"
      return Effect.andThen(
        calling.fault(error, consequence),
        Effect.suspend(() => bypassOnPart(parts))
      )
    }
    const holdParts = (parts: ReadonlyArray<StreamPart>, now: number): Effect.Effect<void> => {
      if (since === undefined) held.push(...parts)
      since ??= now
      size += countDeltaCharacters(parts)
      const excess =
        held.length > heldAtMost.parts
          ? `${heldAtMost.parts} parts`
          : size > heldAtMost.characters
            ? `${heldAtMost.characters} characters`
            : now - since > deadline()
              ? `${deadline() / 1000} s`
              : undefined
      return excess === undefined
        ? Effect.void
        : handleOnPartFailure(new Error(`onPart held the stream for more than ${excess}`), held)
    }

    const onPart: OnPart = (parts) =>
      Effect.suspend(() => {
        streams ||= hasContent(parts)
        sent.add(parts)
        if (broken) return Effect.as(bypassOnPart(parts), parts)
        if (since !== undefined) held.push(...parts)
        const given = since === undefined ? parts : held
        const seen = Effect.map(
          Effect.suspend(() => mine(Frozen.makeView(given))),
          (kept) => {
            if (kept === hold || kept === given) return kept
            const accepted = Frozen.accept(kept)
            if (accepted !== given && !isParts(accepted)) throw makeError(kept, "a list of parts of a streamed answer")
            return accepted
          }
        ).pipe(Effect.updateContext((services: Context.Context<never>) => calling.toOwnServices(services)))
        const done = IsolatedCall.contain(seen, { what: "onPart", deadline: Duration.millis(deadline()) }).pipe(
          Effect.matchCauseEffect({
            onFailure: (cause) =>
              Cause.hasInterrupts(cause) ? Effect.failCause(cause) : handleOnPartFailure(Cause.squash(cause), given),
            onSuccess: (kept) => {
              if (kept === hold) return Effect.clockWith((clock) => holdParts(parts, clock.currentTimeMillisUnsafe()))
              if (kept !== given) changed = guards = true
              dropHeld()
              return passOn(kept)
            }
          })
        )
        return Effect.as(done, parts)
      })

    const onRetry = (continues: boolean): void => {
      dropHeld()
      sent = Assembler.make()
      streams = false
      continued = continues
      if (!continues) {
        assembler = Assembler.make()
        changed = false
        lost = false
      }
      above?.onRetry?.(continues)
    }

    const finishAnswer = (answer: A): A => {
      const waiting = held
      if (waiting.length > 0 && !replaces) {
        calling.whenStanding(Effect.suspend(() => (outer === undefined ? Effect.void : Effect.asVoid(outer(waiting)))))
      }
      if (!(changed || lost)) return answer
      const response = get(answer)
      assembler.add(waiting)
      const kept = assembler.result()
      const finishReason = lost ? "content-filter" : kept.finished ? kept.finishReason : response.finishReason
      return set(answer, withParts(response, kept.parts, finishReason))
    }
    const readWhole = (response: ModelResponse): Effect.Effect<ReadonlyArray<StreamPart>> => {
      const earlier = continued && !streams ? assembler.result().parts : []
      replaces = streams
      if (replaces) {
        dropHeld()
        assembler = Assembler.make()
        sent = Assembler.make()
        changed = false
        lost = false
      }
      return onPart(splitAnswer(response, earlier))
    }

    return Effect.flatMap(below(request, { onPart, onRetry }), (answer) => {
      const response = get(answer)
      const isRead = streams
        ? isSameAsSent(response.parts, sent.result().parts, continued)
        : !hasContent(response.parts)
      if (isRead) return Effect.succeed(finishAnswer(answer))
      return Effect.map(
        Effect.suspend(() => readWhole(response)),
        () => finishAnswer(answer)
      )
    })
  }

/** Runs the inner call without a wrapper that is set aside, or refuses the call if the wrapper is closed. */
const runWithoutWrapper = <A>(
  { kind, name, onFailure }: Pick<MiddlewareBoundary.Wrapper<never, never, A, never>, "kind" | "name" | "onFailure">,
  below: () => Effect.Effect<A, unknown, unknown>
): Effect.Effect<A, unknown, unknown> =>
  onFailure === "closed"
    ? Effect.fail(new MiddlewareFailure({ kind, middleware: name, cause: new SetAside() }))
    : below()

const getDefaultDeadline = (): number => 300_000

/**
 * Runs a call through its wrappers, the first one outermost. `deadline` returns the time limit in milliseconds for the
 * own work of each wrapper and of each call of its `onPart`. It is called when a wrapper has to be awaited.
 */
export const run = <Req, Options, A, Info extends CallPurpose & { readonly turnId: TurnId }, E, R>(
  wrappers: ReadonlyArray<MiddlewareBoundary.Wrapper<Req, Options, A, Info>>,
  { contract, join }: Shape<Req, Options, A, Info>,
  faults: Faults,
  context: Info,
  base: Base<Req, Options, A, E, R>,
  deadline: () => number = getDefaultDeadline
): ((request: Req, options: Options | undefined) => Effect.Effect<A, unknown, unknown>) => {
  let call: (request: Req, options: Options | undefined) => Effect.Effect<A, unknown, unknown> = base
  if (wrappers.length === 0) return call
  const seen = Frozen.makeView(context)
  const turn = context.runTurnId ?? context.turnId
  for (let i = wrappers.length - 1; i >= 0; i--) {
    const wrapper = wrappers[i]
    if (wrapper === undefined) continue
    const below = call
    call = (request, above) =>
      faults.isSetAside(wrapper, turn)
        ? runWithoutWrapper(wrapper, () => below(request, above))
        : MiddlewareBoundary.evaluate(
            wrapper,
            seen,
            request,
            (given, own, calling) => join(below, given, own, above, calling, deadline),
            { faults, contract, deadline }
          )
  }
  return call
}

/**
 * Runs a call with the services of these entries, the first one outermost. An entry that dies is reported and skipped.
 */
export const provideServices = <Info, A, E, R>(
  entries: ReadonlyArray<MiddlewareBoundary.SurroundingServices<Info>>,
  faults: Faults,
  info: () => Info,
  call: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> => {
  if (entries.length === 0) return call
  return Effect.contextWith((context: Context.Context<R>) => {
    const seen = info()
    const reports: Array<Effect.Effect<void>> = []
    let services: Context.Context<never> = context
    for (const { kind, name, services: give } of entries) {
      try {
        services = give(services, seen)
      } catch (error) {
        reports.push(faults.report({ kind, name, error, consequence: "the call continues without it" }))
      }
    }
    // Services that the call requires are preserved.
    const given: Effect.Effect<A, E, R> = Effect.updateContext(
      call,
      (_: Context.Context<R>) => services as Context.Context<R>
    )
    return reports.length === 0 ? given : Effect.andThen(Effect.all(reports, { discard: true }), given)
  })
}
