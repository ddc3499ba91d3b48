/**
 * Prevents started processes from inheriting the descriptors that this process inherited from its parent.
 *
 * **Details**
 *
 * `exec 200>>file; hermes …` leaves descriptor 200 open in this process, and every program that it starts inherits it:
 * a sandboxed command could write to a file that its sandbox hides. Node closes the first 16 descriptors and all
 * descriptors that it opened itself, but higher descriptors are inherited. This process cannot close them, because an
 * argument such as `<(…)` may refer to one. A new process therefore first runs Bash or Node, which closes the
 * descriptors and then becomes the program. Without such descriptors, which is the usual case, processes are started
 * directly.
 *
 * **Gotchas**
 *
 * Linux only: on macOS, Node passes only the standard streams. A command whose program does not exist is left
 * unchanged, so that its start fails with the error of the operating system.
 */
import * as Redacted from "effect/Redacted"
import * as ChildProcess from "effect/process/ChildProcess"
import { accessSync, constants, existsSync, readdirSync, readFileSync } from "node:fs"
import { delimiter, join, resolve } from "node:path"

/** Flag of a descriptor that the kernel closes when a program starts (`O_CLOEXEC`). */
const closedOnStart = 0o2000000

/** Highest descriptor that Node itself closes in started processes. */
const lastOfNode = 15

/**
 * Tests whether a started program would inherit a descriptor. `info` is the text of the descriptor in
 * `/proc/self/fdinfo`. Pure.
 */
export const isPassedOn = (info: string): boolean => {
  const flags = /^flags:\s*([0-7]+)/m.exec(info)?.[1]
  // A descriptor whose flags cannot be read is closed too; closing a descriptor that is not passed on is harmless.
  return flags === undefined || (Number.parseInt(flags, 8) & closedOnStart) === 0
}

const readInfo = (descriptor: number): string | undefined => {
  try {
    return readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8")
  } catch (cause) {
    // The descriptor that was used to list the directory is already closed.
    return cause instanceof Error && "code" in cause && cause.code === "ENOENT" ? undefined : ""
  }
}

const findDescriptors = (): ReadonlyArray<number> => {
  if (process.platform !== "linux" || !existsSync("/proc/self/fdinfo")) return []
  return readdirSync("/proc/self/fdinfo")
    .map(Number)
    .filter((descriptor) => {
      if (descriptor <= lastOfNode) return false
      const info = readInfo(descriptor)
      return info !== undefined && isPassedOn(info)
    })
}

let found: ReadonlyArray<number> | undefined

/**
 * Returns the inherited descriptors that a started program would receive. The result is cached, because descriptors
 * that Node opens later are never passed on.
 */
export const listDescriptors = (): ReadonlyArray<number> => (found ??= findDescriptors())

const bash = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"]

/** Script that closes the descriptors listed in its first argument and then runs the program in the other arguments. */
const nodeScript = [
  "const [list, command, ...args] = process.argv.slice(1)",
  "const fs = require('node:fs'), path = require('node:path')",
  "for (const one of list.split(',')) try { fs.closeSync(Number(one)) } catch {}",
  "const places = command.includes('/') ? [command] : (process.env.PATH || '/usr/bin:/bin').split(':').map((at) " +
    "=> path.join(at, command))",
  "for (const at of places) if (fs.existsSync(at)) process.execve(at, [command, ...args], process.env)",
  "process.exit(127)"
].join("\n")

type Words = ChildProcess.StandardCommand["args"]

/** Returns a program and arguments that close descriptors and then run `command` in the same process. */
const wrapWords = (command: string, args: Words, descriptors: ReadonlyArray<number>): readonly [string, Words] => {
  const shell = bash.find((path) => existsSync(path))
  if (shell === undefined) return [process.execPath, ["-e", nodeScript, descriptors.join(","), command, ...args]]
  const closed = descriptors.map((descriptor) => `${descriptor}>&-`).join(" ")
  // With `-p`, bash reads no start-up files and no functions from the environment.
  return [shell, ["-p", "-c", `exec ${closed}; exec -- "$@"`, "hermes", command, ...args]]
}

const revealWord = (word: string | Redacted.Redacted): string =>
  Redacted.isRedacted(word) ? Redacted.value(word) : word

const joinWords = (words: Words): string => words.map(revealWord).join(" ")

const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Tests whether the operating system would find the program of a command that runs without a shell. */
const isInstalled = ({ command, options: { cwd, env, extendEnv } }: ChildProcess.StandardCommand): boolean => {
  const directory = resolve(cwd ?? ".")
  if (command.includes("/")) return isExecutable(resolve(directory, command))
  const inherited = env === undefined || extendEnv === true ? process.env["PATH"] : undefined
  const places = revealWord(env?.["PATH"] ?? inherited ?? "/usr/local/bin:/usr/bin:/bin")
  return places.split(delimiter).some((place) => isExecutable(join(resolve(directory, place), command)))
}

/** Returns a command that starts the same program without the given descriptors. */
export const closeFor = (
  command: ChildProcess.StandardCommand,
  descriptors: ReadonlyArray<number>
): ChildProcess.Command => {
  if (descriptors.length === 0) return command
  const { shell, ...options } = command.options
  if ((shell === undefined || shell === false) && !isInstalled(command)) return command
  const [program, args] =
    shell === undefined || shell === false
      ? wrapWords(command.command, command.args, descriptors)
      : wrapWords(
          shell === true ? "/bin/sh" : shell,
          ["-c", joinWords([command.command, ...command.args])],
          descriptors
        )
  return ChildProcess.make(program, args, options)
}
