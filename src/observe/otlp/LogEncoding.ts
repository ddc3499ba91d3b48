/**
 * Log records in OTLP form, in both encodings, without secrets.
 *
 * Source: `opentelemetry/proto/logs/v1/logs.proto`.
 */
import * as Cause from "effect/Cause"
import { format } from "effect/Formatter"
import type * as Logger from "effect/Logger"
import type * as LogLevel from "effect/LogLevel"
import * as References from "effect/References"
import type { Resource } from "effect/observability/OtlpResource"
import { redactText } from "../../base/domain/Redaction.ts"
import type { Attributes, Value } from "../RunSpans.ts"
import * as Protobuf from "./Protobuf.ts"
import * as SignalEncoding from "./SignalEncoding.ts"

const { writeAttributes, encodeAttributes, toNanos } = SignalEncoding

/** A log record. */
export interface LogRecord {
  /** Time of the record, in epoch milliseconds. */
  readonly at: number
  readonly observedAt: number
  readonly level: LogLevel.LogLevel
  readonly text: string
  readonly attributes: Attributes
  readonly span: { readonly traceId: string; readonly spanId: string } | undefined
}

const severities: Readonly<Record<LogLevel.LogLevel, number>> = {
  All: 0,
  Trace: 1,
  Debug: 5,
  Info: 9,
  Warn: 13,
  Error: 17,
  Fatal: 21,
  None: 0
}

const formatRedacted = (value: unknown): string => redactText(typeof value === "string" ? value : format(value))

const toAttributeValue = (value: unknown): Value =>
  typeof value === "number" || typeof value === "boolean" ? value : formatRedacted(value)

/** Converts a logger's entry to a log record. `observedAt` of the record is the current time. */
export const toLogRecord = (
  { cause, date, fiber, logLevel, message }: Logger.Options<unknown>,
  observedAt: number
): LogRecord => {
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
    text: (Array.isArray(message) ? message : [message]).map(formatRedacted).join(" "),
    attributes: Object.fromEntries(
      Object.keys(facts)
        .toSorted()
        .map((name) => [name, toAttributeValue(facts[name])])
    ),
    span: span && { traceId: span.traceId.padStart(32, "0"), spanId: span.spanId }
  }
}

const encodeRecordJson = ({ at, attributes, level, observedAt, span, text }: LogRecord): string =>
  `{"timeUnixNano":"${toNanos(at)}","observedTimeUnixNano":"${toNanos(observedAt)}","severityNumber":${severities[level]},` +
  `"severityText":"${level}",` +
  `"body":{"stringValue":${JSON.stringify(text)}},"attributes":[${encodeAttributes(attributes)}],` +
  `"droppedAttributesCount":0` +
  `${span === undefined ? "" : `,"traceId":"${span.traceId}","spanId":"${span.spanId}"`}}`

const writeTextValue = (text: string): void => Protobuf.writeDelimited(1, Protobuf.writeText, text)

const writeRecord = ({ at, attributes, level, observedAt, span, text }: LogRecord): void => {
  Protobuf.writeTime(11, toNanos(observedAt))
  if (span !== undefined) {
    Protobuf.writeDelimited(10, Protobuf.writeHexBytes, span.spanId)
    Protobuf.writeDelimited(9, Protobuf.writeHexBytes, span.traceId)
  }
  writeAttributes(6, attributes)
  Protobuf.writeDelimited(5, writeTextValue, text)
  Protobuf.writeDelimited(3, Protobuf.writeText, level)
  Protobuf.writeNumber(2, severities[level])
  Protobuf.writeTime(1, toNanos(at))
}

const form: SignalEncoding.Form<LogRecord> = {
  names: ["resourceLogs", "scopeLogs", "logRecords"],
  text: encodeRecordJson,
  write: writeRecord
}

/** Creates the JSON encoding of log records. */
export const makeJsonEncoding = (resource: Resource, schemaUrl?: string) =>
  SignalEncoding.makeJsonEncoding(form, resource, schemaUrl)

/** Creates the protobuf encoding of log records. */
export const makeProtobufEncoding = (resource: Resource, schemaUrl?: string) =>
  SignalEncoding.makeProtobufEncoding(form, resource, schemaUrl)
