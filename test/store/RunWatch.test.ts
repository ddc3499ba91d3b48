// Runs that are read again from their record: what a reader sees is what it would have seen live, wherever it left.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import { SessionId, TurnId } from "../../src/base/domain/Ids.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as Scripted from "../../src/models/provider/Scripted.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as RunCursor from "../../src/store/RunCursor.ts"
import { RunRecord } from "../../src/store/RunRecord.ts"
import * as RunWatch from "../../src/store/RunWatch.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const Double = Tool.make("double", {
  parameters: Schema.Struct({ n: Schema.Finite }),
  success: Schema.Finite
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Double)
const maths = Toolset.make("maths", toolkit, toolkit.toLayer({ double: ({ n }) => Effect.succeed(n * 2) }))

const script = [
  Scripted.complete({
    text: "Both of them.",
    reasoning: "I double two numbers.",
    toolCalls: [
      { name: "double", params: { n: 1 } },
      { name: "double", params: { n: 2 } }
    ]
  }),
  Scripted.complete({ toolCalls: [{ name: "double", params: { n: 3 } }] }),
  Scripted.complete("They are 2, 4 and 6. A key of mine: sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD.")
]

/** Cuts text into pieces, as a provider sends them. */
const split = (events: ReadonlyArray<RunEvent>): ReadonlyArray<RunEvent> =>
  events.flatMap((event): ReadonlyArray<RunEvent> => {
    if (event._tag !== "TextDelta" && event._tag !== "ReasoningDelta") return [event]
    return Array.from(event.text.matchAll(/.{1,3}/gsu), ([text]) => ({ _tag: event._tag, text }))
  })

/** Joins adjacent pieces, and leaves out what is not repeated. */
const normalise = (events: ReadonlyArray<RunEvent>): ReadonlyArray<unknown> => {
  const joined: Array<RunEvent> = []
  for (const event of events) {
    const last = joined.at(-1)
    if (RunCursor.isMomentary(event)) continue
    if (event._tag === "TextDelta" && last?._tag === "TextDelta")
      joined[joined.length - 1] = { _tag: "TextDelta", text: last.text + event.text }
    else if (event._tag === "ReasoningDelta" && last?._tag === "ReasoningDelta")
      joined[joined.length - 1] = { _tag: "ReasoningDelta", text: last.text + event.text }
    else joined.push(event)
  }
  // Calls of one answer run at the same time, and may end in any order.
  for (let at = 0; at < joined.length; at++) {
    let end = at
    while (/^Tool(?:Finished|Started)$/u.test(joined[end]?._tag ?? "")) end++
    const order = (event: RunEvent): string =>
      "callId" in event ? `${event.callId} ${event._tag === "ToolFinished"}` : ""
    joined.splice(at, end - at, ...joined.slice(at, end).toSorted((a, b) => order(a).localeCompare(order(b))))
    at = Math.max(at, end)
  }
  return JSON.parse(JSON.stringify(joined, (key, value: unknown) => (key === "durationMillis" ? 0 : value)))
}

const stores = {
  memory: Effect.succeed(SessionStore.layerMemory),
  sqlite: Effect.map(temporaryDirectory, (directory) => SessionStore.layerSqlite({ path: join(directory, "state.db") }))
}

describe("a run that is read again", () => {
  for (const [name, store] of Object.entries(stores))
    it.live(`from ${name} has no event twice or lost, wherever the reader left`, () =>
      Effect.gen(function* () {
        const runtime = Runtime.layer({ provider: Scripted.layer(script), tools: [maths], store: yield* store })
        yield* Effect.gen(function* () {
          const live = split(yield* Stream.runCollect(Agent.stream({ prompt: "Double 1, 2 and 3." })))
          const [started] = live
          assert.strictEqual(started?._tag, "RunStarted")
          const { sessionId, turnId } = started as Extract<RunEvent, { readonly _tag: "RunStarted" }>
          const whole = yield* Stream.runCollect(RunWatch.watchRun(sessionId, { turnId }))
          assert.deepStrictEqual(normalise(whole), normalise(live))
          let position = RunCursor.makeStart(turnId)
          for (let count = 0; count <= live.length; count++) {
            const cursor = RunCursor.formatCursor(position)
            const after = RunCursor.parseCursor(cursor)
            assert.deepStrictEqual(after, position)
            const rest = yield* Stream.runCollect(RunWatch.watchRun(sessionId, { after: position }))
            assert.deepStrictEqual(
              normalise([...live.slice(0, count), ...rest]),
              normalise(live),
              `behind ${count} events`
            )
            const next = live[count]
            if (next !== undefined) position = RunCursor.advancePosition(position, next)
          }
          assert.isTrue(position.isOver)
          assert.isUndefined(yield* RunWatch.findActive(sessionId))
        }).pipe(Effect.provide(runtime))
      })
    )

  for (const [name, store] of Object.entries(stores))
    it.live(`from ${name} is whole if its conversation was compacted twice`, () =>
      Effect.gen(function* () {
        const runtime = Runtime.layer({ provider: Scripted.layer(script), tools: [maths], store: yield* store })
        yield* Effect.gen(function* () {
          const { sessionId: source, turnId } = yield* Agent.run({ prompt: "Double 1, 2 and 3." })
          const record = yield* RunRecord
          const sessions = yield* SessionStore.SessionStore
          const entries = yield* Stream.runCollect(record.read({ turnId }))
          const ids = ["first", "second", "third"].map((id) => SessionId.make(id))
          for (const [index, id] of ids.entries()) {
            const continues = ids[index - 1]
            const place = { source: "test", systemPrompt: "", provider: "p", model: "m", cwd: "/" }
            yield* sessions.create({ id, ...place, ...(continues === undefined ? {} : { continues }) })
          }
          const third = Math.ceil(entries.length / 3)
          yield* record.append(
            entries.map((entry, index) => ({
              ...entry,
              sessionId: ids[Math.floor(index / third)] ?? source,
              turnId: TurnId.make("compacted")
            }))
          )
          // The texts are in the messages of a session, which are not copied here.
          const tags = (id: string, turn: string) =>
            Effect.map(Stream.runCollect(RunWatch.watchRun(id, { turnId: turn })), (all) =>
              all.flatMap(({ _tag }) => (_tag.endsWith("Delta") ? [] : [_tag]))
            )
          const wanted = yield* tags(source, turnId)
          for (const id of ids) assert.deepStrictEqual(yield* tags(id, "compacted"), wanted, id)
        }).pipe(Effect.provide(runtime))
      })
    )
})
