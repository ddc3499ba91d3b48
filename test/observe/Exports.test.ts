// What exporters of runs do when sessions go on elsewhere, disks are full and files are damaged; and that a trajectory
// that is put together while a run goes on is the one that its events make.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/testing/TestClock"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import type * as Atif from "../../src/observe/Atif.ts"
import * as AtifCheck from "../../src/observe/AtifCheck.ts"
import * as AtifWriter from "../../src/observe/AtifWriter.ts"
import * as AtifConvert from "../../src/observe/AtifConvert.ts"
import * as Atof from "../../src/observe/Atof.ts"
import * as RecordEntries from "./support/recordEntries.ts"
import * as FromRuns from "../../src/observe/atif/FromRuns.ts"
import * as RunTree from "../../src/observe/RunTree.ts"
import * as TracePlugin from "../../src/observe/TracePlugin.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { machine } from "../support/hermesInProcess.ts"
import { effectProp } from "../support/property.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import * as Runs from "./support/runs.ts"
import { isClockWarning } from "../support/clockWarnings.ts"

const sound = (value: unknown): Atif.Trajectory => {
  assert.deepStrictEqual(
    AtifCheck.check(value).filter(({ severity }) => severity === "error"),
    []
  )
  return value as Atif.Trajectory
}

const readTrajectory = (...path: ReadonlyArray<string>): Atif.Trajectory =>
  sound(JSON.parse(readFileSync(join(...path), "utf8")))

/** The warnings of an effect. */
const warnings = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<ReadonlyArray<string>, E, R> =>
  Effect.suspend(() => {
    const told: Array<string> = []
    const logger = Logger.make(({ logLevel, message }) => {
      if (logLevel === "Warn" && !isClockWarning(message)) told.push(String(message))
    })
    return Effect.as(Effect.provide(effect, Logger.layer([logger])), told)
  })

const usage = { inputTokens: 10, outputTokens: 5 }

describe("the cost of a run", () => {
  it("37 and 38 is in the metrics of each call and in the sums, a child's in its parent's; a call without a price adds none", () => {
    const record = RecordEntries.make(Runs.agent)
    const delegate = { id: "d", name: "delegate_task", args: { goal: "g" } }
    const child = { session: "C", goal: "g", subagentId: "sa" }
    record.begin("P", "to P")
    record.ask("P", { calls: [delegate], usage, usd: 0.25 })
    record.call("P", delegate)
    record.child("P", "d", child)
    record.begin("C", "g", { ...child, session: "P", callId: "d" })
    const tool = { id: "t", name: "t" }
    record.ask("C", { text: "C 1", calls: [tool], usage, usd: 0.5 })
    record.result("C", tool, "r")
    record.ask("C", { text: "C 2", usage, usd: null })
    record.end("C")
    record.childEnded("P", child)
    record.result("P", delegate, "done")
    record.close()
    for (const trajectory of [
      AtifConvert.convert(record.events).trajectories[0],
      FromRuns.buildTrajectory(RunTree.fromEntries(record.entries), "P")
    ]) {
      const {
        final_metrics: sums,
        steps,
        subagent_trajectories: children
      } = sound(JSON.parse(JSON.stringify(trajectory)))
      assert.deepInclude(steps.find(({ source }) => source === "agent")?.metrics, {
        prompt_tokens: 10,
        completion_tokens: 5,
        cost_usd: 0.25
      })
      assert.deepInclude(sums, { total_prompt_tokens: 10, total_cost_usd: 0.75 })
      assert.deepInclude(children?.[0]?.final_metrics, { total_prompt_tokens: 20, total_cost_usd: 0.5 })
      assert.deepStrictEqual(
        children?.[0]?.steps.filter(({ source }) => source === "agent").map(({ metrics }) => metrics?.cost_usd),
        [0.5, undefined]
      )
    }
  })

  it("40 and 41 of attempts that failed nothing is counted: one step of the user, one of the agent, with the model that answered and what failed before", () => {
    const record = RecordEntries.make(Runs.agent)
    record.begin("s", "go")
    for (const attempt of [0, 1]) {
      record.ask("s", {
        attempt,
        provider: "first",
        failure: { type: "RateLimitError", message: "slow down", reason: "rate_limit" }
      })
    }
    record.ask("s", {
      attempt: 2,
      provider: "second",
      model: "other",
      text: "ok",
      reasoning: "again",
      usage,
      usd: 0.5,
      parameters: { reasoning_effort: "high" }
    })
    record.close()
    for (const trajectory of [
      AtifConvert.convert(record.events).trajectories[0],
      FromRuns.buildTrajectory(RunTree.fromEntries(record.entries), "s")
    ]) {
      const { final_metrics: sums, steps } = sound(JSON.parse(JSON.stringify(trajectory)))
      assert.deepStrictEqual(
        steps.map(({ message, model_name: model, source }) => [source, message, model]),
        [
          ["user", "go", undefined],
          ["agent", "ok", "other"]
        ]
      )
      assert.deepInclude(steps[1], { reasoning_content: "again", reasoning_effort: "high", llm_call_count: 1 })
      const retries = steps[1]?.extra?.["retries"] as ReadonlyArray<{ readonly provider: string }> | undefined
      assert.deepStrictEqual(
        retries?.map(({ provider }) => provider),
        ["first", "first"]
      )
      assert.include(JSON.stringify(retries), "rate_limit")
      assert.deepInclude(sums, { total_prompt_tokens: 10, total_cost_usd: 0.5, total_steps: 2 })
    }
  })
})

describe("a session that goes on", () => {
  /** A runtime over the sessions of a directory, as a process of a program has it. */
  const once = (directory: string, home: string, prompts: ReadonlyArray<string>) =>
    Effect.forEach(prompts, (prompt) => Agent.run({ prompt, sessionId: "s" }), { discard: true }).pipe(
      Effect.provide(
        Runs.runtime(
          prompts.map((prompt) => Scripted.complete({ text: `answer to ${prompt}`, usage: { input: 10, output: 5 } })),
          [],
          [],
          [
            TracePlugin.make({
              agent: Runs.agent,
              atof: { directory: home, filename: "events.jsonl", mode: "append" },
              atif: {
                directory,
                filenameTemplate: "t-{session_id}.json",
                subagents: "embedded",
                agentName: Runs.agent.name,
                agentVersion: Runs.agent.version
              }
            })
          ],
          { store: SessionStore.layerSqlite({ path: join(home, "state.db") }) }
        ).layer
      )
    )

  it.live(
    "44 in another process has a file of its own, which the one before names; copied steps are marked and in no sum",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const home = yield* temporaryDirectory
        for (const prompt of ["one", "two", "three"]) yield* once(directory, home, [prompt])
        assert.deepStrictEqual(readdirSync(directory).toSorted(), ["t-s-2.json", "t-s-3.json", "t-s.json"])
        const [first, second, third] = ["t-s.json", "t-s-2.json", "t-s-3.json"].map((name) =>
          readTrajectory(directory, name)
        )
        assert.deepStrictEqual(
          [first, second, third].map((one) => one?.continued_trajectory_ref),
          ["t-s-2.json", "t-s-3.json", undefined]
        )
        assert.deepStrictEqual(
          third?.steps.slice(1).map(({ is_copied_context: copied, message }) => [message, copied]),
          [
            ["one", true],
            ["answer to one", true],
            ["two", true],
            ["answer to two", true],
            ["three", undefined],
            ["answer to three", undefined]
          ]
        )
        const stream = Atof.parse(readFileSync(join(home, "events.jsonl"), "utf8"))
        assert.deepStrictEqual(Atof.check(stream), [])
        const converted = AtifConvert.convert(stream.events).trajectories
        assert.deepStrictEqual(
          converted.map(({ steps }) => steps.map(({ is_copied_context: copied, message }) => [message, copied])),
          [first, second, third].map((one) =>
            one?.steps.map(({ is_copied_context: copied, message }) => [message, copied])
          )
        )
        assert.strictEqual(first?.steps.at(-1)?.message, "answer to one", "what was written stays")
        assert.strictEqual(second?.final_metrics?.total_prompt_tokens, 10)
      })
  )

  it.live("44 in one process stays in one file", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      yield* once(directory, yield* temporaryDirectory, ["one", "two"])
      assert.deepStrictEqual(readdirSync(directory), ["t-s.json"])
      assert.strictEqual(readTrajectory(directory, "t-s.json").steps.at(-1)?.message, "answer to two")
    })
  )

  it.live("beside a file that is no trajectory of it leaves that as it is", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      writeFileSync(join(directory, "t-s.json"), "mine")
      yield* once(directory, yield* temporaryDirectory, ["one"])
      assert.strictEqual(readFileSync(join(directory, "t-s.json"), "utf8"), "mine")
      assert.strictEqual(readTrajectory(directory, "t-s-2.json").steps.at(-1)?.message, "answer to one")
    })
  )
})

describe("pictures", () => {
  it.live("of a prompt are files beside the trajectory, each once; addresses stay addresses", () =>
    Effect.gen(function* () {
      const { at, cwd, hermes } = yield* machine
      const bytes = Uint8Array.of(137, 80, 78, 71, 1, 2, 3)
      const prompt = [
        Prompt.textPart({ text: "look" }),
        Prompt.filePart({ mediaType: "image/png", data: bytes }),
        Prompt.filePart({ mediaType: "image/png", data: bytes }),
        Prompt.filePart({ mediaType: "image/gif", data: new URL("https://pictures.test/a.gif") })
      ]
      const tracing = TracePlugin.make({
        agent: Runs.agent,
        atof: undefined,
        atif: { directory: cwd, filenameTemplate: "t-{session_id}.json", subagents: "embedded" }
      })
      yield* Effect.provide(
        Agent.run({ prompt, sessionId: "s" }),
        Runs.runtime([Scripted.complete("seen")], [], [], [tracing]).layer
      )
      const [name = "", ...more] = readdirSync(at("images"))
      assert.deepStrictEqual(more, [])
      assert.deepStrictEqual(new Uint8Array(readFileSync(at(`images/${name}`))), bytes)
      const image = (path: string, media_type: "image/gif" | "image/png") =>
        ({ type: "image", source: { media_type, path } }) as const
      assert.deepStrictEqual(readTrajectory(at("t-s.json")).steps.find(({ source }) => source === "user")?.message, [
        { type: "text", text: "look" },
        image(`images/${name}`, "image/png"),
        image(`images/${name}`, "image/png"),
        image("https://pictures.test/a.gif", "image/gif")
      ])
      assert.strictEqual((yield* hermes(["trace", "validate", "t-s.json"])).stdout, "t-s.json: valid ATIF\n")
    })
  )
})

describe("what goes wrong", () => {
  it.live("a full disk is one warning for each kind of file, and the run's result stands", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      symlinkSync("/dev/full", join(directory, "t-s1.json.draft"))
      symlinkSync("/dev/full", join(directory, "events.jsonl"))
      const tracing = TracePlugin.make({
        agent: Runs.agent,
        atof: { directory, filename: "events.jsonl", mode: "append" },
        atif: { directory, filenameTemplate: "t-{session_id}.json", subagents: "embedded" }
      })
      const told = yield* warnings(
        Effect.gen(function* () {
          const { text } = yield* Effect.provide(
            Agent.run({ prompt: "go", sessionId: "s1" }),
            Runs.runtime(Runs.parallel, [], [], [tracing]).layer
          )
          assert.strictEqual(text, "parallel tools complete.")
        })
      )
      assert.strictEqual(told.length, 2)
      assert.match(told.toSorted().join("\n"), /^ATIF files cannot be written.*\nATOF events cannot be written/u)
    })
  )

  it.live(
    "a file that was cut, and one of a newer format, are said to be so by their line; what can be read of them is",
    () =>
      Effect.gen(function* () {
        const { at, hermes, put } = yield* machine
        const { events, ...record } = RecordEntries.make(Runs.agent)
        record.begin("s", "to s")
        record.ask("s", { text: "done" })
        const whole = events.map((event) => `${JSON.stringify(event)}\n`).join("")
        put("cut.jsonl", whole.slice(0, -20))
        put("newer.jsonl", whole.replace('"0.1"', '"1.0"'))
        put(
          "newer.json",
          JSON.stringify({
            schema_version: "ATIF-v1.9",
            agent: { name: "a", version: "1" },
            steps: [{ step_id: 1, source: "user", message: "u" }]
          })
        )
        const foreign = {
          schema_version: "ATIF-v1.7",
          agent: { name: "a", version: "1", team: "x" },
          steps: [{ step_id: 1, source: "user", message: "u", mood: { good: 1 } }],
          origin: ["elsewhere"]
        }
        put("foreign.json", JSON.stringify(foreign))
        assert.deepStrictEqual(JSON.parse((yield* hermes(["trace", "convert", "foreign.json"])).stdout), foreign)
        assert.strictEqual((yield* hermes(["trace", "view", "foreign.json", "-o", "page.html"])).code, 0)
        assert.deepInclude(yield* hermes(["trace", "validate", "foreign.json"]), {
          code: 1,
          stdout: ["origin", "agent.team", "steps[0].mood"]
            .map((path) => `foreign.json: error: ${path}: Expected no excess property\n`)
            .join("")
        })
        const cut = yield* hermes(["trace", "validate", "cut.jsonl"])
        assert.notStrictEqual(cut.code, 0)
        assert.match(cut.stdout + cut.stderr, /line 4.*cut or is damaged/u)
        const converted = yield* hermes(["trace", "convert", "cut.jsonl", "--output", at("out.json")])
        assert.strictEqual(converted.code, 0, converted.stderr)
        assert.deepStrictEqual(
          readTrajectory(at("out.json")).steps.map(({ message }) => message),
          ["to s"]
        )
        assert.match((yield* hermes(["trace", "validate", "newer.jsonl"])).stdout, /line 1.*atof_version/u)
        assert.match((yield* hermes(["trace", "validate", "newer.json"])).stdout, /schema_version/u)
        const child = {
          schema_version: "ATIF-v1.9",
          trajectory_id: "c",
          agent: { name: "b", version: "1" },
          steps: [{ step_id: 1, source: "user", message: "goal" }]
        }
        const step = { step_id: 2, source: "narrator", message: "of a later version" }
        const later = { ...JSON.parse(readFileSync(at("newer.json"), "utf8")), subagent_trajectories: [child] }
        put("later.json", JSON.stringify({ ...later, steps: [...later.steps, step] }))
        const shown = yield* hermes(["trace", "convert", "later.json"])
        assert.strictEqual(shown.code, 0, shown.stderr)
        assert.match(
          shown.stderr,
          /later\.json: it is ATIF-v1\.9, later than ATIF-v1\.7: .*1 step that cannot be read\. Update hermes/u
        )
        assert.deepStrictEqual(JSON.parse(shown.stdout), {
          ...later,
          schema_version: "ATIF-v1.7",
          subagent_trajectories: [{ ...child, schema_version: "ATIF-v1.7" }]
        })
        put("other.json", JSON.stringify({ ...later, agent: 1 }))
        assert.notStrictEqual((yield* hermes(["trace", "convert", "other.json"])).code, 0)
      })
  )
})

describe("a trajectory that is put together while events come", () => {
  const Moves = Schema.Array(
    Schema.Tuple([
      Schema.Literals(["a", "b", "c"]),
      Schema.Literals(["ask", "fail", "call", "result", "late", "turn", "look"])
    ])
  ).check(Schema.isMaxLength(40))

  effectProp(
    "is what the events convert to afterwards, for any runs that interleave, and whenever somebody looks",
    { moves: Moves },
    ({ moves }) =>
      Effect.sync(() => {
        const record = RecordEntries.make(Runs.agent)
        const { events } = record
        const converter = AtifConvert.make()
        let taken = 0
        const follow = () => {
          for (const event of events.slice(taken)) converter.add(event)
          taken = events.length
        }
        let n = 0
        const open: Record<string, Array<string>> = { a: [], b: [], c: [] }
        for (const [session, move] of moves) {
          const id = `${session}${n++}`
          if (move === "ask") {
            open[session]?.push(id)
            record.ask(session, { text: "", calls: [{ id, name: "t" }] })
          }
          if (move === "fail") record.ask(session, { failure: { type: "X", message: "no", reason: "rate_limit" } })
          if (move === "call" || move === "late")
            record.call(session, { id: open[session]?.at(-1) ?? id, name: "t", args: { n } })
          if (move === "result" || move === "late")
            record.result(session, { id: open[session]?.pop() ?? id, name: "t" }, id)
          if (move === "turn") record.say(session, id)
          if (move === "look") {
            follow()
            for (const root of converter.roots()) converter.trajectory(root)
          }
        }
        record.close()
        follow()
        const afterwards = AtifConvert.convert(events).trajectories
        const live = converter.roots().flatMap((root) => converter.trajectory(root) ?? [])
        assert.deepStrictEqual(
          live.map(({ session_id: id }) => id),
          afterwards.map(({ session_id: id }) => id)
        )
        for (const trajectory of live) sound(JSON.parse(JSON.stringify(trajectory)))
        assert.deepStrictEqual(live, afterwards)
      })
  )
})

describe("the trajectory of a run that continues", () => {
  it.effect("exists from its first answer on, is replaced at most once per second, and is whole at the end", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const writer = yield* AtifWriter.make(
        { directory, filenameTemplate: "t-{session_id}.json", subagents: "embedded" },
        () => Effect.succeed([])
      )
      const record = RecordEntries.make(Runs.agent)
      let taken = 0
      const writeNew = Effect.suspend(() => {
        const entries = record.entries.slice(taken)
        taken = record.entries.length
        return writer.write(entries)
      })
      const path = join(directory, "t-s.json")
      const read = () => {
        const { extra, steps } = readTrajectory(path)
        return { agent: steps.filter(({ source }) => source === "agent").length, unfinished: extra?.["unfinished"] }
      }
      const ask = (id: string) => record.ask("s", { calls: [{ id, name: "t" }], usage })
      record.begin("s", "go")
      yield* writeNew
      assert.isFalse(existsSync(path), "there is no step yet")
      ask("1")
      assert.isUndefined(yield* writeNew)
      assert.deepStrictEqual(read(), { agent: 1, unfinished: true })
      record.result("s", { id: "1", name: "t" }, "r")
      ask("2")
      assert.strictEqual(yield* writeNew, 1000)
      assert.deepStrictEqual(read(), { agent: 1, unfinished: true })
      yield* TestClock.adjust(1000)
      assert.isUndefined(yield* writeNew)
      assert.deepStrictEqual(read(), { agent: 2, unfinished: true })
      record.result("s", { id: "2", name: "t" }, "r")
      record.ask("s", { text: "done", usage })
      record.end("s")
      assert.isUndefined(yield* writeNew)
      assert.deepStrictEqual(read(), { agent: 3, unfinished: undefined })
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})
