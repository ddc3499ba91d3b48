// The server under load: many clients at once, many sessions one after another, clients that read nothing.
// `npm run test:server` plays it whole (500 clients, 1000 sessions); otherwise a small form of each.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { connect, type Socket } from "node:net"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { readEvents, until, user, world } from "../../support/servedAgent.ts"

const isWhole = process.env["HERMES_TEST_SERVER"] !== undefined
const clients = isWhole ? 500 : 20
const timeout = 600_000

setFlagsFromString("--expose-gc")
const collect: () => void = runInNewContext("gc")

/** Bytes of the heap that are in use, when all that is garbage is gone. */
const heap = async (): Promise<number> => {
  for (let count = 0; count < 4; count++) {
    collect()
    await new Promise((resolve) => setImmediate(resolve))
  }
  return process.memoryUsage().heapUsed
}

const numberOf = (metrics: string, name: string): number =>
  Number(new RegExp(`^${name} (\\d+)$`, "mu").exec(metrics)?.[1])

describe(`the server under load (${isWhole ? "whole" : "small"})`, () => {
  it.live(
    "tells the events of a turn to every one of its readers at once",
    () =>
      Effect.gen(function* () {
        const { authorized, fetched, url } = yield* world({
          "Say hello": [{ text: Array.from({ length: 50 }, (_, index) => `word${index} `) }]
        })
        yield* Effect.promise(async () => {
          const {
            body: { id }
          } = await fetched("/v1/sessions", { json: {} })
          const readers = Array.from({ length: clients }, () =>
            readEvents(`${url}/v1/sessions/${id}/events`, authorized)
          )
          while (numberOf((await fetched("/metrics")).body, "hermes_event_readers") < clients)
            await new Promise((resolve) => setTimeout(resolve, 20))
          await fetched(`/v1/sessions/${id}/messages`, { json: { prompt: "Say hello" } })
          await until(() => readers.every((reader) => reader.types().includes("turn_ended")))
          const [first] = readers.map(({ events }) => JSON.stringify(events))
          assert.deepStrictEqual(readers.filter(({ events }) => JSON.stringify(events) !== first).length, 0)
          await Promise.all(readers.map(({ stop }) => stop()))
          while (numberOf((await fetched("/metrics")).body, "hermes_event_readers") > 0)
            await new Promise((resolve) => setTimeout(resolve, 20))
        })
      }),
    { timeout }
  )

  it.live(
    "answers streams at once, each of its own session",
    () =>
      Effect.gen(function* () {
        const { client } = yield* world({ Say: [{ text: ["All ", "of ", "it."] }] })
        yield* Effect.promise(async () => {
          const answers = await Promise.all(
            Array.from({ length: clients }, async (_, index) => {
              const { data, response } = await client.chat.completions
                .create({ model: "hermes", stream: true, messages: [user(`Say ${index}`)] })
                .withResponse()
              let text = ""
              for await (const { choices } of data) text += choices[0]?.delta.content ?? ""
              return [text, response.headers.get("x-hermes-session-id")] as const
            })
          )
          assert.deepStrictEqual(new Set(answers.map(([text]) => text)), new Set(["All of it."]))
          assert.strictEqual(new Set(answers.map(([, session]) => session)).size, clients)
        })
      }),
    { timeout }
  )

  it.live(
    "does not grow with sessions one after another",
    () =>
      Effect.gen(function* () {
        const { client, fetched, forget } = yield* world(
          { "Say hello": [{ text: "Hello there." }] },
          {},
          undefined,
          true
        )
        const sessions = async (count: number) => {
          for (let index = 0; index < count; index++)
            await client.chat.completions.create({ model: "hermes", messages: [user("Say hello")] })
          forget()
        }
        yield* Effect.promise(async () => {
          // As many as stay open, and what is loaded and compiled on the way.
          await sessions(isWhole ? 200 : 70)
          const open = async () => numberOf((await fetched("/metrics")).body, "hermes_sessions_open")
          while ((await open()) > 64) await new Promise((resolve) => setTimeout(resolve, 20))
          const sizes: Array<number> = [await heap()]
          for (let round = 0; round < (isWhole ? 4 : 1); round++) {
            await sessions(isWhole ? 200 : 20)
            while ((await open()) > 64) await new Promise((resolve) => setTimeout(resolve, 20))
            sizes.push(await heap())
          }
          if (isWhole)
            process.stdout.write(
              `heap: ${sizes.map((bytes) => (bytes / 1_000_000).toFixed(1)).join(", ")} MB; rss ${Math.round(process.memoryUsage().rss / 1_000_000)} MB\n`
            )
          assert.strictEqual(await open(), 64)
          // A session that stays open holds 400 kB; a conversation that is known by its messages 300 bytes, of 4096.
          // Twenty sessions say nothing of that in a process that other files of tests share.
          const perSession = ((sizes.at(-1) ?? 0) - (sizes[0] ?? 0)) / 800
          if (isWhole) assert.isBelow(perSession, 2_000, `${sizes}`)
        })
      }),
    { timeout }
  )

  it.live(
    "cuts off a client that reads nothing, keeps no more for it than for others, and its session goes on",
    () =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        const piece = "x ".repeat(8_000)
        const pieces = Array.from({ length: isWhole ? 120 : 60 }, () => piece)
        const { apiKey, client, fetched, forget, url } = yield* Scope.provide(
          world({ flood: [{ text: pieces }], "Say hello": [{ text: "Hello." }] }, { maxStall: 400 }, undefined, true),
          scope
        )
        const { hostname, port } = new URL(url)
        yield* Effect.promise(async () => {
          const {
            body: { id }
          } = await fetched("/v1/sessions", { json: {} })
          const closed = (socket: Socket) =>
            new Promise<void>((resolve) => socket.once("close", resolve).on("error", () => undefined))
          const silent = Array.from({ length: isWhole ? 20 : 2 }, () => {
            const socket = connect(Number(port), hostname)
            socket.write(
              `GET /v1/sessions/${id}/events HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${apiKey}\r\n\r\n`
            )
            socket.pause()
            return { socket, closed: closed(socket) }
          })
          while (numberOf((await fetched("/metrics")).body, "hermes_event_readers") < silent.length)
            await new Promise((resolve) => setTimeout(resolve, 20))
          const before = await heap()
          // One beside them that reads gets all of it.
          const answer = await client.chat.completions.create(
            { model: "hermes", stream: true, messages: [user("flood")] },
            { headers: { "x-hermes-session-id": id } }
          )
          let length = 0
          for await (const { choices } of answer) length += choices[0]?.delta.content?.length ?? 0
          assert.strictEqual(length, pieces.length * piece.length)
          // What lies in the sockets of this machine is not theirs to fill, so that more turns may be needed.
          for (
            let turn = 0;
            turn < 40 && numberOf((await fetched("/metrics")).body, "hermes_event_readers") > 0;
            turn++
          ) {
            await fetched(`/v1/sessions/${id}/messages`, { json: { prompt: "flood" } })
            while ((await fetched(`/v1/sessions/${id}`)).body.turn !== null)
              await new Promise((resolve) => setTimeout(resolve, 20))
            await new Promise((resolve) => setTimeout(resolve, 200))
          }
          assert.strictEqual(numberOf((await fetched("/metrics")).body, "hermes_event_readers"), 0)
          for (const { socket } of silent) socket.resume()
          await Promise.all(silent.map(({ closed }) => closed))
          forget()
          const grown = (await heap()) - before
          // The session keeps a million characters of events, and a reader has 64 kB of them at once. Each turn would
          // be 40 MB for all of them.
          if (isWhole) process.stdout.write(`slow readers: ${(grown / 1_000_000).toFixed(1)} MB\n`)
          if (isWhole) assert.isBelow(grown, 40_000_000)
          const hello = await client.chat.completions.create(
            { model: "hermes", messages: [user("Say hello")] },
            { headers: { "x-hermes-session-id": id } }
          )
          assert.strictEqual(hello.choices[0]?.message.content, "Hello.")
        })
        yield* Scope.close(scope, Exit.void)
      }),
    { timeout }
  )

  it.live(
    "stops the turns of clients that hang up in the middle, and ends without losing one",
    () =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        const many = isWhole ? 100 : 5
        const { aborted, client, fetched, seen } = yield* Scope.provide(
          world({ wait: [{ text: "I wait ", hangs: true }], "Say hello": [{ text: "Hello." }] }),
          scope
        )
        yield* Effect.promise(async () => {
          const ending = new AbortController()
          const hanging = Array.from({ length: many }, () =>
            client.chat.completions
              .create({ model: "hermes", messages: [user("wait")] }, { signal: ending.signal })
              .catch(() => "left")
          )
          await until(() => seen.length === many)
          ending.abort()
          assert.deepStrictEqual(new Set(await Promise.all(hanging)), new Set(["left"]))
          await until(() => aborted() === many)
          // Every one of these sessions is free again.
          while (/"turn":\{/u.test(JSON.stringify((await fetched("/v1/sessions")).body)))
            await new Promise((resolve) => setTimeout(resolve, 20))
        })
        // Requests under way when the server ends are answered whole.
        const answering = Array.from({ length: many }, () =>
          client.chat.completions.create({ model: "hermes", messages: [user("Say hello")] })
        )
        yield* Effect.promise(() => until(() => seen.length === 2 * many))
        yield* Scope.close(scope, Exit.void)
        const answers = yield* Effect.promise(() => Promise.all(answering))
        assert.deepStrictEqual(new Set(answers.map(({ choices }) => choices[0]?.message.content)), new Set(["Hello."]))
      }),
    { timeout }
  )
})
