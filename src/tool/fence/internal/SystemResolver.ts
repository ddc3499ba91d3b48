/**
 * Resolves names as this machine does, hosts file included.
 *
 * @since 0.1.0
 */
import { lookup } from "node:dns/promises"
import * as Effect from "effect/Effect"

/** See the module. */
export const systemResolver = {
  resolve: (host: string) =>
    Effect.map(Effect.tryPromise(() => lookup(host, { all: true })), (answers) => answers.map(({ address }) => address))
}
