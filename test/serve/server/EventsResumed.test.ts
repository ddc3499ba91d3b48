// Readers of a session's events that lost their connection: in the middle of a turn, behind a restart, with numbers
// that mean nothing here.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import { readEvents, until, world } from "../../support/servedAgent.ts"

const plays = { "Say hello": [{ text: ["Hel", "lo", "."] }], wait: [{ text: "I wait for", hangs: true }] }

type Served = Effect.Success<ReturnType<typeof world>>

const opened = async ({ fetched }: Served): Promise<string> => (await fetched("/v1/sessions", { json: {} })).body.id
const say = async ({ fetched }: Served, id: string, prompt: string): Promise<void> => {
  assert.strictEqual((await fetched(`/v1/sessions/${id}/messages`, { json: { prompt } })).status, 202)
}
const reading = ({ authorized, url }: Served, id: string, from?: number | string) =>
  readEvents(`${url}/v1/sessions/${id}/events`, {
    ...authorized,
    ...(from === undefined ? {} : { "last-event-id": `${from}` })
  })

const turns = (reader: ReturnType<typeof readEvents>): number =>
  reader.types().filter((type) => type === "turn_ended").length

describe("events behind a number", () => {
  it.live("go on in the middle of a turn, for each of two readers where it was", () =>
    Effect.flatMap(world(plays), (served) =>
      Effect.promise(async () => {
        const id = await opened(served)
        const whole = reading(served, id)
        await say(served, id, "wait")
        await until(() => whole.types().includes("TextDelta"))
        const so = whole.events.map((event) => event.id)
        const late = reading(served, id, so[0])
        const later = reading(served, id, so.at(-1))
        await served.fetched(`/v1/sessions/${id}/stop`, { json: {} })
        await until(() => [whole, late, later].every((reader) => turns(reader) === 1))
        assert.deepStrictEqual(late.events, whole.events.slice(1))
        assert.deepStrictEqual(later.events, whole.events.slice(so.length))
        for (const reader of [whole, late, later]) await reader.stop()
      })
    )
  )

  it.live("of another session, or of nobody yet, begin with a gap, and go on with what comes", () =>
    Effect.flatMap(world(plays), (served) =>
      Effect.promise(async () => {
        const first = await opened(served)
        const one = reading(served, first)
        await say(served, first, "Say hello")
        await until(() => turns(one) === 1)
        const last = one.events.at(-1)?.id ?? 0
        const second = await opened(served)
        for (const from of [last, Number.MAX_SAFE_INTEGER]) {
          const reader = reading(served, second, from)
          await until(() => reader.events.length > 0)
          assert.strictEqual(reader.types()[0], "gap")
          await say(served, second, "Say hello")
          await until(() => turns(reader) === 1)
          const ids = reader.events.map((event) => event.id)
          assert.deepStrictEqual(
            ids,
            ids.map((_, index) => (ids[0] ?? 0) + index)
          )
          // It comes back with a number that is of this session.
          const again = reading(served, second, ids[1])
          await until(() => turns(again) === 1)
          assert.deepStrictEqual(again.events, reader.events.slice(2))
          await reader.stop()
          await again.stop()
        }
        await one.stop()
      })
    )
  )

  it.live(
    "of a server before a restart begin with a gap, and the messages are there",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const scope = yield* Scope.make()
        const before = yield* Scope.provide(world(plays, {}, undefined, directory), scope)
        const { id, last } = yield* Effect.promise(async () => {
          const id = await opened(before)
          const reader = reading(before, id)
          await say(before, id, "Say hello")
          await until(() => turns(reader) === 1)
          await reader.stop()
          return { id, last: reader.events.at(-1)?.id ?? 0 }
        })
        yield* Scope.close(scope, Exit.void)
        const after = yield* world(plays, {}, undefined, directory)
        yield* Effect.promise(async () => {
          const reader = reading(after, id, last)
          await until(() => reader.events.length > 0)
          assert.deepInclude(reader.events[0]?.data, { type: "gap", missing_from: last + 1 })
          const { body } = await after.fetched(`/v1/sessions/${id}/messages`)
          assert.deepStrictEqual(
            body.data.map(({ content }: { readonly content: string }) => content),
            ["Say hello", "Hello."]
          )
          await say(after, id, "Say hello")
          await until(() => turns(reader) === 1)
          assert.strictEqual(reader.types().filter((type) => type === "gap").length, 1)
          await reader.stop()
        })
      }),
    { timeout: 60_000 }
  )

  it.live("that are no numbers are refused", () =>
    Effect.flatMap(world(plays), (served) =>
      Effect.promise(async () => {
        const id = await opened(served)
        for (const from of ["abc", "-1", "1.5", "1e400", "9007199254740993", "0x10"]) {
          const { body, status } = await served.fetched(`/v1/sessions/${id}/events`, {
            headers: { "last-event-id": from }
          })
          assert.deepStrictEqual([from, status, body.error?.code], [from, 400, "invalid_request"])
        }
      })
    )
  )
})
