// Streams of the run record: whole, the same live and from the store, readable by the reference converter, and with the
// same steps as the trajectory of the tree.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as TestClock from "effect/testing/TestClock"
import { Agent, Hooks, Ids, RunRecord, Scripted } from "../../src/index.ts"
import { Auxiliary } from "../../src/kit/entry/routing.ts"
import type * as Atof from "../../src/observe/Atof.ts"
import * as Message from "../../src/observe/atif/Message.ts"
import * as Trace from "../../src/observe/Trace.ts"
import * as Pool from "../../src/observe/trace/Pool.ts"
import * as TraceStats from "../../src/observe/TraceStats.ts"
import * as Vision from "../../src/tools/builtin/Vision.ts"
import { scaleRuns } from "../support/effort.ts"
import { effectProp } from "../support/property.ts"
import * as Recorded from "./support/recorded.ts"

const pixel = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"

const run = (prompt: string, sessionId?: Ids.SessionId) =>
  Effect.map(Agent.run({ prompt, ...(sessionId === undefined ? {} : { sessionId }) }), (result) => result.sessionId)

const busy = Scripted.fail(new AiError.InternalProviderError({ description: "busy" }))
const refused = Scripted.fail(new AiError.AuthenticationError({ kind: "InvalidKey" }))

const scopes = (events: ReadonlyArray<Atof.Event>, category: string, half: "start" | "end" = "start") =>
  events.flatMap((event) =>
    event.kind === "scope" && event.category === category && event.scope_category === half ? [event] : []
  )

/** Runs a prompt in a session that is interrupted as soon as something is recorded of it. */
const cut = (prompt: string, kind: "AttemptEnded" | "CallStarted", id: Ids.SessionId) =>
  Effect.gen(function* () {
    const record = yield* RunRecord.RunRecord
    const fiber = yield* Effect.forkChild(run(prompt, id))
    yield* Effect.scoped(
      Effect.gen(function* () {
        let isThere = false
        yield* record.listen((entries) => {
          if (entries.some(({ event }) => event._tag === kind)) isThere = true
        })
        yield* Effect.repeat(Effect.yieldNow, { until: () => isThere })
      })
    )
    yield* Fiber.interrupt(fiber)
    return id
  })

describe("a stream of the record", () => {
  it.effect("parallel calls, usage and reasoning", () =>
    Effect.gen(function* () {
      const { events } = yield* Recorded.views(
        [
          Scripted.complete({
            text: "both",
            reasoning: "two are better",
            usage: { input: 520, output: 80, cacheRead: 200 },
            toolCalls: [
              { name: "echo", params: { text: "a" } },
              { name: "echo", params: { text: "b" } }
            ]
          }),
          Scripted.complete("done")
        ],
        run("go")
      )
      const [end] = scopes(events, "llm", "end")
      assert.deepStrictEqual(end?.data_schema, { name: "openai/chat-completions", version: "1" })
      assert.deepInclude(end?.data, { object: "chat.completion", finish_reason: "tool_calls" })
      const tools = scopes(events, "tool")
      assert.deepStrictEqual(
        tools.map(({ attributes }) => attributes),
        [["parallel"], ["parallel"]]
      )
      assert.deepStrictEqual(
        events.flatMap((event) => (event.kind === "mark" ? [event.name] : [])),
        ["hermes.turn.start", "hermes.turn.end", "hermes.session.end"]
      )
      const [, , session] = events
      assert.isDefined(session)
    })
  )

  const long = 'ä€😀 \n"\\'.repeat(12_000)
  it.effect("every character of 100 kB texts is in it", () =>
    Effect.gen(function* () {
      const { events, trajectory } = yield* Recorded.views(
        [Recorded.call(long), Scripted.complete(long)],
        run(`say ${long}`)
      )
      const [tool] = scopes(events, "tool")
      assert.deepStrictEqual(tool?.data, { text: long })
      assert.deepStrictEqual(
        scopes(events, "tool", "end").map(({ data }) => data),
        [`${long} again`]
      )
      const [, second] = scopes(events, "llm")
      const messages = JSON.parse(JSON.stringify(second?.data))["messages"]
      assert.deepStrictEqual(
        messages.slice(1).map(({ content }: { content: string }) => content),
        [`say ${long}`, "", `${long} again`]
      )
      assert.strictEqual(trajectory.steps.at(-1)?.message, long)
    })
  )

  it.effect("a long session: each request has all of its messages, each is a step once", () =>
    Effect.gen(function* () {
      const turns = Array.from({ length: scaleRuns(100) }, (_, index) => index)
      const { events, trajectory } = yield* Recorded.views(
        turns.map((index) => Scripted.complete(`answer ${index}`)),
        Effect.gen(function* () {
          let sessionId: Ids.SessionId | undefined
          for (const index of turns) sessionId = yield* run(`question ${index}`, sessionId)
          return sessionId ?? Ids.SessionId.make("none")
        })
      )
      assert.deepStrictEqual(
        scopes(events, "llm").map(({ data }) => JSON.parse(JSON.stringify(data))["messages"].length),
        turns.map((index) => 2 * index + 2)
      )
      assert.deepStrictEqual(
        trajectory.steps.slice(1).map(({ message }) => message),
        turns.flatMap((index) => [`question ${index}`, `answer ${index}`])
      )
      assert.strictEqual(scopes(events, "agent").length, 1)
    })
  )

  it.effect("failed attempts have no data, say why, and are the retries of a step", () =>
    Effect.gen(function* () {
      const { converted, events } = yield* Recorded.views([busy, Scripted.complete("done")], run("go"))
      const [failed] = scopes(events, "llm", "end")
      assert.isNull(failed?.data)
      assert.deepInclude(failed?.metadata, { status: "error", retry_count: 0 })
      assert.isString(failed?.metadata?.["error_message"])
      assert.strictEqual(JSON.parse(JSON.stringify(converted.steps.at(-1)?.extra?.["retries"])).length, 1)
    })
  )

  it.effect("a run whose model could not be asked", () =>
    Effect.gen(function* () {
      const id = Ids.SessionId.make("fails")
      const { converted } = yield* Recorded.views([refused], Effect.as(Effect.exit(run("go", id)), id))
      assert.match(String(converted.steps.at(-1)?.message), /^The model could not be asked: /u)
    })
  )

  it.effect("a session goes on after a run that failed", () =>
    Effect.gen(function* () {
      const id = Ids.SessionId.make("goes-on")
      yield* Recorded.views(
        [refused, Scripted.complete("now")],
        Effect.andThen(Effect.exit(run("go", id)), run("again", id))
      )
    })
  )

  it.effect("calls of unknown tools, with arguments that are no object, of tools that fail, repaired names", () =>
    Effect.gen(function* () {
      const { events } = yield* Recorded.views(
        [
          Scripted.complete({
            toolCalls: [
              { name: "nope", params: {} },
              { name: "echo", params: { text: "beside" } }
            ]
          }),
          Scripted.complete({ toolCalls: [{ name: "fails", params: {} }] }),
          Scripted.complete({ toolCalls: [{ name: "echo", params: '{"text":' }] }),
          Scripted.complete({ toolCalls: [{ name: "Echo", params: { text: "a" } }] }),
          Scripted.complete("done")
        ],
        run("go")
      )
      assert.deepStrictEqual(
        scopes(events, "tool", "end")
          .map(({ metadata, name }) => [name, metadata?.["status"], metadata?.["error_type"]])
          .slice(0, 3),
        [
          ["nope", "error", "unknown_tool"],
          ["echo", "cancelled", "skipped_sibling"],
          ["fails", "error", "tool_error"]
        ]
      )
    })
  )

  it.effect("an interrupted tool, and the session that goes on after it", () =>
    Effect.gen(function* () {
      const id = Ids.SessionId.make("cut")
      const { events } = yield* Recorded.views(
        [Scripted.complete({ toolCalls: [{ name: "hang", params: {} }] }), Scripted.complete("after")],
        Effect.andThen(cut("go", "CallStarted", id), run("again", id))
      )
      const [tool] = scopes(events, "tool", "end")
      assert.deepInclude(tool?.metadata, { status: "cancelled", error_type: "keyboard_interrupt" })
    })
  )

  it.effect(
    "children are under the call that made them, those of failed ones too; calls of a script under the script",
    () =>
      Effect.gen(function* () {
        const { events, trajectory } = yield* Recorded.views(
          [
            Scripted.complete({
              toolCalls: [{ id: "d", name: "delegate_task", params: { tasks: [{ goal: "one" }] } }]
            }),
            Recorded.call("in the child"),
            Scripted.complete("child done"),
            Scripted.complete({
              toolCalls: [{ id: "d2", name: "delegate_task", params: { tasks: [{ goal: "two" }] } }]
            }),
            refused,
            Scripted.complete({ toolCalls: [{ id: "s", name: "script", params: { texts: ["x", "y"] } }] }),
            Scripted.complete("done")
          ],
          run("go")
        )
        const tools = scopes(events, "tool")
        const uuidOf = (id: string) => tools.find(({ metadata }) => metadata?.["tool_call_id"] === id)?.uuid
        const [root, ...children] = scopes(events, "agent")
        assert.isNull(root?.parent_uuid)
        assert.deepStrictEqual(
          children.map(({ metadata, parent_uuid: parent }) => [parent, metadata?.["child_goal"]]),
          [
            [uuidOf("d"), "one"],
            [uuidOf("d2"), "two"]
          ]
        )
        assert.deepStrictEqual(
          tools.filter(({ parent_uuid: parent }) => parent === uuidOf("s")).map(({ data }) => data),
          [{ text: "x" }, { text: "y" }]
        )
        assert.strictEqual(trajectory.subagent_trajectories?.length, 2)

        const rows = Trace.buildRows(Trace.fromTrajectory(trajectory), Pool.make())
        const nameOf = (id: number): string => rows[id]?.name ?? ""
        assert.deepStrictEqual(
          rows.flatMap(({ kind, name, parent, status }) =>
            kind === "agent" && parent >= 0 ? [[name, nameOf(parent), status]] : []
          ),
          [
            ["one", "delegate_task", ""],
            ["two", "delegate_task", "failed"]
          ]
        )
        assert.deepStrictEqual(
          rows.flatMap(({ kind, name, parent }) => (kind === "tool" && name === "echo" ? [nameOf(parent)] : [])),
          ["one", "script", "script"]
        )
        assert.deepStrictEqual(
          TraceStats.computeStats(rows).modelCalls,
          TraceStats.computeStats(Trace.buildRows({ _tag: "Events", events, faults: [] }, Pool.make())).modelCalls
        )
      })
  )

  it.effect("the rows of a session: times of each call, its failed attempts, tokens of side tasks too", () =>
    Effect.gen(function* () {
      const { events, trajectory } = yield* Recorded.views(
        [busy, Scripted.complete({ text: "done", delay: "2 seconds", usage: { input: 7, output: 3 } })],
        Effect.gen(function* () {
          const fiber = yield* Effect.forkChild(run("go"))
          yield* TestClock.adjust("10 seconds")
          return yield* Fiber.join(fiber)
        })
      )
      const rows = Trace.buildRows(Trace.fromTrajectory(trajectory), Pool.make())
      assert.deepStrictEqual(
        rows.flatMap(({ end, kind, promptTokens, start, status }) =>
          kind === "llm" ? [[status, end - start, promptTokens]] : []
        ),
        [
          ["", 2000, 7],
          ["error", 0, 0]
        ]
      )
      const [stats, ofEvents] = [rows, Trace.buildRows({ _tag: "Events", events, faults: [] }, Pool.make())].map(
        TraceStats.computeStats
      )
      for (const key of ["modelCalls", "failedModelCalls", "promptTokens", "completionTokens"] as const)
        assert.strictEqual(stats?.[key], ofEvents?.[key], key)
    })
  )

  it.effect("a side task that no call requested is two marks, which readers skip", () =>
    Effect.gen(function* () {
      const { converted, events } = yield* Recorded.views(
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
      assert.deepStrictEqual(
        scopes(events, "llm").map(({ metadata }) => metadata?.["side_task"]),
        [undefined]
      )
      const marks = events.filter(({ name }) => name.startsWith("hermes.side_task."))
      assert.deepStrictEqual(
        marks.map(({ category, data, metadata, name }) => [name, category, data, metadata?.["side_task"]]),
        [
          ["hermes.side_task.start", "llm", null, "title"],
          ["hermes.side_task.end", "llm", null, "title"]
        ]
      )
      assert.include(JSON.stringify(marks[0]?.metadata?.["request"]), "Title this")
      assert.include(JSON.stringify(marks[1]?.metadata?.["response"]), "A title")
      const rows = Trace.buildRows({ _tag: "Events", events, faults: [] }, Pool.make())
      assert.deepStrictEqual(
        rows.flatMap(({ kind, status, task }) => (kind === "llm" ? [[task, status]] : [])),
        [
          ["", "ok"],
          ["title", "ok"]
        ]
      )
      assert.include(JSON.stringify(converted.extra?.["side_tasks"]), '"task":"title"')
    })
  )

  it.effect("a side task that a call requested is a trajectory below it, in the stream and of the tree", () =>
    Effect.gen(function* () {
      const question = { image_url: pixel, question: "What is it?" }
      const { events, trajectory } = yield* Recorded.views(
        [
          Scripted.complete({ toolCalls: [{ id: "v1", name: "vision_analyze", params: question }] }),
          Scripted.complete("a black pixel"),
          Scripted.complete("It is a pixel.")
        ],
        run("go"),
        { tools: [Vision.toolset] }
      )
      const [tool] = scopes(events, "tool")
      const [, side] = scopes(events, "agent")
      const [, look] = scopes(events, "llm")
      assert.deepStrictEqual([side?.parent_uuid, look?.parent_uuid], [tool?.uuid, side?.uuid])
      const result = trajectory.steps.flatMap(({ observation }) => observation?.results ?? [])[0]
      const [child] = trajectory.subagent_trajectories ?? []
      assert.strictEqual(result?.subagent_trajectory_ref?.[0]?.trajectory_id, child?.trajectory_id)
      assert.deepStrictEqual(
        child?.steps.map(({ message, source }) => [
          source,
          Message.toPlainText(message).includes("What is it?"),
          message
        ]),
        [
          ["user", true, child?.steps[0]?.message],
          ["agent", false, "a black pixel"]
        ]
      )
      assert.deepStrictEqual(
        trajectory.steps.slice(1).map(({ source }) => source),
        ["user", "agent", "agent"]
      )
      for (const input of [{ _tag: "Events", events, faults: [] }, Trace.fromTrajectory(trajectory)] as const) {
        const rows = Trace.buildRows(input, Pool.make())
        const row = rows.find(({ task }) => task === "vision")
        assert.strictEqual(row?.kind, "llm")
        assert.strictEqual(rows.find(({ id }) => id === row?.parent)?.kind, "tool")
      }
    })
  )

  it.effect("context that a plugin adds is a step of its own, and the user's words are theirs", () =>
    Effect.gen(function* () {
      const { trajectory } = yield* Recorded.views([Scripted.complete("done")], run("go"), {
        hooks: [Hooks.on("pre_llm_call", () => Effect.succeed({ context: "it rains" }))]
      })
      const [, ...steps] = trajectory.steps
      assert.deepStrictEqual(
        steps.map(({ source }) => source),
        ["user", "system", "agent"]
      )
      assert.strictEqual(steps[0]?.message, "go")
      assert.include(String(steps[1]?.message), "it rains")
      assert.notInclude(String(steps[1]?.message), "go")
    })
  )

  it.effect("a prompt with pictures: those with an address are images, of the others it is said what they were", () =>
    Effect.gen(function* () {
      const prompt = [
        Prompt.textPart({ text: "look" }),
        Prompt.filePart({ mediaType: "image/png", data: new URL("https://pictures.test/a.png") }),
        Prompt.filePart({ mediaType: "image/gif", data: Uint8Array.of(1, 2, 3) })
      ]
      const { trajectory } = yield* Recorded.views(
        [Scripted.complete("done")],
        Effect.map(Agent.run({ prompt }), ({ sessionId }) => sessionId)
      )
      const [, user] = trajectory.steps
      assert.deepStrictEqual(user?.message, [
        { type: "text", text: "look" },
        { type: "image", source: { media_type: "image/png", path: "https://pictures.test/a.png" } },
        { type: "text", text: "[image/gif: 3 bytes that are not in this document]" }
      ])
    })
  )

  it.effect("a session that was given up goes on in a scope of its own, with what was before as copied context", () =>
    Effect.gen(function* () {
      const { events, segments } = yield* Recorded.views(
        [Recorded.call("a"), Scripted.complete("one"), Scripted.complete("two")],
        Effect.gen(function* () {
          const id = yield* run("first")
          yield* Agent.Agent.use(({ finalize }) => finalize(id, { reason: "session_boundary" }))
          return yield* run("second", id)
        })
      )
      assert.deepStrictEqual(
        scopes(events, "agent").map(({ name }) => name),
        scopes(events, "agent", "end").map(({ name }) => name)
      )
      assert.strictEqual(scopes(events, "agent").length, 2)
      assert.deepStrictEqual(
        segments.map(({ steps }) =>
          steps.map(({ is_copied_context: copied, message }) => [message, copied === true]).slice(1)
        ),
        [
          [
            ["first", false],
            ["", false],
            ["one", false]
          ],
          [
            ["first", true],
            ["", true],
            ["one", true],
            ["second", false],
            ["two", false]
          ]
        ]
      )
    })
  )

  const word = Schema.Literals(["a", "ü😀", "<b>", "line\nbreak", "  "])
  const Move = Schema.Union([
    Schema.Struct({ type: Schema.Literal("say"), text: word }),
    Schema.Struct({
      type: Schema.Literal("call"),
      texts: Schema.Array(word).check(Schema.isMinLength(1), Schema.isMaxLength(4))
    }),
    Schema.Struct({ type: Schema.Literal("fail") }),
    Schema.Struct({ type: Schema.Literal("unknown") }),
    Schema.Struct({ type: Schema.Literal("script"), texts: Schema.Array(word).check(Schema.isMaxLength(3)) }),
    Schema.Struct({ type: Schema.Literal("child"), goal: word, text: word })
  ])
  effectProp(
    "any runs: all views agree",
    {
      moves: Schema.Array(Move).check(Schema.isMaxLength(8)),
      prompts: Schema.Array(word).check(Schema.isMinLength(1), Schema.isMaxLength(3))
    },
    ({ moves, prompts }) =>
      Effect.gen(function* () {
        let n = 0
        const turns = prompts.flatMap((prompt) => [
          ...moves.flatMap((move): ReadonlyArray<Scripted.Turn> => {
            n++
            switch (move.type) {
              case "say":
                return [
                  Scripted.complete({
                    text: move.text,
                    reasoning: move.text,
                    toolCalls: [{ id: `e${n}`, name: "echo", params: { text: `${n}` } }]
                  })
                ]
              case "call":
                return [
                  Scripted.complete({
                    toolCalls: move.texts.map((text, index) => ({
                      id: `c${n}-${index}`,
                      name: "echo",
                      params: { text: `${index} ${text}` }
                    }))
                  })
                ]
              case "fail":
                return [busy]
              case "unknown":
                return [Scripted.complete({ toolCalls: [{ id: `u${n}`, name: "nope", params: { x: 1 } }] })]
              case "script":
                return [
                  Scripted.complete({ toolCalls: [{ id: `s${n}`, name: "script", params: { texts: move.texts } }] })
                ]
              case "child":
                return [
                  Scripted.complete({
                    toolCalls: [
                      { id: `d${n}`, name: "delegate_task", params: { tasks: [{ goal: `${move.goal} goal` }] } }
                    ]
                  }),
                  Scripted.complete(`${move.text} done`)
                ]
            }
          }),
          Scripted.complete(`answer to ${prompt}`)
        ])
        const id = Ids.SessionId.make("any")
        yield* Recorded.views(
          turns,
          Effect.as(
            Effect.forEach(prompts, (prompt) => Effect.exit(run(`say ${prompt}`, id)), { discard: true }),
            id
          )
        )
      }),
    { arbitrary: { runs: 20 } }
  )
})
