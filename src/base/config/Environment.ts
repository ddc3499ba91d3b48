/**
 * Environment of the program: the home directory and the environment variables. The home directory contains the user's
 * settings, secrets, plugins, memory, skills and sessions. Variables come from the process and from the `.env` file in
 * that directory.
 *
 * **Details**
 *
 * The home directory is `HERMES_HOME`, or `~/.hermes` by default. Reading does not create it: {@link HomePaths.ensure}
 * creates it before the first write, accessible only to its owner. Each file is replaced as a whole. Only one process
 * writes a file at a time. Variables of the process override variables of `.env`.
 *
 * **Gotchas**
 *
 * Values of variables are often secrets. Name a variable in a message, never its value.
 *
 * Source: `ARCHITECTURE.md` §8.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import { ConfigError } from "../domain/AgentError.ts"
import { isSecretName } from "../domain/CredentialNames.ts"
import { describeReason } from "../domain/PathProblem.ts"
import { type Registry, Secrets } from "../domain/Secrets.ts"
import * as Leases from "../platform/Leases.ts"
import * as DotEnv from "./DotEnv.ts"
import { ProcessVariables, type Variables } from "../platform/ProcessVariables.ts"

/** Absolute paths in the home directory. They need not exist. */
export interface HomePaths {
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
  /** `scripts/`, for scheduled jobs. */
  readonly scripts: string
  /** `cron/` */
  readonly cron: string
  /** `cache/results/`: tool results that were too long for a conversation. */
  readonly results: string
  /** `changes/`: contents of files before and after a tool changed them, and snapshots of working trees. */
  readonly changes: string
  /** `state.db` */
  readonly database: string
  /** Creates the directory with mode 0700 if it does not exist. */
  readonly ensure: Effect.Effect<void, ConfigError>
}

const findUserDirectory = (variables: Variables): string | undefined => variables["HOME"] || variables["USERPROFILE"]

const findRoot = (variables: Variables, paths: Path.Path): string | undefined => {
  const user = findUserDirectory(variables)
  const chosen = variables["HERMES_HOME"]?.trim()
  if (!chosen) return user && paths.join(user, ".hermes")
  if (chosen !== "~" && !chosen.startsWith("~/")) return paths.resolve(chosen)
  return user && paths.join(user, chosen.slice(1))
}

/**
 * Service for the home directory.
 *
 * @see {@link HomePaths} for its members.
 */
export class Home extends Context.Service<Home, HomePaths>()("hermes-effect/config/Home") {
  /** Provides the home directory named by `HERMES_HOME`, or `~/.hermes`. */
  static readonly layer: Layer.Layer<Home, ConfigError, FileSystem.FileSystem | Path.Path> = Layer.effect(
    Home,
    Effect.gen(function* () {
      const root = findRoot(yield* ProcessVariables, yield* Path.Path)
      if (root !== undefined) return yield* makeHome(root)
      const message = "neither HERMES_HOME nor HOME is set: set HERMES_HOME to a directory"
      return yield* new ConfigError({ path: "HERMES_HOME", message })
    })
  )

  /** Provides the home directory at a given path, such as the directory of a profile or of a test. */
  static readonly layerAt = (root: string): Layer.Layer<Home, never, FileSystem.FileSystem | Path.Path> =>
    Layer.effect(Home, makeHome(root))
}

/** Creates the paths of the home directory at `root`. */
const makeHome = (root: string): Effect.Effect<HomePaths, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const resolveName = (name: string): string => paths.join(root, name)
    return {
      root,
      config: resolveName("config.yaml"),
      env: resolveName(".env"),
      plugins: resolveName("plugins"),
      memories: resolveName("memories"),
      skills: resolveName("skills"),
      scripts: resolveName("scripts"),
      cron: resolveName("cron"),
      results: paths.join(root, "cache", "results"),
      changes: paths.join(root, "changes"),
      database: resolveName("state.db"),
      ensure: Effect.mapError(fs.makeDirectory(root, { recursive: true, mode: 0o700 }), makeRefusal(root, "created"))
    }
  })

/** Creates the error for an operation on a path that the operating system refused. */
const makeRefusal =
  (path: string, what: string) =>
  (error: PlatformError): ConfigError =>
    new ConfigError({ path, message: `${path}: cannot be ${what}: ${describeReason(error)}` })

const isMissing = (error: PlatformError): boolean => error.reason._tag === "NotFound"

/** Returns the text of a file; `None` if the file does not exist. */
export const readText = (path: string): Effect.Effect<Option.Option<string>, ConfigError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    fs.readFileString(path).pipe(
      Effect.map(Option.some),
      Effect.catchIf(isMissing, () => Effect.succeedNone),
      Effect.mapError(makeRefusal(path, "read"))
    )
  )

const encoder = new TextEncoder()

/** Replaces a file atomically: the new text is on disk before readers see it. Only the owner can read the file. */
const replaceFile = (
  path: string,
  text: string
): Effect.Effect<void, PlatformError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const drafts = yield* fs.makeTempDirectoryScoped({ directory: paths.dirname(path), prefix: ".draft-" })
    const draft = paths.join(drafts, paths.basename(path))
    yield* Effect.scoped(
      Effect.flatMap(fs.open(draft, { flag: "wx", mode: 0o600 }), (file) =>
        Effect.andThen(file.writeAll(encoder.encode(text)), file.sync)
      )
    )
    yield* fs.rename(draft, path)
  }).pipe(Effect.scoped)

const toLeaseError = (path: string, error: Leases.LeaseTaken | Leases.LeaseFailed): ConfigError =>
  new ConfigError({
    path,
    message:
      error._tag === "LeaseTaken"
        ? `${path}: ${error.isOwn ? "this process" : `process ${error.pid}`} is changing it: try again`
        : `${path}: cannot be written: ${error.message}`
  })

/**
 * Changes a file: `change` builds the new text from the old one. All processes that share `database` write one after
 * the other, so that no change is lost. A symbolic link is followed: the target is changed and the link remains.
 */
export const updateText = <A, R>(
  database: string,
  path: string,
  change: (text: string) => Effect.Effect<{ readonly text: string; readonly result: A }, ConfigError, R>
): Effect.Effect<A, ConfigError, R | FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const target = yield* Effect.orElseSucceed(fs.realPath(path), () => path)
    return yield* Leases.runWithLease(database, target, (lease) =>
      Effect.gen(function* () {
        const before = Option.getOrElse(yield* readText(target), () => "")
        const { result, text } = yield* change(before)
        if (text === before) return result
        if (!(yield* lease.isHeld)) {
          return yield* new ConfigError({
            path: target,
            message: `${target}: another process took over while this one waited: try again`
          })
        }
        yield* Effect.mapError(replaceFile(target, text), makeRefusal(target, "written"))
        return result
      })
    ).pipe(Effect.mapError((error) => (error._tag === "ConfigError" ? error : toLeaseError(target, error))))
  })

export { HiddenVariables, ProcessVariables, type Variables } from "../platform/ProcessVariables.ts"

/** Lookup of variables in the process and in `.env`. */
export interface Service {
  /** Returns the value of a variable; an empty variable counts as not set. */
  readonly get: (name: string) => string | undefined
  readonly process: Variables
  /** Variables of `.env`, including variables that the process overrides. */
  readonly file: Variables
}

/**
 * Returns a lookup for the keys of a service with a configurable address. If the process or `.env` sets one of the
 * variables `addresses`, only that source is searched for keys. A key from the other source is therefore never sent to
 * the address. If neither sets an address, both are searched.
 */
export const makeAddressGetter = (environment: Service, addresses: ReadonlyArray<string>): Service["get"] => {
  const source = [environment.process, environment.file].find((variables) => addresses.some((name) => variables[name]))
  return source === undefined ? environment.get : (name) => source[name] || undefined
}

/** Creates an environment from the variables of the process and of the file. */
export const make = (process: Variables, file: Variables = {}): Service => ({
  get: (name) => process[name] || file[name] || undefined,
  process,
  file
})

/** Registers the values of all variables whose names mark them as secrets. */
const registerSecrets = (secrets: Registry, environment: Service): Service => {
  for (const variables of [environment.process, environment.file]) {
    for (const [name, value] of Object.entries(variables)) {
      if (value !== undefined && isSecretName(name)) secrets.add(value)
    }
  }
  return environment
}

/**
 * Service for the environment variables of a runtime. The values of credentials are registered as secrets.
 *
 * @see {@link Service} for its members.
 */
export class Environment extends Context.Service<Environment, Service>()("hermes-effect/config/Environment") {
  /** Provides the variables of the process and of the `.env` file in the home directory. */
  static readonly layer: Layer.Layer<Environment, ConfigError, FileSystem.FileSystem | Home> = Layer.effect(
    Environment,
    Effect.gen(function* () {
      const home = yield* Home
      const text = yield* readText(home.env)
      const file = Option.match(text, { onNone: () => ({}), onSome: DotEnv.parse })
      return registerSecrets(yield* Secrets, make(yield* ProcessVariables, file))
    })
  )

  /** Provides an environment with the given variables. */
  static readonly layerIn = (variables: Variables): Layer.Layer<Environment> =>
    Layer.effect(
      Environment,
      Effect.map(Secrets, (secrets) => registerSecrets(secrets, make(variables)))
    )
}
