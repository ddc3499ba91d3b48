// hermes trace, as a user calls it.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Prompt from "effect/ai/Prompt"
import { mkdirSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { gunzipSync } from "node:zlib"
import * as Agent from "../../src/agent/Agent.ts"
import * as TarArchive from "../../src/base/domain/TarArchive.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import type * as Atif from "../../src/observe/Atif.ts"
import * as AtifCheck from "../../src/observe/AtifCheck.ts"
import * as TracePlugin from "../../src/observe/TracePlugin.ts"
import * as TraceSettings from "../../src/observe/TraceSettings.ts"
import * as TraceCommand from "../../src/program/cli/TraceCommand.ts"
import { sessionIdOf } from "../support/hermes.ts"
import { machine } from "../support/hermesInProcess.ts"
import * as Recorded from "./support/recorded.ts"
import * as Runs from "./support/runs.ts"

const recorded = (directory: string, sessions: ReadonlyArray<string>, more: Parameters<typeof Runs.runtime>[4] = {}) =>
  Effect.gen(function* () {
    const variables: Record<string, string> = {
      HERMES_NEMO_RELAY_ATOF_ENABLED: "1",
      HERMES_NEMO_RELAY_ATOF_OUTPUT_DIRECTORY: ` ${directory} `,
      HERMES_NEMO_RELAY_ATOF_FILENAME: "events.jsonl",
      HERMES_NEMO_RELAY_ATIF_ENABLED: "Yes",
      HERMES_NEMO_RELAY_ATIF_OUTPUT_DIRECTORY: directory,
      HERMES_NEMO_RELAY_ATIF_AGENT_NAME: "Hermes E2E"
    }
    const tracing = TracePlugin.make(TraceSettings.fromVariables((name) => variables[name]))
    for (const sessionId of sessions) {
      yield* Effect.provide(
        Agent.run({ prompt: `go ${sessionId}`, sessionId }),
        Runs.runtime(Runs.parallel, [], [], [tracing], more).layer
      )
    }
  })

const { version }: { readonly version: string } = JSON.parse(readFileSync("package.json", "utf8"))

describe("the variables", () => {
  it("169 and 170 say which files are written, and what is written when they say nothing else", () => {
    const of = (variables: Record<string, string>) =>
      TraceSettings.fromVariables((name) => variables[name.slice("HERMES_NEMO_RELAY_".length)])
    assert.deepInclude(of({}), {
      atof: undefined,
      atif: undefined,
      agent: { name: "Hermes Agent", version: undefined }
    })
    assert.deepInclude(of({ ATOF_ENABLED: "on", ATOF_MODE: "OverWrite" }).atof, {
      directory: ".",
      filename: "hermes-atof.jsonl",
      mode: "overwrite"
    })
    assert.strictEqual(of({ ATOF_ENABLED: "true", ATOF_MODE: "replace" }).atof?.mode, "append")
    assert.isUndefined(of({ ATIF_ENABLED: "1" }).atif, "without a directory nothing is written")
    assert.deepInclude(of({ ATIF_ENABLED: "1", ATIF_OUTPUT_DIRECTORY: "d", ATIF_SUBAGENT_EXPORT_MODE: "some" }).atif, {
      directory: "d",
      filenameTemplate: "hermes-atif-{session_id}.json",
      subagents: "embedded",
      modelName: "unknown"
    })
    assert.isUndefined(of({ ATOF_ENABLED: "0" }).atof)
  })
})

describe("opening a page", () => {
  it.live("tries programs in turn, and says when none could", () =>
    Effect.gen(function* () {
      const { at, put } = yield* machine
      const ok = put(
        "ok.mjs",
        `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(at("opened"))}, "")`
      )
      const bad = put("bad.mjs", "process.exit(3)")
      assert.isTrue(yield* TraceCommand.open(ok, ["there-is-no-such-program", process.execPath]))
      assert.isTrue(readdirSync(dirname(ok)).includes("opened"))
      assert.isFalse(yield* TraceCommand.open(bad, [process.execPath]))
      assert.isFalse(yield* TraceCommand.open(ok, ["there-is-no-such-program"]))
    }).pipe(Effect.provide(NodeServices.layer))
  )
})

describe("a stored session", () => {
  it.live(
    "is converted with its pictures beside the document, whose names are theirs; on stdout a text stands in their place",
    () =>
      Effect.gen(function* () {
        const { at, hermes, home } = yield* machine
        const id = SessionId.make("pictured")
        const bytes = new Uint8Array([1, 2, 3])
        const content = [Prompt.textPart({ text: "look" }), Prompt.filePart({ mediaType: "image/png", data: bytes })]
        yield* Effect.provide(
          SessionStore.SessionStore.use((store) =>
            Effect.andThen(
              store.create({ id, source: "cli", provider: "p", model: "m", systemPrompt: "", cwd: "/" }),
              store.append(id, [Prompt.userMessage({ content })])
            )
          ),
          SessionStore.layerSqlite({ path: join(home, "state.db") })
        )
        const ended = yield* hermes(["trace", "convert", id, "--output", at("out.json")])
        assert.strictEqual(ended.code, 0, ended.stderr)
        const document: Atif.Trajectory = JSON.parse(readFileSync(at("out.json"), "utf8"))
        const [path = ""] = AtifCheck.listLocalImages(document)
        assert.match(path, /^images\/[0-9a-f]{32}\.png$/u)
        assert.deepStrictEqual(new Uint8Array(readFileSync(at(path))), bytes)
        assert.include(
          (yield* hermes(["trace", "convert", id])).stdout,
          "[image/png: 3 bytes that are not in this document]"
        )
      }).pipe(Effect.provide(NodeServices.layer))
  )
})

describe("a text with characters that reorder it", () => {
  it.live("is in a pipe as in a file", () =>
    Effect.gen(function* () {
      const { at, hermes, home } = yield* machine
      const id = SessionId.make("reordered")
      const text = "a \u202e b \u2066 c \u2069 d \u0085 e"
      yield* Effect.provide(
        SessionStore.SessionStore.use((store) =>
          Effect.andThen(
            store.create({ id, source: "cli", provider: "p", model: "m", systemPrompt: "", cwd: "/" }),
            store.append(id, [Prompt.userMessage({ content: [Prompt.textPart({ text })] })])
          )
        ),
        SessionStore.layerSqlite({ path: join(home, "state.db") })
      )
      const ended = yield* hermes(["trace", "convert", id, "--output", at("out.json")])
      assert.strictEqual(ended.code, 0, ended.stderr)
      const { stdout } = yield* hermes(["trace", "convert", id])
      assert.strictEqual(stdout, readFileSync(at("out.json"), "utf8"))
      const trajectory: Atif.Trajectory = JSON.parse(stdout)
      assert.strictEqual(trajectory.steps.at(-1)?.message, text)
    }).pipe(Effect.provide(NodeServices.layer))
  )
})

describe("a record that is not all there", () => {
  it.live(
    "entries of a newer version and damaged ones are told, and the rest is shown; so while another process writes",
    () =>
      Effect.gen(function* () {
        const { at, hermes, home } = yield* machine
        const id = sessionIdOf((yield* hermes(["-Q", "-q", "Reply exactly ok"])).stderr)
        const database = yield* Effect.acquireRelease(
          Effect.sync(() => new DatabaseSync(join(home, "state.db"))),
          (open) => Effect.sync(() => open.close())
        )
        const add = database.prepare(
          "INSERT INTO run_record (session_id, turn_id, at, version, kind, body) VALUES (?, 't', 1, ?, ?, ?)"
        )
        add.run(id, 9, "FutureThing", '{"_tag":"FutureThing"}')
        add.run(id, 9, "Notice", '{"_tag":"Notice"}')
        add.run(id, 9, "Noted", '{"_tag":"Noted","text":"known","since":"to come"}')
        add.run(id, 1, "Notice", "damaged")
        database.exec("BEGIN IMMEDIATE")
        for (const args of [
          ["stats", id],
          ["convert", id, "--output", at("out.json")],
          ["view", id, "--output", at("out.html")]
        ]) {
          const ended = yield* hermes(["trace", ...args])
          assert.strictEqual(ended.code, 0, ended.stderr)
          assert.strictEqual(
            ended.stderr,
            `Warning: 2 entries of the run record of ${id} cannot be read, because a newer version wrote them. Update hermes to see all.\n` +
              `Warning: 1 entry of the run record of ${id} is of a newer version and shown as far as this one knows it. Update hermes to see all.\n` +
              `Warning: 1 entry of the run record of ${id} cannot be read, because it is damaged.\n`
          )
        }
        database.exec("ROLLBACK")
        const { steps }: Atif.Trajectory = JSON.parse(readFileSync(at("out.json"), "utf8"))
        assert.deepStrictEqual(
          steps.slice(1).map(({ message, source }) => [source, message]),
          [
            ["user", "Reply exactly ok"],
            ["agent", "ok"]
          ]
        )
        assert.include(readFileSync(at("out.html"), "utf8"), "Reply exactly ok")
      })
  )
})

describe("hermes trace", () => {
  it.live("validates, converts, counts and shows what a run wrote", () =>
    Effect.gen(function* () {
      const { at, cwd, hermes, put } = yield* machine
      yield* recorded(cwd, ["s1", "s2"])
      assert.deepStrictEqual(readdirSync(cwd).toSorted(), [
        "events.jsonl",
        "hermes-atif-s1.json",
        "hermes-atif-s2.json"
      ])

      const valid = yield* hermes(["trace", "validate", "events.jsonl", "hermes-atif-s1.json"])
      assert.deepStrictEqual(
        [valid.code, valid.stdout, valid.stderr],
        [0, "events.jsonl: valid ATOF\nhermes-atif-s1.json: valid ATIF\n", ""]
      )
      put("bad.json", readFileSync(at("hermes-atif-s1.json"), "utf8").replace('"step_id": 2', '"step_id": 7'))
      const bad = yield* hermes(["trace", "validate", "bad.json"])
      assert.strictEqual(bad.code, 1)
      assert.strictEqual(bad.stdout, "bad.json: error: steps[1].step_id: step ids count from 1: expected 2, got 7\n")
      assert.strictEqual((yield* hermes(["trace", "validate", "nowhere.json"])).code, 2)

      const many = yield* hermes(["trace", "convert", "events.jsonl"])
      assert.strictEqual(many.code, 2)
      assert.match(many.stderr, /holds 2 sessions: name one by --session/u)
      const one = yield* hermes(["trace", "convert", "events.jsonl", "--session", "s2"])
      assert.strictEqual(one.code, 0)
      assert.deepStrictEqual(
        Recorded.substance(JSON.parse(one.stdout)),
        Recorded.substance(JSON.parse(readFileSync(at("hermes-atif-s2.json"), "utf8")))
      )
      const all = yield* hermes(["trace", "convert", "events.jsonl", "-o", "."])
      assert.deepStrictEqual([all.code, all.stdout], [0, "trajectory-s1.json\ntrajectory-s2.json\n"])

      for (const file of ["events.jsonl", "hermes-atif-s1.json"]) {
        const { code, stdout } = yield* hermes(["trace", "stats", file, "--json"])
        const factor = file === "events.jsonl" ? 2 : 1
        assert.strictEqual(code, 0)
        assert.deepInclude(JSON.parse(stdout), {
          agents: factor,
          turns: factor,
          modelCalls: 2 * factor,
          toolCalls: 2 * factor,
          failedToolCalls: 0
        })
      }
      assert.match((yield* hermes(["trace", "stats", "events.jsonl"])).stdout, /^tools {7}echo {2}2/mu)

      put("cut.jsonl", readFileSync(at("events.jsonl"), "utf8").slice(0, -20))
      const cut = yield* hermes(["trace", "stats", "cut.jsonl"])
      assert.strictEqual(cut.code, 0)
      assert.match(cut.stderr, /Warning: cut.jsonl: line \d+: not JSON; the file was cut/u)
      put("text.txt", "hello\n")
      assert.strictEqual((yield* hermes(["trace", "stats", "text.txt"])).code, 2)

      const page = yield* hermes(["trace", "view", "events.jsonl", "-o", "page.html"])
      assert.deepStrictEqual([page.code, page.stdout], [0, `${at("page.html")}\n`])
      assert.match(readFileSync(at("page.html"), "utf8"), /^<!doctype html>/u)
      assert.strictEqual(
        (yield* hermes(["trace", "view", "hermes-atif-s1.json", "hermes-atif-s2.json", "-o", "diff.html"])).code,
        0
      )
    })
  )

  it.live("makes a file of each part of a session that three processes went on with", () =>
    Effect.gen(function* () {
      const { at, cwd, hermes, put } = yield* machine
      const more = { store: SessionStore.layerSqlite({ path: at("state.db") }) }
      for (const sessions of [["s"], ["s"], ["s"]]) yield* recorded(cwd, sessions, more)
      put("out/keep", "")
      const one = yield* hermes(["trace", "convert", "events.jsonl"])
      assert.strictEqual(one.code, 2)
      assert.match(one.stderr, /holds session s in 3 parts: name an existing directory by --output/u)
      const { code, stdout } = yield* hermes(["trace", "convert", "events.jsonl", "-o", "out"])
      const names = ["trajectory-s.json", "trajectory-s-2.json", "trajectory-s-3.json"]
      assert.deepStrictEqual([code, stdout], [0, names.map((name) => `out/${name}\n`).join("")])
      assert.strictEqual(
        (yield* hermes(["trace", "convert", "events.jsonl", "-o", "parts.tar.gz"])).stdout,
        "parts.tar.gz\n"
      )
      const files = Result.getOrThrow(TarArchive.read(gunzipSync(readFileSync(at("parts.tar.gz")))))
      assert.deepStrictEqual(
        files.map(({ bytes, path }) => [path, Buffer.from(bytes).toString()]),
        names.map((name) => [name, readFileSync(at(`out/${name}`), "utf8")])
      )
      const parts = names.map((name) => JSON.parse(readFileSync(at(`out/${name}`), "utf8")) as Atif.Trajectory)
      assert.deepStrictEqual(
        parts.map(({ continued_trajectory_ref: next }) => next),
        ["trajectory-s-2.json", "trajectory-s-3.json", undefined]
      )
      assert.deepStrictEqual(
        parts.map(({ steps }) =>
          steps.filter(({ source }) => source === "user").map(({ is_copied_context: copied }) => copied === true)
        ),
        [[false], [true, false], [true, true, false]]
      )
      const live = ["hermes-atif-s.json", "hermes-atif-s-2.json", "hermes-atif-s-3.json"].map(
        (name) => JSON.parse(readFileSync(at(name), "utf8")) as Atif.Trajectory
      )
      const texts = ({ steps }: Atif.Trajectory) => steps.map(({ message, source }) => [source, message])
      assert.deepStrictEqual(parts.map(texts), live.map(texts))
    })
  )

  it.live("takes a stored session, and says when there is none", () =>
    Effect.gen(function* () {
      const { at, hermes, home } = yield* machine
      const chat = yield* hermes(["chat", "-q", "hello there", "-Q", "--source", "test"])
      assert.strictEqual(chat.code, 0, chat.stderr)
      const { code, stderr, stdout } = yield* hermes(["trace", "convert", "latest"])
      assert.strictEqual(code, 0, stderr)
      const document = JSON.parse(stdout) as {
        agent: { version: string }
        steps: ReadonlyArray<{ source: string; message: string }>
      }
      assert.strictEqual(document.agent.version, version)
      assert.isTrue(AtifCheck.isSound(AtifCheck.check(document)))
      assert.deepStrictEqual(
        document.steps.map(({ source }) => source),
        ["system", "user", "agent"]
      )
      assert.strictEqual(document.steps[1]?.message, "hello there")
      assert.strictEqual((yield* hermes(["trace", "view", "latest", "-o", at("p.html")])).code, 0)
      assert.notProperty(document, "continued_trajectory_ref")
      const id = SessionId.make(sessionIdOf(chat.stderr))
      const store = SessionStore.layerSqlite({ path: join(home, "state.db") })
      const goOn = (from: SessionId, id: string) =>
        SessionStore.SessionStore.use((store) =>
          store.continueIn(from, {
            id: SessionId.make(id),
            provider: "p",
            model: "m",
            systemPrompt: "",
            messages: [Prompt.userMessage({ content: [Prompt.textPart({ text: "so far" })] })],
            endReason: "x"
          })
        )
      yield* Effect.provide(Effect.andThen(goOn(id, "second"), goOn(SessionId.make("second"), "third")), store, {
        local: true
      })
      const refs = yield* Effect.forEach([id, "second", "third"], (one) =>
        Effect.map(
          hermes(["trace", "convert", one]),
          ({ stdout }) => (JSON.parse(stdout) as Atif.Trajectory).continued_trajectory_ref
        )
      )
      assert.deepStrictEqual(refs, ["trajectory-second.json", "trajectory-third.json", undefined])
      mkdirSync(at("parts"))
      const parts = yield* hermes(["trace", "convert", id, "-o", "parts"])
      assert.deepStrictEqual(
        readdirSync(at("parts")).toSorted(),
        [`trajectory-${id}.json`, "trajectory-second.json", "trajectory-third.json"].toSorted(),
        parts.stderr
      )
      const none = yield* hermes(["trace", "stats", "nobody"])
      assert.notStrictEqual(none.code, 0)
      assert.match(none.stderr, /nobody/u)
    })
  )
})
