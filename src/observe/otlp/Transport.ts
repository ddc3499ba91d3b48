/**
 * Sends OTLP requests so that a faulty collector cannot affect the program.
 *
 * **Details**
 *
 * At most {@link maxInFlight} requests are in flight, each within its time limit, and {@link maxWaiting} wait for them;
 * a further one fails. A retryable request is sent again, {@link maxRepeats} times at most, after the time that the
 * collector requests. Each fault of a collector is reported to the user once: at once if it refuses a request or drops
 * part of it, otherwise after three failed requests in a row, or at the end if the last one failed.
 *
 * Requests go by the transport of model calls, which is loaded already: through a proxy of the environment, never to
 * another host. All exporters of the process share one transport, and later exporters reuse its connections.
 *
 * Source: OpenTelemetry Protocol, "OTLP/HTTP Response" and "OTLP/HTTP Throttling".
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Json from "../../base/domain/Json.ts"
import type { HttpTransport } from "../../base/platform/HttpTransport.ts"
import { scope } from "../RunSpans.ts"
import * as Protobuf from "./Protobuf.ts"
import type { Body } from "./SignalEncoding.ts"

/** Requests of a client that are under way. */
export const maxInFlight = 4

/** Requests that wait for those. */
export const maxWaiting = 16

/** Times that a request is sent again. */
const maxRepeats = 3

const failuresInARow = 3

/** Shortest body that is compressed. */
const minCompressedBytes = 1024

/** Trouble with a collector. */
export type Trouble =
  | { readonly _tag: "Status"; readonly status: number }
  | { readonly _tag: "Unreachable" }
  | { readonly _tag: "Late" }
  | { readonly _tag: "TooMany" }
  /** It took a request and dropped some of it. */
  | { readonly _tag: "Partial"; readonly rejected: number; readonly message: string }

/** Properties of a client. */
export interface Options {
  readonly timeoutMillis: number
  /** The warning about a trouble; `place` is the origin of the collector. */
  readonly warning: (trouble: Trouble, place: string) => string
  /** Warnings that were given. */
  readonly told: Set<string>
}

/** Collector of a signal. */
export interface Target {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly compression?: "gzip" | "none" | undefined
}

/** Sends a body; false where the collector did not take it. */
export type Send = (target: Target, body: Body) => Effect.Effect<boolean>

const toPartialTrouble = (rejected: number, message: string): Trouble | undefined =>
  rejected > 0 ? { _tag: "Partial", rejected, message } : undefined

/** Reads the number of rejected items of an answer in JSON. */
const readJsonComplaint = (body: string): Trouble | undefined => {
  const parsed = Option.getOrUndefined(Json.parse(body))
  const partial = Predicate.hasProperty(parsed, "partialSuccess") ? parsed.partialSuccess : undefined
  if (!Predicate.isObject(partial)) return undefined
  const [, rejected] = Object.entries(partial).find(([name]) => name.startsWith("rejected")) ?? []
  return toPartialTrouble(Number(rejected), String(partial["errorMessage"] ?? ""))
}

/**
 * Decodes integers and byte fields of a protobuf message by their numbers; fields after one of another type are left
 * out.
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

/** Reads the number of rejected items of an answer in protobuf, whose fields have the same numbers for all signals. */
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
 * Reads the data that a collector reports as dropped. The response has the encoding of its request, or is not from
 * OTLP.
 */
const readComplaint = (contentType: string, body: ArrayBuffer): Trouble | undefined =>
  contentType.includes("json")
    ? readJsonComplaint(new TextDecoder().decode(body))
    : contentType.includes("protobuf")
      ? readProtobufComplaint(new Uint8Array(body))
      : undefined

/**
 * Milliseconds that connections stay open after the last exporter ended: sessions with separate runtimes mostly follow
 * each other.
 */
const lingerMillis = 60_000

let shared: { readonly transport: HttpTransport; users: number; closing: NodeJS.Timeout | undefined } | undefined

/** The transport of all exporters. Neither idle connections nor their timer keep the process alive. */
const transport: Effect.Effect<HttpTransport, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.map(
      Effect.promise(() => import("../../base/platform/HttpTransport.ts")),
      ({ make }) => {
        shared ??= { transport: make(), users: 0, closing: undefined }
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
        }, lingerMillis).unref()
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

/** Returns the milliseconds until a request may be sent again; undefined if it may not. */
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

/** A client with the limits of this module. */
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
          // A view of unshared bytes; the type of a body excludes shared memory.
          body: content as Uint8Array<ArrayBuffer>,
          signal
        })
        const complaint = readComplaint(response.headers.get("content-type") ?? "", await response.arrayBuffer())
        return { status: response.status, complaint, retryAfter: response.headers.get("retry-after") }
      }
    /** Milliseconds until the request is to be sent again, or its outcome. */
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
        // One that the end of the program cuts off has failed too.
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
      // Compressing fails for no input.
      const body = isCompressed ? yield* Effect.promise(() => compressBody(given)) : given
      for (let repeats = 0; ; repeats++) {
        const outcome = yield* sendOnce(target, body, isCompressed)
        if (typeof outcome === "boolean") return outcome
        if (repeats === maxRepeats) return false
        yield* Effect.sleep(Duration.millis(outcome))
      }
    })
  })
