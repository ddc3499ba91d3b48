/**
 * Software engineering tasks of `hermes swe run --cluster`: a runner makes the workspace, runs the agent of the
 * submission in it, and evaluates the patch.
 *
 * Repositories and task folders are read on the runner, at the same paths as on the submitting machine: on a shared
 * file system, or in clones. A task whose runner dies begins again in a new workspace and a new session, because its
 * files were on that runner.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Schema from "effect/Schema"
import type { Scope } from "effect/Scope"
import { Agent } from "../../agent/Agent.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as PostgresLeases from "../../base/platform/PostgresLeases.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as BatchRow from "../../research/batch/BatchRow.ts"
import * as RowPool from "../../research/batch/RowPool.ts"
import type * as SwePool from "../../research/swe/SwePool.ts"
import * as SweRun from "../../research/swe/SweRun.ts"
import * as SweTask from "../../research/swe/SweTask.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import type { RowKind, RowServices, RowStart } from "./ClusterRows.ts"
import type { RowSubmitter } from "./ClusterSubmission.ts"
import * as RunnerRuntime from "./RunnerRuntime.ts"

/** Kind of the requests for software engineering tasks. */
export const kind = "swe task"

const version = 1

const Expected = Schema.Struct({ failToPass: Schema.Array(Schema.String), passToPass: Schema.Array(Schema.String) })

const Task = Schema.Struct({
  id: Schema.String,
  digest: Schema.String,
  instruction: Schema.String,
  source: Schema.Union([
    Schema.Struct({ _tag: Schema.Literal("Commit"), repository: Schema.String, commit: Schema.String }),
    Schema.Struct({
      _tag: Schema.Literal("Directory"),
      path: Schema.String,
      without: Schema.optionalKey(Schema.Array(Schema.String))
    }),
    Schema.Struct({ _tag: Schema.Literal("Empty") })
  ]),
  prefix: Schema.String,
  image: Schema.optionalKey(Schema.String),
  build: Schema.optionalKey(
    Schema.Struct({
      directory: Schema.String,
      without: Schema.Array(Schema.String),
      seconds: Schema.Finite,
      workdir: Schema.String
    })
  ),
  setup: Schema.optionalKey(Schema.String),
  agentSeconds: Schema.optionalKey(Schema.Finite),
  check: Schema.optionalKey(
    Schema.Struct({
      command: Schema.String,
      timeoutSeconds: Schema.Finite,
      testPatch: Schema.optionalKey(Schema.String),
      expected: Expected,
      folder: Schema.optionalKey(Schema.Struct({ path: Schema.String, workdir: Schema.String }))
    })
  )
})

const Input = Schema.Struct({
  task: Task,
  maxIterations: Schema.Int,
  setupSeconds: Schema.Finite,
  budget: Schema.optionalKey(
    Schema.Struct({ tokens: Schema.optionalKey(Schema.Int), dollars: Schema.optionalKey(Schema.Finite) })
  ),
  seed: Schema.optionalKey(Schema.Int),
  /** Paths in which a solution could be found, of all tasks of the submission. */
  withheld: Schema.Array(Schema.String)
})
type Input = typeof Input.Type

const toTask = ({ check, ...task }: Input["task"]): SweTask.SweTask => ({
  ...task,
  image: task.image,
  setup: task.setup,
  agentSeconds: task.agentSeconds,
  check: check === undefined ? undefined : { ...check, testPatch: check.testPatch, folder: check.folder }
})

/** Fails if this machine does not have the files of a task. */
const requireFiles = Effect.fnUntraced(function* ({ build, check, source }: SweTask.SweTask) {
  const fs = yield* FileSystem.FileSystem
  const needed = [
    ...(source._tag === "Commit" ? [source.repository] : source._tag === "Directory" ? [source.path] : []),
    ...(check?.folder === undefined ? [] : [check.folder.path]),
    ...(build === undefined ? [] : [build.directory])
  ]
  for (const path of needed) {
    if (!(yield* Effect.orElseSucceed(fs.exists(path), () => false)))
      return yield* new BatchRow.RowRefused({
        message: `runner on ${PostgresLeases.hostOfProcess()}: ${path} does not exist here: share it with the runners`
      })
  }
})

/** Makes the service that opens the runtime of a task. A task that names an image gets a separate one. */
const makeRuntimes = Effect.fnUntraced(function* ({ withheld }: Input, { open, opened }: RowStart) {
  const context = yield* Effect.context<RowServices | Scope>()
  const { backend, dockerBinary } = opened.settings.terminal
  const openImage = Effect.fnUntraced(function* (image: string | undefined) {
    const { services, settings } =
      image === undefined ? opened : yield* open({ setup: "workspaces", hide: withheld, image })
    const runtime: SweRun.Runtime = {
      agent: Context.get(services, Agent),
      store: Context.get(services, SessionStore),
      registry: Context.get(services, ToolRegistry),
      environment: yield* RunnerRuntime.openEnvironment(settings)
    }
    return runtime
  })
  const openTask = Effect.fnUntraced(function* ({ build, image }: Pick<SweTask.SweTask, "build" | "image">) {
    if (backend !== "docker") return yield* openImage(undefined)
    if (build === undefined) return yield* openImage(image)
    const ImageBuild = yield* Effect.promise(() => import("../../places/ImageBuild.ts"))
    const built = yield* ImageBuild.build(dockerBinary, build)
    const path = yield* ImageBuild.extractContents(dockerBinary, built, build.workdir)
    return { ...(yield* openImage(built)), source: { _tag: "Directory" as const, path } }
  })
  return SweRun.SweRuntime.of({
    open: (task): Effect.Effect<SweRun.Runtime, ConfigError, Scope> =>
      openTask(task).pipe(Effect.provideContext(Context.omit(Agent)(context)), Effect.provideContext(context))
  })
})

/** Software engineering tasks. */
export const rowKind: RowKind<Input> = {
  kind,
  versions: [version],
  getRuntime: ({ withheld }) => ({ setup: "workspaces", hide: withheld }),
  decode: Schema.decodeUnknownEffect(Input),
  run: Effect.fnUntraced(function* (input, start) {
    const { budget, maxIterations, seed, setupSeconds } = input
    const task = toTask(input.task)
    yield* requireFiles(task)
    const settings: SweRun.Settings = {
      maxIterations,
      budget,
      setupSeconds,
      getSeed: seed === undefined ? undefined : () => seed,
      approvals: start.opened.settings.approvals.unattendedMode,
      sessionId: start.goesOn ? undefined : start.sessionId
    }
    const { costUsd, fields, usage } = yield* SweRun.run(task, settings, start.keepWork).pipe(
      Effect.provideService(SweRun.SweRuntime, yield* makeRuntimes(input, start))
    )
    return RowPool.makeFinishedResult(fields, { tokens: Usage.countTotalTokens(usage), costUsd })
  })
}

/** Creates the function that submits the attempts at tasks. */
export const makeTaskRunner = (
  { prefix, submit }: RowSubmitter,
  tasks: ReadonlyArray<SweTask.SweTask>
): NonNullable<SwePool.Options["elsewhere"]> => {
  const withheld = SweTask.listWithheldPaths(tasks)
  return ({ id, number: run, task }, { budget, getSeed, maxIterations, setupSeconds }, { number }) =>
    Effect.gen(function* () {
      const name = `${BatchRow.formatRowName(task)}.${run}`
      const seed = getSeed?.({ id })
      return yield* submit({
        name,
        attempt: number,
        version,
        sessionId: `${yield* prefix}-${name}-${number}`,
        // Members without a value are left out of the JSON text.
        input: { task, maxIterations, setupSeconds, budget, seed, withheld }
      })
    })
}

/** Service for a process that submits tasks and runs none itself. Opening a runtime is a defect. */
export const noRuntime = SweRun.SweRuntime.of({
  open: () => Effect.die(new Error("tasks of --cluster run on the runners"))
})
