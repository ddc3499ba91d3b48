/**
 * The program `hermes`.
 *
 * **Details**
 *
 * Compiled code is cached between starts (`NODE_COMPILE_CACHE` sets the directory, `NODE_DISABLE_COMPILE_CACHE=1`
 * disables the cache), and a command loads only the code that it uses: `--version` loads no other module, and the help
 * of the bundled program is stored next to it as text.
 */
import NodeModule from "node:module"

// Deno does not have this function.
if ("enableCompileCache" in NodeModule) NodeModule.enableCompileCache()

const argv = process.argv.slice(2)

/**
 * Prints the stored help. Returns `false` if the program must render it: when run from sources, with colors forced or
 * forbidden, or on a broken stdout.
 */
const printsHelp = async (): Promise<boolean> => {
  const { FORCE_COLOR = "", NO_COLOR = "", TERM } = process.env
  if (FORCE_COLOR !== "" || NO_COLOR !== "") return false
  // The version does without: `node:tty` loads the sockets of Node, which a file as stdout needs not.
  const [{ readFileSync, writeSync }, { isatty }] = await Promise.all([import("node:fs"), import("node:tty")])
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
  const { startProgram } = await import("./program/cli/internal/Start.ts")
  startProgram(argv, () => import("./program/Runtime.ts"))
}
