/**
 * Imports the module of a plugin from its file.
 */
import { pathToFileURL } from "node:url"
import * as Effect from "effect/Effect"

/**
 * Imports a module and gives its exports; fails with what it threw. `generation` counts how often this program has loaded its plugins:
 * Node runs a module once for each address, so that a later one needs another address to see what changed.
 */
export const importModule = (path: string, generation: number): Effect.Effect<unknown, unknown> => {
  const { href } = pathToFileURL(path)
  return Effect.tryPromise({
    try: () => import(generation === 0 ? href : `${href}?generation=${generation}`),
    catch: (error) => error
  })
}
