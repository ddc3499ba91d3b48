/**
 * Resolves names as this machine does, hosts file included.
 *
 * @since 0.1.0
 */
import { lookup } from "node:dns/promises"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Resolver } from "../Urls.ts"

/** See the module. */
export const layer: Layer.Layer<Resolver> = Layer.succeed(Resolver, {
  resolve: (host) =>
    Effect.map(Effect.tryPromise(() => lookup(host, { all: true })), (answers) => answers.map(({ address }) => address))
})
