// `hermes cluster` as the program: bad input in one line, and runners that are killed and drained.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { ChildProcess } from "node:child_process"
import { readFileSync } from "node:fs"
import { hostname } from "node:os"
import * as Json from "../../../src/base/domain/Json.ts"
import * as RowSeed from "../../../src/research/batch/RowSeed.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermesInProcess.ts"
import * as Inference from "../../support/inferenceServer.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { eventually, readUntil } from "../../support/waiting.ts"

describe("hermes cluster without its database", () => {
  it.live("says in one line what to do, with the exit code of a usage error", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      const cases: ReadonlyArray<readonly [args: ReadonlyArray<string>, url: string | undefined, stderr: RegExp]> = [
        [
          ["cluster", "status"],
          undefined,
          /^Error: cluster\.database_url is not set: `hermes config set cluster\.database_url postgres:\/\/user:password@host:port\/database`\n$/
        ],
        [
          ["cluster", "runner"],
          "http://a:secret@b/c",
          /^Error: store\.url or cluster\.database_url is not a Postgres address: write postgres:\/\/user:password@host:port\/database\n$/
        ],
        [
          ["cluster", "submit", "hello"],
          "postgres://a:secret@127.0.0.1:1/c",
          /^Error: Postgres at 127\.0\.0\.1:1\/c does not answer \(ECONNREFUSED\)\n$/
        ],
        [
          ["cluster", "failed", "--limit", "0"],
          "postgres://a:secret@127.0.0.1:1/c",
          /^Error: --limit 0 is too small: pass 1 or more\n$/
        ],
        [
          ["cluster", "drain"],
          "postgres://a:secret@127.0.0.1:1/c",
          /^Error: pass a runner listed by `hermes cluster status`, or --all\n$/
        ]
      ]
      for (const [args, url, expected] of cases) {
        const { code, stderr, stdout } = yield* hermes(
          args,
          url === undefined ? {} : { env: { HERMES_CLUSTER__DATABASE_URL: url } }
        )
        assert.match(stderr, expected)
        assert.deepStrictEqual([code, stdout], [2, ""], args.join(" "))
        assert.notInclude(stderr, "secret@")
      }
    })
  )
})

describe.skipIf(missing !== undefined)(
  `hermes cluster over Postgres${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  () => {
    let server: Server
    beforeAll(async () => {
      server = await startServer()
    })
    afterAll(() => server.remove())

    it.live(
      "rows are done by runners with model, agent file, tools and limits of who submits, also when a runner is killed; a drained one ends",
      () =>
        Effect.gen(function* () {
          const env = { HERMES_CLUSTER__DATABASE_URL: server.url("program") }
          const key = "sk-runner-0f1e2d3c4b5a69788796"
          const model = yield* Inference.make({
            answer: () => undefined,
            before: (body, response) => {
              const said = /Reply exactly (\w+)/.exec(JSON.stringify(body["messages"]))?.[1] ?? "?"
              const message = { role: "assistant", content: said }
              // Slow rows have a limit that is shorter.
              if (said !== "never")
                setTimeout(
                  () =>
                    HttpServer.json(response, 200, {
                      id: "1",
                      object: "chat.completion",
                      created: 1,
                      model: "m",
                      choices: [{ index: 0, message, finish_reason: "stop" }],
                      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
                    }),
                  300
                )
              return true
            }
          })
          const away = yield* machine
          away.keep(
            "config.yaml",
            JSON.stringify({
              model: { provider: "lab", default: "model-of-the-runner", streaming: false },
              custom_providers: [{ name: "lab", base_url: model.url, api_key: key }]
            })
          )
          const { at, hermes, keep, put, start } = yield* machine
          keep("config.yaml", JSON.stringify({ custom_providers: [{ name: "lab", base_url: model.url }] }))
          keep(
            "agents/clerk.yaml",
            "type: agent\nname: clerk\nsystem_prompt: You are the clerk of the archive.\ntools: [todo]\nllm_config: { provider: lab, model: model-of-the-client, temperature: 0.25 }\n"
          )
          keep("agents/lost.yaml", "type: agent\nname: lost\ntools: [telescope]\n")
          const ids = Array.from({ length: 8 }, (_, index) => `r${index}`)
          put("rows.jsonl", ids.map((id) => JSON.stringify({ id, prompt: `Reply exactly ${id}` })).join("\n"))
          put("slow.jsonl", JSON.stringify({ id: "slow", prompt: "Reply exactly never" }))
          const runner = Effect.gen(function* () {
            let child: ChildProcess | undefined
            const ended = yield* Effect.forkScoped(
              away.start(["cluster", "runner", "--concurrency", "2"], { env, onStart: (started) => (child = started) })
            )
            return { ended, kill: () => child?.kill("SIGKILL") }
          })
          const batch = (file: string, name: string, ...args: ReadonlyArray<string>) =>
            start(
              [
                "batch",
                "run",
                "--dataset_file",
                file,
                "--batch_size",
                "1",
                "--run_name",
                name,
                "--num-workers",
                "8",
                "--keep-without-reasoning",
                "--cluster",
                ...args
              ],
              { env }
            )
          yield* Effect.scoped(
            Effect.gen(function* () {
              const [first, second] = yield* Effect.all([runner, runner])
              const members = Effect.sync(() =>
                server.query(
                  "SELECT count(*) FROM pg_tables WHERE schemaname = 'program' AND tablename = 'members'"
                ) === "1"
                  ? Number(server.query("SELECT count(*) FROM program.members"))
                  : 0
              )
              yield* readUntil("both runners have joined", members, (count) => count === 2)
              const running = yield* Effect.forkChild(
                batch(
                  "rows.jsonl",
                  "one",
                  "--agent",
                  "clerk",
                  "--max-tokens",
                  "77",
                  "--seed",
                  "7",
                  "--row-tokens",
                  "5000"
                )
              )
              yield* eventually(
                "the model is asked twice",
                Effect.sync(() => model.bodies.length >= 2)
              )
              first.kill()
              // Refused, one line each, while the others go on.
              const [done, timed, keyless, toolless] = yield* Effect.all(
                [
                  Fiber.join(running),
                  batch("slow.jsonl", "two", "--agent", "clerk", "--row-timeout", "1", "--retries", "0"),
                  batch(
                    "slow.jsonl",
                    "three",
                    "--provider",
                    "anthropic",
                    "--model",
                    "claude-sonnet-4-5",
                    "--retries",
                    "0"
                  ),
                  start(["cluster", "submit", "--wait", "--agent", "lost", "hello"], { env })
                ],
                { concurrency: 2 }
              )
              assert.strictEqual(done.code, 0, done.stderr)
              assert.include(done.stdout, "one: 8 of 8 rows done")
              const rows = readFileSync(at("data/one/trajectories.jsonl"), "utf8")
                .trim()
                .split("\n")
                .map((line) => Json.readFields(Json.parseOrKeep(line)))
              assert.deepStrictEqual(rows.length, 8)
              for (const id of ids)
                assert.strictEqual(
                  rows.filter((row) => JSON.stringify(row["conversations"]).includes(`Reply exactly ${id}"`)).length,
                  1,
                  id
                )
              for (const [index, body] of model.bodies.entries()) {
                assert.deepStrictEqual(
                  [body["model"], body["temperature"], model.headers[index]?.["authorization"]],
                  ["model-of-the-client", 0.25, `Bearer ${key}`]
                )
                assert.include(JSON.stringify(body["messages"]), "You are the clerk of the archive.")
                const said = /Reply exactly (\w+)/.exec(JSON.stringify(body["messages"]))?.[1] ?? "?"
                assert.strictEqual(body["seed"], said === "never" ? undefined : RowSeed.computeSeed("7", said))
                assert.deepStrictEqual(
                  Json.readItems(body["tools"]).map(
                    (tool) => Json.readFields(Json.readFields(tool)["function"])["name"]
                  ),
                  ["todo"]
                )
              }
              assert.isTrue(model.bodies.some((body) => (body["max_tokens"] ?? body["max_completion_tokens"]) === 77))
              assert.match(
                timed.stdout,
                /Failed: row slow after 1 attempt: the row took longer than its limit of 1 s\n/
              )
              assert.match(
                keyless.stdout,
                /Failed: row slow after 1 attempt: runner on \S+: .*ANTHROPIC_API_KEY[^\n]*\n/
              )
              assert.match(toolless.stderr, /^Error: runner on \S+: toolset or tool "telescope" does not exist here$/m)
              // No key travelled, nor stayed in the database.
              assert.notInclude(
                server.query("SELECT string_agg(content, ' ') FROM program.agents") +
                  server.query("SELECT string_agg(payload, ' ') FROM program.cluster_messages"),
                key
              )
              const local = yield* hermes(["cluster", "submit", "hello"], {
                env: {
                  ...env,
                  HERMES_MODEL__BASE_URL: "http://me:my-password@127.0.0.1:1/v1",
                  HERMES_MODEL__PROVIDER: "custom"
                }
              })
              assert.match(local.stderr, /^Error: the submission would carry a secret: keys stay on their machine/m)
              const health = (name: string) =>
                Effect.map(start(["cluster", "status", name], { env }), ({ code, stdout }) => [
                  code,
                  stdout.replace(/^\S+ /, "")
                ])
              assert.deepStrictEqual(yield* Effect.all([health(hostname()), health("elsewhere")], { concurrency: 2 }), [
                [0, "is at work.\n"],
                [1, ""]
              ])
              const status = yield* hermes(["cluster", "status"], { env })
              assert.deepStrictEqual(
                status.stdout
                  .split("\n")
                  .filter((line) => line.includes("telescope"))
                  .map((line) =>
                    line
                      .trim()
                      .replaceAll(/ {2,}/g, " | ")
                      .replace(/^\S+ \| \S+ \| runner on \S+:/, "ID | SESSION | RUNNER")
                  ),
                ['ID | SESSION | RUNNER toolset or tool "telescope" does not exist here'],
                status.stdout
              )
              assert.include((yield* hermes(["cluster", "drain", "--all"], { env })).stdout, "asked to stop.")
              const last = yield* Fiber.join(second.ended)
              assert.deepStrictEqual([last.code, last.stdout], [0, ""], last.stderr)
              assert.include(last.stderr, "Drained.")
            })
          )
        })
    )

    it.live("watch, cancel, retry and answer act on a run from another process, and say what they cannot do", () =>
      Effect.gen(function* () {
        const env = { HERMES_CLUSTER__DATABASE_URL: server.url("actions") }
        const { hermes, start } = yield* machine
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* hermes(["cluster", "submit", "--id", "early", "Reply exactly early"], { env })
            const cancelled = yield* hermes(["cluster", "cancel", "early"], { env })
            assert.deepStrictEqual([cancelled.code, cancelled.stdout], [0, "Run early is cancelled.\n"])
            assert.strictEqual(
              (yield* hermes(["cluster", "cancel", "early"], { env })).stderr,
              "Run early was over already.\n"
            )
            const failed = yield* hermes(["cluster", "failed"], { env })
            assert.match(failed.stdout, /^RUN +BATCH +SESSION +REASON\nearly .* the run was cancelled\n/)
            const child: Array<ChildProcess> = []
            const runner = yield* Effect.forkScoped(
              start(["cluster", "runner"], {
                env: { ...env, HERMES_MODEL__PROVIDER: "offline" },
                onStart: (started) => child.push(started)
              })
            )
            const again = yield* hermes(["cluster", "retry", "early"], { env })
            assert.deepStrictEqual([again.code, again.stdout], [0, "early~2\n"], again.stderr)
            assert.strictEqual((yield* hermes(["cluster", "failed"], { env })).stderr, "No run has failed.\n")
            const watched = yield* hermes(["cluster", "watch", "early~2"], { env })
            assert.deepStrictEqual([watched.code, watched.stderr], [0, ""])
            assert.match(watched.stdout, /^started with .*\nearly\nended: text_response\n$/s)
            const lines = (yield* hermes(["cluster", "watch", "--json", "early~2"], { env })).stdout.trim().split("\n")
            assert.isTrue(lines.every((line) => typeof Json.readFields(JSON.parse(line))["sequence"] === "number"))
            const open = yield* hermes(["cluster", "answer", "early~2"], { env })
            assert.deepStrictEqual([open.code, open.stderr], [0, "Run early~2 has no open question.\n"])
            for (const [args, message] of [
              [["watch", "none"], "there is no run none: check its id"],
              [["cancel", "none"], "there is no run none: check its id"],
              [["steer", "none", "text"], "session none has no running turn: submit the text as a turn of it"],
              [["steer", "none", " "], "the text is empty: say what the model should know"],
              [["retry", "early~2"], "run early~2 is finished: only a failed run starts again"],
              [["answer", "none"], "there is no run none: check its id"],
              [["answer", "early~2", "q", "1"], "run early~2 is over: it takes no answers"],
              [["answer", "early~2", "q"], "the answer is missing: pass it as JSON"]
            ] as const) {
              const { code, stderr } = yield* hermes(["cluster", ...args], { env })
              assert.deepStrictEqual([code, stderr], [2, `Error: ${message}\n`])
            }
            child[0]?.kill("SIGTERM")
            yield* Fiber.join(runner)
          })
        )
      })
    )
  }
)
