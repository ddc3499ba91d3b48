// Scenarios in each of the four protocols, with calls that the library is shown and calls that it executes: its stream
// and its trajectory tell what the runtime's own stream of the same run tells.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import type { ServerResponse } from "node:http"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as Ids from "../../src/base/domain/Ids.ts"
import type * as Atif from "../../src/observe/Atif.ts"
import * as AtifCheck from "../../src/observe/AtifCheck.ts"
import * as AtifConvert from "../../src/observe/AtifConvert.ts"
import * as Message from "../../src/observe/atif/Message.ts"
import * as Atof from "../../src/observe/Atof.ts"
import * as Auxiliary from "../../src/models/routing/Auxiliary.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Delegation from "../../src/tools/builtin/Delegate.ts"
import * as Vision from "../../src/tools/builtin/Vision.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import * as AtifSchema from "../observe/support/atifSchema.ts"
import * as Recorded from "../observe/support/recorded.ts"
import * as Fake from "../observe/support/relay.ts"
import * as Runs from "../observe/support/runs.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import * as WireModel from "../support/wireModel.ts"

type Mode = keyof typeof WireModel.protocols

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo)
const tools = Toolset.make(
  "test",
  toolkit,
  toolkit.toLayer({
    echo: ({ text }) => Effect.as(Effect.repeat(Effect.yieldNow, { times: text === "slow" ? 200 : 0 }), `${text} again`)
  })
)

const pixel = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"

/** A turn of the model, an error of its server, or a request after which the run is interrupted. */
type Turn = WireModel.WireTurn | { readonly status: number } | "interrupted"

const call = (id: string, name: string, args: object): WireModel.WireCall => ({ id, name, args: JSON.stringify(args) })
const echo = (id: string, text: string) => call(id, "echo", { text })

interface Scenario {
  readonly prompts?: ReadonlyArray<string>
  readonly turns: ReadonlyArray<Turn>
  /** A side task without a call, after the prompts. */
  readonly hasTitle?: true
  /** Two routes to the same server. */
  readonly hasFallback?: true
}

const scenarios: Readonly<Record<string, Scenario>> = {
  text: { turns: [{ text: "hello" }] },
  "parallel tools": { turns: [{ text: "both", calls: [echo("c1", "slow"), echo("c2", "b")] }, { text: "done" }] },
  "tools one after another": {
    turns: [{ calls: [echo("c1", "a")] }, { text: "next", calls: [echo("c2", "b")] }, { text: "done" }]
  },
  "failure and retry": { turns: [{ status: 500 }, { status: 503 }, { calls: [echo("c1", "a")] }, { text: "done" }] },
  "failure of a later step": {
    turns: [{ calls: [echo("c1", "a")] }, { status: 503 }, { status: 500 }, { text: "done" }]
  },
  "another model after one that refuses": {
    hasFallback: true,
    turns: [{ status: 401 }, { calls: [echo("c1", "a")] }, { text: "done" }]
  },
  "failure for good": { turns: [{ calls: [echo("c1", "a")] }, { status: 400 }] },
  interruption: { turns: [{ text: "first", calls: [echo("c1", "a")] }, "interrupted"] },
  "children two deep": {
    turns: [
      { calls: [call("d1", "delegate_task", { goal: "outer", role: "orchestrator" })] },
      { calls: [call("d2", "delegate_task", { goal: "inner" })] },
      { calls: [echo("c1", "deep")] },
      { text: "inner done" },
      { text: "outer done" },
      { text: "all done" }
    ]
  },
  "a side task of a call": {
    turns: [
      { calls: [call("v1", "vision_analyze", { image_url: pixel, question: "What is it?" }), echo("c1", "a")] },
      { text: "a black pixel" },
      { text: "It is a pixel." }
    ]
  },
  "a side task without a call": {
    hasTitle: true,
    turns: [{ calls: [echo("c1", "a")] }, { text: "done" }, { text: "A title" }]
  },
  "two turns of a session": {
    prompts: ["go", "go"],
    turns: [{ calls: [echo("c1", "a")] }, { text: "one" }, { text: "two" }]
  }
}

const toml = (directory: string, isExecuted: boolean) => `version = 1

[[components]]
kind = "observability"
enabled = true

[components.config]
version = 4
enable_full_payloads = true

[components.config.atof]
enabled = true

[[components.config.atof.sinks]]
type = "file"
output_directory = "${join(directory, "atof")}"
filename = "events.jsonl"
mode = "overwrite"

[components.config.atif]
enabled = true
output_directory = "${join(directory, "atif")}"
filename_template = "trajectory-{session_id}.json"
agent_name = "Hermes Agent"
agent_version = "local"
${
  isExecuted
    ? `
[[components]]
kind = "adaptive"
enabled = true

[components.config.tool_parallelism]
mode = "observe_only"
`
    : ""
}`

const isStreamed = ({ body, url }: HttpServer.Received): boolean =>
  url.includes("converse-stream") || /"stream":\s*true/u.test(body)

const answer = (
  protocol: WireModel.Protocol,
  streaming: boolean,
  turn: Exclude<Turn, "interrupted">,
  response: ServerResponse
): void => {
  if ("status" in turn) return void HttpServer.json(response, turn.status, { error: { message: "busy" } })
  if (streaming) protocol.stream(turn, response)
  else HttpServer.json(response, 200, protocol.whole(turn))
}

const all = [tools, Delegation.toolset, Vision.toolset]
const retry = RetryPolicy.make({ base: 0, cap: 0 })

/** What the runtimes of all scenarios have. */
interface Parts {
  readonly tools: typeof all
  readonly retry: typeof retry
  readonly plugins: ReadonlyArray<ReturnType<typeof Runs.collector>["plugin"]>
  readonly record: Fake.Opened["record"]
  readonly middleware: Fake.Opened["middleware"]
}

const providers: Readonly<Record<Mode, string>> = {
  chat_completions: "custom",
  anthropic_messages: "anthropic",
  codex_responses: "custom",
  bedrock_converse: "bedrock"
}

/** Asks for a title, as the program does after the first turn of a session. */
const nameSession = Auxiliary.Auxiliary.use(({ call: ask }) => {
  const id = Ids.SessionId.make("s1")
  const messages = [Prompt.userMessage({ content: [Prompt.textPart({ text: "Title this" })] })]
  const context = { sessionId: id, turnId: Ids.TurnId.make("title"), taskId: Ids.TaskId.make(id) }
  return ask("title", { messages, context })
})

/** The runs of a scenario: the library's stream and trajectories, and the runtime's own stream of the same runs. */
const play = (
  mode: Mode,
  scenario: Scenario,
  isExecuted: boolean,
  streaming: boolean
): Effect.Effect<
  { readonly theirs: Atof.Stream; readonly own: Atof.Stream; readonly files: ReadonlyArray<Atif.Trajectory> },
  unknown,
  Scope.Scope
> =>
  Effect.gen(function* () {
    const directory = yield* temporaryDirectory
    const protocol = WireModel.protocols[mode]
    let served = 0
    const hanging = yield* Deferred.make<void>()
    const server = yield* HttpServer.make((request, response) => {
      const turn = scenario.turns[served++] ?? { text: "too many" }
      if (turn === "interrupted") Deferred.doneUnsafe(hanging, Effect.void)
      else answer(protocol, isStreamed(request), turn, response)
    })
    const route = { ...WireModel.routeTo(mode, server.url), provider: providers[mode], apiMode: mode }
    const routes = [route, { ...route, model: "second" }]
    const makeRuntime = (options: Parts) =>
      scenario.hasFallback === true
        ? Runtime.layer({ ...options, routes })
        : Runtime.layer({ ...options, provider: protocol.layer(server.url) })
    const file = join(directory, "plugins.toml")
    writeFileSync(file, toml(directory, isExecuted))
    const { events, plugin } = Runs.collector()
    const trace = { agent: { ...Runs.agent, name: "Hermes Agent" }, atof: undefined, atif: undefined }
    yield* Effect.scoped(
      Effect.flatMap(Fake.open({ trace, pluginsToml: file }), ({ middleware, record }) =>
        Effect.forEach(
          scenario.prompts ?? ["go"],
          (prompt) =>
            Effect.gen(function* () {
              const fiber = yield* Effect.forkChild(Effect.exit(Agent.run({ prompt, sessionId: "s1", streaming })))
              yield* Effect.raceFirst(Fiber.await(fiber), Deferred.await(hanging))
              yield* Fiber.interrupt(fiber)
            }),
          { discard: true }
        ).pipe(
          Effect.andThen(scenario.hasTitle === true ? nameSession : Effect.void),
          Effect.provide(makeRuntime({ tools: all, retry, plugins: [plugin], record, middleware }))
        )
      )
    ).pipe(Effect.provide(NodeServices.layer))
    const text = readFileSync(join(directory, "atof", "events.jsonl"), "utf8")
    const names = readdirSync(join(directory, "atif"))
    const lines = events
      .toSorted((a, b) => (String(a.timestamp) < String(b.timestamp) ? -1 : 1))
      .map((event) => JSON.stringify(event))
    const theirs = Atof.parse(text)
    const own = Atof.parse(lines.join("\n"))
    const files: ReadonlyArray<Atif.Trajectory> = names.map((name) =>
      JSON.parse(readFileSync(join(directory, "atif", name), "utf8"))
    )
    const how = `${mode}-${isExecuted ? "executed" : "shown"}-${streaming ? "stream" : "whole"}`
    keepForReaders(how, { native: text, own: `${lines.join("\n")}\n` }, [...files, convert(own), convert(theirs)])
    return { theirs, own, files }
  })

let kept = 0

/** Writes the views into the directory of the readers that others wrote, if there is one (`npm run test:readers`). */
const keepForReaders = (
  name: string,
  streams: Readonly<Record<string, string>>,
  trajectories: ReadonlyArray<Atif.Trajectory>
): void => {
  const directory = process.env["HERMES_TEST_READERS"]
  if (directory === undefined) return
  mkdirSync(directory, { recursive: true })
  const number = ++kept
  for (const [writer, text] of Object.entries(streams))
    writeFileSync(join(directory, `${number}-${name}-${writer}.jsonl`), text)
  trajectories.forEach((trajectory, index) =>
    writeFileSync(join(directory, `${number}-${name}-${index}.json`), JSON.stringify(trajectory))
  )
}

/** The text of content. Our own views tell the size of a picture that is not in the document, too. */
const textOf = (content: Atif.Content): string =>
  Message.toPlainText(content).replaceAll(/: \d+ bytes that are not in this document/gu, "")

/** Ids of children are new in each run, and a child reports how long it took. */
const essence = ({ steps, subagent_trajectories: children }: Atif.Trajectory): unknown => ({
  steps: steps.map((step) => ({
    source: step.source,
    message: textOf(step.message),
    model: step.model_name,
    reasoning: step.reasoning_content,
    count: step.llm_call_count,
    prompt: step.metrics?.prompt_tokens,
    completion: step.metrics?.completion_tokens,
    retries: Array.isArray(step.extra?.["retries"]) ? step.extra["retries"].length : 0,
    calls: step.tool_calls?.map((one) => [one.tool_call_id, one.function_name, one.arguments]),
    results: step.observation?.results
      .map((one) => [one.source_call_id, one.content, one.subagent_trajectory_ref?.map(({ session_id: id }) => id)])
      .toSorted((a, b) => (String(a[0]) < String(b[0]) ? -1 : 1))
  })),
  children: (children ?? []).map(essence)
})

/** What the library's own trajectory has too: it leaves out system messages and what failed. */
const outline = ({ steps, subagent_trajectories: children }: Atif.Trajectory): unknown => ({
  steps: steps
    .filter(({ source }) => source !== "system")
    .map((step) => ({
      source: step.source,
      message: textOf(step.message),
      calls: step.tool_calls?.map((one) => [one.tool_call_id, one.function_name, one.arguments]),
      results: step.observation?.results
        .map((one) => [one.source_call_id, one.content, one.subagent_trajectory_ref?.map(({ session_id: id }) => id)])
        .toSorted((a, b) => (String(a[0]) < String(b[0]) ? -1 : 1))
    })),
  children: (children ?? []).map(outline)
})

/** Tests whether a call after the first answer has none. */
const hasLaterFailure = ({ turns }: Scenario): boolean =>
  turns
    .slice(turns.findIndex((turn) => turn !== "interrupted" && !("status" in turn)))
    .some((turn) => turn === "interrupted" || "status" in turn)

const withoutRepeated = (steps: Atif.Trajectory["steps"]): Atif.Trajectory["steps"] =>
  steps.filter(
    ({ message, source }, index) =>
      source !== "user" || !steps.slice(0, index).some((one) => one.source === "user" && one.message === message)
  )

const convert = (stream: Atof.Stream): Atif.Trajectory => {
  const { faults, trajectories } = AtifConvert.convert(stream.events)
  assert.deepStrictEqual([stream.faults, faults], [[], []])
  const [only] = trajectories
  assert.strictEqual(trajectories.length, 1)
  return only ?? assert.fail("there is a trajectory")
}

const assertValid = (trajectory: Atif.Trajectory): void => {
  assert.deepStrictEqual(AtifSchema.errors(trajectory), [])
  assert.deepStrictEqual(
    AtifCheck.check(trajectory).filter(({ severity }) => severity === "error"),
    []
  )
}

const modes: ReadonlyArray<Mode> = ["chat_completions", "anthropic_messages", "codex_responses", "bedrock_converse"]

for (const mode of modes) {
  describe(`in ${mode}`, () => {
    for (const [name, scenario] of Object.entries(scenarios)) {
      for (const [isExecuted, streaming] of [
        [false, false],
        [true, false],
        [true, true]
      ] as const) {
        const how = `${isExecuted ? "executed" : "shown"}, ${streaming ? "streamed" : "whole"}`
        it.live(`${name} (${how}): the library's views tell what our own tell`, () =>
          Effect.gen(function* () {
            const { files, own, theirs } = yield* play(mode, scenario, isExecuted, streaming)
            const ours = convert(own)
            assert.deepStrictEqual(Recorded.refusals(own.events), [])
            assert.deepStrictEqual(Recorded.refusals(theirs.events), [])
            assert.deepStrictEqual(essence(convert(theirs)), essence(ours))
            assert.strictEqual(files.length, 1)
            for (const file of files) {
              assertValid(file)
              // Of a call that has no answer, the library repeats the user's message, whatever the call was about.
              const steps = hasLaterFailure(scenario) ? withoutRepeated(file.steps) : file.steps
              assert.deepStrictEqual(outline({ ...file, steps }), outline(ours))
            }
          })
        )
      }
    }
  })
}
