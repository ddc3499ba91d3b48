// `node --expose-gc idleSessionRun.ts` prints how many bytes the runtime holds of a session of ten turns in memory that
// waits for its next prompt. The process does nothing else, because other work would be measured too.
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import * as H from "../../src/index.ts"

const turns = 10

const Echo = Tool.make("echo", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })
const toolkit = Toolkit.make(Echo)
const tools = [H.Toolset.make("echo", toolkit, toolkit.toLayer({ echo: ({ text }) => Effect.succeed(text) }))]

interface Body {
  readonly messages: ReadonlyArray<{ readonly role: string }>
}

const answer = ({ messages }: Body): string => {
  const results = messages.filter(({ role }) => role === "tool").length
  const call = {
    id: `call_${results}`,
    type: "function",
    function: { name: "echo", arguments: `{"text":"t${results}"}` }
  }
  const message =
    results < turns ? { role: "assistant", content: null, tool_calls: [call] } : { role: "assistant", content: "done" }
  return JSON.stringify({
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [{ index: 0, message, finish_reason: results < turns ? "tool_calls" : "stop" }],
    usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }
  })
}

/** A model that calls the tool ten times and holds no request. */
const model = Effect.acquireRelease(
  Effect.promise(async () => {
    const server = createServer(async (request, response) => {
      let body = ""
      for await (const chunk of request) body += String(chunk)
      response.setHeader("content-type", "application/json")
      response.end(answer(JSON.parse(body)))
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    return server
  }),
  (server) =>
    Effect.promise(async () => {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    })
)

const collect = (): number => {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}

const openSessions = (count: number) =>
  Effect.forEach(Array.from({ length: count }), () => H.Agent.run({ prompt: "Go." }), { discard: true })

const measureSession = Effect.gen(function* () {
  // The states of the conversations that were used last are retained; their number is bounded.
  yield* openSessions(120)
  const before = collect()
  yield* openSessions(120)
  return (collect() - before) / 120
})

const program = Effect.gen(function* () {
  const server = yield* model
  // A TCP server that listens has an AddressInfo.
  const { port } = server.address() as AddressInfo
  const runtime = H.Runtime.layer({
    provider: H.ChatCompletions.layer({
      provider: "custom",
      model: "m",
      baseUrl: `http://127.0.0.1:${port}/v1`,
      apiKey: Redacted.make("x")
    }),
    tools,
    store: H.SessionStore.layerMemory,
    maxIterations: turns + 1
  })
  return yield* Effect.provide(measureSession, runtime)
}).pipe(Effect.scoped)

process.stdout.write(`${await Effect.runPromise(program)}\n`)
