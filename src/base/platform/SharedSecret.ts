/**
 * Secrets that a listener and its clients share: random texts, and their comparison.
 */
import * as Effect from "effect/Effect"
import { createHash, randomBytes, timingSafeEqual } from "node:crypto"

const digestText = (text: string): Buffer => createHash("sha256").update(text).digest()

/** Compares a text with a secret in a time that does not reveal how much of it matches. */
export const isSecret = (given: string, secret: string): boolean =>
  timingSafeEqual(digestText(given), digestText(secret))

/** Makes a secret of 32 random bytes, as 43 letters, digits, `-` and `_`. */
export const makeSecret: Effect.Effect<string> = Effect.sync(() => randomBytes(32).toString("base64url"))
