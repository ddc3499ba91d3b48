/**
 * Sends encoded spans to a collector, away from the run: whoever hands one in goes on at once, whatever the host does.
 *
 * **Details**
 *
 * - At most {@link capacity} spans wait; what comes while it is full is dropped and counted.
 * - What waits goes in one request, up to {@link maxRequestChars}; the next one is sent when it is answered. So a host that is
 *   quick gets spans as they end, and one that is slow gets them in large groups.
 * - A request has {@link requestTimeout}; one that may succeed later (no connection, 429, 5xx) is sent {@link attempts} times,
 *   `Retry-After` honoured within {@link maxWait}. Then its spans are lost.
 * - A host that refuses the credentials is not asked again.
 * - Each kind of trouble is one warning, without the credentials.
 * - The end of the scope waits for what is not sent yet, for {@link flushDeadline} at most.
 *
 * Source: OpenTelemetry Protocol, "OTLP/HTTP Response".
 */
import type * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Span from "./Span.ts"

/** Spans that wait. */
export const capacity = 4096

/** Characters of one request; collectors refuse larger ones. */
export const maxRequestChars = 2_000_000

/** Deadline of one request. */
export const requestTimeout = Duration.seconds(10)

/** Number of times that a request is sent. */
export const attempts = 3

/** Longest wait before a request is sent again. */
export const maxWait = Duration.seconds(5)

/** Deadline for everything that is not sent when the program ends. */
export const flushDeadline = Duration.seconds(5)

/** Address, credentials and name of the sender. */
export interface Options {
  /** For warnings. */
  readonly label: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Remedies for refused credentials, and for a host that cannot be reached. */
  readonly remedies: { readonly refused: string; readonly unreachable: string }
  readonly resource: Readonly<Record<string, Span.Value>>
  readonly scope: { readonly name: string; readonly version: string }
  /** Told how many spans a request took. */
  readonly onSent?: ((spans: number) => Effect.Effect<void>) | undefined
}

/** Sends spans in batches, and reports lost ones once. */
export interface Sender {
  readonly offer: (span: Span.Span) => Effect.Effect<void>
}

/** Outcome of a request. */
type Answer =
  | { readonly _tag: "Taken"; readonly complaint: string | undefined }
  | { readonly _tag: "Later"; readonly reason: string; readonly wait: Duration.Duration | undefined }
  | { readonly _tag: "Refused" }
  | { readonly _tag: "Never"; readonly reason: string }

const waitOf = (header: string | undefined): Duration.Duration | undefined => {
  const seconds = Number(header ?? "")
  return header === undefined || !Number.isFinite(seconds) || seconds < 0
    ? undefined
    : Duration.min(Duration.seconds(seconds), maxWait)
}

/** Collectors take a request and say that they dropped some of it. */
const complaintOf = (body: string): string | undefined => {
  try {
    const { partialSuccess: part }: { partialSuccess?: { rejectedSpans?: unknown; errorMessage?: unknown } } = JSON.parse(body)
    const rejected = Number(part?.rejectedSpans ?? 0)
    return rejected > 0 ? `${rejected} spans were rejected: ${String(part?.errorMessage ?? "")}` : undefined
  } catch {
    // Not every collector answers with JSON, and a request that was taken was taken.
    return undefined
  }
}

const judge = Effect.fnUntraced(function*({ headers, status, text }: HttpClientResponse.HttpClientResponse) {
  const body = yield* text
  if (status >= 200 && status < 300) return { _tag: "Taken", complaint: complaintOf(body) } satisfies Answer
  if (status === 401 || status === 403) return { _tag: "Refused" } satisfies Answer
  const reason = `it answered with status ${status}`
  return status === 429 || status >= 500
    ? { _tag: "Later", reason, wait: waitOf(headers["retry-after"]) } satisfies Answer
    : { _tag: "Never", reason } satisfies Answer
})

/** Groups of whole spans that fit into a request. */
const groups = (spans: ReadonlyArray<string>): ReadonlyArray<ReadonlyArray<string>> => {
  const out: Array<Array<string>> = []
  let room = 0
  for (const span of spans) {
    const last = out.at(-1)
    if (last === undefined || span.length > room) {
      out.push([span])
      room = maxRequestChars - span.length
    } else {
      last.push(span)
      room -= span.length
    }
  }
  return out
}

/** A sender, for as long as the scope lives; see the module. */
export const make = (options: Options): Effect.Effect<Sender, never, HttpClient.HttpClient | Scope.Scope> =>
  Effect.gen(function*() {
    const { label, remedies, url } = options
    const client = yield* HttpClient.HttpClient
    const queue = yield* Queue.make<Span.Span, Cause.Done>({ capacity, strategy: "dropping" })
    const told = new Set<string>()
    let isRefused = false

    const warn = (message: string): Effect.Effect<void> => {
      if (told.has(message)) return Effect.void
      told.add(message)
      return Effect.logWarning(`${label}: ${message}`)
    }

    const post = (body: string): Effect.Effect<Answer> =>
      client.execute(HttpClientRequest.post(url, { headers: options.headers }).pipe(HttpClientRequest.bodyText(body, "application/json"))).pipe(
        Effect.flatMap(judge),
        Effect.timeoutOption(requestTimeout),
        Effect.map((answer): Answer =>
          Option.isSome(answer)
            ? answer.value
            : { _tag: "Later", reason: `it did not answer within ${Duration.format(requestTimeout)}`, wait: undefined }
        ),
        Effect.catch((error): Effect.Effect<Answer> =>
          Effect.succeed({ _tag: "Later", reason: `it cannot be reached (${error.reason._tag})`, wait: undefined })
        ),
        // The request is no part of the trace that it sends.
        Effect.withTracerEnabled(false)
      )

    const send = (body: string, left: number): Effect.Effect<Answer> =>
      Effect.flatMap(post(body), (answer) =>
        answer._tag === "Later" && left > 1
          ? Effect.delay(send(body, left - 1), answer.wait ?? Duration.millis(500 * 2 ** (attempts - left)))
          : Effect.succeed(answer))

    const deliver = Effect.fnUntraced(function*(spans: ReadonlyArray<string>) {
      if (isRefused) return
      const answer = yield* send(Span.request(options.resource, options.scope, spans), attempts)
      switch (answer._tag) {
        case "Taken":
          if (answer.complaint !== undefined) yield* warn(answer.complaint)
          if (options.onSent !== undefined) yield* options.onSent(spans.length)
          return
        case "Refused":
          isRefused = true
          return yield* warn(`${url} refuses the credentials, nothing more is sent: ${remedies.refused}`)
        case "Later":
          return yield* warn(`traces are lost, ${url}: ${answer.reason}: ${remedies.unreachable}`)
        case "Never":
          return yield* warn(`traces are lost, ${url}: ${answer.reason}`)
      }
    })

    const drain = Effect.gen(function*() {
      const spans = yield* Queue.takeAll(queue)
      yield* Effect.forEach(groups(spans.map(Span.encode)), deliver, { discard: true })
    })
    // The end of the queue is how the fiber is told to stop.
    const worker = yield* Effect.forkScoped(Effect.catchTag(Effect.forever(drain), "Done", () => Effect.void))
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => Queue.endUnsafe(queue)).pipe(
        Effect.andThen(Effect.timeoutOption(Fiber.await(worker), flushDeadline)),
        Effect.flatMap((done) =>
          Option.isSome(done) ? Effect.void : warn(`some traces were not sent to ${url} in time: ${remedies.unreachable}`)
        )
      )
    )
    return {
      offer: (span) =>
        isRefused || Queue.offerUnsafe(queue, span)
          ? Effect.void
          : warn("traces come faster than they can be sent, and some are dropped")
    }
  })
