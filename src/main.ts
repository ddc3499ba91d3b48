/**
 * The program `hermes`.
 *
 * **Details**
 *
 * A command loads only the code that it uses: `--version` loads no other module, and the help of the bundled program is
 * stored next to it as text.
 *
 * Compiled code is cached between starts in `cache/code` of the home directory, once that directory exists
 * (`NODE_COMPILE_CACHE` sets another directory, `NODE_DISABLE_COMPILE_CACHE=1` disables the cache). Node's default
 * directory below `/tmp` is not used: other users of the machine could create it first, with code in it that this
 * program would run.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeSync } from "node:fs"
import NodeModule from "node:module"
import { join } from "node:path"

const argv = process.argv.slice(2)

/** Returns the home directory as `base/config/Environment` finds it, without loading that module. */
const findHome = (): string | undefined => {
  const { HERMES_HOME = "", HOME, USERPROFILE } = process.env
  const user = HOME || USERPROFILE
  const chosen = HERMES_HOME.trim()
  if (chosen !== "" && !/^~(?:\/|$)/.test(chosen)) return chosen
  return user && join(user, chosen === "" ? ".hermes" : chosen.slice(1))
}

/** Starts to use compiled code of earlier starts. Code of other versions is removed. */
const openCodeCache = async (): Promise<void> => {
  const home = findHome()
  // Deno does not have this function.
  if (!("enableCompileCache" in NodeModule) || home === undefined || !existsSync(home)) return
  const { version } = await import("./base/domain/Version.ts")
  const all = join(home, "cache", "code")
  const own = join(all, version)
  try {
    if (!existsSync(own)) {
      mkdirSync(own, { recursive: true, mode: 0o700 })
      for (const name of readdirSync(all))
        if (name !== version && /^\d+\.\d+\.\d+/.test(name)) rmSync(join(all, name), { recursive: true })
    }
    NodeModule.enableCompileCache(own)
  } catch {
    // A home directory that cannot be written: the program runs without the cache, and reports what it cannot store.
  }
}

/**
 * Prints the stored help. Returns `false` if the program must render it: when run from sources, with colors forced or
 * forbidden, or on a broken stdout.
 */
const printsHelp = async (): Promise<boolean> => {
  const { FORCE_COLOR = "", NO_COLOR = "", TERM } = process.env
  if (FORCE_COLOR !== "" || NO_COLOR !== "") return false
  // The version does without: `node:tty` loads the sockets of Node, which a file as stdout needs not.
  const { isatty } = await import("node:tty")
  try {
    // Written by the build.
    const help = JSON.parse(readFileSync(new URL("help.json", import.meta.url), "utf8")) as {
      readonly plain: string
      readonly colored: string
    }
    const text = Buffer.from(isatty(1) && TERM !== "dumb" ? help.colored : help.plain)
    const written = writeSync(1, text)
    if (written < text.length) process.stdout.write(text.subarray(written))
    return true
  } catch {
    // The program meets what is wrong with stdout again, and reports it.
    return false
  }
}

if (argv.length === 1 && (argv[0] === "--version" || argv[0] === "-V")) {
  const { version } = await import("./base/domain/Version.ts")
  process.stdout.write(`hermes ${version}\n`)
} else if (argv.length !== 1 || argv[0] !== "--help" || !(await printsHelp())) {
  await openCodeCache()
  const { startProgram } = await import("./program/cli/internal/Start.ts")
  startProgram(argv, () => import("./program/Runtime.ts"))
}
