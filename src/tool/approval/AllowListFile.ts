/**
 * Keeps approvals for good in `command_allowlist` of the configuration file.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Edit from "../../config/Edit.ts"
import { Home } from "../../config/Home.ts"
import { AllowList } from "./Memory.ts"

/** See the module. */
export const layer: Layer.Layer<never, never, FileSystem.FileSystem | Home | Path.Path> = Layer.effect(
  AllowList,
  Effect.map(Effect.context<FileSystem.FileSystem | Home | Path.Path>(), (context) => ({
    add: (entries: ReadonlyArray<string>) =>
      Edit.modify(["command_allowlist"], (value) => {
        const known: ReadonlyArray<unknown> = Array.isArray(value) ? value : []
        return [...known, ...entries.filter((entry) => !known.includes(entry))]
      }).pipe(Effect.asVoid, Effect.provideContext(context))
  }))
)
