/**
 * Texts that are said again and again, each kept once.
 *
 * @since 0.1.0
 */

/** See the module. */
export interface Pool {
  /** The place of a text. */
  readonly add: (text: string) => number
  readonly texts: ReadonlyArray<string>
}

/** A pool without texts. */
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
