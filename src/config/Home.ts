/**
 * The directory that holds what belongs to a user: settings, secrets, plugins, memory, skills, sessions.
 *
 * **Details**
 *
 * `HERMES_HOME`, else `~/.hermes`. Nothing is created by looking: {@link Service.ensure} makes the directory, for its owner
 * only, when something is about to be written.
 *
 * Source: `ARCHITECTURE.md` §8.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import { ConfigError } from "../domain/AgentError.ts"
import { refused } from "./internal/SettingsFiles.ts"
import { ProcessVariables, type Variables } from "../platform/ProcessVariables.ts"

/** Absolute paths; none of them need exist. */
export interface Service {
  readonly root: string
  /** `config.yaml` */
  readonly config: string
  /** `.env` */
  readonly env: string
  /** `plugins/` */
  readonly plugins: string
  /** `memories/` */
  readonly memories: string
  /** `skills/` */
  readonly skills: string
  /** `scripts/`, those of scheduled jobs. */
  readonly scripts: string
  /** `cron/` */
  readonly cron: string
  /** `cache/results/`: tool results that were too long for a conversation. */
  readonly results: string
  /** `state.db` */
  readonly database: string
  /** Makes the directory, with mode 0700, unless it is there. */
  readonly ensure: Effect.Effect<void, ConfigError>
}

const userDirectory = (variables: Variables): string | undefined => variables["HOME"] || variables["USERPROFILE"]

const rootOf = (variables: Variables, paths: Path.Path): string | undefined => {
  const user = userDirectory(variables)
  const chosen = variables["HERMES_HOME"]?.trim()
  if (!chosen) return user && paths.join(user, ".hermes")
  if (chosen !== "~" && !chosen.startsWith("~/")) return paths.resolve(chosen)
  return user && paths.join(user, chosen.slice(1))
}

/**
 * The home directory.
 *
 * @see {@link Service} for its members.
 */
export class Home extends Context.Service<Home, Service>()("hermes-effect/config/Home") {
  /** The directory that the environment names. */
  static readonly layer: Layer.Layer<Home, ConfigError, FileSystem.FileSystem | Path.Path> = Layer.effect(
    Home,
    Effect.gen(function*() {
      const root = rootOf(yield* ProcessVariables, yield* Path.Path)
      if (root !== undefined) return yield* make(root)
      const message = "neither HERMES_HOME nor HOME is set: set HERMES_HOME to a directory"
      return yield* new ConfigError({ path: "HERMES_HOME", message })
    })
  )

  /** A directory that is given: a profile, or a test's own. */
  static readonly layerAt = (root: string): Layer.Layer<Home, never, FileSystem.FileSystem | Path.Path> =>
    Layer.effect(Home, make(root))
}

/** The home directory at a path. */
export const make = (root: string): Effect.Effect<Service, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const at = (name: string): string => paths.join(root, name)
    return {
      root,
      config: at("config.yaml"),
      env: at(".env"),
      plugins: at("plugins"),
      memories: at("memories"),
      skills: at("skills"),
      scripts: at("scripts"),
      cron: at("cron"),
      results: paths.join(root, "cache", "results"),
      database: at("state.db"),
      ensure: Effect.mapError(fs.makeDirectory(root, { recursive: true, mode: 0o700 }), refused(root, "created"))
    }
  })
