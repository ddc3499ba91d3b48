// The real program and a model whose connection is lost in the middle of its answer.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { sessionIdOf } from "../../support/hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { cutStream, protocols, restOf } from "../../support/wireModel.ts"

const sentence = "the harbour was quiet that morning and none of the boats had left it before the fog was gone"

/** A user whose model cuts its first answers. */
const user = (cuts: number, retries = 0) =>
  Effect.gen(function* () {
    const made = yield* machine
    const protocol = protocols.chat_completions
    let served = 0
    const server = yield* HttpServer.make(({ body, method }, response) => {
      if (method !== "POST") return HttpServer.json(response, 404, { error: { message: "nothing here" } })
      // Titles and other side tasks are asked for in one piece.
      if (JSON.parse(body).stream !== true) return HttpServer.json(response, 200, protocol.whole({ text: "A title" }))
      const turn = { text: restOf(sentence, body) }
      if (served++ < cuts) cutStream(protocol, turn, response, 0.3, "lost")
      else protocol.stream(turn, response)
    })
    made.keep(
      "config.yaml",
      [
        "model:",
        "  provider: custom",
        "  default: m",
        `  base_url: ${server.url}/v1`,
        "  api_key: k",
        "  context_length: 100000",
        "network:",
        `  stream_retries: ${retries}`,
        ""
      ].join("\n")
    )
    return { ...made, server }
  })

describe("an answer that breaks off in the text", () => {
  it.live("which was read and could not be finished ends with code 1 and what to do; the session goes on", () =>
    Effect.gen(function* () {
      const { hermes } = yield* user(1)
      const { code, stderr, stdout } = yield* hermes(["chat", "-q", "go"])
      assert.strictEqual(code, 1)
      const said = stdout.trim()
      assert.isTrue(said !== "" && said !== sentence && sentence.startsWith(said), said)
      const id = sessionIdOf(stderr)
      assert.include(
        stderr,
        `the connection was lost during the answer: continue with \`hermes chat --resume ${id} -q continue\``
      )
      const again = yield* hermes(["chat", "--resume", id, "-Q", "-q", "continue"])
      assert.deepInclude(again, { code: 0, stdout: `${sentence}\n` })
    })
  )

  it.live("which was read is finished in its place, without a break in the text", () =>
    Effect.gen(function* () {
      const { hermes } = yield* user(1, 2)
      const { code, stderr, stdout } = yield* hermes(["chat", "-q", "go"])
      assert.deepStrictEqual({ code, stdout }, { code: 0, stdout: `${sentence}\n` })
      assert.match(stderr, /the answer broke off \(timeout\): asking for the rest/)
    })
  )

  it.live("is marked in stream-json", () =>
    Effect.gen(function* () {
      const { hermes } = yield* user(1)
      const { code, stdout } = yield* hermes(["chat", "-q", "go", "--format", "stream-json"])
      const result = JSON.parse(stdout.trim().split("\n").at(-1) ?? "")
      assert.deepInclude(result, { type: "result", exit: "partial_stream_recovery", exit_code: 1 })
      assert.match(result.error, /the connection was lost during the answer: continue with/)
      assert.isTrue(sentence.startsWith(result.text) && result.text !== "" && result.text !== sentence)
      assert.strictEqual(code, 1)
    })
  )

  it.live("is made again under -Q, and stdout is the whole answer", () =>
    Effect.gen(function* () {
      const { hermes } = yield* user(1)
      const { code, stdout } = yield* hermes(["chat", "-Q", "-q", "go"])
      assert.deepStrictEqual({ code, stdout }, { code: 0, stdout: `${sentence}\n` })
    })
  )
})
