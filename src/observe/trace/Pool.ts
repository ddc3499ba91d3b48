/** Repeated strings, each stored once. Rows refer to them by index. */
export interface Pool {
  /** Returns the index of a string. Adds the string if it is new. */
  readonly add: (text: string) => number
  readonly texts: ReadonlyArray<string>
}

/** Creates an empty pool. */
export const make = (): Pool => {
  const texts: Array<string> = []
  const places = new Map<string, number>()
  return {
    texts,
    add: (text) => {
      const known = places.get(text)
      if (known !== undefined) return known
      places.set(text, texts.length)
      return texts.push(text) - 1
    }
  }
}
