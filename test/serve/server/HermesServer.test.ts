// The rollout server, driven by the official client of OpenAI and by clients that do not keep to anything.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { request as httpRequest } from "node:http"
import OpenAI from "openai"
import { Hooks } from "../../../src/index.ts"
import * as ChatCompletions from "../../../src/models/provider/ChatCompletions.ts"
import * as ModelRouter from "../../../src/models/routing/ModelRouter.ts"
import * as Episodes from "../../../src/research/rollout/Episodes.ts"
import * as EpisodeStore from "../../../src/research/rollout/EpisodeStore.ts"
import * as RolloutModel from "../../../src/research/rollout/RolloutModel.ts"
import * as HermesServer from "../../../src/serve/server/HermesServer.ts"
import * as inferenceServer from "../../support/inferenceServer.ts"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"

/** An answer of any endpoint. */
interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly body: {
    readonly error: { readonly code: string; readonly message: string }
    readonly data: ReadonlyArray<{ readonly rollout_id: string }>
    readonly paths: object
    readonly status: string
    readonly calls: number
    readonly interrupted_calls: number
    readonly nodes: number
    readonly not_trainable: string | null
    readonly model: string
    readonly tokens: ReadonlyArray<number>
    readonly masks: ReadonlyArray<number>
    readonly inference_logprobs: ReadonlyArray<number>
    readonly generation_params: object
    readonly overrides: object
    readonly choices: ReadonlyArray<{ readonly message: { readonly content: string } }>
  }
}

interface World {
  readonly url: string
  readonly authorized: Record<string, string>
  readonly client: OpenAI
  readonly bodies: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly headers: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly post: (path: string, body: unknown, headers?: Record<string, string>) => Promise<Reply>
  readonly get: (path: string, headers?: Record<string, string>) => Promise<Reply>
}

const world = Effect.fnUntraced(function* (
  model: inferenceServer.Options,
  options: Partial<HermesServer.Options> & { readonly rollouts?: RolloutModel.Options } = {}
) {
  const { bodies, headers, url: upstream } = yield* inferenceServer.make(model)
  const provider = ChatCompletions.layer({ model: "m", baseUrl: upstream, apiKey: Redacted.make("upstream-key") })
  const context = yield* Layer.build(
    RolloutModel.layer(options.rollouts).pipe(
      Layer.provide(Episodes.layer),
      Layer.provide([
        EpisodeStore.layerMemory,
        ModelRouter.layerWith({ retry: RetryPolicy.none }).pipe(Layer.provide(provider)),
        Hooks.layer([])
      ])
    )
  )
  const { rollouts: _, ...own } = options
  const { key, url } = yield* Effect.provide(HermesServer.serve({ port: 0, ...own }), context)
  const read = async (response: Response) => {
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text.startsWith("{") ? JSON.parse(text) : text }
  }
  const apiKey = key === undefined ? "k" : Redacted.value(key)
  // A test that chose the key says itself who asks.
  const authorized: Record<string, string> = options.key === undefined ? { authorization: `Bearer ${apiKey}` } : {}
  const made: World = {
    url,
    authorized,
    client: new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 }),
    bodies,
    headers,
    post: async (path, body, more = {}) =>
      read(
        await fetch(`${url}${path}`, {
          method: "POST",
          body: typeof body === "string" ? body : JSON.stringify(body),
          headers: { ...authorized, "content-type": "application/json", ...more }
        })
      ),
    get: async (path, more = {}) => read(await fetch(`${url}${path}`, { headers: { ...authorized, ...more } }))
  }
  return made
})

const user = (content: string) => ({ role: "user" as const, content })
const tools = [
  {
    type: "function" as const,
    function: { name: "add", parameters: { type: "object", properties: { a: { type: "integer" } } } }
  }
]

describe("HermesServer", () => {
  it.live(
    "an agent of somebody else rolls out over two calls with a tool, and a trainer takes exact tokens, masks and log probabilities",
    () =>
      Effect.gen(function* () {
        const { bodies, client, get, headers, post } = yield* world({
          answer: (_, index) => (index === 0 ? { calls: [{ name: "add", args: { a: 1 } }] } : { content: "done" })
        })
        yield* Effect.promise(async () => {
          const opened = await post("/v1/rollouts", {
            rollout_id: "r",
            group_id: "g",
            sampling: { temperature: 0.7, seed: 5 },
            weights_version: "step-3"
          })
          assert.deepStrictEqual([opened.status, opened.body.status, opened.body.model], [201, "open", "m"])
          const own = new OpenAI({
            baseURL: client.baseURL,
            apiKey: client.apiKey,
            maxRetries: 0,
            defaultHeaders: { "x-hermes-rollout-id": "r" }
          })
          const first = await own.chat.completions.create({
            model: "whatever",
            messages: [user("hi")],
            tools,
            temperature: 0
          })
          const [choice] = first.choices
          const message = choice?.message ?? assert.fail("no message")
          assert.strictEqual(choice?.finish_reason, "tool_calls")
          assert.deepInclude(message.tool_calls?.[0], { id: "call_0_0" })
          assert.isAbove(first.usage?.total_tokens ?? 0, 0)
          assert.notInclude(JSON.stringify(first), "token_ids")
          const second = await own.chat.completions.create({
            model: "whatever",
            messages: [user("hi"), message, { role: "tool", tool_call_id: "call_0_0", content: "2" }],
            tools
          })
          assert.strictEqual(second.choices[0]?.message.content, "done")
          await post("/v1/rollouts/r/finish", { reward: 1, components: { correct: 1 } })
          const { body: episode } = await get("/v1/rollouts/r/export")
          assert.strictEqual(episode.tokens.length, episode.masks.length)
          assert.strictEqual(episode.tokens.length, episode.inference_logprobs.length)
          const trained = episode.masks.filter((mask) => mask !== -100)
          assert.strictEqual(String.fromCodePoint(...trained.filter((token) => token < 1000)), '<add:{"a":1}>done')
          assert.deepStrictEqual(episode.generation_params, { temperature: 0.7, seed: 5 })
          assert.deepInclude(episode.overrides, {
            weights_version: "step-3",
            nodes: 1,
            reward_components: { correct: 1 }
          })
        })
        assert.deepInclude(bodies[0], {
          model: "m",
          temperature: 0.7,
          seed: 5,
          stream: false,
          logprobs: true,
          return_token_ids: true,
          tools
        })
        assert.strictEqual(headers[0]?.["authorization"], "Bearer upstream-key")
      })
  )

  it.live(
    "a stream has the same answer in chunks, and a request without a rollout opens one that its answer names",
    () =>
      Effect.gen(function* () {
        const { client, get, post } = yield* world({
          answer: () => ({ content: "Hello there", calls: [{ name: "add", args: { a: 2 } }] })
        })
        yield* Effect.promise(async () => {
          const { data: stream, response } = await client.chat.completions
            .create({ model: "m", messages: [user("hi")], stream: true, stream_options: { include_usage: true } })
            .withResponse()
          let text = ""
          let call = ""
          let usage = 0
          let finish: string | null = null
          for await (const chunk of stream) {
            const [choice] = chunk.choices
            text += choice?.delta.content ?? ""
            call +=
              choice?.delta.tool_calls?.map((one) => `${one.function?.name}${one.function?.arguments}`).join("") ?? ""
            finish = choice?.finish_reason ?? finish
            usage = chunk.usage?.total_tokens ?? usage
          }
          assert.deepStrictEqual([text, call, finish], ["Hello there", 'add{"a":2}', "tool_calls"])
          assert.isAbove(usage, 0)
          const id = response.headers.get("x-hermes-rollout-id")
          const { body } = await get(`/v1/rollouts/${id}`)
          assert.deepInclude(body, { status: "open", calls: 1, nodes: 1, not_trainable: null })
          const { headers } = await post("/v1/chat/completions", { messages: [user("hi")] })
          assert.match(headers.get("x-hermes-rollout-id") ?? "", /^rollout_/)
          assert.lengthOf((await get("/v1/rollouts")).body.data, 2)
          const [first] = (await get("/v1/rollouts?limit=1")).body.data
          assert.lengthOf((await get(`/v1/rollouts?after=${first?.rollout_id}`)).body.data, 1)
          assert.strictEqual((await get("/v1/rollouts?limit=0")).body.error.code, "invalid_request")
          const models = await client.models.list()
          assert.deepStrictEqual(
            models.data.map(({ id: name }) => name),
            ["m"]
          )
          const based = new OpenAI({ baseURL: `${client.baseURL}/rollouts/${id}`, apiKey: client.apiKey })
          assert.strictEqual((await based.models.list()).data[0]?.id, "m")
        })
      })
  )

  it.live(
    "bodies, names, keys and rollouts that are wrong get an error in the form of OpenAI's, and nothing reaches the model",
    () =>
      Effect.gen(function* () {
        const { bodies, get, post, url } = yield* world(
          { answer: () => ({ content: "x" }) },
          { key: Redacted.make("a-long-secret"), maxBody: 2_000 }
        )
        const auth = { authorization: "Bearer a-long-secret" }
        const chat = "/v1/chat/completions"
        yield* Effect.promise(async () => {
          const refused = async (work: Promise<Reply>) => {
            const { body, status } = await work
            assert.hasAllKeys(body.error, ["message", "type", "code", "param"])
            return [status, body.error.code]
          }
          assert.deepStrictEqual(await refused(post(chat, "no json", auth)), [400, "invalid_json"])
          assert.deepStrictEqual(await refused(post(chat, "[1]", auth)), [400, "invalid_json"])
          assert.deepStrictEqual(await refused(post(chat, {}, auth)), [400, "invalid_request"])
          assert.deepStrictEqual(await refused(post(chat, { messages: [{ content: "x" }] }, auth)), [
            400,
            "invalid_request"
          ])
          assert.deepStrictEqual(await refused(post(chat, { messages: [user("x")], n: 2 }, auth)), [
            400,
            "invalid_request"
          ])
          assert.deepStrictEqual(await refused(post(chat, { messages: [user("x".repeat(3_000))] }, auth)), [
            413,
            "body_too_large"
          ])
          assert.deepStrictEqual(await refused(post(chat, "{}", { ...auth, "content-type": "text/plain" })), [
            415,
            "unsupported_media_type"
          ])
          assert.deepStrictEqual(
            await refused(post(chat, { messages: [user("x")] }, { ...auth, "x-hermes-rollout-id": "nope" })),
            [404, "unknown_rollout"]
          )
          assert.deepStrictEqual(
            await refused(post("/v1/rollouts/nope/chat/completions", { messages: [user("x")], stream: true }, auth)),
            [404, "unknown_rollout"]
          )
          assert.deepStrictEqual(await refused(post("/v1/rollouts", { rollout_id: "../etc" }, auth)), [
            400,
            "invalid_request"
          ])
          assert.deepStrictEqual(await refused(post("/v1/rollouts", { colour: "red" }, auth)), [400, "invalid_request"])
          assert.deepStrictEqual(await refused(get("/nowhere", auth)), [404, "not_found"])
          assert.deepStrictEqual(await refused(post(chat, { messages: [user("x")] })), [401, "invalid_api_key"])
          assert.deepStrictEqual(
            await refused(post(chat, { messages: [user("x")] }, { authorization: "Bearer a-long-secreT" })),
            [401, "invalid_api_key"]
          )
          assert.deepStrictEqual(await refused(get("/v1/rollouts", { ...auth, origin: "https://evil.example" })), [
            403,
            "forbidden_origin"
          ])
          assert.strictEqual((await get("/health")).status, 200)
          const foreign = await new Promise<number>((resolve) =>
            httpRequest(`${url}/health`, { headers: { host: "evil.example" } }, (response) => {
              response.resume()
              resolve(response.statusCode ?? 0)
            }).end()
          )
          assert.strictEqual(foreign, 403)
          await post("/v1/rollouts", { rollout_id: "r" }, auth)
          assert.deepStrictEqual(await refused(post("/v1/rollouts", { rollout_id: "r" }, auth)), [
            409,
            "rollout_exists"
          ])
          assert.deepStrictEqual(await refused(get("/v1/rollouts/r/export", auth)), [422, "not_trainable"])
          const description = (await get("/openapi.json", auth)).body
          assert.containsAllKeys(description.paths, ["/v1/chat/completions", "/v1/rollouts/{id}/export"])
        })
        assert.lengthOf(bodies, 0)
      })
  )

  it.live(
    "two requests at once in one rollout: the second is refused; a client that hangs up is marked, and the server goes on",
    () =>
      Effect.gen(function* () {
        const asked = yield* Deferred.make<void>()
        const gone = yield* Deferred.make<void>()
        const services = yield* Effect.context<never>()
        const { authorized, get, post, url } = yield* world({
          answer: (_, index) => (index === 0 ? undefined : { content: "again" }),
          before: (_, response) => {
            response.on("close", () => Effect.runForkWith(services)(Deferred.succeed(gone, undefined)))
            Effect.runForkWith(services)(Deferred.succeed(asked, undefined))
            return false
          }
        })
        const chat = "/v1/rollouts/r/chat/completions"
        yield* Effect.promise(() => post("/v1/rollouts", { rollout_id: "r" }))
        const abort = new AbortController()
        const hanging = fetch(`${url}${chat}`, {
          method: "POST",
          headers: { ...authorized, "content-type": "application/json" },
          body: JSON.stringify({ messages: [user("hi")], stream: true }),
          signal: abort.signal
        }).then(
          () => "answered",
          () => "gone"
        )
        yield* Deferred.await(asked)
        yield* Effect.promise(async () => {
          const second = await post(chat, { messages: [user("hi")] })
          assert.deepStrictEqual(
            [second.status, second.body.error.code, second.headers.get("x-should-retry")],
            [409, "rollout_busy", "true"]
          )
          assert.strictEqual((await get("/v1/rollouts/r")).body.status, "busy")
          abort.abort()
          assert.strictEqual(await hanging, "gone")
        })
        // The request to the model is cut with its client.
        yield* Deferred.await(gone)
        yield* Effect.promise(async () => {
          const third = await post(chat, { messages: [user("hi")] })
          assert.strictEqual(third.body.choices[0]?.message.content, "again")
          assert.deepInclude((await get("/v1/rollouts/r")).body, {
            status: "open",
            calls: 2,
            interrupted_calls: 1,
            nodes: 1
          })
        })
      })
  )

  it.live(
    "a provider without token ids: answers come, the export says why it cannot train, and what failed upstream is a gateway's error",
    () =>
      Effect.gen(function* () {
        const { get, post } = yield* world({
          withoutIds: true,
          answer: () => ({ content: "x" }),
          before: (body, response) => {
            const isBad = JSON.stringify(body["messages"]).includes("bad")
            if (isBad)
              response
                .writeHead(400, { "content-type": "application/json" })
                .end(JSON.stringify({ error: { message: "the template refuses this role" } }))
            return isBad
          }
        })
        yield* Effect.promise(async () => {
          await post("/v1/rollouts", { rollout_id: "r" })
          await post("/v1/rollouts/r/chat/completions", { messages: [user("hi")] })
          await post("/v1/rollouts/r/finish", { reward: 1 })
          const { body, status } = await get("/v1/rollouts/r/export")
          assert.strictEqual(status, 422)
          assert.include(
            body.error.message,
            "returned no token ids of the prompt (call 1): it can be used for evaluation and supervised fine-tuning"
          )
          const failed = await post("/v1/chat/completions", { messages: [user("bad")] })
          assert.deepStrictEqual([failed.status, failed.body.error.code], [400, "model_failed"])
          assert.include(failed.body.error.message, "the template refuses this role")
        })
      })
  )

  it.live("raw text of a model is handed back as calls, by the parser that the server was given", () =>
    Effect.gen(function* () {
      const text = "Ok.\n<tool_call>\n<function=add>\n<parameter=a>\n3\n</parameter>\n</function>\n</tool_call>"
      const { client } = yield* world(
        { answer: () => ({ content: text }) },
        { rollouts: { defaults: { tool_call_parser: "qwen3_coder" } } }
      )
      yield* Effect.promise(async () => {
        const { choices } = await client.chat.completions.create({ model: "m", messages: [user("hi")], tools })
        assert.deepNestedInclude(choices[0], { "message.content": "Ok.", finish_reason: "tool_calls" })
        assert.deepNestedInclude(choices[0]?.message.tool_calls?.[0], {
          "function.name": "add",
          "function.arguments": '{"a":3}'
        })
      })
    })
  )

  it.live("elsewhere than on the loopback it wants a key; when it ends, requests under way are answered", () =>
    Effect.gen(function* () {
      const refused = yield* Effect.flip(world({ answer: () => ({ content: "x" }) }, { host: "0.0.0.0" }))
      assert.strictEqual(
        refused,
        "listening on 0.0.0.0 needs a key: set HERMES_SERVER_KEY to a long random text, or leave out --host"
      )
      const asked = yield* Deferred.make<void>()
      const services = yield* Effect.context<never>()
      const scope = yield* Scope.make()
      let answer = () => {}
      const { post } = yield* Scope.provide(
        world({
          answer: () => ({ content: "x" }),
          before: (_, response) => {
            answer = () =>
              void response
                .writeHead(200, { "content-type": "application/json" })
                .end(
                  JSON.stringify({
                    choices: [{ message: { role: "assistant", content: "last" }, finish_reason: "stop" }]
                  })
                )
            Effect.runForkWith(services)(Deferred.succeed(asked, undefined))
            return true
          }
        }),
        scope
      )
      const pending = post("/v1/chat/completions", { messages: [user("hi")] })
      yield* Deferred.await(asked)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      answer()
      const { body } = yield* Effect.promise(() => pending)
      assert.strictEqual(body.choices[0]?.message.content, "last")
      yield* Fiber.join(closing)
    })
  )
})
