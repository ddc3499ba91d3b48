// The real program and a plugin that changes the answer after it was shown.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermes.ts"
import { protocols } from "../../support/wireModel.ts"

const plugin = `
  export const register = (ctx) => {
    ctx.registerMiddleware("llm_execution", async (call) => {
      let seen = ""
      const body = await call.next_call(call.request, {
        on_part: (parts) => {
          for (const part of parts) if (part.type === "text_delta") seen += part.delta
          return parts
        }
      })
      console.error("seen", JSON.stringify(seen))
      const [choice] = body.choices
      return { ...body, choices: [{ ...choice, message: { ...choice.message, content: choice.message.content.replace("secret", "[removed]") } }] }
    })
  }`

const setting = Effect.gen(function* () {
  const server = yield* HttpServer.make(({ body, method }, response) =>
    method !== "POST"
      ? HttpServer.json(response, 404, { error: { message: "nothing here" } })
      : JSON.parse(body).stream === true
        ? protocols.chat_completions.stream({ text: "my secret is here" }, response)
        : HttpServer.json(response, 200, protocols.chat_completions.whole({ text: "A title" }))
  )
  const own = yield* machine
  own.keep("plugins/redact/plugin.yaml", "name: redact\n")
  own.keep("plugins/redact/index.js", plugin)
  own.keep(
    "config.yaml",
    `model: { provider: custom, default: m, base_url: "${server.url}/v1", api_key: k, context_length: 100000 }
plugins: { enabled: [redact] }
`
  )
  return own
})

describe("an answer that a plugin changes after it streamed by", () => {
  it.live("into a pipe goes once, as it is in the end; stream-json takes the text back", () =>
    Effect.gen(function* () {
      const { hermes } = yield* setting
      const { code, stderr, stdout } = yield* hermes(["chat", "-q", "hi"])
      assert.deepStrictEqual([code, stdout], [0, "my [removed] is here\n"], stderr)
      assert.include(stderr, 'seen "my secret is here"')
      const json = yield* hermes(["chat", "-q", "hi", "--format", "stream-json"])
      const lines = json.stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>)
      const text = lines.reduce(
        (text, line) =>
          line["type"] === "text"
            ? text + String(line["text"])
            : line["type"] === "text_replaced"
              ? String(line["text"])
              : text,
        ""
      )
      assert.lengthOf(
        lines.filter(({ type }) => type === "text_replaced"),
        1,
        json.stdout
      )
      assert.strictEqual(text, "my [removed] is here")
      assert.deepInclude(lines.at(-1), { type: "result", text })
    })
  )
})
