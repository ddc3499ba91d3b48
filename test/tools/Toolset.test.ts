import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { pipe } from "effect/Function"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { SessionId, TaskId, TurnId } from "../../src/base/domain/Ids.ts"
import * as Annotations from "../../src/tools/Annotations.ts"
import { ToolContext } from "../../src/tools/ToolContext.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import { callTool } from "../support/callTool.ts"

const double = Tool.make("double", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.Finite })
const toolkit = Toolkit.make(double)
const handlers = toolkit.toLayer({ double: ({ n }) => Effect.succeed(n * 2) })

describe("Toolset", () => {
  it.effect(
    "is made of a toolkit with a layer of handlers, of one whose handlers are around, and of bound handlers",
    () =>
      Effect.gen(function* () {
        const made = Toolset.make("maths", toolkit, handlers)
        const around = Toolset.fromToolkit("maths", toolkit)
        const bound = Toolset.fromHandlers("maths", yield* Effect.provide(toolkit, handlers))
        const results = [
          yield* callTool(made, "double", { n: 1 }),
          yield* callTool(around, "double", { n: 2 }).pipe(Effect.provide(handlers)),
          yield* callTool(bound, "double", { n: 3 })
        ]
        assert.deepStrictEqual(
          results.map(({ text }) => text),
          ["2", "4", "6"]
        )
        for (const { name, tools } of [made, around, bound])
          assert.deepStrictEqual([name, tools.map(({ name }) => name)], ["maths", ["double"]])
      })
  )
})

describe("additions to a toolset", () => {
  it.effect("are made with the toolset first, or in a pipe", () =>
    Effect.gen(function* () {
      const toolset = Toolset.make("maths", toolkit, handlers)
      const concern = { key: "numbers are dangerous", permanent: false }
      const make = Effect.succeed(() => Effect.succeed([concern]))
      const undo = Effect.succeed(() => undefined)
      const context = { sessionId: SessionId.make("s"), turnId: TurnId.make("t"), taskId: TaskId.make("s"), cwd: "/" }
      for (const made of [
        Toolset.withUndo(Toolset.withConcerns(toolset, make), undo),
        pipe(toolset, Toolset.withConcerns(make), Toolset.withUndo(undo))
      ]) {
        const [bound] = yield* made.bind
        const found = bound?.concerns?.({ n: 1 }) ?? Effect.succeed([])
        assert.deepStrictEqual(yield* Effect.provideService(found, ToolContext, context), [concern])
        assert.property(bound, "uncovered")
      }
    }).pipe(Effect.scoped)
  )
})

describe("the definition of a tool", () => {
  const parametersOf = (tool: Tool.Any) =>
    Effect.gen(function* () {
      const kit = Toolkit.make(tool)
      const set = Toolset.make("set", kit, kit.toLayer({ [tool.name]: () => Effect.void }))
      return (yield* Effect.scoped(set.bind))[0]?.definition.parameters
    })

  it.effect("has no open objects and bounds of safe integers, which every schema means, at any depth", () =>
    Effect.gen(function* () {
      const parameters = Schema.Struct({
        maximum: Schema.Int.annotate({ default: 1 }),
        list: Schema.Array(Schema.Union([Schema.String, Schema.Struct({ from: Schema.Natural })])),
        closed: Schema.Record(Schema.String, Schema.Int.check(Schema.isLessThanOrEqualTo(7)))
      })
      const text = JSON.stringify(yield* parametersOf(Tool.make("count", { parameters })))
      assert.notMatch(text, /"additionalProperties":true|9007199254740991/u)
      for (const kept of ['"maximum":{"type":"integer"', '"minimum":0', '"maximum":7', '"additionalProperties":{'])
        assert.include(text, kept)
    })
  )

  it.effect("is the schema of the server for a dynamic tool", () =>
    Effect.gen(function* () {
      const parameters = { type: "object", properties: {}, additionalProperties: true } as const
      assert.deepStrictEqual(yield* parametersOf(Tool.dynamic("foreign", { parameters })), parameters)
    })
  )
})

describe("registration", () => {
  const logged = Effect.fnUntraced(function* (
    level: "Debug" | "Info",
    ...tools: ReadonlyArray<ReadonlyArray<Tool.Any>>
  ) {
    const lines: Array<string> = []
    const logger = Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${String(message)}`))
    const toolsets = tools.map((list, index) => {
      const kit = Toolkit.make(...list)
      return Toolset.make(
        `set${index}`,
        kit,
        kit.toLayer(Object.fromEntries(list.map(({ name }) => [name, () => Effect.void])))
      )
    })
    yield* Effect.void.pipe(
      Effect.provide(ToolRegistry.layer(toolsets)),
      Effect.provide(Logger.layer([logger])),
      Effect.provideService(References.MinimumLogLevel, level)
    )
    return lines
  })
  const look = Tool.make("look").annotate(Tool.Readonly, true)
  const save = Tool.make("save").annotate(Annotations.PathArguments, ["path"])
  const send = Tool.make("send").annotate(Tool.Readonly, false)

  it.effect("names the tools whose calls run one after another, at debug level", () =>
    Effect.gen(function* () {
      const [line] = yield* logged("Debug", [double, look, save])
      assert.match(line ?? "", /^Debug toolset "set0": calls of double run one after another/u)
    })
  )

  it.effect("names the tools without annotations of all toolsets in one line", () =>
    Effect.gen(function* () {
      const lines = yield* logged("Debug", [double, look, save], [Tool.make("pay"), send])
      const named = lines.filter((line) => line.includes("Without annotations"))
      assert.lengthOf(named, 1)
      assert.match(
        named[0] ?? "",
        /^Debug Without annotations: double, pay\. Calls of these tools run one after another/u
      )
      assert.notMatch(named[0] ?? "", /look|save|send/u)
      assert.deepStrictEqual(yield* logged("Info", [double, look, save], [Tool.make("pay"), send]), [])
    })
  )

  it.effect("says nothing of tools that have annotations", () =>
    Effect.gen(function* () {
      const stated = [
        Tool.make("drop").annotate(Tool.Destructive, true),
        Tool.make("put").annotate(Tool.Idempotent, true),
        Tool.make("ask").annotate(Annotations.Interactive, true),
        Tool.make("run").annotate(Annotations.CommandArguments, ["command"])
      ]
      const lines = yield* logged("Debug", [look, save, send], stated)
      assert.deepStrictEqual(
        lines.filter((line) => line.includes("Without annotations")),
        []
      )
    })
  )
})

// What effect's own `Toolkit.handle` does with a call is what a bound tool does.
const Amount = Schema.Struct({ n: Schema.FiniteFromString })
const odd = (n: number): Effect.Effect<never, string> | undefined =>
  n === 1 ? Effect.fail("one") : n === 2 ? Effect.die(new Error("two")) : n === 3 ? Effect.interrupt : undefined

const kinds = {
  error: Tool.make("error", { parameters: Amount, success: Schema.FiniteFromString, failure: Schema.String }),
  return: Tool.make("return", {
    parameters: Amount,
    success: Schema.FiniteFromString,
    failure: Schema.String,
    failureMode: "return"
  }),
  unfit: Tool.make("unfit", {
    parameters: Amount,
    success: Schema.Finite.check(Schema.isGreaterThan(100)),
    failure: Schema.String
  }),
  reported: Tool.make("reported", {
    parameters: Amount,
    success: Schema.Finite.check(Schema.isLessThan(100)),
    failure: Schema.String
  })
}
const everything = Toolkit.make(...Object.values(kinds))
const answer = ({ n }: { readonly n: number }) => odd(n) ?? Effect.succeed(n)
const answers = everything.toLayer({
  error: answer,
  return: answer,
  unfit: answer,
  reported: ({ n }, { preliminary }) => Effect.as(Effect.andThen(preliminary(n - 1), preliminary(n)), 7)
})

describe("a bound tool", () => {
  it.effect("ends as the toolkit's own handle ends, with the same preliminary results", () =>
    Effect.gen(function* () {
      const ours = yield* Effect.provide(Toolset.fromToolkit("all", everything).bind, answers)
      const theirs = yield* Toolset.fromHandlers("all", yield* Effect.provide(everything, answers)).bind
      const end = ({ run }: Toolset.BoundTool, params: unknown) =>
        Effect.gen(function* () {
          const reports: Array<unknown> = []
          const exit = yield* Effect.exit(run(params, "call", (report) => Effect.sync(() => void reports.push(report))))
          return { exit: exit._tag === "Success" ? exit.value : String(exit.cause), reports }
        })
      for (const [index, tool] of ours.entries()) {
        const other = theirs[index]
        assert.isDefined(other)
        for (const params of [
          { n: "1" },
          { n: "2" },
          { n: "3" },
          { n: "4" },
          { n: "100" },
          { n: "200" },
          { n: 4 },
          {},
          undefined
        ]) {
          const [a, b] = [yield* end(tool, params), yield* end(other, params)]
          assert.deepStrictEqual(a, b, `${tool.tool.name} ${JSON.stringify(params)}`)
        }
      }
    }).pipe(
      Effect.provideService(ToolContext, {
        sessionId: SessionId.make("s"),
        turnId: TurnId.make("t"),
        taskId: TaskId.make("k"),
        cwd: "/"
      })
    )
  )

  it.effect("leaves out what its handler reports after its end", () =>
    Effect.gen(function* () {
      const reports: Array<unknown> = []
      let late: Effect.Effect<void> = Effect.void
      const keeping = Toolkit.make(double)
      const [bound] = yield* Toolset.make(
        "late",
        keeping,
        keeping.toLayer({
          double: ({ n }, { preliminary }) => {
            late = preliminary(n)
            return Effect.as(preliminary(1), n)
          }
        })
      ).bind
      yield* bound?.run({ n: 2 }, "call", (report) => Effect.sync(() => void reports.push(report))) ?? Effect.void
      yield* late
      assert.deepStrictEqual(reports, [1])
    }).pipe(
      Effect.scoped,
      Effect.provideService(ToolContext, {
        sessionId: SessionId.make("s"),
        turnId: TurnId.make("t"),
        taskId: TaskId.make("k"),
        cwd: "/"
      })
    )
  )
})
