// Toolsets over MCP, used by the official client over HTTP and over standard input and output.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as z from "zod"
import { mcpHandler, tool } from "../../../src/kit/entry/promise.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as ToolServer from "../../../src/serve/server/ToolServer.ts"
import * as Annotations from "../../../src/tools/Annotations.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import { until } from "../../support/servedAgent.ts"

class NoCity extends Schema.TaggedError<NoCity>()("NoCity", { city: Schema.String }) {
  override get message(): string {
    return `There is no city ${this.city}.`
  }
}

const Weather = Tool.make("weather", {
  description: "The weather in a city",
  parameters: Schema.Struct({ city: Schema.NonEmptyString }),
  success: Schema.Struct({ celsius: Schema.Int }),
  failure: NoCity
})
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Idempotent, true)
const Remove = Tool.make("remove", { description: "Removes all", success: Schema.String }).annotate(
  Tool.Destructive,
  true
)
const Hang = Tool.make("hang", { description: "Never ends", success: Schema.String })

const calls = { interrupted: 0, removed: 0, started: 0 }
const toolkit = Toolkit.make(Weather, Remove, Hang)
const toolset = Toolset.make(
  "world",
  toolkit,
  toolkit.toLayer({
    weather: ({ city }) => (city === "Rome" ? Effect.succeed({ celsius: 30 }) : new NoCity({ city })),
    remove: () => Effect.sync(() => `removed ${++calls.removed}`),
    hang: () =>
      Effect.andThen(
        Effect.sync(() => void calls.started++),
        Effect.onInterrupt(Effect.never, () => Effect.sync(() => void calls.interrupted++))
      )
  })
)

const picture = Tool.make("picture", { description: "A picture", success: Schema.String })
const pictures = Toolset.fromBound(
  "pictures",
  [picture],
  Effect.succeed([
    {
      toolset: "pictures",
      tool: picture,
      definition: { name: "picture", description: "A picture", parameters: { type: "object", properties: {} } },
      facts: Annotations.readFacts(picture),
      run: () =>
        Effect.succeed({
          output: "a picture",
          isFailure: false,
          modelOutput: [{ type: "file" as const, mediaType: "image/png", data: "iVBORw0KGgo=" } as never]
        })
    }
  ])
)

const textOf = (result: unknown): string => JSON.stringify(result)

/** Connects a client to a handler of requests. */
const connect = async (handle: (request: Request) => Promise<Response>) => {
  const client = new Client({ name: "test", version: "1.0.0" })
  const fetch = (url: string | URL, init?: RequestInit) => handle(new Request(url, init))
  await client.connect(new StreamableHTTPClientTransport(new URL("http://localhost/mcp"), { fetch }))
  return client
}

const withClient = (use: (client: Client) => Promise<void>, options: ToolServer.Options = {}) =>
  Effect.gen(function* () {
    const context = yield* Layer.build(Runtime.layer({ tools: [toolset, pictures] }))
    const handle = yield* Effect.provide(ToolServer.makeHandler({ name: "world", ...options }), context)
    yield* Effect.promise(async () => {
      const client = await connect(handle)
      await use(client)
      await client.close()
    })
  })

describe("a toolset over MCP", () => {
  it.live("is listed with its schemas and annotations", () =>
    withClient(async (client) => {
      assert.strictEqual(client.getServerVersion()?.name, "world")
      const { tools } = await client.listTools()
      const [weather, remove] = ["weather", "remove"].map((name) => tools.find((one) => one.name === name))
      assert.deepInclude(weather, {
        description: "The weather in a city",
        annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false }
      })
      assert.deepStrictEqual(Object.keys(weather?.inputSchema.properties ?? {}), ["city"])
      assert.deepStrictEqual(Object.keys(weather?.outputSchema?.["properties"] ?? {}), ["celsius"])
      assert.deepInclude(remove?.annotations, { destructiveHint: true })
      assert.isUndefined(remove?.outputSchema)
    })
  )

  it.live("returns objects as structured content, and images as images", () =>
    withClient(async (client) => {
      const result = await client.callTool({ name: "weather", arguments: { city: "Rome" } })
      assert.deepInclude(result, { structuredContent: { celsius: 30 }, isError: false })
      const image = await client.callTool({ name: "picture", arguments: {} })
      assert.include(textOf(image), '{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}')
    })
  )

  it.live("returns failures as results: typed ones, wrong arguments, and denied calls", () =>
    withClient(async (client) => {
      const failed = await client.callTool({ name: "weather", arguments: { city: "Nowhere" } })
      assert.isTrue(failed.isError)
      assert.include(textOf(failed), "There is no city Nowhere.")
      const wrong = await client.callTool({ name: "weather", arguments: { city: 1 } })
      assert.isTrue(wrong.isError)
      const denied = await client.callTool({ name: "remove", arguments: {} })
      assert.deepStrictEqual([denied.isError, calls.removed], [true, 0])
      const unknown: unknown = await client
        .callTool({ name: "nothing", arguments: {} })
        .catch((error: unknown) => error)
      assert.include(String(unknown), "There is no tool")
    })
  )

  it.live("runs calls that need an approval where the owner says so, and only the chosen tools", () =>
    withClient(
      async (client) => {
        assert.include(textOf(await client.callTool({ name: "remove", arguments: {} })), "removed 1")
        assert.deepStrictEqual(
          (await client.listTools()).tools.map(({ name }) => name),
          ["remove"]
        )
      },
      { unattended: "approve", tools: { tool: (name) => name === "remove" } }
    )
  )

  it.live("interrupts a call whose client closes its request", () =>
    withClient(async (client) => {
      const call = client.callTool({ name: "hang", arguments: {} }).catch(() => "closed")
      await until(() => calls.started === 1)
      await client.close()
      assert.strictEqual(await call, "closed")
      await until(() => calls.interrupted === 1)
    })
  )

  it.live("is served by a program over its standard input and output, where calls are cancelled", () =>
    Effect.flatMap(temporaryDirectory, (directory) =>
      Effect.promise(async () => {
        const file = join(directory, "server.ts")
        const mark = join(directory, "mark")
        const entry = new URL("../../../src/kit/entry/promise.ts", import.meta.url).href
        const zod = import.meta.resolve("zod")
        writeFileSync(
          file,
          `import { writeFileSync } from "node:fs"
import { serveMcp, tool } from ${JSON.stringify(entry)}
import * as z from ${JSON.stringify(zod)}
const double = tool({
  name: "double",
  description: "Doubles a number",
  input: z.object({ n: z.number() }),
  execute: ({ n }) => ({ doubled: n * 2 }),
  readonly: true
})
const hang = tool({
  name: "hang",
  description: "Never ends",
  input: z.object({}),
  readonly: true,
  execute: (_, { signal }) =>
    new Promise(() => signal.addEventListener("abort", () => writeFileSync(${JSON.stringify(mark)}, "cancelled")))
})
await serveMcp({ tools: [double, hang], name: "maths" })
`
        )
        const client = new Client({ name: "test", version: "1.0.0" })
        await client.connect(new StdioClientTransport({ command: process.execPath, args: [file], stderr: "inherit" }))
        assert.strictEqual(client.getServerVersion()?.name, "maths")
        assert.include(textOf(await client.callTool({ name: "double", arguments: { n: 21 } })), "42")
        const ending = new AbortController()
        const call = client
          .callTool({ name: "hang", arguments: {} }, { signal: ending.signal })
          .catch(() => "cancelled")
        // Requests are answered in order of their arrival, so that the call has begun.
        await client.listTools()
        ending.abort()
        assert.strictEqual(await call, "cancelled")
        await until(() => existsSync(mark))
        await client.close()
      })
    )
  )

  it.live("is served by plain functions over HTTP", () =>
    Effect.promise(async () => {
      const double = tool({
        name: "double",
        description: "Doubles a number",
        input: z.object({ n: z.number() }),
        execute: ({ n }) => ({ doubled: n * 2 }),
        readonly: true
      })
      const { close, fetch } = await mcpHandler({ tools: [double] })
      const client = await connect(fetch)
      assert.deepInclude((await client.listTools()).tools[0]?.annotations, { readOnlyHint: true })
      assert.include(textOf(await client.callTool({ name: "double", arguments: { n: 21 } })), "42")
      await client.close()
      await close()
    })
  )
})
