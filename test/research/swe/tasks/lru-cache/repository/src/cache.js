/** A cache with room for some entries. */
export class Cache {
  #entries = new Map()
  #size

  constructor(size) {
    this.#size = size
  }

  get(key) {
    return this.#entries.get(key)
  }

  set(key, value) {
    this.#entries.set(key, value)
    if (this.#entries.size > this.#size) this.#entries.delete(this.#entries.keys().next().value)
  }
}
