/**
 * A span as OTLP over HTTP writes it in JSON.
 *
 * Source: OpenTelemetry Protocol 1.x, "JSON Protobuf Encoding".
 */
import { entriesToAttributes } from "effect/observability/OtlpResource"

/** A value of an attribute. */
export type Value = string | number | boolean | ReadonlyArray<string>

/** A span that is over. Times are nanoseconds since the epoch. */
export interface Span {
  /** 32 hexadecimal digits. */
  readonly traceId: string
  /** 16 hexadecimal digits. */
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly name: string
  readonly start: bigint
  readonly end: bigint
  readonly attributes: Readonly<Record<string, Value>>
  /** Error, if there was one. */
  readonly error: string | undefined
}

const internal = 1
const unset = 0
const failed = 2

/** One element of `spans`, as text. */
export const encode = ({ attributes, end, error, name, parentSpanId, spanId, start, traceId }: Span): string =>
  JSON.stringify({
    traceId,
    spanId,
    ...(parentSpanId === undefined ? {} : { parentSpanId }),
    name,
    kind: internal,
    startTimeUnixNano: String(start),
    endTimeUnixNano: String(end < start ? start : end),
    attributes: entriesToAttributes(Object.entries(attributes)),
    status: error === undefined ? { code: unset } : { code: failed, message: error }
  })

/** A whole request of encoded spans. */
export const request = (
  resource: Readonly<Record<string, Value>>,
  scope: { readonly name: string; readonly version: string },
  spans: ReadonlyArray<string>
): string => {
  const head = JSON.stringify({ attributes: entriesToAttributes(Object.entries(resource)) })
  return `{"resourceSpans":[{"resource":${head},"scopeSpans":[{"scope":${JSON.stringify(scope)},"spans":[${spans.join(",")}]}]}]}`
}
