// Middleware and stored sessions of the promise facade, as plain values.
import { assert, describe, it } from "vitest"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as z from "zod"
import { createHermes, HermesError, type HermesOptions, tool } from "../../../src/kit/entry/promise.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"

const double = tool({
  name: "double",
  description: "Doubles a number",
  readonly: true,
  input: z.object({ n: z.number() }),
  execute: ({ n }) => n * 2
})

const callDouble = Scripted.complete({ text: "I double.", toolCalls: [{ id: "c1", name: "double", params: { n: 2 } }] })

const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error
  )

describe("middleware of plain functions", () => {
  it("wraps model calls and tool calls in order, and rewrites arguments", async () => {
    const seen: Array<string> = []
    const around =
      (name: string) =>
      async ({ next_call }: { readonly next_call: () => Promise<unknown> }) => {
        seen.push(`${name} before`)
        const answer = await next_call()
        seen.push(`${name} after`)
        return answer
      }
    const hermes = createHermes({
      model: Scripted.layer([callDouble, Scripted.complete("done")]),
      tools: [double],
      middleware: {
        llm_execution: [around("outer"), around("inner")],
        tool_request: () => ({ args: { n: 21 } }),
        tool_execution: async ({ next_call, tool_name }) => {
          const result = await next_call()
          seen.push(`${String(tool_name)}: ${JSON.stringify(result)}`)
          return result
        }
      }
    })
    assert.strictEqual((await hermes.run("double 2")).text, "done")
    await hermes.dispose()
    const turn = ["outer before", "inner before", "inner after", "outer after"]
    assert.deepStrictEqual([seen.slice(0, 4), seen.slice(5)], [turn, turn])
    assert.include(seen[4], "42")
  })

  it("refuses a call with an error named ExecutionBlocked", async () => {
    const hermes = createHermes({
      model: Scripted.layer([Scripted.complete("never")]),
      middleware: {
        llm_execution: () => {
          throw Object.assign(new Error("no budget"), { name: "ExecutionBlocked" })
        }
      }
    })
    const error = await errorOf(hermes.run("hi"))
    await hermes.dispose()
    assert.isTrue(error instanceof HermesError && error.tag === "ExecutionBlocked", String(error))
  })

  it("of a kind that does not exist, or that is no function, is refused by name", () => {
    const make = (middleware: unknown) => () =>
      createHermes({ model: "offline", middleware: middleware as NonNullable<HermesOptions["middleware"]> })
    assert.throws(make({ llm_exec: () => 1 }), "middleware.llm_exec: no such kind of middleware")
    assert.throws(make({ llm_request: [1] }), "middleware.llm_request[0]: expected a function")
  })
})

describe("stored sessions", () => {
  it("are listed, read as a history, given to another runtime and deleted", async () => {
    const directory = mkdtempSync(join(tmpdir(), "hermes-twins-"))
    const store = { sqlite: join(directory, "state.db") }
    const first = createHermes({
      model: Scripted.layer([callDouble, Scripted.complete("It is 4.")]),
      tools: [double],
      store
    })
    await first.run({ prompt: "double 2", sessionId: "s1" })
    await first.dispose()
    const second = createHermes({ model: Scripted.layer([Scripted.complete("It was 4.")]), tools: [double], store })
    assert.deepInclude((await second.listSessions())[0], { id: "s1", messages: 4, model: "scripted" })
    const history = await second.readSession("s1")
    assert.deepStrictEqual(
      history?.map(({ role }) => role),
      ["user", "assistant", "tool", "assistant"]
    )
    assert.deepStrictEqual(history?.[1]?.content, [
      { type: "text", text: "I double." },
      { type: "tool-call", toolCallId: "c1", toolName: "double", input: { n: 2 } }
    ])
    const copied = await second.run({ prompt: "what was it?", history: history ?? [], sessionId: "s2" })
    assert.strictEqual(copied.text, "It was 4.")
    assert.lengthOf((await second.readSession("s2")) ?? [], 6)
    assert.isTrue(await second.deleteSession("s1"))
    assert.isUndefined(await second.readSession("s1"))
    assert.deepStrictEqual(
      (await second.listSessions({ limit: 5 })).map(({ id }) => id),
      ["s2"]
    )
    await second.dispose()
    rmSync(directory, { recursive: true })
  })
})
