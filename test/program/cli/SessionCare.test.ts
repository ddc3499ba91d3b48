// Sessions are found, copied, removed, exported, imported and looked after by the program.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { existsSync, readdirSync, readFileSync, statSync, symlinkSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { gunzipSync } from "node:zlib"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import * as TarArchive from "../../../src/base/domain/TarArchive.ts"
import * as RunRecord from "../../../src/store/RunRecord.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import { sessionIdOf } from "../../support/hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { makeNewSession, makeUserMessage } from "../../support/sessionStoreConformance.ts"
import { sessions } from "../../support/stateDatabase.ts"

const key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"

const script = [
  "turns:",
  "  - { text: I look, tool_calls: [{ name: read_file, arguments: { path: notes.txt } }] }",
  "  - { text: The zebra sleeps }"
].join("\n")

/** A home with one session of two runs: six messages. */
const talked = Effect.gen(function* () {
  const at = yield* machine
  at.put("notes.txt", "a **zebra** <script>alert(1)</script>")
  at.put("one.yaml", script)
  at.put("two.yaml", "turns: [{ text: The second answer }]")
  const first = yield* at.hermes(["-Q", "-q", `where is the animal? key ${key}`, "--script", "one.yaml", "-t", "file"])
  const id = sessionIdOf(first.stderr)
  yield* at.hermes(["-Q", "-q", "and now?", "--script", "two.yaml", "--resume", id])
  return { ...at, id, database: join(at.home, "state.db") }
})

const rolesOf = (messages: ReadonlyArray<{ readonly role: string }>) => messages.map(({ role }) => role).join(" ")

describe("hermes sessions search", () => {
  it.live("finds messages of all sessions, the best first, with their places and without keys", () =>
    Effect.gen(function* () {
      const { hermes, id } = yield* talked
      const found = yield* hermes(["sessions", "search", "zebra", "--role", "assistant"])
      assert.deepInclude(found, { code: 0, stdout: `${id}\n  3 assistant: The >>>zebra<<< sleeps\n` })
      const json = JSON.parse((yield* hermes(["sessions", "search", "animal", "api03", "--json"])).stdout)
      assert.strictEqual(json.length, 1)
      assert.deepInclude(json[0], { session: id, position: 0, role: "user", title: null })
      assert.notInclude(JSON.stringify(json), "abcdefghijkl")
      assert.include(json[0].text, "where is the")
      assert.deepInclude(yield* hermes(["sessions", "search", "giraffe"]), {
        code: 0,
        stdout: "No message matches. Use fewer words, or word* for words with that beginning.\n"
      })
      assert.deepInclude(yield* hermes(["sessions", "search", '"AND (', "--json"]), { code: 0, stdout: "[]\n" })
      assert.deepInclude(
        yield* hermes(["sessions", "search", "now", "--session-id", id, "--json"]).pipe(
          Effect.map(({ stdout }) => JSON.parse(stdout)[0])
        ),
        { position: 4 }
      )
    })
  )

  it.live("of a home without sessions finds nothing and makes no database", () =>
    Effect.gen(function* () {
      const { hermes, home } = yield* machine
      for (const args of [["search", "a"], ["stats"], ["optimize"], ["repair"]])
        assert.strictEqual((yield* hermes(["sessions", ...args])).code, 0, args[0])
      assert.isFalse(existsSync(join(home, "state.db")))
    })
  )
})

describe("hermes sessions fork", () => {
  it.live("copies a session up to a step, linked to its source, and both go on alone", () =>
    Effect.gen(function* () {
      const { hermes, home, id, database } = yield* talked
      const forked = yield* hermes(["sessions", "fork", id, "--step", "1", "--title", "Other way"])
      const fork = /^(\S+) has 3 messages of (\S+)\. Continue it with: hermes --resume (\S+)\n$/.exec(forked.stdout)
      assert.strictEqual(fork?.[2], id, forked.stderr)
      const again = yield* hermes(["-Q", "-q", "once more", "--script", "two.yaml", "--resume", "Other way"])
      assert.deepInclude(again, { code: 0, stdout: "The second answer\n" })
      const all = yield* sessions(home)
      assert.deepStrictEqual(
        all.map(({ messages, session }) => [session.title, session.parentId, session.source, rolesOf(messages)]),
        [
          ["Other way", undefined, "cli", "user assistant tool user assistant"],
          [undefined, undefined, "cli", "user assistant tool assistant user assistant"]
        ]
      )
      assert.strictEqual(all[0]?.session.systemPrompt, all[1]?.session.systemPrompt)
      const links = yield* RunRecord.RunRecord.use((record) =>
        Stream.runCollect(record.read({ kinds: ["ReplayBegun"] }))
      ).pipe(Effect.provide(SessionStore.layerSqlite({ path: database })))
      assert.deepStrictEqual(
        links.map(({ event, sessionId }) => [sessionId, event]),
        [
          [
            SessionId.make(fork?.[1] ?? ""),
            { _tag: "ReplayBegun", source: SessionId.make(id), position: 3, changed: [] }
          ]
        ]
      )
      const beyond = yield* hermes(["sessions", "fork", id, "--step", "9"])
      assert.deepInclude(beyond, { code: 2, stdout: "" })
      assert.match(beyond.stderr, /^Error: --step 9 is too large: the session has fewer answers/)
    })
  )
})

describe("hermes sessions delete", () => {
  it.live("removes a session with its sub-agents after a confirmation, and its title and words are free", () =>
    Effect.gen(function* () {
      const { hermes, home, id, database } = yield* talked
      yield* SessionStore.SessionStore.use((store) =>
        Effect.andThen(
          store.create(makeNewSession("child", { parentId: SessionId.make(id), source: "subagent" })),
          store.append(SessionId.make("child"), [makeUserMessage("zebra")])
        )
      ).pipe(Effect.provide(SessionStore.layerSqlite({ path: database })))
      const asked = yield* hermes(["sessions", "delete", id])
      assert.deepInclude(asked, {
        code: 2,
        stdout: "",
        stderr: `Error: Not a terminal. Pass --yes to delete session ${id}.\n`
      })
      assert.strictEqual((yield* sessions(home)).length, 2)
      const deleted = yield* hermes(["sessions", "delete", id, "--yes"])
      assert.deepInclude(deleted, { code: 0, stdout: `Deleted ${id} (6 messages) and 1 session of its sub-agents\n` })
      assert.deepStrictEqual(yield* sessions(home), [])
      const rows = new DatabaseSync(database)
      for (const table of ["messages", "run_record", "session_model_usage"])
        assert.strictEqual(rows.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.["n"], 0, table)
      rows.exec("INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)")
      rows.close()
    })
  )

  it.live("refuses a session that a run owns", () =>
    Effect.gen(function* () {
      const { hermes, home, id, database } = yield* talked
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* SessionStore.SessionStore.use((store) => store.acquire(SessionId.make(id)))
          assert.deepInclude(yield* hermes(["sessions", "delete", id, "-y"]), {
            code: 1,
            stdout: "",
            stderr: `Error: session ${id} is busy: wait for its run to end, or stop it\n`
          })
        })
      ).pipe(Effect.provide(SessionStore.layerSqlite({ path: database })))
      assert.strictEqual((yield* sessions(home)).length, 1)
      assert.strictEqual((yield* hermes(["sessions", "delete", id, "-y"])).code, 0)
    })
  )
})

describe("hermes sessions list", () => {
  it.live("leaves out the sessions of workflows, which their label selects", () =>
    Effect.gen(function* () {
      const { database, hermes, id } = yield* talked
      yield* SessionStore.SessionStore.use((store) =>
        store.create(makeNewSession("workflow_ticket-7", { source: "workflow" }))
      ).pipe(Effect.provide(SessionStore.layerSqlite({ path: database })))
      const listed = yield* hermes(["sessions", "list"])
      assert.include(listed.stdout, id)
      assert.notInclude(listed.stdout, "ticket-7")
      const labelled = yield* hermes(["sessions", "list", "--source", "workflow"])
      assert.match(labelled.stdout, /^workflow_ticket-7 .*\n$/)
      const none = yield* hermes(["sessions", "list", "--source", "batch"])
      assert.deepInclude(none, { code: 0, stdout: "No session has the label batch\n" })
    })
  )
})

describe("a session that is not there", () => {
  it.live("is told with the nearest id or title", () =>
    Effect.gen(function* () {
      const { hermes, id } = yield* talked
      yield* hermes(["sessions", "rename", id, "Zoo keys"])
      for (const command of [["show"], ["delete", "--yes"], ["fork"]]) {
        const { code, stderr } = yield* hermes(["sessions", ...command, "Zoo key"])
        assert.deepStrictEqual([code, stderr], [2, 'Error: no session "Zoo key": did you mean "Zoo keys"?\n'])
      }
      assert.include(
        (yield* hermes(["sessions", "show", "nothing at all"])).stderr,
        "list them with `hermes sessions list`"
      )
    })
  )
})

describe("hermes sessions export and import", () => {
  it.live("a session comes back as it was: messages, times, sums, title", () =>
    Effect.gen(function* () {
      const { at, hermes, home, id } = yield* talked
      yield* hermes(["sessions", "rename", id, "Zoo"])
      yield* hermes(["sessions", "export", "-o", "all.jsonl"])
      const [before] = yield* sessions(home)
      const text = readFileSync(at("all.jsonl"), "utf8")
      writeFileSync(
        at("mixed.jsonl"),
        `no json\n{"id":"x"}\n${text}\n${text.replace(`"id":"${id}"`, '"id":"../../evil"')}`
      )
      yield* hermes(["sessions", "delete", id, "-y"])
      const added = yield* hermes(["sessions", "import", "mixed.jsonl"])
      assert.deepInclude(added, { code: 1, stdout: "Added 1 session; 3 lines left out\n" })
      const notes = added.stderr.trimEnd().split("\n")
      assert.strictEqual(notes[0], "line 1 is not JSON")
      assert.match(notes[1] ?? "", /^line 2 is no exported session: Missing key/)
      assert.match(notes[2] ?? "", /^line 5 is no exported session: /)
      const [after] = yield* sessions(home)
      const expected = JSON.parse(
        JSON.stringify({ ...before, session: { ...before?.session } }).replaceAll(key, "[redacted]")
      )
      const found = JSON.parse(JSON.stringify(after))
      assert.deepStrictEqual({ ...found.session, systemPrompt: "" }, { ...expected.session, systemPrompt: "" })
      assert.strictEqual(rolesOf(found.messages), rolesOf(expected.messages))
      assert.deepStrictEqual(found.messages.slice(1), expected.messages.slice(1))

      assert.deepInclude(yield* hermes(["sessions", "import", "all.jsonl"]), {
        code: 1,
        stdout: "Added 0 sessions; 1 line left out\n",
        stderr: `line 1: session ${id} exists already; pass --new-ids to add it under a new id\n`
      })
      const anew = yield* hermes(["sessions", "import", "all.jsonl", "--new-ids"])
      assert.deepInclude(anew, { code: 0, stdout: "Added 1 session\n" })
      assert.match(
        anew.stderr,
        /^line 1: session \S+ is added as (\S+)\nline 1: the title "Zoo" is taken; session \1 has none\n$/
      )
      assert.strictEqual((yield* sessions(home)).length, 2)
      assert.strictEqual((yield* hermes(["-Q", "-q", "go on", "--script", "two.yaml", "--resume", "Zoo"])).code, 0)
    })
  )

  it.live("as Markdown and as one page: whole, without keys, and nothing of a conversation becomes markup", () =>
    Effect.gen(function* () {
      const { at, hermes, id } = yield* talked
      const markdown = (yield* hermes(["sessions", "export", "--format", "md"])).stdout
      assert.include(markdown, `# Session ${id}\n\n- Session: ${id}\n`)
      assert.include(markdown, "## Agent\n\nThe zebra sleeps\n")
      assert.match(markdown, /_Call: read_file_\n\n```\n\{\n {2}"path": "notes\.txt"/)
      const { code, stdout } = yield* hermes([
        "sessions",
        "export",
        "--format",
        "html",
        "--session-id",
        id,
        "-o",
        "page.html"
      ])
      assert.deepStrictEqual([code, stdout], [0, "1 session is in page.html\n"])
      const page = readFileSync(at("page.html"), "utf8")
      assert.notMatch(page, /<script|https?:\/\/|src=|javascript:/u)
      assert.include(page, "&lt;script&gt;alert(1)&lt;/script&gt;")
      assert.include(page, "default-src 'none'")
      assert.notInclude(markdown + page, "abcdefghijkl")
    })
  )

  it.live("as an archive with a file for each session, where the name of the output says so", () =>
    Effect.gen(function* () {
      const { at, hermes, id } = yield* talked
      yield* hermes(["sessions", "fork", id])
      const ids: ReadonlyArray<string> = JSON.parse((yield* hermes(["sessions", "list", "--json"])).stdout).map(
        (session: { readonly id: string }) => session.id
      )
      const filesOf = (name: string) => Result.getOrThrow(TarArchive.read(gunzipSync(readFileSync(at(name)))))
      assert.deepInclude(yield* hermes(["sessions", "export", "-o", "all.tar.gz"]), {
        code: 0,
        stdout: "2 sessions are in all.tar.gz\n"
      })
      const files = filesOf("all.tar.gz")
      assert.deepStrictEqual(
        files.map(({ path }) => path),
        ids.map((one) => `${one}.jsonl`)
      )
      assert.strictEqual(
        files.map(({ bytes }) => Buffer.from(bytes).toString()).join(""),
        (yield* hermes(["sessions", "export"])).stdout
      )
      yield* hermes(["sessions", "export", "--format", "md", "--session-id", id, "--output", "One.TGZ"])
      assert.deepStrictEqual(
        filesOf("One.TGZ").map(({ path }) => path),
        [`${id}.md`]
      )
      assert.strictEqual(statSync(at("all.tar.gz")).mode & 0o777, 0o600)
      yield* hermes(["sessions", "delete", id, "-y"])
      assert.deepInclude(yield* hermes(["sessions", "import", "all.tar.gz"]), {
        code: 1,
        stdout: "Added 1 session; 1 line left out\n"
      })
      assert.deepInclude(yield* hermes(["sessions", "show", id]), { code: 0 })
      truncateSync(at("all.tar.gz"), 100)
      assert.deepInclude(yield* hermes(["sessions", "import", "all.tar.gz"]), {
        code: 2,
        stderr: "Error: cannot read all.tar.gz: it is no .tar.gz archive, or it is damaged or too large\n"
      })
      if (!existsSync("/dev/full")) return
      for (const name of ["full.tar.gz", "full.jsonl"]) {
        symlinkSync("/dev/full", at(name))
        assert.deepInclude(yield* hermes(["sessions", "export", "-o", name]), {
          code: 2,
          stderr: `Error: ${name} cannot be written: no space left on the device\n`
        })
      }
    })
  )
})

describe("hermes sessions stats and optimize", () => {
  it.live("tell the counts and sizes, and give the space of removed sessions back", () =>
    Effect.gen(function* () {
      const { hermes, database } = yield* talked
      const json = JSON.parse((yield* hermes(["sessions", "stats", "--json"])).stdout)
      assert.deepInclude(json, {
        sessions: 1,
        messages: 6,
        tool_calls: 1,
        sources: [{ source: "cli", sessions: 1, messages: 6, tool_calls: 1 }]
      })
      assert.strictEqual(json.bytes.file, statSync(database).size)
      const text = (yield* hermes(["sessions", "stats"])).stdout
      assert.match(text, /^Sessions +1 +\d{4}-\d\d-\d\d to \d{4}-\d\d-\d\d\nMessages +6 +/)
      assert.match(text, /\ncli +1 session +6 messages\n$/)
      yield* SessionStore.SessionStore.use((store) =>
        Effect.andThen(
          store.create(makeNewSession("big")),
          store.append(SessionId.make("big"), [makeUserMessage("word ".repeat(200_000))])
        )
      ).pipe(Effect.provide(SessionStore.layerSqlite({ path: database })))
      yield* hermes(["sessions", "delete", "big", "-y"])
      const optimized = yield* hermes(["sessions", "optimize"])
      assert.match(optimized.stdout, /^The database has \S+ KiB; \S+ MiB were given back\n$/)
      assert.isBelow(statSync(database).size, 1_000_000)
      assert.include((yield* hermes(["sessions", "search", "zebra"])).stdout, ">>>zebra<<<")
    })
  )
})

const exec = (path: string, ...statements: ReadonlyArray<string>): void => {
  const rows = new DatabaseSync(path)
  for (const statement of statements) rows.exec(statement)
  rows.close()
}

describe("hermes sessions repair", () => {
  it.live("finds nothing wrong in a sound database", () =>
    Effect.gen(function* () {
      const { hermes } = yield* talked
      for (const args of [["--check"], []])
        assert.deepInclude(yield* hermes(["sessions", "repair", ...args]), {
          code: 0,
          stdout: "The database is sound\n",
          stderr: ""
        })
    })
  )

  it.live("builds a search index anew that does not fit the messages", () =>
    Effect.gen(function* () {
      const { database, hermes } = yield* talked
      // A search adds to the index what it lacks.
      assert.include((yield* hermes(["sessions", "search", "zebra"])).stdout, ">>>zebra<<<")
      exec(database, "INSERT INTO messages_fts (messages_fts) VALUES ('delete-all')")
      assert.include((yield* hermes(["sessions", "search", "zebra"])).stdout, "No message matches")
      const checked = yield* hermes(["sessions", "repair", "--check"])
      assert.deepInclude(checked, { code: 1, stdout: "Found: the search index does not fit the messages\n" })
      assert.deepInclude(yield* hermes(["sessions", "repair"]), {
        code: 0,
        stdout: "Found: the search index does not fit the messages\nRepaired: built the search index anew\n"
      })
      assert.include((yield* hermes(["sessions", "search", "zebra"])).stdout, ">>>zebra<<<")
      exec(database, "DROP TABLE messages_fts")
      assert.strictEqual((yield* hermes(["sessions", "repair"])).code, 0)
      assert.include((yield* hermes(["sessions", "search", "zebra"])).stdout, ">>>zebra<<<")
      assert.include((yield* hermes(["sessions", "repair"])).stdout, "sound")
    })
  )

  it.live("makes a session readable again whose message is damaged, and counts its messages", () =>
    Effect.gen(function* () {
      const { database, hermes, id } = yield* talked
      exec(
        database,
        'UPDATE messages SET envelope = \'{"v":1,"mess\' WHERE position = 3',
        "UPDATE sessions SET message_count = 2"
      )
      for (const args of [
        ["show", id],
        ["export", "--session-id", id],
        ["export", "--format", "md"]
      ]) {
        const partly = yield* hermes(["sessions", ...args])
        assert.strictEqual(partly.code, 0, partly.stderr)
        assert.include(partly.stdout, "zebra")
        assert.strictEqual(
          partly.stderr,
          `Warning: A message is left out: message 3 of session ${id} is damaged: run \`hermes sessions repair\`, or go on in a new session\n`
        )
      }
      assert.deepInclude(yield* hermes(["sessions", "repair"]), {
        code: 0,
        stdout:
          `Found: message 3 of session ${id} is damaged\nFound: the count of messages is wrong in 1 session\n` +
          "Repaired: replaced 1 damaged message by the text in the search index\nRepaired: counted the messages of 1 session\n"
      })
      assert.include((yield* hermes(["sessions", "show", id])).stdout, "Agent: The zebra sleeps")
      assert.strictEqual((yield* hermes(["-Q", "-q", "on", "--script", "two.yaml", "--resume", id])).code, 0)
      assert.include((yield* hermes(["sessions", "list"])).stdout, "8 messages")
    })
  )

  it.live("rescues what is readable of a damaged file and keeps the damaged one", () =>
    Effect.gen(function* () {
      const { database, hermes, home, id } = yield* talked
      yield* SessionStore.SessionStore.use((store) =>
        Effect.forEach(
          Array.from({ length: 40 }, (_, index) => `s${index}`),
          (name) =>
            Effect.andThen(
              store.create(makeNewSession(name)),
              store.append(SessionId.make(name), [makeUserMessage(`${name} ${"words of it ".repeat(600)}`)])
            )
        )
      ).pipe(Effect.provide(SessionStore.layerSqlite({ path: database })))
      exec(database, "PRAGMA wal_checkpoint(TRUNCATE)")
      const bytes = readFileSync(database)
      // Overflow and leaf pages in the middle of the file become garbage.
      const from = Math.floor(bytes.length / 4096 / 2)
      bytes.fill(0xa5, from * 4096, (from + 6) * 4096)
      writeFileSync(database, bytes)
      const checked = yield* hermes(["sessions", "repair", "--check"])
      assert.strictEqual(checked.code, 1, checked.stdout)
      assert.match(checked.stdout, /^Found: the file is damaged: /)
      const repaired = yield* hermes(["sessions", "repair"])
      assert.strictEqual(repaired.code, 0, repaired.stderr)
      const kept = /The damaged file is kept as (\S+)\n$/.exec(repaired.stdout)?.[1] ?? ""
      assert.deepStrictEqual(readFileSync(kept).length, bytes.length)
      assert.include((yield* hermes(["sessions", "repair"])).stdout, "The database is sound")
      const left = yield* sessions(home)
      assert.isTrue(left.length > 0)
      const all = new DatabaseSync(database)
      assert.isAbove(Number(all.prepare("SELECT count(*) AS n FROM sessions").get()?.["n"]), 35)
      assert.isAbove(Number(all.prepare("SELECT count(*) AS n FROM messages").get()?.["n"]), 30)
      all.close()
      assert.strictEqual((yield* hermes(["sessions", "show", id])).code, 0)
      assert.deepStrictEqual(
        readdirSync(home).filter((name) => name.includes("repaired")),
        []
      )
    })
  )

  it.live("leaves what was written by a newer version readable, and writes nothing to it", () =>
    Effect.gen(function* () {
      const { database, hermes, id } = yield* talked
      exec(database, "INSERT INTO schema_version VALUES (99, 'later', 1)", "PRAGMA wal_checkpoint(TRUNCATE)")
      const before = readFileSync(database)
      for (const [args, shows] of [
        [["list"], id],
        [["show", id], "The zebra sleeps"],
        [["search", "zebra"], ">>>zebra<<<"],
        [["export"], "The zebra sleeps"],
        [["stats"], "Messages"]
      ] as const) {
        const { code, stderr, stdout } = yield* hermes(["sessions", ...args])
        assert.strictEqual(code, 0, stderr)
        assert.include(stdout, shows)
        assert.match(
          stderr,
          /^[^\n]*Sessions are opened for reading only: \S+state\.db was written by a newer version [^\n]+\n$/,
          args[0]
        )
      }
      assert.include((yield* hermes(["insights"])).stdout, "Model calls  3 calls")
      for (const args of [["rename", id, "x"], ["delete", id, "-y"], ["fork", id], ["optimize"]]) {
        const { code, stderr } = yield* hermes(["sessions", ...args])
        assert.strictEqual(code, 1)
        assert.match(
          stderr,
          /^Error: \S+state\.db was written by a newer version \(schema 99; supported: \d+\): update hermes to open it\n$/
        )
      }
      assert.deepStrictEqual(readFileSync(database), before)
    })
  )

  it.live(
    "refuses a file of another program, of a newer version and what is no database, and changes none of them",
    () =>
      Effect.gen(function* () {
        const { database, hermes } = yield* talked
        exec(database, "INSERT INTO schema_version VALUES (99, 'later', 1)")
        const before = readFileSync(database)
        const newer = yield* hermes(["sessions", "repair"])
        assert.strictEqual(newer.code, 1)
        assert.match(
          newer.stderr,
          /^Error: \S+state\.db was written by a newer version \(schema 99; supported: \d+\): update hermes to open it\n$/
        )
        assert.deepStrictEqual(readFileSync(database), before)
        truncateSync(database, 0)
        writeFileSync(database, "no database at all, but long enough to be looked at ".repeat(50))
        const none = yield* hermes(["sessions", "repair"])
        assert.strictEqual(none.code, 1)
        assert.match(none.stderr, /^Error: \S+state\.db holds nothing that can be saved: [^\n]+\n$/)
        assert.include(readFileSync(database, "utf8"), "no database at all")
      })
  )
})
