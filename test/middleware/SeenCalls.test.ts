// The table of the guide that says which kind sees which call, held to what the runtime does.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { StreamPart } from "../../src/base/domain/ModelCall.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as PlayedModes from "../../src/kit/testing/PlayedModes.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { root } from "../support/sources.ts"

/** A column of the table: the mode that plays it, its calls, and the attempts of which the last call consists. */
interface Column {
  readonly title: string
  readonly mode: string
  /** Calls before the one that the column is about. */
  readonly before?: number
  readonly attempts: number
  /** Attempts that have an answer, or a part of one. */
  readonly answers?: number
}

const columns: ReadonlyArray<Column> = [
  { title: "main call", mode: "chat, streamed", attempts: 1 },
  { title: "retry", mode: "retry, streamed", attempts: 2 },
  { title: "broken stream", mode: "continuation of a broken stream", attempts: 2 },
  { title: "output limit", mode: "continuation at the output limit, streamed", attempts: 2 },
  { title: "fallback", mode: "fallback, streamed", attempts: 2, answers: 1 },
  { title: "summary at a limit", mode: "summary at a limit, streamed", before: 1, attempts: 1 },
  { title: "side task", mode: "side task", attempts: 1 },
  { title: "child", mode: "child, streamed", before: 2, attempts: 1 }
]

const rows = [
  "`llm_request`",
  "`llm_execution`",
  "`onPart` of `llm_execution`",
  "`wrap_model_call`",
  "`onPart` of `wrap_model_call`",
  "`stream_part`",
  "`before_model`",
  "`after_model`",
  "`pre_api_request`, `post_api_request`"
] as const
type Row = (typeof rows)[number]

/** Middleware of every kind that counts its calls. */
const recorders = () => {
  const counts = new Map<Row, number>()
  const count = (row: Row, by = 1) => void counts.set(row, (counts.get(row) ?? 0) + by)
  /** Each answer, or part of one, begins with one part. */
  const countBegun = (row: Row, parts: ReadonlyArray<StreamPart>) =>
    count(row, parts.filter(({ type }) => type === "text-start" || type === "tool-params-start").length)
  const middleware = [
    Middleware.llmRequest({
      name: "counts",
      rewrite: () => Effect.sync(() => (count("`llm_request`"), Middleware.unchanged))
    }),
    Middleware.llmExecution({
      name: "counts",
      wrap: (next) => (request) => {
        count("`llm_execution`")
        return next(request, {
          onPart: (parts) => Effect.sync(() => (countBegun("`onPart` of `llm_execution`", parts), parts))
        })
      }
    }),
    Middleware.wrapModelCall({
      name: "counts",
      wrap: (next) => (params) => {
        count("`wrap_model_call`")
        return next(params, {
          onPart: (parts) => Effect.sync(() => (countBegun("`onPart` of `wrap_model_call`", parts), parts))
        })
      }
    }),
    Middleware.lifecycle({
      name: "counts",
      streamPart: ({ parts }) => countBegun("`stream_part`", parts),
      beforeModel: () => count("`before_model`"),
      afterModel: () => count("`after_model`")
    })
  ]
  const hooks = [Hooks.on("pre_api_request", () => Effect.sync(() => count("`pre_api_request`, `post_api_request`")))]
  return { counts, hooks, middleware }
}

const isOfParts = (row: Row): boolean => row.includes("onPart") || row === "`stream_part`"

const toCell = (row: Row, { answers, attempts, before = 0 }: Column, counted: number): string => {
  const seen = counted - before
  if (seen <= 0) return "no"
  if (attempts === 1) return "yes"
  const all = isOfParts(row) ? (answers ?? attempts) : attempts
  return seen >= all ? "each" : "once"
}

const playColumn = (column: Column) =>
  Effect.gen(function* () {
    const mode = PlayedModes.modes.find(({ name }) => name === column.mode)
    if (mode === undefined) throw new Error(`there is no mode ${column.mode}`)
    const { counts, hooks, middleware } = recorders()
    const { parts } = yield* PlayedModes.makeParts(mode, ["it"], hooks)
    const services = yield* Layer.build(Runtime.layer({ ...parts, middleware }))
    yield* Effect.provideContext(mode.play, services)
    return rows.map((row) => toCell(row, column, counts.get(row) ?? 0))
  }).pipe(Effect.scoped)

describe("the table of calls in the guide", () => {
  it.live("says of each kind which calls it sees", () =>
    Effect.gen(function* () {
      const played = yield* Effect.forEach(columns, playColumn)
      const expected = [
        `| kind | ${columns.map(({ title }) => title).join(" | ")} |`,
        `| --- |${" --- |".repeat(columns.length)}`,
        ...rows.map((row, index) => `| ${row} | ${played.map((cells) => cells[index]).join(" | ")} |`)
      ]
      const guide = readFileSync(join(root, "scratchpad/guides/middleware.md"), "utf8").split("\n")
      const from = guide.findIndex((line) => line.startsWith("| kind | main call"))
      assert.deepStrictEqual(guide.slice(from, from + expected.length), expected)
    })
  )
})
