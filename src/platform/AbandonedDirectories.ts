/**
 * Temporary directories that name the process they belong to, so that a later one can remove those of processes that were killed.
 *
 * **Details**
 *
 * A directory holds a file `owner` with the identity of its process (`Leases.currentProcess`). It is removed when that process is
 * certainly gone: another start of the same host, or no such process in the same process namespace. Directories of another host, of another
 * user or without a readable `owner` stay, and so does a symbolic link.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { lstat, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { currentProcess, isDead } from "./Leases.ts"

const ownerFile = "owner"

const Owner = Schema.fromJsonString(Schema.Struct({ machine: Schema.String, pid: Schema.Int, startTime: Schema.String }))

/** Error of a directory that could not be marked as one of this process. */
export class NotMarked extends Schema.TaggedError<NotMarked>()("NotMarked", { message: Schema.String }) {}

/** Writes into a new directory that it belongs to this process. */
export const markAsOwn = (directory: string): Effect.Effect<void, NotMarked> =>
  Effect.tryPromise({
    try: () => writeFile(join(directory, ownerFile), JSON.stringify(currentProcess()), { mode: 0o600, flag: "wx" }),
    catch: (cause) => new NotMarked({ message: cause instanceof Error ? cause.message : String(cause) })
  })

/** True of an owner that is certainly gone. */
const isGone = (owner: typeof Owner.Type): boolean => {
  const [host, boot] = owner.machine.split(" ")
  const [here, now] = currentProcess().machine.split(" ")
  const isEarlierStart = host === here && boot !== now && boot !== "" && now !== ""
  return isEarlierStart || isDead(owner)
}

const removeOne = Effect.fnUntraced(function*(directory: string) {
  const stat = yield* Effect.tryPromise(() => lstat(directory))
  if (!stat.isDirectory() || stat.uid !== process.getuid?.()) return
  const text = yield* Effect.tryPromise(() => readFile(join(directory, ownerFile), "utf8"))
  if (isGone(yield* Schema.decodeEffect(Owner)(text))) yield* Effect.tryPromise(() => rm(directory, { recursive: true, force: true }))
})

/** Removes the directories of killed processes whose names begin with `prefix`; what cannot be judged or removed stays. */
export const removeAbandoned = (parent: string, prefix: string): Effect.Effect<void> =>
  Effect.tryPromise(() => readdir(parent)).pipe(
    Effect.flatMap((names) =>
      Effect.forEach(names.filter((name) => name.startsWith(prefix)), (name) => Effect.ignore(removeOne(join(parent, name))), { discard: true })),
    // A later start looks again.
    Effect.ignore
  )
