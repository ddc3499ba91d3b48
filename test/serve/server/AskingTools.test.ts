// Tools over MCP that ask the user of their client: in the revision of 2026, over a pipe in that of 2025, and with
// clients that take no questions.
import { Client, StreamableHTTPClientTransport, type Transport } from "@modelcontextprotocol/client"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as ToolServer from "../../../src/serve/server/ToolServer.ts"
import * as Ask from "../../../src/tools/Ask.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"

const Order = Schema.Struct({
  size: Schema.Literals(["S", "L"]),
  count: Schema.Int,
  note: Schema.optionalKey(Schema.String)
})
const Nested = Schema.Struct({ to: Schema.Struct({ city: Schema.String }) })

const makeTools = () => {
  const effects: Array<string> = []
  const success = Schema.String
  const toolkit = Toolkit.make(
    Tool.make("order", { success }),
    Tool.make("age", { success }),
    Tool.make("confirm", { success }),
    Tool.make("nested", { success })
  )
  const toolset = Toolset.make(
    "shop",
    toolkit,
    toolkit.toLayer({
      order: () =>
        Effect.orDie(
          Effect.gen(function* () {
            effects.push("begun")
            const { count, size } = yield* Ask.form(Order, { title: "What do you want?" })
            const { isApproved, reason } = yield* Ask.approval({ title: `Buy ${count}?`, prompt: "It costs money." })
            return isApproved ? `bought ${count} of ${size}` : `not bought: ${reason}`
          })
        ),
      age: () => Effect.orDie(Effect.map(Ask.form(Schema.Int, { title: "How old?" }), (age) => `age ${age}`)),
      confirm: () =>
        Effect.map(Ask.approval({ title: "Sure?" }), ({ isApproved, reason }) => `${isApproved} ${reason ?? ""}`),
      nested: () => Effect.as(Effect.orDie(Ask.form(Nested, { title: "Where?" })), "done")
    })
  )
  return { effects, toolset }
}

type Answer = {
  readonly action: "accept" | "cancel" | "decline"
  readonly content?: Record<string, string | number | boolean>
}

/** A client that answers questions in order, and what it was asked. */
const makeClient = (answers: ReadonlyArray<Answer> | undefined, mode: "auto" | "legacy") => {
  const asked: Array<string> = []
  const client = new Client(
    { name: "test", version: "1.0.0" },
    { capabilities: answers === undefined ? {} : { elicitation: { form: {} } }, versionNegotiation: { mode } }
  )
  if (answers !== undefined) {
    const left = [...answers]
    client.setRequestHandler("elicitation/create", ({ params }) => {
      const schema = "requestedSchema" in params ? params.requestedSchema : undefined
      asked.push(`${params.message} ${Object.keys(schema?.properties ?? {}).join(",")}`)
      return { ...(left.shift() ?? { action: "cancel" }) }
    })
  }
  return { asked, client }
}

const overHttp = (toolset: ReturnType<typeof makeTools>["toolset"], client: Client, use: () => Promise<void>) =>
  Effect.gen(function* () {
    const context = yield* Layer.build(Runtime.layer({ tools: [toolset] }))
    const handle = yield* Effect.provide(ToolServer.makeHandler(), context)
    yield* Effect.promise(async () => {
      const fetch = (url: string | URL, init?: RequestInit) => handle(new Request(url, init))
      await client.connect(new StreamableHTTPClientTransport(new URL("http://localhost/mcp"), { fetch }))
      await use()
      await client.close()
    })
  })

const overPipe = (toolset: ReturnType<typeof makeTools>["toolset"], client: Client, use: () => Promise<void>) =>
  Effect.gen(function* () {
    const context = yield* Layer.build(Runtime.layer({ tools: [toolset] }))
    const input = yield* Queue.unbounded<Uint8Array>()
    const transport: Transport = {
      start: () => Promise.resolve(),
      close: () => Promise.resolve(),
      send: (message) => {
        Queue.offerUnsafe(input, new TextEncoder().encode(`${JSON.stringify(message)}\n`))
        return Promise.resolve()
      }
    }
    const write = (text: string) =>
      Effect.sync(() => transport.onmessage?.(JSON.parse(text) as Parameters<NonNullable<Transport["onmessage"]>>[0]))
    yield* Effect.forkScoped(
      Effect.provide(ToolServer.serveStreams({ input: Stream.fromQueue(input), write }), context)
    )
    yield* Effect.promise(async () => {
      await client.connect(transport)
      await use()
    })
  })

const call = async (client: Client, name: string): Promise<string> =>
  JSON.stringify((await client.callTool({ name, arguments: {} })).content)

for (const [title, mode, connect] of [
  ["in the revision of 2026", "auto", overHttp],
  ["in the revision of 2025, over a pipe", "legacy", overPipe]
] as const)
  describe(`a tool that asks the client ${title}`, () => {
    it.live("gets the answers to its questions, and runs once", () => {
      const { effects, toolset } = makeTools()
      const { asked, client } = makeClient(
        [
          { action: "accept", content: { size: "L", count: 2 } },
          { action: "accept", content: { approve: true } }
        ],
        mode
      )
      return connect(toolset, client, async () => {
        assert.include(await call(client, "order"), "bought 2 of L")
        assert.deepStrictEqual(effects, ["begun"])
        assert.deepStrictEqual(asked, ["What do you want? size,count,note", "Buy 2?\n\nIt costs money. approve,reason"])
      })
    })

    it.live("gets a denial of what is declined, and checks an answer", () => {
      const { toolset } = makeTools()
      const { client } = makeClient(
        [
          { action: "accept", content: { size: "S", count: 1 } },
          { action: "decline" },
          { action: "accept", content: { answer: 7 } },
          { action: "accept", content: { answer: "old" } },
          { action: "decline" },
          { action: "accept", content: { approve: false, reason: "no" } }
        ],
        mode
      )
      return connect(toolset, client, async () => {
        assert.include(await call(client, "order"), "not bought")
        assert.include(await call(client, "age"), "age 7")
        assert.include(await call(client, "age"), "the answer does not fit")
        assert.include(await call(client, "age"), "gave no answer")
        assert.include(await call(client, "confirm"), "false no")
      })
    })

    it.live("learns that a client takes no questions, or no form of this shape", () => {
      const { toolset } = makeTools()
      const silent = makeClient(undefined, mode).client
      const asking = makeClient([], mode)
      return Effect.andThen(
        connect(toolset, silent, async () => {
          assert.include(await call(silent, "age"), "takes no questions (elicitation): call the tool from a client")
          assert.include(await call(silent, "confirm"), "false the MCP client takes no questions")
        }),
        connect(toolset, asking.client, async () => {
          assert.include(await call(asking.client, "nested"), "not a form of flat fields")
          assert.deepStrictEqual(asking.asked, [])
        })
      )
    })
  })

describe("a call that asks", () => {
  it.live("is over for a request that nobody sent", () => {
    const { toolset } = makeTools()
    const { client } = makeClient([], "auto")
    return overHttp(toolset, client, async () => {
      const result = await client.callTool({
        name: "age",
        arguments: {},
        requestState: "guess",
        inputResponses: { question1: { action: "accept", content: { answer: 7 } } }
      } as never)
      assert.include(JSON.stringify(result.content), "is over. Call the tool again.")
    })
  })
})
