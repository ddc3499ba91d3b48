/**
 * Serves {@link HermesApi} to programs: bodies, connections and requests are bounded, errors have the form of
 * OpenAI's, and requests under way are answered before it ends.
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

/** Address and bounds of a server; each has a default. */
export interface Options {
  /** 0 is any port that is free. */
  readonly port: number
  /** 127.0.0.1 when absent. */
  readonly host?: string | undefined
  /**
   * Key that clients show; required where `host` is not on the loopback. Without one, and without named keys, the
   * server makes a random key for its life and returns it.
   */
  readonly key?: Redacted.Redacted<string> | undefined
  /**
   * Admits requests without a key, on the loopback only. Every user and every process of the machine may then do
   * everything that the server can do: for applications that guard the address themselves, such as by a network
   * namespace. False when absent.
   */
  readonly open?: boolean | undefined
  readonly allowedHosts?: ReadonlyArray<string> | undefined
  readonly allowedOrigins?: ReadonlyArray<string> | undefined
  /** Longest body in bytes; 32 MiB when absent. */
  readonly maxBody?: number | undefined
  /** Bytes of the bodies of all requests under way; 256 MiB when absent, and as many as one may have at least. */
  readonly maxBodies?: number | undefined
  /** 1024 when absent. */
  readonly maxConnections?: number | undefined
  /** Requests that are answered at once; 512 when absent. */
  readonly maxRequests?: number | undefined
  /** Milliseconds in which a client reads something of its answer before it is cut off; a minute when absent. */
  readonly maxStall?: number | undefined
  /** Milliseconds that requests under way have when the server ends; ten seconds when absent. */
  readonly maxGrace?: number | undefined
}

/** A running server. */
export interface RunningServer {
  readonly url: string
  /**
   * Key that clients send as `Authorization: Bearer`; undefined for an open server, and where only named keys are
   * admitted.
   */
  readonly key: Redacted.Redacted<string> | undefined
}

/**
 * Serves the API as long as the scope lives. Fails with the reason when it may not be started so, or the port cannot
 * be used.
 */
export const serve = (options: Options): Effect.Effect<RunningServer, string, RolloutPort | Scope.Scope> =>
  Effect.flatMap(
    Effect.promise(() => import("./ServedApi.ts")),
    ({ serve }) => serve(options)
  )
