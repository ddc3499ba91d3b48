// Runs of a runtime over a SQLite store, and what each view makes of their record: the stream of events live and
// stored, the trajectory of the tree, and the trajectory that the stream converts to.
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type { Entry } from "../../../src/base/domain/RecordEvent.ts"
import type { Hook } from "../../../src/hooks/Hook.ts"
import { type Agent, Delegate, Ids, RunRecord, Runtime, Scripted, SessionStore, Toolset } from "../../../src/index.ts"
import type { Auxiliary } from "../../../src/kit/entry/routing.ts"
import type * as Atif from "../../../src/observe/Atif.ts"
import * as AtifCheck from "../../../src/observe/AtifCheck.ts"
import * as AtifConvert from "../../../src/observe/AtifConvert.ts"
import * as FromRuns from "../../../src/observe/atif/FromRuns.ts"
import * as Message from "../../../src/observe/atif/Message.ts"
import * as Atof from "../../../src/observe/Atof.ts"
import * as AtofRuns from "../../../src/observe/atof/FromRuns.ts"
import * as RunTree from "../../../src/observe/RunTree.ts"
import * as StoredMask from "../../../src/store/StoredMask.ts"
import type * as Vision from "../../../src/tools/builtin/Vision.ts"
import { NestedCalls, ToolContext } from "../../../src/tools/ToolContext.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const Fails = Tool.make("fails", { description: "Fails", success: Schema.String })
const Hang = Tool.make("hang", { description: "Never ends", success: Schema.String })
/** Calls `echo` as a script of the model does. */
const Script = Tool.make("script", {
  parameters: Schema.Struct({ texts: Schema.Array(Schema.String) }),
  success: Schema.String,
  dependencies: [ToolContext]
})
const toolkit = Toolkit.make(Echo, Fails, Hang, Script)
const tools = Toolset.make(
  "recorded",
  toolkit,
  toolkit.toLayer({
    echo: ({ text }) => Effect.succeed(`${text} again`),
    fails: () => Effect.die("it broke"),
    hang: () => Effect.never,
    script: ({ texts }) =>
      Effect.gen(function* () {
        const run = yield* NestedCalls
        if (run === undefined) return "none"
        const said = yield* Effect.forEach(texts, (text, index) =>
          run(Prompt.toolCallPart({ id: `nested-${index}`, name: "echo", params: { text }, providerExecuted: false }))
        )
        return said.map(({ output }) => String(output)).join(",")
      })
  })
)

export const call = (...texts: ReadonlyArray<string>) =>
  Scripted.complete({ toolCalls: texts.map((text) => ({ name: "echo", params: { text } })) })

/** The services that a body of runs may use. */
export type Services = Agent.Agent | Auxiliary.Auxiliary | RunRecord.RunRecord | SessionStore.SessionStore

export const agent = { name: "Hermes Test", version: "1.2.3" }

export interface Views {
  readonly entries: ReadonlyArray<Entry>
  readonly events: ReadonlyArray<Atof.Event>
  /** Of the tree. */
  readonly trajectory: Atif.Trajectory
  /** Of the events. */
  readonly converted: Atif.Trajectory
  /** All trajectories of the session that the events convert to: one for each of its agent scopes. */
  readonly segments: ReadonlyArray<Atif.Trajectory>
}

/** Everything that must agree between two trajectories of one session, step by step, with those of its children. */
export const substance = (trajectory: Atif.Trajectory): unknown => ({
  steps: trajectory.steps.map((step) => ({
    source: step.source,
    message: Message.toPlainText(step.message),
    reasoning: step.reasoning_content ?? "",
    count: step.llm_call_count,
    copied: step.is_copied_context === true,
    origin: step.extra?.["origin"],
    metrics: step.metrics,
    calls: step.tool_calls?.map((one) => [one.tool_call_id, one.function_name, one.arguments]),
    results: step.observation?.results.map((one) => [
      one.source_call_id,
      one.content === undefined || one.content === null ? "" : Message.toPlainText(one.content),
      one.subagent_trajectory_ref?.map(({ session_id: id }) => id)
    ])
  })),
  children: (trajectory.subagent_trajectories ?? []).map(substance)
})

/** A stream knows nothing of what its session spent before it. */
const withoutCopiedMetrics = (trajectory: Atif.Trajectory): Atif.Trajectory => ({
  ...trajectory,
  steps: trajectory.steps.map(({ llm_call_count: count, metrics, ...step }) =>
    step.is_copied_context === true
      ? step
      : {
          ...step,
          ...(count === undefined ? {} : { llm_call_count: count }),
          ...(metrics === undefined ? {} : { metrics })
        }
  )
})

const fields = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : {}
const items = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/**
 * The reasons for which the reference converter (NeMo Agent Toolkit, `atof_to_atif_converter.py` of 30 June 2026)
 * refuses a stream: its rules for declared forms, for content that it cannot find, and those of its models.
 */
export const refusals = (events: ReadonlyArray<Atof.Event>): ReadonlyArray<string> => {
  const said: Array<string> = []
  let calls: ReadonlySet<unknown> = new Set()
  const callsByAgent = new Map<string, ReadonlySet<unknown>>()
  for (const event of events) {
    if (event.kind === "mark") {
      if (event.data !== null) said.push(`${event.name}: a mark with data ends the step`)
      continue
    }
    const data = fields(event.data)
    const declared = event.data_schema !== null && event.data_schema !== undefined
    const isStart = event.scope_category === "start"
    const agentOf = String(event.parent_uuid)
    if (declared && !["messages", "content", "tool_calls", "choices"].some((key) => key in data))
      said.push(`${event.name}: not of its declared form`)
    if (event.category === "llm" && isStart) {
      const messages = items(data["messages"])
      if (Object.keys(data).length > 0 && messages.length === 0) said.push(`${event.name}: no messages`)
      for (const message of messages.map(fields)) {
        const isText = typeof message["content"] === "string"
        const areParts = items(message["content"]).every((part) =>
          ["text", "image"].includes(String(fields(part)["type"]))
        )
        if ((message["role"] === "user" || message["role"] === "system") && !isText && !areParts)
          said.push(`${event.name}: content of an unknown form`)
      }
    } else if (event.category === "llm") {
      const message = fields(fields(items(data["choices"])[0])["message"])
      const made = items(message["tool_calls"]).map(fields)
      if (Object.keys(data).length > 0 && message["content"] === "" && made.length === 0)
        said.push(`${event.name}: neither text nor calls`)
      for (const one of made) {
        const args: unknown = JSON.parse(String(fields(one["function"])["arguments"]))
        if (typeof one["id"] !== "string" || typeof args !== "object" || Array.isArray(args) || args === null)
          said.push(`${event.name}: a call of an unknown form`)
      }
      calls = new Set(made.map(({ id }) => id))
      callsByAgent.set(agentOf, calls)
    } else if (event.category === "tool" && !isStart) {
      const id = event.category_profile?.["tool_call_id"]
      if (id !== undefined && callsByAgent.get(agentOf)?.has(id) !== true)
        said.push(`${event.name}: result of a call that no answer made`)
    }
  }
  return said
}

/** The views of a body of runs, which are sound and agree with each other. */
export const views = <E>(
  turns: ReadonlyArray<Scripted.Turn>,
  body: Effect.Effect<Ids.SessionId, E, Services>,
  more: { readonly hooks?: ReadonlyArray<Hook>; readonly tools?: ReadonlyArray<typeof Vision.toolset> } = {}
): Effect.Effect<Views, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const path = `${yield* temporaryDirectory}/state.db`
    const live = AtofRuns.make(agent)
    const tree = RunTree.make()
    const events: Array<Atof.Event> = []
    const sessionId = yield* Effect.gen(function* () {
      const record = yield* RunRecord.RunRecord
      const safe = yield* StoredMask.forExport
      yield* record.listen((entries) => {
        for (const entry of safe(entries)) {
          tree.add(entry)
          events.push(...live.add(entry))
        }
      })
      return yield* body
    }).pipe(
      Effect.provide(
        Runtime.layer({
          provider: Scripted.layer(turns),
          tools: [tools, Delegate.toolset, ...(more.tools ?? [])],
          hooks: more.hooks ?? [],
          store: SessionStore.layerSqlite({ path }),
          retry: RetryPolicy.make({ base: 0, cap: 0 })
        })
      )
    )
    // The runtime is closed: its sessions were given up.
    const stored = yield* Effect.gen(function* () {
      const safe = yield* StoredMask.forExport
      return safe(yield* RunRecord.RunRecord.use((record) => Stream.runCollect(record.read())))
    }).pipe(Effect.provide(SessionStore.layerSqlite({ path })))
    events.push(...live.close())
    assert.deepStrictEqual(AtofRuns.toEvents(stored, agent), events, "live and stored")
    const sorted = events.toSorted((a, b) =>
      String(a.timestamp) < String(b.timestamp) ? -1 : String(a.timestamp) > String(b.timestamp) ? 1 : 0
    )
    assert.deepStrictEqual(events, sorted, "the order of time")
    assert.deepStrictEqual(Atof.check({ events: sorted, faults: [] }), [])
    assert.deepStrictEqual(refusals(sorted), [])
    const converted = AtifConvert.convert(sorted, { agentName: agent.name })
    assert.deepStrictEqual(converted.faults, [])
    const segments = converted.trajectories.filter(({ session_id: id }) => id === sessionId)
    const own = segments.at(-1)
    const firsts = sorted.flatMap((event) =>
      event.kind === "scope" &&
      event.category === "agent" &&
      event.scope_category === "start" &&
      event.parent_uuid === null &&
      event.data !== null &&
      event.metadata?.["session_id"] === sessionId
        ? [event.uuid]
        : []
    )
    // A segment begins with the first run after the session was given up.
    const given = stored
      .filter((entry) => entry.sessionId === sessionId)
      .findLastIndex(({ event }, index, all) => event._tag === "SessionEnded" && index < all.length - 1)
    const since =
      firsts.length < 2 ? undefined : stored.filter((entry) => entry.sessionId === sessionId)[given + 1]?.turnId
    const trajectory = FromRuns.buildTrajectory(tree, sessionId, {
      agentName: agent.name,
      agentVersion: agent.version,
      since
    })
    assert.isDefined(trajectory)
    assert.isDefined(own)
    if (trajectory === undefined || own === undefined) return yield* Effect.die("there are trajectories")
    for (const one of [trajectory, own]) {
      assert.deepStrictEqual(
        AtifCheck.check(JSON.parse(JSON.stringify(one))).filter(({ severity }) => severity === "error"),
        []
      )
    }
    assert.deepStrictEqual(substance(own), substance(withoutCopiedMetrics(trajectory)), "the stream and the tree")
    return { entries: stored, events: sorted, trajectory, converted: own, segments }
  })
