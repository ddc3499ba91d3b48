/** Tells listeners of events. */
export class Emitter {
  #listeners = new Map()

  on(name, listener) {
    const list = this.#listeners.get(name) ?? []
    list.push(listener)
    this.#listeners.set(name, list)
  }

  off(name, listener) {
    const list = this.#listeners.get(name) ?? []
    const at = list.indexOf(listener)
    if (at >= 0) list.splice(at, 1)
  }

  once(name, listener) {
    const wrapped = (...args) => {
      this.off(name, wrapped)
      listener(...args)
    }
    this.on(name, wrapped)
  }

  emit(name, ...args) {
    for (const listener of [...this.#listeners.get(name) ?? []]) listener(...args)
  }
}
