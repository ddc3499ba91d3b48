// The end of a server while turns run: what can end in time is answered, what cannot is told why, and both are there
// afterwards.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { readEvents, until, user, world } from "../../support/servedAgent.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const plays = {
  "Say hello": [{ text: "Hello." }],
  "wait for ever": [{ text: "I wait for", hangs: true }],
  "a command": [{ calls: [["terminal", { command: "sleep 1; echo done" }]] }, { text: "It is done." }]
} as const

const contents = (body: { readonly data: ReadonlyArray<{ readonly role: string; readonly content: string }> }) =>
  body.data.flatMap(({ content, role }) => (role === "tool" ? [] : [content]))

describe("the end of a server", () => {
  it.live("ends the events of a session that has nothing to do, without a wait", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { authorized, fetched, url } = yield* Scope.provide(world(plays, { maxGrace: 3_600_000 }), scope)
      const reader = yield* Effect.promise(async () => {
        const {
          body: { id }
        } = await fetched("/v1/sessions", { json: {} })
        const reader = readEvents(`${url}/v1/sessions/${id}/events`, authorized)
        await fetched(`/v1/sessions/${id}/messages`, { json: { prompt: "Say hello" } })
        await until(() => reader.types().includes("turn_ended"))
        return reader
      })
      yield* Scope.close(scope, Exit.void)
      // Its connection was ended, not cut.
      assert.strictEqual(yield* Effect.promise(() => reader.ended), "ended")
    })
  )

  it.live("waits for a turn that ends in time, and answers it", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const served = yield* Scope.provide(world(plays, { mode: "yolo" }), scope)
      const answer = yield* Effect.promise(async () => {
        const asked = served.fetched("/v1/chat/completions", { json: { messages: [user("a command")] } })
        await until(() => served.seen.length === 1)
        return asked
          .then(({ body, status }) => [status, body.choices[0].message.content])
          .catch((error: unknown) => [String(error)])
      }).pipe(Effect.forkChild({ startImmediately: true }))
      yield* Effect.promise(() => until(() => served.seen.length === 1))
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* Fiber.join(answer), [200, "It is done."])
    })
  )

  it.live(
    "gives up a turn that does not: its callers are told in their protocol, and the next server goes on with the session",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const scope = yield* Scope.make()
        const served = yield* Scope.provide(world(plays, { maxGrace: 300 }, undefined, directory), scope)
        const { authorized, client, fetched, url } = served
        const streamed = async () => {
          let text = ""
          try {
            for await (const { choices } of await client.chat.completions.create({
              model: "hermes",
              messages: [user("wait for ever")],
              stream: true
            }))
              text += choices[0]?.delta.content ?? ""
            return "ended"
          } catch (error) {
            return [text, error instanceof Error && "code" in error ? error.code : String(error)]
          }
        }
        const { id, reader, waiting } = yield* Effect.promise(async () => {
          const {
            body: { id }
          } = await fetched("/v1/sessions", { json: {} })
          const reader = readEvents(`${url}/v1/sessions/${id}/events`, authorized)
          await fetched(`/v1/sessions/${id}/messages`, { json: { prompt: "wait for ever" } })
          await until(() => reader.types().includes("TextDelta"))
          const waiting = Promise.all([
            streamed(),
            fetched("/v1/chat/completions", { json: { messages: [user("wait for ever")] } }).then(
              ({ body, status }) => [status, body.error.code],
              String
            )
          ])
          await until(() => served.seen.length === 3)
          return { id, reader, waiting }
        })
        yield* Scope.close(scope, Exit.void)
        const [stream, whole] = yield* Effect.promise(() => waiting)
        assert.deepStrictEqual(whole, [503, "interrupted"])
        assert.deepStrictEqual(stream, ["I wait for", "interrupted"])
        assert.strictEqual(yield* Effect.promise(() => reader.ended), "ended")
        assert.deepInclude(reader.events.findLast(({ data }) => data["type"] === "turn_ended")?.data, {
          exit: "interrupted_by_user"
        })
        assert.strictEqual(served.aborted(), 3)

        const next = yield* world(plays, {}, undefined, directory)
        yield* Effect.promise(async () => {
          const again = await next.fetched("/v1/chat/completions", {
            json: { messages: [user("Say hello")] },
            headers: { "x-hermes-session-id": id }
          })
          assert.deepStrictEqual([again.status, again.body.choices[0].message.content], [200, "Hello."])
          const said = contents((await next.fetched(`/v1/sessions/${id}/messages`)).body)
          assert.deepStrictEqual([said[0], said.at(-2), said.at(-1)], ["wait for ever", "Say hello", "Hello."])
          assert.include(said[1], "I wait for")
        })
      })
  )
})
