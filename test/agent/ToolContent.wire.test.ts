// Images and files from tools over the wire: in the form that each of the four protocols has for them, streamed and
// not, from Effect toolsets and plain tools; in a resumed session, and for a model that takes no images.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as z from "zod"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as LongToolOutput from "../../src/agent/builtin/LongToolOutput.ts"
import * as ToolContent from "../../src/base/domain/ToolContent.ts"
import { Hooks, SessionStore } from "../../src/index.ts"
import { tool } from "../../src/kit/entry/promise.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { protocols, type WireTurn } from "../support/wireModel.ts"

const png = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a)
const base64 = Buffer.from(png).toString("base64")
const pdf = Buffer.from("%PDF-1.4").toString("base64")

const secret = `sk-${"a1B2".repeat(10)}`
const content = ToolContent.joinContent(
  `The page of ${secret}:`,
  ToolContent.fromImage(png),
  ToolContent.fromFile(pdf, "application/pdf", "page.pdf")
)

const Look = Tool.make("look", { success: ToolContent.ToolContent }).annotate(Tool.Readonly, true)
const Shot = Tool.make("look", {
  success: Schema.Struct({ data: Schema.String }),
  toModelOutput: ({ data }) => [Prompt.textPart({ text: "shot" }), Prompt.filePart({ mediaType: "image/png", data })]
}).annotate(Tool.Readonly, true)
const kit = Toolkit.make(Look)
const shotKit = Toolkit.make(Shot)

const effectTools = [Toolset.make("pages", kit, kit.toLayer({ look: () => Effect.succeed(content) }))]
const plainTools = [
  tool({
    name: "look",
    description: "Looks",
    input: z.object({}),
    parameters: { type: "object" },
    readonly: true,
    execute: async () => content
  }).toolset
]

const turns: ReadonlyArray<WireTurn> = [{ calls: [{ id: "c1", name: "look", args: "{}" }] }, { text: "I see it." }]

const serve = (
  mode: keyof typeof protocols,
  turns: ReadonlyArray<WireTurn>,
  isStreaming: boolean,
  refuses: (body: string) => boolean = () => false
) =>
  Effect.gen(function* () {
    const bodies: Array<string> = []
    let answered = 0
    const server = yield* HttpServer.make(({ body, url }, response) => {
      if (url.includes("/api/") || url.endsWith("/props") || url.endsWith("/models"))
        return HttpServer.json(response, 404, {})
      bodies.push(body)
      if (refuses(body))
        return HttpServer.json(response, 400, { error: { message: "this model does not support image input" } })
      const turn = turns[answered++] ?? { text: "out of turns" }
      if (isStreaming) protocols[mode].stream(turn, response)
      else HttpServer.json(response, 200, protocols[mode].whole(turn))
    })
    return { bodies, url: server.url }
  })

/** The parts of a request that each protocol has for the result of the call. */
const expected: { readonly [Mode in keyof typeof protocols]: ReadonlyArray<object> } = {
  anthropic_messages: [
    { type: "image", source: { type: "base64", media_type: "image/png", data: base64 } },
    { type: "document", source: { type: "base64", media_type: "application/pdf", data: pdf }, title: "page.pdf" }
  ],
  bedrock_converse: [
    { image: { format: "png", source: { bytes: base64 } } },
    { document: { format: "pdf", name: "page", source: { bytes: pdf } } }
  ],
  codex_responses: [
    { type: "input_image", image_url: `data:image/png;base64,${base64}` },
    { type: "input_file", filename: "page.pdf", file_data: `data:application/pdf;base64,${pdf}` }
  ],
  chat_completions: [
    { type: "image_url", image_url: { url: `data:image/png;base64,${base64}` } },
    { type: "file", file: { filename: "page.pdf", file_data: `data:application/pdf;base64,${pdf}` } }
  ]
}

/** Finds the object that holds the result of the call, or for chat completions the message after it. */
const findResult = (mode: keyof typeof protocols, body: string): string => {
  const request = JSON.parse(body)
  switch (mode) {
    case "chat_completions":
      return JSON.stringify(request.messages.slice(-2))
    case "codex_responses":
      return JSON.stringify(request.input.find(({ type }: { type: string }) => type === "function_call_output").output)
    case "anthropic_messages":
      return JSON.stringify(request.messages.at(-1).content[0].content)
    case "bedrock_converse":
      return JSON.stringify(request.messages.at(-1).content[0].toolResult.content)
  }
}

const isPart = (value: object, part: object): boolean => {
  try {
    assert.deepInclude(value, part)
    return true
  } catch {
    return false
  }
}

/** Tests whether a JSON text contains an object with at least these members. */
const hasPart = (json: string, part: object): boolean => {
  const search = (value: unknown): boolean =>
    typeof value === "object" && value !== null && (isPart(value, part) || Object.values(value).some(search))
  return search(JSON.parse(json))
}

describe("images and files of a tool", () => {
  for (const mode of ["chat_completions", "codex_responses", "anthropic_messages", "bedrock_converse"] as const) {
    for (const isStreaming of [true, false]) {
      for (const [name, tools] of [
        ["an Effect toolset", effectTools],
        ["a plain tool", plainTools]
      ] as const) {
        it.live(`${mode}, ${isStreaming ? "streamed" : "whole"}: ${name}`, () =>
          Effect.gen(function* () {
            const { bodies, url } = yield* serve(mode, turns, isStreaming)
            const told: Array<unknown> = []
            const events: Array<RunEvent> = []
            const result = yield* Effect.provide(
              Agent.run({
                prompt: "look",
                streaming: isStreaming,
                onEvent: (some) => Effect.sync(() => void events.push(...some))
              }),
              Runtime.layer({
                provider: protocols[mode].layer(url),
                tools,
                hooks: [Hooks.on("post_tool_call", ({ result }) => Effect.sync(() => void told.push(result)))]
              })
            )
            assert.strictEqual(result.text, "I see it.")
            const sent = findResult(mode, bodies[1] ?? "")
            for (const part of expected[mode]) assert.isTrue(hasPart(sent, part), `${JSON.stringify(part)} in ${sent}`)
            assert.include(sent, "The page of sk-a")
            // The data is sent once, and the secret of the text is not.
            assert.lengthOf((bodies[1] ?? "").split(base64), 2)
            assert.notInclude(bodies[1], secret)
            // Every other reader has a description.
            const [call] = result.calls
            for (const text of [told[0], call?.output, call?.result, JSON.stringify(events)]) {
              assert.include(String(text), "[image/png, 8 bytes]")
              assert.notInclude(String(text), base64)
              assert.notInclude(String(text), secret)
            }
          }).pipe(Effect.scoped)
        )
      }
    }
  }

  it.live("are sent again in a resumed session of another runtime", () =>
    Effect.gen(function* () {
      const sqlite = `${yield* temporaryDirectory}/state.db`
      const { bodies, url } = yield* serve("anthropic_messages", [...turns, { text: "Still there." }], false)
      for (const prompt of ["look", "and now?"]) {
        yield* Effect.provide(
          Agent.run({ prompt, sessionId: "s" }),
          Runtime.layer({
            provider: protocols.anthropic_messages.layer(url),
            tools: effectTools,
            store: SessionStore.layerSqlite({ path: sqlite })
          })
        )
      }
      for (const part of expected.anthropic_messages) assert.isTrue(hasPart(bodies[2] ?? "", part))
    }).pipe(Effect.scoped)
  )

  it.live("are described to a model that takes no images", () =>
    Effect.gen(function* () {
      const { bodies, url } = yield* serve("chat_completions", turns, false, (body) => body.includes("image_url"))
      const { text } = yield* Effect.provide(
        Agent.run({ prompt: "look" }),
        Runtime.layer({ routes: [{ model: "a", baseUrl: `${url}/v1` }], tools: effectTools })
      )
      assert.strictEqual(text, "I see it.")
      const last = bodies.at(-1) ?? ""
      assert.notInclude(last, base64)
      assert.include(last, "this model cannot take it")
      assert.include(last, "page.pdf")
    }).pipe(Effect.scoped)
  )

  it.live("leave out the data of a tool's own result, which no limit cuts", () =>
    Effect.gen(function* () {
      const data = Buffer.alloc(90_000, 7).toString("base64")
      const tools = [Toolset.make("shots", shotKit, shotKit.toLayer({ look: () => Effect.succeed({ data }) }))]
      const { bodies, url } = yield* serve("anthropic_messages", turns, false)
      const { calls } = yield* Effect.provide(
        Agent.run({ prompt: "look" }),
        Runtime.layer({
          provider: protocols.anthropic_messages.layer(url),
          tools,
          middleware: [LongToolOutput.make({ tempDir: null })]
        })
      )
      assert.isTrue(
        hasPart(bodies[1] ?? "", { type: "image", source: { type: "base64", media_type: "image/png", data } })
      )
      assert.deepStrictEqual(
        calls.map(({ output }) => output),
        ["shot\n[image/png]"]
      )
    }).pipe(Effect.scoped)
  )

  it.live("keep their image where their text is too long, and lose what is beyond the limits", () =>
    Effect.gen(function* () {
      const long = ToolContent.joinContent(
        "x".repeat(50_000),
        ...Array.from({ length: 9 }, () => ToolContent.fromImage(png))
      )
      const tools = [Toolset.make("pages", kit, kit.toLayer({ look: () => Effect.succeed(long) }))]
      const { bodies, url } = yield* serve("anthropic_messages", turns, false)
      yield* Effect.provide(
        Agent.run({ prompt: "look" }),
        Runtime.layer({
          provider: protocols.anthropic_messages.layer(url),
          tools,
          resultLimits: { perResult: 10_000, perTurn: 20_000 }
        })
      )
      const sent = findResult("anthropic_messages", bodies[1] ?? "")
      assert.isAtMost(sent.length, 5_000)
      assert.include(sent, "<persisted-output>")
      assert.lengthOf(sent.split(base64), 9)
    }).pipe(Effect.scoped)
  )
})
