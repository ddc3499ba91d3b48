// Processes that share a database: one asks, others answer, another watches. The approved call has its effect once.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { existsSync, readFileSync } from "node:fs"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { runScript } from "../../support/runScript.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

describe.skipIf(missing !== undefined)(`processes over Postgres${missing === undefined ? "" : ` (${missing})`}`, () => {
  let server: Server
  let trials = 0
  beforeAll(async () => {
    server = await startServer()
  })
  afterAll(() => server.remove())

  it.live("one asks, another answers, and a third sees all of it; two answers at once have one effect", () =>
    Effect.gen(function* () {
      const url = server.url(`shared${++trials}`)
      const traces = `${yield* temporaryDirectory}/traces`
      const readTraces = () => (existsSync(traces) ? readFileSync(traces, "utf8").trim().split("\n") : [])

      /** Starts a process, with the first line of its output. It ends with the test at the latest. */
      const start = Effect.fnUntraced(function* (role: string, ...args: ReadonlyArray<string>) {
        const first = yield* Deferred.make<{ readonly line: string; readonly pid: number | undefined }>()
        const work = runScript("sharedSession.ts", [role, url, traces, ...args], (line, { pid }) => {
          Deferred.doneUnsafe(first, Effect.succeed({ line, pid }))
        })
        const fiber = yield* Effect.forkScoped(
          // A process that ends without a line would be waited for in vain.
          Effect.tap(work, ({ errors }) => Deferred.die(first, new Error(errors)))
        )
        return { first: Deferred.await(first), ended: Fiber.join(fiber) }
      })

      const [watcher, asker] = yield* Effect.all([start("watch"), start("ask")])
      assert.strictEqual((yield* watcher.first).line, "ready")
      const { line: asked, pid: askerId } = yield* asker.first
      assert.match(asked, /^suspended \S+$/u)
      assert.isEmpty(readTraces())

      const question = asked.split(" ")[1] ?? ""
      const answers = yield* Effect.all([start("answer", question), start("answer", question)])
      const ended = yield* Effect.forEach(answers, ({ ended, first }) => Effect.all([ended, first]))
      const said = ended.map(([{ lines }]) => lines.join("\n")).toSorted()
      assert.match(said[0] ?? "", /^refused (?:QuestionAnswered|SessionBusy)$/u)
      assert.strictEqual(said[1], "text_response It is paid.")
      const payer = ended.find(([{ lines }]) => lines[0]?.startsWith("text_response"))?.[1].pid
      assert.deepStrictEqual(readTraces(), [`pay ${payer}`])
      assert.notStrictEqual(payer, askerId)

      const seen = yield* watcher.ended
      assert.strictEqual(seen.code, 0, seen.errors)
      const events = seen.lines.join("\n")
      assert.match(events, /^1 QuestionAsked\n(?:1 .*\n)*1 RunFinished suspended/mu)
      assert.match(
        events,
        /^(\d) RunStarted\n(?:\1 .*\n)*\1 ToolFinished\n(?:\1 .*\n)*\1 RunFinished text_response It is paid\.$/mu
      )
    })
  )
})
