/**
 * The hook that traces runs to Langfuse, over OTLP. Sending is done away from the run.
 *
 * Source: `hermes-contract.md` §5; Langfuse's OpenTelemetry endpoint.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Base64 from "effect/encoding/Base64"
import type * as HttpClient from "effect/http/HttpClient"
import type { Hook } from "../../hooks/Hook.ts"
import * as Sender from "../otlp/Sender.ts"
import type { Span } from "../otlp/Span.ts"
import * as TrackerHook from "../span/TrackerHook.ts"
import type { Settings } from "./LangfuseSettings.ts"
import * as Observations from "./Observations.ts"

const scope = { name: "hermes-effect", version: "0.1.0" }

const senderOf = ({ baseUrl, debug, publicKey, secretKey }: Settings) =>
  Sender.make({
    label: "langfuse",
    url: `${baseUrl}/api/public/otel/v1/traces`,
    headers: { authorization: `Basic ${Base64.encode(`${publicKey}:${Redacted.value(secretKey)}`)}` },
    remedies: {
      refused: "check HERMES_LANGFUSE_PUBLIC_KEY and HERMES_LANGFUSE_SECRET_KEY",
      unreachable: "check HERMES_LANGFUSE_BASE_URL and the network"
    },
    resource: { "service.name": "hermes" },
    scope,
    onSent: debug ? (spans) => Effect.logInfo(`langfuse: ${spans} observations were sent`) : undefined
  })

/** The hook, for as long as the scope lives; at its end everything that is open is ended, and what is not sent yet is sent. */
export const make = (settings: Settings): Effect.Effect<Hook, never, HttpClient.HttpClient | Scope.Scope> =>
  Effect.gen(function*() {
    const sender = yield* senderOf(settings)
    const node = yield* Random.nextIntBetween(1, 2 ** 31)
    let last = 0
    let now = 0n
    let ended: Array<Span> = []
    const { hook } = yield* TrackerHook.make("langfuse", {
      exporter: Observations.make({
        settings,
        now: () => now,
        spanId: () => node.toString(16).padStart(8, "0") + (++last).toString(16).padStart(8, "0"),
        send: (span) => ended.push(span)
      }),
      enter: (instant) => {
        now = instant
      },
      leave: Effect.suspend(() => {
        const spans = ended
        ended = []
        return Effect.forEach(spans, sender.offer, { discard: true })
      })
    })
    return hook
  })
