// Trajectories of the run record: whole, valid, the same live and from the store.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Delegate, Ids, RunRecord, Runtime, Scripted, SessionStore, Toolset } from "../../src/index.ts"
import type { RecordEvent } from "../../src/kit/entry/observability.ts"
import { Auxiliary } from "../../src/kit/entry/routing.ts"
import type * as Atif from "../../src/observe/Atif.ts"
import * as AtifCheck from "../../src/observe/AtifCheck.ts"
import * as FromRuns from "../../src/observe/atif/FromRuns.ts"
import * as RunTree from "../../src/observe/RunTree.ts"
import * as StoredRuns from "../../src/observe/StoredRuns.ts"
import { readFileSync } from "node:fs"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo)
const echo = Toolset.make("echo", toolkit, toolkit.toLayer({ echo: ({ text }) => Effect.succeed(`${text} again`) }))

const call = (...texts: ReadonlyArray<string>) =>
  Scripted.complete({ toolCalls: texts.map((text) => ({ name: "echo", params: { text } })) })

type Services = Agent.Agent | Auxiliary.Auxiliary | RunRecord.RunRecord | SessionStore.SessionStore

/** The trajectory of a session after a body of runs, which is valid, and equal live and from the store. */
const trajectoryOf = <E>(turns: ReadonlyArray<Scripted.Turn>, body: Effect.Effect<Ids.SessionId, E, Services>) =>
  Effect.gen(function* () {
    const path = `${yield* temporaryDirectory}/state.db`
    const live = RunTree.make()
    return yield* Effect.gen(function* () {
      const record = yield* RunRecord.RunRecord
      yield* record.listen((entries) => entries.forEach((entry) => live.add(entry)))
      const sessionId = yield* body
      const store = yield* SessionStore.SessionStore
      const session = yield* Effect.fromOption(yield* store.get(sessionId))
      const stored = FromRuns.buildTrajectory(yield* StoredRuns.read(session), sessionId)
      assert.deepStrictEqual(FromRuns.buildTrajectory(live, sessionId), stored)
      assert.isDefined(stored)
      if (stored === undefined) return yield* Effect.die("there is a trajectory")
      assert.deepStrictEqual(
        AtifCheck.check(JSON.parse(JSON.stringify(stored))).filter(({ severity }) => severity === "error"),
        []
      )
      return stored
    }).pipe(
      Effect.provide(
        Runtime.layer({
          provider: Scripted.layer(turns),
          tools: [echo, Delegate.toolset],
          store: SessionStore.layerSqlite({ path }),
          retry: RetryPolicy.make({ base: 0, cap: 0 })
        })
      )
    )
  })

const run = (prompt: string, sessionId?: Ids.SessionId) =>
  Effect.map(Agent.run({ prompt, ...(sessionId === undefined ? {} : { sessionId }) }), (result) => result.sessionId)

const { version }: { readonly version: string } = JSON.parse(readFileSync("package.json", "utf8"))

const shape = ({ steps }: Atif.Trajectory) =>
  steps.map(({ llm_call_count, message, source }) => [source, message, llm_call_count])

describe("trajectories of the run record", () => {
  it.effect("calls, results, times, usage of each step", () =>
    Effect.gen(function* () {
      const trajectory = yield* trajectoryOf(
        [call("a", "b"), Scripted.complete({ text: "done", usage: { input: 7, output: 3 } })],
        run("go")
      )
      assert.deepStrictEqual(shape(trajectory).slice(1), [
        ["user", "go", undefined],
        ["agent", "", 1],
        ["agent", "done", 1]
      ])
      const [, , calls, answer] = trajectory.steps
      assert.deepStrictEqual(
        calls?.tool_calls?.map(({ arguments: args, extra }) => [args, extra?.["parallel"]]),
        [
          [{ text: "a" }, true],
          [{ text: "b" }, true]
        ]
      )
      assert.deepStrictEqual(
        calls?.observation?.results.map(({ content }) => content),
        ["a again", "b again"]
      )
      assert.deepInclude(answer?.metrics, { prompt_tokens: 7, completion_tokens: 3 })
      assert.deepStrictEqual(
        trajectory.agent.tool_definitions?.map((one) => JSON.parse(JSON.stringify(one))["function"]["name"]).toSorted(),
        ["delegate_task", "echo"]
      )
    })
  )

  it.effect(
    "the agent's version is that of the runtime that made the run, of children too; a record without one says so",
    () =>
      Effect.gen(function* () {
        let entries: ReadonlyArray<RecordEvent.Entry> = []
        const trajectory = yield* trajectoryOf(
          [
            Scripted.complete({ toolCalls: [{ name: "delegate_task", params: { goal: "one" } }] }),
            Scripted.complete("child"),
            Scripted.complete("done")
          ],
          Effect.tap(run("go"), () =>
            Effect.map(
              RunRecord.RunRecord.use((record) => Stream.runCollect(record.read())),
              (all) => (entries = all)
            )
          )
        )
        assert.deepStrictEqual(
          [trajectory, ...(trajectory.subagent_trajectories ?? [])].map(({ agent }) => agent.version),
          [version, version]
        )
        const earlier = entries.map((entry) => {
          if (entry.event._tag !== "RunStarted") return entry
          const { agentVersion: _, ...event } = entry.event
          return { ...entry, event }
        })
        assert.strictEqual(
          FromRuns.buildTrajectory(RunTree.fromEntries(earlier), trajectory.session_id ?? "")?.agent.version,
          "unknown"
        )
      })
  )

  const long = "ä€😀 \n".repeat(15_000)
  it.effect("every character of 100 kB texts is in it", () =>
    Effect.gen(function* () {
      const { steps } = yield* trajectoryOf([call(long), Scripted.complete(long)], run(`say ${long}`))
      const [, user, agent, answer] = steps
      assert.strictEqual(user?.message, `say ${long}`)
      assert.strictEqual(agent?.tool_calls?.[0]?.arguments["text"], long)
      assert.strictEqual(agent?.observation?.results[0]?.content, `${long} again`)
      assert.strictEqual(answer?.message, long)
    })
  )

  it.effect("a session of 200 turns has all its messages, in order, each once", () =>
    Effect.gen(function* () {
      const turns = Array.from({ length: 200 }, (_, index) => index)
      const { steps } = yield* trajectoryOf(
        turns.map((index) => Scripted.complete(`answer ${index}`)),
        Effect.gen(function* () {
          let sessionId: Ids.SessionId | undefined
          for (const index of turns) sessionId = yield* run(`question ${index}`, sessionId)
          return sessionId ?? Ids.SessionId.make("none")
        })
      )
      assert.deepStrictEqual(
        steps.slice(1).map(({ message }) => message),
        turns.flatMap((index) => [`question ${index}`, `answer ${index}`])
      )
    })
  )

  it.effect("failed attempts are the retries of the step that followed; a rejected call says why", () =>
    Effect.gen(function* () {
      const { steps } = yield* trajectoryOf(
        [
          Scripted.fail(new AiError.InternalProviderError({ description: "busy" })),
          Scripted.complete({ toolCalls: [{ name: "nope", params: {} }] }),
          Scripted.complete("done")
        ],
        run("go")
      )
      const [, , agent] = steps
      assert.strictEqual(agent?.llm_call_count, 1)
      const retries = agent?.extra?.["retries"]
      assert.isArray(retries)
      assert.deepInclude(JSON.parse(JSON.stringify(retries))[0], { status: "failed", provider: "scripted" })
      assert.deepInclude(agent?.observation?.results[0]?.extra, { status: "error", reason: "unknown_tool" })
    })
  )

  it.effect("a run whose model could not be asked says so in a step of the system", () =>
    Effect.gen(function* () {
      const trajectory = yield* trajectoryOf(
        [Scripted.fail(new AiError.AuthenticationError({ kind: "InvalidKey" }))],
        Effect.gen(function* () {
          const id = Ids.SessionId.make("fails")
          yield* Effect.exit(run("go", id))
          return id
        })
      )
      assert.match(String(trajectory.steps.at(-1)?.message), /^The model could not be asked: /)
      assert.strictEqual(trajectory.extra?.["exit"], "failed")
    })
  )

  it.effect("the beginning of an answer whose stream was interrupted is a step that says so, with one model call", () =>
    Effect.gen(function* () {
      const id = Ids.SessionId.make("cut")
      const trajectory = yield* trajectoryOf(
        [Scripted.hang({ text: "half an answer" })],
        Effect.gen(function* () {
          const begun = yield* Deferred.make<void>()
          const fiber = yield* Effect.forkChild(
            Agent.Agent.use((agent) =>
              agent.run({
                prompt: "go",
                sessionId: id,
                streaming: true,
                onEvent: (events) =>
                  events.some(({ _tag }) => _tag === "TextDelta")
                    ? Effect.asVoid(Deferred.succeed(begun, undefined))
                    : Effect.void
              })
            )
          )
          yield* Deferred.await(begun)
          yield* Fiber.interrupt(fiber)
          return id
        })
      )
      const last = trajectory.steps.at(-1)
      assert.deepStrictEqual(
        [last?.source, last?.message, last?.llm_call_count, last?.extra?.["interrupted"]],
        ["agent", "half an answer", 1, true]
      )
      assert.strictEqual(trajectory.extra?.["exit"], "interrupted")
    })
  )

  it.effect("side tasks are no steps, and stand in the extra", () =>
    Effect.gen(function* () {
      const trajectory = yield* trajectoryOf(
        [Scripted.complete("done"), Scripted.complete("A title")],
        Effect.gen(function* () {
          const { sessionId, turnId } = yield* Agent.run({ prompt: "go" })
          const messages = [Prompt.userMessage({ content: [Prompt.textPart({ text: "Title this" })] })]
          yield* Auxiliary.Auxiliary.use(({ call }) =>
            call("title", { messages, context: { sessionId, turnId, taskId: Ids.TaskId.make(sessionId) } })
          )
          return sessionId
        })
      )
      assert.deepStrictEqual(shape(trajectory).slice(1), [
        ["user", "go", undefined],
        ["agent", "done", 1]
      ])
      assert.deepInclude(JSON.parse(JSON.stringify(trajectory.extra?.["side_tasks"]))[0], {
        task: "title",
        status: "answered"
      })
    })
  )

  it.effect("children are embedded under their call; a failed one has its status in the reference", () =>
    Effect.gen(function* () {
      const trajectory = yield* trajectoryOf(
        [
          Scripted.complete({ toolCalls: [{ name: "delegate_task", params: { tasks: [{ goal: "one" }] } }] }),
          Scripted.fail(new AiError.AuthenticationError({ kind: "InvalidKey" })),
          Scripted.complete("done")
        ],
        run("go")
      )
      const [reference] = trajectory.steps[2]?.observation?.results[0]?.subagent_trajectory_ref ?? []
      assert.strictEqual(reference?.extra?.["status"], "failed")
      assert.deepStrictEqual(
        trajectory.subagent_trajectories?.map(({ session_id }) => session_id),
        [reference?.session_id]
      )
    })
  )

  it.effect("a session that is older than the record is made of its messages", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      yield* Effect.gen(function* () {
        const store = yield* SessionStore.SessionStore
        const id = Ids.SessionId.make("old")
        yield* store.create({ id, source: "cli", provider: "p", model: "m", systemPrompt: "be good" })
        yield* store.append(id, [
          Prompt.userMessage({ content: [Prompt.textPart({ text: "hello" })] }),
          Prompt.assistantMessage({ content: [Prompt.textPart({ text: "hi" })] })
        ])
        const session = yield* Effect.fromOption(yield* store.get(id))
        const trajectory = FromRuns.buildTrajectory(yield* StoredRuns.read(session), id)
        assert.deepStrictEqual(
          trajectory?.steps.map(({ message, source, timestamp }) => [source, message, timestamp]),
          [
            ["system", "be good", undefined],
            ["user", "hello", undefined],
            ["agent", "hi", undefined]
          ]
        )
      }).pipe(Effect.provide(SessionStore.layerSqlite({ path })))
    })
  )
})
