// Rows of batches, attempts of evaluations, software engineering tasks and rollouts on runners: each once, also when
// runners and the submitting process are killed, within limits, and never the results of another directory.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { readFileSync, rmSync } from "node:fs"
import * as Json from "../../../src/base/domain/Json.ts"
import * as RowSeed from "../../../src/research/batch/RowSeed.ts"
import { sentinel } from "../../../src/research/swe/SweRun.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { answerText, make, promptsOf, until } from "../../support/runnerWorld.ts"

const readLines = (path: string): ReadonlyArray<Json.Fields> =>
  readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => Json.readFields(Json.parseOrKeep(line)))

const wordOf = (text: string): string => /Reply exactly (\w+)/.exec(text)?.[1] ?? "?"

describe.skipIf(missing !== undefined)(
  `rows on runners${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  () => {
    let server: Server
    beforeAll(async () => {
      server = await startServer()
    })
    afterAll(() => server.remove())

    it.live("an evaluation is answered and judged once by runners, over kills of a runner and of its process", () =>
      Effect.gen(function* () {
        const judged: Array<string> = []
        const asked: Array<string> = []
        const world = yield* make(server, "evaluation", (body, response) => {
          const text = JSON.stringify(body["messages"])
          if (text.includes("<answer>") || /verdict/i.test(text)) {
            judged.push(text)
            return answerText(response, JSON.stringify({ verdict: "pass", reason: "fine" }))
          }
          const prompts = promptsOf(body)
          const word = wordOf(prompts.at(-1) ?? "")
          asked.push(word)
          setTimeout(() => answerText(response, word === "six" ? "seven" : word), 400)
        })
        const words = ["one", "two", "three", "four", "five", "six"]
        world.client.put(
          "rows.jsonl",
          [
            ...words.map((word) => JSON.stringify({ id: word, prompt: `Reply exactly ${word}`, answer: word })),
            JSON.stringify({
              id: "turns",
              prompt: ["Reply exactly eins", "Reply exactly zwei"],
              answer: ["eins", "zwei"]
            })
          ].join("\n")
        )
        const args = ["eval", "run", "rows.jsonl", "--scorer", "exact", "--scorer", "judge"]
        const submit = [...args, "--cluster", "--workers", "8", "--name", "base", "--seed", "7", "--json"]
        yield* Effect.scoped(
          Effect.gen(function* () {
            const [first] = yield* Effect.all([world.startRunner(), world.startRunner()])
            const interrupted = yield* world.start(submit)
            yield* until(() => asked.length >= 3)
            first.kill()
            yield* until(() => asked.length >= 5)
            interrupted.kill()
            const { code, stderr, stdout } = yield* world.run(submit)
            assert.strictEqual(code, 0, stderr)
            const report = Json.readFields(Json.parseOrKeep(stdout))
            assert.deepStrictEqual(
              [report["attempts"], Json.readFields(report["outcomes"])],
              [7, { passed: 6, failed: 1, model_failure: 0, limit: 0, infrastructure: 0, not_run: 0 }],
              stdout
            )
            const results = readLines(world.client.at("eval-results/base/results.jsonl"))
            assert.deepStrictEqual(results.map((row) => String(row["item"])).toSorted(), [...words, "turns"].toSorted())
            const turns = results.find((row) => row["item"] === "turns")
            assert.strictEqual(turns?.["answer"], "[1] eins\n\n[2] zwei")
            assert.strictEqual(Json.readFields(turns?.["usage"])["prompt_tokens"], 18)
            for (const row of results) assert.isNumber(row["seed"])
            // A call that a killed runner had not answered is made again; an answer is judged once.
            assert.isAtMost(asked.length, 8 + 2)
            assert.strictEqual(judged.length, 8)
            // The page and the ranking are those of an evaluation on one process.
            const page = readFileSync(world.client.at("eval-results/base/report.html"), "utf8")
            assert.include(page, "Reply exactly six")
            // The same command runs nothing again.
            const before = asked.length
            assert.strictEqual((yield* world.run(submit)).code, 0)
            assert.strictEqual(asked.length, before)
          })
        )
      })
    )

    it.live("rows in flight at a limit stop and continue with the next submission; a new directory has new rows", () =>
      Effect.gen(function* () {
        const asked: Array<string> = []
        let isOpen = false
        const world = yield* make(server, "limits", (body, response) => {
          const said = JSON.stringify(body["messages"])
          const word = wordOf(said)
          asked.push(word)
          // One row is answered, and the others stay in flight or wait for a place.
          if (asked.length === 1 || isOpen) answerText(response, `${String(body["model"])} ${word}`)
        })
        const words = ["north", "east", "south", "west"]
        const row = (id: string) => JSON.stringify({ id, prompt: `Reply exactly ${id}` })
        world.client.put("rows.jsonl", words.map(row).join("\n"))
        const batch = (...more: ReadonlyArray<string>) =>
          world.run([
            ..."batch run --dataset_file rows.jsonl --batch_size 1 --run_name one --num-workers 4".split(" "),
            "--keep-without-reasoning",
            "--cluster",
            ...more
          ])
        const countOpen = () => server.query("SELECT count(*) FROM limits.runs WHERE state <> 'done'")
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* world.startRunner(2)
            const stopped = yield* batch("--max-total-tokens", "5")
            assert.strictEqual(stopped.code, 1, stopped.stderr)
            assert.include(stopped.stdout, "the limit of 5 tokens is reached")
            // No row goes on without its submitter, running or waiting.
            yield* until(() => countOpen() === "0")
            assert.strictEqual(countOpen(), "0")
            isOpen = true
            const rest = yield* batch("--resume", "--max-total-tokens", "1000")
            assert.strictEqual(rest.code, 0, rest.stdout + rest.stderr)
            assert.include(rest.stdout, "4 of 4 rows done")
            assert.strictEqual(asked.filter((word) => word === asked[0]).length, 1)
            const attempts = readLines(world.client.at("data/one/attempts.jsonl"))
            assert.isTrue(attempts.every(({ attempt }) => attempt === 1))

            // Another model in a new directory of the same name.
            rmSync(world.client.at("data/one"), { recursive: true })
            const other = yield* batch("-m", "n")
            assert.strictEqual(other.code, 0, other.stdout + other.stderr)
            assert.deepStrictEqual(
              readLines(world.client.at("data/one/trajectories.jsonl")).map(
                ({ conversations }) => Json.readFields(Json.readItems(conversations).at(-1))["value"]
              ),
              words.map((word) => `<think>\n</think>\nn ${word}`)
            )
          })
        )
      })
    )

    it.live("tasks are solved and scored by runners, over a kill of one; a failed task keeps its work", () =>
      Effect.gen(function* () {
        const asked: Array<string> = []
        const world = yield* make(server, "tasks", (body, response) => {
          const text = JSON.stringify(body["messages"])
          const word = /Solve (\w+)/.exec(text)?.[1] ?? "?"
          asked.push(word)
          const hasResult = text.includes("tool_call_id")
          const call = (command: string) => ({
            id: `c${asked.length}`,
            type: "function",
            function: { name: "terminal", arguments: JSON.stringify({ command }) }
          })
          if (!hasResult) {
            setTimeout(() => answerText(response, "", [call(`echo ${word} > solved.txt`)]), 400)
          } else if (word === "broken") {
            response.writeHead(400, { "content-type": "application/json" })
            response.end(JSON.stringify({ error: { message: "no more", type: "invalid_request_error" } }))
          } else answerText(response, "", [call(`echo ${sentinel}`)])
        })
        world.client.put("repo/README.md", "A project\n")
        world.client.put(
          "tasks.jsonl",
          ["first", "second", "third", "broken"]
            .map((id) => JSON.stringify({ id, prompt: `Solve ${id}`, cwd: world.client.at("repo") }))
            .join("\n")
        )
        const submit = "swe run --prompts_file tasks.jsonl --cluster --workers 8 --seed 7 --json --eval-command"
          .split(" ")
          .concat("grep -q . solved.txt")
        yield* Effect.scoped(
          Effect.gen(function* () {
            const [first] = yield* Effect.all([world.startRunner(), world.startRunner()])
            const running = yield* world.start(submit)
            yield* until(() => asked.length >= 3)
            first.kill()
            const { code, stderr, stdout } = yield* Fiber.join(running.ended)
            assert.strictEqual(code, 1, stderr)
            const report = Json.readFields(Json.parseOrKeep(stdout))
            assert.deepStrictEqual(
              [
                report["tasks"],
                report["resolved"],
                report["rate"],
                Json.readFields(report["outcomes"])["model_failure"]
              ],
              [4, 3, 0.75, 1],
              stdout + stderr
            )
            const rows = readLines(world.client.at("swe-results/results.jsonl"))
            assert.strictEqual(rows.length, 3)
            for (const row of rows) {
              assert.deepInclude(row, { completed: true, exit: "final_output", api_calls: 2 })
              assert.include(String(row["model_patch"]), "+++ b/solved.txt")
              assert.strictEqual(
                Json.readFields(row["metadata"])["seed"],
                RowSeed.computeSeed("7", String(row["instance_id"]))
              )
            }
            const failed = readLines(world.client.at("swe-results/results.failed.jsonl")).at(-1)
            assert.deepInclude(failed, { instance_id: "broken", outcome: "model_failure", api_calls: 1 })
            assert.include(String(failed?.["model_patch"]), "+broken")
            assert.strictEqual(Json.readFields(failed?.["metadata"])["model"], "m")
            const predictions = readLines(world.client.at("swe-results/results.predictions.jsonl"))
            assert.strictEqual(predictions.length, 4)
            assert.include((yield* world.run(["eval", "show", "swe-results/results.jsonl"])).stdout, "1 model failure")
          })
        )
      })
    )

    it.live(
      "rollouts are scored by runners with their tokens, over kills of a runner and of the submitting process",
      () =>
        Effect.gen(function* () {
          const sums: Array<string> = []
          const world = yield* make(
            server,
            "rollouts",
            (body) => {
              sums.push(promptsOf(body).at(-1) ?? "")
              return false
            },
            (body) => {
              const [, a = "0", b = "0"] = /What is (\d+) \+ (\d+)/.exec(promptsOf(body).at(-1) ?? "") ?? []
              return { content: String(Number(a) + Number(b)) }
            }
          )
          const submit = "rl rollout arithmetic --groups 4 --group-size 3 --concurrency 3 -o out --cluster".split(" ")
          yield* Effect.scoped(
            Effect.gen(function* () {
              const [first] = yield* Effect.all([world.startRunner(), world.startRunner()])
              const interrupted = yield* world.start(submit)
              yield* until(() => sums.length >= 4)
              first.kill()
              interrupted.kill()
              const done = yield* world.run(submit)
              assert.strictEqual(done.code, 0, done.stdout + done.stderr)
              assert.include(done.stdout, "4 groups, 12 rollouts, mean reward 1.00, 12 can train")
              const groups = readLines(world.client.at("out/groups.jsonl"))
              assert.strictEqual(groups.length, 4)
              for (const group of groups) {
                const tokens = Json.readItems(group["tokens"])
                assert.deepStrictEqual([tokens.length, group["scores"]], [3, [1, 1, 1]])
              }
              assert.strictEqual(
                Json.readItems(
                  Json.parseOrKeep((yield* world.run(["rl", "list", "--rollouts", "out", "--json"])).stdout)
                ).length,
                12
              )
              assert.strictEqual(readLines(world.client.at("out/metrics.jsonl")).length, 4)
              // The same command collects the same rollouts, and delivers nothing again.
              const before = sums.length
              const again = yield* world.run(submit)
              assert.include(again.stdout, "4 groups, 12 rollouts, mean reward 1.00, 12 can train")
              assert.strictEqual(readLines(world.client.at("out/groups.jsonl")).length, 4)
              assert.strictEqual(sums.length, before)
              const code = yield* world.run(["rl", "rollout", "./env.ts", "--cluster"])
              assert.strictEqual(code.code, 2, code.stderr)
            })
          )
        })
    )

    it.live("a submitted prompt has its seed and its limits, and says with the exit code that it reached one", () =>
      Effect.gen(function* () {
        let calls = 0
        const todo = { name: "todo", arguments: "{}" }
        const world = yield* make(server, "prompts", (body, response) =>
          JSON.stringify(body["messages"]).includes("Loop")
            ? answerText(response, "", [{ id: `c${calls++}`, type: "function", function: todo }])
            : answerText(response, "fine")
        )
        const submit = (...more: ReadonlyArray<string>) => world.run(["cluster", "submit", "--wait", ...more])
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* world.startRunner(2)
            const fine = yield* submit("--seed", "5", "--max-total-tokens", "1000", "Hello")
            assert.deepStrictEqual([fine.code, fine.stdout], [0, "fine\n"], fine.stderr)
            assert.strictEqual(world.model.bodies[0]?.["seed"], 5)
            const limited = yield* submit("--max-total-tokens", "15", "Loop")
            assert.strictEqual(limited.code, 1, limited.stderr)
            assert.include(limited.stderr, "The run has no complete answer: budget exhausted.")
            const asked = world.model.bodies.length
            assert.isBelow(asked, 6)
            const small = yield* submit("--max-cost", "0", "Hello")
            assert.deepStrictEqual(
              [small.code, small.stderr],
              [2, "Error: --max-cost 0 is too small: pass more than 0\n"]
            )
            assert.strictEqual(world.model.bodies.length, asked)
          })
        )
      })
    )

    it.live("rows with odd ids, long prompts and characters that a database refuses are done as others", () =>
      Effect.gen(function* () {
        const world = yield* make(server, "odd", (_, response) => answerText(response, "done \u0000 \ud800"))
        const ids = ["a\u0000b", "x".repeat(5_000), "a/b~2", "\u{1f600}\ud800", " ", "r#1"]
        world.client.put(
          "rows.jsonl",
          ids
            .map((id, index) =>
              JSON.stringify({ id, prompt: `Reply \u0000 \ud800 ${"long ".repeat(index === 0 ? 40_000 : 1)}` })
            )
            .join("\n")
        )
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* world.startRunner(4)
            const batch =
              "batch run --dataset_file rows.jsonl --batch_size 1 --run_name one --num-workers 8 --retries 0 --cluster"
            const rows = yield* world.run([...batch.split(" "), "--keep-without-reasoning"])
            assert.strictEqual(rows.code, 0, rows.stdout + rows.stderr)
            assert.include(rows.stdout, "6 of 6 rows done")
            const evaluation = "eval run rows.jsonl --scorer regex:done --workers 8 --cluster --threshold 1"
            const scored = yield* world.run(evaluation.split(" "))
            assert.strictEqual(scored.code, 0, scored.stdout + scored.stderr)
          })
        )
      })
    )

    it.live("a row that was started again by hand is the next attempt at it", () =>
      Effect.gen(function* () {
        let isBroken = true
        let asked = 0
        const world = yield* make(server, "again", (_, response) => {
          asked++
          if (isBroken) {
            response.writeHead(400, { "content-type": "application/json" })
            response.end(JSON.stringify({ error: { message: "no such model", type: "invalid_request_error" } }))
          } else answerText(response, "done")
        })
        world.client.put("rows.jsonl", JSON.stringify({ id: "r0", prompt: "Reply" }))
        const batch = (...more: ReadonlyArray<string>) =>
          world.run([
            ..."batch run --dataset_file rows.jsonl --batch_size 1 --run_name one --retries 0".split(" "),
            "--keep-without-reasoning",
            "--cluster",
            ...more
          ])
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* world.startRunner(2)
            const failed = yield* batch()
            assert.strictEqual(failed.code, 1, failed.stdout + failed.stderr)
            const listed = Json.parseOrKeep((yield* world.run(["cluster", "failed", "--json"])).stdout)
            const id = String(Json.readFields(Json.readItems(listed)[0])["id"])
            isBroken = false
            const retried = yield* world.run(["cluster", "retry", id])
            assert.strictEqual(retried.stdout, `${id}~2\n`)
            yield* until(() => asked === 2)
            const done = yield* batch("--resume")
            assert.strictEqual(done.code, 0, done.stdout + done.stderr)
            assert.strictEqual(asked, 2)
          })
        )
      })
    )
  }
)
