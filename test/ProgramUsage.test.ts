// What a run spends in all, over the loopback: by its own calls, its side tasks and its children, also where it fails;
// what the provider says it cost; and which model answered.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { ServerResponse } from "node:http"
import * as Layer from "effect/Layer"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../src/agent/Agent.ts"
import * as OpenRoute from "../src/models/routing/OpenRoute.ts"
import * as RoutedModelRouter from "../src/models/routing/RoutedModelRouter.ts"
import * as SessionStore from "../src/store/SessionStore.ts"
import * as ToolRegistry from "../src/tools/ToolRegistry.ts"
import * as HttpServer from "./models/provider/HttpServer.ts"
import * as S from "./models/routing/support.ts"
import { machine } from "./support/hermesInProcess.ts"

interface Asked {
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }>
  readonly tools?: ReadonlyArray<unknown>
  readonly stream?: boolean
}

interface Said {
  readonly text?: string
  readonly calls?: ReadonlyArray<{ readonly name: string; readonly args: unknown }>
  readonly usage?: object
}

const tokens = { prompt_tokens: 100, completion_tokens: 10 }

const say = (response: ServerResponse, { calls = [], text = "", usage = tokens }: Said, stream: boolean) => {
  const tool_calls = calls.map(({ args, name }, index) => ({
    index,
    id: `c${index}`,
    type: "function",
    function: { name, arguments: JSON.stringify(args) }
  }))
  const finish_reason = calls.length === 0 ? "stop" : "tool_calls"
  const content = { role: "assistant", content: text, ...(calls.length === 0 ? {} : { tool_calls }) }
  if (stream) {
    response
      .writeHead(200, { "content-type": "text/event-stream" })
      .end(
        HttpServer.sse(
          { id: "x", model: "m", choices: [{ index: 0, delta: content, finish_reason }] },
          { id: "x", model: "m", choices: [], usage },
          "[DONE]"
        )
      )
  } else
    HttpServer.json(response, 200, {
      id: "x",
      model: "m",
      choices: [{ index: 0, message: content, finish_reason }],
      usage
    })
}

const model = (answer: (asked: Asked) => Said | "fail") =>
  HttpServer.make(({ body, url }, response) => {
    if (!url.endsWith("/chat/completions")) {
      HttpServer.json(response, 404, { error: { message: "not here" } })
      return
    }
    const asked = JSON.parse(body) as Asked
    const said = answer(asked)
    if (said === "fail") HttpServer.json(response, 401, { error: { message: "no" } })
    else say(response, said, asked.stream === true)
  })

type Line = Readonly<Record<string, unknown>> & { readonly type: string }

const linesOf = (stdout: string): ReadonlyArray<Line> =>
  stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Line)

const totalOf = (lines: ReadonlyArray<Line>): unknown =>
  (lines.at(-1)?.["tokens"] as { readonly total?: number } | undefined)?.total

const config = (url: string, more = "") =>
  `model:\n  provider: custom\n  default: m\n  base_url: ${url}/v1\n  api_key: k\n  context_length: 100000\n${more}`

const hasResult = ({ messages }: Asked): boolean => messages.some(({ role }) => role === "tool")
const isJudge = ({ messages }: Asked): boolean => JSON.stringify(messages[0]).includes("You guard a user's computer")
const isChild = ({ messages }: Asked): boolean => JSON.stringify(messages).includes("look around")

/** Tokens of the sessions that are listed, the newest first. */
const sessionsOf = (stdout: string): ReadonlyArray<number> =>
  (JSON.parse(stdout) as ReadonlyArray<{ readonly usage: { readonly total_tokens: number } }>).map(
    ({ usage }) => usage.total_tokens
  )

describe("what a run spends", () => {
  for (const failing of [false, true]) {
    it.live(
      `a judge of commands is asked in a single query, and its tokens are the run's${failing ? ", also when the run fails" : ""}`,
      () =>
        Effect.gen(function* () {
          const { cwd, hermes, keep } = yield* machine
          let judged = 0
          const server = yield* model((asked) => {
            if (isJudge(asked)) {
              judged++
              return { text: "APPROVE" }
            }
            if (hasResult(asked)) return failing ? "fail" : { text: "done" }
            return { calls: [{ name: "terminal", args: { command: "rm -r ./scratch" } }] }
          })
          keep("config.yaml", config(server.url, "approvals:\n  mode: smart\n"))
          writeFileSync(join(cwd, "scratch"), "x")
          const { code, stdout } = yield* hermes(["-q", "tidy up", "--format", "stream-json"])
          const lines = linesOf(stdout)
          assert.strictEqual(judged, 1)
          assert.strictEqual(lines.find(({ type }) => type === "tool_result")?.["is_error"], false)
          assert.strictEqual(code, failing ? 1 : 0)
          assert.strictEqual(totalOf(lines), failing ? 220 : 330)
          const shown = yield* hermes(["sessions", "list", "--json"])
          assert.deepStrictEqual(sessionsOf(shown.stdout), [failing ? 220 : 330])
        })
    )
  }

  for (const ending of ["fails", "is interrupted"] as const) {
    it.live(`the tokens of children are the run's and its session's, also when the run ${ending} after them`, () =>
      Effect.gen(function* () {
        const { hermes, keep, start } = yield* machine
        let isLate = false
        const server = yield* HttpServer.make(({ body, url }, response) => {
          if (!url.endsWith("/chat/completions"))
            return void HttpServer.json(response, 404, { error: { message: "not here" } })
          const asked = JSON.parse(body) as Asked
          if (isChild(asked) && !hasResult(asked) && JSON.stringify(asked.messages).includes("Working directory")) {
            return say(response, { text: "seen" }, asked.stream === true)
          }
          if (!hasResult(asked))
            return say(
              response,
              { calls: [{ name: "delegate_task", args: { goal: "look around" } }] },
              asked.stream === true
            )
          if (ending === "fails") return void HttpServer.json(response, 401, { error: { message: "no" } })
          // No answer: the run waits until it is interrupted.
          isLate = true
        })
        keep("config.yaml", config(server.url))
        const { code, stdout } = yield* (ending === "fails" ? hermes : start)(
          ["-q", "begin", "--format", "stream-json"],
          {
            onStart: (child) => {
              const look = setInterval(() => {
                if (!isLate) return
                clearInterval(look)
                child.kill("SIGINT")
              }, 20)
              child.once("exit", () => clearInterval(look))
            }
          }
        )
        assert.strictEqual(code, ending === "fails" ? 1 : 130)
        assert.strictEqual(totalOf(linesOf(stdout)), 220)
        const listed = yield* hermes(["sessions", "list", "--json"])
        assert.deepStrictEqual(sessionsOf(listed.stdout), [220], listed.stdout)
      })
    )
  }
})

describe("who answered", () => {
  it.live("stream-json names every fallback, and the model that answered", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      const wrong = yield* model(() => "fail")
      const also = yield* model(() => "fail")
      const right = yield* model(() => ({ text: "done" }))
      const fallback = (name: string, { url }: { readonly url: string }) =>
        `  - provider: custom\n    model: ${name}\n    base_url: ${url}/v1\n    api_key: k\n`
      keep("config.yaml", config(wrong.url, `fallback_providers:\n${fallback("n", also)}${fallback("o", right)}`))
      const { stdout } = yield* hermes(["-q", "begin", "--format", "stream-json"])
      const lines = linesOf(stdout)
      const place = (model: string) => ({ provider: "custom", model })
      assert.deepStrictEqual(
        lines.flatMap(({ from, reason, to, type }) => (type === "fallback" ? [{ from, to, reason }] : [])),
        [
          { from: place("m"), to: place("n"), reason: "auth" },
          { from: place("n"), to: place("o"), reason: "auth" }
        ]
      )
      assert.deepInclude(lines.at(-1), { type: "result", provider: "custom", model: "o", exit_code: 0 })
    })
  )
})

describe("what OpenRouter says a call cost", () => {
  const costOf = (provider: string, streaming: boolean) =>
    Effect.gen(function* () {
      const usage = { ...tokens, cost: 0.0125, cost_details: { upstream_inference_cost: null } }
      const server = yield* model(() => ({ text: "done", usage }))
      // Its catalogue has the bundled tables alone: nobody else is asked.
      const router = RoutedModelRouter.layer({
        chain: [{ route: S.route(provider, "m", `${server.url}/v1`) }],
        open: OpenRoute.open
      })
      const layer = Agent.layer({ cwd: "/tmp" }).pipe(
        Layer.provideMerge(Layer.mergeAll(router, SessionStore.layerMemory, ToolRegistry.layer([])))
      )
      const { cost } = yield* Effect.provide(Agent.run({ prompt: "begin", streaming }), layer)
      return cost
    })
  for (const streaming of [true, false]) {
    it.live(`is what it cost, ${streaming ? "streaming" : "whole"}`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* costOf("openrouter", streaming), {
          usd: 0.0125,
          status: "actual",
          source: "provider_usage"
        })
        assert.deepInclude(
          yield* costOf("custom", streaming),
          { status: "unknown" },
          "another's word for cost is not taken for dollars"
        )
      })
    )
  }
})
