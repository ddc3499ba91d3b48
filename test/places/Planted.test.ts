// Attacks that wait: a command leaves something from which a program of the user runs later. After each command a user
// opens a shell, an editor, git, npm, another agent and hermes again; a payload that runs then is a defect. Everything
// lies in a directory of the test, and payloads write a mark there.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawnSync } from "node:child_process"
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { dirname, join } from "node:path"
import { Agent, Approvals, FileTools, Runtime, Scripted, TerminalTools } from "../../src/index.ts"
import * as InteractiveMode from "../../src/tools/approval/InteractiveMode.ts"
import { makeLastingDirectory } from "../support/temporaryDirectory.ts"

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

const put = (file: string, text: string) => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text, { mode: 0o755 })
}

/** Programs of the user, each of which runs the files that the real one reads unasked. */
const user = `
play() { while read -r f; do [ -f "$f" ] && sh "$f" </dev/null; done; }
# A shell that enters directories, with a prompt that was cached.
find . -path ./node_modules -prune -o \\( -name .envrc -o -name mise.toml \\) -print | play
ls -d "$HOME"/.cache/*.zsh "$HOME"/.cache/pre-commit/* "$HOME"/.m2/repository/*.jar 2>/dev/null | play
# An editor.
find . -path ./node_modules -prune -o \\( -path '*/.vscode/*' -o -path '*/.idea/*' -o -path '*/.devcontainer/*' -o -name .exrc -o -name .nvim.lua \\) -print | play
# Other agents.
find . -path ./node_modules -prune -o \\( -name .mcp.json -o -path '*/.cursor/*' -o -path '*/.claude/settings*.json' -o -path '*/.hermes/*' \\) -print | play
# git, by its own program, and what runs with it.
git status >/dev/null 2>&1; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x >/dev/null 2>&1
find . -path ./node_modules -prune -o \\( -name .gitmodules -o -name .pre-commit-config.yaml -o -path '*/.husky/*' \\) -print | play
# A package manager.
find . -path ./node_modules -prune -o \\( -name .npmrc -o -name .yarnrc.yml -o -name .pnpmfile.cjs \\) -print | play
ls -d "$HOME"/.npm/_npx/* 2>/dev/null | play
# hermes.
ls -d node_modules/.bin/hermes node_modules/hermes-effect/dist/* node_modules/effect/* dist/* src/* 2>/dev/null | play
exit 0
`

/** Text that marks that it ran. */
const payload = '\': > "$PAYLOADS.$(basename "$0")"\''
const plant = (file: string): string => `mkdir -p "$(dirname '${file}')"; echo ${payload} > '${file}'`

const files = [
  ".vscode/tasks.json",
  ".vscode/settings.json",
  ".idea/workspace.xml",
  ".envrc",
  ".mcp.json",
  ".husky/pre-commit",
  ".husky/_/h",
  ".pre-commit-config.yaml",
  ".claude/settings.json",
  ".claude/settings.local.json",
  ".cursor/mcp.json",
  ".cursor/rules/a.mdc",
  ".devcontainer/devcontainer.json",
  ".gitmodules",
  ".exrc",
  ".nvim.lua",
  ".npmrc",
  ".yarnrc.yml",
  ".pnpmfile.cjs",
  "mise.toml",
  ".hermes/config.yaml"
]

const attacks: ReadonlyArray<readonly [name: string, command: string]> = [
  ["files", files.map(plant).join("; ")],
  ["files of a package", files.map((file) => plant(`packages/a/${file}`)).join("; ")],
  ["files of a new directory", files.map((file) => plant(`made/deep/${file}`)).join("; ")],
  ["core.hooksPath", `git config core.hooksPath planted; ${plant("planted/pre-commit")}; chmod +x planted/pre-commit`],
  [
    "the directory that core.hooksPath names",
    `${plant("hooks-of-team/pre-commit")}; ${plant("hooks-of-team/post-commit")}; chmod +x hooks-of-team/*`
  ],
  ["that directory, replaced", `mv hooks-of-team gone; ${plant("hooks-of-team/pre-commit")}; chmod +x hooks-of-team/*`],
  ["a directory moved in", `${plant("x/tasks.json")}; mv x packages/b/.vscode`],
  [
    "a link",
    `${plant("evil/tasks.json")}; ln -s evil .zed; ln -s evil packages/b/.idea; ln -s ../../evil packages/b/.vscode`
  ],
  [
    "a link that is there",
    `rm .vscode-link/x 2>/dev/null; ${plant("theirs/tasks.json")}; rm linked/.vscode; ${plant("linked/.vscode/tasks.json")}`
  ],
  ["a directory above, replaced", `mv packages old; ${plant("packages/a/.npmrc")}`],
  ["a directory that cannot be read", `${plant("closed/.envrc")}; chmod 311 closed`],
  ["a directory that cannot be written", `${plant("fixed/.envrc")}; chmod 555 fixed`],
  ["behind many directories", `seq -f many%g 1200 | xargs mkdir; ${plant("packages/b/.envrc")}; true`],
  ["without them", "rm -r many*"],
  [
    "a process that stays",
    `(setsid sh -c 'sleep 0.2; echo ${payload.replaceAll("'", "")} > .envrc' >/dev/null 2>&1 &) ; exit 0`
  ],
  ["a prompt in the cache", plant("$HOME/.cache/p10k.zsh").replaceAll("'$HOME", '"$HOME"\'')],
  ["hooks in the cache", plant("$HOME/.cache/pre-commit/hook").replaceAll("'$HOME", '"$HOME"\'')],
  ["a package in the cache", plant("$HOME/.npm/_npx/tool").replaceAll("'$HOME", '"$HOME"\'')],
  ["a plugin in the cache", plant("$HOME/.m2/repository/plugin.jar").replaceAll("'$HOME", '"$HOME"\'')],
  ["hermes", plant("node_modules/hermes-effect/dist/bin.js")],
  ["hermes, moved", `mv node_modules/hermes-effect node_modules/h; ${plant("node_modules/hermes-effect/dist/bin.js")}`],
  ["node_modules, moved", `mv node_modules n; ${plant("node_modules/hermes-effect/dist/bin.js")}`],
  ["a dependency of hermes", plant("node_modules/effect/index.js")],
  ["the command hermes", `rm node_modules/.bin/hermes; echo ${payload} > node_modules/.bin/hermes`],
  ["the command hermes, by another link", `echo ${payload} > evil.js; ln -sf ../../evil.js node_modules/.bin/hermes`]
]

/** A home with a project that has been worked in. */
const makeMachine = (uid: number | undefined) => {
  const home = makeLastingDirectory("planted-")
  const tree = join(home, "project")
  mkdirSync(tree)
  for (const name of [".cache", ".npm", ".m2/repository", ".hermes"]) mkdirSync(join(home, name), { recursive: true })
  spawnSync("git", ["init", "-q", "--template=", tree])
  spawnSync("git", ["-C", tree, "config", "core.hooksPath", "hooks-of-team"])
  put(join(tree, "hooks-of-team/pre-commit"), "exit 0\n")
  put(join(tree, ".vscode/settings.json"), "#theirs\n")
  put(join(tree, "packages/a/.npmrc"), "#theirs\n")
  put(join(tree, "packages/a/.env"), "PRIVATE=1\n")
  put(join(tree, "packages/b/index.js"), "")
  put(join(tree, "linked/settings/tasks.json"), "#theirs\n")
  symlinkSync("settings", join(tree, "linked/.vscode"))
  put(
    join(tree, "node_modules/hermes-effect/package.json"),
    JSON.stringify({ name: "hermes-effect", dependencies: { effect: "4" } })
  )
  put(join(tree, "node_modules/hermes-effect/dist/bin.js"), "exit 0\n")
  put(join(tree, "node_modules/effect/package.json"), JSON.stringify({ name: "effect" }))
  put(join(tree, "node_modules/effect/index.js"), "exit 0\n")
  put(join(tree, "node_modules/other/index.js"), "")
  mkdirSync(join(tree, "node_modules/.bin"))
  symlinkSync("../hermes-effect/dist/bin.js", join(tree, "node_modules/.bin/hermes"))
  if (uid !== undefined) spawnSync("chown", ["-R", `${uid}:${uid}`, home])
  return { home, tree }
}

interface Outcome {
  readonly command: string
  readonly out: string
  readonly code: number
  readonly moved: ReadonlyArray<string>
  readonly user: string
}

/** Runs commands in a sandbox as some user; how each went. */
const run = (
  { home, tree }: ReturnType<typeof makeMachine>,
  commands: ReadonlyArray<string>,
  {
    module,
    uid,
    writable = []
  }: { readonly module: string; readonly uid: number | undefined; readonly writable?: ReadonlyArray<string> }
): ReadonlyArray<Outcome> => {
  const task = JSON.stringify({ home, tree, module, script: module, writable, commands, user })
  const ended = spawnSync(process.execPath, [join(import.meta.dirname, "../support/plantedRun.ts"), task], {
    encoding: "utf8",
    cwd: "/",
    maxBuffer: 64 * 1024 * 1024,
    env: { PATH: process.env["PATH"], HOME: home },
    ...(uid === undefined ? {} : { uid, gid: uid })
  })
  assert.strictEqual(ended.status, 0, ended.stderr)
  return ended.stdout
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line))
}

/** Attacks on a checkout in which hermes was started. */
const checkoutAttacks: ReadonlyArray<string> = [
  plant("dist/bin.js"),
  plant("dist/new.js"),
  plant("src/bin.js"),
  `mv dist old; ${plant("dist/bin.js")}`,
  `mv src old; ${plant("src/bin.js")}`,
  `rm -rf dist src; ${plant("src/bin.js")}`,
  plant("node_modules/effect/index.js"),
  `mv node_modules old; ${plant("node_modules/effect/index.js")}`,
  `cp src/bin.js t; echo ${payload} > t; mv t src/bin.js; ln -f t src/bin.js; ln -sf ../t src/bin.js`
]

const nobody = 65_534
const isRoot = process.getuid?.() === 0

/**
 * True where other users may read the sources and the packages of this checkout: every directory above lets them in.
 */
const isOpenToOthers = ((): boolean => {
  for (let path = realpathSync(new URL("../..", import.meta.url).pathname); ; path = dirname(path)) {
    if ((statSync(path).mode & 0o5) !== 0o5) return false
    if (path === dirname(path)) return true
  }
})()

const users: ReadonlyArray<readonly [name: string, uid: number | undefined, isSkipped: boolean]> = [
  ["as this user", undefined, !stands],
  ["as another user", nobody, !stands || !isRoot || !isOpenToOthers]
]

describe("nothing that a command plants runs later", () => {
  for (const [name, uid, isSkipped] of users) {
    it.skipIf(isSkipped)(`${name}, from an installed package`, () => {
      const at = makeMachine(uid)
      try {
        const outcomes = run(
          at,
          attacks.map(([, command]) => command),
          { module: join(at.tree, "node_modules/hermes-effect/dist/bin.js"), uid }
        )
        const ran = readdirSync(at.home).filter((file) => file.startsWith("ran."))
        assert.deepStrictEqual(ran, [], outcomes.map(({ moved, out }) => `${out} ${moved.join(" ")}`).join("\n---\n"))
        assert.lengthOf(outcomes, attacks.length)
        const read = (file: string) => readFileSync(join(at.tree, file), "utf8")
        assert.deepStrictEqual(
          [
            ".vscode/settings.json",
            "packages/a/.npmrc",
            "packages/a/.env",
            "node_modules/hermes-effect/dist/bin.js",
            "node_modules/effect/index.js"
          ].map(read),
          ["#theirs\n", "#theirs\n", "PRIVATE=1\n", "exit 0\n", "exit 0\n"]
        )
        assert.strictEqual(readlinkSync(join(at.tree, "node_modules/.bin/hermes")), "../hermes-effect/dist/bin.js")
        assert.isTrue(lstatSync(join(at.tree, "linked/.vscode")).isSymbolicLink())
        const moved = outcomes.flatMap((outcome) => outcome.moved)
        assert.includeMembers(moved, [
          ".envrc",
          ".cursor",
          "packages/a/.vscode",
          "made/deep/.npmrc",
          "node_modules/.bin/hermes"
        ])
        assert.isTrue(existsSync(join(at.tree, ".envrc.set-aside")), "nothing is lost")
      } finally {
        rmSync(at.home, { recursive: true, force: true })
      }
    })

    it.skipIf(isSkipped)(`${name}, from a checkout`, () => {
      const at = makeMachine(uid)
      try {
        put(join(at.tree, "package.json"), JSON.stringify({ name: "hermes-effect" }))
        for (const file of ["dist/bin.js", "src/bin.js"]) put(join(at.tree, file), "exit 0\n")
        if (uid !== undefined) spawnSync("chown", ["-R", `${uid}:${uid}`, at.home])
        const outcomes = run(at, checkoutAttacks, { module: join(at.tree, "dist/bin.js"), uid })
        assert.lengthOf(outcomes, checkoutAttacks.length)
        assert.deepStrictEqual(
          readdirSync(at.home).filter((file) => file.startsWith("ran.")),
          [],
          outcomes.map(({ out }) => out).join("\n")
        )
        assert.deepStrictEqual(
          ["dist/bin.js", "src/bin.js", "node_modules/effect/index.js"].map((file) =>
            readFileSync(join(at.tree, file), "utf8")
          ),
          ["exit 0\n", "exit 0\n", "exit 0\n"]
        )
      } finally {
        rmSync(at.home, { recursive: true, force: true })
      }
    })
  }

  it.live("without a wall, where nobody can be asked", () =>
    Effect.gen(function* () {
      const at = yield* Effect.acquireRelease(
        Effect.sync(() => makeMachine(undefined)),
        ({ home }) => Effect.sync(() => rmSync(home, { recursive: true, force: true }))
      )
      const calls = files.flatMap((file) => [
        { name: "terminal", params: { command: `echo x > ${file}` } },
        { name: "write_file", params: { path: `packages/b/${file}`, content: "x" } }
      ])
      const script = Scripted.layer([
        ...calls.map((call) => Scripted.complete({ toolCalls: [call] })),
        Scripted.complete("done")
      ])
      const runtime = Runtime.layer({
        provider: script,
        cwd: at.tree,
        approvals: Approvals.layerDeny(),
        tools: [FileTools.toolset, TerminalTools.toolset]
      })
      yield* Agent.run({ prompt: "go" }).pipe(
        Effect.provide(runtime),
        Effect.provideService(InteractiveMode.InteractiveMode, InteractiveMode.makeUnattended("single query"))
      )
      const made = files
        .flatMap((file) => [file, `packages/b/${file}`])
        .filter((file) => existsSync(join(at.tree, file)))
      // It was there before.
      assert.deepStrictEqual(made, [".vscode/settings.json"])
      assert.strictEqual(readFileSync(join(at.tree, ".vscode/settings.json"), "utf8"), "#theirs\n")
    })
  )
})
