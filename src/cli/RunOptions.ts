/**
 * Options of every run of the command line besides its prompt, and the notice before the first one.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type { RunInput } from "../agent/RunInput.ts"
import type { Values } from "../config/Settings.ts"
import * as Offline from "../provider/Offline.ts"
import { ModelRouter } from "../routing/ModelRouter.ts"
import type { Session } from "../session/SessionStore.ts"
import type { ToolRegistry } from "../tool/ToolRegistry.ts"
import type { Failure } from "./Failure.ts"
import type * as Flags from "./Flags.ts"
import { note, type Output } from "./ProgramOutput.ts"
import * as ToolsetSelection from "./ToolsetSelection.ts"

/** The flags of `hermes chat`. */
export type ChatFlags = Flags.Globals & Flags.Chat

export type RunOptions = Pick<RunInput, "maxIterations" | "source" | "streaming" | "tools">

/** Says so where nobody configured a model, and nobody asked for the stand-in either. */
const mention = Effect.fnUntraced(function*({ script }: ChatFlags, { model }: Values) {
  const router = yield* ModelRouter
  const { provider } = yield* router.primary
  const isMeant = script !== undefined || model.provider.toLowerCase() === provider || model.default === provider
  if (provider === Offline.route.provider && !isMeant) yield* note(`Note: ${Offline.notice}`)
})

export const prepare = Effect.fnUntraced(function*(
  flags: ChatFlags,
  settings: Values
): Effect.fn.Return<RunOptions, Failure, ModelRouter | Output | ToolRegistry> {
  const tools = yield* ToolsetSelection.select(flags, settings)
  yield* mention(flags, settings)
  return {
    tools,
    source: flags.source ?? (flags.oneshot ? "oneshot" : "cli"),
    maxIterations: settings.agent.maxTurns,
    streaming: settings.model.streaming && settings.display.streaming
  }
})

/** The directory that a session was about, as long as it is there; else the process's. */
export const directoryOf = Effect.fnUntraced(function*(
  { cwd }: Pick<Session, "cwd">
): Effect.fn.Return<string | undefined, never, FileSystem.FileSystem> {
  if (cwd === undefined) return undefined
  const fs = yield* FileSystem.FileSystem
  // One that cannot be looked at cannot be worked in either.
  if (yield* Effect.orElseSucceed(fs.exists(cwd), () => false)) return cwd
  yield* Effect.logWarning(`Directory ${cwd} of the session does not exist; tools use the current directory.`)
  return undefined
})
