/**
 * `AsyncLocalStorage` of `node:async_hooks` for places without it. A place with a global `AsyncLocalStorage` uses that
 * class. Otherwise a value is inherited by synchronous calls only, as in a browser, which cannot follow asynchronous
 * calls.
 */

class SynchronousStorage<A> {
  #value: A | undefined

  getStore(): A | undefined {
    return this.#value
  }

  run<B>(value: A | undefined, body: () => B): B {
    const before = this.#value
    this.#value = value
    try {
      return body()
    } finally {
      this.#value = before
    }
  }

  exit<B>(body: () => B): B {
    return this.run(undefined, body)
  }
}

const found: unknown = Reflect.get(globalThis, "AsyncLocalStorage")

// A global of this name is Node's class by convention.
export const AsyncLocalStorage = (typeof found === "function" ? found : SynchronousStorage) as typeof SynchronousStorage
