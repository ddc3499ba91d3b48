/**
 * Chooses how long a provider should cache the prefix of a conversation.
 *
 * **Details**
 *
 * A prefix that was written for five minutes is lost if the user pauses for longer, and the next turn pays for all of
 * it again. A prefix that was written for an hour costs more to write. `auto` therefore follows the user: a turn that
 * begins after a pause of more than five minutes, and of less than an hour, asks for an hour.
 *
 * Source: `hermes-llm.md` §7.2.
 */
import type { PromptCache } from "../base/domain/ModelCall.ts"

/** Lifetime of a cached prefix: five minutes, an hour, chosen by the pauses of the user, or no cache marks. */
export type Lifetime = PromptCache["ttl"] | "auto" | "off"

const fiveMinutes = 300_000
const hour = 3_600_000

/** Tests whether the provider still has what a session sent before a pause of the user. */
export const isKept = (lifetime: Lifetime, idleMillis: number | undefined): boolean =>
  lifetime !== "off" && idleMillis !== undefined && idleMillis < (lifetime === "1h" ? hour : fiveMinutes)

/** Chooses the prompt cache of a run. `idleMillis` is the time since the session's last run, if there was one. */
export const choosePromptCache = (
  lifetime: Lifetime,
  idleMillis: number | undefined,
  routes: PromptCache["routes"]
): PromptCache | undefined => {
  const more = routes === undefined ? {} : { routes }
  switch (lifetime) {
    case "off":
      return undefined
    case "auto": {
      const isPaused = idleMillis !== undefined && idleMillis > fiveMinutes && idleMillis < hour
      return { ttl: isPaused ? "1h" : "5m", ...more }
    }
    default:
      return { ttl: lifetime, ...more }
  }
}
