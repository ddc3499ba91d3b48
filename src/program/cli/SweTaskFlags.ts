/** Flags shared by `hermes swe run` and `hermes swe evaluate`: the tasks and their settings. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type * as Config from "../../base/config/Config.ts"
import type { Values } from "../../base/config/Settings.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import type * as Dataset from "../../research/batch/Dataset.ts"
import * as SweTask from "../../research/swe/SweTask.ts"
import * as TaskFolder from "../../research/swe/TaskFolder.ts"
import * as WorkingCopy from "../../research/swe/WorkingCopy.ts"
import { makeUsageFailure } from "./Failure.ts"
import { printNote } from "./ProgramOutput.ts"
import * as RunnerCommand from "./RunnerCommand.ts"
import type { TaskFlags } from "./SweCommand.ts"

/** Default time limit of a setup or an evaluation, in seconds. */
export const defaultSeconds = 600
/** Maximum number of unusable tasks reported individually. */
const shownProblems = 20

/** Converts the flags of a command to settings. */
export const toSettingsFlags = ({
  apiKey,
  env,
  image
}: TaskFlags & { readonly apiKey?: string | undefined }): ReadonlyArray<Config.Flag> => [
  { name: "--env", key: "terminal.backend", value: env },
  { name: "--image", key: "terminal.docker_image", value: image },
  { name: "--api-key", key: "model.api_key", value: apiKey }
]

const readDefaults = Effect.fnUntraced(function* (flags: TaskFlags, { terminal: { backend } }: Values) {
  yield* RunnerCommand.checkCounts({ workers: flags.workers, limit: flags.limit, "eval-timeout": flags.evalTimeout })
  const paths = yield* Path.Path
  const fs = yield* FileSystem.FileSystem
  const toAbsolute = (path: string | undefined) =>
    path === undefined ? undefined : paths.resolve(getWorkingDirectory(), path)
  for (const [name, path] of [
    ["--cwd", toAbsolute(flags.cwd)],
    ["--repos", toAbsolute(flags.repos)]
  ] as const) {
    const isThere =
      path === undefined ||
      (yield* Effect.orElseSucceed(
        Effect.map(fs.stat(path), ({ type }) => type === "Directory"),
        () => false
      ))
    if (!isThere) return yield* makeUsageFailure(`${name} ${path} is not a directory`)
  }
  return {
    cwd: toAbsolute(flags.cwd),
    workspace: flags.workspace ?? "clone",
    repositories: toAbsolute(flags.repos),
    image: flags.image,
    inContainers: backend === "docker",
    setup: flags.setup,
    evaluation: flags.evalCommand,
    evaluationSeconds: flags.evalTimeout ?? defaultSeconds
  } satisfies SweTask.Defaults as SweTask.Defaults
})

/** Prints a note about the user's uncommitted files, which a workspace does not contain. */
const mentionUncommitted = Effect.fnUntraced(function* ({ source }: Pick<SweTask.SweTask, "source">) {
  if (source._tag !== "Commit" || source.commit !== "HEAD") return
  const isUncommitted = yield* Effect.orElseSucceed(WorkingCopy.hasUncommitted(source.repository), () => false)
  if (isUncommitted)
    yield* printNote(
      `${source.repository} has changes that are not committed; the workspace is its last commit. Pass ` +
        "--workspace copy to include them."
    )
})

/** Loads the tasks selected by the flags, and warns about tasks that cannot be run. */
export const loadTasks = Effect.fnUntraced(function* (
  flags: TaskFlags & { readonly task?: string | undefined },
  settings: Values
) {
  const defaults = yield* readDefaults(flags, settings)
  const { promptsFile, task } = flags
  if ((task === undefined) === (promptsFile === undefined)) {
    if (task !== undefined) return yield* makeUsageFailure("pass --task or --prompts-file, not both")
    return yield* makeUsageFailure(
      `pass the tasks with --prompts-file PATH${"task" in flags ? ", or one with --task TEXT" : ""}`
    )
  }
  if (task !== undefined) {
    const one = yield* SweTask.fromText(task, defaults)
    if (typeof one === "string") return yield* makeUsageFailure(one)
    yield* mentionUncommitted(one)
    return [one]
  }
  const path = promptsFile ?? ""
  const isFolder = yield* TaskFolder.isThere(path)
  const { problems, tasks } = yield* (isFolder ? TaskFolder.read(path, defaults) : SweTask.read(path, defaults)).pipe(
    Effect.mapError(({ message }: Dataset.DatasetError) => makeUsageFailure(message))
  )
  yield* RunnerCommand.printFirstWarnings(problems, shownProblems, (count) => `${count} more such problems`)
  if (tasks.length === 0) return yield* makeUsageFailure(`${path} has no task that can be run`)
  return tasks.slice(0, flags.limit)
})

/** Returns the settings with the tasks' withheld files hidden from commands. */
export const hideWithheldFiles = Effect.fnUntraced(function* (
  settings: Values,
  tasks: ReadonlyArray<SweTask.SweTask>,
  { promptsFile }: TaskFlags
) {
  const paths = yield* Path.Path
  const { sandbox } = settings.terminal
  const instances = promptsFile === undefined ? [] : [paths.resolve(getWorkingDirectory(), promptsFile)]
  return {
    ...settings,
    terminal: {
      ...settings.terminal,
      sandbox: { ...sandbox, hide: [...sandbox.hide, ...instances, ...SweTask.listWithheldPaths(tasks)] }
    }
  }
})
