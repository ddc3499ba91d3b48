/**
 * The models that the settings mean, for commands that look at them without a run: with logins in place of keys, and with
 * the providers that plugins bring.
 *
 * Plugins are loaded only where the settings name a provider that the program does not know itself.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import { Environment } from "../config/Environment.ts"
import type { Home } from "../config/Home.ts"
import type { Values } from "../config/Settings.ts"
import type { ConfigError } from "../domain/AgentError.ts"
import type { ProviderSource } from "../plugin/Plugin.ts"
import { Plugins } from "../plugin/Plugins.ts"
import * as ProviderSources from "../plugin/ProviderSources.ts"
import * as ConfiguredRoutes from "../routing/ConfiguredRoutes.ts"
import type { Logins } from "../routing/Logins.ts"
import * as OpenRoute from "../routing/OpenRoute.ts"
import { Program } from "./Program.ts"

export interface Models {
  readonly configured: ConfiguredRoutes.Configured
  readonly open: OpenRoute.Open
}

/** A way to find the logins: to look at them, or to renew them for use. */
export type Read = (
  logins: typeof import("../routing/Logins.ts")
) => (settings: Values) => Effect.Effect<Logins, ConfigError, Home | FileSystem.FileSystem | Path.Path>

const providersOf = Effect.fnUntraced(function*(
  settings: Values
): Effect.fn.Return<ReadonlyArray<ProviderSource>, ConfigError, Program | Home | Environment | Scope.Scope> {
  if (ConfiguredRoutes.unknown(settings).length === 0) return []
  const program = yield* Program
  const runtime = yield* Layer.build(program.layer(settings, { withoutModel: true }))
  const { providers } = yield* Context.get(runtime, Plugins).loaded
  return providers
})

/** Works with them; `read` says how logins are found, where one may matter. */
export const use = <A, E, R>(
  settings: Values,
  read: Read,
  work: (models: Models) => Effect.Effect<A, E, R>
): Effect.Effect<
  A,
  E | ConfigError,
  Exclude<R, Scope.Scope> | Program | Home | Environment | FileSystem.FileSystem | Path.Path
> =>
  Effect.scoped(Effect.gen(function*() {
    const environment = yield* Environment
    const providers = yield* providersOf(settings)
    const logins = ConfiguredRoutes.mayLogIn(settings)
      ? yield* Effect.flatMap(Effect.promise(() => import("../routing/Logins.ts")), (logins) => read(logins)(settings))
      : undefined
    const known = OpenRoute.make({ routing: settings.providerRouting })
    return yield* work({
      configured: { settings, environment, logins, brought: providers },
      open: (route) => (ProviderSources.find(providers, route.provider)?.open ?? known)(route)
    })
  }))
