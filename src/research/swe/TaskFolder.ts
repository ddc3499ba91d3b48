/**
 * Task folders of Harbor and Terminal-Bench: an instruction, the files to work with, and a script that tests the
 * result.
 *
 * **Details**
 *
 * | | Harbor | Terminal-Bench |
 * | --- | --- | --- |
 * | settings | `task.toml` | `task.yaml` |
 * | instruction | `instruction.md` | `instruction` of `task.yaml` |
 * | files | `environment/` | the folder |
 * | tests | `tests/test.sh`, which writes a reward to `/logs/verifier` | `run-tests.sh` with `tests/`, by its exit code |
 * | times | `agent.timeout_sec`, `verifier.timeout_sec` | `max_agent_timeout_sec`, `max_test_timeout_sec` |
 *
 * A path refers to one task folder, or to a folder of task folders. The workspace starts with the files listed in the
 * table. The instruction and the test scripts contain absolute paths in the task's container: `WORKDIR` of the
 * Dockerfile (`/app` by default), `/tests` and `/logs`. These are replaced with paths in the workspace. The agent
 * cannot see solutions and tests.
 *
 * **Gotchas**
 *
 * If commands run in containers, the Dockerfile is built (`places/ImageBuild`), and the workspace starts with the files
 * that `WORKDIR` contains in the image. In any other environment, the dependencies must already be installed. A notice
 * is then shown if the Dockerfile runs commands. Services of a compose file are not started.
 *
 * **Example** (Adapting a container's script to a workspace)
 *
 * ```ts
 * import { TaskFolder } from "hermes-effect/swe"
 *
 * console.log(TaskFolder.replacePlaces("cat /app/out.txt /application", { "/app": "/work" }))
 * // => cat /work/out.txt /application
 * ```
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Json from "../../base/domain/Json.ts"
import * as Yaml from "../../base/config/Yaml.ts"
import * as Digest from "../../base/platform/Digest.ts"
import type { Defaults, SweTask, Tasks, TestFolder } from "./SweTask.ts"

/** Files that describe the container. They are not part of the task's workspace. */
const containerFiles = ["Dockerfile", "docker-compose.yaml", "docker-compose.yml", ".dockerignore"]

/** Files in a Terminal-Bench folder that are hidden from the agent. */
const withheld = [...containerFiles, "task.yaml", "run-tests.sh", "tests", "solution.sh", "solution.yaml", "solution"]

/** Default time limit for building an image, in seconds. */
const buildSeconds = 600

/** Directory in the workspace to which the tests are copied after the agent has ended. */
export const testsDirectory = ".task-tests"

/** Returns the kind of a task folder, or `undefined` for any other folder. */
const detectKind = (names: ReadonlyArray<string>): "harbor" | "terminal-bench" | undefined =>
  names.includes("task.toml") ? "harbor" : names.includes("task.yaml") ? "terminal-bench" : undefined

const readOptional = (path: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.orElseSucceed(
      Effect.map(fs.readFileString(path), (text) => text as string | undefined),
      () => undefined
    )
  )

const listNames = (path: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.orElseSucceed(fs.readDirectory(path), () => [] as ReadonlyArray<string>)
  )

const toSeconds = (value: unknown): number | undefined => (typeof value === "number" && value > 0 ? value : undefined)

/** Reads the settings of a task folder. If they cannot be read, returns the reason as a string. */
const readSettings = Effect.fnUntraced(function* (kind: "harbor" | "terminal-bench", path: string) {
  const paths = yield* Path.Path
  const file = paths.join(path, kind === "harbor" ? "task.toml" : "task.yaml")
  const text = (yield* readOptional(file)) ?? ""
  if (kind === "terminal-bench")
    return yield* Effect.match(Yaml.read(text, file), {
      onFailure: ({ message }) => message,
      onSuccess: Json.readFields
    })
  const { parse } = yield* Effect.promise(() => import("effect/encoding/Toml"))
  const parsed = parse(text)
  return Result.isFailure(parsed) ? `${file} is not TOML: ${parsed.failure.message}` : Json.readFields(parsed.success)
})

/** Returns facts about a Dockerfile: if it exists, its last working directory, and if it runs commands. */
const parseDockerfile = (text: string | undefined) => ({
  isThere: text !== undefined,
  workdir:
    Array.from((text ?? "").matchAll(/^\s*WORKDIR\s+"?(\/[^\s"]*)"?\s*$/gim))
      .at(-1)?.[1]
      ?.replace(/(.)\/$/, "$1") ?? "/app",
  runs: /^\s*RUN\s/im.test(text ?? "")
})

/** Replaces absolute container directories in text. A match inside a longer name is not replaced. */
export const replacePlaces = (text: string, places: Readonly<Record<string, string>>): string => {
  const names = Object.keys(places)
    .filter((name) => name !== "/")
    .toSorted((a, b) => b.length - a.length)
  if (names.length === 0) return text
  const pattern = new RegExp(
    `(?<![\\w./~$}-])(${names.map((name) => name.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})(?![\\w.-])`,
    "g"
  )
  return text.replace(pattern, (name) => places[name] ?? name)
}

/** Maps the container directories of a task to workspace directories. */
const mapPlaces = ({ workdir }: TestFolder, directory: string): Readonly<Record<string, string>> => ({
  [workdir]: directory,
  "/tests": `${directory}/${testsDirectory}/tests`,
  "/logs": `${directory}/${testsDirectory}/logs`
})

/** Renders the instruction of a task for a workspace. */
export const renderInstruction = (
  { check, instruction }: Pick<SweTask, "check" | "instruction">,
  directory: string
): string =>
  check?.folder === undefined ? instruction : replacePlaces(instruction, { [check.folder.workdir]: directory })

/** A task folder: its kind, and the parts that were read from it. */
interface FolderParts {
  readonly path: string
  readonly isHarbor: boolean
  readonly settings: Json.Fields
  readonly instruction: string
  /** The script that runs the tests: its path in the folder, and its content if the file exists. */
  readonly test: { readonly name: string; readonly script: string | undefined }
  readonly environment: EnvironmentParts
}

/** The files with which the workspace of a task starts. */
interface EnvironmentParts {
  readonly files: string
  readonly hasFiles: boolean
  readonly dockerfile: ReturnType<typeof parseDockerfile>
}

/** Reads the parts of a folder, or returns the reason why it is not a task. */
const readParts = Effect.fnUntraced(function* (path: string) {
  const paths = yield* Path.Path
  const names = yield* listNames(path)
  const kind = detectKind(names)
  if (kind === undefined) return `${path} has neither task.toml nor task.yaml`
  const settings = yield* readSettings(kind, path)
  if (typeof settings === "string") return settings
  const isHarbor = kind === "harbor"
  const instruction = isHarbor
    ? yield* readOptional(paths.join(path, "instruction.md"))
    : Json.readString(settings["instruction"])
  if (instruction === undefined || instruction.trim() === "") {
    return `${path} has no instruction: write it to ${isHarbor ? "instruction.md" : "instruction of task.yaml"}`
  }
  const test = isHarbor ? "tests/test.sh" : "run-tests.sh"
  const script = yield* readOptional(paths.join(path, test))
  const files = isHarbor ? paths.join(path, "environment") : path
  const dockerfile = parseDockerfile(yield* readOptional(paths.join(files, "Dockerfile")))
  const parts: FolderParts = {
    path,
    isHarbor,
    settings,
    instruction,
    test: { name: test, script },
    environment: { files, hasFiles: !isHarbor || names.includes("environment"), dockerfile }
  }
  return parts
})

/** Makes the evaluation settings of a task from its folder's test script. */
const toCheck = (
  { isHarbor, path, settings, test }: FolderParts,
  workdir: string,
  defaults: Defaults
): SweTask["check"] => {
  if (test.script === undefined) return undefined
  const verifier = Json.readFields(settings["verifier"])
  const seconds = isHarbor ? verifier["timeout_sec"] : settings["max_test_timeout_sec"]
  return {
    command: `bash ${testsDirectory}/${test.name}`,
    timeoutSeconds: toSeconds(seconds) ?? defaults.evaluationSeconds,
    testPatch: undefined,
    expected: { failToPass: [], passToPass: [] },
    folder: { path, workdir }
  }
}

/** Returns the image to build for a task, or `undefined` if no image is built. */
const toBuild = ({ environment, isHarbor, settings }: FolderParts, defaults: Defaults): SweTask["build"] => {
  const { dockerfile, files } = environment
  const { build_timeout_sec: timeout, docker_image: image } = Json.readFields(settings["environment"])
  const isBuilt =
    defaults.inContainers === true && dockerfile.isThere && (Json.readString(image) ?? defaults.image) === undefined
  if (!isBuilt) return undefined
  return {
    directory: files,
    without: isHarbor ? [] : withheld.filter((name) => !containerFiles.includes(name)),
    seconds: toSeconds(timeout) ?? buildSeconds,
    workdir: dockerfile.workdir
  }
}

const toTask = (parts: FolderParts, id: string, defaults: Defaults): SweTask => {
  const { environment, instruction, isHarbor, settings, test } = parts
  const { dockerfile, files, hasFiles } = environment
  const agent = Json.readFields(settings["agent"])
  return {
    id,
    digest: Digest.toHex(`${instruction}\n${test.script ?? ""}`, 16),
    instruction,
    source: hasFiles
      ? { _tag: "Directory", path: files, without: isHarbor ? containerFiles : withheld }
      : { _tag: "Empty" },
    prefix: "",
    image: Json.readString(Json.readFields(settings["environment"])["docker_image"]) ?? defaults.image,
    build: toBuild(parts, defaults),
    setup: defaults.setup,
    agentSeconds: toSeconds(isHarbor ? agent["timeout_sec"] : settings["max_agent_timeout_sec"]),
    check: toCheck(parts, dockerfile.workdir, defaults)
  }
}

/** Converts a folder to a task, or returns the reason why it is not a task. */
const fromFolder = Effect.fnUntraced(function* (path: string, defaults: Defaults) {
  const paths = yield* Path.Path
  const parts = yield* readParts(path)
  if (typeof parts === "string") return parts
  const task = toTask(parts, paths.basename(path), defaults)
  const { environment, test } = parts
  const notices = [
    ...(environment.dockerfile.runs && defaults.inContainers !== true
      ? [`task ${task.id}: its Dockerfile is not built; what it installs has to be there, or pass --env docker`]
      : []),
    ...(test.script === undefined ? [`task ${task.id}: it has no ${test.name} and is not scored`] : [])
  ]
  return { task, notices }
})

/** Returns true if a path is a task folder, or a folder that contains task folders. */
export const isThere = Effect.fnUntraced(function* (path: string) {
  const paths = yield* Path.Path
  const names = yield* listNames(path)
  if (detectKind(names) !== undefined) return true
  for (const name of names) {
    if (detectKind(yield* listNames(paths.join(path, name))) !== undefined) return true
  }
  return false
})

/**
 * Reads the task of a folder, or the tasks of its subfolders. The messages also include notices about tasks that can be
 * run.
 */
export const read = Effect.fn("TaskFolder.read")(function* (
  given: string,
  defaults: Defaults
): Effect.fn.Return<Tasks, never, FileSystem.FileSystem | Path.Path> {
  const paths = yield* Path.Path
  const path = paths.resolve(given)
  const names = yield* listNames(path)
  const below = names.toSorted().map((name) => paths.join(path, name))
  const folders =
    detectKind(names) === undefined
      ? yield* Effect.filter(below, (folder) =>
          Effect.map(listNames(folder), (names) => detectKind(names) !== undefined)
        )
      : [path]
  const found = yield* Effect.forEach(folders, (folder) => fromFolder(folder, defaults))
  return {
    tasks: found.flatMap((one) => (typeof one === "string" ? [] : [one.task])),
    problems: found.flatMap((one) => (typeof one === "string" ? [one] : one.notices))
  }
})

const isText = (bytes: Uint8Array): boolean => !bytes.subarray(0, 8000).includes(0)

/** Copies a file or a directory. Container directories in text files are replaced with workspace directories. */
const copyWithPlaces = (
  from: string,
  to: string,
  places: Readonly<Record<string, string>>
): Effect.Effect<void, import("effect/PlatformError").PlatformError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const { mode, type } = yield* fs.stat(from)
    if (type === "Directory") {
      yield* fs.makeDirectory(to, { recursive: true })
      for (const name of yield* fs.readDirectory(from))
        yield* copyWithPlaces(paths.join(from, name), paths.join(to, name), places)
      return
    }
    if (type !== "File") return
    const bytes = yield* fs.readFile(from)
    const content = isText(bytes)
      ? new TextEncoder().encode(replacePlaces(new TextDecoder().decode(bytes), places))
      : bytes
    yield* fs.writeFile(to, content, { mode: mode & 0o777 })
  })

/**
 * Copies the tests of a task folder into a workspace. Existing files are overwritten. `at` is the path of the workspace
 * in the environment of the commands.
 */
export const bringTests = Effect.fnUntraced(function* (folder: TestFolder, directory: string, at: string = directory) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const root = paths.join(directory, testsDirectory)
  const places = mapPlaces(folder, at)
  yield* fs.remove(root, { recursive: true, force: true })
  yield* fs.makeDirectory(paths.join(root, "logs/verifier"), { recursive: true })
  for (const name of ["tests", "run-tests.sh"]) {
    const from = paths.join(folder.path, name)
    if (yield* fs.exists(from)) yield* copyWithPlaces(from, paths.join(root, name), places)
  }
})

/** Returns the reward that the tests wrote in a workspace, or `undefined` if it is missing. */
export const readReward = Effect.fnUntraced(function* (directory: string) {
  const paths = yield* Path.Path
  const logs = paths.join(directory, testsDirectory, "logs/verifier")
  const text = (yield* readOptional(paths.join(logs, "reward.txt"))) ?? ""
  const written = Json.readFields(Json.parseOrKeep((yield* readOptional(paths.join(logs, "reward.json"))) ?? ""))
  const values = [text.trim() === "" ? undefined : Number(text), written["reward"], ...Object.values(written)]
  return values.find((value): value is number => typeof value === "number" && Number.isFinite(value))
})
