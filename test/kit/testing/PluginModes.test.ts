// A redactor as a plugin on disk: in all modes of the published rules, and in the commands of the program.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { join } from "node:path"
import { globSync, readFileSync, statSync } from "node:fs"
import * as Conformance from "../../../src/kit/testing/Conformance.ts"
import * as ModeRules from "../../../src/kit/testing/ModeRules.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermesInProcess.ts"

const redactor = `const clean = (part) =>
  part.type === "text_delta" ? { ...part, delta: part.delta.replaceAll("SECRET", "[x]") } : part

export const register = (ctx) => {
  ctx.registerMiddleware(
    "llm_execution",
    ({ next_call }) => next_call(undefined, { on_part: (parts) => parts.map(clean) }),
    { onFailure: "closed" }
  )
}
`

/** A model that says the secret, streamed or whole. */
const serveSecret = HttpServer.make(({ body, url }, response) => {
  if (!url.endsWith("/chat/completions")) return HttpServer.json(response, 404, {})
  const common = { id: "c", model: "m" }
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  if (JSON.parse(body).stream !== true)
    return HttpServer.json(response, 200, {
      ...common,
      object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", content: "It is SECRET." }, finish_reason: "stop" }],
      usage
    })
  response.writeHead(200, { "content-type": "text/event-stream" })
  const send = (delta: object, finish: string | null) =>
    response.write(
      `data: ${JSON.stringify({ ...common, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
    )
  send({ role: "assistant", content: "It is " }, null)
  send({ content: "SECRET." }, null)
  send({}, "stop")
  response.end("data: [DONE]\n\n")
})

/** The files below a folder that contain a text; databases are read as bytes, which contain their texts. */
const filesWith = (folder: string, text: string): ReadonlyArray<string> =>
  globSync("**/*", { cwd: folder }).filter((path) => {
    const file = join(folder, path)
    return statSync(file).isFile() && readFileSync(file).includes(text)
  })

const commands: ReadonlyArray<readonly [string, ReadonlyArray<string>]> = [
  ["chat", ["chat", "-q", "Say it."]],
  ["-Q", ["chat", "-Q", "-q", "Say it."]],
  ["batch", ["batch", "run", "--dataset_file", "rows.jsonl", "--batch_size", "1", "--run_name", "r"]],
  ["eval", ["eval", "run", "rows.jsonl", "--scorer", "number", "--name", "e"]]
]

describe("a redactor as a plugin on disk", () => {
  it.live("keeps the rules in all modes", () =>
    Effect.gen(function* () {
      const { home, keep } = yield* machine
      keep("plugins/redactor/plugin.yaml", "name: redactor\n")
      keep("plugins/redactor/index.js", redactor)
      const subject = Layer.effect(
        ModeRules.Subject,
        Effect.map(ModeRules.readPluginMiddleware(join(home, "plugins/redactor")), (middleware) => ({
          runtime: (parts: ModeRules.ModeParts) => Runtime.layer({ ...parts, middleware })
        }))
      )
      const results = yield* Conformance.runRules(ModeRules.rules, subject)
      assert.deepStrictEqual(
        results.flatMap(({ broken }) => (broken === undefined ? [] : [broken.message])),
        []
      )
    })
  )

  it.live("a folder without a plugin is an error that names it", () =>
    Effect.gen(function* () {
      const { cwd } = yield* machine
      const { message } = yield* Effect.flip(ModeRules.readPluginMiddleware(cwd))
      assert.include(message, cwd)
    })
  )

  for (const streaming of [true, false])
    it.live.each(commands)(`masks in the program${streaming ? "" : " without streaming"}: %s`, ([, args]) =>
      Effect.gen(function* () {
        const { cwd, hermes, home, keep, put } = yield* machine
        const { url } = yield* serveSecret
        const model = `{ provider: custom, default: m, base_url: ${url}/v1, api_key: k, streaming: ${streaming} }`
        put("rows.jsonl", '{"prompt":"Say it.","answer":"1"}\n')
        keep("plugins/redactor/plugin.yaml", "name: redactor\n")
        keep("config.yaml", `model: ${model}\nplugins: { enabled: [redactor] }\n`)
        keep("plugins/redactor/index.js", redactor)
        const { code, stderr, stdout } = yield* hermes(args)
        assert.strictEqual(code, 0, stderr)
        assert.notInclude(stdout + stderr, "SECRET")
        assert.deepStrictEqual(filesWith(cwd, "SECRET"), [])
        assert.deepStrictEqual(filesWith(home, "SECRET"), [join("plugins", "redactor", "index.js")])
        // The masked answer is there, so that the search looked at the right places.
        assert.isNotEmpty([...filesWith(cwd, "It is [x]"), ...filesWith(home, "It is [x]")])
      })
    )
})
