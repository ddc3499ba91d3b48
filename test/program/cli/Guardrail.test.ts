// `bedrock.guardrail` of the settings, with the real program: sent with every call of a run, and no run without it.
import { encodeEventStreamMessage } from "@copilotkit/aimock"
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../../src/agent/Agent.ts"
import * as Config from "../../../src/base/config/Config.ts"
import { Environment, Home } from "../../../src/base/config/Environment.ts"
import { Settings } from "../../../src/base/config/Settings.ts"
import * as Ids from "../../../src/base/domain/Ids.ts"
import { Auxiliary } from "../../../src/models/routing/Auxiliary.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as Ask from "../../models/provider/Ask.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const blocked = "Sorry, the model cannot answer this question."

const bedrock = HttpServer.make(({ url }, response) => {
  if (!url.endsWith("/converse-stream")) return HttpServer.json(response, 404, { message: "unknown" })
  response
    .writeHead(200, { "content-type": "application/vnd.amazon.eventstream" })
    .end(
      Buffer.concat([
        encodeEventStreamMessage("messageStart", { role: "assistant" }),
        encodeEventStreamMessage("contentBlockDelta", { contentBlockIndex: 0, delta: { text: blocked } }),
        encodeEventStreamMessage("contentBlockStop", { contentBlockIndex: 0 }),
        encodeEventStreamMessage("messageStop", { stopReason: "guardrail_intervened" }),
        encodeEventStreamMessage("metadata", {
          usage: { inputTokens: 5, outputTokens: 0, totalTokens: 5 },
          metrics: { latencyMs: 1 }
        })
      ])
    )
})

const main = (url: string) =>
  `model: { provider: bedrock, default: us.anthropic.claude-sonnet-4-5-20250929-v1:0, base_url: "${url}", api_key: k, context_length: 200000 }\n`
const guardrail =
  "bedrock: { guardrail: { guardrail_identifier: gr-1, guardrail_version: 2, stream_processing_mode: sync } }\n"

const query = ["-q", "hi", "--format", "stream-json"]

describe("bedrock.guardrail", () => {
  it.live("goes with each call of a run, and its intervention ends the run as content_filtered", () =>
    Effect.gen(function* () {
      const server = yield* bedrock
      const { hermes, keep } = yield* machine
      keep("config.yaml", main(server.url) + guardrail)
      const { code, stdout } = yield* hermes(query)
      const asked = server.requests.filter(({ url }) => url.endsWith("/converse-stream"))
      assert.deepStrictEqual(
        asked.map(({ body }) => JSON.parse(body).guardrailConfig),
        [{ guardrailIdentifier: "gr-1", guardrailVersion: "2", streamProcessingMode: "sync" }]
      )
      const last = JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "")
      const error =
        "the provider's content filter ended the answer: rephrase the prompt, or use another model with --model"
      assert.deepInclude(last, { type: "result", text: blocked, error })
      assert.strictEqual(code, 1)
      assert.deepInclude(yield* hermes(["config", "check"]), {
        code: 0,
        stdout: "The settings are valid\n",
        stderr: ""
      })
    })
  )

  it.live(
    "keeps a run from starting where a route would be called without it: as the main one, a fallback, a child's",
    () =>
      Effect.gen(function* () {
        const server = yield* bedrock
        const { hermes, keep } = yield* machine
        const refused = (model: string, provider: string) =>
          `Error: bedrock.guardrail: ${model} (${provider}) would be called without it, only Bedrock applies it; ` +
          "choose provider bedrock, or remove bedrock.guardrail\n"
        const elsewhere = `base_url: "${server.url}/v1", api_key: k`
        const cases: ReadonlyArray<readonly [yaml: string, model: string]> = [
          [`model: { provider: custom, default: main, ${elsewhere} }\n`, "main"],
          [`${main(server.url)}fallback_providers: [{ provider: custom, model: second, ${elsewhere} }]\n`, "second"],
          [`${main(server.url)}delegation: { provider: custom, model: child, ${elsewhere} }\n`, "child"]
        ]
        for (const [yaml, model] of cases) {
          keep("config.yaml", yaml + guardrail)
          assert.deepInclude(yield* hermes(["-Q", "-q", "hi"]), {
            code: 2,
            stdout: "",
            stderr: refused(model, "custom")
          })
        }
        assert.deepStrictEqual(server.requests, [])
      })
  )

  it.live("is asked for whole: a part of it is one line that names what is missing", () =>
    Effect.gen(function* () {
      const server = yield* bedrock
      const { hermes, keep } = yield* machine
      const parts = {
        guardrail_version: "bedrock: { guardrail: { guardrail_identifier: gr-1 } }\n",
        guardrail_identifier: "bedrock: { guardrail: { trace: enabled } }\n"
      }
      for (const [missing, yaml] of Object.entries(parts)) {
        keep("config.yaml", main(server.url) + yaml)
        const stderr = `Error: bedrock.guardrail.${missing}: missing; set it, or remove bedrock.guardrail\n`
        for (const args of [
          ["-Q", "-q", "hi"],
          ["config", "check"]
        ]) {
          assert.deepInclude(yield* hermes(args), { code: 2, stdout: "", stderr })
        }
      }
      assert.deepStrictEqual(server.requests, [])
    })
  )

  it.live("is not got past by a side task on another provider; an embedded run ends as content_filtered", () =>
    Effect.gen(function* () {
      const server = yield* bedrock
      const other = yield* HttpServer.make((_, response) =>
        HttpServer.json(response, 200, { choices: [{ message: { role: "assistant", content: "ALLOW" } }] })
      )
      const settings = yield* Settings.pipe(
        Effect.provide(
          Config.layerFromFile({
            model: {
              provider: "bedrock",
              default: "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
              base_url: server.url,
              api_key: "k"
            },
            bedrock: { guardrail: { guardrail_identifier: "gr-1", guardrail_version: "2" } },
            auxiliary: { approval: { provider: "custom", model: "judge", base_url: `${other.url}/v1`, api_key: "k" } }
          })
        )
      )
      const home = yield* temporaryDirectory
      const program = Runtime.program(settings).pipe(
        Layer.provide(Layer.mergeAll(Home.layerAt(home), Environment.layerIn({}))),
        Layer.provide(NodeServices.layer)
      )
      const sessionId = Ids.SessionId.make("side")
      const taskId = Ids.TaskId.make("side")
      const turnId = yield* Ids.makeTurnId(sessionId, taskId)
      const asked = Effect.gen(function* () {
        const { exit } = yield* Agent.run({ prompt: "hi", streaming: true })
        const auxiliary = yield* Auxiliary
        const refused = yield* Effect.flip(
          auxiliary.call("approval", { messages: [Ask.user("may it?")], context: { sessionId, taskId, turnId } })
        )
        return { exit, refused: refused.message }
      })
      const { exit, refused } = yield* Effect.provide(asked, program)
      assert.strictEqual(exit, "content_filtered")
      assert.match(refused, /bedrock\.guardrail: judge \(custom\) would be called without it/)
      assert.deepStrictEqual(
        other.requests.filter(({ body }) => body.includes("may it?")),
        []
      )
    })
  )
})
