// `hermes skills install npm:…`: packages of a registry on the loopback, whole, damaged and hostile.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const skill = (body = "Do it."): string => `---\nname: brew\ndescription: What brew is for\n---\n${body}\n`

const packed = Effect.map(temporaryDirectory, (root) => (files: Readonly<Record<string, string>>): Buffer => {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, "package", path)), { recursive: true })
    writeFileSync(join(root, "package", path), text)
  }
  return execFileSync("tar", ["czf", "-", "-C", root, "package"])
})

const sha512 = (bytes: Uint8Array): string => `sha512-${createHash("sha512").update(bytes).digest("base64")}`

interface Release {
  readonly tarball: Uint8Array
  readonly integrity?: string
  /** Where the tarball is said to be. */
  readonly at?: string
}

/** A registry with releases by path; keeps what it was asked for. */
const registry = (releases: Readonly<Record<string, Release>>) =>
  Effect.gen(function* () {
    const asked: Array<{ readonly url: string; readonly authorization: string | undefined }> = []
    let base = ""
    const server = yield* HttpServer.make(({ headers, url }, response) => {
      asked.push({ url, authorization: headers["authorization"] })
      const [, path = ""] = /^\/npm\/(.*)$/.exec(url) ?? []
      const release = releases[path.replace(/\.tgz$/, "")]
      if (release === undefined) return HttpServer.json(response, 404, { error: "not found" })
      if (path.endsWith(".tgz"))
        return void response.writeHead(200, { "content-type": "application/octet-stream" }).end(release.tarball)
      HttpServer.json(response, 200, {
        name: decodeURIComponent(path.slice(0, path.lastIndexOf("/"))),
        version: "1.2.0",
        dist: {
          tarball: release.at ?? `${base}${path}.tgz`,
          ...(release.integrity === undefined ? {} : { integrity: release.integrity })
        }
      })
    })
    base = `${server.url}/npm/`
    return { asked, base }
  })

describe("hermes skills install npm:", () => {
  it.live(
    "installs the skills of a package whose hash is right, from the registry of npm's configuration, and runs nothing of it",
    () =>
      Effect.gen(function* () {
        const { at, cwd, home, hermes, put } = yield* machine
        const pack = yield* packed
        const tarball = pack({
          "package.json": JSON.stringify({
            name: "@acme/skills",
            version: "1.2.0",
            scripts: { postinstall: `touch ${at("ran")}` }
          }),
          "skills/brew/SKILL.md": skill(),
          "skills/brew/references/a.md": "More."
        })
        const { asked, base } = yield* registry({
          "@acme%2Fskills/latest": { tarball, integrity: `sha1-AAAA ${sha512(tarball)}` }
        })
        // The user's own configuration counts, that of a folder does not.
        writeFileSync(
          join(dirname(home), ".npmrc"),
          `; mine\n@acme:registry = ${base}\n${base.slice("http:".length)}:_authToken=\${ACME_TOKEN}\n`
        )
        put(".npmrc", "@acme:registry=http://127.0.0.1:1/\n")
        const { code, stderr, stdout } = yield* hermes(["skills", "install", "npm:@acme/skills", "--yes"], {
          env: { ACME_TOKEN: "token-of-this-test" }
        })
        assert.strictEqual(code, 0, stderr)
        assert.include(stdout, "brew: What brew is for")
        assert.include(stderr, "@acme/skills@1.2.0: its hash matches the registry")
        assert.strictEqual(readFileSync(join(home, "skills/brew/SKILL.md"), "utf8"), skill())
        assert.strictEqual(readFileSync(join(home, "skills/brew/references/a.md"), "utf8"), "More.")
        assert.deepStrictEqual([existsSync(at("ran")), readdirSync(cwd)], [false, [".npmrc"]])
        assert.deepStrictEqual(
          asked.map(({ authorization }) => authorization),
          ["Bearer token-of-this-test", "Bearer token-of-this-test"]
        )
      })
  )

  it.live(
    "refuses a tarball that is another one, has no hash or is elsewhere in a private network, and leaves nothing behind",
    () =>
      Effect.gen(function* () {
        const { home, hermes } = yield* machine
        const tarball = (yield* packed)({ "SKILL.md": skill() })
        const other = yield* registry({})
        const { base } = yield* registry({
          "changed/latest": { tarball, integrity: sha512(Buffer.from("other")) },
          "bare/latest": { tarball },
          "weak/latest": { tarball, integrity: "sha1-AAAA" },
          "elsewhere/2.0.0": { tarball, integrity: sha512(tarball), at: `${other.base}x.tgz` }
        })
        const tried = Effect.fnUntraced(function* (
          name: string,
          env: Readonly<Record<string, string>> = { npm_config_registry: base }
        ) {
          const { code, stderr, stdout } = yield* hermes(["skills", "install", `npm:${name}`, "--yes"], { env })
          assert.deepStrictEqual([code, stdout, stderr.trimEnd().split("\n").length], [2, "", 1], stderr)
          return stderr
        })
        assert.include(yield* tried("changed"), "the tarball of changed@1.2.0 is not what 127.0.0.1:")
        assert.include(yield* tried("bare"), "names no SHA-2 hash for bare@1.2.0")
        assert.include(yield* tried("weak"), "names no SHA-2 hash for weak@1.2.0")
        assert.include(yield* tried("elsewhere@2.0.0"), "private, local or reserved address")
        assert.include(yield* tried("gone@9.9.9"), "has no package gone@9.9.9")
        assert.include(yield* tried("../up"), "this names no package: use npm:name")
        assert.include(yield* tried("x@^1.0"), "this names no package: use npm:name")
        assert.include(
          yield* tried("x", { npm_config_registry: "file:///etc" }),
          "the registry of npm's configuration is no address: file:///etc"
        )
        assert.deepStrictEqual(other.asked, [])
        assert.deepStrictEqual(readdirSync(join(home, "skills")), [])
      })
  )
})
