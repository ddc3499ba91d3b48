/**
 * Loads a package that an application installs only if it uses what needs it: the SDK of a provider, a client of MCP, a
 * reader of pages.
 *
 * **Details**
 *
 * One that is missing is a {@link ConfigError} of one line that says what to install. A package that is there and
 * cannot be loaded is a defect with its own error. The import is written where the package is used, so that a bundler
 * finds it, and ends in `.catch(absent)`: a bundler then continues without a package that is not installed.
 *
 * **Gotchas**
 *
 * The program brings all of its packages in its own bundle, but for those that it names itself.
 */
import * as Effect from "effect/Effect"
import { ConfigError } from "../domain/AgentError.ts"

/** Passes the failure of an import on; see the gotcha of bundlers above. */
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

/** Loads a module of packages that may be missing. `purpose` begins the line that says so: "Claude models need". */
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

/** Node's HTTP servers of Effect. */
export const httpServers: Effect.Effect<typeof import("@effect/platform-node/NodeHttpServer"), ConfigError> = load(
  "serving HTTP needs the package",
  ["@effect/platform-node"],
  () => import("@effect/platform-node/NodeHttpServer").catch(rethrowImport)
)
