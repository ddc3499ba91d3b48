// Runs of many rows as started programs: Ctrl+C in the middle and the same command again, the studio on a run, rows in
// their own containers.
import { afterAll, assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { engine } from "../support/containerMachine.ts"
import { machine } from "../support/hermes.ts"

const docker = engine("docker")
afterAll(() => docker.dispose())

const usage = { prompt_tokens: 100, completion_tokens: 10 }

/** Result lines below a directory. */
const linesOf = (directory: string): ReadonlyArray<string> =>
  !existsSync(directory)
    ? []
    : readdirSync(directory)
        .filter((name) => /^(?:batch_\d+|results)\.jsonl$/.test(name))
        .flatMap((name) =>
          readFileSync(join(directory, name), "utf8")
            .split("\n")
            .filter((line) => line !== "")
        )
        .map((line): string => (JSON.parse(line) as { readonly row_id: string }).row_id)

const ids = Array.from({ length: 8 }, (_, index) => `r${index}`)
const commands = [
  {
    name: "batch",
    args: [
      "batch",
      "run",
      "--dataset_file=rows.jsonl",
      "--batch_size=1",
      "--run_name=run",
      "--num_workers=2",
      "--distribution=terminal_only"
    ],
    goesOn: ["--resume"],
    results: "data/run",
    rows: ids,
    said: /^Interrupted: 3 of 8 rows done\. Rows in flight are not saved\.\nRun the same command with --resume to continue \(run "run"\)\.\n$/m
  },
  {
    name: "swe",
    args: ["swe", "run", "--prompts-file=rows.jsonl", "--workers=2"],
    goesOn: [],
    results: "swe-results",
    rows: ids,
    said: /^Interrupted: 3 of 8 tasks have a result in \S+\. Run the same command to continue \(exit code 130\)\.$/m
  },
  {
    name: "eval",
    args: ["eval", "run", "rows.jsonl", "--scorer=number", "--workers=2", "--name=e"],
    goesOn: [],
    results: "eval-results/e",
    rows: ids.map((id) => `${id}#1`),
    said: /^Interrupted: 3 of 8 attempts done\. The results are in \S+\. Run the same command to continue \(exit code 130\)\.$/m
  }
] as const

describe.each(commands)("Ctrl+C: hermes $name", ({ args, goesOn, results, rows, said }) => {
  it.live("ends it with exit code 130 and a line; what was done stays, and the same command does the rest", () =>
    Effect.gen(function* () {
      let stop: (() => void) | undefined
      const asked: Array<string> = []
      const server = yield* HttpServer.make(({ body, url }, response) => {
        if (!url.endsWith("/chat/completions"))
          return HttpServer.json(response, 404, { error: { message: "not here" } })
        asked.push(/Row (r\d)/.exec(body)?.[1] ?? "?")
        // Those in flight never get an answer.
        if (stop !== undefined && asked.length > 3) return asked.length === 5 ? stop() : undefined
        HttpServer.json(response, 200, {
          id: "x",
          model: "m",
          choices: [
            { index: 0, message: { role: "assistant", content: "4", reasoning_content: "t" }, finish_reason: "stop" }
          ],
          usage
        })
      })
      const { at, hermes, keep, put } = yield* machine
      put(
        "rows.jsonl",
        ids.map((id) => `${JSON.stringify({ id, prompt: `Row ${id}: what is 2+2?`, answer: "4" })}\n`).join("")
      )
      keep(
        "config.yaml",
        `model:\n  provider: custom\n  default: m\n  base_url: ${server.url}/v1\n  api_key: k\n  context_length: 100000\n`
      )
      const first = yield* hermes(args, { onStart: (child) => (stop = () => void child.kill("SIGINT")) })
      stop = undefined
      assert.deepStrictEqual([first.code, first.signal], [130, null], first.stderr)
      assert.match(first.stderr, said)
      const done = linesOf(at(results))
      assert.strictEqual(done.length, 3)
      const second = yield* hermes([...args, ...goesOn])
      assert.strictEqual(second.code, 0, second.stderr)
      assert.deepStrictEqual(linesOf(at(results)).toSorted(), [...rows])
      // Three answers and two that were never given, then the five that were missing.
      assert.strictEqual(asked.length, 10)
      for (const id of done) assert.strictEqual(asked.filter((asked) => id.startsWith(asked)).length, 1, id)
    })
  )
})

describe("hermes batch", () => {
  it.live("view serves the studio on the sessions of a run, until Ctrl+C", () =>
    Effect.gen(function* () {
      const { hermes, put } = yield* machine
      put("rows.jsonl", `${JSON.stringify({ id: "a", prompt: "Reply exactly hello" })}\n`)
      assert.strictEqual(
        (yield* hermes([
          "batch",
          "run",
          "--dataset_file=rows.jsonl",
          "--batch_size=1",
          "--run_name=run",
          "--keep-without-reasoning"
        ])).code,
        0
      )
      const answers: Array<string> = []
      const { code, stdout } = yield* hermes(["batch", "view", "run"], {
        onOutput: (stdout, child) => {
          const url = /http:\/\/127\.0\.0\.1:\d+\/\?token=\S+/.exec(stdout)?.[0]
          if (url === undefined) return
          void (async () => {
            const { headers, status } = await fetch(url, { redirect: "manual" })
            const cookie = headers.get("set-cookie")?.split(";", 1)[0] ?? ""
            const page = await fetch(new URL("/", url), { headers: { cookie } })
            const sessions = await fetch(new URL("/api/sessions", url), { headers: { cookie } })
            answers.push(`${status} ${page.status}`, await sessions.text())
          })()
            .catch((error: unknown) => answers.push(String(error)))
            .finally(() => child.kill("SIGINT"))
        }
      })
      assert.strictEqual(code, 0)
      assert.match(stdout, /^Studio on run run: http:\S+ {2}\(read-only; press Ctrl\+C to stop\)\n$/)
      assert.strictEqual(answers[0], "303 200")
      assert.include(answers[1], "batch-a-1")
      assert.strictEqual((yield* hermes(["batch", "view", "run", "--port", "70000"])).code, 2)
    })
  )

  it.live.skipIf(docker.engine === undefined)(
    `a row runs in the container of its image${docker.reason === undefined ? "" : ` (not tested: ${docker.reason})`}`,
    () =>
      Effect.gen(function* () {
        const { at, hermes, put } = yield* machine
        put(
          "rows.jsonl",
          ["a", "b"]
            .map(
              (id) =>
                `${JSON.stringify({ id, prompt: `Run the command \`echo ${id} in $(ls /.dockerenv)\``, image: docker.engine?.image })}\n`
            )
            .join("")
        )
        const { code, stderr, stdout } = yield* hermes(
          [
            "batch",
            "run",
            "--dataset_file=rows.jsonl",
            "--batch_size=1",
            "--run_name=run",
            "--keep-without-reasoning",
            "--toolsets=terminal",
            "--yolo"
          ],
          { env: { HERMES_TERMINAL__BACKEND: "docker" } }
        )
        assert.strictEqual(code, 0, stderr + stdout)
        const written = readFileSync(at("data/run/trajectories.jsonl"), "utf8")
        for (const id of ["a", "b"]) assert.include(written, `${id} in /.dockerenv`)
      })
  )
})
