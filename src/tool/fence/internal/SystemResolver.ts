/**
 * Resolves names as this machine does, hosts file included.
 */
import { lookup } from "node:dns/promises"
import * as Effect from "effect/Effect"

/** Resolves names as this machine does, hosts file included. */
export const systemResolver = {
  resolve: (host: string) =>
    Effect.map(Effect.tryPromise(() => lookup(host, { all: true })), (answers) => answers.map(({ address }) => address))
}
