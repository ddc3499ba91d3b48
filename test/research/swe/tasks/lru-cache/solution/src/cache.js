/** A cache with room for some entries: the one that was used longest ago goes first. */
export class Cache {
  #entries = new Map()
  #size

  constructor(size) {
    this.#size = size
  }

  get(key) {
    if (!this.#entries.has(key)) return undefined
    const value = this.#entries.get(key)
    this.set(key, value)
    return value
  }

  set(key, value) {
    this.#entries.delete(key)
    this.#entries.set(key, value)
    if (this.#entries.size > this.#size) this.#entries.delete(this.#entries.keys().next().value)
  }
}
