// `hermes plugins` in this process: real files, a real git, no network.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { ProcessVariables } from "../../../src/base/platform/ProcessVariables.ts"
import { machine } from "../../support/hermes.ts"
import { cli } from "./capture.ts"

/** A module that tells on whoever runs it. */
const telltale =
  "import { writeFileSync } from 'node:fs'\nwriteFileSync(new URL('ran', import.meta.url), '')\nexport const register = () => {}\n"

const desk = Effect.map(machine, (one) => ({
  ...one,
  config: () => readFileSync(join(one.home, "config.yaml"), "utf8"),
  installed: (name: string) => join(one.home, "plugins", name),
  /** The folder of a plugin to install. */
  source: (name: string, manifest = `name: ${name}\nversion: "2"\n`): string => {
    one.put(`${name}/plugin.yaml`, manifest)
    one.put(`${name}/index.js`, telltale)
    return one.at(name)
  },
  plugins: (...argv: ReadonlyArray<string>) =>
    Effect.provideService(cli("plugins", ...argv), ProcessVariables, {
      PATH: process.env["PATH"],
      HOME: one.cwd,
      HERMES_HOME: one.home,
      // Those of the program change with the program.
      HERMES_BUNDLED_PLUGINS: one.at("none")
    })
}))

const git = (cwd: string, ...args: ReadonlyArray<string>): void => {
  execFileSync(
    "git",
    ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false", ...args],
    {
      cwd,
      stdio: ["ignore", "ignore", "pipe"],
      env: { PATH: process.env["PATH"], HOME: cwd, GIT_CONFIG_NOSYSTEM: "1" }
    }
  )
}

/** A folder as a repository with all its files in it. */
const commit = (folder: string): string => {
  if (!existsSync(join(folder, ".git"))) git(folder, "init", "--quiet")
  git(folder, "add", "-A")
  git(folder, "commit", "--quiet", "-m", "all of it")
  return `file://${folder}`
}

const error = (
  line: RegExp | string,
  { code, stderr, stdout }: { readonly code: number; readonly stderr: string; readonly stdout: string },
  expected = 2
) => {
  assert.deepStrictEqual({ code, stdout }, { code: expected, stdout: "" }, stderr)
  assert.match(stderr, typeof line === "string" ? new RegExp(line) : line)
}

describe("hermes plugins", () => {
  it.live("writes a new plugin that can be enabled, and never over another", () =>
    Effect.gen(function* () {
      const { config, home, installed, plugins } = yield* desk
      const made = yield* plugins("new", "my-plugin")
      assert.deepStrictEqual(
        [made.code, made.stdout.split("\n")[0]],
        [0, `wrote my-plugin in ${join(home, "plugins/my-plugin")}`]
      )
      assert.deepStrictEqual(readdirSync(installed("my-plugin")).toSorted(), [
        "index.ts",
        "plugin.yaml",
        "scenarios",
        "tsconfig.json"
      ])
      writeFileSync(join(installed("my-plugin"), "index.ts"), "// mine")
      error(/my-plugin exists already: choose another name\n$/, yield* plugins("new", "my-plugin"))
      assert.strictEqual(readFileSync(join(installed("my-plugin"), "index.ts"), "utf8"), "// mine")
      assert.strictEqual((yield* plugins("enable", "my-plugin")).code, 0)
      assert.include(config(), "my-plugin")
    })
  )

  it.live("lists what is here, with categories, in columns, lines or JSON", () =>
    Effect.gen(function* () {
      const { keep, plugins } = yield* desk
      const none = yield* plugins()
      assert.match(none.stdout, /^No plugins\. Install one with `hermes plugins install`/)
      keep(
        "plugins/observability/langfuse/plugin.yaml",
        'name: langfuse\nversion: 1.2.3\ndescription: "Traces \\e[31m"\n'
      )
      keep("plugins/mine/plugin.yaml", "name: mine\n")
      keep("plugins/mine/.git/HEAD", "ref: refs/heads/main\n")
      keep("plugins/off/plugin.yml", "name: off\n")
      keep("plugins/broken/plugin.yaml", "name: [\n")
      keep("config.yaml", "plugins: { enabled: [observability/langfuse], disabled: [off] }\n")
      const plain = yield* plugins("ls", "--plain")
      assert.deepStrictEqual(plain.stdout.split("\n"), [
        "not enabled\tmine\t\tgit\t",
        "enabled\tobservability/langfuse\t1.2.3\tuser\tTraces ␛[31m",
        "disabled\toff\t\tuser\t",
        ""
      ])
      assert.match(plain.stderr, /^Warning: plugin in .*broken is left out: /)
      assert.match((yield* plugins("list")).stdout, /^enabled {6}observability\/langfuse {2}1\.2\.3 {2}user {2}Traces/m)
      const json = yield* plugins("list", "--json", "--enabled")
      assert.deepStrictEqual(JSON.parse(json.stdout), [
        {
          name: "observability/langfuse",
          status: "enabled",
          version: "1.2.3",
          description: "Traces \u001b[31m",
          source: "user"
        }
      ])
    })
  )

  it.live("tells what is known of one without running it", () =>
    Effect.gen(function* () {
      const { keep, plugins } = yield* desk
      keep(
        "plugins/one/plugin.yaml",
        "name: one\nauthor: Somebody\nrequires_env:\n  - ONE_KEY\n  - { name: PATH, description: Where }\nhooks: [post_tool_call]\n"
      )
      keep("plugins/one/index.js", telltale)
      const { stdout } = yield* plugins("info", "one")
      assert.match(stdout, /^requires_env +ONE_KEY \(not set\), PATH \(set\)$/m)
      assert.match(stdout, /^provides_hooks +post_tool_call$/m)
      assert.deepInclude(JSON.parse((yield* plugins("info", "one", "--json")).stdout), {
        name: "one",
        kind: "standalone",
        author: "Somebody"
      })
      keep(
        "plugins/two/plugin.yaml",
        "name: two\nconfig:\n  limit: { type: number, default: 1 }\n  key: { type: string, secret: true }\n"
      )
      keep("plugins/two/index.js", telltale)
      keep("config.yaml", "plugins: { entries: { two: { limit: 5, key: kestrel-plain-words } } }\n")
      const two = yield* plugins("info", "two")
      assert.match(two.stdout, /^config +limit: number = 5, key: string \(secret\) = "<redacted>"$/m)
      assert.notInclude((yield* plugins("info", "two", "--json")).stdout, "kestrel-plain-words")
      error(/no plugin "oen": did you mean "one"\?/, yield* plugins("info", "oen"))
    })
  )

  it.live("shows the settings of a Schema, once the plugin is enabled", () =>
    Effect.gen(function* () {
      const { hermes, home, keep } = yield* machine
      const plugins = (...argv: ReadonlyArray<string>) => hermes(["plugins", ...argv])
      const schema = `Schema.Struct({
        maxTokens: Schema.Int.pipe(Schema.withDecodingDefaultKey(Effect.succeed(7))),
        apiKey: Schema.RedactedFromValue(Schema.String)
      })`
      const imports = `import * as Effect from "effect/Effect"\nimport * as Schema from "effect/Schema"\n`
      keep("plugins/typed/plugin.yaml", "name: typed\n")
      keep(
        "plugins/typed/index.js",
        `${imports}import { Plugin } from "hermes-effect"
        export default Plugin.make({ name: "typed", config: ${schema}, build: () => Effect.die("built") })\n`
      )
      keep("plugins/plain/plugin.yaml", "name: plain\n")
      keep("plugins/plain/index.js", `${imports}export const config = ${schema}\n${telltale}`)
      keep("plugins/bad/plugin.yaml", "name: bad\n")
      keep("plugins/bad/index.js", "throw new Error('broken')\n")
      const entries = "{ typed: { max_tokens: 9, api_key: kestrel-plain-words }, plain: { maxTokens: 8 } }"
      keep("config.yaml", `plugins: { entries: ${entries} }\n`)
      const before = yield* plugins("info", "plain", "--json")
      assert.deepStrictEqual(JSON.parse(before.stdout).config, [])
      assert.match(before.stderr, /^Warning: plain is not enabled, .* run `hermes plugins check plain`/m)
      assert.isFalse(existsSync(join(home, "plugins/plain/ran")))

      keep("config.yaml", `plugins: { enabled: [typed, plain, bad], entries: ${entries} }\n`)
      const typed = yield* plugins("info", "typed")
      assert.match(typed.stdout, /^config +max_tokens: integer = 9, api_key: string \(secret\) = "<redacted>"$/m)
      assert.notInclude(typed.stdout + typed.stderr, "kestrel-plain-words")
      // The required key is missing, so the plugin is not loaded, and its settings are shown all the same.
      const plain = JSON.parse((yield* plugins("info", "plain", "--json")).stdout)
      const common = { description: "", isRequired: false }
      assert.deepStrictEqual(plain.config, [
        { ...common, name: "max_tokens", type: "integer", isSecret: false, fallback: 7, value: 8 },
        { ...common, name: "api_key", type: "string", isSecret: true, isRequired: true }
      ])
      assert.match(String(plain.error), /plugins\.entries\.plain\.api_key: Missing key/)
      const bad = JSON.parse((yield* plugins("info", "bad", "--json")).stdout)
      assert.deepStrictEqual(bad.config, [])
      assert.match(String(bad.error), /its module cannot be loaded: broken/)
    })
  )

  it.live("installs a folder without running it, and enables it when asked to", () =>
    Effect.gen(function* () {
      const { at, config, installed, plugins, put, source } = yield* desk
      const folder = source(
        "sample",
        "name: sample\nrequires_env: [{ name: SAMPLE_KEY, description: From the shop }]\n"
      )
      put("sample/settings.json.example", "{}")
      put("sample/there.example", "new")
      put("sample/there", "old")
      put("sample/.git/config", "not ours")
      const first = yield* plugins("install", folder)
      assert.strictEqual(first.code, 0, first.stderr)
      assert.match(
        first.stdout,
        /^installed sample in .*\/plugins\/sample\nnot enabled: enable it with `hermes plugins enable sample`\n$/
      )
      assert.match(first.stderr, /^It needs SAMPLE_KEY \(From the shop\): set it in .*\.env$/m)
      assert.deepStrictEqual(
        ["plugin.yaml", "index.js", "settings.json", ".git", "ran"].map((name) =>
          existsSync(join(installed("sample"), name))
        ),
        [true, true, true, false, false]
      )
      assert.isFalse(existsSync(join(at("sample"), "ran")))
      assert.strictEqual(readFileSync(join(installed("sample"), "there"), "utf8"), "old")

      error(/"sample" is already installed .*--force/, yield* plugins("install", folder))
      put("sample/more.txt", "more")
      const forced = yield* plugins("install", folder, "--force", "--enable")
      assert.match(forced.stdout, /enabled sample; it takes effect in the next session/)
      assert.isTrue(existsSync(join(installed("sample"), "more.txt")))
      assert.match(config(), /enabled:\n? *(- |\[)sample/)
      const both = yield* plugins("install", folder, "--enable", "--no-enable")
      assert.strictEqual(both.code, 2)
    })
  )

  it.live("installs a repository, and updates it", () =>
    Effect.gen(function* () {
      const { installed, plugins, put, source } = yield* desk
      const folder = source("cloned")
      const url = commit(folder)
      assert.strictEqual((yield* plugins("install", url)).code, 0)
      assert.match((yield* plugins("list", "--plain")).stdout, /^not enabled\tcloned\t2\tgit\t$/m)
      assert.match((yield* plugins("update", "cloned")).stdout, /^cloned is up to date$/m)
      put("cloned/new.txt", "new")
      commit(folder)
      assert.match((yield* plugins("update", "cloned")).stdout, /^updated cloned: [0-9a-f]{8} → [0-9a-f]{8}$/m)
      assert.isTrue(existsSync(join(installed("cloned"), "new.txt")))
      assert.isFalse(existsSync(join(installed("cloned"), "ran")))

      symlinkSync("/etc/passwd", join(folder, "link"))
      commit(folder)
      error(/symbolic link or a submodule, "link"/, yield* plugins("update", "cloned"), 1)
      assert.isFalse(existsSync(join(installed("cloned"), "link")))
      writeFileSync(join(installed("cloned"), "index.js"), "// mine\n")
      error(/changes of your own/, yield* plugins("update", "cloned"), 1)
    })
  )

  it.live("runs no hook of a repository or of the machine", () =>
    Effect.gen(function* () {
      const { at, cwd, plugins, put, source } = yield* desk
      const url = commit(source("hooked"))
      put(".gitconfig", `[init]\n  templateDir = ${at("template")}\n[core]\n  hooksPath = ${at("template/hooks")}\n`)
      put("template/hooks/post-checkout", `#!/bin/sh\ntouch ${at("hook-ran")}\n`)
      execFileSync("chmod", ["+x", at("template/hooks/post-checkout")])
      const home = process.env["HOME"]
      process.env["HOME"] = cwd
      const { code, stderr } = yield* plugins("install", url).pipe(
        Effect.ensuring(
          Effect.sync(() => {
            if (home === undefined) delete process.env["HOME"]
            else process.env["HOME"] = home
          })
        )
      )
      assert.strictEqual(code, 0, stderr)
      assert.isFalse(existsSync(at("hook-ran")))
    })
  )

  it.live("refuses what leads out of its place, and what is none", () =>
    Effect.gen(function* () {
      const { at, home, plugins, put, source } = yield* desk
      error(
        /"\.\.\/evil" cannot be the name of a directory/,
        yield* plugins("install", source("escaping", "name: ../evil\n"))
      )
      assert.isFalse(existsSync(join(home, "evil")))
      error(/cannot be the name of a directory/, yield* plugins("install", source("dotted", 'name: "a b"\n')))

      const linked = source("linked")
      mkdirSync(join(linked, "deep"))
      symlinkSync("/etc/passwd", join(linked, "deep", "link"))
      error(/symbolic link, "deep\/link"/, yield* plugins("install", linked))
      error(/symbolic link, "deep\/link"/, yield* plugins("install", commit(linked)))

      put("bare/readme.md", "no manifest")
      error(/git clone failed/, yield* plugins("install", at("bare")), 1)
      error(/plugin\.yaml is missing/, yield* plugins("install", commit(at("bare"))))
      error(
        /manifest_version 3 is not supported/,
        yield* plugins("install", source("future", "name: future\nmanifest_version: 3\n"))
      )
      for (const address of [
        "http://example.org/x.git",
        "ext::sh -c true",
        "git://example.org/x",
        "nowhere",
        "--upload-pack=x"
      ]) {
        const { code } = yield* plugins("install", "--", address)
        assert.strictEqual(code, 2, address)
      }
      assert.deepStrictEqual(readdirSync(join(home, "plugins")), [])
    })
  )

  it.live("removes one, a link to one, and what the configuration says of it", () =>
    Effect.gen(function* () {
      const { config, home, installed, keep, plugins, source } = yield* desk
      const folder = source("linked")
      keep("plugins/gone/plugin.yaml", "name: gone\n")
      keep("plugins/tools/one/plugin.yaml", "name: one\n")
      symlinkSync(folder, installed("linked"))
      keep("config.yaml", "plugins:\n  enabled: [gone, linked, one, tools/one]\n")
      assert.match((yield* plugins("rm", "gone")).stdout, /^removed gone /)
      assert.match((yield* plugins("remove", "linked")).stdout, /^removed linked /)
      assert.match((yield* plugins("uninstall", "tools/one")).stdout, /^removed tools\/one /)
      assert.isTrue(existsSync(join(folder, "plugin.yaml")))
      assert.deepStrictEqual(
        ["gone", "linked", "tools/one"].map((name) => existsSync(join(home, "plugins", name))),
        [false, false, false]
      )
      assert.notMatch(config(), /gone|linked|one/)
      error(/no plugin "\.\.\/work": list them/, yield* plugins("remove", "../work"))
    })
  )
})
