// hermes trace serve over runs: as they go on in another process, compared, repeated, judged, exported; and stores that
// cannot be read.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import type { AddressInfo } from "node:net"
import { DatabaseSync } from "node:sqlite"
import { dirname, join } from "node:path"
import { gunzipSync } from "node:zlib"
import * as AtifCheck from "../../src/observe/AtifCheck.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as TarArchive from "../../src/base/domain/TarArchive.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { onceSaid } from "../support/hermes.ts"
import { machine } from "../support/hermesInProcess.ts"
import { applied, type Event, type Json, price, timeless, totals, world } from "./support/studio.ts"

/** What a model was asked, without its system prompt. */
const askedOf = ({
  messages
}: {
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content: Json }>
}) =>
  messages
    .filter(({ role }) => role !== "system")
    .map(({ content, role }) => `${role}: ${typeof content === "string" ? content : JSON.stringify(content)}`)

describe("hermes trace serve, of runs", () => {
  it.live("follows a run of another process, and goes on after a lost connection", () =>
    Effect.gen(function* () {
      const { model, say, sayElsewhere, serve } = yield* world
      const { id: other } = yield* say("hello")
      const { ask, events, post } = yield* serve("--write")
      let release = (): void => undefined
      model.hold = new Promise((resolve) => (release = resolve))
      const before = (yield* ask("/api/sessions")).json
      const list = yield* Effect.forkChild(
        events(`/api/events?after=${before.sequence}`, ({ data }) =>
          data.sessions?.some(({ endedAt, id }: Json) => id !== other && endedAt !== undefined)
        )
      )
      const run = yield* Effect.forkChild(sayElsewhere("read the notes"))

      // The second request is held: the run is under way, its first step is recorded.
      const running = yield* Effect.repeat(ask("/api/sessions?status=running"), {
        until: ({ json }) => json.sessions[0]?.toolCalls === 1,
        schedule: Schedule.spaced("20 millis")
      })
      const { id } = running.json.sessions[0]
      assert.deepStrictEqual(
        [running.json.total, running.json.sessions[0].status, running.json.sessions[0].endedAt],
        [1, "running", undefined]
      )
      const half = (yield* ask(`/api/sessions/${id}`)).json
      assert.deepStrictEqual(half.messages.map(({ role }: Json) => role).slice(-2), ["assistant", "tool"])
      const [first] = yield* events(`/api/events?session=${id}`, () => true)
      assert.deepStrictEqual(
        [first?.event, first?.id, first?.data.rows.from, first?.data.rows.items],
        ["session", String(half.sequence), 0, half.data.runs[0].rows]
      )
      const followed = yield* Deferred.make<void>()
      const still = yield* Effect.forkChild(
        events(`/api/events?session=${other}`, ({ data }) => {
          Deferred.doneUnsafe(followed, Effect.void)
          return data.notes?.length === 1
        })
      )
      const opened = yield* Deferred.make<void>()
      const rest = yield* Effect.forkChild(
        events(
          `/api/events?session=${id}`,
          ({ data }) => data.summary.status === "ok",
          { "last-event-id": first?.id ?? "" },
          () => Deferred.doneUnsafe(opened, Effect.void)
        )
      )
      yield* Effect.all([Deferred.await(followed), Deferred.await(opened)])
      release()
      assert.deepStrictEqual((yield* Fiber.join(run)).code, 0)

      const whole = (yield* ask(`/api/sessions/${id}`)).json
      const changes: ReadonlyArray<Event> = yield* Fiber.join(rest)
      assert.isTrue(
        changes.every(({ data }) => data.rows.from >= half.data.runs[0].rows.length),
        "what the page has is not sent again"
      )
      // The session ends behind its run: its last times may be those of an event that nobody waited for.
      assert.deepStrictEqual(timeless(changes.reduce(applied, half)), timeless(whole))
      assert.deepStrictEqual(whole.messages.at(-1).parts, [{ type: "text", text: "The result was rye." }])
      const told = yield* Fiber.join(list)
      assert.deepStrictEqual(
        Array.from(new Set(told.flatMap(({ data }) => data.sessions.map((one: Json) => one.id)))),
        [id]
      )
      assert.deepStrictEqual(
        timeless(told.at(-1)?.data.sessions),
        timeless((yield* ask("/api/sessions")).json.sessions.filter((one: Json) => one.id === id))
      )
      yield* post(`/api/sessions/${other}/notes`, { text: "seen" })
      assert.deepStrictEqual(
        (yield* Fiber.join(still)).map(({ data }) => data.notes.length),
        [0, 1],
        "other sessions are no news of this one"
      )
    })
  )

  it.live("runs a session again with another prompt, model or result, as a new one", () =>
    Effect.gen(function* () {
      const { model, say, serve } = yield* world
      const { id } = yield* say("read the notes")
      const { ask, post } = yield* serve("--write")
      const source = (yield* ask(`/api/sessions/${id}`)).json
      const replayed = Effect.fnUntraced(function* (body: object) {
        model.seen.length = 0
        const { json, status } = yield* post(`/api/sessions/${id}/replay`, body)
        assert.strictEqual(status, 201, JSON.stringify(json))
        return yield* Effect.map(
          Effect.repeat(ask(`/api/sessions/${json.session}`), {
            until: ({ json }) =>
              json.summary?.endedAt !== undefined && json.runs.length > 0 && json.summary.status !== "running",
            schedule: Schedule.spaced("20 millis")
          }),
          ({ json }) => json
        )
      })
      const linked = (position: number, ...changed: ReadonlyArray<string>) => ({ session: id, position, changed })

      const prompted = yield* replayed({ position: 0, prompt: "write it down" })
      assert.deepStrictEqual(timeless(prompted.summary.replayOf), linked(0, "prompt"))
      assert.deepStrictEqual(
        [prompted.summary.source, prompted.summary.status, prompted.messages.at(-1).parts[0].text],
        ["replay", "ok", "The result was other."]
      )
      assert.deepStrictEqual(askedOf(model.seen[0] ?? { messages: [] }), ["user: write it down"])

      const modelled = yield* replayed({ position: 3, model: "gpt-4.1" })
      assert.deepStrictEqual(timeless(modelled.summary.replayOf), linked(3, "model"))
      assert.deepStrictEqual(
        model.seen.map(({ model }) => model),
        ["gpt-4.1"]
      )
      assert.deepStrictEqual(
        modelled.messages.map(({ role }: Json) => role),
        ["system", "user", "assistant", "tool", "assistant"]
      )
      assert.deepStrictEqual(timeless(modelled.summary.tokens), totals(1).tokens)
      assert.deepStrictEqual(
        timeless(modelled.messages.slice(1, 4).map(({ parts, role }: Json) => ({ parts, role }))),
        timeless(source.messages.slice(1, 4).map(({ parts, role }: Json) => ({ parts, role })))
      )

      const again = yield* replayed({ position: 1 })
      assert.deepStrictEqual(timeless(again.summary.replayOf), linked(1))
      assert.deepStrictEqual(askedOf(model.seen[0] ?? { messages: [] }), ["user: read the notes"])
      assert.deepStrictEqual(
        again.messages.map(({ role }: Json) => role),
        source.messages.map(({ role }: Json) => role)
      )

      const other = yield* replayed({ result: { callId: "c1", text: "wheat" } })
      assert.deepStrictEqual(timeless(other.summary.replayOf), linked(3, "result"))
      assert.deepStrictEqual(askedOf(model.seen[0] ?? { messages: [] }).at(-1), "tool: wheat")
      assert.deepStrictEqual([model.seen.length, other.messages.at(-1).parts[0].text], [1, "The result was other."])

      assert.deepStrictEqual(
        (yield* ask(`/api/sessions/${id}`)).json.messages,
        source.messages,
        "the source stays as it is"
      )
      assert.deepStrictEqual(
        (yield* ask("/api/sessions?source=cli")).json.sessions[0].replays,
        [prompted, modelled, again, other].map(({ summary }) => summary.id)
      )
      const before = (yield* ask("/api/sessions")).json.total
      for (const [body, error] of [
        [{ position: 99 }, "position is missing or too large: this session has 4 messages, from 0"],
        [{ position: 2 }, "position is that of a user message or an answer; use result to change a result"],
        [{ position: 1, prompt: "x" }, "a prompt goes with the position of a user message"],
        [{ result: { callId: "c9", text: "x" } }, 'no call "c9" of this session has a result'],
        [{ result: { callId: "c1", text: "x" }, position: 1 }, "a replay with a result takes no position and no prompt"]
      ] as const) {
        const answer = yield* post(`/api/sessions/${id}/replay`, body)
        assert.deepStrictEqual([answer.status, answer.json], [400, { error }])
      }
      assert.strictEqual((yield* post(`/api/sessions/${id}/replay`, { positions: 1 })).status, 400)
      assert.strictEqual(
        (yield* ask(`/api/sessions/${id}/replay`, { method: "POST", body: "{}" })).status,
        400,
        "a form of another site is no JSON"
      )
      assert.strictEqual(
        (yield* post(`/api/sessions/${id}/replay`, { position: 0, prompt: "x".repeat(2_100_000) })).status,
        413
      )
      assert.strictEqual((yield* ask(`/api/sessions/${id}`, { method: "DELETE" })).status, 405)
      assert.strictEqual((yield* post(`/api/sessions/${id}`, {})).status, 404)
      assert.strictEqual((yield* ask("/api/sessions")).json.total, before, "a refused replay leaves nothing behind")
    })
  )

  it.live("counts sub-agents with their session, and a killed run as interrupted", () =>
    Effect.gen(function* () {
      const { home, say, serve, start } = yield* world
      const { id } = yield* say("please delegate")
      const { ask } = yield* serve()
      const {
        json: [...all]
      } = yield* Effect.map(ask("/api/sessions?children=true"), ({ json }) => ({ json: json.sessions }))
      const child = all.find((one: Json) => one.id !== id)
      assert.deepStrictEqual(timeless(child), {
        ...totals(2, { toolCalls: 1 }),
        id: child.id,
        prompt: child.prompt,
        source: "subagent",
        models: ["gpt-4o"],
        tools: ["read_file"],
        cwd: child.cwd,
        status: "ok",
        parent: id,
        goal: "read the notes",
        children: 0,
        replays: [],
        scores: [],
        notes: 0
      })
      const { json: list } = yield* ask("/api/sessions")
      assert.deepStrictEqual(
        [list.total, timeless(list.sessions[0].tokens), list.sessions[0].children, list.sessions[0].runs],
        [1, totals(4).tokens, 1, 2]
      )
      const { json } = yield* ask(`/api/sessions/${id}`)
      assert.deepStrictEqual(timeless(json.agents), [
        { ...totals(2, { toolCalls: 1 }), session: id, name: "main", status: "ok" },
        { ...totals(2, { toolCalls: 1 }), session: child.id, name: "read the notes", parent: id, status: "ok" }
      ])
      assert.deepStrictEqual(
        json.messages.flatMap(({ parts }: Json) => parts).find(({ type }: Json) => type === "call").children,
        [child.id]
      )
      const { json: sums } = yield* ask("/api/aggregates")
      assert.deepStrictEqual(
        sums.agents.map(({ calls, name }: Json) => `${name} ${calls}`),
        ["leaf 2", "main 2"]
      )
      assert.deepStrictEqual([sums.sessions, sums.modelCalls, sums.cost], [1, 4, price(4)])

      const killed = yield* start(["chat", "-q", "please wait"], {
        onError: onceSaid("session_id: ", (process) => {
          // Its first step is recorded before the command runs.
          const looking = setInterval(() => {
            const database = new DatabaseSync(join(home, "state.db"))
            const begun = database
              .prepare(
                `SELECT 1 FROM messages WHERE begun IS NOT NULL
                  AND session_id IN (SELECT session_id FROM messages WHERE content = 'please wait')`
              )
              .get()
            database.close()
            if (begun === undefined) return
            clearInterval(looking)
            process.kill("SIGKILL")
          }, 50)
        })
      })
      assert.strictEqual(killed.signal, "SIGKILL")
      const {
        json: {
          sessions: [last]
        }
      } = yield* ask("/api/sessions?sort=started")
      assert.deepStrictEqual([last.status, last.prompt], ["interrupted", "please wait"])
      assert.strictEqual((yield* ask(`/api/sessions/${last.id}`)).json.runs[0].status, "interrupted")

      yield* start(["chat", "-q", "hello", "--resume", last.id])
      const { json: resumed } = yield* ask(`/api/sessions/${last.id}`)
      const [first, second] = resumed.runs
      const runs = `leftRun=${encodeURIComponent(first.id)}&rightRun=${encodeURIComponent(second.id)}`
      const { json: compared } = yield* ask(`/api/compare?left=${last.id}&right=${last.id}&${runs}`)
      const time = second.endedAt - second.startedAt
      // Nobody knows how long the killed run went on, and the time until somebody resumed it is not its own.
      assert.deepStrictEqual(
        [compared.left.duration, compared.right.duration, resumed.summary.duration],
        [0, time, time]
      )
    })
  )

  it.live("keeps scores and notes, compares sessions, and exports datasets", () =>
    Effect.gen(function* () {
      const { hermes, say, serve } = yield* world
      const { id: one } = yield* say("read the notes")
      const { id: two } = yield* say("hello")
      const { ask, post } = yield* serve("--write")
      const run = (yield* ask(`/api/sessions/${one}`)).json.runs[0].id
      const good = yield* post(`/api/sessions/${one}/scores`, { name: "quality", value: 0.5, comment: "so so" })
      assert.deepStrictEqual(
        [good.status, timeless(good.json)],
        [201, { name: "quality", value: 0.5, comment: "so so" }]
      )
      yield* post(`/api/sessions/${one}/scores`, { name: "quality", value: 1 })
      yield* post(`/api/sessions/${one}/scores`, { name: "kind", value: "lookup", run })
      yield* post(`/api/sessions/${one}/scores`, { name: "wrong", value: true })
      yield* post(`/api/sessions/${one}/scores`, { name: "wrong", value: null })
      yield* post(`/api/sessions/${one}/notes`, { text: "look here", position: 1 })
      assert.strictEqual(
        (yield* post(`/api/sessions/${one}/scores`, { name: "a", value: 1, run: "nobody" })).status,
        400
      )
      const judged = (yield* ask(`/api/sessions/${one}`)).json
      const scores = [
        { name: "quality", value: 1 },
        { name: "kind", value: "lookup", run }
      ]
      assert.deepStrictEqual(
        [timeless(judged.scores), timeless(judged.notes)],
        [scores, [{ text: "look here", position: 1 }]]
      )
      assert.deepStrictEqual(judged.runs.length, 1, "a score is no run")
      const [listed] = (yield* ask("/api/sessions?source=cli&q=rye")).json.sessions
      assert.deepStrictEqual([timeless(listed.scores), listed.notes], [scores, 1])

      const { json: compared } = yield* ask(`/api/compare?left=${one}&right=${two}`)
      const side = { status: "ok", models: ["gpt-4o"], tools: [] }
      assert.deepStrictEqual(timeless(compared.left), {
        ...totals(2, { toolCalls: 1 }),
        ...side,
        session: one,
        name: "read the notes",
        tools: ["read_file"]
      })
      assert.deepStrictEqual(timeless(compared.right), { ...totals(1), ...side, session: two, name: "hello" })
      const took = ({ runs: [only] }: Json) => only.endedAt - only.startedAt
      const times = [took(judged), took((yield* ask(`/api/sessions/${two}`)).json)]
      assert.deepStrictEqual([compared.left.duration, compared.right.duration], times)
      const { json: byRun } = yield* ask(`/api/compare?left=${one}&right=${two}&leftRun=${encodeURIComponent(run)}`)
      assert.deepStrictEqual([byRun.left.duration, byRun.right.duration], times)
      assert.deepStrictEqual(
        compared.data.runs.map(({ name }: Json) => name),
        ["read the notes", "hello"]
      )
      const { change, left, right, state } = compared.first
      assert.deepStrictEqual(
        [state, left, right, compared.data.diff.findIndex((one: Json) => one.state !== "same")],
        [
          "changed",
          compared.data.runs[0].rows[compared.data.diff[change].left].text,
          compared.data.runs[1].rows[compared.data.diff[change].right].text,
          change
        ]
      )
      assert.isUndefined((yield* ask(`/api/compare?left=${two}&right=${two}`)).json.first)
      assert.deepStrictEqual(
        timeless(
          (yield* ask(`/api/compare?left=${one}&right=${one}&leftRun=${encodeURIComponent(run)}`)).json.left.cost
        ),
        price(2)
      )
      assert.strictEqual((yield* ask(`/api/compare?left=${one}&right=${two}&leftRun=x`)).status, 404)
      assert.strictEqual((yield* ask(`/api/compare?left=${one}`)).status, 400)

      const lines = (query: string) =>
        Effect.map(ask(`/api/export?${query}`), ({ text }) =>
          text
            .trim()
            .split("\n")
            .map((line) => JSON.parse(line))
        )
      const atif = yield* lines("format=atif&sort=started&order=asc")
      assert.deepStrictEqual(
        atif.map((document) => [document.session_id, AtifCheck.check(document)]),
        [
          [one, []],
          [two, []]
        ]
      )
      assert.deepStrictEqual(atif[0].extra.scores, [
        { name: "quality", value: 1, run: null, comment: null },
        { name: "kind", value: "lookup", run, comment: null }
      ])
      const stored = yield* hermes(["sessions", "export", "--session-id", one])
      assert.deepStrictEqual(yield* lines(`format=jsonl&id=${one}`), [JSON.parse(stored.stdout)])
      const [training] = yield* lines(`format=sharegpt&id=${one}`)
      const [system, ...turns] = training.conversations
      assert.isTrue(
        system.from === "system" &&
          JSON.parse(/<tools>\n(.*)\n<\/tools>/.exec(system.value)?.[1] ?? "[]").some(
            ({ name }: Json) => name === "read_file"
          )
      )
      assert.deepStrictEqual(
        turns.map(({ from }: Json) => from),
        ["human", "gpt", "tool", "gpt"]
      )
      assert.deepStrictEqual(
        [turns[0].value, turns[1].value, turns[3].value],
        [
          "read the notes",
          '<think>\n\n</think>\n<tool_call>\n{"name":"read_file","arguments":{"path":"notes.txt"}}\n</tool_call>',
          "<think>\n\n</think>\nThe result was rye."
        ]
      )
      const response = JSON.parse(/<tool_response>\n(.*)\n<\/tool_response>$/.exec(turns[2].value)?.[1] ?? "{}")
      assert.deepStrictEqual(
        [response.tool_call_id, response.name, JSON.stringify(response.content).includes("rye bread")],
        ["c1", "read_file", true]
      )
      const whole = yield* ask(`/api/export?format=sharegpt&id=${one}`)
      assert.deepStrictEqual(
        [whole.headers.get("content-disposition"), whole.headers.get("content-type")],
        ['attachment; filename="hermes-sharegpt.jsonl"', "application/x-ndjson; charset=utf-8"]
      )
      const archives = yield* Effect.forEach(["atif", "jsonl", "sharegpt"], (format) =>
        Effect.gen(function* () {
          const archive = yield* ask(`/api/export?format=${format}&archive=true&sort=started&order=asc`)
          assert.deepStrictEqual(
            [archive.headers.get("content-disposition"), archive.headers.get("content-type")],
            [`attachment; filename="hermes-${format}.tar.gz"`, "application/gzip"]
          )
          const files = Result.getOrThrow(TarArchive.read(gunzipSync(archive.bytes)))
          assert.deepStrictEqual(
            files.map(({ bytes }) => JSON.parse(Buffer.from(bytes).toString())),
            yield* lines(`format=${format}&sort=started&order=asc`)
          )
          return files.map(({ path }) => path)
        })
      )
      assert.deepStrictEqual(archives, [
        [`trajectory-${one}.json`, `trajectory-${two}.json`],
        [`${one}.jsonl`, `${two}.jsonl`],
        [`${one}.json`, `${two}.json`]
      ])
      assert.strictEqual((yield* ask("/api/export?format=atif&archive=zip")).status, 400)
      assert.deepStrictEqual((yield* ask("/api/export?format=csv")).json, {
        error: 'format is one of atif, jsonl, sharegpt, not "csv"'
      })
      assert.strictEqual((yield* ask("/api/export?format=atif&id=nobody")).status, 404)
    })
  )

  it.live("forgets a session that is removed, and sees one that has its numbers", () =>
    Effect.gen(function* () {
      const { hermes, home, say, serve } = yield* world
      const { id: old } = yield* say("hello")
      const { id: gone } = yield* say("read the notes")
      const { ask, events } = yield* serve()
      const { json } = yield* ask("/api/sessions")
      assert.deepStrictEqual([json.total, json.known.tools], [2, ["read_file"]])
      const opened = yield* Deferred.make<void>()
      const news = yield* Effect.forkChild(
        events(
          `/api/events?after=${json.sequence}`,
          ({ data }) => data.sessions?.some((one: Json) => one.prompt === "fresh" && one.status === "ok"),
          {},
          () => Deferred.doneUnsafe(opened, Effect.void)
        )
      )
      yield* Deferred.await(opened)
      // What the run of one session wrote last goes, so that the next entries get its numbers.
      yield* SessionStore.SessionStore.use((store) => store.remove(SessionId.make(gone))).pipe(
        Effect.provide(SessionStore.layerSqlite({ path: join(home, "state.db") }))
      )
      assert.deepStrictEqual((yield* ask(`/api/sessions/${gone}`)).status, 404)
      const { id: fresh } = yield* say("fresh")
      const after = (yield* ask("/api/sessions?sort=started&order=asc")).json
      assert.deepStrictEqual(
        [after.sessions.map((one: Json) => [one.id, one.runs, one.modelCalls]), after.known.tools],
        [
          [
            [old, 1, 1],
            [fresh, 1, 1]
          ],
          []
        ]
      )
      assert.include(
        (yield* Fiber.join(news)).flatMap(({ data }) => data.removed),
        gone
      )
      assert.deepStrictEqual(JSON.parse((yield* hermes(["sessions", "list", "--json"])).stdout).length, 2)
      // One that goes after the list was read and before its events are asked for, and others that nobody lists any
      // more.
      yield* SessionStore.SessionStore.use((store) => store.remove(SessionId.make(old))).pipe(
        Effect.provide(SessionStore.layerSqlite({ path: join(home, "state.db") }))
      )
      const [first] = yield* events(`/api/events?after=${after.sequence}`, () => true)
      assert.sameMembers(first?.data.removed, [gone, old])
    })
  )

  it.live("says in a line why it cannot begin, and shows a store that comes later", () =>
    Effect.gen(function* () {
      const { home, say, serve, start: hermes } = yield* world
      const port = yield* Effect.acquireRelease(
        Effect.promise(
          () =>
            new Promise<ReturnType<typeof createServer>>((resolve) => {
              const server = createServer().listen(0, "127.0.0.1", () => resolve(server))
            })
        ),
        (server) => Effect.sync(() => server.close())
      ).pipe(Effect.map((server) => (server.address() as AddressInfo).port))
      const busy = yield* hermes(["trace", "serve", "--port", String(port)])
      assert.deepStrictEqual([busy.code, busy.stdout], [1, ""])
      assert.match(
        busy.stderr,
        new RegExp(
          `^Error: cannot listen on port ${port} \\(.*EADDRINUSE.*\\): choose another --port, or leave it out\n$`
        )
      )
      for (const [args, error] of [
        [["--port", "x"], '--port "x" is invalid: expected a whole number'],
        [["--port", "70000"], '--port "70000" is invalid: expected a number from 0 to 65535'],
        [["--open"], "unknown flag --open"]
      ] as const) {
        const { code, stderr } = yield* hermes(["trace", "serve", ...args])
        assert.deepStrictEqual([code, stderr.startsWith(`Error: ${error}`)], [2, true], stderr)
      }

      const { ask } = yield* serve()
      assert.deepStrictEqual(timeless((yield* ask("/api/sessions?q=hello")).json), {
        sessions: [],
        total: 0,
        known: { sources: [], models: [], tools: [] }
      })
      assert.strictEqual((yield* ask("/api/aggregates")).json.sessions, 0)
      const { id } = yield* say("hello")
      assert.deepStrictEqual(
        (yield* ask("/api/sessions")).json.sessions.map((one: Json) => one.id),
        [id]
      )

      const database = new DatabaseSync(join(home, "state.db"))
      database.exec("INSERT INTO schema_version (version, name, applied_at) VALUES (99, 'later', 1)")
      database.close()
      const newer = yield* hermes(["trace", "serve"])
      assert.deepStrictEqual([newer.code, newer.stdout], [1, ""])
      assert.match(
        newer.stderr,
        /^Error: .*state\.db was written by a newer version \(schema 99; supported: \d+\): update hermes to open it\n$/
      )
    })
  )

  const limiter = "/usr/bin/prlimit"
  it.live.skipIf(!existsSync(limiter))(
    "says that a write did not fit, leaves nothing behind, and goes on reading",
    () =>
      Effect.gen(function* () {
        const { home, say, serve } = yield* world
        const { id } = yield* say("hello")
        const { ask, pid, post } = yield* serve("--write")
        const before = (yield* ask(`/api/sessions/${id}`)).json
        // No file of this process may be longer than a kilobyte from now on, as on a full disk.
        execFileSync(limiter, ["--pid", String(pid), "--fsize=1024"])
        const full = {
          score: yield* post(`/api/sessions/${id}/scores`, { name: "a", value: 1 }),
          replay: yield* post(`/api/sessions/${id}/replay`, { position: 0 })
        }
        assert.deepStrictEqual(
          [full.score.status, full.score.json],
          [
            503,
            {
              error:
                "The entry could not be written: free some space, or end the program that has the database locked, and try again."
            }
          ]
        )
        assert.deepStrictEqual(
          [full.replay.status, full.replay.json],
          [
            503,
            {
              error: `${join(home, "state.db")} cannot be read or written: check the disk and its free space and try again`
            }
          ]
        )
        assert.deepStrictEqual((yield* ask(`/api/sessions/${id}`)).json, before)
        assert.strictEqual((yield* ask("/api/sessions")).json.total, 1)
      })
  )

  it.live("says that a damaged file cannot be read", () =>
    Effect.gen(function* () {
      const { home, start: hermes } = yield* machine
      mkdirSync(dirname(join(home, "state.db")), { recursive: true })
      writeFileSync(join(home, "state.db"), "this is no database, whatever its name says".repeat(100))
      const { code, stderr, stdout } = yield* hermes(["trace", "serve"])
      assert.deepStrictEqual([code, stdout], [1, ""])
      assert.match(stderr, /^Error: .*state\.db.*\n$/)
    })
  )
})
