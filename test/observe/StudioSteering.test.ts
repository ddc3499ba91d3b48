// The studio on a turn that another process runs: the page's stream follows it, and texts, answers and the cancellation
// reach it once.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Resumption from "../../src/agent/Resumption.ts"
import * as StudioServer from "../../src/observe/studio/StudioServer.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { readEvents, until, world } from "../support/servedAgent.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const plays = {
  wait: [{ text: "I wait for", hangs: true }],
  "remove it": [{ calls: [["terminal", { command: "rm -rf x" }]] }, { text: "Done." }],
  slowly: [{ calls: [["terminal", { command: "until [ -e go ]; do sleep 0.1; done" }]] }, { text: "Finished slowly." }]
} as const

/** Collects the events of a stream of the studio. */
const follow = (url: string, headers: Record<string, string>) => {
  const ending = new AbortController()
  const events: Array<{ readonly event: string; readonly data: ReturnType<typeof JSON.parse> }> = []
  const read = async () => {
    const response = await fetch(url, { headers, signal: ending.signal })
    let text = ""
    for await (const part of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += part
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const [, event = "", data = "null"] = /^event: (\S+)\n(?:id: \d+\n)?data: (.*)$/u.exec(text.slice(0, end)) ?? []
        text = text.slice(end + 2)
        if (event !== "") events.push({ event, data: JSON.parse(data) })
      }
    }
  }
  const ended = read().catch(() => undefined)
  const last = (event: string) => events.findLast((one) => one.event === event)?.data
  return { events, last, stop: () => (ending.abort(), ended) }
}

/** A server whose turns run in a process, and a studio over the same store with a connection of its own. */
const makeWorld = Effect.gen(function* () {
  const directory = yield* temporaryDirectory
  const owner = yield* world(plays, {}, undefined, directory)
  const connection = yield* Layer.build(Layer.fresh(SessionStore.layerSqlite({ path: join(owner.cwd, "state.db") })))
  const options: StudioServer.Options = {
    port: 0,
    home: directory,
    models: [],
    version: "1",
    exists: Effect.succeed(true),
    storeAnswers: (sessionId, answers) =>
      SessionStore.SessionStore.use((store) => Effect.asVoid(Resumption.takeAnswers(store, sessionId, { answers })))
  }
  const { url } = yield* Effect.provide(
    Effect.mapError(StudioServer.serve({ ...options, replay: () => Effect.void }), (reason) => new Error(reason)),
    connection
  )
  const { origin, searchParams } = new URL(url)
  const headers = { authorization: `Bearer ${searchParams.get("token")}` }
  const { id } = (yield* Effect.promise(() => owner.fetched("/v1/sessions", { json: {} }))).body
  const post = async (action: string, body: unknown, session: string = id) => {
    const response = await fetch(`${origin}/api/sessions/${session}/${action}`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify(body)
    })
    return { status: response.status, json: await response.json() }
  }
  const detail = async () => (await fetch(`${origin}/api/sessions/${id}`, { headers })).status
  const there = readEvents(`${owner.url}/v1/sessions/${id}/events`, owner.authorized)
  const say = (prompt: string) => owner.fetched(`/v1/sessions/${id}/messages`, { json: { prompt } })
  const countTurns = () => there.types().filter((type) => type === "turn_ended").length
  const page = () => follow(`${origin}/api/events?session=${id}&after=0`, headers)
  return { countTurns, detail, id, owner, page, post, say, there }
})

describe("the studio on a turn of another process", () => {
  it.live("follows it, steers it with the next result of a tool, and cancels the next one", () =>
    Effect.flatMap(makeWorld, ({ countTurns, detail, owner, page, post, say, there }) =>
      Effect.promise(async () => {
        await say("slowly")
        await until(() => there.types().includes("ToolStarted"))
        while ((await detail()) !== 200) await new Promise((done) => setTimeout(done, 20))
        const here = page()
        await until(() => here.last("session")?.summary.status === "running")
        assert.deepStrictEqual(await post("steer", { text: "Use tabs" }), { status: 200, json: { status: "steering" } })
        writeFileSync(join(owner.cwd, "go"), "")
        await until(() => countTurns() === 1 && here.last("session")?.summary.status === "ok")
        assert.strictEqual(JSON.stringify(owner.seen.at(-1)?.messages).split("Use tabs").length, 2)
        assert.include(JSON.stringify(here.events), "Finished slowly.")
        await say("wait")
        await until(() => here.last("session")?.summary.status === "running")
        const stopped = await post("cancel", {})
        assert.deepStrictEqual(stopped, { status: 200, json: { stopped: true, returned: [] } })
        await until(() => countTurns() === 2 && here.last("session")?.summary.status !== "running")
        assert.strictEqual(here.last("questions"), undefined)
        for (const reader of [here, there]) await reader.stop()
      })
    )
  )

  it.live("shows its question with the choices, and answers it once", () =>
    Effect.flatMap(makeWorld, ({ countTurns, detail, page, post, say, there }) =>
      Effect.promise(async () => {
        await say("remove it")
        await until(() => there.types().includes("approval_asked"))
        while ((await detail()) !== 200) await new Promise((done) => setTimeout(done, 20))
        const here = page()
        await until(() => here.last("questions") !== undefined)
        const [question, ...rest] = here.last("questions")
        assert.deepStrictEqual([question.text, question.typed, rest], ["rm -rf x", "none", []])
        assert.deepStrictEqual(question.choices.at(-1), { label: "Deny", answer: { choice: "deny" } })
        const answer = () => post("answer", { question: question.id, answer: { choice: "deny" } })
        const answers = await Promise.all([answer(), answer()])
        assert.deepStrictEqual(answers.map(({ status }) => status).toSorted(), [200, 409])
        await until(() => countTurns() === 1 && here.last("questions").length === 0)
        assert.strictEqual(here.events.filter(({ event }) => event === "questions").length, 2)
        assert.strictEqual(there.types().filter((type) => type === "question_closed").length, 1)
        for (const reader of [here, there]) await reader.stop()
      })
    )
  )

  it.live("shows the question of a suspended run, and stores one answer", () =>
    Effect.flatMap(makeWorld, ({ countTurns, detail, id, owner, page, post, there }) =>
      Effect.promise(async () => {
        await owner.fetched(`/v1/sessions/${id}`, { method: "PATCH", json: { questions: { unanswered: "suspend" } } })
        await owner.fetched(`/v1/sessions/${id}/messages`, { json: { prompt: "remove it" } })
        await until(() => countTurns() === 1)
        while ((await detail()) !== 200) await new Promise((done) => setTimeout(done, 20))
        const here = page()
        await until(() => here.last("questions") !== undefined)
        const [question, ...rest] = here.last("questions")
        assert.deepStrictEqual([question.text, question.typed, rest], ["rm -rf x", "none", []])
        const plan = await post("answer", { question: question.id, answer: { mode: "auto" } })
        assert.strictEqual(plan.status, 400)
        const answer = () => post("answer", { question: question.id, answer: { choice: "deny", reason: "keep it" } })
        const answers = await Promise.all([answer(), answer()])
        assert.deepStrictEqual(answers.map(({ status }) => status).toSorted(), [200, 409])
        assert.deepStrictEqual(answers.find(({ status }) => status === 200)?.json, { continues: false })
        await until(() => here.last("questions").length === 0)
        await owner.fetched(`/v1/sessions/${id}/answers`, { json: { answers: [] } })
        await until(() => countTurns() === 2)
        assert.include(JSON.stringify(owner.seen.at(-1)?.messages), "keep it")
        for (const reader of [here, there]) await reader.stop()
      })
    )
  )

  it.live("refuses messages without a running turn, and of another form", () =>
    Effect.flatMap(makeWorld, ({ countTurns, owner, post, say, there }) =>
      Effect.promise(async () => {
        writeFileSync(join(owner.cwd, "go"), "")
        await say("slowly")
        await until(() => countTurns() === 1)
        const over = { status: 409, json: { error: "no process works on the session: send it a message to continue" } }
        assert.deepStrictEqual(await post("steer", { text: "Use tabs" }), over)
        assert.deepStrictEqual(await post("cancel", {}), over)
        assert.deepStrictEqual(await post("answer", { question: "1", answer: { answers: ["a"] } }), over)
        for (const [action, body] of [
          ["steer", { text: "" }],
          ["steer", { text: "a", busy: "now" }],
          ["steer", { text: "a", tenant: "b" }],
          ["cancel", { all: true }],
          ["answer", { question: "1", answer: { choice: "yes" } }],
          ["answer", { answer: { choice: "once" } }]
        ] as const)
          assert.strictEqual((await post(action, body)).status, 400, `${action} ${JSON.stringify(body)}`)
        assert.strictEqual((await post("steer", { text: "a" }, "20250102_030405_bbbbbb")).status, 404)
        await there.stop()
      })
    )
  )
})
