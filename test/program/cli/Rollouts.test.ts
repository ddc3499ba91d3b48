// `hermes rl` and `hermes serve` as a user has them: a dataset rolled out, its episodes listed and exported, a model's
// server checked.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as RolloutSettings from "../../../src/research/rollout/RolloutSettings.ts"
import { machine } from "../../support/hermesInProcess.ts"
import * as inferenceServer from "../../support/inferenceServer.ts"

const rows = [
  { id: "a", prompt: "Reply exactly hello", answer: "hello" },
  { id: "b", prompt: "Reply exactly blue", pattern: "^red$" },
  { prompt: "Nobody says what this is worth" }
]

describe("hermes rl", () => {
  it.live("a dataset is rolled out in groups; episodes are listed, and exported with their tokens", () =>
    Effect.gen(function* () {
      const { cwd, hermes } = yield* machine
      writeFileSync(join(cwd, "tasks.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""))
      const { url } = yield* inferenceServer.make({
        answer: (body) => ({ content: JSON.stringify(body["messages"]).includes("hello") ? "hello" : "blue" })
      })
      const model = ["--provider", "custom", "--base-url", url, "-m", "m"]
      const run = yield* hermes(["rl", "rollout", "tasks.jsonl", "--group-size", "2", "-o", "out", ...model])
      assert.strictEqual(run.code, 0, run.stderr)
      assert.include(run.stderr, "tasks.jsonl: line 3: it has no answer, pattern or check")
      assert.include(run.stdout, "  1  reward 1.00 ± 0.00, 2 rollouts, 6 tokens each")
      assert.include(run.stdout, "2 groups, 4 rollouts, mean reward 0.50, 4 can train")
      assert.isFalse(existsSync(join(cwd, "sessions.db")))
      const listed = yield* hermes(["rl", "list", "--rollouts", "out", "--json"])
      assert.lengthOf(JSON.parse(listed.stdout), 4)
      const exported = yield* hermes(["rl", "export", "--rollouts", "out", "-o", "groups.jsonl"])
      assert.strictEqual(exported.stdout.trim(), "2 groups in groups.jsonl")
      const [group] = readFileSync(join(cwd, "groups.jsonl"), "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
      assert.deepStrictEqual(
        group.tokens.map((tokens: ReadonlyArray<number>) => tokens.length),
        group.masks.map((masks: ReadonlyArray<number>) => masks.length)
      )
      assert.deepStrictEqual(group.scores, [1, 1])
    })
  )

  it.live("rollouts that all failed are counted, and the exit code says so", () =>
    Effect.gen(function* () {
      const { cwd, hermes } = yield* machine
      writeFileSync(join(cwd, "tasks.jsonl"), `${JSON.stringify(rows[0])}\n`)
      const { url } = yield* inferenceServer.make({ answer: () => ({ content: "" }) })
      const run = yield* hermes([
        "rl",
        "rollout",
        "tasks.jsonl",
        "--group-size",
        "2",
        "-o",
        "out",
        "--provider",
        "custom",
        "--base-url",
        url,
        "-m",
        "m"
      ])
      assert.include(run.stdout, "1 group, 2 rollouts (2 failed, worth 0: 2 model failure), mean reward 0.00")
      assert.strictEqual(run.code, 1, run.stderr)
    })
  )

  it.live("a server is checked for tokens: the answer says what it is good for", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      const check = (withoutIds: boolean) =>
        Effect.flatMap(inferenceServer.make({ answer: () => ({ content: "hello" }), withoutIds }), ({ url }) =>
          hermes(["rl", "check", "--provider", "custom", "--base-url", url, "-m", "m"])
        )
      const good = yield* check(false)
      assert.deepStrictEqual(
        [good.code, good.stdout.split("\n")[0]],
        [0, "ok   model           m returns token ids (6 sampled)"]
      )
      const bad = yield* check(true)
      assert.strictEqual(bad.code, 1)
      assert.include(bad.stdout, "FAIL model           m answers, but the provider returned no token ids of the prompt")
    })
  )

  it.live("the agent that trains has its instructions and its tools, and works with the recorder", () =>
    Effect.gen(function* () {
      const { hermes } = yield* machine
      const requests: Array<Record<string, unknown>> = []
      const calls = [
        ["rl_list_environments", {}],
        ["rl_select_environment", { name: "arithmetic" }],
        ["terminal", { command: "sleep 0.01; echo long" }]
      ] as const
      const { url } = yield* inferenceServer.make({
        answer: (body) => {
          requests.push(body)
          const [name, args] = calls[requests.length - 1] ?? []
          return name === undefined ? { content: "Done." } : { calls: [{ name, args: args ?? {} }] }
        }
      })
      const { code, stderr, stdout } = yield* hermes([
        "rl",
        "train",
        "Train on arithmetic",
        "--yolo",
        "--provider",
        "custom",
        "--base-url",
        url,
        "-m",
        "m"
      ])
      assert.deepStrictEqual([code, stdout], [0, "\nDone.\n"], stderr)
      assert.match(stderr, /^Note: This service records rollouts on this machine and trains no weights/m)
      const [first, ...others] = requests
      const messages = (request: Record<string, unknown> | undefined) => JSON.stringify(request?.["messages"])
      assert.include(messages(first), JSON.stringify(RolloutSettings.trainerPrompt).slice(1, -1))
      const tools = first?.["tools"] as ReadonlyArray<{
        readonly function: { readonly name: string; readonly parameters: unknown }
      }>
      const names = tools.map(({ function: { name } }) => name)
      assert.deepStrictEqual(names.filter((name) => name.startsWith("rl_")).length, 10)
      assert.includeMembers(names, ["terminal", "web_extract"])
      assert.notInclude(names, "write_file")
      assert.include(messages(others[0]), "Adds two numbers")
      assert.include(messages(others[2]), "long")
    })
  )

  it.live("an environment of a module is loaded from a trusted folder alone", () =>
    Effect.gen(function* () {
      const { cwd, hermes } = yield* machine
      writeFileSync(
        join(cwd, "env.ts"),
        `
import * as Effect from "effect/Effect"
import { RolloutEnvironment } from "hermes-effect/rollouts"
let left = 1
export const once = RolloutEnvironment.make({
  name: "once", toolsets: [], nextItem: Effect.sync(() => left-- > 0 ? { id: "x" } : undefined),
  formatPrompt: () => "Reply exactly done", computeReward: (_item, { text }) => Effect.succeed(text === "done" ? 1 : 0)
})
`
      )
      const refused = yield* hermes(["rl", "rollout", "./env.ts#once", "-o", "out"])
      assert.strictEqual(refused.code, 2)
      assert.match(
        refused.stderr,
        /is in a folder that is not trusted\. Look at it, then run `hermes trust add [^`]+`\./
      )
      yield* hermes(["trust", "add", cwd])
      const run = yield* hermes(["rl", "rollout", "./env.ts#once", "-o", "out", "--group-size", "1"])
      assert.include(run.stdout, "1 group, 1 rollout, mean reward 1.00, 0 can train", run.stderr)
      const other = yield* hermes(["rl", "rollout", "./env.ts#twice", "-o", "out"])
      assert.include(other.stderr, "has no export twice")
    })
  )
})
