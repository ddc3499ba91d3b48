// `hermes cluster` as the program: bad input in one line, and runners that are killed and drained.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { ChildProcess } from "node:child_process"
import { readFileSync } from "node:fs"
import * as Json from "../../src/domain/Json.ts"
import { machine } from "../support/hermes.ts"
import { missing, type Server, startServer } from "../support/postgresServer.ts"

describe("hermes cluster without its database", () => {
  it.live("says in one line what to do, with the exit code of a usage error", () =>
    Effect.gen(function*() {
      const { hermes } = yield* machine
      const cases: ReadonlyArray<readonly [args: ReadonlyArray<string>, url: string | undefined, stderr: RegExp]> = [
        [["cluster", "status"], undefined, /^Error: cluster\.database_url is not set: `hermes config set cluster\.database_url postgres:\/\/user:password@host:port\/database`\n$/],
        [["cluster", "runner"], "http://a:secret@b/c", /^Error: cluster\.database_url is not a Postgres address: write postgres:\/\/user:password@host:port\/database\n$/],
        [["cluster", "submit", "hello"], "postgres://a:secret@127.0.0.1:1/c", /^Error: Postgres at 127\.0\.0\.1:1\/c does not answer \(ECONNREFUSED\)\n$/],
        [["cluster", "drain"], "postgres://a:secret@127.0.0.1:1/c", /^Error: name a runner of `hermes cluster status`, or pass --all\n$/]
      ]
      for (const [args, url, expected] of cases) {
        const { code, stderr, stdout } = yield* hermes(args, url === undefined ? {} : { env: { HERMES_CLUSTER__DATABASE_URL: url } })
        assert.match(stderr, expected)
        assert.deepStrictEqual([code, stdout], [2, ""], args.join(" "))
        assert.notInclude(stderr, "secret@")
      }
    }))
})

describe.skipIf(missing !== undefined)(`hermes cluster over Postgres${missing === undefined ? "" : ` (skipped: ${missing})`}`, () => {
  let server: Server
  beforeAll(async () => {
    server = await startServer()
  })
  afterAll(() => server.remove())

  it.live("rows of a batch are done by runners, also when one of them is killed; a drained runner ends", () =>
    Effect.gen(function*() {
      const { at, hermes, put } = yield* machine
      const env = { HERMES_CLUSTER__DATABASE_URL: server.url("program") }
      const ids = Array.from({ length: 12 }, (_, index) => `r${index}`)
      put("rows.jsonl", ids.map((id) => JSON.stringify({ id, prompt: `Reply exactly ${id}` })).join("\n"))
      const runner = Effect.gen(function*() {
        let child: ChildProcess | undefined
        const ended = yield* Effect.forkScoped(hermes(["cluster", "runner", "--concurrency", "2"], { env, onStart: (started) => child = started }))
        return { ended, kill: () => child?.kill("SIGKILL") }
      })
      yield* Effect.scoped(Effect.gen(function*() {
        const [first, second] = [yield* runner, yield* runner]
        const members = Effect.map(hermes(["cluster", "status", "--json"], { env }), ({ stdout }) => Json.items(Json.fields(Json.parsed(stdout))["runners"]).length)
        yield* Effect.repeat(members, { until: (count) => count === 2, times: 60 })
        const batch = yield* Effect.forkChild(hermes(
          ["batch", "run", "--dataset_file", "rows.jsonl", "--batch_size", "1", "--run_name", "one", "--num-workers", "12", "--keep-without-reasoning", "--cluster"],
          { env }
        ))
        yield* Effect.sleep("2 seconds")
        first.kill()
        const { code, stderr, stdout } = yield* Fiber.join(batch)
        assert.strictEqual(code, 0, stderr)
        assert.include(stdout, "one: 12 of 12 rows done")
        const rows = readFileSync(at("data/one/trajectories.jsonl"), "utf8").trim().split("\n").map((line) => Json.fields(Json.parsed(line)))
        assert.deepStrictEqual(rows.length, 12)
        for (const id of ids) assert.strictEqual(rows.filter((row) => JSON.stringify(row["conversations"]).includes(`Reply exactly ${id}"`)).length, 1, id)
        assert.include((yield* hermes(["cluster", "drain", "--all"], { env })).stdout, "asked to end.")
        const last = yield* Fiber.join(second.ended)
        assert.deepStrictEqual([last.code, last.stdout], [0, ""], last.stderr)
        assert.include(last.stderr, "Drained.")
      }))
    }), 240_000)
})
