/**
 * Variables of this process. Variables that contain secrets are kept outside `process.env`, and outside the memory that
 * `/proc/<pid>/environ` shows to every process of the user.
 *
 * **Details**
 *
 * The kernel shows the memory block with the initial environment of a program; deleting a variable from `process.env`
 * does not change that block. So the entry is first deleted from `process.env`, which removes all references to it, and
 * then its bytes in the block are overwritten with zeros through `/proc/self/mem`. The process continues with the same
 * id, terminal, signals, inspector and options, and values are not written anywhere. If the block cannot be written (no
 * `/proc`, a kernel that forbids it), variables are only removed from `process.env` and count as exposed.
 *
 * In an application that embeds the library, variables are not hidden unless the application calls {@link takeOver}.
 *
 * **Gotchas**
 *
 * Values remain in the memory of this process, and in the environment of the program that started it (a shell, `npm`).
 * A program that can read the memory of this process can read them, unless it runs in a sandbox.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { closeSync, openSync, readFileSync, readSync, writeSync } from "node:fs"

/** Variables by name. */
export type Variables = Readonly<Record<string, string | undefined>>

/** The variables of this process, including hidden ones; tests provide their own. */
export const ProcessVariables = Context.Reference<Variables>("hermes-effect/platform/ProcessVariables", {
  defaultValue: () => process.env
})

/**
 * Returns the variables that commands may receive. It is called each time, because the environment may change while the
 * program runs.
 */
export const ProcessEnvironment = Context.Reference<() => Variables>("hermes-effect/platform/ProcessEnvironment", {
  defaultValue: () => () => process.env
})

/** Variables that were removed from `process.env`. */
interface Hidden {
  /** Hides more variables. Commands do not receive them either. Names of unset variables are ignored. */
  readonly hide: (names: Iterable<string>) => void
  readonly isHidden: (name: string) => boolean
  /**
   * True in the `hermes` program, which hides its secrets from `process.env`. False in an application, in which
   * variables remain unchanged.
   */
  readonly isProgram: boolean
  /** Returns the names of hidden variables that the operating system still shows to other processes of the user. */
  readonly exposed: () => ReadonlyArray<string>
  /**
   * Restores hidden variables in `process.env` while the scope is open, for code in this process that needs them there.
   * Names that were not in the initial environment receive the value of `file`, if any. `/proc/<pid>/environ` does not
   * contain them.
   */
  readonly lend: (
    names: Iterable<string>,
    file?: (name: string) => string | undefined
  ) => Effect.Effect<void, never, Scope.Scope>
}

/** The hidden variables of the program; an application does not hide any. */
export const HiddenVariables = Context.Reference<Hidden>("hermes-effect/platform/HiddenVariables", {
  defaultValue: () => ({
    hide: () => {},
    isHidden: () => false,
    isProgram: false,
    exposed: () => [],
    lend: () => Effect.void
  })
})

/** Indices after the program name in `/proc/<pid>/stat` (fields 50 and 51 of proc(5)). */
const [startField, endField] = [47, 48]

/** Overwrites variables in the memory block with the initial environment. Throws if the block cannot be written. */
const eraseVariables = (names: ReadonlySet<string>): void => {
  const stat = readFileSync("/proc/self/stat", "latin1")
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  const [start, end] = [Number(fields[startField]), Number(fields[endField])]
  const shown = readFileSync("/proc/self/environ")
  const block = Buffer.alloc(shown.length)
  const memory = openSync("/proc/self/mem", "r+")
  try {
    // Writes only if the memory at this address contains the environment that the kernel reports.
    if (
      end - start !== shown.length ||
      readSync(memory, block, 0, block.length, start) !== block.length ||
      !block.equals(shown)
    ) {
      throw new Error("the environment of this process is not at the address in /proc/self/stat")
    }
    for (let at = 0; at < block.length;) {
      const zero = block.indexOf(0, at)
      const next = zero === -1 ? block.length : zero
      const equals = block.indexOf("=", at)
      if (equals !== -1 && equals < next && names.has(block.toString("utf8", at, equals))) {
        writeSync(memory, Buffer.alloc(next - at), 0, next - at, start + at)
      }
      at = next + 1
    }
  } finally {
    closeSync(memory)
  }
}

/** Result of {@link takeOver}. */
interface TakenOver extends Hidden {
  /** All variables before any were hidden. */
  readonly variables: Variables
  /**
   * Implements {@link ProcessEnvironment}: returns the variables that are not hidden and the variables that were hidden
   * at the start. Callers remove credentials by name.
   */
  readonly ofCommands: () => Variables
}

/** Hides the variables of this process that contain secrets. Has no effect on a process without secrets. */
export const takeOver = (isSecret: (name: string, value: string) => boolean): TakenOver => {
  const variables: Variables = { ...process.env }
  const first: Record<string, string> = {}
  const hidden = new Set<string>()
  const exposed = new Set<string>()
  const lent = new Map<string, number>()
  /**
   * Names of variables that were lent from a file. They are not variables of this process, so commands do not receive
   * them.
   */
  const fromFile = new Set<string>()
  const isHidden = (name: string): boolean => hidden.has(name) || fromFile.has(name)

  const hide = (given: Iterable<string>): void => {
    const names = new Set(Array.from(given).filter((name) => !hidden.has(name) && process.env[name] !== undefined))
    if (names.size === 0) return
    for (const name of names) {
      delete process.env[name]
      hidden.add(name)
    }
    try {
      eraseVariables(names)
    } catch {
      for (const name of names) exposed.add(name)
    }
  }

  const take = (name: string, file: (name: string) => string | undefined): boolean => {
    const isOwn = variables[name] !== undefined
    const value = isOwn ? variables[name] : file(name)
    if (value === undefined || (isOwn && !hidden.has(name))) return false
    if (!isOwn) fromFile.add(name)
    lent.set(name, (lent.get(name) ?? 0) + 1)
    process.env[name] = value
    return true
  }
  const giveBack = (name: string): void => {
    const left = (lent.get(name) ?? 1) - 1
    lent.set(name, left)
    if (left === 0) delete process.env[name]
  }

  for (const [name, value] of Object.entries(variables)) {
    if (value !== undefined && isSecret(name, value)) first[name] = value
  }
  hide(Object.keys(first))

  return {
    variables,
    ofCommands: () => {
      const shown: Record<string, string | undefined> = { ...process.env }
      for (const name of [...hidden, ...fromFile]) delete shown[name]
      return { ...shown, ...first }
    },
    hide,
    isHidden,
    isProgram: true,
    exposed: () => Array.from(exposed),
    lend: (names, file = () => undefined) =>
      Effect.asVoid(
        Effect.acquireRelease(
          Effect.sync(() => Array.from(new Set(names)).filter((name) => take(name, file))),
          (taken) => Effect.sync(() => taken.forEach(giveBack))
        )
      )
  }
}

/** Runs `build` without the environment variables that begin with `prefix`, except `kept`. */
export const withoutVariables = <A>(prefix: string, kept: ReadonlyArray<string>, build: () => A): A => {
  const hidden = Object.entries(process.env).filter(([name]) => name.startsWith(prefix) && !kept.includes(name))
  for (const [name] of hidden) delete process.env[name]
  try {
    return build()
  } finally {
    for (const [name, value] of hidden) process.env[name] = value
  }
}
