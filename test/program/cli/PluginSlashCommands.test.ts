// Slash commands of plugins in a session.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { toDialogCommands, reserved } from "../../../src/program/cli/InteractiveChat.ts"
import { session } from "../../support/interactiveSession.ts"

describe("slash commands of plugins", () => {
  it.effect("show what they give, and what went wrong, and the session goes on", () =>
    session(
      {
        commands: toDialogCommands([
          {
            name: "shout",
            description: "Says it\u001b[31m loudly",
            argsHint: "TEXT",
            run: (args) => Effect.succeed(args.toUpperCase())
          },
          { name: "silent", run: () => Effect.void },
          { name: "broken", run: () => Effect.fail(new Error("no luck")) },
          { name: "dying", run: () => Effect.die("dead") },
          { name: "forever", run: () => Effect.never }
        ])
      },
      ({ screen, type, until }) =>
        Effect.gen(function* () {
          yield* type("/help\r")
          yield* until("Says it␛[31m loudly")
          yield* type("/shout Hello there\r")
          yield* until("HELLO THERE")
          yield* type("/silent\r")
          yield* type("/broken\r")
          yield* until("Error: no luck")
          yield* type("/dying\r")
          yield* until("Error: dead")
          yield* type("/forever\r")
          yield* Effect.forkChild(Effect.forever(Effect.andThen(TestClock.adjust("5 seconds"), Effect.yieldNow)))
          yield* until("/forever took longer than 30s")
          yield* type("hello\r")
          yield* until("You said: hello")
          assert.notInclude(screen(), "undefined")
        })
    )
  )

  it("may not have the names of the program's own", () => {
    assert.includeMembers([...reserved.commands], ["help", "quit", "new"])
  })
})
