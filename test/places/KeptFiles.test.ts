// The sandbox keeps the program, the caches of the user and files from which something runs later, and ordinary work
// goes on.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import type { PlatformError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { spawnSync } from "node:child_process"
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from "node:fs"
import { dirname, join } from "node:path"
import { bubblewrap } from "../../src/places/Bubblewrap.ts"
import { CallDirectory } from "../../src/base/domain/CallContext.ts"
import { isLaterName, isLaterPath } from "../../src/places/LaterFiles.ts"
import * as Sandbox from "../../src/places/Sandbox.ts"
import { readVariables } from "../../src/places/SandboxCaches.ts"
import { readHooksPaths, scanTree } from "../../src/places/TreeScan.ts"
import { CurrentProgram } from "../../src/base/platform/ProgramFiles.ts"
import { describeLaterRun } from "../../src/tools/fence/SensitivePaths.ts"
import { makeLastingDirectory, temporaryDirectory } from "../support/temporaryDirectory.ts"

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

const live = (name: string, test: Effect.Effect<void, unknown, Scope.Scope | NodeServices.NodeServices>) =>
  it.live.skipIf(!stands)(name, () => Effect.scoped(test).pipe(Effect.provide(NodeServices.layer)))

const put = (file: string, text: string) => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

const homeDirectory = Effect.acquireRelease(
  Effect.sync(() => makeLastingDirectory("kept-")),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
)

const makeOptions = (home: string): Sandbox.Options => ({
  policy: "workspace-write",
  network: "none",
  home,
  writable: [],
  hidden: [join(home, ".hermes")],
  shown: [],
  hidesEnvFiles: true,
  caches: { directory: join(home, ".hermes/cache/sandbox"), home, places: [".cache", ".npm", ".m2/repository"] }
})

/** A sandbox for the project of a home. */
const openSandbox = Effect.fnUntraced(function* (home: string, change: Partial<Sandbox.Options> = {}) {
  const environment = yield* Sandbox.make({ ...makeOptions(home), ...change })
  const project = join(home, "project")
  mkdirSync(project, { recursive: true })
  const sh = (script: string, directory = project) =>
    Effect.scoped(
      Effect.gen(function* () {
        const handle = yield* environment.spawner.spawn(
          ChildProcess.make("/bin/sh", ["-c", `exec 2>&1\n${script}`], {
            cwd: directory,
            stdin: "ignore",
            extendEnv: false,
            env: { PATH: "/usr/bin:/bin", HOME: home }
          })
        )
        const [out, code] = yield* Effect.all([Stream.mkString(Stream.decodeText(handle.stdout)), handle.exitCode], {
          concurrency: 2
        })
        return { out, code: Number(code) }
      })
    ).pipe(Effect.provideService(CallDirectory, directory))
  const inProject = <A, E>(effect: Effect.Effect<A, E>) => Effect.provideService(effect, CallDirectory, project)
  const moved = Effect.map(environment.planted?.take ?? Effect.succeed([]), (list) =>
    list.map(({ path }) => path.replace(`${project}/`, ""))
  )
  return { environment, files: environment.files, inProject, moved, project, sh }
})

const refused = (effect: Effect.Effect<unknown, PlatformError>) =>
  Effect.map(Effect.flip(effect), ({ message, reason }) => `${reason._tag}: ${message}`)

describe("files from which something runs later", () => {
  it("are one table for the wall, the file tools and the judge", () => {
    const names = [
      ".vscode",
      ".idea",
      ".envrc",
      ".mcp.json",
      ".husky",
      ".pre-commit-config.yaml",
      ".cursor",
      ".devcontainer",
      ".gitmodules",
      ".exrc",
      ".nvim.lua",
      ".npmrc"
    ]
    assert.deepStrictEqual(
      names.filter((name) => !isLaterName(name, "project") || describeLaterRun(`/work/a/${name}`) === undefined),
      []
    )
    assert.deepStrictEqual(
      [
        isLaterName("settings.json", ".claude"),
        isLaterName("settings.json", "project"),
        isLaterName("skills", ".claude")
      ],
      [true, false, false]
    )
    assert.isFalse(isLaterPath("src/main.ts"))
    assert.isFalse(isLaterName(".envrc.set-aside", "project"))
    assert.isFalse(isLaterName("settings.json.set-aside-2", ".claude"))
    assert.deepStrictEqual(
      readHooksPaths('[core]\n\tbare = false\n\thooksPath = .husky/_\n[core] hookspath="a b" # x\n'),
      [".husky/_", "a b"]
    )
  })

  it.effect("are found at every depth, before directories that came later", () =>
    Effect.gen(function* () {
      const tree = yield* temporaryDirectory
      put(join(tree, "packages/a/.env"), "")
      put(join(tree, "packages/a/.env.example"), "")
      put(join(tree, "packages/a/deep/.npmrc"), "")
      put(join(tree, "node_modules/x/.npmrc"), "")
      const first = yield* scanTree(tree, { home: undefined })
      const names = (list: ReadonlyArray<string>) => list.map((path) => path.replace(`${tree}/`, ""))
      assert.deepStrictEqual(names(first.environmentFiles), ["packages/a/.env"])
      assert.deepStrictEqual(names(first.laterPlaces.map(({ path }) => path)), ["packages/a/deep/.npmrc"])
      for (let number = 0; number < 1100; number++) mkdirSync(join(tree, `a${number}`))
      put(join(tree, "packages/a/deep/.envrc"), "")
      const blind = yield* scanTree(tree, { home: undefined })
      assert.notInclude(names(blind.laterPlaces.map(({ path }) => path)), "packages/a/deep/.envrc")
      const second = yield* scanTree(tree, { first: first.directories, home: undefined })
      assert.include(names(second.laterPlaces.map(({ path }) => path)), "packages/a/deep/.envrc")
      assert.lengthOf(second.directories, 1000)
    }).pipe(Effect.provide(NodeServices.layer))
  )

  live(
    "are written by file tools, which ask by themselves, also while a command runs",
    Effect.gen(function* () {
      const home = yield* homeDirectory
      put(join(home, "project/.vscode/settings.json"), "{}")
      const { files, inProject, moved, project, sh } = yield* openSandbox(home)
      assert.match((yield* sh("echo x > .vscode/settings.json; echo x > .vscode/new")).out, /Read-only[^]*Read-only/)
      yield* inProject(files.writeFileString(join(project, ".vscode/settings.json"), '{"a":1}'))
      yield* Effect.forkScoped(sh("touch started; while [ ! -e done ]; do sleep 0.05; done"))
      yield* sh("while [ ! -e started ]; do sleep 0.05; done")
      yield* inProject(files.makeDirectory(join(project, ".zed")))
      yield* inProject(files.writeFileString(join(project, ".zed/tasks.json"), "[]"))
      yield* sh("touch done")
      yield* sh("true")
      assert.deepStrictEqual(
        [
          existsSync(join(project, ".zed/tasks.json")),
          readFileSync(join(project, ".vscode/settings.json"), "utf8"),
          yield* moved
        ],
        [true, '{"a":1}', []]
      )
    })
  )

  live(
    "of the user stay, whatever a command does after he made them",
    Effect.gen(function* () {
      const { moved, project, sh } = yield* openSandbox(yield* homeDirectory)
      yield* sh("true")
      yield* Effect.sleep("1100 millis")
      put(join(project, ".envrc"), "theirs")
      put(join(project, "packages/a/.vscode/tasks.json"), "theirs")
      yield* sh("rm -rf packages .envrc; touch made")
      assert.deepStrictEqual(
        [
          readFileSync(join(project, ".envrc"), "utf8"),
          readFileSync(join(project, "packages/a/.vscode/tasks.json"), "utf8"),
          yield* moved
        ],
        ["theirs", "theirs", []]
      )
    })
  )

  live(
    "are left to commands where the settings name them",
    Effect.gen(function* () {
      const home = yield* homeDirectory
      put(join(home, "project/.vscode/settings.json"), "{}")
      const { moved, project, sh } = yield* openSandbox(home, { writable: [home, join(home, "project/.vscode")] })
      yield* sh("echo x > .vscode/settings.json; echo x > .vscode/tasks.json; echo x > .envrc")
      assert.deepStrictEqual(
        [readdirSync(join(project, ".vscode")).toSorted(), yield* moved],
        [["settings.json", "tasks.json"], [".envrc"]]
      )
    })
  )

  live(
    "are set aside by name, one after the other, and given back",
    Effect.gen(function* () {
      const { environment, project, sh } = yield* openSandbox(yield* homeDirectory)
      yield* sh("echo one > .envrc")
      yield* sh("echo two > .envrc; mkdir -p fixed/.idea; chmod 555 fixed")
      const { planted } = environment
      if (planted === undefined) return assert.fail("the sandbox looks after nothing")
      const moved = yield* planted.take
      assert.deepStrictEqual(moved.map(({ now }) => now.replace(`${project}/`, "")).toSorted(), [
        ".envrc.set-aside",
        ".envrc.set-aside-2",
        "fixed/.idea.set-aside"
      ])
      assert.strictEqual(statSync(join(project, "fixed")).mode & 0o777, 0o555)
      const [first] = moved
      if (first === undefined) return assert.fail("nothing was set aside")
      yield* planted.keep(first)
      assert.strictEqual(readFileSync(join(project, ".envrc"), "utf8"), "one\n")
      assert.match((yield* sh("echo three > .envrc")).out, /Read-only/)
      assert.deepStrictEqual(yield* planted.take, [])
    })
  )
})

describe("variables of a project", () => {
  live(
    "are hidden at every depth, from commands and file tools",
    Effect.gen(function* () {
      const home = yield* homeDirectory
      for (const name of [
        ".env",
        "apps/web/.env.local",
        "apps/web/.env.example",
        "apps/api/deep/.env",
        ".devcontainer/.env"
      ])
        put(join(home, "project", name), "PRIVATE=1")
      const { files, inProject, project, sh } = yield* openSandbox(home)
      const { out } = yield* sh(
        "cat .env .devcontainer/.env apps/web/.env.local apps/api/deep/.env; mv apps b; cat b/*/.env* b/*/*/.env; cp -r . /tmp/all; cat /tmp/all/apps/web/.env.local; echo end"
      )
      assert.notInclude(out, "PRIVATE")
      assert.strictEqual((yield* sh("cat apps/web/.env.example")).out, "PRIVATE=1")
      assert.match(
        yield* refused(inProject(files.readFileString(join(project, "apps/api/deep/.env")))),
        /^PermissionDenied/
      )
      const reading = yield* openSandbox(home, { policy: "read-only" })
      assert.notInclude((yield* reading.sh("cat apps/web/.env.local")).out, "PRIVATE")
    })
  )
})

describe("the program", () => {
  const makeCheckout = (home: string) => {
    const project = join(home, "project")
    put(join(project, ".git/HEAD"), "ref: refs/heads/main\n")
    put(join(project, "package.json"), JSON.stringify({ name: "hermes-effect" }))
    for (const name of ["dist/bin.js", "src/bin.js", "node_modules/effect/index.js", "test/a.test.ts"])
      put(join(project, name), "theirs")
    return { module: join(project, "dist/bin.js"), script: undefined, node: process.execPath }
  }

  live(
    "in its own checkout is read only, and says how to change it",
    Effect.gen(function* () {
      const home = yield* homeDirectory
      const program = makeCheckout(home)
      yield* Effect.gen(function* () {
        const { environment, files, inProject, project, sh } = yield* openSandbox(home)
        const { out } = yield* sh(
          "for f in dist/bin.js src/bin.js src/new.ts node_modules/effect/index.js package.json; do echo x > $f && echo WROTE; done; mv dist d; mv src s; echo x > test/a.test.ts && echo test"
        )
        assert.deepStrictEqual(
          out.split("\n").filter((line) => /^[a-zA-Z]+$/.test(line)),
          ["test"]
        )
        assert.include(
          environment.explain("Read-only file system", [])?.reason ?? "",
          "because hermes itself is loaded from there: only terminal.sandbox.write lets it be changed, where it names that directory"
        )
        assert.include(
          yield* refused(inProject(files.writeFileString(join(project, "src/bin.js"), "x"))),
          "hermes itself is loaded from there"
        )
        const inside = yield* sh("echo x > bin.js", join(project, "src"))
        assert.include(inside.out, "Read-only")
      }).pipe(Effect.provideService(CurrentProgram, program))
    })
  )

  live(
    "is written where the settings name its directory, and only there",
    Effect.gen(function* () {
      const home = yield* homeDirectory
      const program = makeCheckout(home)
      yield* Effect.gen(function* () {
        const one = yield* openSandbox(home, { writable: [join(home, "project/src")] })
        assert.deepStrictEqual(
          (yield* one.sh("echo x > src/bin.js && echo src; echo x > dist/bin.js || echo dist")).out
            .split("\n")
            .filter((line) => /^[a-z]+$/.test(line)),
          ["src", "dist"]
        )
        const whole = yield* openSandbox(home, { writable: [join(home, "project")] })
        assert.strictEqual((yield* whole.sh("echo x > dist/bin.js && echo x > src/bin.js && echo both")).out, "both\n")
        const above = yield* openSandbox(home, { writable: [home] })
        assert.include((yield* above.sh("echo x > dist/bin.js")).out, "Read-only", "a directory above does not name it")
      }).pipe(Effect.provideService(CurrentProgram, program))
    })
  )

  live(
    "in node_modules leaves the packages beside it to package managers",
    Effect.gen(function* () {
      const home = yield* homeDirectory
      const project = join(home, "project")
      put(join(project, "node_modules/hermes-effect/package.json"), JSON.stringify({ name: "hermes-effect" }))
      put(join(project, "node_modules/hermes-effect/dist/bin.js"), "theirs")
      put(join(project, "node_modules/old/index.js"), "")
      put(
        join(project, "local/package.json"),
        JSON.stringify({ name: "local", version: "1.0.0", bin: { local: "cli.js" } })
      )
      put(join(project, "local/cli.js"), "#!/usr/bin/env node\n")
      mkdirSync(join(project, "node_modules/.bin"))
      symlinkSync("../hermes-effect/dist/bin.js", join(project, "node_modules/.bin/hermes"))
      yield* Effect.gen(function* () {
        const { moved, sh } = yield* openSandbox(home)
        const { out } = yield* sh(
          [
            "mv node_modules/old node_modules/.old-1 && rm -r node_modules/.old-1 && echo removed",
            "mkdir node_modules/.new && mv node_modules/.new node_modules/new && ln -s ../new/cli.js node_modules/.bin/new && echo installed",
            "rm node_modules/.bin/hermes; ln -s ../hermes-effect/dist/bin.js node_modules/.bin/hermes && echo again",
            "rm -r node_modules/hermes-effect 2>/dev/null || echo kept"
          ].join("\n")
        )
        assert.deepStrictEqual(out.trim().split("\n"), ["removed", "installed", "again", "kept"])
        assert.deepStrictEqual(yield* moved, [])
      }).pipe(
        Effect.provideService(CurrentProgram, {
          module: join(project, "node_modules/hermes-effect/dist/bin.js"),
          script: undefined,
          node: process.execPath
        })
      )
    })
  )
})

describe("caches", () => {
  live(
    "are those of the project: the user's are neither written nor read, but for large data",
    Effect.gen(function* () {
      const home = yield* homeDirectory
      put(join(home, ".cache/pip/wheel"), "shared")
      put(join(home, ".cache/ms-playwright/chromium/chrome"), "browser")
      put(join(home, ".npm/_cacache/x"), "shared")
      const { sh } = yield* openSandbox(home)
      const { out } = yield* sh(
        [
          "ls ~/.cache/pip 2>/dev/null && echo SEEN; cat ~/.cache/ms-playwright/chromium/chrome; echo",
          "echo x > ~/.cache/ms-playwright/chromium/chrome && echo BROWSER",
          "mkdir -p ~/.cache/pip && echo own > ~/.cache/pip/wheel && echo own > ~/.npm/y && echo written",
          '[ -z "$XDG_CACHE_HOME" ] && echo usual; mvn=${MAVEN_ARGS#-Dmaven.repo.local=}; echo jar > $mvn/a.jar && echo moved'
        ].join("\n")
      )
      assert.deepStrictEqual(
        out.split("\n").filter((line) => /^[a-zA-Z]+$/.test(line)),
        ["browser", "written", "usual", "moved"],
        out
      )
      assert.strictEqual(
        (yield* sh("cat ~/.cache/pip/wheel ~/.npm/y")).out,
        "own\nown\n",
        "the next command of the project has them"
      )
      assert.deepStrictEqual(
        [
          readFileSync(join(home, ".cache/pip/wheel"), "utf8"),
          existsSync(join(home, ".npm/y")),
          existsSync(join(home, ".m2"))
        ],
        ["shared", false, false]
      )
      mkdirSync(join(home, "other"))
      assert.strictEqual(
        (yield* sh("cat ~/.npm/y 2>/dev/null; ls ~/.hermes/cache/sandbox | wc -l", join(home, "other"))).out,
        "1\n",
        "another project sees its own alone"
      )
    })
  )

  live(
    "leave the user's stores of packages to be read beside those of the project",
    Effect.gen(function* () {
      const home = yield* homeDirectory
      put(join(home, "go/pkg/mod/cache/download/a/@v/list"), "v1")
      put(join(home, ".config/go/env"), "GOPROXY=https://proxy.example\n")
      put(join(home, ".m2/repository/a/a.jar"), "jar")
      put(join(home, ".gradle/caches/modules-2/a"), "module")
      put(join(home, ".cargo/registry/cache/index-1/a-1.crate"), "crate")
      put(join(home, ".cargo/registry/src/index-1/a-1/lib.rs"), "source")
      const places = ["go/pkg/mod", ".m2/repository", ".gradle/caches", ".cargo/registry"]
      const { sh } = yield* openSandbox(home, {
        caches: { directory: join(home, ".hermes/cache/sandbox"), home, places }
      })
      const { out } = yield* sh(
        [
          "first=${GOPROXY%%,*}; cat ${first#file://}/a/@v/list; echo; echo ${GOPROXY#*,}",
          "tail=${MAVEN_ARGS#-Dmaven.repo.local.tail=}; cat $tail/a/a.jar; echo; cat $GRADLE_RO_DEP_CACHE/modules-2/a; echo",
          "cat ~/.cargo/registry/cache/index-1/a-1.crate; echo; cat ~/.cargo/registry/src/index-1/a-1/lib.rs; echo",
          "for f in ${first#file://}/a/@v/list $tail/a/a.jar $GRADLE_RO_DEP_CACHE/modules-2/a ~/.cargo/registry/cache/index-1/a-1.crate; do echo x 2>/dev/null > $f && echo WROTE; done",
          "echo new > ~/.cargo/registry/cache/index-1/b-1.crate && rm ~/.cargo/registry/cache/index-1/a-1.crate && mkdir -p ~/go/pkg/mod/b && echo own"
        ].join("\n")
      )
      assert.deepStrictEqual(
        out.split("\n").filter((line) => /^[a-zA-Z0-9:./]+$/.test(line)),
        ["v1", "https://proxy.example", "jar", "module", "crate", "source", "own"],
        out
      )
      assert.deepStrictEqual(
        [
          readdirSync(join(home, ".cargo/registry/cache/index-1")),
          readFileSync(join(home, ".m2/repository/a/a.jar"), "utf8"),
          readdirSync(join(home, "go/pkg/mod"))
        ],
        [["a-1.crate"], "jar", ["cache"]]
      )
    })
  )

  live(
    "of projects that were not used for a month are removed, with read-only directories",
    Effect.gen(function* () {
      const home = yield* homeDirectory
      const root = join(home, ".hermes/cache/sandbox")
      put(join(root, "old/go/pkg/mod/a/x"), "")
      spawnSync("chmod", ["-R", "a-w", join(root, "old/go")])
      put(join(root, "young/x"), "")
      const old = new Date(Date.now() - 31 * 24 * 60 * 60 * 1000)
      utimesSync(join(root, "old"), old, old)
      const { sh } = yield* openSandbox(home)
      yield* sh("true")
      while (existsSync(join(root, "old"))) yield* Effect.sleep("20 millis")
      assert.strictEqual(readdirSync(root).length, 2)
      assert.include(readdirSync(root), "young")
    })
  )

  it("are named by variables where nothing can be mounted", () => {
    assert.deepStrictEqual(
      [".cache", ".npm", ".cargo/registry", "go/pkg/mod", ".gradle/caches", ".m2/repository"].map((name) =>
        readVariables(name, `/c/${name}`)
      ),
      [
        { XDG_CACHE_HOME: "/c/.cache" },
        { npm_config_cache: "/c/.npm" },
        { CARGO_HOME: "/c/.cargo" },
        { GOMODCACHE: "/c/go/pkg/mod" },
        { GRADLE_USER_HOME: "/c/.gradle" },
        { MAVEN_ARGS: "-Dmaven.repo.local=/c/.m2/repository" }
      ]
    )
  })
})

describe("ordinary work", () => {
  it("that a held file stops is told from work that fails", () => {
    const stopped = (line: string) => bubblewrap.stoppedBy(`start\n${line}\nend`)
    assert.deepStrictEqual(
      [
        "mv: cannot move 'a' to 'b': Device or resource busy",
        "fatal: renaming 'a/x' failed: Invalid cross-device link",
        "EROFS: x",
        "EBUSY: .npmrc"
      ].map(stopped),
      ["files", "files", "files", "files"]
    )
    assert.deepStrictEqual(["warning: failed to remove .hermes/: Device or resource busy", "error: x"].map(stopped), [
      undefined,
      undefined
    ])
  })

  live(
    "goes on: repositories are cloned and branches changed, files of a project move",
    Effect.gen(function* () {
      const home = yield* homeDirectory
      const source = join(home, "source")
      spawnSync("sh", [
        "-c",
        `git init -q ${source} && cd ${source} && echo x > .npmrc && mkdir .vscode && echo '{}' > .vscode/settings.json && echo a > a && git add -A && git -c user.name=a -c user.email=a@b commit -qm one`
      ])
      const { moved, project, sh } = yield* openSandbox(home)
      const { out } = yield* sh(
        `git clone -q ${source} clone && cd clone && git log --format=%s && git checkout -q -b two && mkdir b && git mv a b/a && git status --short`
      )
      assert.strictEqual(out, "one\nR  a -> b/a\n")
      assert.deepStrictEqual((yield* moved).toSorted(), ["clone/.npmrc", "clone/.vscode"])
      assert.strictEqual(
        (yield* sh("printf '{}' > package.json; mkdir -p x/y && mv x z && rm -r z && echo done")).out,
        "done\n"
      )
      assert.isTrue(existsSync(join(project, "clone/.npmrc.set-aside")))
    })
  )
})
