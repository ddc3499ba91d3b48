/**
 * Effect's platform services for places without files and processes. Every file is missing, and no program can be
 * started. An application replaces them by providing its own `FileSystem` or `ChildProcessSpawner`.
 */
import * as Effect from "effect/Effect"
import * as EffectFileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as EffectPath from "effect/Path"
import * as PlatformError from "effect/PlatformError"
import { ChildProcessSpawner, make as makeSpawner } from "effect/process/ChildProcessSpawner"

/** Provides a file system without files. */
export const fileSystem = EffectFileSystem.layerNoop({})

/** Provides POSIX paths. */
export const path = EffectPath.layer

/** Provides a spawner that fails for every program. */
export const spawner = Layer.succeed(
  ChildProcessSpawner,
  makeSpawner(() =>
    Effect.fail(
      PlatformError.systemError({
        module: "ChildProcess",
        method: "spawn",
        _tag: "PermissionDenied",
        description: "programs need Node, Bun or Deno"
      })
    )
  )
)
