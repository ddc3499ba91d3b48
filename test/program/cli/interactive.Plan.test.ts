// The mode plan in a conversation: what the model is told, and the question that follows a plan.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { session } from "../../support/interactiveSession.ts"

describe("a plan", () => {
  it.effect("is approved with the mode to go on in, kept being made by other words, or left alone", () =>
    session({ mode: "plan", status: { compactAt: 0.5, home: undefined } }, ({ later, model, type, until }) =>
      Effect.gen(function* () {
        yield* until("fake-1 · plan")
        yield* type("hello\r")
        const asked = yield* until("❯ Approve, continue in ask")
        for (const row of ["Approve, continue in edits", "Approve, continue in auto", "Keep planning"])
          assert.include(asked, row)
        assert.include(JSON.stringify(model.asked.at(-1)?.messages), "Plan mode: read only")
        // Words are the next message.
        yield* type("smaller steps")
        yield* until("Press Enter to send this and continue planning.")
        yield* type("\r")
        yield* until("› smaller steps")
        yield* until("❯ Approve, continue in ask")
        assert.include(JSON.stringify(model.asked.at(-1)?.messages), "smaller steps")
        // Esc is the prompt, with the plan undecided.
        yield* type("\u001b")
        yield* later("fake-1 · plan")
        yield* type("and tests\r")
        yield* until("› and tests")
        yield* until("❯ Approve, continue in ask")
        yield* type("edits\r")
        yield* until("› The plan is approved. Carry it out now.")
        yield* until("fake-1 · edits")
        yield* until("You said: The plan is approved. Carry it out now.")
        assert.notInclude(JSON.stringify(model.asked.at(-1)?.messages), "Plan mode: read only")
      })
    )
  )
})
