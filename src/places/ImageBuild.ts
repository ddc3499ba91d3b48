/**
 * Builds images from directories that contain a Dockerfile, with the engine on this machine, and extracts files from
 * the images.
 *
 * **Details**
 *
 * The name of an image depends on the contents of its directory, so that it is built once; the engine stores it. The
 * build has the engine's network. A failed build reports the end of its log.
 *
 * **Gotchas**
 *
 * These images are never removed: `docker images hermes-task` lists them.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { ConfigError } from "../base/domain/AgentError.ts"
import * as TextCut from "../base/domain/TextCut.ts"
import * as Digest from "../base/platform/Digest.ts"
import * as ContainerEngine from "./ContainerEngine.ts"

/** A directory with a Dockerfile, and the settings of its build. */
export interface Build {
  readonly directory: string
  /** Names in the directory that are not part of the build context. */
  readonly without: ReadonlyArray<string>
  /** Time limit of the build, in seconds. */
  readonly seconds: number
}

type Needs = ChildProcessSpawner | FileSystem.FileSystem | Path.Path

const logChars = 1500

const makeBuildError = (directory: string, reason: string): ConfigError =>
  new ConfigError({ path: "image", message: `the image of ${directory} cannot be built: ${reason}` })

/** Lists the files below a directory that are part of the build context, in order. */
const listFiles = Effect.fnUntraced(function* ({ directory, without }: Build) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const names = (yield* fs.readDirectory(directory, { recursive: true })).toSorted()
  return names.filter((name) => !without.includes(name.split(paths.sep)[0] ?? ""))
})

/** Copies the build context, and derives the name of the image from it. */
const copyContext = Effect.fnUntraced(function* (build: Build) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const context = yield* fs.makeTempDirectoryScoped({ prefix: "hermes-build-" })
  const parts: Array<string> = []
  for (const name of yield* listFiles(build)) {
    const [from, to] = [paths.join(build.directory, name), paths.join(context, name)]
    const { mode, type } = yield* fs.stat(from)
    parts.push(`${name}\0${mode}`)
    if (type === "Directory") yield* fs.makeDirectory(to, { recursive: true })
    if (type !== "File") continue
    const bytes = yield* fs.readFile(from)
    parts.push(Digest.toHex(bytes, 64))
    yield* fs.writeFile(to, bytes, { mode: mode & 0o777 })
  }
  return { context, image: `hermes-task:${Digest.toHex(parts.join("\0"), 24)}` }
})

/** Builds the image of a directory, unless the engine has it, and returns its name. */
export const build = Effect.fn("ImageBuild.build")(function* (
  binary: string | undefined,
  given: Build
): Effect.fn.Return<string, ConfigError, Needs> {
  const { directory, seconds } = given
  const { program } = yield* ContainerEngine.findEngine(binary)
  return yield* Effect.gen(function* () {
    const { context, image } = yield* copyContext(given)
    if ((yield* ContainerEngine.callEngine(program, ["image", "inspect", "--format", "ok", image])).code === 0)
      return image
    const { code, errors, output } = yield* Effect.timeoutOrElse(
      ContainerEngine.callEngine(program, ["build", "--tag", image, context]),
      {
        duration: Duration.seconds(seconds),
        orElse: () => Effect.fail(makeBuildError(directory, `it took longer than ${seconds} s`))
      }
    )
    if (code === 0) return image
    return yield* makeBuildError(
      directory,
      `\`${program} build\` ended with exit code ${code}\n${TextCut.takeTail(`${output}\n${errors}`.trim(), logChars)}`
    )
  }).pipe(
    Effect.scoped,
    Effect.catchTag("PlatformError", ({ message }) => Effect.fail(makeBuildError(directory, message)))
  )
})

/** Copies a directory of an image to this machine until the scope closes. Empty if the image has no such directory. */
export const extractContents = Effect.fn("ImageBuild.extractContents")(function* (
  binary: string | undefined,
  image: string,
  path: string
): Effect.fn.Return<string, ConfigError, Needs | Scope.Scope> {
  const fs = yield* FileSystem.FileSystem
  const { program } = yield* ContainerEngine.findEngine(binary)
  const makeReadError = (reason: string) =>
    new ConfigError({ path: "image", message: `${path} of the image ${image} cannot be read: ${reason}` })
  return yield* Effect.gen(function* () {
    const to = yield* fs.makeTempDirectoryScoped({ prefix: "hermes-image-" })
    const made = yield* ContainerEngine.callEngine(program, ["create", "--pull", "never", image, "sh"])
    if (made.code !== 0) return yield* makeReadError(ContainerEngine.takeLastLine(made.errors))
    const copied = yield* Effect.ensuring(
      ContainerEngine.callEngine(program, ["cp", `${made.output}:${path === "/" ? "" : path}/.`, to]),
      Effect.ignore(ContainerEngine.callEngine(program, ["rm", "--force", "--volumes", made.output]))
    )
    if (copied.code !== 0 && !/could not find the file|no such file|could not be found/i.test(copied.errors))
      return yield* makeReadError(ContainerEngine.takeLastLine(copied.errors))
    return to
  }).pipe(Effect.catchTag("PlatformError", ({ message }) => Effect.fail(makeReadError(message))))
})
