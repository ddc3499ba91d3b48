/**
 * The background processes of a runtime. They belong to its scope, not to the turn that started them: closing the
 * registry terminates all their process trees.
 *
 * **Details**
 *
 * The output of an ended process remains readable, for the last {@link maxFinished} processes and for at most
 * {@link keptMillis}. A session sees its own processes. It can also use the full id of another session's process, so
 * that an agent can pass a process to a delegate, but not the process of another tenant.
 *
 * **Example** (The processes of a session)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { CommandEnvironment, Ids } from "hermes-effect"
 * import { ProcessEvents, ProcessRegistry } from "hermes-effect/tools/terminal"
 *
 * const session = Ids.SessionId.make("s1")
 *
 * const program = Effect.gen(function*() {
 *   const { list, start } = yield* ProcessRegistry.ProcessRegistry
 *   const server = yield* start({
 *     command: "sleep 60",
 *     cwd: "/",
 *     sessionId: session,
 *     taskId: Ids.TaskId.make("t1"),
 *     notifyOnComplete: false,
 *     watchPatterns: []
 *   })
 *   const running = yield* list(session)
 *   yield* server.kill
 *   return running.map(({ options }) => options.command)
 * })
 *
 * const processes = ProcessRegistry.layer.pipe(
 *   Layer.provide([ProcessEvents.layer, CommandEnvironment.layerLocal]),
 *   Layer.provide(NodeServices.layer)
 * )
 *
 * console.log(await Effect.runPromise(Effect.provide(program, processes)))
 * // => [ 'sleep 60' ]
 * ```
 *
 * Source: `hermes-product.md` §2.3.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Ids from "../../../base/domain/Ids.ts"
import { CommandEnvironment, provide } from "../../../places/CommandEnvironment.ts"
import { CurrentTenant } from "../../../store/TenantScope.ts"
import * as BackgroundProcess from "./BackgroundProcess.ts"
import { ProcessEvents, type Service as Events } from "./ProcessEvents.ts"
import * as Shell from "./Shell.ts"

/** Maximum number of processes that run at the same time. */
export const maxRunning = 64
/** Maximum number of ended processes that remain in the registry. */
export const maxFinished = 64
/** Time for which an ended process remains in the registry, in milliseconds. */
export const keptMillis = 7 * 24 * 60 * 60 * 1000

/** Error raised when no process has the given id, or when the id prefix is ambiguous. */
export class ProcessNotFound extends Schema.TaggedError<ProcessNotFound>("hermes-effect/terminal/ProcessNotFound")(
  "ProcessNotFound",
  { id: Schema.String, candidates: Schema.Array(Schema.String) }
) {
  override get message(): string {
    return this.candidates.length === 0
      ? `no process "${this.id}": see process(action="list") for those of this session`
      : `"${this.id}" is not unique: ${this.candidates.join(", ")}`
  }
}

/** The background processes of a runtime. */
export interface Service {
  readonly start: (
    options: BackgroundProcess.Options
  ) => Effect.Effect<BackgroundProcess.BackgroundProcess, Shell.NotStarted>
  /** Starts a process outside the sandbox, for a command that the user permits; `undefined` without a sandbox. */
  readonly startOutside?: Service["start"] | undefined
  /** Returns the processes of a session, oldest first. */
  readonly list: (sessionId: Ids.SessionId) => Effect.Effect<ReadonlyArray<BackgroundProcess.BackgroundProcess>>
  /** Finds a process by its id, or by an id prefix that is unique in the session. */
  readonly find: (
    id: string,
    sessionId: Ids.SessionId
  ) => Effect.Effect<BackgroundProcess.BackgroundProcess, ProcessNotFound>
}

/** The background processes of a runtime. */
export class ProcessRegistry extends Context.Service<ProcessRegistry, Service>()(
  "hermes-effect/tool/builtin/ProcessRegistry"
) {}

type Publish = Events["publish"]

/** The tenants that started processes. */
const makeOwners = () => {
  const tenants = new WeakMap<BackgroundProcess.BackgroundProcess, string | undefined>()
  return {
    /** Returns a test of the processes that exist for the fiber: in the work for a tenant, only its processes. */
    selectOwn: Effect.map(
      CurrentTenant,
      (tenant) => (process: BackgroundProcess.BackgroundProcess) =>
        tenant === undefined || tenants.get(process) === tenant
    ),
    recordOwner: (process: BackgroundProcess.BackgroundProcess) =>
      Effect.map(CurrentTenant, (tenant) => void tenants.set(process, tenant))
  }
}

/** Creates a registry that ends with the scope. */
export const make: Effect.Effect<
  Service,
  never,
  Scope.Scope | ProcessEvents | CommandEnvironment | FileSystem.FileSystem
> = Effect.gen(function* () {
  const shell = yield* provide(Shell.make)
  const environment = yield* CommandEnvironment
  const outer = yield* Shell.makeOutside(environment)
  const { publish } = yield* ProcessEvents
  const publishExplained: Publish = (event) => {
    const isFailure = event._tag === "ProcessCompleted" && event.reason === "exited" && event.exitCode !== 0
    const stopped = isFailure ? environment.explain(event.output, []) : undefined
    return publish(isFailure && stopped !== undefined ? { ...event, stoppedBy: stopped.reason } : event)
  }
  // Processes that are slow to end must not delay the termination of other processes.
  const scope = yield* Effect.acquireRelease(Scope.make("parallel"), Scope.close)
  const processes = new Map<string, BackgroundProcess.BackgroundProcess>()
  const owners = makeOwners()
  let starting = 0

  const forgetOld = Effect.map(Clock.currentTimeMillis, (now) => {
    const finished = Array.from(processes.values())
      .flatMap((process) => {
        const endedAt = process.ended()?.endedAt
        return endedAt === undefined ? [] : [{ id: process.id, endedAt }]
      })
      .sort((a, b) => b.endedAt - a.endedAt)
    for (const [index, { endedAt, id }] of finished.entries()) {
      if (index >= maxFinished || now - endedAt > keptMillis) processes.delete(id)
    }
  })

  const list: Service["list"] = (sessionId) =>
    Effect.map(Effect.andThen(forgetOld, owners.selectOwn), (isOwn) =>
      Array.from(processes.values()).filter((process) => process.options.sessionId === sessionId && isOwn(process))
    )

  // A started process is registered even if the fiber that requested it is interrupted.
  const makeStarter =
    (shell: Shell.Shell, publish: Publish): Service["start"] =>
    (options) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          yield* forgetOld
          const running = Array.from(processes.values()).filter((process) => process.ended() === undefined)
          if (running.length + starting >= maxRunning) {
            return yield* new Shell.NotStarted({
              message: `${maxRunning} background processes are running already: end one with process(action="kill")`
            })
          }
          const id = `proc_${yield* Ids.makeHex(12)}`
          const interruptible: Shell.Shell = { ...shell, start: (command) => restore(shell.start(command)) }
          starting++
          return yield* BackgroundProcess.start(interruptible, publish, scope, id, options).pipe(
            Effect.tap((process) => Effect.sync(() => processes.set(id, process))),
            Effect.tap(owners.recordOwner),
            Effect.ensuring(Effect.sync(() => starting--))
          )
        })
      )

  return {
    list,
    start: makeStarter(shell, publishExplained),
    startOutside: outer === undefined ? undefined : makeStarter(outer, publish),
    find: Effect.fnUntraced(function* (id, sessionId) {
      const own = yield* list(sessionId)
      const exact = processes.get(id)
      if (exact !== undefined && (yield* owners.selectOwn)(exact)) return exact
      const found = id === "" ? [] : own.filter((process) => process.id.startsWith(id))
      const [only] = found
      return only === undefined || found.length > 1
        ? yield* new ProcessNotFound({ id, candidates: found.map((process) => process.id) })
        : only
    })
  }
})

/** Provides a registry for processes of the environment. Its processes end with the registry. */
export const layer: Layer.Layer<ProcessRegistry, never, ProcessEvents | CommandEnvironment | FileSystem.FileSystem> =
  Layer.effect(ProcessRegistry, make)
