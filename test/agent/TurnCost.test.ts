// The work of a turn of one tool call, in counts: fibers, steps of the interpreter, statements, texts of JSON. How long
// it takes is the benchmark's.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Scheduler from "effect/Scheduler"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { StatementSync } from "node:sqlite"
import type { Hook } from "../../src/hooks/Hook.ts"
import * as H from "../../src/index.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { watchStatements } from "../support/watchStatements.ts"
import { countInto } from "../support/workCounts.ts"

const Echo = Tool.make("echo", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String }).annotate(
  Tool.Readonly,
  true
)
const toolkit = Toolkit.make(Echo)
const tools = [H.Toolset.make("echo", toolkit, toolkit.toLayer({ echo: ({ text }) => Effect.succeed(text) }))]
const Change = Tool.make("echo", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })
const changeKit = Toolkit.make(Change)
const changing = [H.Toolset.make("echo", changeKit, changeKit.toLayer({ echo: ({ text }) => Effect.succeed(text) }))]

/** Fibers and steps of one run. */
const counted = (
  turns: number,
  options: {
    readonly store?: ReturnType<typeof H.SessionStore.layerSqlite>
    readonly hooks?: ReadonlyArray<Hook>
    readonly tools?: typeof tools
    /** Calls of each answer; one where absent. */
    readonly calls?: number
    /** Whether the spans of the runtime are recorded. */
    readonly traced?: boolean
  } = {}
) => {
  const { calls = 1, traced = false, ...own } = options
  const count = { fibers: 0, steps: 0 }
  const script = Array.from({ length: turns }, (_, turn) =>
    H.Scripted.complete({
      toolCalls: Array.from({ length: calls }, (_, call) => ({
        name: "echo",
        params: { text: call === 0 ? `text ${turn}` : `text ${turn} of ${call}` }
      }))
    })
  )
  return H.Agent.run({ prompt: "Go." }).pipe(
    countInto(count),
    // The tracer counts steps. An application without one has no spans.
    Effect.withTracerEnabled(traced),
    // Where a fiber gives way after so many steps is no work of a turn.
    Effect.provideService(Scheduler.PreventSchedulerYield, true),
    Effect.provide(
      H.Runtime.layer({
        provider: H.Scripted.layer([...script, H.Scripted.complete("done")]),
        tools,
        maxIterations: turns + 1,
        ...own
      })
    ),
    Effect.map(({ steps, text }) => {
      assert.deepStrictEqual([steps, text], [turns + 1, "done"])
      return count
    })
  )
}

/**
 * Statements of SQLite and texts of JSON that an Effect takes; checkpoints and parts of the record come with the number
 * of writes, not with a turn.
 */
const written = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const count = { statements: 0, commits: 0, texts: 0, characters: 0 }
    const { stringify } = JSON
    yield* Effect.acquireUseRelease(
      Effect.sync(() => {
        JSON.stringify = new Proxy(stringify, {
          apply: (target, json, given) => {
            const text: string | undefined = Reflect.apply(target, json, given)
            count.texts++
            count.characters += text?.length ?? 0
            return text
          }
        })
      }),
      () =>
        Effect.scoped(
          Effect.andThen(
            watchStatements(({ sourceSQL }) => {
              if (!/wal_checkpoint|INTO record_parts/u.test(sourceSQL)) count.statements++
              if (sourceSQL === "COMMIT") count.commits++
            }),
            effect
          )
        ),
      () => Effect.sync(() => void (JSON.stringify = stringify))
    )
    return count
  })

describe("a run without tool calls", () => {
  it.effect("takes three fibers and few steps: it looks up its model once, and asks no memory and no middleware", () =>
    Effect.gen(function* () {
      const { fibers, steps } = yield* counted(0)
      assert.strictEqual(fibers, 3)
      assert.isAtMost(steps, 332)
    })
  )
})

describe("a turn of one tool call", () => {
  it.effect("takes a fiber for the model call, which is watched, one for the handler, and few steps", () =>
    Effect.gen(function* () {
      const [short, long] = [yield* counted(10), yield* counted(30)]
      const perTurn = { fibers: (long.fibers - short.fibers) / 20, steps: (long.steps - short.steps) / 20 }
      assert.strictEqual(perTurn.fibers, 2)
      // One step for each operation of a store finds the tenant of the fiber.
      assert.isAtMost(perTurn.steps, 152)
    })
  )

  it.effect("takes no fiber more in a tracer of the application, and few steps for its two spans", () =>
    Effect.gen(function* () {
      const perTurn = Effect.fnUntraced(function* (traced: boolean) {
        const [short, long] = [yield* counted(10, { traced }), yield* counted(30, { traced })]
        return { fibers: (long.fibers - short.fibers) / 20, steps: (long.steps - short.steps) / 20 }
      })
      const [without, within] = [yield* perTurn(false), yield* perTurn(true)]
      assert.strictEqual(within.fibers, without.fibers)
      // The handler annotates the span of a tracer, and does nothing without one. A step more in some turns begins a
      // new stack of continuations.
      assert.isAtMost(within.steps - without.steps, 20)
    })
  )

  it.effect("takes no fiber more for listeners that are done at once, and as many steps for ten as for one", () =>
    Effect.gen(function* () {
      const done = () => Effect.void
      const perTurn = Effect.fnUntraced(function* (count: number) {
        const hooks = Array.from({ length: count }, (_, index) =>
          H.Hooks.observer(
            { label: `listener ${index}` },
            { pre_api_request: done, post_api_request: done, post_tool_call: done }
          )
        )
        const [short, long] = [yield* counted(10, { hooks }), yield* counted(30, { hooks })]
        return { fibers: (long.fibers - short.fibers) / 20, steps: (long.steps - short.steps) / 20 }
      })
      const none = yield* perTurn(0)
      const one = yield* perTurn(1)
      assert.strictEqual(one.fibers, none.fibers)
      assert.isAtMost(one.steps - none.steps, 67)
      assert.deepStrictEqual(yield* perTurn(10), one)
    })
  )

  it.live("takes as many fibers in a database, and few steps more, with the record in its transactions", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const run = (turns: number) =>
        counted(turns, { store: H.SessionStore.layerSqlite({ path: `${directory}/${turns}.db` }) })
      const [short, long] = [yield* run(10), yield* run(30)]
      const perTurn = { fibers: (long.fibers - short.fibers) / 20, steps: (long.steps - short.steps) / 20 }
      assert.strictEqual(perTurn.fibers, 2)
      assert.isAtMost(perTurn.steps, 222)
    }).pipe(Effect.scoped)
  )

  it.live(
    "takes eleven statements in a database, also if its call may change something, and writes little more JSON than the messages are",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const run = (turns: number) =>
          written(counted(turns, { store: H.SessionStore.layerSqlite({ path: `${directory}/${turns}.db` }) }))
        const [short, long] = [yield* run(10), yield* run(30)]
        assert.strictEqual((long.statements - short.statements) / 20, 11)
        assert.strictEqual((long.texts - short.texts) / 20, 14)
        assert.isAtMost((long.characters - short.characters) / 20, 2_000)
        // The start of the call is a mark on the message.
        const change = (turns: number) =>
          written(
            counted(turns, {
              store: H.SessionStore.layerSqlite({ path: `${directory}/c${turns}.db` }),
              tools: changing
            })
          )
        const [few, many] = [yield* change(10), yield* change(30)]
        assert.strictEqual((many.statements - few.statements) / 20, 11)
      }).pipe(Effect.scoped)
  )

  it.live(
    "takes two commits in a database, also for eight calls side by side, and nine for eight that follow one another",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const perTurn = Effect.fnUntraced(function* (own: Parameters<typeof counted>[1]) {
          const run = (turns: number) => {
            const path = `${directory}/${own?.calls ?? 1}-${own?.tools === undefined}-${turns}.db`
            return written(counted(turns, { ...own, store: H.SessionStore.layerSqlite({ path }) }))
          }
          const [short, long] = [yield* run(5), yield* run(15)]
          return [(long.commits - short.commits) / 10, (long.statements - short.statements) / 10]
        })
        // A call starts when the result of the one before is stored.
        assert.deepStrictEqual(
          {
            one: yield* perTurn({}),
            changing: yield* perTurn({ tools: changing }),
            eight: yield* perTurn({ calls: 8 }),
            eightInTurn: yield* perTurn({ calls: 8, tools: changing })
          },
          { one: [2, 11], changing: [2, 11], eight: [2, 11], eightInTurn: [9, 46] }
        )
      }).pipe(Effect.scoped)
  )

  it.live("reads as many rows of a session of 40 runs as of one of 10, and parses as many texts of JSON", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const script = Array.from({ length: 40 }, () => H.Scripted.complete("done"))
      const counts: Array<readonly [rows: number, texts: number]> = []
      const runs = Effect.gen(function* () {
        let sessionId: H.Ids.SessionId | undefined
        for (let run = 0; run < 40; run++) {
          const count = { rows: 0, texts: 0 }
          const { all } = StatementSync.prototype
          const { parse } = JSON
          yield* Effect.acquireUseRelease(
            Effect.sync(() => {
              StatementSync.prototype.all = new Proxy(all, {
                apply: (target, statement: StatementSync, values) => {
                  const rows: ReturnType<typeof all> = Reflect.apply(target, statement, values)
                  count.rows += rows.length
                  return rows
                }
              })
              JSON.parse = new Proxy(parse, {
                apply: (target, json, given) => {
                  count.texts++
                  return Reflect.apply(target, json, given)
                }
              })
            }),
            () =>
              Effect.map(H.Agent.run({ prompt: "Go.", sessionId }), (result) => void (sessionId = result.sessionId)),
            () =>
              Effect.sync(() => {
                StatementSync.prototype.all = all
                JSON.parse = parse
              })
          )
          counts.push([count.rows, count.texts])
        }
      })
      const runtime = H.Runtime.layer({
        provider: H.Scripted.layer(script),
        store: H.SessionStore.layerSqlite({ path: `${directory}/state.db` })
      })
      yield* Effect.provide(runs, runtime)
      // A checkpoint answers with a row.
      const least = (from: number) =>
        counts
          .slice(from - 3, from)
          .reduce(([rows, texts], [more, others]) => [Math.min(rows, more), Math.min(texts, others)])
      assert.deepStrictEqual(least(40), least(10))
    }).pipe(Effect.scoped)
  )
})

/** Steps and fibers of a run whose first answer has so many calls. */
const countedCalls = (calls: number, options: { readonly tools?: typeof tools } = {}) => {
  const count = { fibers: 0, steps: 0 }
  const toolCalls = Array.from({ length: calls }, (_, index) => ({ name: "echo", params: { text: `text ${index}` } }))
  return H.Agent.run({ prompt: "Go." }).pipe(
    countInto(count),
    Effect.withTracerEnabled(false),
    Effect.provideService(Scheduler.PreventSchedulerYield, true),
    Effect.provide(
      H.Runtime.layer({
        provider: H.Scripted.layer([H.Scripted.complete({ toolCalls }), H.Scripted.complete("done")]),
        tools,
        ...options
      })
    ),
    Effect.as(count)
  )
}

describe("a call of a message with many calls", () => {
  it.effect("takes a fiber for its handler, a second one if it runs at the same time as others, and few steps", () =>
    Effect.gen(function* () {
      for (const [given, fibers, steps] of [
        [changing, 1, 31],
        [tools, 2, 26]
      ] as const) {
        const [few, many] = [yield* countedCalls(8, { tools: given }), yield* countedCalls(40, { tools: given })]
        assert.strictEqual((many.fibers - few.fibers) / 32, fibers)
        assert.isAtMost((many.steps - few.steps) / 32, steps)
      }
    })
  )
})
