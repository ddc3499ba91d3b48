// One setting selects the store of all commands: with `store.url`, they read and write sessions in Postgres.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { machine } from "../../support/hermesInProcess.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"

describe.skipIf(missing !== undefined)(`store.url${missing === undefined ? "" : ` (skipped: ${missing})`}`, () => {
  let server: Server
  let schemas = 0
  beforeAll(async () => {
    server = await startServer()
  })
  afterAll(() => server.remove())

  it.live("conversations, lists, searches, statistics, traces, exports and resumed sessions are in the database", () =>
    Effect.gen(function* () {
      const { at, hermes, home, keep } = yield* machine
      const configuration = `store:\n  url: ${JSON.stringify(server.url(`program${schemas++}`))}\n`
      keep("config.yaml", configuration)
      const run = (...args: ReadonlyArray<string>) =>
        Effect.map(hermes(args), ({ code, stderr, stdout }) => {
          assert.strictEqual(code, 0, `${args.join(" ")}: ${stderr}`)
          return stdout
        })
      assert.include(yield* run("sessions", "list"), "no sessions yet")
      yield* run("chat", "-q", "Reply exactly marmalade", "-Q", "--provider", "offline")
      assert.isFalse(existsSync(join(home, "state.db-wal")))
      const [session] = JSON.parse(yield* run("sessions", "list", "--json"))
      assert.strictEqual(session.message_count, 2)
      yield* run("chat", "-q", "Reply exactly second", "-Q", "--provider", "offline", "-r", session.id)
      assert.strictEqual(JSON.parse(yield* run("sessions", "list", "--json"))[0].message_count, 4)
      assert.include(yield* run("sessions", "search", "marmalade"), session.id)
      const stats = JSON.parse(yield* run("sessions", "stats", "--json"))
      assert.deepInclude(stats, { sessions: 1, messages: 4 })
      assert.isAbove(stats.bytes.run_record, 0)
      assert.include(yield* run("insights"), "1")
      assert.include(yield* run("trace", "stats", session.id), "offline")
      yield* run("sessions", "rename", session.id, "breakfast")
      yield* run("sessions", "optimize")
      const health = yield* hermes(["doctor"])
      assert.match(health.stdout, new RegExp(`sessions +in the database of store.url, the latest is ${session.id}`))
      const repaired = yield* hermes(["sessions", "repair"])
      assert.deepInclude(repaired, { code: 2, stdout: "" })
      assert.include(repaired.stderr, "the sessions are in the database of store.url")

      // An export of the database is imported into it under new ids, and into a file without the setting.
      yield* run("sessions", "export", "--output", at("all.jsonl"))
      assert.include(readFileSync(at("all.jsonl"), "utf8"), "marmalade")
      assert.include(yield* run("sessions", "import", at("all.jsonl"), "--new-ids"), "Added 1 session")
      assert.lengthOf(JSON.parse(yield* run("sessions", "list", "--json")), 2)
      const traced = JSON.parse(yield* run("trace", "stats", session.id, "--json"))
      keep("config.yaml", "")
      assert.include(yield* run("sessions", "list"), "no sessions yet")
      yield* run("sessions", "import", at("all.jsonl"))
      // The run record is in the export.
      assert.deepStrictEqual(JSON.parse(yield* run("trace", "stats", session.id, "--json")), traced)
      assert.strictEqual(JSON.parse(yield* run("sessions", "list", "--json"))[0].title, "breakfast")

      keep("config.yaml", configuration)
      yield* run("sessions", "delete", "breakfast", "--yes")
      assert.lengthOf(JSON.parse(yield* run("sessions", "list", "--json")), 1)
      const pruned = yield* run("sessions", "prune", "--older-than", "0", "--yes")
      assert.match(pruned, /1/)
    })
  )

  it.live("a database that does not answer is one line that names the setting", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      keep("config.yaml", "store:\n  url: not-an-address\n")
      const { code, stderr } = yield* hermes(["sessions", "list"])
      assert.notStrictEqual(code, 0)
      assert.include(stderr, "store.url")
    })
  )
})
