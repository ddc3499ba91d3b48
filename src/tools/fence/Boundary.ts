/**
 * Decides which writes need an approval because of their location: outside the working tree, in the home directory of
 * this program, or in a file that later runs something without a question.
 *
 * **Details**
 *
 * A write inside a working tree, a directory for temporary files or a root that the user named as safe does not need an
 * approval. Paths that a command writes are not judged: without a sandbox, every command that is not known to be
 * read-only leads to a question.
 *
 * `package.json` and build files are deliberately excluded: a coding agent has to change them, and the command that
 * runs their scripts is judged when it runs.
 *
 * Pure. **Gotchas**: defence in depth, not a boundary: a script or a binary can write anywhere. The caller follows
 * links when it can.
 */
import { parseNames } from "../danger/Command.ts"
import { isOwnSecretFile } from "../danger/PathClass.ts"
import { interpreters } from "../danger/EmbeddedCommands.ts"
import { blind, listSources } from "../danger/rules/Explanations.ts"
import * as ScriptInterpreter from "../danger/ScriptInterpreter.ts"
import { isOwnSecret, describeLaterRun, tidyPath } from "./SensitivePaths.ts"

/** Absolute, normalized directories used to judge a path. */
export interface Surroundings {
  /** Directory against which relative paths are resolved. */
  readonly cwd: string
  /** Working trees and safe roots. */
  readonly roots: ReadonlyArray<string>
  readonly temporary: ReadonlyArray<string>
  /** Value of `~`, if known. */
  readonly home: string | undefined
  readonly agentHomes: ReadonlyArray<string>
  /**
   * Roots of the run that started this program; writes must stay in one of them too. `undefined` if the user started
   * the program.
   */
  readonly inherited?: ReadonlyArray<string> | undefined
}

const isWithin = (path: string, root: string): boolean => root === "/" || path === root || path.startsWith(`${root}/`)

const toHomePath = (path: string, home: string | undefined): string =>
  home !== undefined && isWithin(path, home) ? `~${path.slice(home.length)}` : path

/** Reason to ask before a write outside the working tree. */
export const outside = "write outside of the working tree"

/** Returns the reason to ask before a write to an absolute path; `undefined` if no question is needed. */
export const judge = (path: string, places: Surroundings): string | undefined => {
  const isInside = (roots: ReadonlyArray<string>): boolean => roots.some((root) => isWithin(path, root))
  if (isInside(places.agentHomes)) return "write into the home directory of hermes"
  const later = describeLaterRun(toHomePath(path, places.home))
  if (later !== undefined) return `change of ${later}`
  if (isInside(places.temporary)) return undefined
  const { inherited } = places
  return isInside(places.roots) && (inherited === undefined || isInside(inherited)) ? undefined : outside
}

const contained = parseNames("docker podman nerdctl kubectl docker-compose ssh")

/** Returns an absolute path; `undefined` for a path that is known only at run time or is on another machine. */
const toAbsolutePath = (given: string, base: string | undefined, { cwd, home }: Surroundings): string | undefined => {
  const path = given
    .replace(/^(?:\$HOME|\$\{HOME\}|~)(?=\/|$)/, home ?? "~")
    .replace(/^(?:\$PWD|\$\{PWD\})(?=\/|$)/, ".")
  if (path === "" || path === "-" || path.startsWith("~") || /[$`]/.test(path) || /^[\w.@-]+:/.test(path))
    return undefined
  if (path.startsWith("/")) return tidyPath(path)
  const start =
    base === undefined ? cwd : toAbsolutePath(base, undefined, { cwd, home, roots: [], temporary: [], agentHomes: [] })
  return start === undefined ? undefined : tidyPath(path, start)
}

/** A read or write of a command that needs an approval. */
interface Access {
  readonly path: string
  readonly reason: string
}

/**
 * Returns true for a path below the home directory of hermes that holds a secret, or that contains the whole directory.
 */
const isAgentSecret = (path: string, { agentHomes }: Surroundings): boolean =>
  agentHomes.some((home) => path === home || (isWithin(path, home) && isOwnSecret(path.slice(home.length + 1))))

/**
 * Returns the reads of a command line that would show the secrets of hermes, regardless of the location of its home
 * directory.
 */
export const listSecretReads = (line: string, places: Surroundings): ReadonlyArray<Access> => {
  const found = new Map<string, Access>()
  const reason = "reading of the agent's own credentials"
  for (const command of ScriptInterpreter.read(line).commands) {
    if (blind.has(command.program) || command.wrappers.some((wrapper) => contained.has(wrapper))) continue
    for (const given of listSources(command)) {
      // The command judge finds these paths from their text alone.
      if (isOwnSecretFile(given, command.cwd)) continue
      const path = toAbsolutePath(given, command.cwd, places)
      if (path !== undefined && isAgentSecret(path, places)) found.set(path, { path, reason })
      // A path in code, or a path that follows text known only at run time.
      const home = places.agentHomes.find((home) => given.includes(`${home}/`))
      if (home !== undefined && (path === undefined || interpreters.test(command.program)))
        found.set(home, { path: home, reason })
    }
  }
  return Array.from(found.values())
}
