/**
 * Replacements of `Headers` and `Response` for the OpenAI SDK in the bundle of the program. The first use of either
 * global loads all of Node's `fetch`, which the program does not use.
 *
 * **Details**
 *
 * `Headers` has the members that the SDK uses, with the rules of `fetch`: names are lower case, values of one name
 * are joined, and characters that HTTP does not allow are refused. `Response` is a class without instances: the SDK
 * compares answers with it.
 */

const isToken = (name: string): boolean => /^[\w!#$%&'*+.^`|~-]+$/.test(name)

/** Characters that no header value may have. */
// oxlint-disable-next-line no-control-regex
const forbidden = /[\0\r\n]|[^\0-\u00FF]/

const toName = (name: unknown): string => {
  const text = String(name)
  if (!isToken(text)) throw new TypeError(`Headers: "${text}" is not a name of a header`)
  return text.toLowerCase()
}

const toValue = (value: unknown): string => {
  const text = String(value).replaceAll(/^[\t\n\r ]+|[\t\n\r ]+$/g, "")
  // The value may be a key: the message does not have it.
  if (forbidden.test(text))
    throw new TypeError("Headers: the value of a header has characters that HTTP does not allow")
  return text
}

type Init = Iterable<readonly [string, string]> | Readonly<Record<string, string>>

/** Headers of a request. */
export class Headers implements Iterable<[string, string]> {
  readonly #values = new Map<string, string>()

  constructor(init: Init = []) {
    for (const [name, value] of Symbol.iterator in init ? init : Object.entries(init)) this.append(name, value)
  }

  append(name: string, value: string): void {
    const key = toName(name)
    const before = this.#values.get(key)
    this.#values.set(key, before === undefined ? toValue(value) : `${before}, ${toValue(value)}`)
  }

  delete(name: string): void {
    this.#values.delete(toName(name))
  }

  get(name: string): string | null {
    return this.#values.get(toName(name)) ?? null
  }

  has(name: string): boolean {
    return this.#values.has(toName(name))
  }

  set(name: string, value: string): void {
    this.#values.set(toName(name), toValue(value))
  }

  forEach(use: (value: string, name: string, headers: this) => void): void {
    for (const [name, value] of this) use(value, name, this)
  }

  *entries(): Generator<[string, string], void> {
    yield* Array.from(this.#values).toSorted(([a], [b]) => (a < b ? -1 : 1))
  }

  *keys(): Generator<string, void> {
    for (const [name] of this) yield name
  }

  *values(): Generator<string, void> {
    for (const [, value] of this) yield value
  }

  [Symbol.iterator](): Generator<[string, string], void> {
    return this.entries()
  }

  get [Symbol.toStringTag](): string {
    return "Headers"
  }
}

/** The class of answers that the SDK knows; the transport returns none of them. */
export class Response {
  arrayBuffer(): Promise<ArrayBuffer> {
    return Promise.reject(new TypeError(`${this.constructor.name} has no body`))
  }
}
