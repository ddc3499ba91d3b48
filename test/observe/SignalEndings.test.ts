// What the views of a run have when a signal ends the program, in the middle of whatever it does: the record ends first,
// then files and exports are completed, and only then is anything waited for that does not end.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { dirname } from "node:path"
import type * as Atif from "../../src/observe/Atif.ts"
import * as AtifCheck from "../../src/observe/AtifCheck.ts"
import * as Atof from "../../src/observe/Atof.ts"
import { machine, program, withoutSandbox } from "../support/hermes.ts"
import * as playedModel from "../support/playedModel.ts"
import { eventually } from "../support/waiting.ts"
import { collector, type Names, names } from "./support/collector.ts"

const works = (command: string, ...args: ReadonlyArray<string>): boolean => spawnSync(command, args).status === 0

const hasSandbox = works("bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true")
/** The program is process 1 of a namespace, as in a container without an init, and reads no exit codes of orphans. */
const alone = ["--pid", "--fork", "--mount-proc", "--kill-child"]
const hasNamespaces = works("unshare", ...alone, "true")

interface Scene {
  readonly signal: "SIGINT" | "SIGTERM" | "SIGHUP"
  readonly moment: "model" | "tool" | "stubborn tool" | "child" | "children" | "pair" | "plugin"
  readonly place?: "sandbox"
  readonly isAlone?: true
}

const scenes: ReadonlyArray<Scene> = [
  { signal: "SIGINT", moment: "model" },
  { signal: "SIGTERM", moment: "tool" },
  { signal: "SIGHUP", moment: "child" },
  { signal: "SIGINT", moment: "children" },
  { signal: "SIGINT", moment: "stubborn tool" },
  { signal: "SIGTERM", moment: "plugin" },
  { signal: "SIGTERM", moment: "model", isAlone: true },
  { signal: "SIGINT", moment: "tool", isAlone: true },
  { signal: "SIGHUP", moment: "stubborn tool", isAlone: true },
  { signal: "SIGTERM", moment: "child", isAlone: true },
  { signal: "SIGINT", moment: "tool", place: "sandbox" },
  { signal: "SIGTERM", moment: "child", place: "sandbox" },
  { signal: "SIGHUP", moment: "stubborn tool", place: "sandbox" },
  { signal: "SIGINT", moment: "tool", place: "sandbox", isAlone: true }
]

/** A tool of a plugin that nothing interrupts. */
const hangingPlugin = (started: string): string => `
import { writeFileSync } from "node:fs"
export const register = (ctx) => {
  ctx.registerMiddleware("tool_execution", (call, next) => {
    writeFileSync(${JSON.stringify(started)}, "")
    return next(call)
  })
  ctx.registerHook("on_session_end", () => new Promise(() => setInterval(() => {}, 1000)))
}`

const commands = (started: string): Readonly<Record<string, string>> => ({
  tool: `echo half; touch ${started}; sh -c 'sleep 60; true'; true`,
  "stubborn tool": `trap '' TERM; echo half; touch ${started}; while true; do sleep 1; done`
})

/** Steps of the model. The first word that the last message of a user contains decides. */
const playsOf = (started: string): Parameters<typeof playedModel.make>[0] => ({
  "(model)": [{ calls: [["terminal", { command: "echo one" }]] }, { text: "Half an answer", hangs: true }],
  "(child)": [{ calls: [["delegate_task", { goal: "(tool)" }]] }],
  "(children)": [{ calls: [["delegate_task", { tasks: [{ goal: "(model)" }, { goal: "(tool)" }] }]] }],
  "(pair)": [{ calls: [["delegate_task", { tasks: [{ goal: "(quick)" }, { goal: "(tool)" }] }]] }],
  "(quick)": [{ text: "at once" }],
  "(stubborn tool)": [{ calls: [["terminal", { command: commands(started)["stubborn tool"] }]] }],
  "(plugin)": [{ calls: [["terminal", { command: commands(started)["stubborn tool"] }]] }],
  "(tool)": [
    { calls: [["terminal", { command: "echo one" }]] },
    { calls: [["terminal", { command: commands(started)["tool"] }]] }
  ]
})

const end = (child: ChildProcess, { isAlone, signal }: Scene): void => {
  const inner =
    isAlone === true
      ? Number.parseInt(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8"), 10)
      : child.pid
  if (inner !== undefined) process.kill(inner, signal)
}

const openScopes = (events: ReadonlyArray<Atof.Event>): ReadonlyArray<string> => {
  const open = new Map<string, string>()
  for (const event of events) {
    if (event.kind !== "scope") continue
    if (event.scope_category === "start") open.set(event.uuid, event.name)
    else open.delete(event.uuid)
  }
  return Array.from(open.values())
}

const flatten = (names: Names): ReadonlyArray<string> => (typeof names === "string" ? [names] : names.flatMap(flatten))

/** Starts the program, and waits until it is where it is ended. */
const start = Effect.fnUntraced(function* (scene: Pick<Scene, "isAlone" | "moment" | "place">, url: string) {
  const { at, cwd, home, keep } = yield* machine
  const started = at("started")
  const model = yield* playedModel.make(playsOf(started))
  const plugins = ["observability/otel", "observability/trace", ...(scene.moment === "plugin" ? ["hanging"] : [])]
  keep("config.yaml", `plugins:\n  enabled: ${JSON.stringify(plugins)}\n`)
  keep("plugins/hanging/plugin.yaml", "name: hanging\n")
  keep("plugins/hanging/index.js", hangingPlugin(started))
  const command = [process.execPath, program, "chat", "-q", `Do it: (${scene.moment})`, "--yolo"]
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const [file = "", ...args] = scene.isAlone === true ? ["unshare", ...alone, ...command] : command
      return spawn(file, args, {
        cwd,
        stdio: "ignore",
        env: {
          PATH: process.env["PATH"],
          HOME: dirname(home),
          HERMES_HOME: home,
          TERM: "dumb",
          ...withoutSandbox,
          ...(scene.place === undefined ? {} : { HERMES_TERMINAL__BACKEND: scene.place }),
          HERMES_MODEL__PROVIDER: "custom",
          HERMES_MODEL__BASE_URL: `${model.url}/v1`,
          HERMES_MODEL__DEFAULT: "m",
          HERMES_MODEL__API_KEY: "k",
          OTEL_EXPORTER_OTLP_ENDPOINT: url,
          OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
          OTEL_METRICS_EXPORTER: "none",
          HERMES_NEMO_RELAY_ATOF_ENABLED: "1",
          HERMES_NEMO_RELAY_ATOF_OUTPUT_DIRECTORY: at("traces"),
          HERMES_NEMO_RELAY_ATIF_ENABLED: "1",
          HERMES_NEMO_RELAY_ATIF_OUTPUT_DIRECTORY: at("traces")
        }
      })
    }),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )
  const asked = { model: 2, children: 4 }[scene.moment as string] ?? 0
  yield* eventually(
    "the program is where it is ended",
    Effect.sync(() => model.seen.length >= asked && (scene.moment === "model" || existsSync(started)))
  )
  const ended = eventually(
    "the program ends",
    Effect.sync(() => child.exitCode !== null || child.signalCode !== null)
  )
  return {
    child,
    ended,
    events: () => Atof.parse(readFileSync(at("traces/hermes-atof.jsonl"), "utf8")),
    documents: () =>
      (existsSync(at("traces")) ? readdirSync(at("traces")) : [])
        .filter((name) => name.endsWith(".json"))
        .map((name): unknown => JSON.parse(readFileSync(at(`traces/${name}`), "utf8")))
  }
})

const play = Effect.fnUntraced(function* (scene: Scene) {
  const server = yield* collector()
  const { child, documents, ended, events } = yield* start(scene, server.url)
  end(child, scene)
  yield* ended
  return { code: child.exitCode, events: events(), documents: documents(), trees: server.trees().map(names) }
})

const codes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const

describe("a program that a signal ends", () => {
  for (const scene of scenes) {
    const { isAlone, moment, place, signal } = scene
    const reason =
      place === "sandbox" && !hasSandbox
        ? "bubblewrap does not work here"
        : isAlone === true && !hasNamespaces
          ? "process namespaces are not permitted here"
          : undefined
    const name =
      `by ${signal} in ${moment}${place === undefined ? "" : ` in the ${place}`}` +
      (isAlone === true ? ", as process 1" : "")
    it.live.skipIf(reason !== undefined)(`${name} leaves complete views`, () =>
      Effect.gen(function* () {
        const { code, documents, events, trees } = yield* play(scene)
        assert.strictEqual(code, codes[signal])
        assert.deepStrictEqual(events.faults, [])
        assert.deepStrictEqual(openScopes(events.events), [], "open scopes")
        assert.strictEqual(documents.length, 1)
        assert.deepStrictEqual(
          AtifCheck.check(documents[0]).filter(({ severity }) => severity === "error"),
          []
        )
        const trajectory = documents[0] as Atif.Trajectory
        assert.strictEqual(trajectory.extra?.["interrupted"], true)
        assert.strictEqual(trajectory.extra?.["unfinished"], undefined)
        assert.lengthOf(trees, 1, "roots")
        const spans = flatten(trees[0] ?? [])
        assert.strictEqual(spans[0], "invoke_agent hermes")
        if (moment !== "model") assert.include(spans, "execute_tool terminal")
        if (moment === "child" || moment === "children") {
          assert.lengthOf(trajectory.subagent_trajectories ?? [], moment === "child" ? 1 : 2)
          assert.include(spans, "execute_tool delegate_task")
        }
      })
    )
  }
})

const countAgentSteps = (document: unknown): number =>
  ((document as Atif.Trajectory | undefined)?.steps ?? []).filter(({ source }) => source === "agent").length

describe("a program that is killed", () => {
  it.live("leaves the steps so far, in a file that is marked as unfinished, and whole lines", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const { child, documents, ended, events } = yield* start({ moment: "tool" }, server.url)
      yield* eventually(
        "the file has the steps",
        Effect.sync(() => countAgentSteps(documents()[0]) === 2)
      )
      child.kill("SIGKILL")
      yield* ended
      const [document] = documents()
      assert.deepStrictEqual(
        AtifCheck.check(document).filter(({ severity }) => severity === "error"),
        []
      )
      const { extra, steps } = document as Atif.Trajectory
      assert.strictEqual(extra?.["unfinished"], true)
      assert.deepStrictEqual(
        steps.map(({ observation, source, tool_calls: calls }) => [source, calls?.length, observation?.results.length]),
        [
          ["system", undefined, undefined],
          ["user", undefined, undefined],
          ["agent", 1, 1],
          ["agent", 1, undefined]
        ]
      )
      assert.deepStrictEqual(events().faults, [])
    })
  )
})

describe("the stream of a run that continues", () => {
  it.live("shows the model call that is waited for", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const { events } = yield* start({ moment: "model" }, server.url)
      yield* eventually(
        "the stream has the open call",
        Effect.sync(() => openScopes(events().events).includes("custom"))
      )
    })
  )

  it.live("shows the end of a child while its sibling works, in the order of time", () =>
    Effect.gen(function* () {
      const server = yield* collector()
      const { child, ended, events } = yield* start({ moment: "pair" }, server.url)
      yield* eventually(
        "the stream has the end of the child",
        Effect.sync(() => events().events.some(({ name }) => name === "hermes.subagent.stop"))
      )
      child.kill("SIGINT")
      yield* ended
      const times = events().events.map(({ timestamp }) => String(timestamp))
      assert.deepStrictEqual(times, times.toSorted())
      assert.strictEqual(new Set(times).size, times.length, "each event has its own instant")
    })
  )
})
