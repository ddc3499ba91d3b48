/**
 * Export of observations of runs to Langfuse, as spans over OTLP.
 *
 * Source: `hermes-contract.md` §5; Langfuse's OpenTelemetry endpoint, ingestion version 4.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Base64 from "effect/encoding/Base64"
import type { RunRecord } from "../../store/RunRecord.ts"
import * as SignalEncoding from "../otlp/SignalEncoding.ts"
import * as SpanExport from "../otlp/SpanExport.ts"
import type { Trouble } from "../otlp/Transport.ts"
import { scope } from "../RunSpans.ts"
import * as LiveSpans from "../LiveSpans.ts"
import type { Settings } from "./LangfuseSettings.ts"
import * as Observations from "./Observations.ts"

const unreachable = "check HERMES_LANGFUSE_BASE_URL and the network"

const formatWarning = (trouble: Trouble, place: string): string => {
  switch (trouble._tag) {
    case "Status":
      if (trouble.status === 401 || trouble.status === 403) {
        return (
          `langfuse: ${place} refuses the credentials: ` +
          `check HERMES_LANGFUSE_PUBLIC_KEY and HERMES_LANGFUSE_SECRET_KEY`
        )
      }
      return `langfuse: traces are lost, ${place} answered with status ${trouble.status}${trouble.status === 429 || trouble.status >= 500 ? `: ${unreachable}` : ""}`
    case "Unreachable":
      return `langfuse: traces are lost, ${place} cannot be reached: ${unreachable}`
    case "Late":
      return `langfuse: some traces were not sent to ${place} in time: ${unreachable}`
    case "TooMany":
      return "langfuse: traces come faster than they can be sent, and some are dropped"
    case "Partial":
      return `langfuse: ${trouble.rejected} spans were rejected: ${trouble.message}`
  }
}

/**
 * Time limit of one request to the host, in milliseconds. It is also the maximum time that the shutdown waits for
 * unsent items.
 */
const requestMillis = 10_000
const shutdownMillis = 5000
const exportIntervalMillis = 2000

/** Exports the runs of this process until the scope closes. Open spans are then ended, and pending items are sent. */
export const make = (settings: Settings): Effect.Effect<void, never, RunRecord | Scope.Scope> =>
  Effect.gen(function* () {
    const { baseUrl, debug, publicKey, secretKey } = settings
    if (
      !(yield* LiveSpans.claimTarget(`langfuse ${baseUrl} ${publicKey}`, {
        remedy: "enable observability/langfuse once."
      }))
    )
      return
    const send = yield* SpanExport.make({
      url: `${baseUrl}/api/public/otel/v1/traces`,
      headers: {
        authorization: `Basic ${Base64.encode(`${publicKey}:${Redacted.value(secretKey)}`)}`,
        "x-langfuse-ingestion-version": "4"
      },
      encoding: "protobuf",
      resource: SignalEncoding.makeResource({ "service.name": "hermes", "service.version": scope.version }),
      exportIntervalMillis,
      shutdownMillis,
      transport: { timeoutMillis: requestMillis, told: new Set(), warning: formatWarning },
      onSent: debug ? (spans) => Effect.logInfo(`langfuse: ${spans} observations were sent`) : undefined
    })
    yield* LiveSpans.listen(Observations.makeView(settings), { close: send }, true)
  })
