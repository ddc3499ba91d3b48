// Workflows whose agents and their children wait, killed at any moment, continued in fresh processes and answered in any
// order: what has an effect outside happens once, and never without its answer. `HERMES_TEST_KILLS` says how many.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { existsSync, readFileSync } from "node:fs"
import * as Digest from "../../../../src/base/platform/Digest.ts"
import * as SessionStore from "../../../../src/store/SessionStore.ts"
import { missing, type Server, startServer } from "../../../support/postgresServer.ts"
import { runScript } from "../../../support/runScript.ts"
import { checkCalls, isAbout, listSessionCalls } from "../../../support/suspendedChecks.ts"
import { random, type Store } from "../../../support/suspendedWorld.ts"
import { temporaryDirectory } from "../../../support/temporaryDirectory.ts"

const trials = Number(process.env["HERMES_TEST_KILLS"] ?? 1)
const seed = Number(process.env["HERMES_TEST_SEED"] ?? 4711)

interface Asked {
  readonly prompt: string
  readonly question: string
  readonly schema: unknown
}

/** The answer to a question, the same each time that it is given. */
const decide = ({ question, schema }: Asked): unknown => {
  const chance = Number.parseInt(Digest.toHex(question, 4), 16)
  return JSON.stringify(schema).includes("choice") ? { choice: chance % 5 < 3 ? "once" : "deny" } : chance % 100
}

const trial = Effect.fnUntraced(function* (kind: "postgres" | "sqlite", place: string, store: Store, own: number) {
  const directory = yield* temporaryDirectory
  const traces = `${directory}/traces`
  const next = random(own * 13 + 5)
  const known = new Map<string, Asked>()
  let open: ReadonlyArray<Asked> = []
  for (let round = 0; ; round++) {
    assert.isBelow(round, 60, "no end")
    const chosen = open.filter(() => next() < 0.7).toSorted(() => next() - 0.5)
    const answers = chosen.map((asked) => ({ question: asked.question, answer: decide(asked) }))
    const kill = round < 20 && next() < 0.5 ? 2 + Math.floor(next() * 6) : undefined
    let seen = 0
    const { code, errors, lines, signal } = yield* runScript(
      "waitingWorkflow.ts",
      [kind, place, traces, String(own), JSON.stringify(answers)],
      (_, child) => {
        if (++seen === kill) child.kill("SIGKILL")
      }
    )
    if (signal !== null) continue
    assert.strictEqual(code, 0, errors)
    const end = lines.at(-1) ?? ""
    if (end.startsWith("end finished")) {
      assert.strictEqual(end, "end finished done done")
      break
    }
    assert.match(end, /^end waiting /u)
    open = JSON.parse(end.slice("end waiting ".length)) as ReadonlyArray<Asked>
    for (const asked of open) known.set(asked.question, asked)
  }
  const effects = existsSync(traces) ? readFileSync(traces, "utf8").split("\n") : []
  const sessions = yield* Effect.provide(listSessionCalls, store, { local: true })
  assert.isAtLeast(sessions.length, 2)
  checkCalls(sessions, effects, (key) =>
    Array.from(known.values()).some(
      (asked) => isAbout(asked.prompt, key) && JSON.stringify(decide(asked)).includes("once")
    )
  )
})

describe(`workflows that wait and are killed (seed ${seed})`, () => {
  for (let index = 0; index < trials; index++)
    it.live(`over a file ${index}`, () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const store = SessionStore.layerSqlite({ path: `${directory}/state.db` })
        yield* trial("sqlite", directory, store, seed + index)
      })
    )
  describe.skipIf(missing !== undefined)("over a server", () => {
    let server: Server
    beforeAll(async () => {
      server = await startServer()
    })
    afterAll(() => server.remove())
    for (let index = 0; index < trials; index++)
      it.live(`over Postgres ${index}`, () => {
        const place = server.url(`f${index}`)
        const store = SessionStore.layerPostgres({ url: Redacted.make(`${place}s`), connections: 2 })
        return trial("postgres", place, store, seed + 50 + index)
      })
  })
})
