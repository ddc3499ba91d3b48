/**
 * Detects the kind of stdin, and guards stdout and stderr of this process.
 *
 * **Details**
 *
 * The guard redirects output that plugins and libraries write to stdout to stderr, whether they use the stream,
 * descriptor 1 through `node:fs`, or a child process that inherits stdout. Secrets are masked in each write to a stream
 * or descriptor. While a full-screen interface is active, the interface receives the output instead of stderr.
 *
 * **Gotchas**
 *
 * Only JavaScript code is guarded. A native addon can still write to descriptor 1.
 *
 * Source: `ARCHITECTURE.md` §7 (quiet mode).
 */
import childProcess from "node:child_process"
import fs from "node:fs"
import { syncBuiltinESMExports } from "node:module"

// Functions of `node:fs` whose first argument is a descriptor or a path.
const writers = [
  "write",
  "writeSync",
  "writev",
  "writevSync",
  "writeFile",
  "writeFileSync",
  "appendFile",
  "appendFileSync"
] as const

const synchronous = ["spawnSync", "execSync", "execFileSync"] as const

type Callable = (...args: ReadonlyArray<unknown>) => unknown

const isStdout = (target: unknown): boolean => target === 1 || target === process.stdout

/** Returns the `stdio` option with every inherited stdout replaced by stderr. */
const redirectStdio = (stdio: unknown): unknown => {
  if (stdio === "inherit") return ["inherit", 2, "inherit"]
  if (!Array.isArray(stdio)) return stdio
  return stdio.map((target: unknown, index) => (isStdout(target) || (index === 1 && target === "inherit") ? 2 : target))
}

const withStdio = (argument: unknown): unknown =>
  typeof argument === "object" && argument !== null && !Array.isArray(argument) && "stdio" in argument
    ? { ...argument, stdio: redirectStdio(argument.stdio) }
    : argument

/**
 * Replaces a method by `make(original)`, with the properties of the original (`util.promisify.custom`). Returns a
 * function that restores the original.
 */
const replaceMethod = (owner: object, name: string, make: (original: Callable) => Callable): (() => void) => {
  const original: unknown = Reflect.get(owner, name)
  if (typeof original !== "function") return () => undefined
  // The original is a function from Node. It is called with the arguments that its caller passes.
  const made = make(original as Callable)
  Object.defineProperties(made, Object.getOwnPropertyDescriptors(original))
  Reflect.set(owner, name, made)
  return () => void Reflect.set(owner, name, original)
}

/**
 * Pads `safe` with blanks to the length of `text` in bytes, because a caller that writes to a descriptor checks the
 * number of bytes written.
 */
const padToLength = (safe: string, text: string): string => {
  const missing = " ".repeat(Math.max(0, Buffer.byteLength(text) - Buffer.byteLength(safe)))
  return safe.endsWith("\n") ? `${safe.slice(0, -1)}${missing}\n` : safe + missing
}

/**
 * Creates a function that masks secrets in a string or in bytes of text without changing the length in bytes. Other
 * values are returned unchanged.
 */
const makeMasker =
  (mask: (text: string) => string) =>
  (written: unknown): unknown => {
    if (Array.isArray(written)) return written.map(makeMasker(mask))
    const text =
      typeof written === "string" ? written : written instanceof Uint8Array ? Buffer.from(written).toString("utf8") : ""
    const safe = mask(text)
    if (safe === text) return written
    return typeof written === "string" ? padToLength(safe, text) : Buffer.from(padToLength(safe, text))
  }

/** Options of {@link guard}. */
interface GuardOptions {
  readonly mask: (text: string) => string
  /** The descriptor that receives output written to stdout; 1 if this output is the result of the command. */
  readonly stdoutTo: 1 | 2
  /**
   * Returns a function that receives the output written to the streams, and masks it itself. Returns `undefined` while
   * stderr receives the output.
   */
  readonly screen: () => ((text: string) => void) | undefined
}

/** Guards stdout and masks all output. Returns a function that removes the guard. */
export const guard = ({ mask, screen, stdoutTo }: GuardOptions): (() => void) => {
  const { stderr, stdout } = process
  const toStderr = stderr.write.bind(stderr)
  const masked = makeMasker(mask)
  const toStdout = stdout.write.bind(stdout)
  const writeAside =
    (descriptor: 1 | 2): Callable =>
    (written, ...rest) => {
      const shown = screen()
      if (shown === undefined) {
        return descriptor === 1 && stdoutTo === 1
          ? Reflect.apply(toStdout, stdout, [masked(written), ...rest])
          : Reflect.apply(toStderr, stderr, [masked(written), ...rest])
      }
      shown(
        typeof written === "string"
          ? written
          : written instanceof Uint8Array
            ? Buffer.from(written).toString("utf8")
            : ""
      )
      const done = rest.find((one) => typeof one === "function")
      if (typeof done === "function") process.nextTick(() => Reflect.apply(done, undefined, []))
      return true
    }
  const undo = [
    replaceMethod(stdout, "write", () => writeAside(1)),
    replaceMethod(stderr, "write", () => writeAside(2)),
    ...writers.map((name) =>
      replaceMethod(
        fs,
        name,
        (original) =>
          function (this: unknown, target, written, ...rest) {
            if (target !== 1 && target !== 2) return Reflect.apply(original, this, [target, written, ...rest])
            return Reflect.apply(original, this, [target === 1 ? stdoutTo : 2, masked(written), ...rest])
          }
      )
    ),
    ...synchronous.map((name) =>
      replaceMethod(
        childProcess,
        name,
        (original) =>
          function (this: unknown, ...args) {
            return Reflect.apply(original, this, stdoutTo === 1 ? args : args.map(withStdio))
          }
      )
    ),
    // Every asynchronous function that starts a child process calls this method with its options in one object.
    replaceMethod(
      childProcess.ChildProcess.prototype,
      "spawn",
      (original) =>
        function (this: unknown, ...args) {
          return Reflect.apply(original, this, stdoutTo === 1 ? args : args.map(withStdio))
        }
    )
  ]
  syncBuiltinESMExports()
  return () => {
    for (const one of undo) one()
    syncBuiltinESMExports()
  }
}

/** Returns the kind of stdin; `undefined` for a terminal, a device, or a closed descriptor. */
export const getStdinKind = (): "file" | "pipe" | "socket" | undefined => {
  try {
    const stat = fs.fstatSync(0)
    if (stat.isFile()) return "file"
    if (stat.isFIFO()) return "pipe"
    return stat.isSocket() ? "socket" : undefined
  } catch {
    // A closed descriptor provides no input.
    return undefined
  }
}
