/**
 * Requests to an admitted address, and their answers.
 */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Admitted } from "./Urls.ts"

/** The other side could not be reached, or broke off. */
export class TransportFailed extends Schema.TaggedError<TransportFailed>("hermes-effect/TransportFailed")("TransportFailed", {
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}

/** A response. Header names are lower case. */
export interface Received {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** The body is longer than what was kept of it. */
  readonly truncated: boolean
}

/** Options of a request. */
export interface Options {
  readonly method?: "GET" | "POST"
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Bytes of the answer that are kept, after decompression. */
  readonly maxBytes: number
}

/** Sends one request to admitted addresses, and follows no redirect. */
export interface Send {
  readonly send: (to: Admitted, options: Options) => Effect.Effect<Received, TransportFailed>
}
