/**
 * Directories of loaded plugins. They attribute an error that is thrown outside of any call, such as in a timer, to the
 * plugin whose code threw it.
 */
import { pathToFileURL } from "node:url"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** A directory of a loaded plugin. */
interface PluginDirectory {
  readonly plugin: string
  /** Beginnings of the locations of its files in a stack: as a path, and as a URL. */
  readonly locations: readonly [path: string, url: string]
}

const directories = new Set<PluginDirectory>()

/** Registers a directory of a plugin while the scope is open. `path` must be a real path, not a link. */
export const registerDirectory = (path: string, plugin: string): Effect.Effect<void, never, Scope.Scope> =>
  Effect.asVoid(
    Effect.acquireRelease(
      Effect.sync(() => {
        const directory: PluginDirectory = { plugin, locations: [`${path}/`, `${pathToFileURL(path).href}/`] }
        directories.add(directory)
        return directory
      }),
      (directory) => Effect.sync(() => directories.delete(directory))
    )
  )

/**
 * Extracts the locations of the calls in a stack, the innermost first. The message of the error is not part of them.
 */
const extractLocations = (stack: string): ReadonlyArray<string> =>
  stack.split("\n").flatMap((line) => /^\s+at (?:.*\()?((?:file:\/\/)?\/[^()]+?)(?::\d+)*\)?$/.exec(line)?.[1] ?? [])

/**
 * Returns the key of the plugin whose code threw an error, or `undefined` if no call in its stack is in the directory
 * of a plugin. A value without a stack belongs to no plugin.
 */
export const findPlugin = (error: unknown): string | undefined => {
  if (directories.size === 0 || !(error instanceof Error) || typeof error.stack !== "string") return undefined
  for (const location of extractLocations(error.stack)) {
    for (const { locations, plugin } of directories) {
      if (locations.some((start) => location.startsWith(start))) return plugin
    }
  }
  return undefined
}
