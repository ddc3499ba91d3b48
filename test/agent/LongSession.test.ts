// The cost of a step does not grow with its session, in counts: statements, transactions and bytes that the database is
// given, and entries of the record. How long anything takes is the benchmark's.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { DatabaseSync } from "node:sqlite"
import * as H from "../../src/index.ts"
import { scaleRuns } from "../support/effort.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { watchStatements } from "../support/watchStatements.ts"

/** `npm run test:long` plays 2,000. */
const turns = Number(process.env["HERMES_TEST_TURNS"] ?? scaleRuns(500))

/** What the database is given between two calls of the tool. */
interface Given {
  transactions: number
  statements: number
  /** UTF-16 units of the texts among the parameters; a number counts as one, so that it may have more digits. */
  units: number
  /** Rows that it gives back. */
  rows: number
}

const unitsOf = (parameter: unknown): number =>
  typeof parameter === "string" ? parameter.replace(/\d+/gu, "0").length : 0

/** Counts what goes to SQLite from now on, by the turn that is given. */
const counting = Effect.gen(function* () {
  const given: Array<Given> = []
  let now: Given = { transactions: 0, statements: 0, units: 0, rows: 0 }
  yield* watchStatements(({ sourceSQL }, result, values) => {
    if (sourceSQL === "COMMIT") now.transactions++
    for (const value of values) now.units += unitsOf(value)
    // Checkpoints and parts of the record are made once in a number of writes.
    if (/^PRAGMA|INTO record_parts/u.test(sourceSQL)) return
    now.statements++
    now.rows += Array.isArray(result) ? result.length : 0
  })
  const next = () => {
    given.push(now)
    now = { transactions: 0, statements: 0, units: 0, rows: 0 }
  }
  return { given, next }
})

const longRun = (options: {
  readonly path: string
  readonly turns: number
  readonly readonly: boolean
  readonly onTurn: () => void
}) => {
  const Look = Tool.make("look", {
    description: "Looks at a thing.",
    parameters: Schema.Struct({ thing: Schema.String }),
    success: Schema.String
  }).annotate(Tool.Readonly, options.readonly)
  const toolkit = Toolkit.make(Look)
  const look = H.Toolset.make(
    "look",
    toolkit,
    toolkit.toLayer({
      look: ({ thing }) =>
        Effect.sync(() => {
          options.onTurn()
          return `There is nothing about ${thing}.`
        })
    })
  )
  const script = Array.from({ length: options.turns }, (_, turn) =>
    H.Scripted.complete({
      text: `I look at thing ${turn}.`,
      reasoning: `Thing ${turn} may help.`,
      toolCalls: [{ name: "look", params: { thing: `thing ${turn}` } }]
    })
  )
  return Effect.provide(
    Effect.gen(function* () {
      const agent = yield* H.Agent.Agent
      const { sessionId } = yield* agent.run({ prompt: "Look at all things.", maxIterations: options.turns + 1 })
      const record = yield* H.RunRecord.RunRecord
      return yield* Stream.runCollect(record.read({ sessionId }))
    }),
    H.Runtime.layer({
      provider: H.Scripted.layer([...script, H.Scripted.complete("That was all.")]),
      tools: [look],
      store: H.SessionStore.layerSqlite({ path: options.path })
    })
  )
}

describe(`a session of ${turns} turns`, () => {
  it.live("gives the database as much at its end as at its beginning, and the record is whole", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const { given, next } = yield* counting
      const entries = yield* longRun({ path, turns, readonly: true, onTurn: next })
      assert.strictEqual(given.length, turns)
      assert.deepStrictEqual(given[turns - 1], given[20])
      const names = ["AttemptStarted", "AttemptEnded", "MessageAppended", "CallStarted", "CallEnded"]
      const counts = Object.fromEntries(
        names.map((name) => [name, entries.filter(({ event }) => event._tag === name).length])
      )
      assert.deepStrictEqual(counts, {
        AttemptStarted: turns + 1,
        AttemptEnded: turns + 1,
        // The system prompt, the question, each answer with its result, and the last answer.
        MessageAppended: 2 * turns + 3,
        CallStarted: turns,
        CallEnded: turns
      })
    }).pipe(Effect.scoped)
  )
})

describe("a session of many turns in one process", () => {
  it.live("reads and writes as much in its last turn as in an early one", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const { given, next } = yield* counting
      const many = 60
      yield* Effect.gen(function* () {
        const agent = yield* H.Agent.Agent
        for (let turn = 0; turn < many; turn++) {
          yield* agent.run({ prompt: `question ${turn}`, sessionId: "s" })
          next()
        }
        const store = yield* H.SessionStore.SessionStore
        const [session] = yield* store.list()
        assert.strictEqual(session?.messageCount, 2 * many)
      }).pipe(
        Effect.provide(
          H.Runtime.layer({
            provider: H.Scripted.layer(
              Array.from({ length: many }, (_, turn) => H.Scripted.complete(`answer ${turn}`))
            ),
            store: H.SessionStore.layerSqlite({ path })
          })
        )
      )
      const read = (turn: number) => [given[turn]?.transactions, given[turn]?.statements, given[turn]?.rows]
      assert.deepStrictEqual(read(many - 1), read(20))
    }).pipe(Effect.scoped)
  )
})

describe("a step in a database", () => {
  it.live(
    "is one transaction for each thing that a crash may not undo: the answer with its usage, the result; the record is in them; in few statements",
    () =>
      Effect.gen(function* () {
        const path = `${yield* temporaryDirectory}/state.db`
        const { given, next } = yield* counting
        yield* longRun({ path, turns: 5, readonly: true, onTurn: next })
        assert.deepStrictEqual(
          given.slice(1).map(({ transactions }) => transactions),
          [2, 2, 2, 2]
        )
        assert.deepStrictEqual(
          given.slice(1).map(({ statements }) => statements),
          [11, 11, 11, 11]
        )
        // Messages, events of the record and ids: what is new in the step, each once.
        for (const { units } of given.slice(1)) assert.isAtMost(units, 2_600)
      }).pipe(Effect.scoped)
  )

  it.live("a call that can change something begins in the transaction of its answer, before it starts", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      const { given, next } = yield* counting
      yield* longRun({ path, turns: 5, readonly: false, onTurn: next })
      assert.deepStrictEqual(
        given.slice(1).map(({ transactions }) => transactions),
        [2, 2, 2, 2]
      )
    }).pipe(Effect.scoped)
  )

  it.live("the answer is stored before its call starts, and before somebody is asked about it or looks at it", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      /** Messages and begun calls in the file, as another process finds them. */
      const stored = (path: string) =>
        Effect.acquireUseRelease(
          Effect.sync(() => new DatabaseSync(path, { readOnly: true })),
          (rows) =>
            Effect.sync(() =>
              ["count(*)", "count(begun) + (SELECT count(*) FROM begun_calls)"].map(
                (count) => rows.prepare(`SELECT ${count} AS n FROM messages`).get()?.["n"]
              )
            ),
          (rows) => Effect.sync(() => rows.close())
        )
      const seen: Record<string, unknown> = {}
      const at = (place: string, path: string) => Effect.map(stored(path), (rows) => void (seen[place] ??= rows))
      for (const kind of ["plain", "read", "asked", "heard"] as const) {
        const path = `${directory}/${kind}.db`
        const made = Tool.make("look", { parameters: Schema.Struct({}), success: Schema.String })
        const annotated =
          kind === "read"
            ? made.annotate(Tool.Readonly, true)
            : kind === "asked"
              ? made.annotate(Tool.Destructive, true)
              : made
        const toolkit = Toolkit.make(annotated)
        yield* H.Agent.run({ prompt: "Go." }).pipe(
          Effect.provide(
            H.Runtime.layer({
              provider: H.Scripted.layer([
                H.Scripted.complete({ toolCalls: [{ name: "look", params: {} }] }),
                H.Scripted.complete("done")
              ]),
              tools: [
                H.Toolset.make(
                  "test",
                  toolkit,
                  toolkit.toLayer({ look: () => Effect.as(at(`${kind}: handler`, path), "seen") })
                )
              ],
              store: H.SessionStore.layerSqlite({ path }),
              approvals: H.Approvals.layerCallback(() => Effect.as(at(`${kind}: question`, path), "once")),
              hooks:
                kind === "heard"
                  ? [H.Hooks.observer({ label: "look" }, { pre_tool_call: () => at("heard: listener", path) })]
                  : []
            })
          )
        )
      }
      assert.deepStrictEqual(seen, {
        "plain: handler": [2, 1],
        "read: handler": [2, 0],
        "asked: question": [2, 0],
        "asked: handler": [2, 1],
        "heard: listener": [2, 0],
        "heard: handler": [2, 1]
      })
    }).pipe(Effect.scoped)
  )
})
