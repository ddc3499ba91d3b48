// Endpoints with their own ways, and addresses that are none, over the loopback through the runtime of the program.
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { ServerResponse } from "node:http"
import * as Agent from "../src/agent/Agent.ts"
import * as ErrorLine from "../src/program/cli/ErrorLine.ts"
import type { RunEvent } from "../src/base/domain/RunEvent.ts"
import * as HttpServer from "./models/provider/HttpServer.ts"
import * as Program from "./support/configuredProgram.ts"

type Body = Readonly<Record<string, unknown>>

const answer = (response: ServerResponse) =>
  HttpServer.json(response, 200, {
    id: "x",
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content: "done" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 1, completion_tokens: 1 }
  })

/** An endpoint that looks at each request; what it returns is the refusal. */
const endpoint = (refuse: (body: Body) => object | undefined) => {
  const bodies: Array<Body> = []
  return Effect.map(
    HttpServer.make(({ body, url }, response) => {
      if (!url.endsWith("/chat/completions")) {
        HttpServer.json(response, 404, { error: { message: "not here" } })
        return
      }
      const parsed = JSON.parse(body) as Body
      bodies.push(parsed)
      const refusal = refuse(parsed)
      if (refusal === undefined) answer(response)
      else HttpServer.json(response, 400, refusal)
    }),
    ({ url }) => ({ url, bodies })
  )
}

const config = (url: string, more = ""): string =>
  `model:\n  provider: custom\n  default: m\n  base_url: ${url}\n  api_key: k\n  max_tokens: 500\n${more}`

const run = (streaming = true) => {
  const events: Array<RunEvent> = []
  const ran = Agent.run({
    prompt: "say done",
    streaming,
    onEvent: (told) => Effect.sync(() => void events.push(...told))
  })
  return Effect.map(Effect.exit(ran), (exit) => ({ exit, events }))
}

const openAi = (param: string, message: string, code = "unsupported_parameter") => ({
  error: { message, type: "invalid_request_error", param, code }
})

/** Refusals in the words of servers, and the parameter that they are about. */
const refusals: ReadonlyArray<readonly [who: string, param: string, refusal: object]> = [
  [
    "OpenAI",
    "max_tokens",
    openAi(
      "max_tokens",
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    )
  ],
  [
    "vLLM",
    "stream_options",
    {
      object: "error",
      message:
        "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are not permitted'}]",
      type: "BadRequestError",
      code: 400
    }
  ],
  [
    "Google",
    "stream_options",
    [
      {
        error: {
          code: 400,
          message: 'Invalid JSON payload received. Unknown name "stream_options": Cannot find field.',
          status: "INVALID_ARGUMENT"
        }
      }
    ]
  ],
  ["a gateway", "stream_options", { error: { message: "Unrecognized request argument supplied: stream_options" } }],
  [
    "LiteLLM",
    "max_tokens",
    {
      error: {
        message: "litellm.UnsupportedParamsError: m does not support parameters: ['max_tokens']",
        type: "None",
        param: null,
        code: "400"
      }
    }
  ]
]

describe("parameters that an endpoint refuses", () => {
  for (const [who, param, refusal] of refusals) {
    it.live(`${who}: ${param} is found out once, and the answer comes`, () =>
      Effect.gen(function* () {
        const server = yield* endpoint((body) => (Object.hasOwn(body, param) ? refusal : undefined))
        const layer = Program.layer({ config: config(`${server.url}/v1`) })
        const [first, second] = yield* Effect.all([run(), run()]).pipe(Effect.provide(layer))
        for (const { exit } of [first, second])
          assert.isTrue(Exit.isSuccess(exit) && exit.value.text === "done", String(exit))
        const sent = server.bodies.map((body) => Object.hasOwn(body, param))
        assert.deepStrictEqual(sent, [true, false, false])
        if (param === "max_tokens")
          assert.deepStrictEqual(
            server.bodies.map((body) => body["max_completion_tokens"]),
            [undefined, 500, 500]
          )
        assert.deepStrictEqual(
          first.events.filter(({ _tag }) => _tag === "Waiting"),
          []
        )
      })
    )
  }

  it.live("several are found out one after the other, and remembered by the next start", () =>
    Effect.gen(function* () {
      const bad = ["max_tokens", "max_completion_tokens", "stream_options"]
      const server = yield* endpoint((body) => {
        const found = bad.find((name) => Object.hasOwn(body, name))
        return found === undefined ? undefined : openAi(found, `Unknown parameter: '${found}'.`, "unknown_parameter")
      })
      const home = yield* Program.home
      const started = () => run().pipe(Effect.provide(Program.layer({ home, config: config(`${server.url}/v1`) })))
      assert.isTrue(Exit.isSuccess((yield* started()).exit))
      assert.strictEqual(server.bodies.length, 4)
      assert.isTrue(Exit.isSuccess((yield* started()).exit))
      assert.strictEqual(server.bodies.length, 5)
    })
  )

  it.live("a refusal that names nothing that was sent is not asked again", () =>
    Effect.gen(function* () {
      const server = yield* endpoint(() => openAi("seed", "Unknown parameter: 'seed'.", "unknown_parameter"))
      const { exit } = yield* run().pipe(Effect.provide(Program.layer({ config: config(`${server.url}/v1`) })))
      assert.isTrue(Exit.isFailure(exit))
      assert.strictEqual(server.bodies.length, 1)
    })
  )
})

describe("addresses that serve no model", () => {
  const page = (status: number) => (response: ServerResponse) =>
    void response
      .writeHead(status, { "content-type": "text/html" })
      .end("<!doctype html><html><title>Welcome</title></html>")
  const cases: Readonly<Record<string, readonly [(response: ServerResponse) => void, RegExp]>> = {
    "a 404 without words": [
      (response) => void response.writeHead(404).end(),
      /^custom returned 404 Not Found; not retrying\. Check model\.base_url\.$/
    ],
    "a 404 with a page": [page(404), /^custom returned 404 Not Found; not retrying\. Check model\.base_url\.$/],
    "a 404 in JSON": [
      (response) => HttpServer.json(response, 404, { detail: "Not Found" }),
      /^custom returned 404 Not Found; not retrying\. Check model\.base_url\.$/
    ],
    "a page": [page(200), /^custom returned an HTML page instead of JSON; not retrying\. Check model\.base_url\.$/],
    "a redirect": [
      (response) => void response.writeHead(302, { location: "/login" }).end(),
      /^custom returned a redirect \(HTTP 302\); not retrying\. Check model\.base_url\.$/
    ]
  }
  for (const [name, [respond, line]] of Object.entries(cases)) {
    for (const streaming of [true, false]) {
      it.live(`${name} fails at once, ${streaming ? "streaming" : "whole"}`, () =>
        Effect.gen(function* () {
          const server = yield* HttpServer.make((_, response) => respond(response))
          const layer = Program.layer({ config: config(`${server.url}/v1`, "  context_length: 100000\n") })
          const { events, exit } = yield* Effect.provide(run(streaming), layer)
          assert.isTrue(Exit.isFailure(exit))
          assert.match(Exit.isFailure(exit) ? ErrorLine.fromError(Cause.squash(exit.cause)).line : "", line)
          assert.strictEqual(server.requests.filter(({ url }) => url.endsWith("/chat/completions")).length, 1)
          assert.deepStrictEqual(
            events.filter(({ _tag }) => _tag === "Waiting"),
            []
          )
        })
      )
    }
  }

  it.live("https to a port of http fails at once, and says so", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((_, response) => answer(response))
      const url = server.url.replace("http://", "https://")
      const { events, exit } = yield* Effect.provide(
        run(),
        Program.layer({ config: config(`${url}/v1`, "  context_length: 100000\n") })
      )
      assert.match(
        Exit.isFailure(exit) ? ErrorLine.fromError(Cause.squash(exit.cause)).line : "",
        /does not speak TLS: use http:\/\//
      )
      assert.deepStrictEqual(
        events.filter(({ _tag }) => _tag === "Waiting"),
        []
      )
    })
  )

  it.live("the next route answers where there is one, without a wait", () =>
    Effect.gen(function* () {
      const wrong = yield* HttpServer.make((_, response) => page(200)(response))
      const right = yield* endpoint(() => undefined)
      const more = `  context_length: 100000\nfallback_providers:\n  - provider: custom\n    model: n\n    base_url: ${right.url}/v1\n    api_key: other\n`
      const { events, exit } = yield* Effect.provide(run(), Program.layer({ config: config(`${wrong.url}/v1`, more) }))
      assert.isTrue(Exit.isSuccess(exit) && exit.value.text === "done", String(exit))
      assert.deepStrictEqual(
        events.filter(({ _tag }) => _tag === "Waiting"),
        []
      )
    })
  )
})

describe("endpoints that say nothing about their models", () => {
  it.live("are asked by the first run beside its call, and by the next ones not at all", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make(({ url }, response) => {
        if (url.endsWith("/chat/completions")) answer(response)
      })
      const home = yield* Program.home
      const started = run().pipe(Effect.provide(Program.layer({ home, config: config(`${server.url}/v1`) })))
      const asked = () => server.requests.filter(({ url }) => !url.endsWith("/chat/completions")).length
      assert.isTrue(Exit.isSuccess((yield* started).exit))
      assert.strictEqual(asked(), 1)
      for (let n = 0; n < 3; n++) assert.isTrue(Exit.isSuccess((yield* started).exit))
      assert.strictEqual(asked(), 1)
      assert.strictEqual(server.requests.length, 5)
    })
  )
})
