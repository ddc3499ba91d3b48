// `hermes swe`: tasks that scripted models solve, their patches and scores, the files of a run, and what cannot be run.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs"
import { afterAll } from "vitest"
import { sentinel } from "../../../src/research/swe/SweRun.ts"
import { engine } from "../../support/containerMachine.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { commandsFor, instances, makeRepositories, scenario, writeInstances } from "./bundledTasks.ts"

/** The rows of a file, as they are. */
const lines = (path: string) =>
  existsSync(path)
    ? readFileSync(path, "utf8")
        .trim()
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line))
    : []

const of = (...ids: ReadonlyArray<string>) => instances.filter(({ instance_id: id }) => ids.includes(id))

/** A machine with the repositories of some bundled tasks, and a model that does what `commands` says. */
const withTasks = Effect.fnUntraced(function* (ids: ReadonlyArray<string>, commands = commandsFor) {
  const here = yield* machine
  const tasks = of(...ids)
  const rows = makeRepositories(here.at("repos"), tasks)
  writeInstances(here.at("tasks.jsonl"), rows)
  here.put("scenario.json", scenario(tasks, commands))
  mkdirSync(here.at("tmp"))
  const swe = (...args: ReadonlyArray<string>) => here.hermes(["swe", ...args], { env: { TMPDIR: here.at("tmp") } })
  const given = ["--prompts_file", "tasks.jsonl", "--repos", "repos"]
  return {
    ...here,
    rows,
    swe,
    run: (...args: ReadonlyArray<string>) => swe("run", ...given, "--script", "scenario.json", ...args),
    evaluate: (...args: ReadonlyArray<string>) => swe("evaluate", ...given, ...args)
  }
})

const results = "swe-results/results.jsonl"
const predictions = "swe-results/results.predictions.jsonl"

const docker = engine("docker")
afterAll(() => {
  const made =
    docker.engine === undefined
      ? ""
      : execFileSync(
          "docker",
          ["images", "--quiet", "--filter", "reference=hermes-task", "--filter", `since=${docker.engine.image}`],
          { encoding: "utf8" }
        )
  for (const id of made.split("\n").filter((line) => line !== ""))
    execFileSync("docker", ["rmi", "--force", id], { stdio: "ignore" })
  docker.dispose()
})

describe("hermes swe", () => {
  it.live("solves instances at their base commit, and writes rows, predictions and a score of tests", () =>
    Effect.gen(function* () {
      const { at, evaluate, rows, run } = yield* withTasks(["templates", "byte-units"])
      const { code, stderr, stdout } = yield* run("--json")
      assert.strictEqual(code, 0, stderr)
      const report = JSON.parse(stdout)
      assert.deepInclude(report, {
        tasks: 2,
        evaluated: 2,
        resolved: 2,
        fail_to_pass: { passed: 8, total: 8 },
        pass_to_pass: { passed: 4, total: 4 }
      })
      assert.strictEqual(report.interval.method, "wilson")
      const written = lines(at(results))
      assert.sameMembers(
        written.map((row) => row.instance_id),
        ["templates", "byte-units"]
      )
      for (const row of written) {
        assert.deepInclude(row, { completed: true, exit: "final_output", api_calls: 5 })
        assert.deepInclude(row.metadata, { env_type: "local" })
        assert.deepStrictEqual(row.conversations.map(({ from }: { from: string }) => from).slice(0, 4), [
          "system",
          "human",
          "gpt",
          "tool"
        ])
        assert.include(row.conversations.at(-1).value, `{"output": "${sentinel}", "exit_code": 0, "error": null}`)
      }
      const predicted = lines(at(predictions))
      assert.deepStrictEqual(Object.keys(predicted[0]), ["instance_id", "model_name_or_path", "model_patch"])
      const patch = (id: string): string => predicted.find((row) => row.instance_id === id).model_patch
      assert.include(patch("templates"), "new file mode 100644")
      assert.include(patch("byte-units"), "GIT binary patch")
      for (const { repo } of rows)
        assert.strictEqual(
          execFileSync("git", ["status", "--porcelain"], {
            cwd: at(`repos/${repo.replace("/", "__")}`),
            encoding: "utf8"
          }),
          ""
        )
      assert.deepStrictEqual(readdirSync(at("tmp")), [])

      // The same patches have the same score without any model.
      const again = JSON.parse((yield* evaluate("--predictions", predictions, "--json")).stdout)
      assert.deepInclude(again, {
        tasks: 2,
        resolved: 2,
        fail_to_pass: { passed: 8, total: 8 },
        pass_to_pass: { passed: 4, total: 4 }
      })
    })
  )

  it.live("several attempts at each task count as one cluster, and a later run adds attempts", () =>
    Effect.gen(function* () {
      const here = yield* machine
      const call = (command: string) => ({ tool_calls: [{ name: "terminal", arguments: { command } }] })
      // Of four attempts, the first one at each task and the second one at the first task are solved.
      const solved = { ...call(`touch done; echo ${sentinel}`) }
      const left = { ...call(`echo ${sentinel}`) }
      here.put("first.json", JSON.stringify({ turns: [solved], loop: true }))
      here.put("second.json", JSON.stringify({ turns: [solved, left] }))
      writeInstances(here.at("tasks.jsonl"), [
        { id: "one", prompt: "One" },
        { id: "two", prompt: "Two" }
      ])
      const run = (script: string, ...args: ReadonlyArray<string>) =>
        here.hermes(
          "swe run --prompts_file tasks.jsonl --workers 1 --json --eval-command"
            .split(" ")
            .concat("test -f done", "--script", script, args)
        )
      const first = yield* run("first.json", "--seed", "7")
      assert.strictEqual(first.code, 0, first.stderr)
      const { code, stderr, stdout } = yield* run("second.json", "--runs", "2", "--k", "2", "--seed", "7")
      assert.strictEqual(code, 0, stderr)
      assert.include(stderr, "2 of 4 attempts have a result")
      const report = JSON.parse(stdout)
      assert.deepInclude(report, { tasks: 2, attempts: 4, runs: 2, resolved: 3, rate: 0.75 })
      assert.strictEqual(report.interval.method, "clustered")
      assert.deepStrictEqual(
        report.pass_at_k.map(({ k, value }: { k: number; value: number }) => [k, value]),
        [[2, 1]]
      )
      const written = lines(here.at(results))
      assert.deepStrictEqual(
        written.map(({ instance_id: id, row_id: row, run }) => [row, id, run]),
        [
          ["one", "one", undefined],
          ["two", "two", undefined],
          ["one#2", "one", 2],
          ["two#2", "two", 2]
        ]
      )
      assert.strictEqual(new Set(written.map(({ metadata }) => metadata.seed)).size, 4)
      // Harnesses take one prediction for each instance.
      assert.lengthOf(lines(here.at(predictions)), 2)
      assert.lengthOf(lines(here.at("swe-results/results.run-2.predictions.jsonl")), 2)
      const shown = yield* here.hermes(["eval", "show", results])
      assert.include(shown.stdout, "2, 4 attempts")
      assert.match(shown.stdout, /pass@2 +100\.0 %/)
    })
  )

  it.live("the same command leaves out what has a result, and runs a task that changed", () =>
    Effect.gen(function* () {
      const here = yield* machine
      here.put(
        "scenario.json",
        JSON.stringify({
          turns: [{ tool_calls: [{ name: "terminal", arguments: { command: `touch done; echo ${sentinel}` } }] }],
          loop: true
        })
      )
      const tasks = (second: string) =>
        writeInstances(here.at("tasks.jsonl"), [
          { id: "one", prompt: "One" },
          { id: "two", prompt: second }
        ])
      const run = (...args: ReadonlyArray<string>) =>
        here.hermes([
          "swe",
          "run",
          "--prompts-file",
          "tasks.jsonl",
          "--eval-command",
          "test -f done",
          "--script",
          "scenario.json",
          ...args
        ])
      tasks("Two")
      assert.strictEqual((yield* run("--limit", "1")).code, 0)
      assert.strictEqual(lines(here.at(results)).length, 1)
      const second = yield* run()
      assert.match(second.stderr, /1 of 2 tasks have a result in .*results\.jsonl and are left out/)
      assert.match(second.stdout, /2 of 2 resolved: 100\.0 %/)
      assert.match((yield* run()).stderr, /2 of 2 tasks have a result/)
      assert.strictEqual(lines(here.at(results)).length, 2)
      tasks("Another")
      assert.match(
        (yield* run()).stderr,
        /^1 of 2 tasks have a result in .*\nNote: 1 task changed since its result and runs again$/m
      )
      assert.strictEqual(lines(here.at(predictions)).length, 2)
    })
  )

  it.live("a run ends at the sentinel, at an answer without a call, and at the cap", () =>
    Effect.gen(function* () {
      const here = yield* machine
      const turn = (match: string, command: string) => ({
        match,
        tool_calls: [{ name: "terminal", arguments: { command } }]
      })
      here.put(
        "scenario.json",
        JSON.stringify({
          turns: [
            turn("First", `echo x; echo ${sentinel}; echo y`),
            { match: "First", text: "never asked" },
            turn("Second", "touch new.txt"),
            { match: "Second", text: "It is done." },
            ...[1, 2, 3].map((n) => turn("Third", `echo ${n} > ${n}.txt`))
          ]
        })
      )
      here.put("tasks.txt", 'First\n"Second"\n{"id":"third","task":"Third"}\n')
      const { code, stderr } = yield* here.hermes([
        "swe",
        "run",
        "--prompts-file",
        "tasks.txt",
        "--script",
        "scenario.json",
        "--max_iterations",
        "2",
        "--output_file",
        "out/rows"
      ])
      assert.strictEqual(code, 0, stderr)
      const rows = new Map(lines(here.at("out/rows.jsonl")).map((row) => [row.conversations[1].value, row]))
      assert.deepInclude(rows.get("First"), { completed: true, api_calls: 1, exit: "final_output", model_patch: "" })
      assert.deepInclude(rows.get("Second"), { completed: true, api_calls: 2, exit: "text_response" })
      assert.include(rows.get("Second").model_patch, "new.txt")
      assert.deepInclude(rows.get("Third"), { completed: false, exit: "max_iterations_reached" })
      assert.include(rows.get("Third").model_patch, "2.txt")
      assert.notInclude(JSON.stringify(rows.get("First")), "never asked")
    })
  )

  it.live("a model that fails leaves a row that is not completed, and the next run tries again", () =>
    Effect.gen(function* () {
      const here = yield* machine
      here.put(
        "broken.json",
        JSON.stringify({
          turns: [
            {
              tool_calls: [{ name: "terminal", arguments: { command: "touch half.txt" } }],
              usage: { input_tokens: 100, output_tokens: 10 }
            },
            { error: { status: 400, message: "no such model" } }
          ]
        })
      )
      here.put("fine.json", JSON.stringify({ turns: [{ text: "Done." }] }))
      const run = (script: string) =>
        here.hermes(["swe", "run", "--task", "Do it", "--eval-command", "true", "--script", script, "--json"])
      const first = yield* run("broken.json")
      assert.strictEqual(first.code, 1)
      assert.match(first.stderr, /Warning: task task-\w+ failed: /)
      const report = JSON.parse(first.stdout)
      assert.deepInclude(report.outcomes, { model_failure: 1, infrastructure: 0 })
      assert.deepInclude(report.rows[0], { outcome: "model_failure", api_calls: 1, status: "failed" })
      assert.isAbove(report.rows[0].patch_bytes, 0)
      const [row] = lines(here.at("swe-results/results.failed.jsonl"))
      assert.deepInclude(row, { completed: false, api_calls: 1, outcome: "model_failure" })
      assert.strictEqual(row.conversations.at(-1).from, "tool")
      assert.include(row.model_patch, "half.txt")
      assert.deepInclude(row.usage, { prompt_tokens: 100, completion_tokens: 10 })
      assert.isNotEmpty(row.metadata.model)
      // The patch is a prediction until the task has a result.
      assert.include(lines(here.at(predictions))[0].model_patch, "half.txt")
      const second = yield* run("fine.json")
      assert.strictEqual(second.code, 0, second.stderr)
      assert.deepStrictEqual(
        lines(here.at(predictions)).map(({ model_patch: patch }) => patch),
        [""]
      )
      assert.deepInclude(lines(here.at(results))[0], { completed: true })
    })
  )

  it.live("results of tasks are shown, compared and ranked as evaluations are, with every task and its failure", () =>
    Effect.gen(function* () {
      const here = yield* machine
      const ids = ["one", "two", "three"]
      const tasks = ids.map((id) =>
        JSON.stringify({ id, prompt: `Make ${id} <b>well</b>`, eval_command: "test -e done.txt", workspace: "empty" })
      )
      here.put("tasks.jsonl", tasks.join("\r\n"))
      const solving = [
        { tool_calls: [{ name: "terminal", arguments: { command: "touch done.txt" } }] },
        { text: "Done." }
      ]
      const broken = [{ error: { status: 400, message: "no such model" } }]
      const run = Effect.fnUntraced(function* (
        name: string,
        turns: ReadonlyArray<unknown>,
        ...args: ReadonlyArray<string>
      ) {
        here.put(`${name}.json`, JSON.stringify({ turns }))
        const given = ["--prompts-file", "tasks.jsonl", "--script", `${name}.json`, "--workers", "1"]
        yield* here.hermes(["swe", "run", ...given, "--output-file", `out/${name}.jsonl`, ...args])
      })
      yield* run("good", [...solving, ...solving, ...solving])
      yield* run("poor", [...solving, ...broken, { text: "I give up." }])
      yield* run("idle", [{ text: "No." }, { text: "No." }, { text: "No." }])
      const show = (...args: ReadonlyArray<string>) =>
        Effect.map(here.hermes(["eval", ...args]), ({ code, stderr, stdout }) => {
          assert.strictEqual(code, 0, stderr)
          return stdout
        })
      const shown = JSON.parse(yield* show("show", "out/poor.jsonl", "--json"))
      assert.deepInclude(shown, { name: "poor", items: 3, without_result: 1 })
      assert.deepInclude(shown.outcomes, { passed: 1, failed: 1, model_failure: 1 })
      assert.approximately(shown.pass_rate, 1 / 3, 1e-9)
      const compared = JSON.parse(yield* show("compare", "out/poor.jsonl", "out/good.jsonl", "--json"))
      assert.deepInclude(compared, { common_items: 3 })
      assert.deepInclude(compared.difference, { too_few_rows: true })
      const results = ["idle", "good", "poor"].map((name) => `out/${name}.jsonl`)
      const ranked = yield* show("compare", ...results, "--page", "page.html")
      assert.match(ranked, /1 {2}good +100\.0 %[^]*2 {2}poor +33\.3 %[^]*1 model failure[^]*3 {2}idle +0\.0 %/)
      assert.include(ranked, "Too few tasks")
      const page = readFileSync(here.at("page.html"), "utf8")
      for (const text of ["Make two &lt;b&gt;well&lt;/b&gt;", "test -e done.txt", "no such model"])
        assert.include(page, text)
      assert.notMatch(page, /<b>|<script/)
      assert.include(readFileSync(here.at("out/poor.report.html"), "utf8"), "Make three")
      const missing = yield* here.hermes(["eval", "show", "out/none.jsonl"])
      assert.strictEqual(missing.code, 2)
      assert.match(missing.stderr, /no tasks beside .*none\.jsonl: run `hermes lab swe run` first/)
    })
  )

  it.live("a key that is refused, and an environment that is not there, end the run and not each task", () =>
    Effect.gen(function* () {
      const here = yield* machine
      here.put("refused.json", JSON.stringify({ turns: [{ error: { status: 401, message: "bad key" } }], loop: true }))
      here.put("tasks.txt", "One\nTwo\nThree\nFour\n")
      const run = (...args: ReadonlyArray<string>) =>
        here.hermes([
          "swe",
          "run",
          "--prompts-file",
          "tasks.txt",
          "--workers",
          "1",
          "--script",
          "refused.json",
          ...args
        ])
      const refused = yield* run()
      here.keep("config.yaml", "terminal:\n  docker_binary: /nonexistent/docker\n")
      const withoutEngine = yield* run("--env", "docker", "--image", "x", "--output-file", "b")
      for (const { code, stderr } of [refused, withoutEngine]) {
        assert.strictEqual(code, 1)
        assert.match(stderr, /Error: stopped before the last task: /)
        assert.strictEqual(stderr.match(/Warning: task /g)?.length, 1, stderr)
      }
    })
  )

  it.live("patches that are empty, wrong, or do not apply, and commands that hang, are told apart", () =>
    Effect.gen(function* () {
      const { at, evaluate, rows } = yield* withTasks(["slugs", "retry", "semver", "emitter"])
      const wrong =
        "--- a/src/retry.js\n+++ b/src/retry.js\n@@ -1,2 +1,2 @@\n-/** Calls work until it succeeds, so many times at most, and waits in between. */\n+// Calls work.\n " +
        "export const retry = async (times, work, wait = async () => {}) => {\n"
      const patches: Record<string, string> = {
        slugs: "",
        retry: wrong,
        semver: wrong.replaceAll("retry", "semver"),
        emitter: "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+x\n"
      }
      writeInstances(
        at("tasks.jsonl"),
        rows.map((row) =>
          row.instance_id === "emitter"
            ? { ...row, test_command: "echo 'ok 1 - once is once'; sleep 60", eval_timeout: 1 }
            : row
        )
      )
      writeInstances(
        at("patches.jsonl"),
        Object.entries(patches).map(([id, patch]) => ({ instance_id: id, model_patch: patch }))
      )
      const { code, stdout } = yield* evaluate("--predictions", "patches.jsonl", "--json")
      assert.strictEqual(code, 0)
      const report = JSON.parse(stdout)
      const status = (id: string) =>
        report.rows.find(({ instance_id: other }: { readonly instance_id: string }) => other === id)
      assert.deepInclude(status("slugs"), { status: "empty_patch" })
      assert.deepInclude(status("retry"), { status: "unresolved", pass_to_pass: { passed: 2, total: 2, missing: [] } })
      assert.deepInclude(status("semver"), { status: "patch_does_not_apply" })
      assert.match(status("semver").detail, /semver\.js/)
      assert.deepInclude(status("emitter"), { status: "timeout" })
      assert.deepInclude(status("emitter").pass_to_pass, { passed: 1, total: 3 })
      assert.match(status("emitter").detail, /did not end within 1 s/)
      assert.strictEqual(report.resolved, 0)
    })
  )

  it.live("tests that the agent weakened are those of the task again before they run", () =>
    Effect.gen(function* () {
      const { at, rows, run } = yield* withTasks(["slugs"], () => [`echo > test/slug.test.js; echo ${sentinel}`])
      const test =
        '--- a/test/slug.test.js\n+++ b/test/slug.test.js\n@@ -1 +1,2 @@\n+// Checked.\n import assert from "node:assert/strict"\n'
      writeInstances(
        at("tasks.jsonl"),
        rows.map((row) => ({ ...row, test_patch: test }))
      )
      yield* run()
      assert.deepInclude(lines(at(results))[0].evaluation, {
        status: "unresolved",
        fail_to_pass: { passed: 0, total: 2, missing: ["accents become plain letters", "no dash at the ends"] }
      })
    })
  )

  it.live(
    "task folders of Harbor and Terminal-Bench: files, instruction and tests in the place of the container's",
    () =>
      Effect.gen(function* () {
        const here = yield* machine
        here.put(
          "tasks/greet/task.toml",
          'version = "1.0"\n[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 30.0\n'
        )
        here.put("tasks/greet/instruction.md", "Write hello to /app/out/hello.txt.\n")
        here.put("tasks/greet/environment/Dockerfile", "FROM debian\nWORKDIR /app\nCOPY . /app\n")
        here.put("tasks/greet/environment/in.txt", "in\n")
        here.put(
          "tasks/greet/tests/test.sh",
          '#!/bin/bash\n. /tests/lib.sh\nif [ "$(cat /app/out/hello.txt)" = "$expected" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n'
        )
        here.put("tasks/greet/tests/lib.sh", "expected=hello\n")
        here.put(
          "tasks/count/task.yaml",
          "instruction: |\n  Count the lines of words.txt into count.txt.\nmax_agent_timeout_sec: 60\n"
        )
        here.put("tasks/count/Dockerfile", "FROM debian\nRUN apt-get install nothing\n")
        here.put("tasks/count/words.txt", "a\nb\n")
        here.put("tasks/count/solution.sh", "secret\n")
        here.put("tasks/count/run-tests.sh", '#!/bin/bash\ntest "$(cat count.txt)" = 3\n')
        here.put("tasks/empty/task.toml", 'version = "1.0"\n')
        here.put(
          "scenario.json",
          JSON.stringify({
            turns: [
              {
                match: "Write hello",
                tool_calls: [
                  {
                    name: "terminal",
                    arguments: { command: `ls -A; ls -A .. ; mkdir out; echo hello > out/hello.txt; echo ${sentinel}` }
                  }
                ]
              },
              {
                match: "Count",
                tool_calls: [
                  { name: "terminal", arguments: { command: `ls -A; wc -l < words.txt > count.txt; echo ${sentinel}` } }
                ]
              }
            ]
          })
        )
        const { code, stderr } = yield* here.hermes([
          "swe",
          "run",
          "--prompts-file",
          "tasks",
          "--script",
          "scenario.json"
        ])
        assert.strictEqual(code, 0, stderr)
        assert.match(stderr, /Warning: .*tasks\/empty has no instruction: write it to instruction\.md/)
        assert.match(stderr, /Warning: task count: its Dockerfile is not built/)
        const rows = new Map(lines(here.at(results)).map((row) => [row.instance_id, row]))
        assert.deepInclude(rows.get("greet").evaluation, { status: "resolved", reward: 1 })
        assert.match(rows.get("greet").conversations[1].value, /^Write hello to \/.*\/work\/out\/hello\.txt/)
        assert.notMatch(JSON.stringify(rows.get("greet").conversations), /Dockerfile|test\.sh/)
        assert.include(rows.get("greet").model_patch, "out/hello.txt")
        assert.notInclude(rows.get("greet").model_patch, "test.sh")
        assert.deepInclude(rows.get("count").evaluation, { status: "unresolved" })
        assert.notMatch(JSON.stringify(rows.get("count").conversations), /solution|run-tests/)
      })
  )

  it.live.skipIf(docker.engine === undefined)(
    `the image of a task folder is built from its Dockerfile, and the task runs in it${docker.reason === undefined ? "" : ` (not tested: ${docker.reason})`}`,
    () =>
      Effect.gen(function* () {
        const here = yield* machine
        const image = docker.engine?.image ?? ""
        const folder = (name: string, steps: ReadonlyArray<string>): void => {
          here.put(`tasks/${name}/task.toml`, 'version = "1.0"\n[environment]\nbuild_timeout_sec = 50.0\n')
          here.put(`tasks/${name}/instruction.md`, "Say the version in /app/out.txt.\n")
          here.put(`tasks/${name}/environment/Dockerfile`, [`FROM ${image}`, ...steps].join("\n"))
          // An image that no other run of this test has.
          here.put(`tasks/${name}/environment/in.txt`, `${here.home}\n`)
          here.put(`tasks/${name}/environment/bash`, '#!/bin/sh\nexec /bin/sh "$@"\n')
          here.put(
            `tasks/${name}/tests/test.sh`,
            'if [ "$(cat /app/out.txt)" = "installed built" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n'
          )
        }
        folder("built", [
          "COPY bash /bin/bash",
          "RUN chmod 755 /bin/bash && mkdir /tool && echo installed > /tool/version",
          "WORKDIR /app",
          "COPY in.txt .",
          "RUN echo built > made.txt"
        ])
        folder("wrong", ["RUN echo this step says why; exit 3"])
        here.put(
          "scenario.json",
          JSON.stringify({
            turns: [
              {
                tool_calls: [
                  {
                    name: "terminal",
                    arguments: { command: `ls; echo $(cat /tool/version made.txt) > out.txt; echo ${sentinel}` }
                  }
                ]
              }
            ],
            loop: true
          })
        )
        const run = (variables: Readonly<Record<string, string>> = {}) =>
          here.hermes(["swe", "run", "--prompts-file", "tasks", "--env", "docker", "--script", "scenario.json"], {
            env: variables
          })
        const { code, stderr } = yield* run()
        assert.strictEqual(code, 1, stderr)
        assert.match(
          stderr,
          /task wrong failed: .*the image of .*wrong\/environment cannot be built: .*exit code 3.*this step says why/
        )
        assert.notMatch(stderr, /is not built/)
        const [row] = lines(here.at(results))
        assert.deepInclude(row.evaluation, { status: "resolved", reward: 1 })
        assert.match(row.conversations[3].value, /in\.txt.*made\.txt/s)
        assert.deepStrictEqual(
          new Set(Array.from(String(row.model_patch).matchAll(/^\+\+\+ b\/(.*)$/gm), ([, path]) => path)),
          new Set(["out.txt"])
        )
        const without = yield* run({ HERMES_TERMINAL__DOCKER_BINARY: "/nowhere/docker" })
        assert.strictEqual(without.code, 1)
        assert.match(without.stderr, /docker cannot be used: \/nowhere\/docker cannot be run/)
      })
  )

  it.live("what cannot be used is one line and exit code 2", () =>
    Effect.gen(function* () {
      const here = yield* machine
      here.put("empty.jsonl", "")
      here.put("bad.jsonl", '{"id":"a","prompt":"x","repo":"owner/name","base_commit":"abc"}\n{broken\n')
      here.put("one.jsonl", '{"instance_id":"a","problem_statement":"x","test_command":"true"}\n')
      here.put("other.jsonl", '{"instance_id":"b","model_patch":""}\n')
      here.put("nothing/task.toml", 'version = "1.0"\n')
      const refused = Effect.fnUntraced(function* (args: ReadonlyArray<string>, expected: RegExp) {
        const { code, stderr } = yield* here.hermes(["swe", ...args])
        assert.strictEqual(code, 2, stderr)
        assert.match(stderr, expected)
        assert.strictEqual(
          stderr
            .trim()
            .split("\n")
            .filter((line) => line.startsWith("Error:")).length,
          1,
          stderr
        )
      })
      yield* refused(["run"], /pass the tasks with --prompts-file PATH, or one with --task TEXT/)
      yield* refused(["run", "--task", "x", "--prompts-file", "one.jsonl"], /not both/)
      yield* refused(["run", "--prompts-file", "missing.jsonl"], /missing\.jsonl cannot be read/)
      yield* refused(["run", "--prompts-file", "empty.jsonl"], /has no usable row: it is empty/)
      yield* refused(
        ["run", "--prompts-file", "bad.jsonl"],
        /task a: repository "owner\/name" not found: clone it to DIR\/owner__name and pass --repos DIR/
      )
      yield* refused(["run", "--prompts-file", "nothing"], /nothing has no instruction: write it to instruction\.md/)
      yield* refused(["run", "--task", "x", "--workers", "0"], /--workers 0 is too small/)
      yield* refused(["run", "--task", "x", "--cwd", "nowhere"], /--cwd \S+\/nowhere is not a directory/)
      yield* refused(
        ["run", "--prompts-file", "one.jsonl", "--repos", "nowhere"],
        /--repos \S+\/nowhere is not a directory/
      )
      const before = readFileSync(here.at("one.jsonl"), "utf8")
      yield* refused(
        ["run", "--prompts-file", "one.jsonl", "--output-file", "one.jsonl"],
        /one\.jsonl is there and has no results: it is left as it is; name another file or directory/
      )
      assert.strictEqual(readFileSync(here.at("one.jsonl"), "utf8"), before)
      yield* refused(["run", "--task", "x", "--env", "modal"], /--env "modal" is invalid: expected .*docker/)
      yield* refused(["evaluate", "--prompts-file", "one.jsonl"], /pass the patches with --predictions PATH/)
      yield* refused(
        ["evaluate", "--prompts-file", "one.jsonl", "--predictions", "other.jsonl"],
        /no prediction matches a task/
      )
    })
  )

  it.live("a repository without the commit fails its task, and the others go on", () =>
    Effect.gen(function* () {
      const { at, evaluate, rows, run } = yield* withTasks(["slugs", "retry"])
      writeInstances(
        at("tasks.jsonl"),
        rows.map((row) => (row.instance_id === "retry" ? { ...row, base_commit: "0123456789" } : row))
      )
      const { code, stderr, stdout } = yield* run()
      assert.strictEqual(code, 1)
      assert.match(
        stderr,
        /Warning: task retry failed: .* has no commit "0123456789": fetch it there, or correct base_commit/
      )
      assert.match(stdout, /^retry +failed /m)
      assert.match(
        stdout,
        /^1 of 2 resolved: 50\.0 %.*; not resolved, counted: 1 infrastructure \(100\.0 % without failures of the infrastructure\)$/m
      )
      assert.deepStrictEqual(
        lines(at(predictions)).map((row) => row.instance_id),
        ["slugs"]
      )

      // A predictions file has no line of a task that failed.
      const evaluated = JSON.parse((yield* evaluate("--predictions", predictions, "--json")).stdout)
      assert.deepInclude(evaluated, { tasks: 2, evaluated: 1, without_result: 1, resolved: 1, rate: 0.5 })
      assert.deepInclude(evaluated.rows[1], { instance_id: "retry", status: "no_prediction" })
    })
  )

  it.live("tasks that were not begun count when a run is stopped", () =>
    Effect.gen(function* () {
      const here = yield* machine
      here.put("refused.json", JSON.stringify({ turns: [{ error: { status: 401, message: "bad key" } }], loop: true }))
      here.put("tasks.txt", "One\nTwo\nThree\n")
      const { code, stdout } = yield* here.hermes([
        "swe",
        "run",
        "--prompts-file",
        "tasks.txt",
        "--workers",
        "1",
        "--eval-command",
        "true",
        "--script",
        "refused.json",
        "--json"
      ])
      assert.strictEqual(code, 1)
      const report = JSON.parse(stdout)
      assert.deepInclude(report, { tasks: 3, evaluated: 0, without_result: 3, resolved: 0, rate: 0 })
      assert.deepStrictEqual(
        report.rows.map(({ status }: { status: string }) => status),
        ["failed", "not_run", "not_run"]
      )
    })
  )

  it.live.skipIf(process.env["HERMES_TEST_SWE"] !== "1")(
    "solves the whole bundled set, and no task without a solution",
    () =>
      Effect.gen(function* () {
        const { at, evaluate, run } = yield* withTasks(instances.map(({ instance_id: id }) => id))
        const { code, stdout } = yield* run("--json", "--workers", "2")
        assert.strictEqual(code, 0)
        assert.isAtLeast(instances.length, 10)
        assert.deepInclude(JSON.parse(stdout), {
          tasks: instances.length,
          evaluated: instances.length,
          resolved: instances.length
        })
        const nothing = writeInstances(
          at("nothing.jsonl"),
          instances.map(({ instance_id: id }) => ({
            instance_id: id,
            model_patch: "--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1 @@\n+x\n"
          }))
        )
        const untouched = JSON.parse((yield* evaluate("--predictions", nothing, "--json")).stdout)
        assert.deepInclude(untouched, { resolved: 0 })
        assert.strictEqual(untouched.fail_to_pass.passed, 0)
        assert.strictEqual(untouched.pass_to_pass.passed, untouched.pass_to_pass.total)
      })
  )
})
