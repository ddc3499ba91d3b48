// Programs that a command writes into the working tree, where a launcher or the user put a directory of the tree on
// PATH: none of them runs outside of the sandbox. Each planted program leaves a file outside of the tree, which a
// command in a sandbox cannot make.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { spawnSync } from "node:child_process"
import { chmodSync, existsSync, mkdirSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { delimiter, dirname, join } from "node:path"
import * as Clipboard from "../../src/program/cli/Clipboard.ts"
import * as ConfigCommand from "../../src/program/cli/ConfigCommand.ts"
import * as TraceCommand from "../../src/program/cli/TraceCommand.ts"
import { Environment, make } from "../../src/base/config/Environment.ts"
import { CommandEnvironment, layerLocal } from "../../src/places/CommandEnvironment.ts"
import * as ContainerEngine from "../../src/places/ContainerEngine.ts"
import * as SshHost from "../../src/places/SshHost.ts"
import * as TreeSnapshot from "../../src/places/TreeSnapshot.ts"
import * as ShellHookProcess from "../../src/hooks/ShellHookProcess.ts"
import * as ChildProcesses from "../../src/base/platform/ChildProcesses.ts"
import { StartDirectory } from "../../src/base/platform/CurrentProcess.ts"
import { ProcessEnvironment } from "../../src/base/platform/ProcessVariables.ts"
import * as Git from "../../src/agent/plugin/Git.ts"
import * as JobScript from "../../src/research/cron/JobScript.ts"
import * as GitCommand from "../../src/research/swe/GitCommand.ts"
import * as StdioPipe from "../../src/tools/mcp/StdioPipe.ts"
import * as Scanner from "../../src/tools/fence/Scanner.ts"
import { machine as programMachine } from "../support/hermes.ts"
import { markAsRepository, temporaryDirectory } from "../support/temporaryDirectory.ts"

const stands =
  spawnSync("bwrap", [
    "--unshare-user",
    "--unshare-net",
    "--unshare-pid",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "true"
  ]).status === 0

/** Every program that the sources name, and some that those start. */
const names = [
  "git",
  "tirith",
  "bwrap",
  "nsenter",
  "unshare",
  "sandbox-exec",
  "sh",
  "bash",
  "env",
  "node",
  "npm",
  "npx",
  "python3",
  "find",
  "tar",
  "cp",
  "ssh",
  "scp",
  "docker",
  "podman",
  "script",
  "stty",
  "setsid",
  "prlimit",
  "ps",
  "kill",
  "grep",
  "gpg",
  "gh",
  "conmon",
  "xclip",
  "xsel",
  "wl-copy",
  "wl-paste",
  "pbcopy",
  "pngpaste",
  "clip.exe",
  "xdg-open",
  "open",
  "explorer.exe",
  "vi",
  "planted-hook"
]

const scriptFor = (marker: string): string => `#!/bin/sh\n: > '${marker}'\nexit 0\n`

/** Plants the programs below a directory; `ran` lists those that ran outside of a sandbox. */
const plant = (directory: string, markers: string) => {
  for (const place of [directory, markers]) mkdirSync(place, { recursive: true })
  for (const name of names) {
    writeFileSync(join(directory, name), scriptFor(join(markers, name)))
    chmodSync(join(directory, name), 0o755)
  }
  return { ran: (): ReadonlyArray<string> => readdirSync(markers).toSorted() }
}

const systemPath = "/usr/local/bin:/usr/bin:/bin"

/** Variables that make every clipboard program one to try. */
const desktop = { WAYLAND_DISPLAY: "none", DISPLAY: ":none", WSL_DISTRO_NAME: "none" }

/** A working tree with planted programs, and a directory of it on PATH. */
const world = (entry: (tree: string) => string, directory: (tree: string) => string) =>
  // Not below the `node_modules` of this package, which no program comes from anyway.
  Effect.map(temporaryDirectory, (directoryOfTest) => {
    const home = realpathSync(directoryOfTest)
    const tree = join(home, "project")
    markAsRepository(tree)
    const { ran } = plant(directory(tree), join(home, "ran"))
    return { home, ran, tree, searchPath: [entry(tree), systemPath].join(delimiter) }
  })

type Needs = ChildProcessSpawner | FileSystem.FileSystem | Path.Path | Scope.Scope | CommandEnvironment | Environment

/**
 * What this process starts for itself, by the module that starts it. Each may fail: no program of the system need be
 * installed.
 */
const starts = (home: string, tree: string): Readonly<Record<string, Effect.Effect<unknown, unknown, Needs>>> => ({
  TreeSnapshot: Effect.gen(function* () {
    const environment = yield* CommandEnvironment
    const { take } = yield* TreeSnapshot.make(environment, {
      directory: join(home, "trees"),
      apart: [],
      home,
      isHidden: () => false
    })
    const before = yield* take(tree)
    writeFileSync(join(tree, "new"), "x")
    return yield* before.since
  }),
  Scanner: Effect.flatMap(Scanner.make({ path: "tirith", timeout: Duration.seconds(5), failOpen: true }), ({ scan }) =>
    scan("ls")
  ),
  "agent/plugin/Git": Git.cloneRepository("plugin", `file://${home}/missing`, join(home, "cloned")),
  "swe/GitCommand": GitCommand.readText(["--version"], { cwd: tree }),
  "GitCommand.copyDirectory": Effect.andThen(
    Effect.sync(() => mkdirSync(join(home, "copy"))),
    GitCommand.copyDirectory(join(tree, ".git"), join(home, "copy"))
  ),
  "Clipboard.copyText": Effect.flatMap(Clipboard.make, ({ put }) => put("text")),
  "Clipboard.picture": Effect.flatMap(Clipboard.make, ({ picture }) => picture),
  "TraceCommand.open": TraceCommand.open(join(home, "page.html"), ["planted-hook", "clip.exe"]),
  // It ends with an error: the editor is not found.
  "ConfigCommand.editFile": ConfigCommand.editFile(join(home, "file")),
  SshHost: SshHost.make({ host: "hermes.invalid", lifetime: Duration.minutes(1) }),
  Container: ContainerEngine.findEngine(undefined),
  ShellHookProcess: ShellHookProcess.runProgram(
    { event: "pre_llm_call", command: "planted-hook", timeoutSeconds: 5, sandbox: "full", matcher: undefined },
    "{}",
    { cwd: tree, environment: { PATH: [join(tree, "node_modules/.bin"), ".", systemPath].join(delimiter) } }
  ),
  StdioPipe: Effect.gen(function* () {
    const ended = yield* Deferred.make<void>()
    const closed = () => Deferred.doneUnsafe(ended, Effect.void)
    const stdio = { _tag: "Stdio", command: "planted-hook", args: [], env: {}, cwd: tree, sandbox: "full" } as const
    yield* StdioPipe.open("planted", stdio, { message: () => {}, closed })
    yield* Deferred.await(ended)
  }),
  JobScript: Effect.suspend(() => {
    const path = join(home, "job.sh")
    writeFileSync(path, "git --version; planted-hook; true\n")
    return JobScript.run(path, tree, 10)
  })
})

const places: Readonly<
  Record<string, { readonly entry: (tree: string) => string; readonly directory: (tree: string) => string }>
> = {
  "node_modules/.bin, as npm run puts it on PATH": {
    entry: (tree) => join(tree, "node_modules/.bin"),
    directory: (tree) => join(tree, "node_modules/.bin")
  },
  ".": { entry: () => ".", directory: (tree) => tree },
  "an empty entry": { entry: () => "", directory: (tree) => tree },
  bin: { entry: () => "bin", directory: (tree) => join(tree, "bin") },
  "a virtual environment of the tree": {
    entry: (tree) => join(tree, ".venv/bin"),
    directory: (tree) => join(tree, ".venv/bin")
  }
}

describe("what this process starts for itself is not a program of the working tree, with PATH that begins with", () => {
  for (const [name, { directory, entry }] of Object.entries(places)) {
    it.live(name, () =>
      Effect.gen(function* () {
        const { home, ran, searchPath, tree } = yield* world(entry, directory)
        const before = { cwd: process.cwd(), path: process.env["PATH"] }
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => {
            process.chdir(before.cwd)
            process.env["PATH"] = before.path
          })
        )
        process.chdir(tree)
        process.env["PATH"] = searchPath
        const failures: Array<string> = []
        const environment = make({ ...desktop, VISUAL: "planted-hook 2>/dev/null" })
        for (const [module, start] of Object.entries(starts(home, tree))) {
          yield* Effect.scoped(Effect.exit(start)).pipe(
            Effect.provideService(Environment, environment),
            Effect.provideService(StartDirectory, () => tree),
            Effect.provideService(ProcessEnvironment, () => ({ PATH: searchPath, HOME: home })),
            Effect.provide(Layer.provideMerge(layerLocal, Layer.provideMerge(ChildProcesses.layer, NodeServices.layer)))
          )
          failures.push(...ran().map((program) => `${module}: ${program}`))
          for (const program of ran()) rmSync(join(home, "ran", program))
        }
        assert.deepStrictEqual(failures, [])
      }).pipe(Effect.scoped)
    )
  }
})

/** A command that writes the programs into a directory of the tree. */
const planting = (directory: string, markers: string): string =>
  `mkdir -p ${directory} && for n in ${names.join(" ")}; do printf "#!/bin/sh\\n: > ${markers}/$n\\n" > ${directory}/$n; /bin/chmod 755 ${directory}/$n; done; echo planted`

const turns = (directory: string, markers: string): string =>
  JSON.stringify({
    turns: [
      { text: "a", tool_calls: [{ name: "terminal", arguments: { command: planting(directory, markers) } }] },
      { text: "b", tool_calls: [{ name: "terminal", arguments: { command: "echo one > first; echo two > second" } }] },
      { text: "done" }
    ]
  })

const attack = Effect.fnUntraced(function* (backend: string, entry: (tree: string) => string, directory: string) {
  const { at, cwd, hermes, home, put } = yield* programMachine
  markAsRepository(cwd)
  const markers = join(dirname(home), "ran")
  mkdirSync(markers)
  put("turns.yaml", turns(directory, markers))
  const { code, stderr, stdout } = yield* hermes(
    ["--yolo", "-q", "go", "--script", "turns.yaml", "--format", "stream-json"],
    {
      env: {
        HERMES_TERMINAL__BACKEND: backend,
        HERMES_TRUST_FOLDER: cwd,
        PATH: [entry(cwd), systemPath].join(delimiter)
      }
    }
  )
  assert.strictEqual(code, 0, stderr + stdout)
  assert.isTrue(existsSync(at(`${directory}/git`)), stdout + stderr)
  assert.isTrue(existsSync(at("second")), stdout + stderr)
  assert.deepStrictEqual(readdirSync(markers), [])
}, Effect.scoped)

describe("a command of the program hermes plants programs, and none of them runs", () => {
  const places: ReadonlyArray<readonly [string, (tree: string) => string, string]> = [
    ["node_modules/.bin", (tree) => join(tree, "node_modules/.bin"), "node_modules/.bin"],
    ["PATH=.", () => ".", "."]
  ]
  for (const [name, entry, directory] of places) {
    it.live.skipIf(!stands)(`in a sandbox, ${name}`, () => attack("sandbox", entry, directory))
    // Without a sandbox commands have the user's PATH, and these start no program by its name.
    it.live(`without a sandbox, ${name}`, () => attack("local", entry, directory))
  }
})
