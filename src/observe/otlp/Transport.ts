/**
 * Sends OTLP requests so that a faulty collector cannot affect the program.
 *
 * **Details**
 *
 * At most {@link maxInFlight} requests are in flight, each with a time limit, and at most {@link maxWaiting} are
 * queued; additional requests fail. A retryable request is sent again at most {@link maxRepeats} times, after the delay
 * that the collector requests. Each problem with a collector is reported to the user once: immediately if the collector
 * rejects a request or drops part of it; otherwise after three consecutive failed requests, or at the end if the last
 * request failed.
 *
 * Requests use the transport of model calls, which is already loaded. It uses a proxy set in the environment and does
 * not follow redirects to another host. All exporters of the process share one transport, and later exporters reuse its
 * connections.
 *
 * Source: OpenTelemetry Protocol, "OTLP/HTTP Response" and "OTLP/HTTP Throttling".
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as References from "effect/References"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Json from "../../base/domain/Json.ts"
import { releaseTimer } from "../../base/platform/Deadlines.ts"
import { type HttpTransport, loadForPlace } from "../../base/platform/ModelTransport.ts"
import { scope } from "../RunSpans.ts"
import * as Protobuf from "./Protobuf.ts"
import type { Body } from "./SignalEncoding.ts"

/** Maximum number of concurrent requests of a client. */
export const maxInFlight = 4

/** Maximum number of queued requests. */
export const maxWaiting = 16

/** Maximum number of times that a request is retried. */
const maxRepeats = 3

/** Schedule of the repeats of a request. Its input is the wait before the next one, in milliseconds. */
const repeats = Schedule.recurs(maxRepeats).pipe(
  Schedule.setInputType<number>(),
  Schedule.modifyDelay(({ input }) => Effect.succeed(Duration.millis(input)))
)

const failuresInARow = 3

/** Minimum size of a body that is compressed, in bytes. */
const minCompressedBytes = 1024

/** A problem with a collector. */
export type Trouble =
  | { readonly _tag: "Status"; readonly status: number }
  | { readonly _tag: "Unreachable" }
  | { readonly _tag: "Late" }
  | { readonly _tag: "TooMany" }
  /** The collector accepted a request but dropped some of its items. */
  | { readonly _tag: "Partial"; readonly rejected: number; readonly message: string }

/** Options of a client. */
export interface Options {
  readonly timeoutMillis: number
  /** Returns the warning about a problem. `place` is the origin of the collector. */
  readonly warning: (trouble: Trouble, place: string) => string
  /** Warnings that were already logged. */
  readonly told: Set<string>
}

/** Address of a collector, with the headers and compression of its requests. */
export interface Target {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly compression?: "gzip" | "none" | undefined
}

/** Function that sends a body. Returns false if the collector did not accept it. */
export type Send = (target: Target, body: Body) => Effect.Effect<boolean>

const toPartialTrouble = (rejected: number, message: string): Trouble | undefined =>
  rejected > 0 ? { _tag: "Partial", rejected, message } : undefined

/** Reads the number of rejected items from a JSON response. */
const readJsonComplaint = (body: string): Trouble | undefined => {
  const parsed = Option.getOrUndefined(Json.parse(body))
  const partial = Predicate.hasProperty(parsed, "partialSuccess") ? parsed.partialSuccess : undefined
  if (!Predicate.isObject(partial)) return undefined
  const [, rejected] = Object.entries(partial).find(([name]) => name.startsWith("rejected")) ?? []
  return toPartialTrouble(Number(rejected), String(partial["errorMessage"] ?? ""))
}

/**
 * Decodes integers and byte fields of a protobuf message by field number. Decoding stops at the first field of another
 * type.
 */
const decodeFields = (bytes: Uint8Array): ReadonlyMap<number, number | Uint8Array> => {
  const fields = new Map<number, number | Uint8Array>()
  let at = 0
  const readVarint = (): number => {
    let value = 0n
    for (let shift = 0n; at < bytes.length; shift += 7n) {
      const byte = bytes[at++] ?? 0
      value |= BigInt(byte & 127) << shift
      if (byte < 128) break
    }
    return Number(BigInt.asIntN(64, value))
  }
  while (at < bytes.length) {
    const tag = readVarint()
    const [field, type] = [Math.floor(tag / 8), tag % 8]
    if (type !== Protobuf.wire.varint && type !== Protobuf.wire.delimited) break
    const value = readVarint()
    if (type === Protobuf.wire.varint) fields.set(field, value)
    else if (value < 0) break
    else {
      fields.set(field, bytes.subarray(at, at + value))
      at += value
    }
  }
  return fields
}

/** Reads the number of rejected items from a protobuf response. The field numbers are the same for all signals. */
const readProtobufComplaint = (body: Uint8Array): Trouble | undefined => {
  const partial = decodeFields(body).get(1)
  if (!(partial instanceof Uint8Array)) return undefined
  const fields = decodeFields(partial)
  const message = fields.get(2)
  return toPartialTrouble(
    Number(fields.get(1) ?? 0),
    message instanceof Uint8Array ? new TextDecoder().decode(message) : ""
  )
}

/**
 * Reads the number of items that a collector reports as dropped. The response of an OTLP collector has the same
 * encoding as the request.
 */
const readComplaint = (contentType: string, body: ArrayBuffer): Trouble | undefined =>
  contentType.includes("json")
    ? readJsonComplaint(new TextDecoder().decode(body))
    : contentType.includes("protobuf")
      ? readProtobufComplaint(new Uint8Array(body))
      : undefined

/**
 * Time that connections stay open after the last exporter has ended, in milliseconds. Often, another session with a
 * separate runtime follows soon and can reuse them.
 */
const lingerMillis = 60_000

let shared: { readonly transport: HttpTransport; users: number; closing: NodeJS.Timeout | undefined } | undefined

/** The transport of all exporters. Neither idle connections nor their timer keep the process alive. */
const transport: Effect.Effect<HttpTransport, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.map(
      Effect.promise(() => loadForPlace()),
      (make) => {
        shared ??= { transport: make({}), users: 0, closing: undefined }
        shared.users++
        clearTimeout(shared.closing)
        return shared
      }
    ),
    (used) =>
      Effect.sync(() => {
        if (--used.users > 0) return
        used.closing = setTimeout(() => {
          used.transport.close()
          shared = undefined
        }, lingerMillis)
        releaseTimer(used.closing)
      })
  ),
  (used) => used.transport
)

interface Answer {
  readonly status: number
  readonly complaint: Trouble | undefined
  readonly retryAfter: string | null
}

const compressBody = async ({ content, contentType }: Body): Promise<Body> => {
  const { gzipBytes } = await import("../../base/platform/Compression.ts")
  return { contentType, content: await gzipBytes(content) }
}

/**
 * Returns the number of milliseconds until a request may be sent again, or `undefined` if it must not be sent again.
 */
const computeRepeatDelay = ({ retryAfter, status }: Answer, now: number): number | undefined => {
  if (![408, 429, 500, 502, 503, 504].includes(status)) return undefined
  const asked =
    retryAfter === null
      ? Number.NaN
      : /^\d+$/u.test(retryAfter)
        ? Number(retryAfter) * 1000
        : Date.parse(retryAfter) - now
  return Number.isNaN(asked) ? (status === 429 ? 5000 : 1000) : Math.max(0, asked)
}

/** Creates a client that enforces the limits of this module. */
export const makeClient = ({ timeoutMillis, told, warning }: Options): Effect.Effect<Send, never, Scope.Scope> =>
  Effect.gen(function* () {
    const fetch = yield* transport
    const clock = yield* Clock.Clock
    const permits = yield* Semaphore.make(maxInFlight)
    let [begun, failures] = [0, 0]
    let last: readonly [Trouble, string] | undefined
    const tell = Effect.suspend(() => {
      const message = last === undefined ? undefined : warning(...last)
      if (message === undefined || told.has(message)) return Effect.void
      told.add(message)
      return Effect.logWarning(message)
    }).pipe(Effect.provideService(References.CurrentLogAnnotations, {}))
    const recordTrouble = (trouble: Trouble, place: string, isFinal: boolean): Effect.Effect<void> =>
      Effect.suspend(() => {
        last = [trouble, place]
        failures++
        return isFinal || failures >= failuresInARow ? tell : Effect.void
      })
    yield* Effect.addFinalizer(() => (failures > 0 ? tell : Effect.void))

    const postBody =
      ({ headers, url }: Target, { content, contentType }: Body, isCompressed: boolean) =>
      async (signal: AbortSignal): Promise<Answer> => {
        const response = await fetch(url, {
          method: "POST",
          headers: {
            "user-agent": `OTel-OTLP-Exporter-JavaScript ${scope.name}/${scope.version}`,
            ...headers,
            "content-type": contentType,
            ...(isCompressed ? { "content-encoding": "gzip" } : {})
          },
          // The content is never shared memory, which the type of a body excludes.
          body: content as Uint8Array<ArrayBuffer>,
          signal
        })
        const complaint = readComplaint(response.headers.get("content-type") ?? "", await response.arrayBuffer())
        return { status: response.status, complaint, retryAfter: response.headers.get("retry-after") }
      }
    /**
     * Sends a request once. Returns the number of milliseconds after which it must be sent again. If it must not be
     * sent again, returns true if it was accepted and false otherwise.
     */
    const sendOnce = (target: Target, body: Body, isCompressed: boolean): Effect.Effect<number | boolean> => {
      const place = URL.parse(target.url)?.origin ?? "the collector"
      const sent = Effect.tryPromise(postBody(target, body, isCompressed)).pipe(
        Effect.timeoutOption(Duration.millis(timeoutMillis)),
        Effect.flatMap((answered): Effect.Effect<number | boolean> => {
          if (Option.isNone(answered)) return Effect.as(recordTrouble({ _tag: "Late" }, place, false), 1000)
          const { complaint, status } = answered.value
          if (status >= 400) {
            return Effect.as(
              recordTrouble({ _tag: "Status", status }, place, status < 500 && status !== 429),
              computeRepeatDelay(answered.value, clock.currentTimeMillisUnsafe()) ?? false
            )
          }
          failures = 0
          if (complaint === undefined) return Effect.succeed(true)
          last = [complaint, place]
          return Effect.as(tell, true)
        }),
        Effect.catch(() => Effect.as(recordTrouble({ _tag: "Unreachable" }, place, false), 1000)),
        // A request that is interrupted by the end of the program has also failed.
        Effect.onInterrupt(() => recordTrouble({ _tag: "Late" }, place, false))
      )
      return Effect.suspend(() => {
        if (begun >= maxInFlight + maxWaiting) return Effect.as(recordTrouble({ _tag: "TooMany" }, place, true), false)
        begun++
        return Effect.ensuring(
          permits.withPermit(sent),
          Effect.sync(() => {
            begun--
          })
        )
      })
    }
    return Effect.fnUntraced(function* (target, given) {
      const isCompressed = target.compression === "gzip" && given.content.length >= minCompressedBytes
      // Compression does not fail for any input.
      const body = isCompressed ? yield* Effect.promise(() => compressBody(given)) : given
      const accepted = Effect.flatMap(sendOnce(target, body, isCompressed), (outcome) =>
        typeof outcome === "boolean" ? Effect.succeed(outcome) : Effect.fail(outcome)
      )
      return yield* Effect.retryOrElse(accepted, repeats, () => Effect.succeed(false))
    })
  })
