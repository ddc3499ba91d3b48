/**
 * Values in the one form that is written, hashed and compared: JSON with sorted keys, bytes as base64, secrets gone.
 *
 * @since 0.1.0
 */
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import * as Redaction from "../../domain/Redaction.ts"
import * as Raw from "../Raw.ts"

const bytesKey = "~bytes"

const plain = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map((item) => item === undefined ? null : plain(item))
  if (value instanceof Uint8Array) return { [bytesKey]: Base64.encode(value) }
  if (typeof value === "bigint") return String(value)
  if (!Raw.isFields(value)) return value
  if (typeof value["toJSON"] === "function") return plain(value["toJSON"]())
  return Object.fromEntries(
    Object.keys(value).filter((key) => value[key] !== undefined && typeof value[key] !== "function").sort()
      .map((key) => [key, plain(value[key])])
  )
}

/** See the module. */
export const of = (value: unknown): unknown => Redaction.redactValue(plain(value))

/** A value with its bytes as bytes again. */
export const revive = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(revive)
  if (!Raw.isFields(value)) return value
  const bytes = value[bytesKey]
  if (typeof bytes === "string" && Object.keys(value).length === 1) {
    return Result.getOrElse(Base64.decode(bytes), (): unknown => value)
  }
  return Object.fromEntries(Object.keys(value).map((key) => [key, revive(value[key])]))
}

/** Where two canonical values differ first, and what stands there in each. */
export interface Difference {
  readonly path: string
  readonly expected: string
  readonly actual: string
}

const maxShown = 80

const show = (value: unknown): string => {
  const text = value === undefined ? "nothing" : JSON.stringify(value)
  return text.length > maxShown ? `${text.slice(0, maxShown)}…` : text
}

/** The first difference, in the order of the expected value; undefined when they are the same. */
export const difference = (expected: unknown, actual: unknown, path = ""): Difference | undefined => {
  if (Object.is(expected, actual)) return undefined
  if (Array.isArray(expected) && Array.isArray(actual)) {
    for (let index = 0; index < Math.max(expected.length, actual.length); index++) {
      const found = difference(expected[index], actual[index], `${path}[${index}]`)
      if (found !== undefined) return found
    }
    return undefined
  }
  if (Raw.isFields(expected) && Raw.isFields(actual)) {
    for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
      const found = difference(expected[key], actual[key], path === "" ? key : `${path}.${key}`)
      if (found !== undefined) return found
    }
    return undefined
  }
  return { path, expected: show(expected), actual: show(actual) }
}
