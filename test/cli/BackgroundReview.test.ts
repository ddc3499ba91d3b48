// A review of the conversation after a single query: the answer comes first, then the program waits for it and says so.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as HttpServer from "../provider/HttpServer.ts"
import { machine } from "../support/hermes.ts"
import { protocols, type WireTurn } from "../support/wireModel.ts"

const remember: WireTurn = { text: "", calls: [{ id: "m1", name: "memory", args: JSON.stringify({ action: "add", target: "user", content: "likes tea" }) }] }

const config = (url: string): string => `
model:
  provider: custom
  default: m
  base_url: ${url}
  api_key: k
memory:
  nudge_interval: 1
display:
  streaming: false
`

describe("a review after a single query", () => {
  it.live("comes behind the answer, is announced on stderr, and what it did is a line there", () =>
    Effect.gen(function*() {
      const { hermes, home, keep } = yield* machine
      let reviews = 0
      const server = yield* HttpServer.make(({ body, url }, response) => {
        if (!url.includes("chat/completions")) return response.writeHead(404).end()
        const turn = !body.includes("You look at a conversation") ? { text: "Noted." } : ++reviews === 1 ? remember : { text: "Nothing to save." }
        // The protocol's whole answer is an object.
        const whole = protocols.chat_completions.whole(turn) as Readonly<Record<string, unknown>>
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(whole))
      })
      keep("config.yaml", config(`${server.url}/v1`))
      let answered = false
      const ended = yield* hermes(["-q", "I like tea", "-Q"], {
        onOutput: (stdout) => {
          if (stdout === "Noted.\n") answered = reviews < 2
        }
      })
      assert.deepInclude(ended, { code: 0, stdout: "Noted.\n" })
      assert.match(
        ended.stderr,
        /^session_id: \S+\nReviewing the conversation for memory and skills, up to 20 s\. Ctrl\+C ends it\.\nBackground review: memory updated \(1 change\)\.\n$/
      )
      assert.isTrue(answered)
      assert.strictEqual(readFileSync(join(home, "memories", "USER.md"), "utf8"), "likes tea\n")
    }))
})
