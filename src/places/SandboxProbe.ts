/**
 * Tests once whether this machine can build a sandbox, and stores the answer in the home directory of hermes.
 *
 * **Details**
 *
 * The answer is valid while the machine is the same: the boot of its kernel, the namespaces of this program, and the
 * file of the program that builds the sandbox, at its usual path. If the test failed, each run repeats it, which costs
 * a few milliseconds; so does a file that cannot be read or written. A test that was not possible (no free descriptors)
 * is an error and not an answer. The user sees a notice once for each reason.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/** Outcome of the sandbox test. */
export type ProbeResult =
  | { readonly _tag: "Works" }
  /** The machine cannot build a sandbox. `isNews` is true if the user was not notified of this reason before. */
  | { readonly _tag: "Fails"; readonly reason: string; readonly isNews: boolean }

const Kept = Schema.fromJsonString(Schema.Struct({ machine: Schema.String, reason: Schema.optionalKey(Schema.String) }))

/** Describes the properties of the machine on which a sandbox depends. */
const describeMachine = Effect.fnUntraced(function* (fs: FileSystem.FileSystem) {
  const readText = (read: Effect.Effect<string, unknown>) => Effect.orElseSucceed(read, () => "")
  const parts = yield* Effect.all(
    [
      readText(fs.readFileString("/proc/sys/kernel/random/boot_id")),
      readText(fs.readLink("/proc/self/ns/user")),
      readText(fs.readLink("/proc/self/ns/mnt")),
      ...["/usr/bin/bwrap", "/usr/bin/sandbox-exec"].map((program) =>
        readText(
          Effect.map(fs.stat(program), ({ mtime, size }) => `${size} ${Option.getOrUndefined(mtime)?.getTime() ?? ""}`)
        )
      )
    ],
    { concurrency: "unbounded" }
  )
  return parts
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .join(" ")
})

/** Returns the stored result for this machine, or the current result of `obstacle`, which is stored in `file`. */
export const find = Effect.fnUntraced(function* <E, R>(
  file: string,
  obstacle: Effect.Effect<string | undefined, E, R>
): Effect.fn.Return<ProbeResult, E, R | FileSystem.FileSystem> {
  const fs = yield* FileSystem.FileSystem
  const machine = yield* describeMachine(fs)
  const kept = yield* Effect.option(Effect.flatMap(fs.readFileString(file), Schema.decodeEffect(Kept)))
  const known = Option.getOrUndefined(kept)
  if (known !== undefined && known.machine === machine && known.reason === undefined) return { _tag: "Works" }
  const reason = yield* obstacle
  if (known === undefined || known.machine !== machine || known.reason !== reason) {
    yield* Schema.encodeEffect(Kept)({ machine, ...(reason === undefined ? {} : { reason }) }).pipe(
      Effect.flatMap((text) => fs.writeFileString(file, text, { mode: 0o600 })),
      // A failed write has no effect: the next run repeats the test.
      Effect.ignore
    )
  }
  return reason === undefined ? { _tag: "Works" } : { _tag: "Fails", reason, isNews: known?.reason !== reason }
})
