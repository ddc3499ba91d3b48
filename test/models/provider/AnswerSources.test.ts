// Pages and documents that answers cite, in the forms of the four protocols, whole and streamed, up to the result of a
// run.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Agent from "../../../src/agent/Agent.ts"
import type { AnswerSource } from "../../../src/base/domain/ModelCall.ts"
import * as AiSdkAnswer from "../../../src/models/provider/aisdk/AiSdkAnswer.ts"
import * as Anthropic from "../../../src/models/provider/anthropic/Decode.ts"
import * as AnthropicStream from "../../../src/models/provider/anthropic/Stream.ts"
import * as Bedrock from "../../../src/models/provider/bedrock/Decode.ts"
import * as BedrockStream from "../../../src/models/provider/bedrock/Stream.ts"
import * as Chat from "../../../src/models/provider/chat/Decode.ts"
import * as ChatStream from "../../../src/models/provider/chat/Stream.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import * as Responses from "../../../src/models/provider/responses/Decode.ts"
import * as ResponsesStream from "../../../src/models/provider/responses/Stream.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as Fake from "../../support/fakeModel.ts"

const context = { module: "Test", method: "test", url: "http://127.0.0.1:1/v1", model: "m" }

const page: Extract<AnswerSource, { readonly type: "url" }> = {
  type: "url",
  url: "https://example.com/a",
  title: "A page"
}

const toEvents = (values: ReadonlyArray<unknown>) =>
  values.map((value) => ({ event: undefined, data: JSON.stringify(value) }))

const webCitation = { type: "web_search_result_location", url: page.url, title: page.title, cited_text: "x" }
const documentCitation = { type: "char_location", document_index: 1, document_title: "Manual", cited_text: "y" }
const manual: AnswerSource = { type: "document", title: "Manual", id: undefined, index: 1 }

describe("sources of an answer", () => {
  it("are read in chat completions, once each", () => {
    const annotations = [
      { type: "url_citation", url_citation: { url: page.url, title: page.title, start_index: 0, end_index: 3 } },
      { type: "url_citation", url_citation: { url: page.url, title: page.title, start_index: 5, end_index: 9 } },
      { type: "file", file: {} },
      null
    ]
    const message = { role: "assistant", content: "Text", annotations }
    const body = { choices: [{ message, finish_reason: "stop" }], citations: ["https://example.com/b", "no address"] }
    const bare: AnswerSource = { type: "url", url: "https://example.com/b", title: undefined }
    assert.deepStrictEqual(Result.getOrThrow(Chat.decode(body, context)).sources, [page, bare])
    const machine = ChatStream.make(context)
    machine.step(
      toEvents([
        { choices: [{ delta: { content: "Te" } }] },
        { choices: [{ delta: { content: "xt", annotations } }], citations: body.citations },
        { choices: [{ delta: {}, finish_reason: "stop" }], citations: body.citations }
      ])
    )
    // The addresses of the body come with every chunk.
    assert.sameDeepMembers([...(machine.sources?.() ?? [])], [page, bare])
    assert.notProperty(
      Result.getOrThrow(Chat.decode({ choices: [{ message: { content: "Text" } }] }, context)),
      "sources"
    )
  })

  it("are read in responses", () => {
    const annotations = [
      { type: "url_citation", url: page.url, title: page.title, start_index: 0, end_index: 1 },
      { type: "file_citation", file_id: "file-1", filename: "notes.md", index: 4 }
    ]
    const output = [{ type: "message", content: [{ type: "output_text", text: "Text", annotations }] }]
    const expected: ReadonlyArray<AnswerSource> = [
      page,
      { type: "document", title: "notes.md", id: "file-1", index: undefined }
    ]
    const body = { id: "r", status: "completed", output, usage: {} }
    assert.deepStrictEqual(Result.getOrThrow(Responses.decode(body, context)).sources, expected)
    const machine = ResponsesStream.make(context)
    machine.step(
      toEvents([
        { type: "response.output_text.delta", output_index: 0, delta: "Text" },
        { type: "response.output_item.done", output_index: 0, item: output[0] },
        { type: "response.completed", response: { ...body, output: [] } }
      ])
    )
    machine.end(true)
    assert.deepStrictEqual(machine.sources?.(), expected)
  })

  it("are read in messages", () => {
    const content = [{ type: "text", text: "Text", citations: [webCitation, documentCitation] }]
    const body = { content, stop_reason: "end_turn", usage: {} }
    assert.deepStrictEqual(Result.getOrThrow(Anthropic.decode(body, context)).sources, [page, manual])
    const machine = AnthropicStream.make(context)
    machine.step(
      toEvents([
        { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 0, delta: { type: "citations_delta", citation: webCitation } },
        { type: "content_block_delta", index: 0, delta: { type: "citations_delta", citation: documentCitation } },
        { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Text" } }
      ])
    )
    assert.deepStrictEqual(machine.sources?.(), [page, manual])
  })

  it("are read in Converse, with the text that they belong to", () => {
    const citations = [
      { title: page.title, location: { web: { url: page.url, domain: "example.com" } } },
      { title: "Manual", location: { documentPage: { documentIndex: 1, start: 2, end: 3 } } }
    ]
    const content = [{ citationsContent: { content: [{ text: "Te" }, { text: "xt" }], citations } }]
    const decoded = Result.getOrThrow(
      Bedrock.decode({ output: { message: { content } }, stopReason: "end_turn", usage: {} }, context)
    )
    assert.deepStrictEqual(decoded.sources, [page, manual])
    assert.deepStrictEqual(
      decoded.parts.map((part) => (part.type === "text" ? part.text : part.type)),
      ["Text"]
    )
    const machine = BedrockStream.make(context, undefined)
    machine.step([
      { contentBlockDelta: { contentBlockIndex: 0, delta: { text: "Text" } } },
      ...citations.map((citation) => ({ contentBlockDelta: { contentBlockIndex: 0, delta: { citation } } }))
    ])
    assert.deepStrictEqual(machine.sources?.(), [page, manual])
  })

  it("are read from models of the AI SDK", () => {
    const source = { type: "source" as const, sourceType: "url" as const, id: "s1", url: page.url, title: "A page" }
    const answer = AiSdkAnswer.toModelAnswer({
      content: [{ type: "text", text: "Text" }, source],
      finishReason: { unified: "stop", raw: undefined },
      usage: {
        inputTokens: { total: 1, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
        outputTokens: { total: 1, text: undefined, reasoning: undefined }
      },
      warnings: []
    })
    assert.deepStrictEqual(answer.sources, [page])
  })

  it.effect("are in the result of a run, once for all its answers", () => {
    const sources = [page]
    const fake = Fake.make(() => Effect.succeed({ ...Fake.textAnswer("Text"), sources }))
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.deepStrictEqual(result.sources, sources)
      assert.notProperty(JSON.parse(JSON.stringify(result)), "sources")
      const streamed = yield* Agent.run({ prompt: "go", streaming: true })
      assert.deepStrictEqual(streamed.sources, sources)
    }).pipe(
      Effect.provide(
        Layer.provide(Runtime.layer({ provider: Layer.succeed(Provider, fake.provider) }), NodeServices.layer)
      )
    )
  })
})
