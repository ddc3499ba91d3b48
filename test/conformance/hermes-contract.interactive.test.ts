// Cases of the middleware and hooks documents that need an interactive session.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Hooks from "../../src/hooks/Hooks.ts"
import { session } from "../support/interactiveSession.ts"

const listening = () => {
  const heard: Array<Readonly<Record<string, unknown>>> = []
  const tell = (event: string) => (payload: object) => Effect.sync(() => void heard.push({ event, ...payload }))
  return {
    heard,
    listeners: [Hooks.on("on_session_finalize", tell("finalize")), Hooks.on("on_session_reset", tell("reset"))]
  }
}

describe("hermes-contract: interactive session", () => {
  it.effect("107 /new gives the old identity up, then tells of the new one", () => {
    const { heard, listeners } = listening()
    return session({ listeners }, ({ left, type, until }) =>
      Effect.gen(function* () {
        yield* type("hello\r")
        yield* until("You said: hello")
        yield* type("/new\r")
        yield* until("New session 20260101_000001_bbbbbb")
        assert.deepStrictEqual(
          heard.map(({ event, platform, session_id }) => [event, session_id, platform]),
          [
            ["finalize", "20260101_000000_aaaaaa", "cli"],
            ["reset", "20260101_000001_bbbbbb", "cli"]
          ]
        )
        assert.deepInclude(heard[1], {
          reason: "new_session",
          old_session_id: "20260101_000000_aaaaaa",
          new_session_id: "20260101_000001_bbbbbb"
        })
        yield* type("/quit\r")
        yield* left
        assert.deepInclude(heard[2], { event: "finalize", session_id: "20260101_000001_bbbbbb", reason: "shutdown" })
        assert.strictEqual(heard.length, 3)
      })
    )
  })
})
