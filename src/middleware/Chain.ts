/**
 * Wrappers around a call, the first one outermost. Without wrappers the call is the base operation itself.
 *
 * Source: `hermes-contract.md` §1.7, `ARCHITECTURE.md` §6.
 */
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Response from "effect/ai/Response"
import * as Assembler from "../base/domain/Assembler.ts"
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
import type { Faults } from "./Faults.ts"
import * as Frozen from "./Frozen.ts"
import * as MiddlewareBoundary from "./MiddlewareBoundary.ts"

/** Base operation of the chain. */
interface Base<Req, Options, A, E, R> {
  (request: Req, options: Options | undefined): Effect.Effect<A, E, R>
}

/** Merges a wrapper's own options with the options from above; returns the call below it. */
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

/** For calls without options. */
export const joinNothing = <Req, A>(
  below: (request: Req, options: undefined) => Effect.Effect<A, unknown, unknown>,
  request: Req
): Effect.Effect<A, unknown, unknown> => below(request, undefined)

/** The view of a model response that a frame above shall have after its parts were changed on the way. */
interface Responses<A> {
  readonly get: (answer: A) => ModelResponse
  readonly set: (answer: A, response: ModelResponse) => A
}

/** Parts, and characters in them, that an `onPart` may hold. */
export const heldAtMost = { parts: 50_000, characters: 1_000_000 }

const endings: ReadonlySet<string> = new Set(["text-end", "reasoning-end", "response-metadata", "finish"])

/** False for parts that only end something. */
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

/** True when an answer says what streamed by, or its end where the first part of it came in another attempt. */
const isSameAsSent = (
  answer: ReadonlyArray<ContentPart>,
  sent: ReadonlyArray<ContentPart>,
  continued: boolean
): boolean => {
  const text = joinText(sent)
  const isText = continued ? joinText(answer).endsWith(text) : joinText(answer) === text
  return isText && serializeCalls(answer) === serializeCalls(sent)
}

/** True when an answer, or a part of its stream, has anything of a text, a call or a file in it. */
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
 * Splits an answer that did not stream into parts. `earlier` is what was let through of attempts that broke off, which
 * such an answer begins with.
 */
const splitAnswer = (response: ModelResponse, earlier: ReadonlyArray<ContentPart>): ReadonlyArray<StreamPart> => {
  const text = joinText(earlier)
  const isContinued = text !== "" && joinText(response.parts).startsWith(text)
  return Assembler.toParts(isContinued ? dropText(response, text.length) : response)
}

/**
 * Joins the `onPart` of a model call's wrapper with the one above: streamed parts pass through both. When `onPart`
 * changed a part, the response that the wrapper sees is assembled from the parts it passed on.
 *
 * **Details**
 *
 * A guard holds in every mode. An answer that comes whole (streaming is off, the route or a wrapper below does not
 * stream) goes through `onPart` in one call, before the wrapper sees it. An answer that a wrapper below put in place of
 * the one that streamed by goes through `onPart` as well; the parts are not passed on, because something else was shown
 * already.
 *
 * If `onPart` fails, the parts it held and all later parts are passed on without it. If it had changed a part before,
 * nothing more is shown, so that removed content stays removed: the answer is the text that was shown, for the wrapper
 * too, and ends with `content-filter`.
 */
export const joinOnPart =
  <Req, A>({ get, set }: Responses<A>): Join<Req, ExecuteOptions, A> =>
  (below, request, own, above, calling, deadline) => {
    const mine = own?.onPart
    if (mine === undefined) return below(request, above)
    const outer = above?.onPart
    let assembler = Assembler.make()
    /** Everything that came, since the text that stays of an attempt that broke off. */
    let sent = Assembler.make()
    let continued = false
    /** True once something of the attempt under way came by. */
    let streams = false
    /** True while a whole answer is read that replaces the parts already passed on. */
    let replaces = false
    let changed = false
    /** True once other parts were given back, in whichever attempt. */
    let guards = false
    let broken = false
    /** True once something was withheld. */
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
    /** Passes on the parts after an `onPart` that failed, unless it guards the rest. */
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
          (kept) => (kept === hold ? hold : Frozen.accept(kept))
        ).pipe(Effect.provideService(MiddlewareBoundary.Streaming, calling))
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

const getDefaultDeadline = (): number => 300_000

/**
 * Runs a call through its wrappers, the first one outermost. `deadline` returns the milliseconds that each of them, and
 * each call of its `onPart`, may take by itself; it is called when one has to be awaited.
 */
export const run = <Req, Options, A, Info, E, R>(
  wrappers: ReadonlyArray<MiddlewareBoundary.Wrapper<Req, Options, A, Info>>,
  join: Join<Req, Options, A>,
  faults: Faults,
  context: Info,
  base: Base<Req, Options, A, E, R>,
  deadline: () => number = getDefaultDeadline
): ((request: Req, options: Options | undefined) => Effect.Effect<A, unknown, unknown>) => {
  let call: (request: Req, options: Options | undefined) => Effect.Effect<A, unknown, unknown> = base
  if (wrappers.length === 0) return call
  const seen = Frozen.makeView(context)
  for (let i = wrappers.length - 1; i >= 0; i--) {
    const wrapper = wrappers[i]
    if (wrapper === undefined) continue
    const below = call
    call = (request, above) =>
      MiddlewareBoundary.evaluate(
        wrapper,
        seen,
        request,
        (given, own, calling) => join(below, given, own, above, calling, deadline),
        { faults, deadline }
      )
  }
  return call
}

/** Runs a call with the services of these entries, the first one outermost; one that dies is reported and left out. */
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
    // Services that the call asks for are still there.
    const given: Effect.Effect<A, E, R> = Effect.updateContext(
      call,
      (_: Context.Context<R>) => services as Context.Context<R>
    )
    return reports.length === 0 ? given : Effect.andThen(Effect.all(reports, { discard: true }), given)
  })
}
