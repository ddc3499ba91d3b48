// Dependencies of a plugin: installed by npm from its lock file, after consent. The npm of these tests is a script that
// notes how it was called; one test calls the real npm with a registry on the loopback.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { ProcessEnvironment, ProcessVariables } from "../../../src/base/platform/ProcessVariables.ts"
import { machine } from "../../support/hermes.ts"
import { webServer } from "../../support/webServer.ts"
import { cli } from "./capture.ts"

const hash = `sha512-${"A".repeat(86)}==`

const locked = (name: string, more: object = {}) => ({
  [`node_modules/${name}`]: {
    version: "1.2.3",
    resolved: `https://registry.npmjs.org/${name}/-/${name}-1.2.3.tgz`,
    integrity: hash,
    ...more
  }
})

const makeLock = (...entries: ReadonlyArray<object>) =>
  JSON.stringify({ name: "sample", lockfileVersion: 3, packages: Object.assign({ "": {} }, ...entries) })

const packageJson = JSON.stringify({ name: "sample", type: "module", dependencies: { kestrel: "^1.2.0" } })

/** Writes down its arguments, variables and files, and installs a package. */
const fakeNpm = (folder: string, ending = "exit 0") => `#!/bin/sh
printf '%s\\n' "$@" > ${folder}/arguments
env > ${folder}/variables
ls -a > ${folder}/files
mkdir -p node_modules/kestrel
echo '{"version":"1.2.3"}' > node_modules/kestrel/package.json
${ending}
`

const desk = Effect.map(machine, (one) => {
  const bin = one.at("../bin")
  mkdirSync(bin, { recursive: true })
  const setNpm = (text: string): void => {
    writeFileSync(join(bin, "npm"), text)
    chmodSync(join(bin, "npm"), 0o755)
  }
  setNpm(fakeNpm(bin))
  const run =
    (path: string, more: Record<string, string> = {}) =>
    (...argv: ReadonlyArray<string>) =>
      cli("plugins", ...argv).pipe(
        Effect.provideService(ProcessVariables, {
          HOME: one.cwd,
          HERMES_HOME: one.home,
          HERMES_BUNDLED_PLUGINS: one.at("none"),
          OPENAI_API_KEY: "kestrel-plain-words",
          NODE_OPTIONS: "--no-warnings",
          npm_config_cache: one.at("../cache"),
          ...more
        }),
        Effect.provideService(ProcessEnvironment, () => ({ PATH: path }))
      )
  return {
    ...one,
    setNpm,
    seen: (name: string) => readFileSync(join(bin, name), "utf8"),
    hasRun: () => existsSync(join(bin, "arguments")),
    installed: (...names: ReadonlyArray<string>) => join(one.home, "plugins", ...names),
    plugins: run(`${bin}:/usr/bin:/bin`),
    run,
    source: (files: Readonly<Record<string, string>>): string => {
      const all = { "plugin.yaml": "name: sample\n", "index.js": "export const register = () => {}\n", ...files }
      for (const [name, text] of Object.entries(all)) one.put(`sample/${name}`, text)
      return one.at("sample")
    }
  }
})

const withLock = {
  "package.json": packageJson,
  "package-lock.json": makeLock(locked("kestrel"), locked("merlin", { dev: true }))
}

const git = (cwd: string, ...args: ReadonlyArray<string>): void => {
  execFileSync("git", ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false", ...args], {
    cwd,
    stdio: "ignore",
    env: { PATH: process.env["PATH"], HOME: cwd, GIT_CONFIG_NOSYSTEM: "1" }
  })
}

const commit = (folder: string): string => {
  if (!existsSync(join(folder, ".git"))) git(folder, "init", "--quiet")
  git(folder, "add", "-A")
  git(folder, "commit", "--quiet", "-m", "all of it")
  return `file://${folder}`
}

describe("dependencies of a plugin", () => {
  it.live(
    "are refused without consent, and installed with it, without scripts, secrets and settings of the plugin",
    () =>
      Effect.gen(function* () {
        const { hasRun, home, installed, plugins, seen, source } = yield* desk
        const folder = source({
          ...withLock,
          ".npmrc": "git=./evil\n",
          "node_modules/kestrel/index.js": "// the author's"
        })
        const refused = yield* plugins("install", folder)
        assert.deepStrictEqual(refused, {
          code: 2,
          stdout: "",
          stderr:
            "Error: sample needs 1 npm package from registry.npmjs.org: kestrel@1.2.3. Pass --with-dependencies to " +
            "install them without running their scripts\n"
        })
        assert.deepStrictEqual(readdirSync(join(home, "plugins")), [])
        assert.isFalse(hasRun())

        const { code, stderr } = yield* plugins("install", folder, "--with-dependencies")
        assert.strictEqual(code, 0, stderr)
        assert.deepStrictEqual(readdirSync(installed("sample/node_modules/kestrel")), ["package.json"])
        assert.deepStrictEqual(seen("arguments").split("\n").slice(0, 3), ["ci", "--ignore-scripts", "--omit=dev"])
        assert.deepStrictEqual(seen("files").trim().split("\n"), [".", "..", "package-lock.json", "package.json"])
        const names = seen("variables")
          .trim()
          .split("\n")
          .map((line) => line.split("=")[0] ?? "")
        assert.includeMembers(names, ["HOME", "PATH", "npm_config_cache"])
        for (const name of ["OPENAI_API_KEY", "NODE_OPTIONS", "HERMES_HOME"]) assert.notInclude(names, name)
        assert.deepStrictEqual(readdirSync(join(home, "plugins")), ["sample"])
      })
  )

  it.live("are refused without a lock file, and if a package cannot be verified", () =>
    Effect.gen(function* () {
      const { hasRun, home, plugins, put, source } = yield* desk
      const folder = source({ "package.json": packageJson })
      const cases: ReadonlyArray<readonly [string | undefined, RegExp]> = [
        [undefined, /no lock file: run `npm install --package-lock-only` in the folder of the plugin/],
        ["[", /its package-lock\.json is not a JSON object/],
        ["{}", /has no list of packages/],
        [makeLock(locked("kestrel", { integrity: undefined })), /"kestrel" has no SHA-2 hash/],
        [makeLock(locked("kestrel", { integrity: "sha1-AAAA" })), /"kestrel" has no SHA-2 hash/],
        [makeLock(locked("kestrel", { resolved: "git+ssh://git@example.org/k.git" })), /comes from git\+ssh:/],
        [makeLock(locked("kestrel", { resolved: "file:../k.tgz" })), /comes from file:/],
        [makeLock({ "node_modules/kestrel": { link: true, resolved: "../.." } }), /"kestrel" is a link to a folder/]
      ]
      for (const [lock, message] of cases) {
        if (lock !== undefined) put("sample/package-lock.json", lock)
        const { code, stderr, stdout } = yield* plugins("install", folder, "--with-dependencies")
        assert.deepStrictEqual([code, stdout, stderr.trim().split("\n").length], [2, "", 1], stderr)
        assert.match(stderr, message)
      }
      assert.isFalse(hasRun())
      assert.deepStrictEqual(readdirSync(join(home, "plugins")), [])
    })
  )

  it.live("that cannot be installed leave nothing, and one line that says why", () =>
    Effect.gen(function* () {
      const { at, home, plugins, run, setNpm, source } = yield* desk
      const folder = source(withLock)
      const cases: ReadonlyArray<readonly [string, RegExp]> = [
        [
          "npm error code EINTEGRITY\nnpm error sha512-x integrity checksum failed",
          /does not match its hash in the lock file/
        ],
        [
          "npm error code ENOTFOUND\nnpm error network x",
          /the registry cannot be reached \(ENOTFOUND\): check the network/
        ],
        ["npm error code EUSAGE\nnpm error\nnpm error in sync", /its lock file does not match its package\.json/],
        ["npm error code E404\nnpm error 404 Not Found", /npm ci failed: E404: 404 Not Found$/m],
        ["", /npm ci failed: exit code 7$/m]
      ]
      for (const [said, message] of cases) {
        setNpm(fakeNpm(at("../bin"), `printf '${said.replaceAll("\n", "\\n")}\\n' >&2\nexit 7`))
        const { code, stderr, stdout } = yield* plugins("install", folder, "--with-dependencies")
        assert.deepStrictEqual([code, stdout, stderr.trim().split("\n").length], [1, "", 1], stderr)
        assert.match(stderr, message)
        assert.deepStrictEqual(readdirSync(join(home, "plugins")), [])
      }
      mkdirSync(at("../empty"))
      const without = yield* run(at("../empty"))("install", folder, "--with-dependencies")
      assert.strictEqual(without.code, 1)
      assert.match(without.stderr, /its dependencies need `npm`, which is not installed: install Node with npm$/m)
      assert.deepStrictEqual(readdirSync(join(home, "plugins")), [])
    })
  )

  it.live("are updated with the plugin; if that fails, the plugin keeps its version and its packages", () =>
    Effect.gen(function* () {
      const { at, home, installed, plugins, put, setNpm, source } = yield* desk
      const folder = source(withLock)
      assert.strictEqual((yield* plugins("install", commit(folder), "--with-dependencies")).code, 0)
      put("sample/new.txt", "new")
      commit(folder)
      setNpm("#!/bin/sh\nexit 9\n")
      assert.match((yield* plugins("update", "sample")).stdout, /^updated sample/)

      put("sample/package-lock.json", makeLock(locked("kestrel"), locked("osprey")))
      put("sample/newer.txt", "newer")
      commit(folder)
      const refused = yield* plugins("update", "sample")
      assert.strictEqual(refused.code, 2)
      assert.match(refused.stderr, /2 npm packages from .*: kestrel@1\.2\.3, osprey@1\.2\.3\. Pass --with-dependencies/)
      assert.strictEqual((yield* plugins("update", "sample", "--with-dependencies")).code, 1)
      assert.isFalse(existsSync(installed("sample/newer.txt")))
      assert.isTrue(existsSync(installed("sample/node_modules/kestrel/package.json")))

      setNpm(fakeNpm(at("../bin"), "mkdir node_modules/osprey"))
      const { stderr, stdout } = yield* plugins("update", "sample", "--with-dependencies")
      assert.match(stdout, /^updated sample/, stderr)
      assert.isTrue(existsSync(installed("sample/newer.txt")))
      assert.isTrue(existsSync(installed("sample/node_modules/osprey")))
      assert.match((yield* plugins("update", "sample")).stdout, /^sample is up to date/)
      assert.deepStrictEqual(readdirSync(join(home, "plugins")), ["sample"])
    })
  )

  it.live("come from the registry of the user's npm, and must have the hash of the lock file", (context) =>
    Effect.gen(function* () {
      const { at, home, installed, put, run, source } = yield* desk
      const path = "/usr/local/bin:/usr/bin:/bin"
      if (spawnSync("npm", ["--version"], { env: { PATH: path } }).status !== 0) return context.skip()
      put("kestrel/package/package.json", '{"name":"kestrel","version":"1.2.3","scripts":{"install":"touch ran"}}')
      put("kestrel/package/index.js", "module.exports = 5\n")
      execFileSync("tar", ["-czf", at("kestrel.tgz"), "-C", at("kestrel"), "package"])
      const tarball = readFileSync(at("kestrel.tgz"))
      const integrity = `sha512-${createHash("sha512").update(tarball).digest("base64")}`
      const registry = yield* webServer((_, response) => void response.end(tarball))
      const makeFiles = (integrity: string) => ({
        "package.json": packageJson,
        "package-lock.json": makeLock(
          { "": { name: "sample", dependencies: { kestrel: "^1.2.0" } } },
          locked("kestrel", { resolved: `${registry}/kestrel.tgz`, integrity })
        )
      })
      const plugins = run(path, { npm_config_registry: `${registry}/` })
      const bad = yield* plugins("install", source(makeFiles(hash)), "--with-dependencies")
      assert.deepStrictEqual([bad.code, bad.stderr.trim().split("\n").length], [1, 1], bad.stderr)
      assert.match(bad.stderr, /does not match its hash in the lock file/)
      assert.deepStrictEqual(readdirSync(join(home, "plugins")), [])
      const good = yield* plugins("install", source(makeFiles(integrity)), "--with-dependencies")
      assert.strictEqual(good.code, 0, good.stderr)
      assert.deepStrictEqual(readdirSync(installed("sample/node_modules/kestrel")).toSorted(), [
        "index.js",
        "package.json"
      ])
    })
  )
})
