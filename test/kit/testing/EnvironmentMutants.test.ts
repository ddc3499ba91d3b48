// For each rule of environments one that breaks it, and is told so: this machine, with another behaviour in some place.
import { assert, describe, it } from "@effect/vitest"
import * as NodePath from "@effect/platform-node/NodePath"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import { dirname } from "node:path"
import { CommandEnvironment, layerLocal, type Service } from "../../../src/places/CommandEnvironment.ts"
import * as ChildProcesses from "../../../src/base/platform/ChildProcesses.ts"
import * as Conformance from "../../../src/kit/testing/Conformance.ts"
import * as EnvironmentRules from "../../../src/kit/testing/EnvironmentRules.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

type Spawn = Service["spawner"]["spawn"]
type Handle = ChildProcessSpawner.ChildProcessHandle
type Change = (
  environment: Service,
  around: { readonly scope: Scope.Scope; readonly directory: string }
) => Partial<Service>

const nameOf = ({ about, name }: { readonly about: string; readonly name: string }) => `${about}: ${name}`

/** Commands that start otherwise. */
const starting =
  (change: (command: ChildProcess.Command, spawn: Spawn, around: Parameters<Change>[1]) => ReturnType<Spawn>): Change =>
  ({ spawner }, around) => ({ spawner: ChildProcessSpawner.make((command) => change(command, spawner.spawn, around)) })

/** Commands with other options. */
const given = (change: (options: ChildProcess.CommandOptions) => ChildProcess.CommandOptions): Change =>
  starting((command, spawn) =>
    spawn(
      command._tag === "StandardCommand"
        ? ChildProcess.make(command.command, command.args, { ...command.options, ...change(command.options) })
        : command
    )
  )

/** Processes that behave otherwise. */
const running = (change: (handle: Handle, command: ChildProcess.Command) => Partial<Handle>): Change =>
  starting((command, spawn) =>
    Effect.map(spawn(command), (handle) => ChildProcessSpawner.makeHandle({ ...handle, ...change(handle, command) }))
  )

/** Files that behave otherwise. */
const filing =
  (change: (files: FileSystem.FileSystem, around: Parameters<Change>[1]) => Partial<FileSystem.FileSystem>): Change =>
  (environment, around) => ({ files: { ...environment.files, ...change(environment.files, around) } })

const asText = (bytes: Uint8Array): Uint8Array => new TextEncoder().encode(new TextDecoder().decode(bytes))

const oneByOne = Semaphore.makeUnsafe(1)

const mutants: ReadonlyArray<readonly [does: string, change: Change, rule: string]> = [
  [
    "knows one exit code",
    running(() => ({ exitCode: Effect.succeed(ChildProcessSpawner.ExitCode(0)) })),
    "commands: give output, standard error and the exit code apart"
  ],
  [
    "lets nobody write to a command",
    given(({ stdin }) => ({ stdin: stdin === "pipe" ? "ignore" : stdin })),
    "commands: stream while they run, and read what is written to them"
  ],
  [
    "gives output at the end",
    running((handle) => ({ stdout: Stream.unwrap(Effect.as(handle.exitCode, handle.stdout)) })),
    "commands: see output before the end"
  ],
  [
    "takes bytes for text",
    running((handle) => ({ stdout: Stream.map(handle.stdout, asText) })),
    "commands: carry bytes as they are, megabytes of them, both ways"
  ],
  [
    "starts one directory above",
    given(({ cwd }) => ({ cwd: cwd === undefined ? undefined : dirname(String(cwd)) })),
    "commands: run in their directory, with their words as they are"
  ],
  [
    "starts somewhere else where the directory is missing",
    given(({ cwd }) => ({ cwd: String(cwd).startsWith("/no/such") ? "/" : cwd })),
    "commands: run nothing in a directory that is missing"
  ],
  ["has three pipes", given(() => ({ additionalFds: {} })), "commands: may have further pipes"],
  [
    "runs the beginning of a pipeline",
    starting((command, spawn) => spawn(command._tag === "PipedCommand" ? command.left : command)),
    "commands: are joined to a pipeline"
  ],
  [
    "types on its own",
    given(({ stdin }) => ({ stdin: stdin === "ignore" ? Stream.make(new TextEncoder().encode("yes\n")) : stdin })),
    "commands: have no input where they are given none"
  ],
  [
    "gives all variables",
    given(({ env }) => ({ env: { ...env, PRIVATE_VALUE: "not-for-the-environment" } })),
    "commands: get the variables that they are given, and nothing that only the program has"
  ],
  [
    "runs one after another",
    starting((command, spawn) =>
      Effect.andThen(
        Effect.acquireRelease(oneByOne.take(1), () => oneByOne.release(1)),
        spawn(command)
      )
    ),
    "commands: run beside each other"
  ],
  [
    "waits for whatever holds the output",
    running((handle) => ({ exitCode: Effect.andThen(Stream.runDrain(handle.stdout), handle.exitCode) })),
    "commands: have ended when their shell has, whatever they left behind"
  ],
  [
    "forgets the exit code of a terminal",
    running((_, command) =>
      command._tag === "StandardCommand" && command.options.env?.["SHELL"] !== undefined
        ? { exitCode: Effect.succeed(ChildProcessSpawner.ExitCode(0)) }
        : {}
    ),
    "commands: may have a terminal of their own: its size, what is typed on it, their exit code, their end"
  ],
  [
    "kills at once",
    running((handle) => ({ kill: () => handle.kill({ killSignal: "SIGKILL" }) })),
    `commands: ${EnvironmentRules.graceful}`
  ],
  // It is killed in the end.
  [
    "asks nobody",
    starting((command, spawn) =>
      Effect.map(
        spawn(
          command._tag === "StandardCommand"
            ? ChildProcess.make(command.command, command.args, { ...command.options, killSignal: "SIGKILL" })
            : command
        ),
        (handle) => ChildProcessSpawner.makeHandle({ ...handle, kill: () => Effect.void })
      )
    ),
    "commands: end by force when they ignore a signal"
  ],
  [
    "lets processes go on",
    starting((command, spawn, { scope }) => Scope.provide(spawn(command), scope)),
    "commands: take everything below them along, also what left their group"
  ],
  [
    "reads text",
    filing((files) => ({ readFile: (path) => Effect.map(files.readFile(path), asText) })),
    "files: are those that commands see, as bytes"
  ],
  [
    "reads from the beginning",
    filing((files) => ({ stream: (path, options) => files.stream(path, { ...options, offset: 0 }) })),
    "files: are long, and read in pieces and from the middle"
  ],
  [
    "follows every link",
    filing((files) => ({ lstat: files.stat })),
    "files: are told by name, kind, size, mode and time"
  ],
  [
    "cuts nothing",
    filing(() => ({ truncate: () => Effect.void })),
    "files: are made, renamed, linked, copied and removed"
  ],
  [
    "writes over what is there",
    filing((files) => ({
      open: (path, options) => files.open(path, { ...options, flag: options?.flag === "wx" ? "w" : options?.flag })
    })),
    "files: are written through an open file, and made once only"
  ],
  [
    "removes what is missing",
    filing((files) => ({ remove: (path, options) => files.remove(path, { ...options, force: true }) })),
    "files: fail as files of this machine do"
  ],
  [
    "tells of changes elsewhere",
    filing(() => ({ watch: () => Stream.make({ _tag: "Update", path: "/elsewhere" } as const) })),
    "files: tell of a change below a directory, or say that they cannot be watched"
  ],
  [
    "keeps temporary files",
    filing((files, { directory }) => ({
      makeTempDirectoryScoped: (options) => files.makeTempDirectory({ ...options, directory })
    })),
    "files: may be temporary"
  ],
  [
    "forwards any number",
    ({ forward }) => ({ forward: (port) => forward(Math.min(port, 65_535)) }),
    "ports: on which a command listens are reached from this machine, until the scope ends"
  ],
  [
    "has another program for git",
    ({ trees }) => ({
      trees: { ...trees, spawner: ChildProcessSpawner.make(() => trees.spawner.spawn(ChildProcess.make("true", []))) }
    }),
    "snapshots: tell which files a command made, changed and removed, with what was in them"
  ]
]

/** Mutants under which a rule waits for ever. */
const hanging: ReadonlySet<string> = new Set([
  "gives output at the end",
  "runs one after another",
  "waits for whatever holds the output"
])

/** This machine with one change. */
const mutated = (change: Change) =>
  Layer.effect(
    EnvironmentRules.Subject,
    Effect.gen(function* () {
      const environment = yield* CommandEnvironment
      const directory = yield* temporaryDirectory
      return {
        environment: { ...environment, ...change(environment, { scope: yield* Effect.scope, directory }) },
        directory
      }
    })
  ).pipe(Layer.provide(layerLocal), Layer.provideMerge(NodePath.layer), Layer.provide(ChildProcesses.layer))

describe("environments that break a rule", () => {
  for (const [does, change, rule] of mutants) {
    it.live(`one that ${does} is told: ${rule}`, () =>
      Effect.gen(function* () {
        const rules = EnvironmentRules.rules.filter((one) => nameOf(one) === rule)
        const limit = hanging.has(does) ? "3 seconds" : "30 seconds"
        const [result] = yield* Effect.provide(
          Conformance.runRules(rules, mutated(change), { limit }),
          Logger.layer([])
        )
        assert.isDefined(result?.broken)
        assert.strictEqual(
          result?.broken?.message.includes("did not end within") === true,
          hanging.has(does),
          result?.broken?.message
        )
      })
    )
  }

  it("every rule has an environment that breaks it", () => {
    const named = mutants.map(([, , rule]) => rule)
    assert.deepStrictEqual(EnvironmentRules.rules.map(nameOf), named)
  })
})
