// Cases of the program's document that need an interactive session.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Hooks from "../../src/hooks/Hooks.ts"
import { session } from "../support/interactiveSession.ts"

describe("hermes-product: interactive session", () => {
  it.effect("20 in steer mode a message reaches the model with the next tool result, and no tool is cancelled", () =>
    session({ display: { busyInputMode: "steer" } }, ({ later, model, screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("be slow\r")
        yield* until("› be slow")
        yield* type("be quick\r")
        yield* until("sending: be quick")
        yield* later("Both slept well.")
        assert.include(screen(), "› be quick")
        const results = JSON.stringify(model.asked.at(-1)?.messages.at(-1))
        assert.include(results, "[The user says, while you work:]\\nbe quick")
        assert.notInclude(results, "ancelled")
      })
    )
  )

  it.effect("20 a message that no tool result took along is the next turn's", () =>
    session({ display: { busyInputMode: "steer" } }, ({ later, type, until }) =>
      Effect.gen(function* () {
        yield* type("talk\r")
        yield* until("Well,")
        yield* type("go on\r")
        yield* until("sending: go on")
        yield* later("You said: go on")
      })
    )
  )

  it.effect("20 where something else replaces results, a message waits for the next turn", () =>
    session(
      {
        display: { busyInputMode: "steer" },
        listeners: [Hooks.on("transform_tool_result", () => Effect.succeed("replaced"))]
      },
      ({ type, until }) =>
        Effect.gen(function* () {
          yield* type("hang\r")
          yield* until("Let me think about")
          yield* type("go on\r")
          yield* until("next: go on")
        })
    )
  )
})
