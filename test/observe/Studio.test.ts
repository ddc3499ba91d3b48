// hermes trace serve: the studio of a home directory whose sessions the program made, asked over HTTP.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { writeFileSync } from "node:fs"
import { request as httpRequest } from "node:http"
import { DatabaseSync } from "node:sqlite"
import { join } from "node:path"
import { type Json, key, price, timeless, tokens, totals, world } from "./support/studio.ts"

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

/** A request with headers that `fetch` does not let anybody set. */
const rawStatus = (origin: string, headers: Record<string, string>) =>
  Effect.promise(
    () =>
      new Promise<number | undefined>((resolve, reject) => {
        httpRequest(`${origin}/api/about`, { headers }, (response) => {
          response.resume()
          resolve(response.statusCode)
        })
          .on("error", reject)
          .end()
      })
  )

describe("hermes trace serve", () => {
  it.live("answers to its own browser page alone, and writes nothing unless it may", () =>
    Effect.gen(function* () {
      const { home, say, serve } = yield* world
      const { id } = yield* say("hello")
      const { ask, cookie, first, origin, post, stop, url } = yield* serve()
      const token = new URL(url).searchParams.get("token") ?? ""
      assert.isAtLeast(token.length, 32)
      assert.deepStrictEqual([first.status, first.headers.get("location")], [303, "/"])
      assert.match(
        first.headers.get("set-cookie") ?? "",
        /^hermes_studio_\d+=[\w-]{32}; Path=\/; HttpOnly; SameSite=Strict$/
      )
      assert.notInclude(cookie, token)

      const about = yield* ask("/api/about")
      assert.deepStrictEqual(
        [about.status, about.json],
        [200, { version: "0.1.0", home, write: false, unread: 0, models: ["gpt-4o"] }]
      )
      assert.isNull(about.headers.get("access-control-allow-origin"))
      const page = yield* ask("/")
      assert.match(
        page.headers.get("content-security-policy") ?? "",
        /^default-src 'none'; script-src 'self'; style-src 'self'; .*frame-ancestors 'none'$/
      )
      assert.strictEqual(page.headers.get("content-type"), "text/html; charset=utf-8")
      for (const path of ["/studio.js", "/studio.css"]) assert.strictEqual((yield* ask(path)).status, 200)

      const missing = "The token is missing or wrong: open the address that hermes trace serve printed."
      for (const path of ["/", "/api/about", "/?token=wrong", `/api/about?token=${token}`]) {
        const { json, status } = yield* ask(path, { headers: { cookie: "" }, redirect: "manual" })
        assert.deepStrictEqual([path, status, json], [path, 401, { error: missing }])
      }
      assert.strictEqual(
        (yield* ask("/api/about", { headers: { cookie: "", authorization: `Bearer ${token}` } })).status,
        200
      )
      const { host } = new URL(origin)
      assert.strictEqual(yield* rawStatus(origin, { cookie, host }), 200)
      assert.strictEqual(yield* rawStatus(origin, { cookie, host: host.replace("127.0.0.1", "localhost") }), 200)
      assert.strictEqual(yield* rawStatus(origin, { cookie, host: "evil.example" }), 403)
      assert.strictEqual(
        yield* rawStatus(origin, { cookie, host: host.replace("127.0.0.1", "127.0.0.1.evil.example") }),
        403
      )
      assert.strictEqual(yield* rawStatus(origin, { cookie, host, origin: "http://evil.example" }), 403)
      assert.strictEqual(yield* rawStatus(origin, { cookie, host, origin: `http://${host}` }), 200)

      const readOnly = {
        error:
          "This studio is read-only: start it with hermes trace serve --write to allow replays, scores, notes and " +
          "messages to running turns."
      }
      for (const [what, body] of [
        ["replay", { position: 0 }],
        ["scores", { name: "a", value: 1 }],
        ["notes", { text: "a" }],
        ["steer", { text: "a" }],
        ["cancel", {}],
        ["answer", { question: "a", answer: { choice: "once" } }]
      ] as const) {
        const { json, status } = yield* post(`/api/sessions/${id}/${what}`, body)
        assert.deepStrictEqual([what, status, json], [what, 403, readOnly])
      }
      const { json: list } = yield* ask("/api/sessions")
      assert.deepStrictEqual([list.total, list.sessions[0].scores, list.sessions[0].notes], [1, [], 0])
      const { code, stderr } = yield* Effect.promise(stop)
      assert.deepStrictEqual([code, stderr], [0, ""])
    })
  )

  it.live("lists, finds, sorts and sums sessions exactly", () =>
    Effect.gen(function* () {
      const { cwd, say, serve } = yield* world
      const hello = yield* say("hello there")
      const read = yield* say("read the notes", "--source", "desk")
      const bad = yield* say("please fail", "-m", "gpt-4.1")
      assert.deepStrictEqual([hello.code, read.code, bad.code], [0, 0, 1])
      const { ask } = yield* serve()
      const summary = {
        source: "cli",
        models: ["gpt-4o"],
        tools: [],
        cwd,
        status: "ok",
        children: 0,
        replays: [],
        scores: [],
        notes: 0
      }
      const { json } = yield* ask("/api/sessions?sort=started&order=asc")
      const failure = "the model refuses, says"
      assert.deepStrictEqual(
        timeless({
          ...json,
          sessions: json.sessions.map(({ failure: said, ...rest }: Json) => ({
            ...rest,
            ...(said === undefined ? {} : { failure: said.includes(failure) && !said.includes(key) })
          }))
        }),
        {
          sessions: [
            { ...totals(1), ...summary, id: hello.id, prompt: "hello there" },
            {
              ...totals(2, { toolCalls: 1 }),
              ...summary,
              id: read.id,
              prompt: "read the notes",
              source: "desk",
              tools: ["read_file"]
            },
            {
              runs: 1,
              steps: 1,
              modelCalls: 1,
              toolCalls: 0,
              tokens: tokens(0),
              unpriced: 0,
              errors: 2,
              ...summary,
              id: bad.id,
              prompt: "please fail",
              models: ["gpt-4.1"],
              status: "error",
              failure: true
            }
          ],
          total: 3,
          known: { sources: ["cli", "desk"], models: ["gpt-4.1", "gpt-4o"], tools: ["read_file"] }
        }
      )
      const ids = (query: string) =>
        Effect.map(ask(`/api/sessions?${query}`), ({ json: { sessions, total } }) => [
          sessions.map(({ id }: Json) => id),
          total
        ])
      assert.deepStrictEqual(yield* ids("sort=cost"), [[read.id, hello.id, bad.id], 3])
      assert.deepStrictEqual(yield* ids("sort=title"), [[hello.id, bad.id, read.id], 3])
      assert.deepStrictEqual(yield* ids("sort=started&limit=1&offset=1"), [[read.id], 3])
      assert.deepStrictEqual(yield* ids("source=desk"), [[read.id], 1])
      assert.deepStrictEqual(yield* ids("source=desk&source=cli&model=gpt-4o&sort=started"), [[read.id, hello.id], 2])
      assert.deepStrictEqual(yield* ids("status=error"), [[bad.id], 1])
      assert.deepStrictEqual(yield* ids("tool=read_file"), [[read.id], 1])
      assert.deepStrictEqual(yield* ids("minCost=0.0005"), [[read.id], 1])
      assert.deepStrictEqual(yield* ids("q=rye"), [[read.id], 1])
      assert.deepStrictEqual(yield* ids("q=HELLO"), [[hello.id], 1])
      assert.deepStrictEqual(yield* ids("until=1"), [[], 0])
      assert.deepStrictEqual(yield* ids(`since=${Date.now() + 1000}`), [[], 0])
      for (const [query, error] of [
        ["sort=size", 'sort is one of activity, started, duration, cost, tokens, errors, steps, title, not "size"'],
        ["limit=0", 'limit is a whole number from 1 to 500, not "0"'],
        ["since=monday", 'since is a number, not "monday"'],
        [
          "limits=1",
          'unknown parameter "limits": the parameters are q, source, model, status, since, until, tool, minCost, children, sort, order, limit, offset, utcOffset'
        ]
      ]) {
        const answer = yield* ask(`/api/sessions?${query}`)
        assert.deepStrictEqual([answer.status, answer.json], [400, { error }])
      }

      const { active, costs, hours, notable, sources, ...aggregates } = (yield* ask("/api/aggregates")).json
      assert.isAtLeast(active, 0)
      assert.includeMembers(
        notable.map(({ name }: Json) => name),
        ["Most messages", "Most tokens", "Most tool calls"]
      )
      assert.deepStrictEqual(costs, {
        actual: { calls: 0, cost: 0 },
        estimated: { calls: 3, cost: price(3) },
        included: { calls: 0, cost: 0 },
        unknown: { calls: 0, cost: 0 }
      })
      assert.deepStrictEqual([hours.length, hours.reduce((sum: number, calls: number) => sum + calls, 0)], [24, 4])
      assert.strictEqual(
        sources.reduce((sum: number, { calls }: Json) => sum + calls, 0),
        4
      )
      const share = (name: string, calls: number, priced: number, more: object = {}) => ({
        name,
        calls,
        sessions: name === "main" ? 3 : name === "gpt-4o" ? 2 : 1,
        errors: 0,
        tokens: tokens(priced),
        ...(priced === 0 ? {} : { cost: price(priced) }),
        days: [{ calls, errors: 0, tokens: 110 * priced, ...(priced === 0 ? {} : { cost: price(priced) }), ...more }],
        ...more
      })
      assert.deepStrictEqual(
        timeless({ ...aggregates, failures: aggregates.failures.map(({ message: _, ...rest }: Json) => rest) }),
        {
          ...totals(3, { runs: 3, steps: 4, modelCalls: 4, toolCalls: 1, errors: 2 }),
          sessions: 3,
          misses: [],
          middleware: [],
          messages: 7,
          userMessages: 3,
          skills: [],
          tenants: [],
          cacheHit: 0.4,
          days: [totals(3, { runs: 3, steps: 4, modelCalls: 4, toolCalls: 1, errors: 2 })],
          models: [share("gpt-4o", 3, 3), share("gpt-4.1", 1, 0, { errors: 1 })],
          tools: [share("read_file", 1, 0)],
          agents: [share("main", 4, 3, { errors: 1 })],
          failures: [
            { name: "gpt-4.1", kind: "model", reason: aggregates.failures[0].reason, count: 1, session: bad.id }
          ]
        }
      )
      assert.strictEqual(aggregates.days[0].day, new Date(json.sessions[0].startedAt).toISOString().slice(0, 10))
      for (const latency of [aggregates.modelLatency, aggregates.toolLatency]) {
        assert.isTrue(latency.p50 >= 0 && latency.p50 <= latency.p90 && latency.p90 <= latency.p99)
      }
      assert.strictEqual((yield* ask("/api/aggregates?model=gpt-4.1")).json.modelCalls, 1)
    })
  )

  it.live("shows a session whole: rows, messages, files, images, and says what is not there", () =>
    Effect.gen(function* () {
      const { home, put, say, serve } = yield* world
      put("dot.png", "")
      writeFileSync(put("dot.png", ""), Buffer.from(pixel, "base64"))
      const { id } = yield* say(`read this ${key}`, "--image", "dot.png")
      yield* say("write a file", "--resume", id)
      const { ask, cookie, origin } = yield* serve()
      const { json, text } = yield* ask(`/api/sessions/${id}`)
      assert.notInclude(text, key)
      const [system, ...messages] = json.messages
      assert.deepStrictEqual([system.role, system.origin, system.position], ["system", "runtime", undefined])
      const [one, two] = json.runs.map(({ id }: Json) => id)
      const view = { kind: "text", outcome: "done" }
      const image = messages[0].parts.find(({ type }: Json) => type === "image")
      const result = (part: Json) => ({
        ...part,
        text: part.text.includes("rye bread") || part.text.includes("bytes_written")
      })
      assert.deepStrictEqual(
        timeless(
          messages.map((message: Json) => ({
            ...message,
            parts: message.parts.map((part: Json) => (part.type === "result" ? result(part) : part))
          }))
        ),
        [
          {
            role: "user",
            origin: "user",
            position: 0,
            row: 2,
            run: one,
            parts: [
              { type: "text", text: messages[0].parts[0].text },
              { type: "image", mediaType: "image/png", url: `/api/sessions/${id}/images/0-0`, local: true }
            ]
          },
          {
            role: "assistant",
            origin: "model",
            position: 1,
            row: 3,
            run: one,
            model: "gpt-4o",
            parts: [
              {
                type: "call",
                id: "c1",
                name: "read_file",
                args: '{\n  "path": "notes.txt"\n}',
                children: [],
                diffs: []
              }
            ]
          },
          {
            role: "tool",
            origin: "tool",
            position: 2,
            row: 4,
            run: one,
            parts: [{ type: "result", id: "c1", name: "read_file", text: true, status: "ok", view }]
          },
          {
            role: "assistant",
            origin: "model",
            position: 3,
            row: 5,
            run: one,
            model: "gpt-4o",
            parts: [{ type: "text", text: "The result was rye." }]
          },
          {
            role: "user",
            origin: "user",
            position: 4,
            row: 6,
            run: two,
            parts: [{ type: "text", text: "write a file" }]
          },
          {
            role: "assistant",
            origin: "model",
            position: 5,
            row: 7,
            run: two,
            model: "gpt-4o",
            parts: [
              {
                type: "call",
                id: "c2",
                name: "write_file",
                args: '{\n  "path": "made.txt",\n  "content": "one\\ntwo\\n"\n}',
                children: [],
                diffs: [{ path: "made.txt", text: "@@ -0,0 +1,2 @@\n+one\n+two\n" }]
              }
            ]
          },
          {
            role: "tool",
            origin: "tool",
            position: 6,
            row: 8,
            run: two,
            parts: [{ type: "result", id: "c2", name: "write_file", text: true, status: "ok", view }]
          },
          {
            role: "assistant",
            origin: "model",
            position: 7,
            row: 9,
            run: two,
            model: "gpt-4o",
            parts: [{ type: "text", text: "The result was other." }]
          }
        ]
      )
      assert.deepStrictEqual(
        json.data.runs[0].rows
          .map(({ kind, name }: Json) => `${kind} ${name}`)
          .filter((row: string) => !/^(agent|system)/.test(row)),
        [
          "user user",
          "llm gpt-4o",
          "tool read_file",
          "llm gpt-4o",
          "user user",
          "llm gpt-4o",
          "tool write_file",
          "llm gpt-4o"
        ]
      )
      assert.deepStrictEqual(
        timeless(json.runs.map(({ prompt: _, ...run }: Json) => run)),
        [one, two].map((run) => ({
          ...totals(2, { toolCalls: 1 }),
          id: run,
          status: "ok",
          exit: "text_response",
          model: "gpt-4o"
        }))
      )
      assert.deepStrictEqual(timeless(json.agents), [
        { ...totals(4, { runs: 2, toolCalls: 2 }), session: id, name: "main", status: "ok" }
      ])
      assert.deepStrictEqual(timeless(json.models), [
        { model: "gpt-4o", calls: 4, errors: 0, tokens: tokens(4), cost: price(4) }
      ])
      assert.deepStrictEqual([json.scores, json.notes, json.warnings], [[], [], []])

      const served = yield* Effect.promise(async () => {
        const response = await fetch(`${origin}${image.url}`, { headers: { cookie } })
        return [response.headers.get("content-type"), Buffer.from(await response.arrayBuffer()).toString("base64")]
      })
      assert.deepStrictEqual(served, ["image/png", pixel])
      assert.deepStrictEqual(
        [(yield* ask(`/api/sessions/${id}/images/9-0`)).status, (yield* ask(`/api/sessions/${id}/images/0-1`)).status],
        [404, 404]
      )
      const nothing = yield* ask("/api/sessions/nobody")
      assert.deepStrictEqual(
        [nothing.status, nothing.json],
        [404, { error: 'There is no session "nobody": it was removed, or the address is wrong. Go back to the list.' }]
      )
      assert.strictEqual((yield* ask("/api/nothing")).status, 404)
      assert.strictEqual((yield* ask("/api/sessions/%ff")).status, 404)

      // An entry of a version to come.
      const database = new DatabaseSync(join(home, "state.db"))
      database
        .prepare(
          "INSERT INTO run_record (session_id, turn_id, at, version, kind, body) VALUES (?, 't', 1, 9, 'Dreamt', '{\"_tag\":\"Dreamt\"}')"
        )
        .run(id)
      database.close()
      assert.strictEqual((yield* ask("/api/about")).json.unread, 1)
      const again = (yield* ask(`/api/sessions/${id}`)).json
      const unread =
        "1 entry of the run record cannot be read, because a newer version wrote it. Update hermes to see all."
      assert.deepStrictEqual([again.warnings, again.messages], [[unread], json.messages])
      const damaged = new DatabaseSync(join(home, "state.db"))
      damaged.prepare("UPDATE messages SET envelope = '{\"v\":1,' WHERE session_id = ? AND position = 3").run(id)
      damaged.close()
      const rest = (yield* ask(`/api/sessions/${id}`)).json
      assert.strictEqual((yield* ask(image.url)).status, 200)
      assert.deepStrictEqual(rest.warnings, [
        unread,
        "1 message cannot be read: a newer version wrote it, or the file is damaged."
      ])
      assert.deepStrictEqual(
        rest.messages.map(({ position }: Json) => position),
        json.messages.map(({ position }: Json) => position).filter((position: Json) => position !== 3)
      )
    })
  )
})
