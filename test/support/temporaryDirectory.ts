import * as Effect from "effect/Effect"
import { accessSync, constants, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { homedir, tmpdir } from "node:os"
import { join } from "node:path"

/** A directory that goes away with its scope. */
export const temporaryDirectory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "hermes-test-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
)

/** True of a directory that exists, or can be made, and can be written. */
const isWritable = (directory: string): boolean => {
  try {
    mkdirSync(directory, { recursive: true })
    accessSync(directory, constants.W_OK)
    return true
  } catch {
    // Another place is tried.
    return false
  }
}

const places = [join(import.meta.dirname, "../../node_modules/.cache"), "/opt", "/var/lib", join(homedir(), ".cache")]

/**
 * A directory outside of those for temporary files, of which a sandbox and a container have their own; whoever makes
 * one removes it. The sources may lie in one of those.
 */
export const makeLastingDirectory = (prefix: string): string => {
  const place = places.find(
    (directory) => isWritable(directory) && !/^\/(?:private\/)?(?:var\/)?tmp\//.test(`${realpathSync(directory)}/`)
  )
  if (place === undefined) throw new Error(`no directory outside of /tmp can be written: ${places.join(", ")}`)
  return realpathSync(mkdtempSync(join(place, `hermes-${prefix}`)))
}

/** Makes a folder, with its parents, into what git and the programs take for a repository: an empty `.git` is none. */
export const markAsRepository = (folder: string): void => {
  mkdirSync(join(folder, ".git"), { recursive: true })
  writeFileSync(join(folder, ".git/HEAD"), "ref: refs/heads/main\n")
}
