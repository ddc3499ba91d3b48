// Import directions, quarantines and file lengths of the architecture, over type-only and dynamic imports too.
import { assert, describe, it } from "@effect/vitest"
import { entries } from "./support/entries.ts"
import { type Source, sources, target, withoutComments, withoutTexts } from "./support/sources.ts"

/** The rooms that each room may import, besides itself and effect. */
const below: Record<string, ReadonlyArray<string>> = {
  domain: [],
  platform: ["domain"],
  config: ["domain", "platform"],
  environment: ["domain", "platform", "config"],
  provider: ["domain", "platform"],
  session: ["domain", "platform"],
  hooks: ["domain", "platform", "config", "environment"],
  middleware: ["domain", "hooks"],
  routing: ["domain", "platform", "config", "provider", "hooks", "middleware"],
  prompt: ["domain", "config", "session", "routing"],
  tool: ["domain", "platform", "config", "session", "environment", "hooks", "middleware", "routing", "prompt"],
  agent: [
    "domain",
    "platform",
    "config",
    "provider",
    "session",
    "environment",
    "hooks",
    "middleware",
    "routing",
    "prompt",
    "tool"
  ],
  builtin: [
    "domain",
    "platform",
    "config",
    "provider",
    "session",
    "environment",
    "hooks",
    "middleware",
    "routing",
    "prompt",
    "tool"
  ],
  plugin: ["domain", "platform", "config", "provider", "hooks", "middleware", "routing", "tool"],
  observability: ["domain", "platform", "config", "session", "hooks", "middleware", "plugin"]
}
const upToAgent = Object.keys(below)
below["host"] = upToAgent.filter((room) => room !== "observability" && room !== "builtin")
below["runner"] = [...upToAgent, "host"]
below["cluster"] = [...upToAgent, "host"]
below["server"] = [...upToAgent, "host"]
below["cli"] = [...upToAgent, "host", "runner", "cluster", "server"]
// The root, `Runtime.ts`, is the room without a name.
below["testing"] = [...upToAgent, ""]
below["promise"] = [...upToAgent, "host", ""]
below["entry"] = [...upToAgent, "", "host", "runner", "cluster", "server", "testing", "promise"]

const roomOf = (path: string): string => (path.includes("/") ? path.slice(0, path.indexOf("/")) : "")

const all = sources()
const packaged = entries().map(({ name }) => `${name}.ts`)

const offences = (check: (source: Source) => ReadonlyArray<string>): ReadonlyArray<string> =>
  all.flatMap((source) => check(source).map((what) => `${source.path}: ${what}`))

const externals = (source: Source) => source.imports.filter(({ specifier }) => !specifier.startsWith("."))

describe("Architecture", () => {
  it("every folder of src is a room", () => {
    const rooms = new Set(all.map(({ path }) => roomOf(path)).filter((room) => room !== "" && room !== "internal"))
    assert.deepStrictEqual(
      Array.from(rooms).filter((room) => !Object.hasOwn(below, room)),
      []
    )
  })

  it("imports point down", () => {
    const found = offences((source) => {
      const room = roomOf(source.path)
      const allowed = below[room]
      if (allowed === undefined) return []
      return source.imports.flatMap(({ specifier }) => {
        if (!specifier.startsWith(".")) return []
        const other = roomOf(target(source, specifier))
        return other === room || allowed.includes(other) ? [] : [`imports ${specifier}`]
      })
    })
    assert.deepStrictEqual(found, [])
  })

  /** Modules that are loaded with each module. */
  const loads = new Map(
    all.map((source) => [
      source.path,
      source.imports
        .filter(({ dynamic, specifier, typeOnly }) => !dynamic && !typeOnly && specifier.startsWith("."))
        .map(({ specifier }) => target(source, specifier))
    ])
  )

  it("entries of the package load nothing that is for tests alone", () => {
    const found = packaged
      .filter((path) => path !== "entry/testing.ts")
      .flatMap((path) => {
        const seen = new Set<string>()
        const visit = (one: string): void => {
          if (seen.has(one)) return
          seen.add(one)
          all
            .find(({ path }) => path === one)
            ?.imports.filter(({ specifier, typeOnly }) => !typeOnly && specifier.startsWith("."))
            .forEach(({ specifier }) => visit(target({ path: one, text: "", lines: 0, imports: [] }, specifier)))
        }
        visit(path)
        return Array.from(seen)
          .filter((one) => roomOf(one) === "testing")
          .map((one) => `${path}: ${one}`)
      })
    assert.deepStrictEqual(found, [])
  })

  it("every entry has its source, and every source of an entry stands in package.json", () => {
    assert.deepStrictEqual(
      all
        .filter(({ path }) => roomOf(path) === "entry")
        .map(({ path }) => path)
        .toSorted(),
      packaged.filter((path) => path !== "index.ts").toSorted()
    )
  })

  it("imports make no cycle", () => {
    const found: Array<string> = []
    const done = new Set<string>()
    const visit = (path: string, above: ReadonlyArray<string>): void => {
      if (above.includes(path)) found.push([...above.slice(above.indexOf(path)), path].join(" > "))
      if (done.has(path) || above.includes(path)) return
      for (const next of loads.get(path) ?? []) visit(next, [...above, path])
      done.add(path)
    }
    for (const path of loads.keys()) visit(path, [])
    assert.deepStrictEqual(found, [])
  })

  it("the layers of the session store load a database only when it is used", () => {
    const loaded = new Set<string>()
    const visit = (path: string): void => {
      if (loaded.has(path)) return
      loaded.add(path)
      loads.get(path)?.forEach(visit)
    }
    visit("session/SessionStore.ts")
    assert.isTrue(loaded.has("session/SessionBackend.ts"))
    assert.deepStrictEqual(
      Array.from(loaded).filter((path) => /^session\/(sqlite|postgres|sql)\/|^platform\/.*(Sql|Postgres)/.test(path)),
      []
    )
  })

  it("relative imports name their file", () => {
    const known = new Set(all.map(({ path }) => path))
    const found = offences((source) =>
      source.imports.flatMap(({ specifier }) =>
        !specifier.startsWith(".") || specifier.endsWith(".js") || known.has(target(source, specifier))
          ? []
          : [`imports ${specifier}, which is not there`]
      )
    )
    assert.deepStrictEqual(found, [])
  })

  it("node is reached only in the platform room and the program", () => {
    const found = offences((source) =>
      roomOf(source.path) === "platform" || source.path === "main.ts"
        ? []
        : externals(source)
            .filter(({ specifier }) => specifier.startsWith("node:") || specifier.startsWith("@effect/platform-node"))
            .map(({ specifier }) => `imports ${specifier}`)
    )
    assert.deepStrictEqual(found, [])
  })

  it("the process itself is reached only in the platform room and the program", () => {
    const members =
      "argv0?|cwd|chdir|env|stdin|stdout|stderr|on|once|off|addListener|prependListener|removeListener|removeAllListeners|emit|emitWarning|" +
      "exitCode|platform|arch|versions?|release|execPath|execArgv|memoryUsage|cpuUsage|resourceUsage|hrtime|nextTick|uptime|umask|title|report|abort|" +
      "ppid|get[ug]id|gete[ug]id|loadEnvFile|getBuiltinModule"
    // Values named `process` elsewhere are background processes; theirs are `exit`, `kill` and `pid`, which are no
    // functions.
    const global = new RegExp(
      `(?<![\\w$.])process\\s*\\.\\s*(?:(?:${members})\\b|(?:exit|kill)\\s*\\()|=\\s*process\\s*(?:\\n|$)|globalThis\\.process\\b`,
      "g"
    )
    const whole = /(?<![\w$.])process\s*\.\s*(?:exit|kill|pid)\b|[(,=]\s*process\s*[,)\n]/g
    const bound = /(?:const|let)\s+process\b|[({,]\s*process\s*[:,)}]/
    const found = offences(({ path, text }) => {
      if (roomOf(path) === "platform" || path === "main.ts") return []
      const code = withoutTexts(text)
      const names = Array.from(code.matchAll(global), ([match]) => match.trim())
      return bound.test(code) ? names : [...names, ...Array.from(code.matchAll(whole), ([match]) => match.trim())]
    })
    assert.deepStrictEqual(found, [])
  })

  it("processes are started through the environment, but for a few programs of the user", () => {
    const starts = (source: Source): boolean =>
      externals(source).some(
        ({ specifier, typeOnly }) =>
          !typeOnly && (specifier === "effect/process/ChildProcess" || specifier === "node:child_process")
      )
    /** Where the processes of tools, MCP servers and shell hooks are described; the environment gives the spawner. */
    const port: Record<string, RegExp> = {
      "tool/builtin/terminal/Shell.ts": /^/,
      "tool/builtin/ExecuteCode.ts": /Toolset\.inEnvironment\(/,
      "tool/mcp/StdioPipe.ts": /yield\* programs\.spawnerOf\(/,
      "hooks/ShellHookProcess.ts": /yield\* programs\.spawnerOf\(/
    }
    /** The user's own programs, each started by a command of the user's; and the guard of what children write. */
    const others = [
      "cli/Clipboard.ts", // the clipboard
      "cli/ConfigCommand.ts", // the editor
      "cli/TraceCommand.ts", // the browser
      "platform/ChildProcesses.ts", // the spawner itself
      "platform/InheritedDescriptors.ts", // starts a command again without what it inherited
      "platform/StandardStreams.ts", // starts nothing
      "plugin/Git.ts", // git, which fetches plugins and runs nothing of them
      "runner/swe/RemoteWorkspace.ts", // tar, which brings a workspace to the environment and back
      "runner/swe/GitCommand.ts", // git over copies that a run made, without their configuration, hooks and filters
      "tool/fence/Scanner.ts" // the scanner that judges commands before they run
    ]
    // Rules for tests start their processes in the environment that they judge.
    const found = all
      .filter((source) => starts(source) && !["environment", "testing"].includes(roomOf(source.path)))
      .map(({ path }) => path)
    assert.deepStrictEqual(found.toSorted(), [...Object.keys(port), ...others].toSorted())
    assert.deepStrictEqual(
      offences(({ path, text }) =>
        port[path]?.test(text) === false ? ["does not take its spawner from the environment"] : []
      ),
      []
    )
    // The shell itself: of tools in the environment; of the user (`!command`, scripts of jobs) on this machine.
    const shells = all
      .filter((source) =>
        source.imports.some(
          ({ specifier, typeOnly }) =>
            !typeOnly && specifier.startsWith(".") && target(source, specifier) === "tool/builtin/terminal/Shell.ts"
        )
      )
      .map(({ path }) => path)
    assert.deepStrictEqual(shells.toSorted(), [
      "cli/interactive/ShellLine.ts",
      "runner/cron/JobScript.ts",
      "runner/swe/BoundedCommand.ts",
      "tool/builtin/Terminal.ts",
      "tool/builtin/terminal/ProcessRegistry.ts"
    ])
    assert.match(all.find(({ path }) => path === "tool/builtin/Terminal.ts")?.text ?? "", /Toolset\.inEnvironment\(/)
    for (const path of ["tool/builtin/terminal/ProcessRegistry.ts", "runner/swe/BoundedCommand.ts"]) {
      assert.match(all.find((source) => source.path === path)?.text ?? "", /yield\* provide\(Shell\.make\)/)
    }
  })

  it("no process is started by a bare program name, which the working tree could have on PATH", () => {
    /** Calls that start a program by a literal that is not absolute, with the reason why it may. */
    const allowed: Record<string, string> = {
      // The spawner of another machine or of a container: the name is looked up there, where commands have that machine
      // to themselves.
      "environment/RemoteFiles.ts": "sh"
    }
    const called =
      /(?:ChildProcess\s*\.\s*make|(?<![\w$.])(?:spawn|exec|execFile|fork)(?:Sync)?)\s*\(\s*(["'`])((?:(?!\1).)*)\1/g
    const found = offences(({ path, text }) => {
      const code = withoutComments(text)
      const literals = Array.from(code.matchAll(called), ([, , name = ""]) => name)
      return literals
        .filter((name) => !/^(?:\/|\$\{)/.test(name) && allowed[path] !== name)
        .map((name) => `starts "${name}"`)
    })
    assert.deepStrictEqual(found, [])
    // A template makes a command too.
    assert.deepStrictEqual(
      offences(({ text }) =>
        /ChildProcess\s*\.\s*make\s*`/.test(withoutComments(text)) ? ["starts a program by a template"] : []
      ),
      []
    )
    assert.deepStrictEqual(
      Object.entries(allowed).flatMap(([path, name]) =>
        all.find((source) => source.path === path)?.text.includes(`"${name}"`) === true ? [] : [path]
      ),
      []
    )
  })

  it("a program whose name is computed is looked up, or is one that the user or the model named", () => {
    const computed = /ChildProcess\s*\.\s*make\s*\(\s*(?!yield\* TrustedPrograms\.find\()([A-Za-z_$][\w$.]*)/g
    /** Values that are absolute paths, or names for another machine, or names that the user wrote; by file. */
    const values: Record<string, Record<string, string>> = {
      "cli/Clipboard.ts": { program: "found by TrustedPrograms" },
      "cli/TraceCommand.ts": { program: "found by TrustedPrograms" },
      "environment/Bubblewrap.ts": { bwrap: "found in directories of the system" },
      "environment/Container.ts": {
        program: "found by findEngine, which uses TrustedPrograms",
        tar: "found by TrustedPrograms"
      },
      "environment/RemoteEnvironment.ts": { "command.command": "a command of the environment, for the other machine" },
      "environment/RemoteProcesses.ts": {
        "reached.command": "the client: ssh or the engine",
        "through.command": "the client: ssh or the engine"
      },
      "environment/RemoteShell.ts": { "started.command": "the client: ssh or the engine" },
      "environment/Sandbox.ts": {
        "start.program": "the program of the wall, found in directories of the system",
        nodePath: "this Node"
      },
      "environment/ShadowRepository.ts": { file: "found by TrustedPrograms; a name for another machine" },
      "environment/SshHost.ts": { program: "found by TrustedPrograms", ssh: "the same" },
      "environment/TreeSnapshot.ts": { program: "found by TrustedPrograms; a name for another machine" },
      "hooks/ShellHookProcess.ts": { program: "the user's; its PATH is the safe one" },
      "platform/ChildProcesses.ts": { "command.command": "the spawner itself" },
      "platform/InheritedDescriptors.ts": { program: "a shell of a system directory, or Node itself" },
      "plugin/Git.ts": { git: "found by TrustedPrograms" },
      "runner/swe/GitCommand.ts": { file: "found by TrustedPrograms" },
      "runner/swe/RemoteWorkspace.ts": {
        "from.tar": "found by TrustedPrograms; a name for another machine",
        "to.tar": "the same"
      },
      "tool/builtin/ExecuteCode.ts": { command: "the model's script, in the environment and with its PATH" },
      "tool/fence/Scanner.ts": { program: "found by TrustedPrograms" },
      "tool/mcp/StdioPipe.ts": { command: "the user's; its PATH is the safe one" }
    }
    const found = all.flatMap(({ path, text }) =>
      path.startsWith("testing/")
        ? []
        : Array.from(withoutComments(text).matchAll(computed), ([, name = ""]) => ({ path, name }))
    )
    assert.deepStrictEqual(
      found.filter(({ name, path }) => values[path]?.[name] === undefined).map(({ name, path }) => `${path}: ${name}`),
      []
    )
    const listed = Object.entries(values).flatMap(([path, names]) =>
      Object.keys(names).map((name) => `${path}: ${name}`)
    )
    assert.deepStrictEqual(
      listed.filter((one) => !found.some(({ name, path }) => one === `${path}: ${name}`)),
      []
    )
    // What says that it is found by TrustedPrograms uses it.
    const users = all.filter((source) =>
      source.imports.some(
        ({ specifier }) => specifier.startsWith(".") && target(source, specifier) === "platform/TrustedPrograms.ts"
      )
    )
    const named = Object.entries(values)
      .filter(([, names]) => Object.values(names).some((reason) => /TrustedPrograms|safe one/.test(reason)))
      .map(([path]) => path)
    assert.deepStrictEqual(
      named.filter((path) => !users.some((source) => source.path === path)),
      []
    )
  })

  it("heavy dependencies are loaded only when they are used, each in one place", () => {
    const heavy =
      /^(openai|@anthropic-ai\/|@aws-sdk\/|@smithy\/|@effect\/sql-pg|node:sqlite|yaml$|effect\/encoding\/(Yaml|Toml))/
    const found = offences((source) =>
      externals(source)
        .filter(({ dynamic, specifier, typeOnly }) => heavy.test(specifier) && !dynamic && !typeOnly)
        .map(({ specifier }) => `imports ${specifier} at start`)
    )
    assert.deepStrictEqual(found, [])
    const owners = new Map<string, Set<string>>()
    for (const source of all) {
      for (const { specifier, typeOnly } of externals(source)) {
        const sdk = /^(openai|@anthropic-ai\/sdk|@aws-sdk\/[^/]+)/.exec(specifier)?.[1]
        if (sdk === undefined || typeOnly) continue
        owners.set(sdk, (owners.get(sdk) ?? new Set()).add(source.path))
      }
    }
    const shared = Array.from(owners)
      .filter(([, files]) => files.size > 1)
      .map(([sdk, files]) => `${sdk}: ${[...files].join(", ")}`)
    assert.deepStrictEqual(shared, [])
  })

  it("effect is imported by module, never whole", () => {
    const found = offences((source) =>
      externals(source)
        .filter(
          ({ specifier }) =>
            specifier === "effect" ||
            specifier === "@effect/platform-node" ||
            /^effect\/(ai|cli|cluster|crypto|encoding|http|observability|persistence|process|schema|sql|workflow)$/.test(
              specifier
            )
        )
        .map(({ specifier }) => `imports all of ${specifier}`)
    )
    assert.deepStrictEqual(found, [])
  })

  it("modules of effect that are quarantined stay in their rooms", () => {
    const homes: ReadonlyArray<readonly [RegExp, ReadonlyArray<string>]> = [
      [/^effect\/sql\//, ["session", "platform", "cluster"]],
      [/^effect\/cli\//, ["cli"]],
      [/^effect\/http-api\//, ["server"]],
      [/^effect\/(cluster|workflow)\//, ["cluster"]]
    ]
    const found = offences((source) =>
      externals(source).flatMap(({ specifier }) =>
        homes.some(([pattern, rooms]) => pattern.test(specifier) && !rooms.includes(roomOf(source.path)))
          ? [`imports ${specifier}`]
          : []
      )
    )
    assert.deepStrictEqual(found, [])
    const mcp = all.filter((source) => externals(source).some(({ specifier }) => specifier === "effect/ai/McpClient"))
    assert.isAtMost(mcp.length, 1, mcp.map(({ path }) => path).join(", "))
  })

  it("the command line never touches a provider's SDK or SQL", () => {
    const found = offences((source) =>
      roomOf(source.path) === "cli"
        ? externals(source)
            .filter(({ specifier }) =>
              /^(openai|@anthropic-ai|@aws-sdk|effect\/sql|@effect\/sql-pg|node:sqlite)/.test(specifier)
            )
            .map(({ specifier }) => `imports ${specifier}`)
        : []
    )
    assert.deepStrictEqual(found, [])
  })

  it("a short file with one importer is a part of it, and no file is without one", () => {
    const importers = new Map<string, Set<string>>()
    const lazy = new Set<string>()
    for (const source of all) {
      for (const { dynamic, specifier } of source.imports) {
        if (!specifier.startsWith(".")) continue
        const path = target(source, specifier)
        if (dynamic) lazy.add(path)
        else importers.set(path, (importers.get(path) ?? new Set()).add(source.path))
      }
    }
    // What an application, the program, and the bundle of the page begin with.
    const begun = [...packaged, "main.ts", "observability/trace/page/Page.ts", "observability/studio/page/Studio.ts"]
    const found = offences(({ lines, path }) => {
      if (begun.includes(path) || lazy.has(path) || path.endsWith(".d.ts")) return []
      const [first, ...others] = importers.get(path) ?? []
      if (first === undefined) return ["is imported nowhere"]
      return others.length === 0 && lines < 60 ? [`has ${lines} lines for ${first} alone`] : []
    })
    assert.deepStrictEqual(found, [])
  })

  it("a cast past the type checker has its reason beside it, and where layers meet there is none", () => {
    const meet = /^(Runtime\.ts$|internal\/|agent\/|hooks\/|tool\/ToolRegistry\.ts$)/
    const found = offences(({ path, text }) => {
      const lines = text.split("\n")
      return lines.flatMap((line, index) => {
        if (!/\bas (unknown as|never)\b/.test(line) || /^\s*(\*|\/[/*])/.test(line)) return []
        if (meet.test(path)) return [`line ${index + 1} casts where layers meet`]
        return lines.slice(Math.max(0, index - 2), index).some((before) => /^\s*\/\//.test(before))
          ? []
          : [`line ${index + 1} casts without a reason`]
      })
    })
    assert.deepStrictEqual(found, [])
  })

  it("layers of public modules are members of the module, so that an application writes a name once", () => {
    const modules = all
      .filter(({ path }) => packaged.includes(path))
      .flatMap((entry) =>
        Array.from(entry.text.matchAll(/export \* as \w+ from "(\..+)"/g), ([, specifier = ""]) =>
          target(entry, specifier)
        )
      )
    assert.isAbove(modules.length, 50)
    const found = offences(({ path, text }) =>
      modules.includes(path)
        ? Array.from(text.matchAll(/^\s+static (?:readonly )?((?:layer|make)\w*)/gm), (match) => `static ${match[1]}`)
        : []
    )
    assert.deepStrictEqual(found, [])
  })

  it("files stay short", () => {
    const lengths = all.map(({ lines }) => lines).toSorted((a, b) => a - b)
    assert.isAtMost(lengths[lengths.length >> 1] ?? 0, 175, "median lines")
    assert.deepStrictEqual(
      offences(({ lines }) => (lines > 700 ? [`has ${lines} lines`] : [])),
      []
    )
  })
})
