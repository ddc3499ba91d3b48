/**
 * The payload of one event: created once for all listeners, and frozen.
 *
 * **Details**
 *
 * Ids are not redacted, so that correlation does not depend on the pattern of a secret. Numbers and short texts are set
 * immediately. A long text, a request, a response and the legacy lists are computed when they are first read, with
 * their values at the time of the event. A message of a legacy list, which never changes, is copied once regardless of
 * how many events carry it.
 *
 * Lazy fields are enumerable accessors of the payload itself, so that a spread, `JSON.stringify` and `structuredClone`
 * include them; `console.log` shows their values. All payloads share the accessor of a name: a separate accessor for
 * each event would create a separate shape for each, which costs more than the rest of the payload.
 *
 * **Gotchas**
 *
 * A lazy field has to be read from the payload itself or from an object that inherits from it, not through a `Proxy`
 * that passes itself as the receiver.
 *
 * Source: the observer document ("Payload Safety", "Performance"), `ARCHITECTURE.md` §7 (legacy payload fields,
 * redaction).
 */
import type * as Schema from "effect/Schema"
import { liveFields, table } from "./PayloadTable.ts"
import { observerVersion } from "../base/domain/Version.ts"
import * as Sanitizer from "./Sanitizer.ts"

const messages = new WeakMap<object, Schema.Json>()

const copyMessage = (message: unknown): Schema.Json => {
  if (typeof message !== "object" || message === null) return Sanitizer.copyField(message)
  let copy = messages.get(message)
  if (copy === undefined) {
    copy = Sanitizer.copyField(message)
    messages.set(message, copy)
  }
  return copy
}

type Treatment = (typeof liveFields)[keyof typeof liveFields] | "text"

/**
 * Treatment of each payload field, by name. A field without an entry already has the type that the payload requires.
 */
const treatment: ReadonlyMap<string, Treatment> = new Map(Object.entries(liveFields))

/** A lazily computed value, and its length at the time of the event if it is a list. */
class Late {
  readonly #value: unknown
  readonly #treatment: Treatment
  readonly #length: number
  #made: Schema.Json | undefined = undefined

  constructor(value: unknown, treatment: Treatment) {
    this.#value = value
    this.#treatment = treatment
    this.#length = Array.isArray(value) ? value.length : 0
  }

  read(name: string, maxChars: number): Schema.Json {
    if (this.#made === undefined) this.#made = this.#make(name, maxChars)
    return this.#made
  }

  #make(name: string, maxChars: number): Schema.Json {
    const value: unknown = typeof this.#value === "function" ? this.#value() : this.#value
    if (this.#treatment === "bound") return Sanitizer.sanitize(value, maxChars)
    if (this.#treatment !== "late" || !Array.isArray(this.#value)) return Sanitizer.copyField(value)
    // The messages of a request are the provider's own objects and may be changed later.
    const each = name === "conversation_history" ? copyMessage : Sanitizer.copyField
    return Object.freeze(this.#value.slice(0, this.#length).map(each))
  }
}

/** Lazy fields of a payload. */
interface LateFields {
  readonly maxChars: number
  readonly fields: Record<string, Late>
}

const unread = new WeakMap<object, LateFields>()

const findLateFields = (payload: object): LateFields => {
  for (let at: object | null = payload; at !== null; at = Reflect.getPrototypeOf(at)) {
    const found = unread.get(at)
    if (found !== undefined) return found
  }
  throw new TypeError("A field of a hook's payload was read through a proxy: read it from the payload itself.")
}

const accessors = new Map<string, PropertyDescriptor>()

const getAccessor = (name: string): PropertyDescriptor => {
  const known = accessors.get(name)
  if (known !== undefined) return known
  const accessor: PropertyDescriptor = {
    enumerable: true,
    get(this: object): Schema.Json | undefined {
      const { fields, maxChars } = findLateFields(this)
      return fields[name]?.read(name, maxChars)
    }
  }
  accessors.set(name, accessor)
  return accessor
}

/** Makes `console.log` show values instead of accessors. */
const inspection: PropertyDescriptor = {
  value(this: object): object {
    return { ...this }
  }
}
const inspect = Symbol.for("nodejs.util.inspect.custom")

const noEntries: Schema.Json = Object.freeze([])

/** Returns the treatment of a value that is not copied immediately. */
const classifyTreatment = (name: string, value: unknown): Treatment | undefined => {
  const treated = treatment.get(name)
  if (treated === "late" || treated === "bound" || (treated === "made" && typeof value === "function")) return treated
  return typeof value === "string" && value.length > Sanitizer.longestShort && value.length <= Sanitizer.longestText
    ? "text"
    : undefined
}

/**
 * Creates a factory of plain objects that store the fields of a payload directly. The JavaScript engine learns the
 * number of fields from the first objects. An object literal would be converted to a hash table if many more fields
 * were added to it than it was written with.
 */
const makeObjectFactory = (): (() => Record<string, unknown>) => {
  const Plain = function () {}
  Plain.prototype = Object.prototype
  return () => Reflect.construct(Plain, [])
}

const ofHooks: ReadonlyMap<string, () => Record<string, unknown>> = new Map(
  Object.keys(table).map((name) => [name, makeObjectFactory()])
)
const ofOthers = makeObjectFactory()

/** Creates the frozen payload of one event. A version set by the emitter is preserved. */
export const make = (event: string, fields: object, maxChars: number): object => {
  const payload = (ofHooks.get(event) ?? ofOthers)()
  payload["telemetry_schema_version"] = observerVersion
  const waiting: Record<string, Late> = {}
  let isLate = false
  for (const name of Object.keys(fields)) {
    const value: unknown = Reflect.get(fields, name)
    if (value === undefined) continue
    if (typeof value === "string" && name.endsWith("_id")) {
      payload[name] = value
      continue
    }
    const late = classifyTreatment(name, value)
    if (late === undefined)
      payload[name] = Array.isArray(value) && value.length === 0 ? noEntries : Sanitizer.copyField(value)
    else {
      waiting[name] = new Late(value, late)
      Object.defineProperty(payload, name, getAccessor(name))
      isLate = true
    }
  }
  if (isLate) {
    Object.defineProperty(payload, inspect, inspection)
    unread.set(payload, { maxChars, fields: waiting })
  }
  return Object.freeze(payload)
}
