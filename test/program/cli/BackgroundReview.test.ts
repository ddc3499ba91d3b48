// A review of the conversation after a single query: the answer comes first, then the program waits for it and says so.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermes.ts"
import { protocols, type WireTurn } from "../../support/wireModel.ts"

const remember: WireTurn = {
  text: "",
  calls: [{ id: "m1", name: "memory", args: JSON.stringify({ action: "add", target: "user", content: "likes tea" }) }]
}

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
    Effect.gen(function* () {
      const { at, hermes, home, keep } = yield* machine
      let reviews = 0
      const server = yield* HttpServer.make(({ body, url }, response) => {
        if (!url.includes("chat/completions")) return response.writeHead(404).end()
        const turn = !body.includes("You look at a conversation")
          ? { text: "Noted." }
          : ++reviews === 1
            ? remember
            : { text: "Nothing to save." }
        // The protocol's whole answer is an object.
        const whole = protocols.chat_completions.whole(turn) as Readonly<Record<string, unknown>>
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(whole))
      })
      keep("config.yaml", config(`${server.url}/v1`))
      let answered = false
      let usageAtOnce = false
      const ended = yield* hermes(["-q", "I like tea", "-Q", "--usage-file", "usage.json"], {
        onOutput: (stdout) => {
          if (stdout === "Noted.\n") answered = reviews < 2
        },
        onError: (stderr) => {
          if (stderr.includes("Reviewing")) usageAtOnce = existsSync(at("usage.json"))
        }
      })
      assert.deepInclude(ended, { code: 0, stdout: "Noted.\n" })
      assert.match(
        ended.stderr,
        /^session_id: \S+\nReviewing the conversation for memory and skills, up to 20 s\. Ctrl\+C ends it\.\nBackground review: memory updated \(1 change\)\.\n$/
      )
      assert.isTrue(answered)
      assert.isTrue(usageAtOnce, "written with the answer")
      const {
        api_calls,
        auxiliary,
        total_including_auxiliary: total
      } = JSON.parse(readFileSync(at("usage.json"), "utf8"))
      assert.deepStrictEqual([api_calls, auxiliary.background_review.api_calls, total.api_calls], [1, 2, 3])
      assert.strictEqual(readFileSync(join(home, "memories", "USER.md"), "utf8"), "likes tea\n")
    })
  )
})
