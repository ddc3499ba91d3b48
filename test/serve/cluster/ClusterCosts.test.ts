// What a row and an idle runner cost the database, in counts: statements, connections, bytes. How long it takes is the
// benchmark's (`npm run bench:cluster`).
import { afterEach, assert, beforeEach, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Costs from "../../support/clusterCosts.ts"
import { missing, type Server } from "../../support/postgresServer.ts"

/** Statements of one row of two calls of the model and one call of a tool, by their beginnings. */
const ofRow: ReadonlyArray<readonly [beginning: string, count: number]> = [
  // Submission, and the beginning of its workflow.
  ["INSERT INTO runs ", 1],
  ['INSERT INTO "cluster_messages" ', 1],
  ["SELECT CASE WHEN EXISTS (SELECT 1 FROM runs AS earlier", 1],
  ["UPDATE runs SET state = 'running'", 1],
  // The session: its size, its lease, its newest continuation.
  ["SELECT * FROM sessions", 2],
  ["INSERT INTO leases ", 1],
  ["WITH RECURSIVE chain ", 1],
  // The session with the prompt; the call, its result, the answer, the end.
  ["WITH counted AS ( INSERT INTO sessions", 1],
  ["WITH counted AS ( UPDATE sessions", 4],
  ["DELETE FROM leases ", 1],
  // The outcome, the next turn, the reply of the workflow.
  ["UPDATE runs SET state = 'done'", 1],
  ["SELECT (SELECT later.id FROM runs AS later", 1],
  ["WITH answered AS ( UPDATE cluster_messages", 1]
]

describe.skipIf(missing !== undefined)(
  `the costs of a cluster${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  () => {
    const rows = 60
    let server: Server
    // A retry finds no rows of the attempt before.
    beforeEach(async () => {
      server = await Costs.startCountedServer()
    })
    afterEach(() => server.remove())

    it.live("are bounded for a row of two calls, and for a runner without work", () =>
      Effect.gen(function* () {
        const { idle, statements, tables, wal } = yield* Costs.measureCosts(server, rows, 6)
        for (const [beginning, count] of ofRow) {
          const found = Array.from(statements).flatMap(([text, times]) => (text.startsWith(beginning) ? [times] : []))
          assert.strictEqual(
            found.reduce((sum, times) => sum + times, 0),
            count * rows,
            beginning
          )
        }
        const others = Array.from(statements.keys()).filter((text) =>
          ofRow.every(([beginning]) => !text.startsWith(beginning))
        )
        assert.deepStrictEqual(others, [])
        const unknown = idle.statements.filter((text) => Costs.findPoll(text) === undefined)
        assert.deepStrictEqual(unknown, [])
        // A slow machine sends fewer.
        assert.isAtMost(idle.statements.length, 3.2 * idle.seconds, idle.statements.join("\n"))
        // Two of them are for messages of other processes to its sessions: one listens, and one reads.
        assert.isAtMost(idle.connections, 10)
        const bytes = Object.values(tables).reduce((sum, size) => sum + size, 0)
        assert.isAtMost(bytes, 15_000, JSON.stringify(tables))
        assert.isAtMost(wal, 26_000)
      })
    )
  }
)
