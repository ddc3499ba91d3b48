// `hermes backup` and `hermes restore`: sessions, their record and the user's files, in a file and in a database.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { gunzipSync, gzipSync } from "node:zlib"
import * as ChangeContents from "../../../src/store/ChangeContents.ts"
import * as HomeFiles from "../../../src/program/cli/HomeFiles.ts"
import { CurrentTenant, formatTenantFolder } from "../../../src/store/TenantScope.ts"
import * as SqliteTenantLedger from "../../../src/store/tenants/SqliteTenantLedger.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"

/** A home with a session of two turns, memory, a skill, keys and a scheduled job. */
const makeFilled = Effect.gen(function* () {
  const place = yield* machine
  const { hermes, home, keep } = place
  const run = (...args: ReadonlyArray<string>) =>
    Effect.map(hermes(args), ({ code, stderr, stdout }) => {
      assert.strictEqual(code, 0, `${args.join(" ")}: ${stderr}`)
      return stdout
    })
  keep("config.yaml", "agent:\n  max_turns: 7\n")
  keep("memories/MEMORY.md", "The zebra sleeps.\n")
  keep("skills/stripes/SKILL.md", "---\nname: stripes\ndescription: Counts stripes\n---\nCount.\n")
  keep(".env", "OPENAI_API_KEY=not-in-it\n")
  keep("auth.json", '{"token":"not-in-it"}')
  keep("plugins/p/node_modules/x/index.js", "")
  yield* run("chat", "-q", "Reply exactly marmalade", "-Q", "--provider", "offline")
  const [session] = JSON.parse(yield* run("sessions", "list", "--json"))
  yield* run("chat", "-q", "Reply exactly second", "-Q", "--provider", "offline", "-r", session.id)
  yield* run("sessions", "rename", session.id, "breakfast")
  return { ...place, home, run, id: String(session.id) }
})

const linesOf = (path: string) => gunzipSync(readFileSync(path)).toString("utf8")

describe("hermes backup and restore", () => {
  it.live("a new home has the sessions, the record, memory and skills of the old one, and no key", () =>
    Effect.gen(function* () {
      const { at, id, run } = yield* makeFilled
      const file = at("all.backup.gz")
      const told = yield* run("backup", file)
      assert.match(told, /^1 session with 4 messages and 3 files are in .*\.env, auth\.json/)
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)
      assert.notInclude(linesOf(file), "not-in-it")
      assert.notInclude(linesOf(file), '"file":"plugins')
      const traced = yield* run("trace", "stats", id, "--json")
      // The same file again, and a file that is not a backup.
      yield* run("backup", file)

      const fresh = yield* machine
      const restored = yield* fresh.hermes(["restore", file])
      assert.deepInclude(restored, { code: 0, stdout: "Restored 1 session with 4 messages and 3 files\n" })
      assert.strictEqual(readFileSync(join(fresh.home, "memories/MEMORY.md"), "utf8"), "The zebra sleeps.\n")
      assert.include(readFileSync(join(fresh.home, "config.yaml"), "utf8"), "max_turns: 7")
      assert.isTrue(existsSync(join(fresh.home, "skills/stripes/SKILL.md")))
      assert.isFalse(existsSync(join(fresh.home, ".env")))
      assert.strictEqual((yield* fresh.hermes(["trace", "stats", "breakfast", "--json"])).stdout, traced)
      assert.include((yield* fresh.hermes(["sessions", "search", "marmalade"])).stdout, id)
      const goesOn = yield* fresh.hermes([
        "-q",
        "Reply exactly third",
        "-Q",
        "--provider",
        "offline",
        "-r",
        "breakfast"
      ])
      assert.deepInclude(goesOn, { code: 0, stdout: "third\n" })

      // Nothing is overwritten without a flag: neither sessions nor files.
      const refused = yield* fresh.hermes(["restore", file])
      assert.strictEqual(refused.code, 2)
      assert.match(refused.stderr, /the store has 1 session, .*--replace/)
      fresh.keep("memories/MEMORY.md", "Mine.\n")
      const kept = yield* fresh.hermes(["restore", file, "--only", "files"])
      assert.strictEqual(kept.code, 2)
      assert.match(kept.stderr, /memories\/MEMORY\.md would be overwritten: pass --replace/)
      assert.strictEqual(readFileSync(join(fresh.home, "memories/MEMORY.md"), "utf8"), "Mine.\n")
      assert.strictEqual((yield* fresh.hermes(["restore", file, "--replace"])).code, 0)
      assert.strictEqual(readFileSync(join(fresh.home, "memories/MEMORY.md"), "utf8"), "The zebra sleeps.\n")
      const [session] = JSON.parse((yield* fresh.hermes(["sessions", "list", "--json"])).stdout)
      assert.strictEqual(session.message_count, 4)
    })
  )

  it.live("a backup of files alone leaves the sessions, also where files are replaced", () =>
    Effect.gen(function* () {
      const { at, home, keep, run } = yield* makeFilled
      yield* run("backup", at("files.gz"), "--only", "files")
      keep("memories/MEMORY.md", "Mine.\n")
      const before = yield* run("sessions", "list", "--json")
      yield* run("restore", at("files.gz"), "--replace")
      assert.strictEqual(yield* run("sessions", "list", "--json"), before)
      assert.strictEqual(readFileSync(join(home, "memories/MEMORY.md"), "utf8"), "The zebra sleeps.\n")
      assert.deepStrictEqual(
        readdirSync(join(home, "memories")).filter((name) => name.endsWith(".restored")),
        []
      )
    })
  )

  it.live("contents of changed files come along, by the hash that names them", () =>
    Effect.gen(function* () {
      const { at, home, keep, run } = yield* makeFilled
      const text = "before the change\n"
      const hash = ChangeContents.computeHash(new TextEncoder().encode(text))
      const other = `changes/contents/ab/ab${"0".repeat(62)}`
      // Written as a runtime writes it, also for a tenant.
      const contents = ["changes/contents", `changes/contents/tenants/${formatTenantFolder("acme")}`]
      const [content = "", ofTenant = ""] = contents.map((folder) => `${folder}/${hash.slice(0, 2)}/${hash}`)
      for (const tenant of [undefined, "acme"])
        yield* ChangeContents.ChangeContents.pipe(
          Effect.flatMap((one) => one?.keep(hash, new TextEncoder().encode(text)) ?? Effect.void),
          Effect.provideService(CurrentTenant, tenant),
          Effect.provide(Layer.provide(ChangeContents.layerFile(join(home, "changes/contents")), NodeServices.layer))
        )
      keep(other, "not what its name says")
      keep("changes/trees/one/file.txt", "of this machine")
      yield* run("backup", at("changes.gz"), "--only", "files")
      assert.notInclude(linesOf(at("changes.gz")), "changes/trees")
      const fresh = yield* machine
      assert.strictEqual((yield* fresh.hermes(["restore", at("changes.gz"), "--only", "files"])).code, 0)
      for (const file of [content, ofTenant]) assert.strictEqual(readFileSync(join(fresh.home, file), "utf8"), text)
      assert.isFalse(existsSync(join(fresh.home, other)))
    })
  )

  it.live("the ledger of tenants comes along, and a restored or repeated backup frees nothing", () =>
    Effect.gen(function* () {
      const { at, hermes, home, run } = yield* makeFilled
      const openLedger = (folder: string) => SqliteTenantLedger.open(join(folder, "state.tenants.db"))
      const request = {
        tenant: "acme",
        limits: { dayTokens: 1_000 },
        prompt: { tokens: 100, nanos: 0 },
        outputNanos: 0,
        leastOutput: 10,
        wantedOutput: 200,
        expiresIn: 3_600_000,
        settled: [],
        whenHeld: "shrink"
      } as const
      yield* Effect.gen(function* () {
        const ledger = yield* openLedger(home)
        for (const id of ["a", "b"]) yield* ledger.reserve({ ...request, id })
        const usage = [{ model: "m", calls: 1, inputTokens: 90, outputTokens: 150, nanos: 7 }]
        yield* ledger.settle("acme", [{ id: "a", usage, spent: { tokens: 240, nanos: 7 } }])
      }).pipe(Effect.scoped)
      assert.include(yield* run("backup", at("all.gz")), "3 rows of the tenants' ledger")
      const fresh = yield* machine
      assert.strictEqual((yield* fresh.hermes(["restore", at("all.gz")])).code, 0)
      assert.strictEqual((yield* fresh.hermes(["restore", at("all.gz"), "--replace"])).code, 0)
      yield* Effect.gen(function* () {
        const ledger = yield* openLedger(fresh.home)
        const { reserved, spentThisMonth } = yield* ledger.balance("acme")
        assert.deepStrictEqual([spentThisMonth.tokens, reserved.tokens], [240, 300])
        assert.deepStrictEqual(
          (yield* ledger.usage()).map(({ calls, nanos }) => [calls, nanos]),
          [[1, 7]]
        )
      }).pipe(Effect.scoped)
      // A damaged row changes nothing.
      const damaged = linesOf(at("all.gz")).replace('"dayTokens":240', '"dayTokens":"240"')
      writeFileSync(at("damaged.gz"), gzipSync(damaged))
      const refused = yield* hermes(["restore", at("damaged.gz"), "--replace"])
      assert.strictEqual(refused.code, 2)
      assert.include(refused.stderr, 'row of the ledger "sums" that cannot be read')
    })
  )

  it.live("files with a key in them are named", () =>
    Effect.gen(function* () {
      const { at, hermes, keep } = yield* makeFilled
      keep(".env", "OPENAI_API_KEY=a-key-of-this-test-1234\n")
      keep("scripts/sync.sh", "curl -H 'Authorization: Bearer a-key-of-this-test-1234'\n")
      const { code, stderr } = yield* hermes(["backup", at("keys.gz")])
      assert.strictEqual(code, 0)
      assert.match(stderr, /scripts\/sync\.sh contains a key/)
      assert.notInclude(stderr, "MEMORY.md")
      assert.notInclude(stderr, "1234")
    })
  )

  it.effect("no file is written outside of the home directory, nor one that is not in a backup", () =>
    Effect.gen(function* () {
      const { at, home } = yield* machine
      mkdirSync(at("elsewhere"))
      mkdirSync(home, { recursive: true })
      symlinkSync(at("elsewhere"), join(home, "skills"))
      const write = (path: string) =>
        HomeFiles.writeFile(home, { path, isExecutable: false, bytes: new TextEncoder().encode("x") })
      for (const path of ["skills/a/b/SKILL.md", "skills/a.md", ".env", "auth.json", "../x", "cron/../../x"])
        assert.isFalse(yield* write(path), path)
      assert.deepStrictEqual(readdirSync(at("elsewhere")), [])
      // Neither a file of the name of a draft nor a link in its place is written through.
      mkdirSync(join(home, "memories"))
      writeFileSync(at("victim"), "whole")
      symlinkSync(at("victim"), join(home, "memories/A.md.restored"))
      symlinkSync(at("victim"), join(home, "memories/A.md"))
      assert.isTrue(yield* write("memories/A.md"))
      assert.strictEqual(readFileSync(at("victim"), "utf8"), "whole")
      // A file that cannot be renamed leaves nothing behind.
      mkdirSync(join(home, "memories/B.md"))
      yield* Effect.flip(write("memories/B.md"))
      assert.deepStrictEqual(readdirSync(join(home, "memories")).toSorted(), ["A.md", "A.md.restored", "B.md"])
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.live("a file that is no backup is not overwritten, and a damaged one changes nothing", () =>
    Effect.gen(function* () {
      const { at, home, hermes, run } = yield* makeFilled
      writeFileSync(at("notes.txt"), "my notes")
      const refused = yield* hermes(["backup", at("notes.txt")])
      assert.deepInclude(refused, { code: 2 })
      assert.include(refused.stderr, "exists and is not a backup")
      assert.strictEqual(readFileSync(at("notes.txt"), "utf8"), "my notes")

      yield* run("backup", at("all.gz"))
      const whole = readFileSync(at("all.gz"))
      const before = yield* run("sessions", "list", "--json")
      writeFileSync(at("cut.gz"), whole.subarray(0, whole.length - 12))
      writeFileSync(at("notes.gz"), gzipSync("my notes\n"))
      for (const name of ["cut.gz", "notes.gz", "notes.txt"]) {
        const { code, stderr } = yield* hermes(["restore", at(name), "--replace"])
        assert.strictEqual(code, 2)
        assert.include(stderr, "cannot be restored")
      }
      assert.strictEqual(yield* run("sessions", "list", "--json"), before)

      // Paths that lead out of the home directory, by their names and by a link.
      const text = linesOf(at("all.gz"))
      const hostile = ["../out.txt", "/etc/out.txt", "memories/../../out.txt", ".env", "memories\\..\\out.txt"]
      for (const path of hostile) {
        writeFileSync(at("hostile.gz"), gzipSync(text.replace('"memories/MEMORY.md"', JSON.stringify(path))))
        const { code, stderr } = yield* hermes(["restore", at("hostile.gz"), "--replace"])
        assert.deepInclude({ code, is: stderr.includes("is not a file of a backup") }, { code: 2, is: true }, path)
        assert.isFalse(HomeFiles.isAllowedPath(path))
      }
      mkdirSync(at("elsewhere"))
      symlinkSync(at("elsewhere"), join(home, "agents"))
      writeFileSync(at("linked.gz"), gzipSync(text.replace('"memories/MEMORY.md"', '"agents/out.md"')))
      const linked = yield* hermes(["restore", at("linked.gz"), "--replace", "--only", "files"])
      assert.strictEqual(linked.code, 1)
      assert.include(linked.stderr, "leads out of")
      assert.isFalse(existsSync(join(at("elsewhere"), "out.md")))
    })
  )
})

describe.skipIf(missing !== undefined)(`a database${missing === undefined ? "" : ` (skipped: ${missing})`}`, () => {
  let server: Server
  beforeAll(async () => {
    server = await startServer()
  })
  afterAll(() => server.remove())

  it.live("sessions move from the file to the database that the settings select, and back", () =>
    Effect.gen(function* () {
      const { at, id, keep, run } = yield* makeFilled
      const traced = yield* run("trace", "stats", id, "--json")
      yield* run("backup", at("file.gz"))
      keep("config.yaml", `store:\n  url: ${JSON.stringify(server.url("moved"))}\n`)
      assert.include(yield* run("sessions", "list"), "no sessions yet")
      yield* run("restore", at("file.gz"), "--only", "sessions")
      assert.strictEqual(yield* run("trace", "stats", "breakfast", "--json"), traced)
      yield* run("chat", "-q", "Reply exactly third", "-Q", "--provider", "offline", "-r", id)
      yield* run("backup", at("database.gz"), "--only", "sessions")

      const fresh = yield* machine
      assert.strictEqual((yield* fresh.hermes(["restore", at("database.gz")])).code, 0)
      const [session] = JSON.parse((yield* fresh.hermes(["sessions", "list", "--json"])).stdout)
      assert.deepInclude(session, { id, title: "breakfast", message_count: 6 })
    })
  )
})
