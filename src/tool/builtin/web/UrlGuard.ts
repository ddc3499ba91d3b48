/**
 * Whether an address that a model made up may be reached, and by which network addresses: the fence's rules (`tool/fence`),
 * with what the settings allow. What is reached later is one of the addresses judged here.
 *
 * Source: `hermes-llm.md` §19.5.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as SystemResolver from "../../fence/internal/SystemResolver.ts"
import * as Urls from "../../fence/Urls.ts"
import { blocked, type WebError } from "./WebError.ts"

/** What is allowed beyond the rules. */
export interface Allowance {
  readonly privateUrls: boolean
}

/** An address that may be reached. */
export type Judged = Urls.Admitted

/** See the module. */
export const judge = (text: string, { privateUrls }: Allowance): Effect.Effect<Judged, WebError> =>
  Effect.flatMap(Urls.Resolver, (resolver) => Urls.make(resolver, { ...Urls.strict, allowPrivate: privateUrls }).admit(text)).pipe(
    Effect.mapError(({ message }) => blocked(message)),
    Effect.provide(SystemResolver.layer)
  )
