/**
 * Decides which writes need an approval for the place that they go to: outside of the working tree, into the home directory
 * of this program, or to a file from which something runs later unasked.
 *
 * **Details**
 *
 * A write inside of a working tree, of a directory for temporary files or of a root that the user named as safe needs none.
 * Of a command the targets of redirections and the arguments of programs that are known to write are judged; a path that
 * only the machine knows (`$OUT/x`) is not.
 *
 * `package.json` and build files are left out on purpose: changing them is what a coding agent is for, and the command that
 * runs their scripts is judged when it is run.
 *
 * Pure. **Gotchas**: defence in depth, not a boundary: a script or a binary writes where it wants. Links are followed by the
 * caller, where it can.
 */
import { type Command, named, operands, written } from "./Command.ts"
import { configuration, isOwnSecret, isOwnSecretFile, runsLater, tidy } from "./PathClass.ts"
import * as ScriptInterpreter from "./ScriptInterpreter.ts"
import { destinations } from "./rules/ConfigurationRules.ts"
import { blind, interpreting, sources } from "./rules/ExfiltrationRules.ts"

/** Directories that a path is judged by; absolute, normalised. */
export interface Surroundings {
  /** Directory that relative paths start in. */
  readonly cwd: string
  /** Working trees and safe roots. */
  readonly roots: ReadonlyArray<string>
  readonly temporary: ReadonlyArray<string>
  /** Value of `~`, where it is known. */
  readonly home: string | undefined
  readonly agentHomes: ReadonlyArray<string>
  /** Roots of the run that started this program: writes stay in one of them too. Absent for a program of the user's. */
  readonly inherited?: ReadonlyArray<string> | undefined
}

const within = (path: string, root: string): boolean => root === "/" || path === root || path.startsWith(`${root}/`)

const withHome = (path: string, home: string | undefined): string =>
  home !== undefined && within(path, home) ? `~${path.slice(home.length)}` : path

/** Reason to ask before a write to an absolute path; undefined where none is needed. */
export const judge = (path: string, places: Surroundings): string | undefined => {
  const inside = (roots: ReadonlyArray<string>): boolean => roots.some((root) => within(path, root))
  if (inside(places.agentHomes)) return "write into the home directory of hermes"
  const later = runsLater(withHome(path, places.home))
  if (later !== undefined) return `change of ${later}`
  if (inside(places.temporary)) return undefined
  const { inherited } = places
  return inside(places.roots) && (inherited === undefined || inside(inherited)) ? undefined : "write outside of the working tree"
}

const deleters = named("rm rmdir unlink shred trash rimraf srm")
const compilers = named("cc gcc g++ clang clang++ rustc go ld tsc esbuild ffmpeg pandoc")
const contained = named("docker podman nerdctl kubectl docker-compose ssh")
const streams = /^\/dev\/(?:null|stdin|stdout|stderr|tty|fd\/\d+)$/

const afterFlag = (args: ReadonlyArray<string>, flag: RegExp): ReadonlyArray<string> =>
  args.filter((_, index) => flag.test(args[index - 1] ?? ""))

/** Finds paths that a command writes besides {@link destinations}. */
const more = ({ fields, program }: Command): ReadonlyArray<string> => {
  const args = fields.map(({ shown }) => shown)
  const targets = operands(args)
  if (deleters.has(program) || program === "touch") return targets
  if (compilers.has(program)) return afterFlag(args, /^(?:-o|--out(?:put|file|dir|Dir))$/)
  switch (program) {
    case "chmod":
    case "chown":
    case "chgrp":
      return targets.slice(1)
    case "mv":
      // Files that are moved away are gone from where they were.
      return targets
    case "tar":
    case "gtar":
    case "bsdtar":
      return afterFlag(args, /^(?:-C|--directory)$/)
    case "unzip":
      return afterFlag(args, /^-d$/)
    case "wget":
      return afterFlag(args, /^(?:-P|--directory-prefix)$/)
    case "curl":
      return afterFlag(args, /^--output-dir$/)
    case "find":
      return args.includes("-delete") ? args.slice(0, Math.max(args.findIndex((arg) => /^[-(!]/.test(arg)), 0)) : []
    case "git":
      return gitTargets(args)
    default:
      return []
  }
}

const gitReads = named("status log diff show branch ls-files ls-tree rev-parse grep blame describe remote cat-file shortlog reflog")

/** The directory of a clone, and that of `-C` where the subcommand may change something. */
const gitTargets = (args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const verb = args.findIndex((arg, index) => !arg.startsWith("-") && !/^-[cC]$/.test(args[index - 1] ?? ""))
  const name = args[verb] ?? ""
  const rest = operands(args.slice(verb + 1))
  if (name === "clone") return rest.slice(1, 2)
  return name === "" || gitReads.has(name) ? [] : afterFlag(args.slice(0, verb), /^-C$/)
}

/** An absolute path; undefined for one that only the machine knows, and for one on another machine. */
const absolute = (given: string, base: string | undefined, { cwd, home }: Surroundings): string | undefined => {
  const path = given.replace(/^(?:\$HOME|\$\{HOME\}|~)(?=\/|$)/, home ?? "~").replace(/^(?:\$PWD|\$\{PWD\})(?=\/|$)/, ".")
  if (path === "" || path === "-" || path.startsWith("~") || /[$`]/.test(path) || /^[\w.@-]+:/.test(path)) return undefined
  if (path.startsWith("/")) return tidy(path)
  const start = base === undefined ? cwd : absolute(base, undefined, { cwd, home, roots: [], temporary: [], agentHomes: [] })
  return start === undefined ? undefined : tidy(path, start)
}

/** A read or write of a command that needs an approval. */
interface Access {
  readonly path: string
  readonly reason: string
}

/** Writes of a command line that need an approval, each path once. What the rules of the judge find already is left out. */
export const writes = (line: string, places: Surroundings): ReadonlyArray<Access> => {
  const found = new Map<string, Access>()
  for (const command of ScriptInterpreter.read(line).commands) {
    if (command.wrappers.some((wrapper) => contained.has(wrapper))) continue
    for (const given of [...written(command), ...destinations(command), ...more(command)]) {
      const path = absolute(given, command.cwd, places)
      if (path === undefined || streams.test(path)) continue
      const reason = judge(path, places)
      if (reason !== undefined && configuration(given, command.cwd) === undefined) found.set(path, { path, reason })
    }
  }
  return Array.from(found.values())
}

/** A path below the home directory of hermes that holds a secret, or names all of it. */
const secretOf = (path: string, { agentHomes }: Surroundings): boolean =>
  agentHomes.some((home) => path === home || within(path, home) && isOwnSecret(path.slice(home.length + 1)))

/** Reads of a command line that would show the secrets of hermes, wherever its home directory is. */
export const reads = (line: string, places: Surroundings): ReadonlyArray<Access> => {
  const found = new Map<string, Access>()
  const reason = "reading of the agent's own credentials"
  for (const command of ScriptInterpreter.read(line).commands) {
    if (blind.has(command.program) || command.wrappers.some((wrapper) => contained.has(wrapper))) continue
    for (const given of sources(command)) {
      // The judge has found these without the machine.
      if (isOwnSecretFile(given, command.cwd)) continue
      const path = absolute(given, command.cwd, places)
      if (path !== undefined && secretOf(path, places)) found.set(path, { path, reason })
      // A path that stands in code, or behind something that only the machine knows.
      const home = places.agentHomes.find((home) => given.includes(`${home}/`))
      if (home !== undefined && (path === undefined || interpreting.test(command.program))) found.set(home, { path: home, reason })
    }
  }
  return Array.from(found.values())
}
