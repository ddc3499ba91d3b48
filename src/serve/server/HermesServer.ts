/**
 * Serves {@link HermesApi} to programs. The number of connections and requests and the size of bodies are limited.
 * Errors use the OpenAI format, and active requests are answered before the server ends.
 *
 * **Example** (A server over rollouts in memory)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Runtime } from "hermes-effect"
 * import { EpisodeStore, Episodes, RolloutModel } from "hermes-effect/rollouts"
 * import { HermesServer } from "hermes-effect/server"
 *
 * const rollouts = RolloutModel.layer({}).pipe(
 *   Layer.provide(Episodes.layer),
 *   Layer.provide([EpisodeStore.layerMemory, Runtime.layer()])
 * )
 *
 * export const program = Effect.scoped(Effect.gen(function*() {
 *   const { url } = yield* HermesServer.serve({ port: 0 })
 *   return url
 * })).pipe(Effect.provide(rollouts))
 *
 * console.log((await Effect.runPromise(program)).startsWith("http://127.0.0.1:"))
 * // => true
 * ```
 *
 * Source: `ARCHITECTURE.md` §3, `hermes-product.md` §5.5.
 */
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { RolloutPort } from "../../base/domain/RolloutPort.ts"

/** Address and limits of a server. All except `port` have defaults. */
export interface Options {
  /** Port to listen on. 0 selects any free port. */
  readonly port: number
  /** Host address to listen on. Defaults to 127.0.0.1. */
  readonly host?: string | undefined
  /**
   * Key that clients send. Required if `host` is not a loopback address. If there is neither a key nor a named key, the
   * server generates a random key for its lifetime and returns it.
   */
  readonly key?: Redacted.Redacted<string> | undefined
  /**
   * Admits requests without a key, but only on a loopback address. Every user and every process on the machine may then
   * use everything that the server offers. Intended for applications that protect the address in another way, such as a
   * network namespace. Defaults to false.
   */
  readonly open?: boolean | undefined
  readonly allowedHosts?: ReadonlyArray<string> | undefined
  readonly allowedOrigins?: ReadonlyArray<string> | undefined
  /** Maximum size of a body in bytes. Defaults to 32 MiB. */
  readonly maxBody?: number | undefined
  /**
   * Maximum total size of the bodies of all active requests, in bytes. Defaults to 256 MiB, and is at least `maxBody`.
   */
  readonly maxBodies?: number | undefined
  /** Maximum number of open responses, including streams. Defaults to 1024. */
  readonly maxConnections?: number | undefined
  /** Maximum number of concurrent requests. Defaults to 512. */
  readonly maxRequests?: number | undefined
  /** Number of milliseconds after which a client that does not read is disconnected. Defaults to one minute. */
  readonly maxStall?: number | undefined
  /** Milliseconds that active requests may take to finish when the server ends. Defaults to ten seconds. */
  readonly maxGrace?: number | undefined
}

/** A running server. */
export interface RunningServer {
  readonly url: string
  /**
   * Key that clients send as `Authorization: Bearer`. `undefined` if the server needs no key or admits only named keys.
   */
  readonly key: Redacted.Redacted<string> | undefined
}

/**
 * Serves the API for the lifetime of the scope. Fails with a reason if the options are not allowed or the port cannot
 * be used.
 */
export const serve = (options: Options): Effect.Effect<RunningServer, string, RolloutPort | Scope.Scope> =>
  Effect.flatMap(
    Effect.promise(() => import("./ServedApi.ts")),
    ({ serve }) => serve(options)
  )
