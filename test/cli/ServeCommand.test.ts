// `hermes serve` as a user has it: the agent, or rollouts; what is refused; its end by a signal.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"
import { join } from "node:path"
import OpenAI from "openai"
import { machine } from "../support/hermes.ts"

describe("hermes serve", () => {
  it.live("serves the agent of the settings, keeps its sessions, and ends by a signal without losing a request", () =>
    Effect.gen(function*() {
      const { cwd, hermes } = yield* machine
      const said: Array<string> = []
      const { code, stderr, stdout } = yield* hermes(["serve", "--port", "0", "--provider", "offline"], {
        onOutput: (text, child) => {
          const url = /Serving the agent at (\S+)\n/.exec(text)?.[1]
          if (url === undefined || said.length > 0) return
          said.push(url)
          const client = new OpenAI({ baseURL: url, apiKey: "k", maxRetries: 0 })
          void client.chat.completions.create({ model: "hermes", messages: [{ role: "user", content: "Reply exactly hello" }] })
            .then(({ choices }) => said.push(choices[0]?.message.content ?? ""), (error: unknown) => said.push(String(error)))
            .finally(() => child.kill("SIGINT"))
        }
      })
      assert.deepStrictEqual([code, said.slice(1)], [0, ["hello"]], `${stdout}${stderr}`)
      assert.include(stderr, "Ending: requests under way have 10 seconds.")
      assert.match((yield* hermes(["sessions", "list", "--source", "api-server"])).stdout, /^\d{8}_\d{6}_/u)

      const rollouts = yield* hermes(["serve", "--port", "0", "--rollouts", "episodes", "--provider", "offline"], {
        onOutput: (text, child) => {
          if (text.includes("Episodes:")) child.kill("SIGINT")
        }
      })
      assert.include(rollouts.stdout, "Serving rollouts of")
      assert.isTrue(existsSync(join(cwd, "episodes")))

      const refused = yield* hermes(["serve", "--parser", "qwen"])
      assert.deepStrictEqual([refused.code, refused.stderr], [2, "Error: --parser is about rollouts: add --rollouts DIR\n"])
      const open = yield* hermes(["serve", "--host", "0.0.0.0", "--provider", "offline"])
      assert.strictEqual(open.code, 2)
      assert.include(open.stderr, "listening on 0.0.0.0 needs a key")
    }), { timeout: 60_000 })
})
