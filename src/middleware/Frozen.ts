/**
 * Creates immutable deep copies of values that are passed to and from foreign code, so that a mutation on one side is
 * never visible on the other.
 *
 * **Details**
 *
 * - {@link copy} copies immediately. {@link makeView} copies each member when it is first read, so that passing a value
 *   on costs nothing. {@link accept} takes a value back: a view or a copy is replaced by its original, and any other
 *   value is copied, so that foreign code cannot change it later.
 * - Arrays and plain objects are copied and frozen. Bytes, dates, Maps, Sets, URLs, headers and regular expressions
 *   cannot be frozen: each receiver gets a separate copy. Other values (functions, class instances) are shared
 *   unchanged, except the `Usage` of `effect/ai`, and so are values deeper than 500 levels. Cycles are preserved.
 * - {@link acceptRequest} takes a request back. It refuses class instances that foreign code created, because the code
 *   could change them later. Data of Effect, and instances that the code received, are accepted.
 *
 * **Gotchas**
 *
 * A view is a `Proxy`: `structuredClone` accepts its members but not the view itself. Spreading it creates a mutable
 * object.
 *
 * Source: `hermes-contract.md` §1.5, `ARCHITECTURE.md` §6 and §7.
 */
import * as Response from "effect/ai/Response"

/**
 * Originals of immutable copies. Copies that contain bytes, dates or Maps are not stored, because they can be changed.
 */
const origins = new WeakMap<object, object>()

/** Hidden member of a view that returns the value behind the view. */
const shows = Symbol("shows")

/** Returns the value behind a view, or `undefined` for any other value. */
const findShownValue = (value: object): object | undefined => Reflect.get(value, shows)

interface CopyState {
  /** True if the value comes from foreign code: views and copies are then replaced by their originals. */
  readonly incoming: boolean
  readonly seen: Map<object, unknown>
  readonly made: Array<readonly [copy: object, original: object]>
  changeable: boolean
  depth: number
  /** True if class instances of foreign code are refused. */
  readonly refusesInstances: boolean
}

/** Instances that foreign code received, and may pass back. */
const passedInstances = new WeakSet<object>()

/** Error of foreign code that passed a class instance in a request. */
export class InstanceRefused extends TypeError {
  override readonly name = "InstanceRefused"
  constructor(instance: object) {
    const { constructor }: { readonly constructor?: unknown } = instance
    const type = typeof constructor === "function" && constructor.name !== "" ? constructor.name : "an unnamed class"
    super(
      `it passed an instance of ${type} in a request, which could be changed later: pass a plain object, ` +
        "an array or a text instead"
    )
  }
}

/** Returns true for data of Effect, which is immutable. Its type identifiers begin with a tilde. */
const isEffectData = (value: object): boolean => {
  for (let at: object | null = value; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at))
    if (Object.getOwnPropertyNames(at).some((name) => name.startsWith("~"))) return true
  return false
}

/** Number of levels that are copied. Deeper values are shared. */
const deepest = 500

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/**
 * `slice` of every typed array: it copies the bytes and preserves the type, even for a `Buffer`, whose own `slice`
 * shares the bytes.
 */
const sliceBytes: (this: unknown) => unknown = Reflect.get(Object.getPrototypeOf(Uint8Array.prototype), "slice")

/** Copies a value that cannot be frozen. Returns `undefined` for any other value. */
const copyChangeable = (value: object, copying: CopyState): object | undefined => {
  if (value instanceof Date) return new Date(value)
  if (ArrayBuffer.isView(value)) {
    if (!(value instanceof DataView)) return Reflect.apply(sliceBytes, value, []) as object // A typed array, as `value` is.
    return new DataView(value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength))
  }
  if (value instanceof ArrayBuffer) return value.slice(0)
  if (value instanceof URL) return new URL(value)
  if (value instanceof URLSearchParams) return new URLSearchParams(value)
  // Node loads its `fetch` with the first use of the class.
  if (Symbol.toStringTag in value && value instanceof Headers) return new Headers(value)
  if (value instanceof RegExp) return Object.assign(new RegExp(value), { lastIndex: value.lastIndex })
  if (value instanceof Map) {
    const out = new Map<unknown, unknown>()
    copying.seen.set(value, out)
    for (const [key, item] of value) out.set(copyInto(key, copying), copyInto(item, copying))
    return out
  }
  if (value instanceof Set) {
    const out = new Set<unknown>()
    copying.seen.set(value, out)
    for (const item of value) out.add(copyInto(item, copying))
    return out
  }
  return undefined
}

/** Properties are defined, not assigned, so that a key named `__proto__` stays a key. A lazy member stays lazy. */
const defineCopy = (out: object, source: object, key: string, copyOf: (value: unknown) => unknown): void => {
  if (Object.getOwnPropertyDescriptor(source, key)?.get === undefined) {
    Object.defineProperty(out, key, { value: copyOf(Reflect.get(source, key)), enumerable: true })
    return
  }
  let made: { readonly value: unknown } | undefined
  Object.defineProperty(out, key, {
    get: () => (made ??= { value: copyOf(Reflect.get(source, key)) }).value,
    enumerable: true
  })
}

const copyMembers = (value: object, out: object, copying: CopyState): object => {
  copying.seen.set(value, out)
  for (const key of Object.keys(value)) defineCopy(out, value, key, (member) => copyInto(member, copying))
  copying.made.push([out, value])
  return Object.freeze(out)
}

const copyInto = (value: unknown, copying: CopyState): unknown => {
  if (typeof value !== "object" || value === null) return value
  if (copying.depth >= deepest) {
    copying.changeable = true
    return value
  }
  copying.depth++
  const copied = copyObject(value, copying)
  copying.depth--
  return copied
}

const copyObject = (value: object, copying: CopyState): unknown => {
  const known = copying.seen.get(value)
  if (known !== undefined) return known
  const source = findShownValue(value)
  if (source !== undefined) return copying.incoming ? source : copyInto(source, copying)
  const origin = origins.get(value)
  // An immutable copy does not have to be copied again.
  if (origin !== undefined) return copying.incoming ? origin : value
  if (Array.isArray(value)) {
    const out: Array<unknown> = []
    copying.seen.set(value, out)
    for (const item of value) out.push(copyInto(item, copying))
    copying.made.push([out, value])
    return Object.freeze(out)
  }
  if (isPlain(value)) return copyMembers(value, {}, copying)
  if (value instanceof Response.Usage) return copyMembers(value, Object.create(Response.Usage.prototype), copying)
  const changeable = copyChangeable(value, copying)
  if (changeable === undefined) return shareInstance(value, copying)
  copying.changeable = true
  return changeable
}

/** Passes an instance on unchanged, unless foreign code put it into a request. */
const shareInstance = (value: object, { incoming, refusesInstances }: CopyState): object => {
  if (!incoming) passedInstances.add(value)
  else if (refusesInstances && !passedInstances.has(value) && !(value instanceof Blob) && !isEffectData(value))
    throw new InstanceRefused(value)
  return value
}

const copyFrozen = <A>(value: A, incoming: boolean, refusesInstances = false): A => {
  const copying: CopyState = { incoming, refusesInstances, seen: new Map(), made: [], changeable: false, depth: 0 }
  const out = copyInto(value, copying)
  if (!copying.changeable) for (const [made, original] of copying.made) origins.set(made, incoming ? made : original)
  // A copy has the same type as its original.
  return out as A
}

/** Copies a value deeply and freezes the copy. */
export const copy = <A>(value: A): A => copyFrozen(value, false)

/** Takes a value from foreign code. Returns the original of a view or copy, and a frozen copy of any other value. */
export const accept = <A>(value: A): A => {
  if (typeof value !== "object" || value === null) return value
  // A view has the same type as its original.
  return (findShownValue(value) as (A & object) | undefined) ?? copyFrozen(value, true)
}

/** Takes a request from foreign code like {@link accept}. Throws {@link InstanceRefused} for a new class instance. */
export const acceptRequest = <A>(value: A): A => {
  if (typeof value !== "object" || value === null) return value
  // A view has the same type as its original.
  return (findShownValue(value) as (A & object) | undefined) ?? copyFrozen(value, true, true)
}

/** Copies members of a value when they are read, and all members as soon as the object is enumerated. */
class Lazy implements ProxyHandler<object> {
  readonly #source: object
  #members: Map<PropertyKey, unknown> | undefined
  #whole = false

  constructor(source: object) {
    this.#source = source
  }

  #member(key: PropertyKey): unknown {
    const members = (this.#members ??= new Map())
    if (!members.has(key)) members.set(key, copy(Reflect.get(this.#source, key)))
    return members.get(key)
  }

  #fill(target: object): object {
    if (this.#whole) return target
    this.#whole = true
    for (const key of Object.keys(this.#source)) defineCopy(target, this.#source, key, () => this.#member(key))
    return Object.freeze(target)
  }

  get(target: object, key: PropertyKey): unknown {
    if (key === shows) return this.#source
    if (this.#whole || Array.isArray(this.#source)) return Reflect.get(this.#fill(target), key)
    return Object.hasOwn(this.#source, key) ? this.#member(key) : Reflect.get(target, key)
  }

  has(target: object, key: PropertyKey): boolean {
    return Reflect.has(this.#fill(target), key)
  }

  ownKeys(target: object): Array<string | symbol> {
    return Reflect.ownKeys(this.#fill(target))
  }

  getOwnPropertyDescriptor(target: object, key: PropertyKey): PropertyDescriptor | undefined {
    return Reflect.getOwnPropertyDescriptor(this.#fill(target), key)
  }

  isExtensible(target: object): boolean {
    return Reflect.isExtensible(this.#fill(target))
  }

  preventExtensions(target: object): boolean {
    return Reflect.preventExtensions(this.#fill(target))
  }

  // Operations that would change the value fail.
  set(): boolean {
    return false
  }

  defineProperty(): boolean {
    return false
  }

  deleteProperty(): boolean {
    return false
  }

  setPrototypeOf(): boolean {
    return false
  }
}

/** Returns an immutable view of a value, whose members are copied when they are read. */
export const makeView = <A>(value: A): A => {
  if (typeof value !== "object" || value === null) return value
  if (origins.has(value) || findShownValue(value) !== undefined) return value
  if (!Array.isArray(value) && !isPlain(value)) return copy(value)
  // A view has the same type as its original.
  return new Proxy(Array.isArray(value) ? [] : {}, new Lazy(value)) as A
}

/**
 * Creates a view of an object with one additional member, which is not enumerable and is removed when the view is
 * returned.
 */
export const makeLabelledView = <A extends object, K extends string, V>(
  value: A,
  key: K,
  label: V
): A & Readonly<Record<K, V>> => {
  const target = Object.defineProperty({}, key, { value: label, configurable: true })
  // A view has the same type as its original, and `key` was defined.
  return new Proxy(target, new Lazy(findShownValue(value) ?? value)) as A & Readonly<Record<K, V>>
}
