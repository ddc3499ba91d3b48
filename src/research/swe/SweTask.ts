/**
 * Software engineering tasks: a task from the command line, rows of a prompts file, SWE-bench instances with local
 * repositories, and task folders (`TaskFolder`).
 *
 * **Details**
 *
 * A row describes its task in `problem_statement`, `prompt` or `task`. `repo` with `base_commit` selects a repository
 * at a commit, and `cwd` selects a directory. If both are absent, the directory given on the command line or an empty
 * directory is used. Paths are relative to the file that contains them. If `repo` is a name (`owner/name`), the
 * repository is searched for in the configured directory of repositories, as `owner__name`, `owner/name` or `name`.
 *
 * The evaluation runs a command (`eval_command`, `test_command`) after applying `test_patch`. `FAIL_TO_PASS` and
 * `PASS_TO_PASS` name the tests, as lists or as lists in JSON strings. `setup` runs before the agent and before the
 * evaluation.
 *
 * **Example** (Reading instances whose clones are in one directory)
 *
 * ```ts
 * import { SweTask } from "hermes-effect/swe"
 *
 * export const tasks = SweTask.read("instances.jsonl", {
 *   cwd: undefined,
 *   workspace: "clone",
 *   repositories: "/home/ada/clones",
 *   image: undefined,
 *   setup: "npm ci",
 *   evaluation: "npm test",
 *   evaluationSeconds: 600
 * })
 * ```
 *
 * Source: `hermes-product.md` §5.3.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Json from "../../base/domain/Json.ts"
import type * as ImageBuild from "../../places/ImageBuild.ts"
import type { Row } from "../batch/Dataset.ts"
import * as Dataset from "../batch/Dataset.ts"
import type { Expected } from "./TestReport.ts"
import * as WorkingCopy from "./WorkingCopy.ts"

/** Evaluation settings of a task. */
export interface Check {
  readonly command: string
  readonly timeoutSeconds: number
  /**
   * Patch to apply before the command runs. First the files that the patch changes are restored from the base commit.
   */
  readonly testPatch: string | undefined
  readonly expected: Expected
  /**
   * A folder with test files that are copied into the workspace after the agent has ended. If present, the command runs
   * in the agent's workspace.
   */
  readonly folder: TestFolder | undefined
}

/** Test files of a task folder. */
export interface TestFolder {
  readonly path: string
  /**
   * Absolute path of the task's directory in its container. It is replaced with the path of the workspace directory.
   */
  readonly workdir: string
}

/** A task. */
export interface SweTask {
  readonly id: string
  /** Digest of the task's content, which distinguishes it from a changed task with the same id. */
  readonly digest: string
  readonly instruction: string
  readonly source: WorkingCopy.Source
  /** Directory below the root of the workspace in which the agent starts. */
  readonly prefix: string
  readonly image: string | undefined
  /**
   * Dockerfile of the task's image, which is built if commands run in containers. `workdir` is the directory in the
   * image that corresponds to the workspace.
   */
  readonly build?: (ImageBuild.Build & { readonly workdir: string }) | undefined
  readonly setup: string | undefined
  /** Time limit of the agent in seconds. `undefined` if no limit applies. */
  readonly agentSeconds: number | undefined
  readonly check: Check | undefined
}

/** Default values for fields that a task omits. Paths are absolute. */
export interface Defaults {
  readonly cwd: string | undefined
  /**
   * Kind of workspace. `clone` checks out the current commit if the directory belongs to a repository. `copy` copies
   * the directory in its current state.
   */
  readonly workspace: "clone" | "copy"
  readonly repositories: string | undefined
  readonly image: string | undefined
  /** True if commands run in containers, so that the images of task folders have to be built. Defaults to false. */
  readonly inContainers?: boolean | undefined
  readonly setup: string | undefined
  readonly evaluation: string | undefined
  readonly evaluationSeconds: number
}

/** Tasks that can be run, and messages about tasks that cannot be run. */
export interface Tasks {
  readonly tasks: ReadonlyArray<SweTask>
  readonly problems: ReadonlyArray<string>
}

/** Parses the test names of a field: a list, or a list in a JSON string. */
const parseTestNames = (value: unknown): ReadonlyArray<string> => {
  const list = typeof value === "string" ? Option.getOrUndefined(Json.parse(value)) : value
  return Json.readItems(list).filter((name): name is string => typeof name === "string")
}

const findText = (fields: Json.Fields, names: ReadonlyArray<string>): string | undefined =>
  names.map((name) => Json.readString(fields[name])).find((value) => value !== undefined && value.trim() !== "")

const toSeconds = (value: unknown): number | undefined => (typeof value === "number" && value > 0 ? value : undefined)

/**
 * Returns the workspace source of a directory: the current commit of the repository that contains it, or a copy of the
 * directory.
 */
export const resolveSource = Effect.fnUntraced(function* (directory: string, workspace: Defaults["workspace"]) {
  const repository = workspace === "copy" ? undefined : yield* WorkingCopy.findRepository(directory)
  if (repository === undefined) return { source: { _tag: "Directory", path: directory } as const, prefix: "" }
  const source = { _tag: "Commit", repository: repository.root, commit: "HEAD" } as const
  return { source, prefix: repository.prefix }
})

/** Finds the directory of a repository that a task names. */
const findRepository = Effect.fnUntraced(function* (name: string, base: string, repositories: string | undefined) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const places = [
    paths.resolve(base, name),
    ...(repositories === undefined
      ? []
      : [name.replace("/", "__"), name, paths.basename(name)].map((below) => paths.join(repositories, below)))
  ]
  for (const place of places) {
    if (yield* Effect.orElseSucceed(fs.exists(place), () => false)) return place
  }
  return undefined
})

/** Returns the workspace that a row names, or a string with the reason why it cannot be determined. */
const findWorkspace = Effect.fnUntraced(function* (
  fields: Json.Fields,
  base: string,
  { cwd, repositories, workspace }: Defaults
) {
  const paths = yield* Path.Path
  const [repo, directory] = [findText(fields, ["repo", "repository"]), findText(fields, ["cwd"])]
  const commit = findText(fields, ["base_commit", "commit"])
  if (repo === undefined && directory === undefined && commit === undefined && cwd === undefined)
    return { source: { _tag: "Empty" } as const, prefix: "" }
  const named =
    repo === undefined ? paths.resolve(base, directory ?? cwd ?? ".") : yield* findRepository(repo, base, repositories)
  if (named === undefined) {
    const place = paths.join(repositories ?? "DIR", (repo ?? "").replace("/", "__"))
    const flag = repositories === undefined ? " and pass --repos DIR" : ""
    return `repository "${repo}" not found: clone it to ${place}${flag}`
  }
  return commit === undefined
    ? yield* resolveSource(named, repo === undefined ? workspace : "clone")
    : { source: { _tag: "Commit", repository: named, commit } as const, prefix: "" }
})

/** Returns the task of a row, or a string with the reason why the row is invalid. */
const fromRow = Effect.fnUntraced(function* (
  { digest, fields, id }: Pick<Row, "digest" | "fields" | "id">,
  base: string,
  defaults: Defaults
): Effect.fn.Return<SweTask | string, never, WorkingCopy.Needs> {
  const instruction = findText(fields, ["problem_statement", "prompt", "task", "instruction"])
  if (instruction === undefined) return `it has no "problem_statement", "prompt" or "task"`
  const place = yield* findWorkspace(fields, base, defaults)
  if (typeof place === "string") return place
  const command = findText(fields, ["eval_command", "test_command", "test_cmd"]) ?? defaults.evaluation
  return {
    id,
    digest,
    instruction,
    ...place,
    image: findText(fields, ["image", "docker_image", "image_name"]) ?? defaults.image,
    setup: findText(fields, ["setup", "setup_command"]) ?? defaults.setup,
    agentSeconds: toSeconds(fields["timeout_seconds"]),
    check:
      command === undefined
        ? undefined
        : {
            command,
            timeoutSeconds: toSeconds(fields["eval_timeout"]) ?? defaults.evaluationSeconds,
            testPatch: findText(fields, ["test_patch"]),
            expected: {
              failToPass: parseTestNames(fields["FAIL_TO_PASS"] ?? fields["fail_to_pass"]),
              passToPass: parseTestNames(fields["PASS_TO_PASS"] ?? fields["pass_to_pass"])
            },
            folder: undefined
          }
  }
})

/** Makes the task for a prompt from the command line. */
export const fromText = Effect.fnUntraced(function* (
  instruction: string,
  defaults: Defaults
): Effect.fn.Return<SweTask | string, never, WorkingCopy.Needs> {
  const { row } = toRow(instruction, 0)
  return yield* fromRow(row, "/", defaults)
})

/** Makes a row from a line that is not JSON. The line becomes the prompt. */
const toRow = (prompt: string, index: number) => {
  const fields: Json.Fields = { prompt }
  const digest = Dataset.computeDigest([{ id: prompt, digest: "" }]).slice(0, 16)
  return { index, row: { id: `task-${digest}`, digest, fields } }
}

/** Parses the rows of a line-based file. Each line is a prompt, or a JSON object or string. */
const parseLines = (
  text: string
): {
  readonly rows: ReadonlyArray<Pick<Row, "digest" | "fields" | "id">>
  readonly problems: ReadonlyArray<string>
} => {
  const rows = new Map<string, Pick<Row, "digest" | "fields" | "id">>()
  const problems: Array<string> = []
  text
    .replace(/^\uFEFF/, "")
    .split("\n")
    .forEach((line, index) => {
      if (line.trim() === "") return
      const value = Option.getOrUndefined(Json.parse(line))
      const { row } = toRow(typeof value === "string" ? value : Json.isFields(value) ? line : line.trim(), index)
      const fields = Json.isFields(value) && !Array.isArray(value) ? value : row.fields
      const id = findText(fields, ["id", "instance_id", "task_id"]) ?? row.id
      if (rows.has(id)) problems.push(`line ${index + 1}: "${id}" was read already`)
      else rows.set(id, { id, digest: row.digest, fields })
    })
  return { rows: Array.from(rows.values()), problems }
}

/**
 * Lists paths on this machine in which the agent could find a solution: repositories with later commits, and folders
 * with tests and solutions. If commands can read files on this machine, the environment hides these paths.
 */
export const listWithheldPaths = (tasks: ReadonlyArray<Pick<SweTask, "check" | "source">>): ReadonlyArray<string> =>
  Array.from(
    new Set(
      tasks.flatMap(({ check, source }) => [
        ...(source._tag === "Commit" && source.commit !== "HEAD" ? [source.repository] : []),
        ...(check?.folder === undefined ? [] : [check.folder.path])
      ])
    )
  )

/** Reads the tasks from a file of prompts or instances. */
export const read = Effect.fn("SweTask.read")(function* (
  path: string,
  defaults: Defaults
): Effect.fn.Return<Tasks, Dataset.DatasetError, WorkingCopy.Needs> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const base = paths.dirname(paths.resolve(path))
  const isLines = /\.(?:txt|md|prompts)$/i.test(path)
  const { problems, rows } = isLines
    ? parseLines(
        yield* Effect.mapError(
          fs.readFileString(path),
          () => new Dataset.DatasetError({ path, message: `${path} cannot be read: name a file that exists` })
        )
      )
    : yield* Effect.map(Dataset.read(path), ({ problems, rows }) => ({
        rows,
        problems: problems.map(
          ({ file, line, message }) => `${file}${line === undefined ? "" : ` line ${line}`}: ${message}`
        )
      }))
  if (rows.length === 0) return yield* new Dataset.DatasetError({ path, message: `${path} has no task: it is empty` })
  const all = yield* Effect.forEach(rows, (row) =>
    Effect.map(fromRow(row, base, defaults), (task) => (typeof task === "string" ? `task ${row.id}: ${task}` : task))
  )
  return {
    tasks: all.filter((task) => typeof task !== "string"),
    problems: [...problems, ...all.filter((task) => typeof task === "string")]
  }
})
