/** Arguments with which the engine starts a container, and the explanation of a failed start. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import { getProcessOwner } from "../base/platform/CurrentProcess.ts"
import * as Digest from "../base/platform/Digest.ts"
import { type Engine, ownerLabel, takeLastLine } from "./ContainerEngine.ts"
import { containerHome, type Options } from "./ContainerOptions.ts"
import * as RemoteEnvironment from "./RemoteEnvironment.ts"
import { type Rule, sortRules } from "./SandboxRules.ts"
import * as WorkingTree from "./WorkingTree.ts"

/** Builds one mount argument of `run`. */
const buildMount = (fields: Readonly<Record<string, string>>, isReadOnly: boolean) =>
  Object.values(fields).some((value) => /[,"\n]/.test(value))
    ? Effect.fail(
        RemoteEnvironment.makeUnreachableError(
          `a path with a comma, a quote or a line break cannot be mounted: ${Object.values(fields).join(" ")}`
        )
      )
    : Effect.succeed([
        "--mount",
        [
          ...Object.entries(fields).map(([name, value]) => `${name}=${value}`),
          ...(isReadOnly ? ["readonly"] : [])
        ].join(",")
      ])

const buildBind = ({ allows, path }: Rule) =>
  buildMount({ type: "bind", source: allows === "nothing" ? "/dev/null" : path, target: path }, allows !== "write")

/** Builds the mounts of the settings. A missing directory is an error, so that the engine does not create it. */
const buildVolumeMounts = Effect.fnUntraced(function* (volumes: ReadonlyArray<string>) {
  const fs = yield* FileSystem.FileSystem
  return (yield* Effect.forEach(
    volumes,
    Effect.fnUntraced(function* (volume) {
      const [source = "", target = "", mode = "rw"] = volume.split(":")
      if (!target.startsWith("/") || source === "" || !["ro", "rw"].includes(mode)) {
        return yield* RemoteEnvironment.makeUnreachableError(
          `terminal.docker_volumes: "${volume}" is not source:target or source:target:ro`
        )
      }
      if (!source.startsWith("/")) return yield* buildMount({ type: "volume", source, target }, mode === "ro")
      if (!(yield* fs.exists(source)))
        return yield* RemoteEnvironment.makeUnreachableError(
          `terminal.docker_volumes: ${source} does not exist: create it, or take it out of the setting`
        )
      return yield* buildMount({ type: "bind", source, target }, mode === "ro")
    })
  )).flat()
})

/** Maximum number of processes with Podman, which also counts the user's processes outside of the container. */
const podmanProcesses = 4096

/** Returns the ulimits that this process may set: Podman requests higher limits by default, and then fails. */
const readUlimits = Effect.fnUntraced(function* (fs: FileSystem.FileSystem) {
  const text = yield* Effect.orElseSucceed(fs.readFileString("/proc/self/limits"), () => "")
  const readHardLimit = (name: string): number =>
    Number(new RegExp(`^${name}\\s+\\S+\\s+(\\d+)`, "m").exec(text)?.[1] ?? Infinity)
  return (
    [
      ["nofile", readHardLimit("Max open files")],
      ["nproc", Math.min(readHardLimit("Max processes"), podmanProcesses)]
    ] as const
  ).flatMap(([name, limit]) => (Number.isFinite(limit) ? ["--ulimit", `${name}=${limit}:${limit}`] : []))
})

/** Container that the arguments of `run` start. */
export interface ContainerStart {
  readonly tree: string
  readonly name: string
  readonly rules: ReadonlyArray<Rule>
  /** Text that identifies this process, as `readOwner` returns it. */
  readonly owner: string | undefined
}

/** Returns the arguments with which the engine starts a container whose shell reads from standard input. */
export const buildRunArguments = Effect.fnUntraced(function* (
  engine: Engine,
  options: Options,
  { name, owner, rules, tree }: ContainerStart
) {
  const fs = yield* FileSystem.FileSystem
  const caller = getProcessOwner()
  const { cpus, disk, memory, processes } = options.limits
  const readable = (yield* Effect.forEach(options.readable, (directory) =>
    WorkingTree.findRuleAt("read", directory)
  )).flat()
  const mounted = sortRules([...(options.workspace === "mount" ? rules : []), ...readable])
  return [
    "run",
    "--interactive",
    "--rm",
    "--pull",
    "never",
    "--name",
    name,
    "--label",
    `${ownerLabel}=${owner ?? ""}`,
    "--label",
    `hermes.tree=${tree}`,
    ...(options.network === "none" ? ["--network", "none"] : []),
    "--cap-drop",
    "ALL",
    "--security-opt",
    "no-new-privileges",
    "--pids-limit",
    String(processes),
    ...(memory === undefined ? [] : ["--memory", `${memory}m`, "--memory-swap", `${memory}m`]),
    ...(cpus === undefined ? [] : ["--cpus", String(cpus)]),
    ...(disk === undefined ? [] : ["--storage-opt", `size=${disk}m`]),
    ...(options.user === "caller" && caller !== undefined ? ["--user", `${caller.uid}:${caller.gid}`] : []),
    ...(options.user === "caller" && engine.kind === "podman" && caller !== undefined && caller.uid !== 0
      ? ["--userns", "keep-id"]
      : []),
    ...(engine.kind === "podman" && !options.extraArguments.includes("--ulimit") ? yield* readUlimits(fs) : []),
    "--tmpfs",
    "/tmp:rw,exec,nosuid,nodev,mode=1777",
    "--env",
    `HOME=${containerHome}`,
    ...(options.isPersistent
      ? yield* buildMount(
          { type: "volume", source: `hermes-home-${Digest.toHex(tree, 16)}`, target: containerHome },
          false
        )
      : ["--tmpfs", `${containerHome}:rw,exec,nosuid,nodev,mode=1777`]),
    ...(yield* Effect.forEach(new Map(mounted.map((rule) => [rule.path, rule])).values(), buildBind)).flat(),
    ...(yield* buildVolumeMounts(options.volumes)),
    ...options.extraArguments,
    "--entrypoint",
    "/bin/sh",
    options.findImage?.(tree) ?? options.image
  ]
})

const missingImage = /no such image|unable to find image|image not known|not found locally|no such object/i
const missingMount = /bind source path does not exist: (\S+)|statfs (\S+): no such file/i

/** Describes in a sentence why a container could not be started. */
export const describeStartFailure = (engine: Engine, { limits }: Options, image: string, said: string): string => {
  if (missingImage.test(said))
    return `the image ${image} is not there: run \`${engine.kind} pull ${image}\`, or set terminal.docker_image`
  const path = missingMount.exec(said)
  if (path !== null) return `the container was not started: ${path[1] ?? path[2]} does not exist for ${engine.kind}`
  if (limits.disk !== undefined && /storage-opt|storage option|quota/i.test(said))
    return "terminal.container_disk: the storage of the engine has no quotas: leave it out"
  return `the container was not started: ${takeLastLine(said)}`
}
