// Two clusters in two schemas of one database: each has its own runners and its own locks of shards.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { answerText, make } from "../../support/runnerWorld.ts"

describe.skipIf(missing !== undefined)(
  `clusters in one database${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  () => {
    let server: Server
    beforeAll(async () => {
      server = await startServer()
    })
    afterAll(() => server.remove())

    it.live("each cluster runs its own runs", () =>
      Effect.scoped(
        Effect.gen(function* () {
          const worlds = [
            yield* make(server, "hermes", (_, response) => answerText(response, "default")),
            yield* make(server, "first_team", (_, response) => answerText(response, "first")),
            yield* make(server, "second_team", (_, response) => answerText(response, "second"))
          ]
          for (const world of worlds) yield* world.startRunner(1)
          const answers = yield* Effect.forEach(worlds, ({ run }) => run(["cluster", "submit", "--wait", "Hello"]))
          assert.deepStrictEqual(
            answers.map(({ code, stdout }) => [code, stdout]),
            [
              [0, "default\n"],
              [0, "first\n"],
              [0, "second\n"]
            ],
            answers.map(({ stderr }) => stderr).join("\n")
          )
        })
      )
    )
  }
)
