/**
 * Values for plugin code: deep copies that nobody can change, so that a plugin's mutation is never visible to anybody
 * else.
 *
 * **Details**
 *
 * Arrays and plain objects are copied and frozen, everything else (dates, buffers, functions, instances of classes) is
 * shared as it is: a request with a member that cannot be copied still reaches its middleware. Cycles stay cycles.
 *
 * Source: `hermes-contract.md` §1.5, `ARCHITECTURE.md` §7.
 */

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

const copyInto = (value: unknown, seen: Map<object, unknown>): unknown => {
  if (typeof value !== "object" || value === null) return value
  const known = seen.get(value)
  if (known !== undefined) return known
  if (Array.isArray(value)) {
    const out: Array<unknown> = []
    seen.set(value, out)
    for (const item of value) out.push(copyInto(item, seen))
    return Object.freeze(out)
  }
  if (!isPlain(value)) return value
  const out: Record<string, unknown> = {}
  seen.set(value, out)
  for (const key of Object.keys(value)) {
    // Defined, not assigned: a key named `__proto__` stays a key.
    Object.defineProperty(out, key, {
      value: copyInto(Reflect.get(value, key), seen),
      enumerable: true
    })
  }
  return Object.freeze(out)
}

/** Copies a value deeply and freezes the copy. */
export const copy = <A>(value: A): A =>
  // A copy has the shape of what it was made of.
  copyInto(value, new Map()) as A
