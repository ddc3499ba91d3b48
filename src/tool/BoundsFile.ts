/**
 * Keeps long results as files, readable by nobody else, each named after its call.
 *
 * **Example** (Long results in a folder of the application)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Agent, BoundsFile, Runtime } from "hermes-effect"
 *
 * const results = BoundsFile.layer("results").pipe(Layer.provide(NodeServices.layer))
 * const program = Agent.run({ prompt: "Reply exactly hello" }).pipe(Effect.provide([Runtime.layer(), results]))
 *
 * console.log((await Effect.runPromise(program)).text)
 * // => hello
 * ```
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import { type Keeper, ResultKeeper } from "./Bounds.ts"

/** A name without anything that a path could be made of. */
const fileName = (callId: string): string => {
  const safe = callId.replace(/[^\w-]/g, "_").slice(-100)
  return `${safe === "" ? "result" : safe}.txt`
}

/** Results of one name that are kept apart. */
const maxSameName = 1_000

/** Length of time that a kept result can be read. */
const keptFor = Duration.days(7)

/** A keeper for a directory, which is made when it is needed. What is older than a week is removed then. */
export const make = (directory: string): Effect.Effect<Keeper, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const root = path.resolve(directory)

    const removeOld = (name: string) =>
      Effect.gen(function*() {
        const file = path.join(root, name)
        const { mtime } = yield* fs.stat(file)
        const now = yield* Clock.currentTimeMillis
        if (Option.isSome(mtime) && now - mtime.value.getTime() > Duration.toMillis(keptFor)) yield* fs.remove(file)
      })
    // An interrupt must not become what is remembered.
    const prepare = yield* Effect.cached(Effect.uninterruptible(Effect.gen(function*() {
      yield* fs.makeDirectory(root, { recursive: true, mode: 0o700 })
      const names = yield* fs.readDirectory(root)
      // Another process may be removing the same ones.
      yield* Effect.forEach(names, (name) => Effect.catch(removeOld(name), (error) => Effect.logDebug(error.message)), { discard: true })
    })))

    /** Never over another result: ids are unique in an answer, and not in a home directory. */
    const write = (callId: string, text: string, count: number): Effect.Effect<string, PlatformError> => {
      const file = path.join(root, fileName(count === 1 ? callId : `${callId}-${count}`))
      return Effect.as(fs.writeFileString(file, text, { mode: 0o600, flag: "wx" }), file).pipe(
        Effect.catchIf(
          ({ reason }) => reason._tag === "AlreadyExists" && count < maxSameName,
          () => write(callId, text, count + 1)
        )
      )
    }
    return { keep: (callId, text) => Effect.andThen(prepare, write(callId, text, 1)) }
  })

/** See {@link make}. */
export const layer = (directory: string): Layer.Layer<never, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(ResultKeeper, make(directory))

/** In a directory of its own that goes with the scope; made when the first result is kept. */
export const layerTemporary: Layer.Layer<never, never, FileSystem.FileSystem | Path.Path> = Layer.effect(
  ResultKeeper,
  Effect.gen(function*() {
    const services = yield* Effect.context<FileSystem.FileSystem | Path.Path | Scope.Scope>()
    const keeper = yield* Effect.cached(Effect.uninterruptible(Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      return yield* make(yield* fs.makeTempDirectoryScoped({ prefix: "hermes-results-" }))
    }).pipe(Effect.provideContext(services))))
    return { keep: (callId, text) => Effect.flatMap(keeper, ({ keep }) => keep(callId, text)) }
  })
)
