/**
 * Unix sockets of this machine that commands behind the wall must not reach: those of services that listen at a path. A read-only mount
 * does not keep a process from connecting to one, so each is covered.
 *
 * **Details**
 *
 * `/proc/net/unix` lists the sockets of this network namespace. Commands have another one (but for `network: all`), so their own sockets
 * are not in it. Sockets in the working tree stay, as do those that `terminal.sandbox.write` names by their own path.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import { within } from "./SandboxRules.ts"

/** Reads the paths of sockets that others can connect to from the text of `/proc/net/unix`. Pure. */
export const parsePaths = (text: string): ReadonlyArray<string> => {
  const paths = text.split("\n").slice(1).flatMap((line) => {
    const match = /^\S+ \S+ \S+ (\S+) (\S+) \S+ +\d+ (\/.*)$/.exec(line)
    if (match === null) return []
    const [, flags = "0", type, path = ""] = match
    // A stream is reached while it listens; a datagram socket always.
    const isReachable = type === "0002" || (Number.parseInt(flags, 16) & 0x10000) !== 0
    return isReachable ? [path] : []
  })
  return [...new Set(paths)]
}

/** Directories that the sandbox covers as a whole. */
const covered = ["/run", "/var/run", "/tmp", "/var/tmp", "/proc", "/dev"]

/** Lists the sockets that are to be covered; `trees` and `named` are places whose sockets stay. */
export const listHidden = Effect.fnUntraced(function*(trees: ReadonlyArray<string>, named: ReadonlyArray<string>) {
  const fs = yield* FileSystem.FileSystem
  const text = yield* fs.readFileString("/proc/net/unix").pipe(
    // Not Linux, or a kernel without Unix sockets. After any other error nothing runs: a socket would be reached.
    Effect.catchIf(({ reason: { _tag } }) => _tag === "NotFound", () => Effect.succeed(""))
  )
  return parsePaths(text).filter((path) =>
    !covered.some((directory) => within(path, directory)) && !trees.some((tree) => within(path, tree)) && !named.includes(path))
})
