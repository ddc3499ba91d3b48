/**
 * Loads a package that an application installs only if it uses the corresponding feature: the SDK of a provider, an MCP
 * client, a web page reader.
 *
 * **Details**
 *
 * A missing package is a {@link ConfigError} of one line that names the package to install. If an installed package
 * cannot be loaded, its error is a defect. The import is written in the module that uses the package, so that a bundler
 * finds it. It ends in `.catch(rethrowImport)`, so that a bundler continues if the package is not installed.
 *
 * **Gotchas**
 *
 * The bundle of the program contains all packages except the ones declared as external.
 */
import * as Effect from "effect/Effect"
import { ConfigError } from "../domain/AgentError.ts"

/** Rethrows the failure of an import. See the description of the module for its use with bundlers. */
export const rethrowImport = (error: unknown): never => {
  throw error
}

const isMissing = (error: unknown, names: ReadonlyArray<string>): boolean => {
  if (!(error instanceof Error) || !("code" in error)) return false
  return (
    (error.code === "ERR_MODULE_NOT_FOUND" || error.code === "MODULE_NOT_FOUND") &&
    names.some((name) => error.message.includes(`'${name}`))
  )
}

/**
 * Loads a module from packages that may be missing. `purpose` begins the error message for a missing package: "Claude
 * models need".
 */
export const load = <Module>(
  purpose: string,
  names: readonly [string, ...ReadonlyArray<string>],
  module: () => Promise<Module>
): Effect.Effect<Module, ConfigError> =>
  Effect.catch(Effect.tryPromise({ try: module, catch: (error) => error }), (error) =>
    isMissing(error, names)
      ? Effect.fail(
          new ConfigError({
            path: names.join(" "),
            message:
              `${purpose} ${names.join(" and ")}, which ${names.length === 1 ? "is" : "are"} not ` +
              `installed: npm install ${names.join(" ")}`
          })
        )
      : Effect.die(error)
  )

/** Loads Effect's HTTP servers for Node. */
export const httpServers: Effect.Effect<typeof import("@effect/platform-node/NodeHttpServer"), ConfigError> = load(
  "serving HTTP needs the package",
  ["@effect/platform-node"],
  () => import("@effect/platform-node/NodeHttpServer").catch(rethrowImport)
)
