// Real processes over Postgres: a turn of a server, or of a cluster runner, is watched, steered, answered and stopped by
// another server and by an editor, and each message has one effect.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Cluster } from "../../../src/kit/entry/cluster.ts"
import { say } from "../../support/acpEditor.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { readEvents, until } from "../../support/servedAgent.ts"
import { makeProcesses } from "../../support/remoteServing.ts"
import * as servedEditor from "../../support/servedEditor.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"

let database: Server | undefined
let folder = ""
const processes = makeProcesses(() => folder)

beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "hermes-remote-")))
  if (missing === undefined) database = await startServer()
})

afterAll(async () => {
  processes.killAll()
  await database?.remove()
  rmSync(folder, { recursive: true, force: true })
})

const addressOf = (schema: string): string => database?.url(schema) ?? assert.fail("no database")

const startServing = (schema: string) => processes.serve(addressOf(schema))

const count = (reader: ReturnType<typeof readEvents>, type: string): number =>
  reader.types().filter((one) => one === type).length

const go = (): void => writeFileSync(join(folder, "go"), "")
const halt = (): void => rmSync(join(folder, "go"), { force: true })
const countTraces = (line: string): number =>
  existsSync(join(folder, "traces")) ? readFileSync(join(folder, "traces"), "utf8").split(line).length - 1 : 0

/** Number of messages that wait in the inbox. */
const countWaiting = (schema: string): string =>
  database?.query(`SELECT count(*) FROM ${schema}.session_inbox`).trim() ?? ""

/** Asks again until the answer is as expected. */
const untilAsked = async (ask: () => Promise<boolean>): Promise<void> => {
  while (!(await ask())) await new Promise((done) => setTimeout(done, 50))
}

/** Number of durable runs that wait for answers. */
const countClaims = (schema: string): string =>
  database?.query(`SELECT count(*) FROM ${schema}.session_notices WHERE kind = 'claim'`).trim() ?? ""

/** Number of messages to the model with a text. */
const countTexts = (schema: string, text: string): string =>
  database
    ?.query(`SELECT count(*) FROM ${schema}.messages m WHERE role <> 'assistant' AND m::text LIKE '%${text}%'`)
    .trim() ?? ""

const editorOf = (schema: string) =>
  servedEditor.world({}, {}, "ask", folder, SessionStore.layerPostgres({ url: Redacted.make(addressOf(schema)) }))

describe.skipIf(missing !== undefined)("a turn of another process over Postgres", () => {
  it.live(
    "of a server: another server and an editor watch, steer, answer and stop it",
    () =>
      Effect.gen(function* () {
        const schema = "servers"
        const [owner, other] = yield* Effect.promise(() => Promise.all([startServing(schema), startServing(schema)]))
        const editor = yield* editorOf(schema)
        yield* Effect.promise(async () => {
          halt()
          const { id } = (await owner.fetched("/v1/sessions", {})).body
          const there = owner.read(id)
          await owner.send(id, { prompt: "slowly" })
          await until(() => count(there, "ToolStarted") === 1)
          const here = other.read(id)
          await until(() => count(here, "ToolStarted") === 1)
          await editor.ask("session/load", { sessionId: id, cwd: folder, mcpServers: [] })
          // Three messages from two processes, in order.
          const first = await other.send(id, { prompt: "alpha", busy: "steer" })
          assert.deepStrictEqual([first.status, first.body.status], [202, "steering"])
          const prompted = editor.ask("session/prompt", { sessionId: id, prompt: say("beta") })
          await until(() => JSON.stringify(there.events).includes('"steering":["alpha","beta"]'))
          await other.send(id, { prompt: "gamma", busy: "steer" })
          go()
          assert.strictEqual((await prompted).stopReason, "end_turn")
          await until(() => count(here, "turn_ended") === 1 && count(there, "turn_ended") === 1)
          const said = JSON.stringify(there.events.find(({ data }) => data["type"] === "ToolFinished"))
          assert.match(said, /alpha.*beta.*gamma/u)
          assert.deepStrictEqual(
            ["alpha", "beta", "gamma"].map((text) => editor.textOf(id).split(text).length),
            [2, 2, 2]
          )
          // A question is shown to both, and answered once.
          editor.answers.push("hold")
          await owner.send(id, { prompt: "danger" })
          await until(() => count(here, "approval_asked") === 1 && editor.asked.length === 1)
          const question = here.events.find(({ data }) => data["type"] === "approval_asked")?.data["question_id"]
          const answer = () => other.fetched(`/v1/sessions/${id}/questions/${String(question)}`, { choice: "deny" })
          const statuses = (await Promise.all([answer(), answer()])).map(({ status }) => status)
          assert.deepStrictEqual(statuses.toSorted(), [204, 404])
          await until(() => count(here, "turn_ended") === 2 && editor.takenBack() === 1)
          // The other server stops a turn that began after its reader.
          halt()
          await owner.send(id, { prompt: "slowly again" })
          await until(() => count(here, "ToolStarted") === 2)
          const stopped = await other.fetched(`/v1/sessions/${id}/stop`, {})
          assert.deepStrictEqual(stopped.body, { stopped: true, returned: [] })
          await until(() => count(here, "turn_ended") === 3 && count(there, "turn_ended") === 3)
          await untilAsked(async () => countWaiting(schema) === "0")
          await here.stop()
          await there.stop()
        })
      }),
    { timeout: 90_000, retry: 0 }
  )

  it.live(
    "of a cluster runner: a server steers and cancels it, and answers it once",
    () =>
      Effect.gen(function* () {
        const schema = "runners"
        const [other] = yield* Effect.promise(() =>
          Promise.all([startServing(schema), processes.start("runner", addressOf(schema))])
        )
        const submit = (id: string, prompt: string) =>
          Cluster.submit(
            Cluster.makeTurnRequest({
              id,
              sessionId: `session-${id}`,
              prompt,
              source: "api-server",
              questions: { unanswered: "suspend" }
            })
          )
        yield* Effect.gen(function* () {
          halt()
          yield* submit("steered", "slowly")
          const here = yield* Effect.promise(async () => {
            const path = "/v1/sessions/session-steered"
            await untilAsked(async () => (await other.fetched(path)).body.turn != null)
            const here = other.read("session-steered")
            await until(() => count(here, "ToolStarted") === 1)
            const sent = await other.send("session-steered", { prompt: "Use tabs", busy: "steer" })
            assert.deepStrictEqual([sent.status, sent.body.status], [202, "steering"])
            go()
            await until(() => count(here, "turn_ended") === 1)
            return here
          })
          yield* Cluster.waitForOutcomes(["steered"])
          // The text came with the result, or is the next turn if the runner saw it after the result.
          yield* Effect.promise(() => untilAsked(async () => countTexts(schema, "Use tabs") !== "0"))
          halt()
          yield* submit("cancelled", "slowly")
          yield* Effect.promise(async () => {
            await here.stop()
            const path = "/v1/sessions/session-cancelled"
            await untilAsked(async () => (await other.fetched(path)).body.turn != null)
            const stopped = await other.fetched(`${path}/stop`, {})
            assert.strictEqual(stopped.body.stopped, true)
          })
          assert.strictEqual(
            (yield* Cluster.waitForOutcomes(["cancelled"])).get("cancelled")?.message,
            "the run was cancelled"
          )
          // Suspended runs: two clients answer, the runner continues, and the tool pays once.
          yield* submit("asks", "pay")
          yield* Effect.promise(async () => {
            const path = "/v1/sessions/session-asks"
            let open: ReadonlyArray<{ readonly id: string }> = []
            await untilAsked(async () => {
              const { body, status } = await other.fetched(`${path}/questions`)
              open = status === 200 ? body.data : []
              return open.length > 0
            })
            // The run claims its session when it is suspended.
            await until(() => countClaims(schema) === "1")
            const answer = (euros: number) =>
              other.fetched(`${path}/answers`, { answers: [{ question_id: open[0]?.id, answer: euros }] })
            const statuses = (await Promise.all([answer(5), answer(6)])).map(({ status }) => status)
            assert.deepStrictEqual(statuses.toSorted(), [202, 409])
          })
          assert.include((yield* Cluster.waitForOutcomes(["asks"])).get("asks")?.output, "Done with")
          assert.strictEqual(countTraces("pay "), 1)
          assert.strictEqual(countTexts(schema, "Use tabs"), "1")
          // A sender removes its message after it has read the reply.
          yield* Effect.promise(() => untilAsked(async () => countWaiting(schema) === "0"))
        }).pipe(Effect.provide(Cluster.layerClient({ url: Redacted.make(addressOf(schema)) })))
      }),
    { timeout: 120_000, retry: 0 }
  )
})
