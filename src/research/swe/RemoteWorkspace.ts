/**
 * The workspace in which commands of a task run. Commands on this machine, or in a container that mounts the workspace,
 * use the workspace itself. Commands on a remote machine use a copy. The copy is copied back before the patch is made,
 * and is removed when the scope closes.
 *
 * **Gotchas**
 *
 * A remote machine needs `tar` and `mktemp`. Files, links and modes are copied back, but owners are not.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { CommandEnvironment } from "../../places/CommandEnvironment.ts"
import * as TrustedPrograms from "../../base/platform/TrustedPrograms.ts"
import * as BoundedCommand from "./BoundedCommand.ts"
import * as WorkingCopy from "./WorkingCopy.ts"

/** A workspace as seen by commands in its environment, with the transfers to and from a remote machine. */
export interface PlacedWorkspace {
  /** Working directory of commands in the environment. */
  readonly cwd: string
  /** True if the workspace is a copy on a remote machine. */
  readonly isRemote: boolean
  /** Copies the workspace from this machine to the remote machine. */
  readonly send: Effect.Effect<void, WorkingCopy.WorkspaceError, WorkingCopy.Needs>
  /** Copies the workspace from the remote machine to this machine. */
  readonly collect: Effect.Effect<void, WorkingCopy.WorkspaceError, WorkingCopy.Needs>
}

/** Time limit for making or removing the copy, in seconds. */
const seconds = 60

const makeProblem = (message: string) =>
  new WorkingCopy.WorkspaceError({
    message: `the workspace could not be copied to or from the other machine: ${message}`
  })

type Spawner = ChildProcessSpawner["Service"]

/** Copies a directory between machines. One spawner packs the directory, and the other unpacks it. */
const copyDirectory = Effect.fnUntraced(
  function* (
    from: {
      readonly spawner: Spawner
      readonly tar: string
      readonly directory: string
      readonly arguments?: ReadonlyArray<string>
    },
    to: { readonly spawner: Spawner; readonly tar: string; readonly directory: string }
  ) {
    const packing = from.spawner.spawn(
      ChildProcess.make(from.tar, ["-C", from.directory, ...(from.arguments ?? []), "-cf", "-", "."], {
        stdin: "ignore",
        stderr: "ignore",
        cwd: "/"
      })
    )
    const unpacking = yield* to.spawner.spawn(
      ChildProcess.make(to.tar, ["-C", to.directory, "--no-same-owner", "-xf", "-"], {
        stdin: Stream.unwrap(Effect.map(packing, ({ stdout }) => stdout)),
        cwd: "/"
      })
    )
    const [errors, code] = yield* Effect.all(
      [Stream.mkString(Stream.decodeText(unpacking.stderr)), unpacking.exitCode],
      { concurrency: 2 }
    )
    if (Number(code) !== 0)
      return yield* makeProblem(errors.trim().split("\n").at(-1) ?? `tar ended with exit code ${Number(code)}`)
  },
  Effect.scoped,
  Effect.catchTag("PlatformError", ({ message }) => Effect.fail(makeProblem(message)))
)

const placeRemotely = Effect.fnUntraced(function* (
  workspace: WorkingCopy.WorkingCopy,
  prefix: string
): Effect.fn.Return<PlacedWorkspace, WorkingCopy.WorkspaceError, CommandEnvironment | Scope.Scope | WorkingCopy.Needs> {
  const environment = yield* CommandEnvironment
  const here = yield* ChildProcessSpawner
  const runRemotely = (command: string) =>
    Effect.mapError(BoundedCommand.run({ command, cwd: "/", timeoutSeconds: seconds }), ({ message }) =>
      makeProblem(message)
    ).pipe(Effect.provideService(CommandEnvironment, environment))
  const made = yield* runRemotely('mktemp -d "${TMPDIR:-/tmp}/hermes-swe-XXXXXXXX"')
  const directory = made.output.trim().split("\n").at(-1) ?? ""
  if (made.exitCode !== 0 || !/^\/.*\/hermes-swe-\w+$/.test(directory))
    return yield* makeProblem(directory === "" ? "mktemp gave no directory" : directory)
  yield* Effect.addFinalizer(() =>
    Effect.catch(runRemotely(`rm -rf '${directory.replaceAll("'", "'\\''")}'`), ({ message }) =>
      Effect.logWarning(`${directory} remains on the machine of the commands: ${message}`)
    )
  )
  const tar = yield* Effect.mapError(TrustedPrograms.find("tar"), () =>
    makeProblem("`tar` is not installed: install it")
  )
  // The remote machine uses its own `tar` program.
  const there = { spawner: environment.spawner, tar: "tar", directory }
  const send = copyDirectory({ spawner: here, tar, directory: workspace.directory }, there)
  yield* send
  const collect = Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    // The local files are removed first, so that files removed on the remote machine do not remain.
    const names = yield* Effect.mapError(fs.readDirectory(workspace.directory), ({ message }) => makeProblem(message))
    yield* Effect.forEach(
      names.filter((name) => name !== ".git"),
      (name) =>
        Effect.mapError(fs.remove(paths.join(workspace.directory, name), { recursive: true }), ({ message }) =>
          makeProblem(message)
        ),
      { discard: true }
    )
    yield* copyDirectory(
      { ...there, arguments: ["--exclude=./.git"] },
      { spawner: here, tar, directory: workspace.directory }
    )
  })
  return { cwd: prefix === "" ? directory : `${directory}/${prefix}`, isRemote: true, send, collect }
})

/** Makes a workspace available to commands in an environment. */
export const place = Effect.fn("RemoteWorkspace.place")(function* (
  workspace: WorkingCopy.WorkingCopy,
  prefix: string
): Effect.fn.Return<PlacedWorkspace, WorkingCopy.WorkspaceError, CommandEnvironment | Scope.Scope | WorkingCopy.Needs> {
  const fs = yield* FileSystem.FileSystem
  const { name } = yield* CommandEnvironment
  const below = `${workspace.directory}/${prefix}`
  // If the directory does not exist in the base commit, the root of the workspace is used instead.
  const isThere = prefix !== "" && (yield* Effect.orElseSucceed(fs.exists(below), () => false))
  if (name === "ssh") return yield* placeRemotely(workspace, isThere ? prefix : "")
  return { cwd: isThere ? below : workspace.directory, isRemote: false, send: Effect.void, collect: Effect.void }
})
