// Runners of a cluster as processes, a machine that submits to them, and a model for all of them.
import * as Effect from "effect/Effect"
import type { ChildProcess } from "node:child_process"
import type { ServerResponse } from "node:http"
import * as HttpServer from "../models/provider/HttpServer.ts"
import * as Processes from "./hermes.ts"
import * as Inference from "./inferenceServer.ts"
import type { Server } from "./postgresServer.ts"
import { eventually, readUntil } from "./waiting.ts"

type Fields = Readonly<Record<string, unknown>>

/** Sends the answer of a chat completion, with 10 tokens. */
export const answerText = (response: ServerResponse, content: string, calls: ReadonlyArray<unknown> = []): void => {
  HttpServer.json(response, 200, {
    id: "1",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content, ...(calls.length === 0 ? {} : { tool_calls: calls }) },
        finish_reason: calls.length === 0 ? "stop" : "tool_calls"
      }
    ],
    usage: { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 }
  })
}

/** Prompts of the user in a request. */
export const promptsOf = (body: Fields): ReadonlyArray<string> =>
  (Array.isArray(body["messages"]) ? body["messages"] : []).flatMap(
    ({ content, role }: { readonly content?: unknown; readonly role?: string }) =>
      role === "user" && typeof content === "string" ? [content] : []
  )

/**
 * A cluster in the schema `name`. `respond` answers the requests of its model; a request without an answer stays open.
 * A false result of `respond` leaves the answer, with token ids, to `answer`. `client` submits, and `startRunner` starts a runner in a home directory of its own and waits until it is a member.
 */
export const make = Effect.fnUntraced(function* (
  server: Server,
  name: string,
  respond: (body: Fields, response: ServerResponse) => unknown,
  answer: Inference.Options["answer"] = () => undefined
) {
  const env = { HERMES_CLUSTER__DATABASE_URL: server.url(name) }
  const model = yield* Inference.make({ answer, before: (body, response) => respond(body, response) !== false })
  const settings = (key: string | undefined) =>
    JSON.stringify({
      model: { provider: "lab", default: "m", streaming: false },
      custom_providers: [{ name: "lab", base_url: model.url, ...(key === undefined ? {} : { api_key: key }) }]
    })
  const client = yield* Processes.machine
  client.keep("config.yaml", settings(undefined))
  const countMembers = Effect.sync(() =>
    server.query(`SELECT count(*) FROM pg_tables WHERE schemaname = '${name}' AND tablename = 'members'`) === "1"
      ? Number(server.query(`SELECT count(*) FROM ${name}.members`))
      : 0
  )
  let members = 0
  const startRunner = Effect.fnUntraced(function* (concurrency = 2) {
    const machine = yield* Processes.machine
    machine.keep("config.yaml", settings("sk-runner-0f1e2d3c4b5a69788796"))
    let child: ChildProcess | undefined
    let stderr = ""
    yield* Effect.forkScoped(
      machine.hermes(["cluster", "runner", "--concurrency", String(concurrency)], {
        env,
        onStart: (started) => (child = started),
        onError: (text) => (stderr = text)
      })
    )
    const wanted = ++members
    yield* readUntil("a runner joins", countMembers, (count) => count >= wanted)
    return { kill: () => child?.kill("SIGKILL"), stderr: () => stderr, machine }
  })
  const run = (args: ReadonlyArray<string>, options: Partial<Processes.Options> = {}) =>
    client.hermes(args, { env, ...options })
  const start = (args: ReadonlyArray<string>) => {
    let child: ChildProcess | undefined
    return Effect.map(Effect.forkScoped(run(args, { onStart: (started) => (child = started) })), (ended) => ({
      ended,
      kill: () => child?.kill("SIGKILL")
    }))
  }
  return { client, env, model, run, start, startRunner }
})

/** Waits until a condition holds. */
export const until = (condition: () => boolean): Effect.Effect<void> =>
  eventually("the condition of a test", Effect.sync(condition))
