// What exporters write while runs go on, and what is converted from the record afterwards, of sessions that several
// runtimes resume and of runs that are ended in a model call and in a tool.
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import { hash } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { Agent, Runtime, Scripted, SessionStore } from "../../src/index.ts"
import type * as Atif from "../../src/observe/Atif.ts"
import * as FromRuns from "../../src/observe/atif/FromRuns.ts"
import { toFields, toItems } from "../../src/observe/atif/Value.ts"
import * as AtifConvert from "../../src/observe/AtifConvert.ts"
import * as AtifWriter from "../../src/observe/AtifWriter.ts"
import * as Atof from "../../src/observe/Atof.ts"
import * as AtofRuns from "../../src/observe/atof/FromRuns.ts"
import * as TracePlugin from "../../src/observe/TracePlugin.ts"
import * as StoredRuns from "../../src/observe/StoredRuns.ts"
import { type Mode, type Move, picture, type Plan, type PlannedRun } from "../support/generatedPlans.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { exported, type Outcome, runPlan } from "../support/generatedRuns.ts"

/** Place at which a run is ended; `none` of a run that is left alone. */
type Place = "none" | "model" | "answer" | "tool" | "late tool"

const call = (id: string, name: string, args: object = { text: `text of ${id}` }) => ({
  id,
  name,
  args: JSON.stringify(args)
})
const say = (text: string, ...calls: ReadonlyArray<ReturnType<typeof call>>): Move => ({
  kind: "say",
  turn: { text, calls }
})

const movesOf = (place: Place, name: string): ReadonlyArray<Move> => {
  const before = say(`${name} looks`, call(`${name}_echo`, "echo"), call(`${name}_draws`, "draws"))
  switch (place) {
    case "none":
      return [
        before,
        say("", call(`${name}_task`, "delegate_task", { goal: `goal of ${name}` })),
        say(`${name} is done`)
      ]
    case "model":
      return [before, { kind: "hang", text: "" }]
    case "answer":
      return [before, { kind: "hang", text: `${name} begins to` }]
    case "tool":
      return [before, say("waiting", call(`${name}_echo2`, "echo"), call(`${name}_waits`, "waits"))]
    case "late tool":
      return [before, say("waiting", call(`${name}_lingers`, "lingers"))]
  }
}

const planOf = (mode: Mode, end: PlannedRun["end"], restarts: boolean, places: ReadonlyArray<Place>): Plan => ({
  seed: 1,
  mode,
  streaming: mode !== "anthropic_messages",
  runs: places.map((place, index) => ({
    prompt: [Prompt.textPart({ text: `prompt ${index}` }), Prompt.filePart({ mediaType: "image/gif", data: picture })],
    moves: movesOf(place, `run${index}`),
    maxIterations: 20,
    end,
    endsAt: undefined,
    title: index === 0 ? "title" : undefined,
    task: "title"
  })),
  withContext: true,
  rewritesRequests: false,
  rewritesArguments: true,
  addsMessages: false,
  approves: "once",
  routes: undefined,
  restarts,
  compacts: false,
  dies: undefined
})

const plans: ReadonlyArray<readonly [string, Plan]> = [
  ["resumed twice", planOf("scripted", "stop", true, ["none", "none", "none"])],
  ["stopped in a model call, resumed", planOf("scripted", "stop", true, ["model", "none"])],
  ["interrupted in a model call, resumed", planOf("chat_completions", "interrupt", true, ["none", "model", "none"])],
  ["stopped in an answer, resumed", planOf("anthropic_messages", "stop", true, ["answer", "none"])],
  ["interrupted in an answer", planOf("scripted", "interrupt", false, ["none", "answer", "none"])],
  ["stopped in a tool, resumed", planOf("scripted", "stop", true, ["none", "tool", "none"])],
  ["interrupted in a tool, resumed", planOf("chat_completions", "interrupt", true, ["tool", "tool", "none"])],
  ["interrupted in a tool", planOf("scripted", "interrupt", false, ["none", "tool", "none"])],
  ["interrupted in a tool that ends late, resumed", planOf("scripted", "interrupt", true, ["late tool", "none"])],
  ["interrupted in a tool that ends late", planOf("scripted", "interrupt", false, ["none", "late tool"])]
]

/** Without prototypes and members that are undefined. */
const plain = <A>(value: A): A => JSON.parse(JSON.stringify(value))

/** Files of the session, in order. */
const readSegments = ({ files, sessionId }: Outcome): ReadonlyArray<Atif.Trajectory> =>
  readdirSync(files)
    .filter((name) => name.startsWith(sessionId) && name.endsWith(".json"))
    .toSorted((a, b) => a.length - b.length || (a < b ? -1 : 1))
    .map((name) => JSON.parse(readFileSync(`${files}/${name}`, "utf8")))

const isCopied = ({ steps }: Atif.Trajectory): boolean => steps.every((step) => step.is_copied_context === true)

/** Text of content, with the note that stands for a picture where there are no files for it. */
const textOf = (content: Atif.Content | null | undefined): string | undefined =>
  typeof content === "object" && content !== null
    ? content
        .map((part) =>
          part.type === "text"
            ? part.text
            : `[${part.source.media_type}: ${picture.length} bytes that are not in this document]`
        )
        .join("\n")
    : (content ?? undefined)

const toMillis = (seconds: unknown): unknown => (typeof seconds === "number" ? Math.round(seconds * 1000) : undefined)

/**
 * Parts that a trajectory of a stream has in another form, and this is the whole list of them:
 *
 * - copied steps, of which a stream has only what requests repeat: their children and the numbers that count them;
 * - the reference to the next file, because a stream has no names of files;
 * - times, which a stream has in microseconds, and the ids of scopes, which the record lacks;
 * - pictures, which have a path only beside their document.
 */
const comparable = (one: Atif.Trajectory): unknown => {
  const { continued_trajectory_ref: _, final_metrics: sums, steps, subagent_trajectories: children, ...rest } = one
  const { extra: _scope, total_steps: _steps, ...totals } = sums ?? {}
  const withoutIds = (extra: Atif.Step["extra"]): unknown => {
    const { images: _images, invocation, ...others } = extra ?? {}
    if (typeof invocation !== "object" || invocation === null) return others
    const { end_timestamp: end, start_timestamp: start }: { readonly [name: string]: unknown } = { ...invocation }
    return { ...others, invocation: [toMillis(start), toMillis(end)] }
  }
  const withoutMicros = (_name: string, value: unknown): unknown =>
    typeof value === "string"
      ? value.replace(/^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})(?:\d{3}\+00:00|Z)$/u, "$1")
      : value
  const shown = steps
    .filter((step) => step.is_copied_context !== true)
    .map(({ extra, message, observation, step_id: _id, tool_calls: calls, ...others }) => ({
      ...others,
      message: textOf(message),
      extra: withoutIds(extra),
      calls: calls?.map((call) => ({ ...call, extra: withoutIds(call.extra) })),
      results: observation?.results.map((result) => ({
        ...result,
        content: textOf(result.content),
        extra: withoutIds(result.extra)
      }))
    }))
  const own = (children ?? []).filter((child) => !isCopied(child)).map(comparable)
  return JSON.parse(JSON.stringify({ ...rest, totals, steps: shown, children: own }, withoutMicros))
}

/** Steps of a document that are its own, without their numbers. */
const ownSteps = ({ steps }: Atif.Trajectory): ReadonlyArray<unknown> =>
  steps.filter((step) => step.is_copied_context !== true).map(({ step_id: _, ...step }) => step)

const childIds = ({ subagent_trajectories: children }: Atif.Trajectory): ReadonlyArray<string> =>
  (children ?? []).filter((child) => !isCopied(child)).map(({ trajectory_id: id }) => id ?? "")

const totalOf = (parts: ReadonlyArray<Atif.Trajectory>): number =>
  parts.reduce((sum, { final_metrics: metrics }) => sum + (metrics?.total_completion_tokens ?? 0), 0)

const digest = hash("sha256", picture)

/** Each message and result with a picture says in its metadata which it is, with the file beside the stream. */
const picturesAreDescribed = (files: string, events: ReadonlyArray<Atof.Event>): void => {
  const shown = events.filter(
    ({ data, metadata, name }) =>
      // The prompt of a child is its goal.
      (name === "hermes.turn.start" && metadata?.["parent_session_id"] === undefined) ||
      (name === "draws" && typeof data === "string" && data.includes("image/gif"))
  )
  assert.isNotEmpty(shown)
  const description = {
    media_type: "image/gif",
    size: picture.length,
    digest: `sha256:${digest}`,
    path: `images/${digest.slice(0, 32)}.gif`
  }
  for (const { metadata, name } of shown) assert.deepStrictEqual(metadata?.["images"], [description], name)
  assert.deepStrictEqual(Array.from(readFileSync(`${files}/${description.path}`)), Array.from(picture))
  assert.notInclude(JSON.stringify(events), Buffer.from(picture).toString("base64"))
}

const check = Effect.fnUntraced(function* (plan: Plan) {
  const outcome = yield* runPlan(plan)
  const { files, path, sessionId, sessions, stored } = outcome
  const stream = Atof.parse(readFileSync(`${files}/events.jsonl`, "utf8"))
  assert.deepStrictEqual([stream.faults, Atof.check(stream)], [[], []])
  assert.deepStrictEqual(
    stream.events,
    plain(Atof.sortByTime(AtofRuns.toEvents(stored, exported, AtifWriter.formatPictureName))),
    "the stream"
  )
  picturesAreDescribed(files, stream.events)
  const session = sessions.find(({ id }) => id === sessionId)
  if (session === undefined) return assert.fail("there is a session")
  const tree = yield* Effect.provide(StoredRuns.read(session), SessionStore.layerSqlite({ path }), { local: true })
  const whole = FromRuns.buildTrajectory(tree, sessionId, {
    agentName: exported.name,
    pictures: AtifWriter.formatPictureName
  })
  if (whole === undefined) return assert.fail("there is a trajectory")
  const segments = readSegments(outcome)
  assert.strictEqual(segments.length, plan.restarts ? plan.runs.length : 1)
  assert.deepStrictEqual(segments.flatMap(ownSteps), plain(ownSteps(whole)), "steps of all parts")
  assert.deepStrictEqual(segments.flatMap(childIds), childIds(whole), "children of all parts")
  assert.strictEqual(totalOf(segments), totalOf([whole]), "sums of all parts")
  const { faults, trajectories } = AtifConvert.convert(stream.events)
  assert.deepStrictEqual(faults, [])
  assert.deepStrictEqual(trajectories.map(comparable), segments.map(comparable), "trajectories of the stream")
}, Effect.scoped)

describe("files of live runs and of the record", () => {
  for (const [name, plan] of plans) it.live(`${name}: tell the same`, () => check(plan))

  it.live("name a picture beside the trajectories, from where the stream is", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      yield* Effect.provide(
        Agent.run({ prompt: [Prompt.filePart({ mediaType: "image/gif", data: picture })], sessionId: "s" }),
        Runtime.layer({
          provider: Scripted.layer([Scripted.complete("a picture")]),
          plugins: [
            TracePlugin.make({
              agent: exported,
              atof: { directory: `${directory}/events`, filename: "events.jsonl", mode: "append" },
              atif: {
                directory: `${directory}/trajectories`,
                filenameTemplate: "{session_id}.json",
                subagents: "embedded"
              }
            })
          ]
        }),
        { local: true }
      )
      const { events } = Atof.parse(readFileSync(`${directory}/events/events.jsonl`, "utf8"))
      const [image] = toItems(events.find(({ name }) => name === "hermes.turn.start")?.metadata?.["images"])
      const path = `../trajectories/images/${digest.slice(0, 32)}.gif`
      assert.strictEqual(toFields(image)["path"], path)
      assert.deepStrictEqual(Array.from(readFileSync(`${directory}/events/${path}`)), Array.from(picture))
    })
  )
})
