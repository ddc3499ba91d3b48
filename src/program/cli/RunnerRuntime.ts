/**
 * The runtime of commands that run many tasks without a user (`hermes swe`, `hermes eval`), and the environment of the
 * commands that check results.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Agent } from "../../agent/Agent.ts"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import * as Config from "../../base/config/Config.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import { CommandEnvironment, layerLocal } from "../../places/CommandEnvironment.ts"
import * as Leases from "../../base/platform/Leases.ts"
import { Auxiliary } from "../../models/routing/Auxiliary.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import * as ConfiguredEnvironment from "../../tools/ConfiguredEnvironment.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import { makeWorkFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import type { Start } from "../runtime/ProgramStart.ts"
import { Program } from "./Program.ts"

/** Settings shared by every rollout: transcripts are never shortened, and the runs are unattended. */
export const rolloutFlags: ReadonlyArray<Config.Flag> = [
  { name: "hermes rl", key: "compression.enabled", value: false },
  { name: "hermes rl", key: "context.engine", value: "compressor" }
]

/** Loads the settings, overridden by the shared flags and the command's flags. */
export const loadSettings = Effect.fnUntraced(function* (flags: ReadonlyArray<Config.Flag>, agentFile?: AgentFile) {
  const options = Flags.toConfigOptions({ ...(yield* hermes), agentFile })
  const { settings, warnings } = yield* Config.load({ ...options, flags: [...(options.flags ?? []), ...flags] })
  for (const warning of warnings) yield* Effect.logWarning(warning)
  return settings
})

/**
 * Returns the settings for a runtime that works in workspaces created by the program. The workspaces are writable,
 * regardless of the folder in which the program was started. Sessions start without the user's own files.
 */
export const toWorkspaceSettings = (settings: Values): Values => {
  const { sandbox } = settings.terminal
  return {
    ...settings,
    terminal: { ...settings.terminal, sandbox: { ...sandbox, policy: sandbox.policy ?? "workspace-write" } }
  }
}

/** Opens the command environment selected by the settings. */
const openCommandEnvironment = Effect.fnUntraced(function* (settings: Values) {
  const { layer } = yield* ConfiguredEnvironment.choose(settings, {
    environment: yield* Environment,
    home: yield* Home
  })
  return Context.get(yield* Layer.build(layer ?? layerLocal), CommandEnvironment)
})

/** Fails with one line if the settings select neither a model nor the stand-in, before anything is created. */
export const requireModel = Effect.fnUntraced(function* (
  settings: Values,
  { replay, script }: Pick<Start, "replay" | "script">
) {
  const isReplaced = script !== undefined || replay !== undefined
  const missing = isReplaced
    ? undefined
    : ConfiguredRoutes.findMissingModel({ settings, environment: yield* Environment })
  if (missing !== undefined) return yield* missing
})

/** Opens a runtime, and the environment of the commands that check its results. */
export const open = Effect.fnUntraced(function* (
  given: Values,
  start: Pick<Start, "agentFile" | "database" | "replay" | "script">
) {
  const program = yield* Program
  const settings = toWorkspaceSettings(given)
  const { backend, dockerBinary, dockerImage } = settings.terminal
  // The image is fetched before any tokens are spent.
  if (backend === "docker")
    yield* Effect.flatMap(
      Effect.promise(() => import("../../places/ContainerEngine.ts")),
      ({ fetchImage }) => fetchImage(dockerBinary, dockerImage)
    )
  const environment = yield* openCommandEnvironment(settings)
  const services = yield* Layer.build(program.layer(settings, { ...start, ignoreRules: true, withoutChanges: true }))
  const router = Context.get(services, ModelRouter)
  return {
    services,
    agent: Context.get(services, Agent),
    auxiliary: Context.get(services, Auxiliary),
    router,
    store: Context.get(services, SessionStore),
    registry: Context.get(services, ToolRegistry),
    environment
  }
})

/** Locks the results of a run against other processes until the scope closes. */
export const hold = Effect.fnUntraced(function* (results: string) {
  const { database, ensure } = yield* Home
  yield* ensure
  const leases = Context.get(yield* Layer.build(Leases.layer(database)), Leases.Leases)
  yield* Effect.mapError(leases.take(`results of ${results}`), ({ message }) => makeWorkFailure(message))
})

/** Opens the command environment without a runtime. */
export const openEnvironment = (settings: Values) => openCommandEnvironment(toWorkspaceSettings(settings))
