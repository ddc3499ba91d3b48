// A conversation that is compacted, through the program: what is printed, and how it goes on.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { sessionIdOf } from "../../support/hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { sessions } from "../../support/stateDatabase.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { protocols, type WireTurn } from "../../support/wireModel.ts"

const prose = "I wonder. ".repeat(2_000)

/** Reads a file six times with many words, then answers; counts a quarter of the characters. */
const model = Effect.gen(function* () {
  const asked: Array<{ readonly isSummary: boolean; readonly texts: string }> = []
  let step = 0
  const server = yield* HttpServer.make(({ body, url }, response) => {
    if (!url.includes("chat/completions")) return response.writeHead(404).end()
    const { messages } = JSON.parse(body)
    const isSummary = JSON.stringify(messages[0]).includes("handoff note of a conversation")
    asked.push({ isSummary, texts: JSON.stringify(messages) })
    const turn = (): WireTurn => {
      if (isSummary) return { text: "## Active Task\nread everything" }
      const at = step++
      return at < 6
        ? {
            text: `Reading ${at}. ${prose}`,
            calls: [
              {
                id: `c${at}`,
                name: "read_file",
                args: JSON.stringify({ path: "words.txt", offset: at + 1, limit: 100 })
              }
            ]
          }
        : { text: `answer ${at}` }
    }
    const usage = {
      prompt_tokens: Math.ceil(body.length / 4),
      completion_tokens: 10,
      total_tokens: Math.ceil(body.length / 4) + 10
    }
    // The protocol's whole answer is an object.
    const whole = protocols.chat_completions.whole(turn()) as Readonly<Record<string, unknown>>
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ ...whole, usage }))
  })
  return { asked, url: `${server.url}/v1` }
})

const config = (url: string): string => `
model:
  provider: custom
  default: m
  base_url: ${url}
  api_key: k
  context_length: 64000
compression:
  protect_last_n: 4
display:
  streaming: false
`

describe("a conversation that was compacted", () => {
  it.live("is named by the id that it goes on in, and by its old id, and --continue lead there", () =>
    Effect.gen(function* () {
      const { hermes, home, keep, put } = yield* machine
      put("words.txt", `${"words of a file ".repeat(8)}\n`.repeat(200))
      const { asked, url } = yield* model
      keep("config.yaml", config(url))
      const first = yield* hermes(["chat", "-q", "Read everything.", "--toolsets", "file", "--quiet"])
      assert.deepInclude(first, { code: 0, stdout: "answer 6\n" })
      const printed = first.stderr.match(/^session_id: .*$/gm)?.map((line) => line.slice("session_id: ".length)) ?? []
      assert.strictEqual(printed.length, 2, first.stderr)
      const [old, id] = printed
      assert.strictEqual(asked.filter(({ isSummary }) => isSummary).length, 1)
      const stored = yield* sessions(home)
      assert.deepStrictEqual(
        stored.map(({ session }) => [session.id, session.endReason, session.parentId]).sort(),
        [
          [old, "compression", undefined],
          [id, "text_response", old]
        ].sort()
      )
      for (const [flags, answer] of [
        [["--resume", old ?? ""], "answer 7\n"],
        [["--resume", id ?? ""], "answer 8\n"],
        [["--continue"], "answer 9\n"]
      ] as const) {
        const next = yield* hermes(["chat", "-q", "And?", "--quiet", ...flags])
        assert.deepInclude(next, { code: 0, stdout: answer })
        assert.strictEqual(sessionIdOf(next.stderr), id)
      }
      assert.strictEqual(asked.filter(({ isSummary }) => isSummary).length, 1)
      assert.strictEqual((yield* sessions(home)).length, 2)
    })
  )

  it.live("stream-json: the result names the session that it goes on in", () =>
    Effect.gen(function* () {
      const { hermes, home, keep, put } = yield* machine
      put("words.txt", `${"words of a file ".repeat(8)}\n`.repeat(200))
      const { url } = yield* model
      keep("config.yaml", config(url))
      const { stdout } = yield* hermes([
        "chat",
        "-q",
        "Read everything.",
        "--toolsets",
        "file",
        "--format",
        "stream-json"
      ])
      const lines = stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
      const made = (yield* sessions(home)).find(({ session }) => session.continues !== undefined)
      assert.strictEqual(lines.at(-1)?.session_id, made?.session.id)
      assert.strictEqual(lines[0]?.session_id, made?.session.continues)
    })
  )
})
