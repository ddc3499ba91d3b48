/** Creates and compares the secrets that a listener shares with its clients. */
import * as Effect from "effect/Effect"
import { createHash, randomBytes, timingSafeEqual } from "node:crypto"

const digestText = (text: string): Buffer => createHash("sha256").update(text).digest()

/** Compares a string with a secret in constant time. */
export const isSecret = (given: string, secret: string): boolean =>
  timingSafeEqual(digestText(given), digestText(secret))

/** Creates a secret of 32 random bytes, written as 43 letters, digits, `-` and `_`. */
export const makeSecret: Effect.Effect<string> = Effect.sync(() => randomBytes(32).toString("base64url"))
