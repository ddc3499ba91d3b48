// Real processes over SQLite and Postgres: the process of a turn is killed while it has a text of another process. The
// text reaches the model once, in the turn that follows.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import { Cluster } from "../../../src/kit/entry/cluster.ts"
import * as RemoteSession from "../../../src/store/RemoteSession.ts"
import * as SessionInbox from "../../../src/store/SessionInbox.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { makeProcesses } from "../../support/remoteServing.ts"
import { readEvents, until } from "../../support/servedAgent.ts"

let database: Server | undefined
let folder = ""
const processes = makeProcesses(() => folder)

beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "hermes-killed-")))
  if (missing === undefined) database = await startServer()
})

afterAll(async () => {
  processes.killAll()
  await database?.remove()
  rmSync(folder, { recursive: true, force: true })
})

const count = (reader: ReturnType<typeof readEvents>, type: string): number =>
  reader.types().filter((one) => one === type).length

/** Number of messages to the model with a text. */
const countTexts = (id: string, text: string) =>
  SessionStore.SessionStore.use((store) =>
    Effect.map(Effect.flatMap(store.newest(SessionId.make(id)), store.messages), (messages) =>
      messages
        .filter(({ role }) => role !== "assistant")
        .flatMap((message) => JSON.stringify(message).split(text).slice(1))
    )
  ).pipe(Effect.map(({ length }) => length))

const listWaiting = SessionInbox.SessionInbox.use(({ waiting }) => waiting)

/** Waits for an Effect to return a value. */
const untilReturned = <A, E, R>(effect: Effect.Effect<A, E, R>, isMeant: (value: A) => boolean) =>
  Effect.repeat(Effect.delay(effect, "50 millis"), { until: isMeant })

const places = [
  { name: "SQLite", isMissing: false, open: (name: string) => join(folder, `${name}.db`) },
  { name: "Postgres", isMissing: missing !== undefined, open: (name: string) => database?.url(name) ?? assert.fail() }
] as const

const layerOf = (place: string) =>
  place.startsWith("/")
    ? SessionStore.layerSqlite({ path: place })
    : SessionStore.layerPostgres({ url: Redacted.make(place) })

const prompts = (id: string, prompt: string) =>
  Cluster.makeTurnRequest({ id, sessionId: `session-${id}`, prompt, source: "api-server" })

// The next runner waits for the takeover of a shard, half a minute a case: they belong to `npm run test:cluster`.
const isLong = process.env["HERMES_TEST_CLUSTER_KILLS"] !== undefined

describe.skipIf(missing !== undefined || !isLong)("the runner of a durable run is killed", () => {
  for (const [fatal, moment] of [
    ["reply", "before it replies: the sender still has the text"],
    ["settle", "after the cluster has the text: the next runner delivers it once"]
  ] as const)
    it.live(
      moment,
      () =>
        Effect.gen(function* () {
          // The runners of one database share the locks of their shards.
          const server = yield* Effect.acquireRelease(
            Effect.promise(() => startServer()),
            (one) => Effect.promise(() => one.remove())
          )
          const url = server.url("runners")
          rmSync(join(folder, "go"), { force: true })
          const first = yield* Effect.promise(() => processes.start("runner", url, fatal))
          yield* Effect.gen(function* () {
            yield* Cluster.submit(prompts("a", "slowly"))
            yield* untilReturned(RemoteSession.isRunning("session-a"), (isRunning) => isRunning)
            const sent = yield* Effect.exit(RemoteSession.steerTurn("session-a", { prompt: "Use tabs", busy: "steer" }))
            yield* Effect.promise(() => first.ended)
            assert.deepStrictEqual(
              sent,
              fatal === "settle"
                ? Exit.succeed("steering")
                : Exit.fail(
                    new RemoteSession.RemoteRefused({
                      sessionId: "session-a",
                      reason: "ended",
                      message: "no process works on the session: send it a message to continue"
                    })
                  )
            )
            writeFileSync(join(folder, "go"), "")
            const next = yield* Effect.promise(() => processes.start("runner", url))
            yield* Cluster.waitForOutcomes(["a"])
            if (fatal === "settle") yield* untilReturned(countTexts("session-a", "Use tabs"), (found) => found > 0)
            yield* untilReturned(RemoteSession.isRunning("session-a"), (isRunning) => !isRunning)
            assert.strictEqual(yield* countTexts("session-a", "Use tabs"), fatal === "settle" ? 1 : 0)
            yield* Effect.promise(() => next.kill())
          }).pipe(Effect.provide(Layer.merge(layerOf(url), Cluster.layerClient({ url: Redacted.make(url) }))))
        }),
      { timeout: 180_000, retry: 0 }
    )
})

for (const { isMissing, name, open } of places)
  describe.skipIf(isMissing)(`the process of a turn is killed, over ${name}`, () => {
    /** Starts a turn that waits, and an owner that dies before an operation of the inbox. */
    const begin = async (schema: string, fatal = "") => {
      rmSync(join(folder, "go"), { force: true })
      const place = open(schema)
      const owner = await processes.serve(place, fatal)
      const other = await processes.serve(place)
      const { id } = (await owner.fetched("/v1/sessions", {})).body
      const there = owner.read(id)
      await owner.send(id, { prompt: "slowly" })
      await until(() => count(there, "ToolStarted") === 1)
      return { id: String(id), owner, other, there, layer: layerOf(place) }
    }

    it.live(
      "before it replies: the text is the next message of its sender",
      () =>
        Effect.gen(function* () {
          const { id, layer, other, owner, there } = yield* Effect.promise(() => begin("replying", "reply"))
          yield* Effect.gen(function* () {
            yield* Effect.promise(async () => {
              const here = other.read(id)
              await until(() => count(here, "ToolStarted") === 1)
              const sent = await other.send(id, { prompt: "Use tabs", busy: "steer" })
              await owner.ended
              assert.strictEqual(sent.status, 202)
              writeFileSync(join(folder, "go"), "")
              await until(() => count(here, "turn_ended") === 2)
              await Promise.all([here.stop(), there.stop()])
            })
            assert.strictEqual(yield* countTexts(id, "Use tabs"), 1)
            assert.deepStrictEqual(yield* listWaiting, [])
          }).pipe(Effect.provide(layer))
        }),
      { timeout: 90_000, retry: 0 }
    )

    it.live(
      "after it replied: the next turn delivers the text, once",
      () =>
        Effect.gen(function* () {
          const { id, layer, other, owner, there } = yield* Effect.promise(() => begin("replied"))
          yield* Effect.gen(function* () {
            assert.strictEqual(yield* RemoteSession.steerTurn(id, { prompt: "Use tabs", busy: "steer" }), "steering")
            assert.strictEqual(yield* RemoteSession.steerTurn(id, { prompt: "Then test", busy: "queue" }), "queued")
            const here = yield* Effect.promise(async () => {
              await owner.kill()
              await there.stop()
              const here = other.read(id)
              await other.send(id, { prompt: "slowly again" })
              await until(() => count(here, "ToolStarted") === 1)
              await until(() => JSON.stringify(here.events).includes("Then test"))
              writeFileSync(join(folder, "go"), "")
              await until(() => count(here, "turn_ended") === 2)
              return here
            })
            assert.deepStrictEqual([yield* countTexts(id, "Use tabs"), yield* countTexts(id, "Then test")], [1, 1])
            yield* untilReturned(listWaiting, ({ length }) => length === 0)
            yield* Effect.promise(() => here.stop())
          }).pipe(Effect.provide(layer))
        }),
      { timeout: 90_000, retry: 0 }
    )

    it.live(
      "after the model has the text: no other turn delivers it again",
      () =>
        Effect.gen(function* () {
          const { id, layer, other, owner, there } = yield* Effect.promise(() => begin("settling", "settle"))
          yield* Effect.gen(function* () {
            yield* RemoteSession.steerTurn(id, { prompt: "Use tabs", busy: "steer" })
            yield* RemoteSession.steerTurn(id, { prompt: "Then test", busy: "queue" })
            const here = yield* Effect.promise(async () => {
              writeFileSync(join(folder, "go"), "")
              await owner.ended
              await there.stop()
              rmSync(join(folder, "go"))
              const here = other.read(id)
              await other.send(id, { prompt: "slowly again" })
              await until(() => count(here, "ToolStarted") === 1)
              return here
            })
            // The text that is known is removed, and the other one waits for its turn.
            yield* Effect.promise(() => until(() => JSON.stringify(here.events).includes("Then test")))
            writeFileSync(join(folder, "go"), "")
            yield* Effect.promise(() => until(() => count(here, "turn_ended") === 2))
            assert.deepStrictEqual([yield* countTexts(id, "Use tabs"), yield* countTexts(id, "Then test")], [1, 1])
            yield* untilReturned(listWaiting, ({ length }) => length === 0)
            yield* Effect.promise(() => here.stop())
          }).pipe(Effect.provide(layer))
        }),
      { timeout: 90_000, retry: 0 }
    )
  })
