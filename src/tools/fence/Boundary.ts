/**
 * Decides which writes need an approval for the place that they go to: outside of the working tree, into the home
 * directory of this program, or to a file from which something runs later unasked.
 *
 * **Details**
 *
 * A write inside a working tree, a directory for temporary files or a root that the user named as safe does not need an
 * approval. Paths that a command writes are not judged: without a sandbox, every command that is not known to only read
 * is asked about.
 *
 * `package.json` and build files are left out on purpose: changing them is what a coding agent is for, and the command
 * that runs their scripts is judged when it is run.
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

/** Directories that a path is judged by; absolute, normalised. */
export interface Surroundings {
  /** Directory that relative paths start in. */
  readonly cwd: string
  /** Working trees and safe roots. */
  readonly roots: ReadonlyArray<string>
  readonly temporary: ReadonlyArray<string>
  /** Value of `~`, if known. */
  readonly home: string | undefined
  readonly agentHomes: ReadonlyArray<string>
  /** Roots of the run that started this program: writes stay in one of them too. Absent for a program of the user's. */
  readonly inherited?: ReadonlyArray<string> | undefined
}

const isWithin = (path: string, root: string): boolean => root === "/" || path === root || path.startsWith(`${root}/`)

const toHomePath = (path: string, home: string | undefined): string =>
  home !== undefined && isWithin(path, home) ? `~${path.slice(home.length)}` : path

/** Reason to ask before a write to a place outside. */
export const outside = "write outside of the working tree"

/** Reason to ask before a write to an absolute path, or undefined if no question is needed. */
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

/** An absolute path; undefined for one that only the machine knows, and for one on another machine. */
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

/** A path below the home directory of hermes that holds a secret, or names all of it. */
const isAgentSecret = (path: string, { agentHomes }: Surroundings): boolean =>
  agentHomes.some((home) => path === home || (isWithin(path, home) && isOwnSecret(path.slice(home.length + 1))))

/** Reads of a command line that would show the secrets of hermes, wherever its home directory is. */
export const listSecretReads = (line: string, places: Surroundings): ReadonlyArray<Access> => {
  const found = new Map<string, Access>()
  const reason = "reading of the agent's own credentials"
  for (const command of ScriptInterpreter.read(line).commands) {
    if (blind.has(command.program) || command.wrappers.some((wrapper) => contained.has(wrapper))) continue
    for (const given of listSources(command)) {
      // The judge has found these without the machine.
      if (isOwnSecretFile(given, command.cwd)) continue
      const path = toAbsolutePath(given, command.cwd, places)
      if (path !== undefined && isAgentSecret(path, places)) found.set(path, { path, reason })
      // A path in code, or one that follows text known only at run time.
      const home = places.agentHomes.find((home) => given.includes(`${home}/`))
      if (home !== undefined && (path === undefined || interpreters.test(command.program)))
        found.set(home, { path: home, reason })
    }
  }
  return Array.from(found.values())
}
