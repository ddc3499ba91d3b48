// Readers of a session's events that lost their connection: in the middle of a turn, behind a restart, with numbers
// that mean nothing here.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import { readEvents, until, world } from "../../support/servedAgent.ts"

const plays = { "Say hello": [{ text: ["Hel", "lo", "."] }], wait: [{ text: "I wait for", hangs: true }] }

const list = {
  calls: [
    ["list_files", { path: "." }],
    ["list_files", { path: "." }]
  ]
} as const
const calling = { ...plays, "list it": [{ text: "I look.", ...list }, { text: ["Noth", "ing ", "here."] }] }

type Seen = ReturnType<typeof readEvents>["events"]

/** Events that are repeated, without what differs between a live and a recorded run; adjacent texts are joined. */
const summarise = (events: Seen): ReadonlyArray<unknown> => {
  const all: Array<Record<string, unknown>> = []
  for (const { data } of events) {
    const { durationMillis: _, message_id: __, origin: ___, turn: ____, value: _____, ...fields } = data
    const type = String(data["type"])
    const last = all.at(-1)
    if (!/^(?:turn_|Run|Text|ToolStarted|ToolFinished|StepStarted)/u.test(type)) continue
    if (type === "TextDelta" && last?.["type"] === type)
      all[all.length - 1] = { type, text: `${last["text"]}${data["text"]}` }
    else all.push(type === "RunFinished" ? { ...fields, cost: undefined } : fields)
  }
  return all
}

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
        const so = whole.events.map((event) => event.at)
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

  it.live("of a server before a restart begin with a gap, and the messages are there", () =>
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
    })
  )

  it.live("with their place are followed by the rest, behind a restart of the server", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const scope = yield* Scope.make()
      const before = yield* Scope.provide(world(calling, {}, undefined, directory), scope)
      const { id, seen } = yield* Effect.promise(async () => {
        const id = await opened(before)
        const reader = reading(before, id)
        await say(before, id, "list it")
        await until(() => turns(reader) === 1)
        await say(before, id, "Say hello")
        await until(() => turns(reader) === 2)
        await reader.stop()
        return { id, seen: reader.events }
      })
      yield* Scope.close(scope, Exit.void)
      const after = yield* world(calling, {}, undefined, directory)
      yield* Effect.promise(async () => {
        const start = seen.findIndex(({ data }) => data["type"] === "RunStarted")
        for (let left = start; left < seen.length; left++) {
          const reader = reading(after, id, seen[left]?.at)
          const wanted = 2 - seen.slice(0, left + 1).filter(({ data }) => data["type"] === "turn_ended").length
          await until(() => turns(reader) === wanted)
          assert.deepStrictEqual(
            summarise([...seen.slice(0, left + 1), ...reader.events]),
            summarise(seen),
            `behind ${String(seen[left]?.data["type"])} ${left}`
          )
          // It leaves again, in the middle of what was repeated.
          const [middle] = reader.events.slice(Math.floor(reader.events.length / 2))
          await reader.stop()
          if (middle === undefined) continue
          const again = reading(after, id, middle.at)
          const upTo = reader.events.indexOf(middle) + 1
          const open = wanted - reader.events.slice(0, upTo).filter(({ data }) => data["type"] === "turn_ended").length
          await until(() => turns(again) === open)
          assert.deepStrictEqual(
            summarise([...seen.slice(0, left + 1), ...reader.events.slice(0, upTo), ...again.events]),
            summarise(seen)
          )
          await again.stop()
        }
      })
    })
  )

  it.live("are followed by the rest of a run of another process over the same store", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const one = yield* world(calling, {}, undefined, directory)
      const other = yield* world(calling, {}, undefined, directory)
      yield* Effect.promise(async () => {
        const id = await opened(one)
        const reader = reading(one, id)
        await say(one, id, "Say hello")
        await until(() => turns(reader) === 1)
        await say(one, id, "wait")
        await until(() => reader.events.at(-1)?.data["type"] === "TextDelta")
        await reader.stop()
        const { at } = reader.events.at(-1) ?? { at: "" }
        const elsewhere = reading(other, id, at)
        const first = reader.events.find(({ data }) => data["type"] === "TextDelta")
        const early = reading(other, id, first?.at)
        await until(() => early.types().filter((type) => type === "RunStarted").length === 1)
        await one.fetched(`/v1/sessions/${id}/stop`, { json: {} })
        await until(() => turns(elsewhere) === 1 && turns(early) === 2)
        const text = [...reader.events.slice(reader.types().lastIndexOf("turn_started")), ...elsewhere.events]
          .map(({ data }) => (data["type"] === "TextDelta" ? data["text"] : ""))
          .join("")
        assert.strictEqual(text, "I wait for")
        assert.deepStrictEqual(elsewhere.types().slice(-2), ["RunFinished", "turn_ended"])
        assert.strictEqual(elsewhere.events.at(-1)?.data["exit"], "interrupted_by_user")
        assert.strictEqual(elsewhere.events.at(-1)?.data["message_id"], "m2")
        assert.strictEqual(early.events.filter(({ data }) => data["type"] === "turn_started").length, 1)
        await elsewhere.stop()
        await early.stop()
      })
    })
  )

  it.live("that are no numbers are refused", () =>
    Effect.flatMap(world(plays), (served) =>
      Effect.promise(async () => {
        const id = await opened(served)
        for (const from of [
          "abc",
          "-1",
          "1.5",
          "1e400",
          "9007199254740993",
          "0x10",
          "1|",
          "1|||running|",
          "1|||later|t;1",
          "1|||running|t;x",
          "|".repeat(50)
        ]) {
          const { body, status } = await served.fetched(`/v1/sessions/${id}/events`, {
            headers: { "last-event-id": from }
          })
          assert.deepStrictEqual([from, status, body.error?.code], [from, 400, "invalid_request"])
        }
      })
    )
  )
})
