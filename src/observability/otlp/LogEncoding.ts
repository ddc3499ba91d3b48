/**
 * Log records as OTLP has them, in both encodings, without secrets.
 *
 * Source: `opentelemetry/proto/logs/v1/logs.proto`.
 */
import * as Cause from "effect/Cause"
import { format } from "effect/Formatter"
import type * as Logger from "effect/Logger"
import type * as LogLevel from "effect/LogLevel"
import * as References from "effect/References"
import type { Resource } from "effect/observability/OtlpResource"
import { redactText } from "../../domain/Redaction.ts"
import type { Attributes, Value } from "../RunSpans.ts"
import * as Protobuf from "./Protobuf.ts"
import * as SignalEncoding from "./SignalEncoding.ts"

const { attributesField, attributesText, nanos } = SignalEncoding

/** A record of a log. */
export interface LogRecord {
  /** Epoch milliseconds. */
  readonly at: number
  readonly observedAt: number
  readonly level: LogLevel.LogLevel
  readonly text: string
  readonly attributes: Attributes
  readonly span: { readonly traceId: string; readonly spanId: string } | undefined
}

const severities: Readonly<Record<LogLevel.LogLevel, number>> = { All: 0, Trace: 1, Debug: 5, Info: 9, Warn: 13, Error: 17, Fatal: 21, None: 0 }

const written = (value: unknown): string => redactText(typeof value === "string" ? value : format(value))

const valueOf = (value: unknown): Value => typeof value === "number" || typeof value === "boolean" ? value : written(value)

/** Record of what a logger is given, observed at a time. */
export const recordOf = ({ cause, date, fiber, logLevel, message }: Logger.Options<unknown>, observedAt: number): LogRecord => {
  const facts: Record<string, unknown> = { ...fiber.getRef(References.CurrentLogAnnotations) }
  const errors = Cause.prettyErrors(cause, { includeCauseInStack: true })
  const [error] = errors
  if (error !== undefined) {
    facts["exception.type"] = error.name
    facts["exception.message"] = error.message
    facts["exception.stacktrace"] = errors.map(({ stack }) => stack).join("\n")
  }
  const { span } = fiber.cache
  return {
    at: date.getTime(),
    observedAt,
    level: logLevel,
    text: (Array.isArray(message) ? message : [message]).map(written).join(" "),
    attributes: Object.fromEntries(Object.keys(facts).toSorted().map((name) => [name, valueOf(facts[name])])),
    span: span && { traceId: span.traceId.padStart(32, "0"), spanId: span.spanId }
  }
}

const recordText = ({ at, attributes, level, observedAt, span, text }: LogRecord): string =>
  `{"timeUnixNano":"${nanos(at)}","observedTimeUnixNano":"${nanos(observedAt)}","severityNumber":${severities[level]},"severityText":"${level}",` +
  `"body":{"stringValue":${JSON.stringify(text)}},"attributes":[${attributesText(attributes)}],"droppedAttributesCount":0` +
  `${span === undefined ? "" : `,"traceId":"${span.traceId}","spanId":"${span.spanId}"`}}`

const textValue = (text: string): void => Protobuf.delimited(1, Protobuf.text, text)

const recordMessage = ({ at, attributes, level, observedAt, span, text }: LogRecord): void => {
  Protobuf.time(11, nanos(observedAt))
  if (span !== undefined) {
    Protobuf.delimited(10, Protobuf.bytesOfHex, span.spanId)
    Protobuf.delimited(9, Protobuf.bytesOfHex, span.traceId)
  }
  attributesField(6, attributes)
  Protobuf.delimited(5, textValue, text)
  Protobuf.delimited(3, Protobuf.text, level)
  Protobuf.number(2, severities[level])
  Protobuf.time(1, nanos(at))
}

const form: SignalEncoding.Form<LogRecord> = { names: ["resourceLogs", "scopeLogs", "logRecords"], text: recordText, write: recordMessage }

/** Log records as JSON. */
export const json = (resource: Resource) => SignalEncoding.json(form, resource, undefined)

/** Log records as protobuf. */
export const protobuf = (resource: Resource) => SignalEncoding.protobuf(form, resource, undefined)
