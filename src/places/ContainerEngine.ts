/** The command line of Docker or Podman: the engine, its images, and containers without an owner. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { ConfigError } from "../base/domain/AgentError.ts"
import * as TextCut from "../base/domain/TextCut.ts"
import * as TrustedPrograms from "../base/platform/TrustedPrograms.ts"

/** Label of a container that holds its owner, as {@link readOwner} returns it. */
export const ownerLabel = "hermes.owner"

/** The container engine that was found. */
export interface Engine {
  readonly program: string
  readonly kind: "docker" | "podman"
}

const makeUnavailableError = (reason: string, remedy: string): ConfigError =>
  new ConfigError({
    path: "terminal.backend",
    message:
      `terminal.backend: docker cannot be used: ${reason}. Remedy: ${remedy}, or set terminal.backend to ` +
      "sandbox or local"
  })

/** Returns the last informative line of an engine's error. */
export const takeLastLine = (text: string): string =>
  TextCut.takeHead(
    text
      .split("\n")
      .map((line) => line.trim())
      .findLast((line) => line !== "" && !/^(?:Run|See) '.*--help/.test(line)) ?? "",
    300
  )

/** Runs a command of the engine until it ends. */
export const callEngine = Effect.fnUntraced(function* (
  program: string,
  args: ReadonlyArray<string>,
  input: Stream.Stream<Uint8Array, PlatformError> | "ignore" = "ignore"
) {
  const spawner = yield* ChildProcessSpawner
  // Credential helpers and plugins of the engine also come from trusted directories.
  const env = { PATH: yield* TrustedPrograms.safePath }
  const handle = yield* spawner.spawn(
    ChildProcess.make(program, args, { stdin: input, cwd: "/", env, extendEnv: true })
  )
  const collectText = (stream: typeof handle.stdout) => Stream.mkString(Stream.decodeText(stream))
  const [output, errors, code] = yield* Effect.all(
    [collectText(handle.stdout), collectText(handle.stderr), handle.exitCode],
    { concurrency: "unbounded" }
  )
  return { output: output.trim(), errors: errors.trim(), code: Number(code) }
}, Effect.scoped)

/** Removes a container, even if its removal has already started, and waits until it is gone. */
export const removeContainer = Effect.fnUntraced(function* (program: string, name: string) {
  yield* callEngine(program, ["rm", "--force", "--volumes", name])
  const isThere = Effect.map(
    callEngine(program, ["ps", "--all", "--quiet", "--filter", `name=${name}`]),
    ({ output }) => output !== ""
  )
  yield* Effect.repeat(isThere, { schedule: Schedule.spaced("100 millis"), while: (there) => there, times: 50 })
})

/** Finds the engine and checks that it answers. */
export const findEngine = Effect.fnUntraced(function* (
  binary: string | undefined
): Effect.fn.Return<Engine, ConfigError, ChildProcessSpawner> {
  for (const name of binary === undefined ? ["docker", "podman"] : [binary]) {
    const found = yield* Effect.option(TrustedPrograms.find(name))
    if (found._tag === "None") continue
    const program = found.value
    const version = yield* Effect.option(callEngine(program, ["--version"]))
    if (version._tag === "None" || version.value.code !== 0) continue
    const kind = /podman/i.test(version.value.output) ? "podman" : "docker"
    const answer = yield* Effect.result(
      callEngine(program, ["info", "--format", kind === "podman" ? "{{.Host.Arch}}" : "{{.ServerVersion}}"])
    )
    if (answer._tag === "Success" && answer.success.code === 0) return { program, kind }
    const said = answer._tag === "Success" ? takeLastLine(answer.success.errors) : answer.failure.message
    return yield* makeUnavailableError(
      `${name} does not answer: ${said}`,
      kind === "docker" ? "start the Docker daemon and make sure that you may use it" : "see `podman info`"
    )
  }
  return yield* binary === undefined
    ? makeUnavailableError("neither docker nor podman is installed", "install one of them")
    : makeUnavailableError(`${binary} cannot be run`, "name the program of Docker or Podman by terminal.docker_binary")
})

/** Returns text that identifies this process while it runs, or `undefined` if the system does not provide it. */
export const readOwner = Effect.fnUntraced(
  function* (fs: FileSystem.FileSystem, pid: string) {
    const stat = yield* fs.readFileString(`/proc/${pid}/stat`)
    const boot = yield* fs.readFileString("/proc/sys/kernel/random/boot_id")
    const namespace = yield* fs.readLink("/proc/self/ns/pid")
    const startTime = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? ""
    return [boot.trim(), /\d+/.exec(namespace)?.[0] ?? "", Number.parseInt(stat, 10), startTime].join(":")
  },
  Effect.orElseSucceed(() => undefined)
)

/** Removes containers whose owning program has ended. */
export const reapContainers = Effect.fnUntraced(function* ({ program }: Engine, own: string | undefined) {
  if (own === undefined) return
  const fs = yield* FileSystem.FileSystem
  const machine = own.split(":").slice(0, 2).join(":")
  const { output } = yield* callEngine(program, ["ps", "--all", "--quiet", "--filter", `label=${ownerLabel}`])
  for (const id of output.split("\n").filter((line) => line !== "")) {
    const { output: label } = yield* callEngine(program, [
      "inspect",
      "--format",
      `{{index .Config.Labels "${ownerLabel}"}}`,
      id
    ])
    const pid = label.split(":")[2] ?? ""
    if (!label.startsWith(`${machine}:`) || !/^\d+$/.test(pid) || (yield* readOwner(fs, pid)) === label) continue
    yield* callEngine(program, ["rm", "--force", id])
  }
})

/** Time limits for looking up and for fetching an image. */
const imageTimes = { look: "10 seconds", fetch: "600 seconds" } as const

/** Ensures that the engine has an image, and fetches the image if it is missing. */
export const fetchImage = Effect.fn("ContainerEngine.fetchImage")(function* (
  binary: string | undefined,
  image: string
): Effect.fn.Return<void, ConfigError, ChildProcessSpawner> {
  const makeRefusal = (reason: string) =>
    new ConfigError({ path: "image", message: `the image ${image} cannot be had: ${reason}` })
  const runWithin = (args: ReadonlyArray<string>, duration: Duration.Input) =>
    Effect.timeoutOrElse(
      Effect.mapError(callEngine(program, args), ({ message }) => makeRefusal(message)),
      {
        duration,
        orElse: () =>
          Effect.fail(
            makeRefusal(`${program} ${args[0]} took longer than ${Duration.format(Duration.fromInputUnsafe(duration))}`)
          )
      }
    )
  // A name that starts with a dash would be parsed as an option of the engine.
  if (!/^[\w][\w./:@-]*$/.test(image)) return yield* makeRefusal("this is not a valid image name")
  const { program } = yield* findEngine(binary)
  if ((yield* runWithin(["image", "inspect", "--format", "ok", image], imageTimes.look)).code === 0) return
  const fetched = yield* runWithin(["pull", image], imageTimes.fetch)
  if (fetched.code !== 0)
    return yield* makeRefusal(takeLastLine(fetched.errors) || `${program} pull ended with code ${fetched.code}`)
})
