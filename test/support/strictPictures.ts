// A model behind a server of the loopback that takes no image above 5 MB, and runs that show it one.
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"

const megabyte = 1024 * 1024

/** Bytes of a photograph that no provider takes. */
export const photograph = 12 * megabyte

interface Content {
  readonly text?: string
  readonly image_url?: { readonly url: string }
}

/** Shows a model an image. `sent` has that of each question in base64, or the text that stands in its place. */
export const show = Effect.fnUntraced(function* (image: Uint8Array, mediaType: string) {
  const sent: Array<string> = []
  const notices: Array<string> = []
  const server = yield* HttpServer.make((request, response) => {
    if (!request.url.endsWith("/chat/completions")) return HttpServer.json(response, 404, {})
    const { messages } = JSON.parse(request.body)
    const content: string | ReadonlyArray<Content> = messages.at(-1).content
    const last: Content = typeof content === "string" ? { text: content } : (content.at(-1) ?? {})
    const shown = last.image_url?.url.replace(/^data:[^,]*,/, "")
    sent.push(shown ?? last.text ?? "")
    return shown !== undefined && shown.length > 5 * megabyte
      ? HttpServer.json(response, 400, {
          error: { message: `image exceeds 5 MB maximum: ${shown.length} bytes > 5242880 bytes` }
        })
      : HttpServer.json(response, 200, {
          choices: [{ index: 0, message: { role: "assistant", content: "seen" }, finish_reason: "stop" }]
        })
  })
  const onEvent = (events: ReadonlyArray<RunEvent>) =>
    Effect.sync(() => events.forEach((event) => (event._tag === "Notice" ? notices.push(event.message) : undefined)))
  const prompt = [
    Prompt.textPart({ text: "What is it?" }),
    Prompt.filePart({ mediaType, data: image, fileName: "photo" })
  ]
  const routes = [{ model: "a", baseUrl: `${server.url}/v1` }]
  const { text } = yield* Effect.provide(Agent.run({ prompt, streaming: false, onEvent }), Runtime.layer({ routes }))
  return { text, notices, sent }
})
