// Import directions, quarantines and file lengths of the architecture, over type-only and dynamic imports too.
import { assert, describe, it } from "@effect/vitest"
import { parseAst } from "rolldown/parseAst"
import { entries } from "./support/entries.ts"
import { type Source, sources, target, withoutComments, withoutTexts } from "./support/sources.ts"
import { below, findWing, readDoor, roomOf, wings } from "./support/wings.ts"

const all = sources()
const packaged = entries().map(({ name }) => `${name}.ts`)

const offences = (check: (source: Source) => ReadonlyArray<string>): ReadonlyArray<string> =>
  all.flatMap((source) => check(source).map((what) => `${source.path}: ${what}`))

const externals = (source: Source) => source.imports.filter(({ specifier }) => !specifier.startsWith("."))

/** Casts without a reason that are known, by file. The numbers only fall. */
const unexplainedCasts: Readonly<Record<string, number>> = {
  "hooks/ApiPayload.ts": 1,
  "hooks/Hook.ts": 2,
  "hooks/PairedEvents.ts": 2,
  "hooks/Payloads.ts": 2,
  "hooks/Sanitizer.ts": 1
}

interface Span {
  readonly start: number
  readonly end: number
}

const isSpan = (value: unknown): value is Span =>
  typeof value === "object" && value !== null && "start" in value && "end" in value

/** Lines of `as X`, other than `as const`, without a comment in the line above the cast or above its type. */
const listCastsWithoutReason = (text: string): ReadonlyArray<number> => {
  const lines = text.split("\n")
  const found: Array<number> = []
  const findLine = (offset: number): number => text.slice(0, offset).split("\n").length
  const hasReason = (line: number): boolean => /^\s*(?:[:?|&] )?\/\//.test(lines[line - 2] ?? "")
  const visit = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return
    if ("type" in value && value.type === "TSAsExpression" && "typeAnnotation" in value && isSpan(value)) {
      const { typeAnnotation: type } = value
      if (isSpan(type) && text.slice(type.start, type.end) !== "const") {
        const line = findLine(type.start)
        if (!hasReason(line) && !hasReason(findLine(value.start))) found.push(line)
      }
    }
    Object.values(value).forEach(visit)
  }
  visit(parseAst(text, { lang: "ts" }))
  return found
}

describe("Architecture", () => {
  it("every folder of src is a room", () => {
    assert.deepStrictEqual(
      all.map(({ path }) => path).filter((path) => roomOf(path) === ""),
      ["index.ts", "main.ts"]
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

  /** Imports of a module of another wing: the wing of each, the other wing, and both modules. */
  const crossings = all.flatMap((source) =>
    source.imports
      .filter(({ specifier }) => specifier.startsWith("."))
      .map(({ specifier }) => ({ from: source.path, to: target(source, specifier) }))
      .filter(({ from, to }) => findWing(to) !== undefined && findWing(from) !== findWing(to))
  )

  it("wings import those that the table names, which are below them", () => {
    const order = Object.keys(wings)
    assert.deepStrictEqual(
      Object.entries(wings).flatMap(([wing, others]) =>
        others.filter((other) => order.indexOf(other) >= order.indexOf(wing)).map((other) => `${wing} > ${other}`)
      ),
      []
    )
    const arrows = new Set(
      crossings.flatMap(({ from, to }) => (findWing(from) === undefined ? [] : [`${findWing(from)} > ${findWing(to)}`]))
    )
    const stated = Object.entries(wings).flatMap(([wing, others]) => others.map((other) => `${wing} > ${other}`))
    assert.deepStrictEqual(Array.from(arrows).toSorted(), stated.toSorted())
    assert.isAtMost(order.length, 13)
    assert.isAtMost(stated.length, 61)
  })

  it("a wing is entered by its door", () => {
    const doors = new Map(Object.keys(wings).map((wing) => [wing, readDoor(wing)]))
    assert.deepStrictEqual(
      crossings
        .filter(({ to }) => doors.get(findWing(to) ?? "")?.has(to) !== true)
        .map(({ from, to }) => `${from} imports ${to}, which is not in the door of its wing`),
      []
    )
    const entered = new Set(crossings.map(({ to }) => to))
    assert.deepStrictEqual(
      Array.from(doors.values()).flatMap(({ modules }) => modules.filter((path) => !entered.has(path))),
      [],
      "no other wing imports these modules: take them out of the door"
    )
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
      .filter((path) => path !== "kit/entry/testing.ts")
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
          .filter((one) => roomOf(one) === "kit/testing")
          .map((one) => `${path}: ${one}`)
      })
    assert.deepStrictEqual(found, [])
  })

  it("every entry has its source, and every source of an entry stands in package.json", () => {
    assert.deepStrictEqual(
      all
        .filter(({ path }) => roomOf(path) === "kit/entry")
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
    visit("store/SessionStore.ts")
    assert.isTrue(loaded.has("store/SessionBackend.ts"))
    assert.deepStrictEqual(
      Array.from(loaded).filter((path) =>
        /^store\/(sqlite|postgres|sql)\/|^base\/platform\/.*(Sql|Postgres)/.test(path)
      ),
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
      roomOf(source.path) === "base/platform" || source.path === "main.ts"
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
      if (roomOf(path) === "base/platform" || path === "main.ts") return []
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
      "tools/builtin/terminal/Shell.ts": /^/,
      "tools/builtin/ExecuteCode.ts": /Toolset\.inEnvironment\(/,
      "tools/mcp/StdioPipe.ts": /yield\* programs\.getSpawner\(/,
      "hooks/ShellHookProcess.ts": /yield\* programs\.getSpawner\(/
    }
    /** The user's own programs, each started by a command of the user's; and the guard of what children write. */
    const others = [
      "program/cli/Clipboard.ts", // the clipboard
      "program/cli/ConfigCommand.ts", // the editor
      "program/cli/TraceCommand.ts", // the browser
      "base/platform/ChildProcesses.ts", // the spawner itself
      "base/platform/InheritedDescriptors.ts", // starts a command again without what it inherited
      "base/platform/StandardStreams.ts", // starts nothing
      "agent/plugin/TypeCheck.ts", // the TypeScript compiler, which reads the files of a plugin
      "agent/plugin/NpmInstall.ts", // npm, which installs the packages of plugins without their scripts
      "agent/plugin/Git.ts", // git, which fetches plugins and runs nothing of them
      "research/swe/RemoteWorkspace.ts", // tar, which brings a workspace to the environment and back
      "research/swe/GitCommand.ts", // git over copies that a run made, without their configuration, hooks and filters
      "tools/fence/Scanner.ts" // the scanner that judges commands before they run
    ]
    // Rules for tests start their processes in the environment that they judge.
    const found = all
      .filter((source) => starts(source) && !["places", "kit/testing"].includes(roomOf(source.path)))
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
            !typeOnly && specifier.startsWith(".") && target(source, specifier) === "tools/builtin/terminal/Shell.ts"
        )
      )
      .map(({ path }) => path)
    assert.deepStrictEqual(shells.toSorted(), [
      "program/cli/interactive/ShellLine.ts",
      "research/cron/JobScript.ts",
      "research/swe/BoundedCommand.ts",
      "tools/builtin/terminal/ProcessRegistry.ts",
      "tools/builtin/terminal/TerminalHandlers.ts"
    ])
    assert.match(
      all.find(({ path }) => path === "tools/builtin/terminal/TerminalHandlers.ts")?.text ?? "",
      /Toolset\.inEnvironment\(/
    )
    for (const path of ["tools/builtin/terminal/ProcessRegistry.ts", "research/swe/BoundedCommand.ts"]) {
      assert.match(all.find((source) => source.path === path)?.text ?? "", /yield\* provide\(Shell\.make\)/)
    }
  })

  it("no process is started by a bare program name, which the working tree could have on PATH", () => {
    /** Calls that start a program by a literal that is not absolute, with the reason why it may. */
    const allowed: Record<string, string> = {
      // The spawner of another machine or of a container: the name is looked up there, where commands have that machine
      // to themselves.
      "places/RemoteScripts.ts": "sh"
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
      "program/cli/Clipboard.ts": { program: "found by TrustedPrograms" },
      "program/cli/TraceCommand.ts": { program: "found by TrustedPrograms" },
      "places/Bubblewrap.ts": { bwrap: "found in directories of the system" },
      "places/Container.ts": { program: "found by findEngine, which uses TrustedPrograms" },
      "places/ContainerEngine.ts": { program: "found by findEngine, which uses TrustedPrograms" },
      "places/ContainerTree.ts": { tar: "found by TrustedPrograms" },
      "places/RemoteEnvironment.ts": { "command.command": "a command of the environment, for the other machine" },
      "places/RemoteProcesses.ts": {
        "reached.command": "the client: ssh or the engine",
        "through.command": "the client: ssh or the engine"
      },
      "places/RemoteShell.ts": { "started.command": "the client: ssh or the engine" },
      "places/SandboxBuild.ts": {
        "start.program": "the program of the wall, found in directories of the system",
        nodePath: "this Node"
      },
      "places/ShadowGit.ts": { file: "found by TrustedPrograms; a name for another machine" },
      "places/SshHost.ts": { program: "found by TrustedPrograms", ssh: "the same" },
      "places/TreeSnapshot.ts": { program: "found by TrustedPrograms; a name for another machine" },
      "hooks/ShellHookProcess.ts": { program: "the user's; its PATH is the safe one" },
      "base/platform/ChildProcesses.ts": { "command.command": "the spawner itself" },
      "base/platform/InheritedDescriptors.ts": { program: "a shell of a system directory, or Node itself" },
      "agent/plugin/TypeCheck.ts": { nodePath: "this Node" },
      "agent/plugin/Git.ts": { git: "found by TrustedPrograms" },
      "agent/plugin/NpmInstall.ts": { npm: "found by TrustedPrograms" },
      "research/swe/GitCommand.ts": { file: "found by TrustedPrograms" },
      "research/swe/RemoteWorkspace.ts": {
        "from.tar": "found by TrustedPrograms; a name for another machine",
        "to.tar": "the same"
      },
      "tools/builtin/ExecuteCode.ts": { command: "the model's script, in the environment and with its PATH" },
      "tools/fence/Scanner.ts": { program: "found by TrustedPrograms" },
      "tools/mcp/StdioPipe.ts": { command: "the user's; its PATH is the safe one" }
    }
    const found = all.flatMap(({ path, text }) =>
      path.startsWith("kit/testing/")
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
        ({ specifier }) => specifier.startsWith(".") && target(source, specifier) === "base/platform/TrustedPrograms.ts"
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
      [/^effect\/sql\//, ["store", "base/platform", "serve/cluster"]],
      [/^effect\/cli\//, ["program/cli"]],
      [/^effect\/http-api\//, ["serve/server"]],
      [/^effect\/(cluster|workflow)\//, ["serve/cluster"]]
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
      roomOf(source.path) === "program/cli"
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
    const begun = [...packaged, "main.ts", "observe/trace/page/Page.ts", "observe/studio/page/Studio.ts"]
    const found = offences(({ lines, path }) => {
      // The build puts these files in the place of modules of Node.
      if (path.startsWith("base/platform/web/")) return []
      if (begun.includes(path) || lazy.has(path) || path.endsWith(".d.ts")) return []
      const [first, ...others] = importers.get(path) ?? []
      if (first === undefined) return ["is imported nowhere"]
      return others.length === 0 && lines < 60 ? [`has ${lines} lines for ${first} alone`] : []
    })
    assert.deepStrictEqual(found, [])
  })

  const meet = /^(program\/(?!cli\/)|agent\/[A-Z]|hooks\/|tools\/ToolRegistry\.ts$)/

  it("a cast past the type checker has its reason beside it, and where layers meet there is none", () => {
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

  it("where layers meet, every cast has its reason in the line above", () => {
    const found = all
      .filter(({ path }) => meet.test(path))
      .flatMap(({ path, text }) => listCastsWithoutReason(text).map((line) => ({ path, line })))
      .filter(({ path }, _, casts) => casts.filter((cast) => cast.path === path).length > (unexplainedCasts[path] ?? 0))
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
