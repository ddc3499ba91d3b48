// Endpoints that refuse a form of a request, through the arguments of the program: each fact is refused once, in this
// process and in the next one.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpServer from "./models/provider/HttpServer.ts"
import { machine } from "./support/hermesInProcess.ts"
import { protocols, type WireTurn } from "./support/wireModel.ts"

/** Calls of a run: files that the model reads, one in each step. */
const steps = 12

interface Message {
  readonly role: string
  readonly content: unknown
  readonly tool_call_id?: string
  readonly tool_calls?: ReadonlyArray<{ readonly id: string; readonly extra_content?: unknown }>
}

interface Body {
  readonly messages: ReadonlyArray<Message>
  readonly max_tokens?: number
  readonly stream?: boolean
}

interface Refusal {
  readonly status?: number
  readonly message: string
  readonly code?: string
}

const listCallIds = ({ messages }: Body): ReadonlyArray<string> =>
  messages.flatMap(({ tool_call_id, tool_calls = [] }) => [
    ...(tool_call_id === undefined ? [] : [tool_call_id]),
    ...tool_calls.map(({ id }) => id)
  ])

/** Refusals of a request, by the fact that they teach. */
const quirks: Readonly<Record<string, (body: Body) => Refusal | undefined>> = {
  "a longest answer (Azure)": ({ max_tokens = 0 }) =>
    max_tokens > 32_768
      ? {
          message: `max_tokens is too large: ${max_tokens}. This model supports at most 32768 completion tokens, whereas you provided ${max_tokens}.`,
          code: "invalid_value"
        }
      : undefined,
  "a longest answer (DashScope)": ({ max_tokens = 0 }) =>
    max_tokens > 8_192 ? { message: "Range of max_tokens should be [1, 8192]" } : undefined,
  "ids of calls (Mistral)": (body) => {
    const odd = listCallIds(body).find((id) => !/^[A-Za-z0-9]{9}$/.test(id))
    return odd === undefined
      ? undefined
      : { message: `Tool call id was ${odd} but must be a-z, A-Z, 0-9, with a length of 9.`, code: "3280" }
  },
  "thought signatures (Gemini)": ({ messages }) =>
    messages.some(({ tool_calls = [] }) => tool_calls.some(({ extra_content }) => extra_content === undefined))
      ? { message: "Function call is missing a thought_signature in functionCall parts." }
      : undefined
}

const serve = (judge: (body: Body) => Refusal | undefined) =>
  Effect.gen(function* () {
    const asked: Array<Body> = []
    const refused: Array<string> = []
    const server = yield* HttpServer.make((request, response) => {
      if (!request.url.endsWith("/chat/completions")) return void HttpServer.json(response, 404, {})
      const body: Body = JSON.parse(request.body)
      asked.push(body)
      const refusal = judge(body)
      if (refusal !== undefined) {
        refused.push(refusal.message)
        return void HttpServer.json(response, refusal.status ?? 400, {
          error: { message: refusal.message, code: refusal.code ?? null, type: "invalid_request_error" }
        })
      }
      const step = body.messages.length - 1 - body.messages.findLastIndex(({ role }) => role === "user")
      const at = step / 2
      const turn: WireTurn =
        at < steps - 1
          ? { calls: [{ id: `call_${asked.length}_long`, name: "read_file", args: `{"path":"f${at}.txt"}` }] }
          : { text: "all read" }
      if (body.stream === true) protocols.chat_completions.stream(turn, response)
      else HttpServer.json(response, 200, protocols.chat_completions.whole(turn))
    })
    return { asked, refused, url: `${server.url}/v1` }
  })

const start = (url: string, streaming: boolean) =>
  Effect.map(machine, (program) => {
    const model = { provider: "custom", default: "m", base_url: url, max_tokens: 65_536, streaming }
    program.keep("config.yaml", JSON.stringify({ model }))
    for (let at = 0; at < steps; at++) program.put(`f${at}.txt`, `text ${at}`)
    return program
  })

for (const streaming of [true, false]) {
  describe(`an endpoint that refuses, ${streaming ? "streamed" : "not streamed"}`, () => {
    for (const [what, judge] of Object.entries(quirks)) {
      it.live(`teaches once, here and in the next program: ${what}`, () =>
        Effect.gen(function* () {
          const { asked, refused, url } = yield* serve(judge)
          const { hermes } = yield* start(url, streaming)
          for (const _ of ["this program", "the next"]) {
            const { code, stderr, stdout } = yield* hermes(["chat", "-q", "read all files"])
            assert.strictEqual(code, 0, stderr)
            assert.include(stdout, "all read")
          }
          assert.strictEqual(asked.length, 2 * steps + 1)
          assert.strictEqual(refused.length, 1, refused.join("\n"))
        })
      )
    }
  })
}

const chunk = (delta: object, finish_reason: string | null = null) => ({
  id: "c",
  model: "m",
  choices: [{ index: 0, delta, finish_reason }]
})
const extra_content = { google: { thought_signature: "opaque" } }
const readCall = { id: "c1", type: "function", function: { name: "read_file", arguments: '{"path":"f0.txt"}' } }

/** Answers that differ from what the protocol says, with the request that must follow. */
const serveOnce = (
  whole: object | undefined,
  chunks: ReadonlyArray<object>,
  instead?: (response: Parameters<typeof HttpServer.json>[0]) => void
) =>
  Effect.gen(function* () {
    const asked: Array<Body> = []
    const server = yield* HttpServer.make((request, response) => {
      if (!request.url.endsWith("/chat/completions")) return void HttpServer.json(response, 404, {})
      const body: Body = JSON.parse(request.body)
      const isFirst = asked.push(body) === 1
      if (isFirst && instead !== undefined) return instead(response)
      if (body.stream === true)
        return isFirst
          ? void response
              .writeHead(200, { "content-type": "text/event-stream" })
              .end(HttpServer.sse(...chunks, chunk({}, "tool_calls"), "[DONE]"))
          : protocols.chat_completions.stream({ text: "all read" }, response)
      return void HttpServer.json(
        response,
        200,
        isFirst && whole !== undefined
          ? { id: "c", model: "m", choices: [{ index: 0, message: whole, finish_reason: "tool_calls" }] }
          : protocols.chat_completions.whole({ text: "all read" })
      )
    })
    return { asked, url: `${server.url}/v1` }
  })

for (const streaming of [true, false]) {
  describe(`answers of gateways, ${streaming ? "streamed" : "not streamed"}`, () => {
    it.live("a thought signature goes back to the route that sent it, under any name of the model", () =>
      Effect.gen(function* () {
        const { asked, url } = yield* serveOnce(
          { role: "assistant", content: null, tool_calls: [{ ...readCall, extra_content }] },
          [chunk({ tool_calls: [{ index: 0, ...readCall, extra_content }] })]
        )
        const { hermes } = yield* start(url, streaming)
        const first = yield* hermes(["chat", "-q", "read all files"])
        assert.strictEqual(first.code, 0, first.stderr)
        const second = yield* hermes(["chat", "--continue", "-q", "and now?"])
        assert.strictEqual(second.code, 0, second.stderr)
        assert.strictEqual(asked.length, 3)
        for (const { messages } of asked.slice(1))
          assert.deepStrictEqual(
            messages.flatMap(({ tool_calls = [] }) => tool_calls.map((call) => call.extra_content)),
            [extra_content]
          )
      })
    )

    it.live("a call that the server could not read is asked for again", () =>
      Effect.gen(function* () {
        const { asked, url } = yield* serveOnce(undefined, [], (response) =>
          HttpServer.json(response, 400, {
            error: {
              message:
                "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
              type: "invalid_request_error",
              code: "tool_use_failed",
              failed_generation: "<function=read_file>"
            }
          })
        )
        const { hermes } = yield* start(url, streaming)
        const { code, stderr, stdout } = yield* hermes(["chat", "-q", "read all files"])
        assert.strictEqual(code, 0, stderr)
        assert.include(stdout, "all read")
        assert.strictEqual(asked.length, 2)
      })
    )
  })
}

it.live("arguments that a stream sends under another index are no call that was cut", () =>
  Effect.gen(function* () {
    const { asked, url } = yield* serveOnce(undefined, [
      chunk({ tool_calls: [{ index: 0, ...readCall }] }),
      chunk({ tool_calls: [{ index: 1, id: "c2", type: "function", function: { name: "read_file", arguments: "" } }] }),
      chunk({ tool_calls: [{ index: 2, function: { arguments: '{"path":' } }] }),
      chunk({ tool_calls: [{ index: 2, function: { arguments: '"f1.txt"}' } }] })
    ])
    const { hermes } = yield* start(url, true)
    const { code, stderr } = yield* hermes(["chat", "-q", "read all files"])
    assert.strictEqual(code, 0, stderr)
    assert.strictEqual(asked.length, 2)
    const results = asked[1]?.messages.filter(({ role }) => role === "tool").map(({ content }) => String(content)) ?? []
    assert.deepStrictEqual(
      [results.length, results[0]?.includes("text 0"), results[1]?.includes("text 1")],
      [2, true, true]
    )
  })
)
