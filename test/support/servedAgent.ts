// The agent over HTTP in this process, over a model that plays its answers; and clients of it.
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { realpathSync } from "node:fs"
import { join } from "node:path"
import OpenAI from "openai"
import * as AgentServer from "../../src/serve/server/agent/AgentServer.ts"
import type { CommandEnvironment } from "../../src/places/CommandEnvironment.ts"
import type { Platform } from "../../src/base/platform/ChildProcesses.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as ChatCompletions from "../../src/models/provider/ChatCompletions.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import * as ExecuteCode from "../../src/tools/builtin/ExecuteCode.ts"
import * as FileTools from "../../src/tools/builtin/FileTools.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"
import * as Todo from "../../src/tools/builtin/Todo.ts"
import * as playedModel from "./playedModel.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

/**
 * A served agent; `around` changes its runtime, `database` keeps its sessions in a file: of a directory that is given,
 * or of its own.
 */
export const world = Effect.fnUntraced(function* (
  plays: Parameters<typeof playedModel.make>[0],
  options: Partial<AgentServer.Options> = {},
  around: <A, E, R>(runtime: Layer.Layer<A, E, R>) => Layer.Layer<A, E, R> = (runtime) => runtime,
  database: boolean | string = false,
  more: { readonly environment?: Layer.Layer<CommandEnvironment, never, Platform> } = {}
) {
  const played = yield* playedModel.make(plays)
  const cwd = realpathSync(typeof database === "string" ? database : yield* temporaryDirectory)
  const provider = ChatCompletions.layer({ model: "m", baseUrl: `${played.url}/v1`, apiKey: Redacted.make("upstream") })
  const store = database !== false ? { store: SessionStore.layerSqlite({ path: join(cwd, "state.db") }) } : {}
  const context = yield* Layer.build(
    around(
      Runtime.layer({
        provider,
        cwd,
        tools: [FileTools.toolset, TerminalTools.toolset, Todo.toolset, Delegate.toolset, ExecuteCode.toolset],
        ...store,
        ...more
      })
    )
  )
  const { key, url } = yield* Effect.provide(AgentServer.serve({ port: 0, cwd, ...options }), context)
  const apiKey = key === undefined ? "k" : Redacted.value(key)
  /** The header with the key that the server made; a test that chose the keys says itself who asks. */
  const authorized: Record<string, string> =
    key === undefined || options.key !== undefined ? {} : { authorization: `Bearer ${apiKey}` }
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 })
  const fetched = async (path: string, init: RequestInit & { readonly json?: unknown } = {}) => {
    const { json, ...rest } = init
    const headers = {
      ...authorized,
      ...(json === undefined ? {} : { "content-type": "application/json" }),
      ...rest.headers
    }
    const posted = json === undefined ? {} : { method: rest.method ?? "POST", body: JSON.stringify(json) }
    const response = await fetch(`${url}${path}`, { ...rest, ...posted, headers })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text.startsWith("{") ? JSON.parse(text) : text }
  }
  return { ...played, url, key, apiKey, authorized, cwd, client, fetched }
})

/** Plays of a world whose tests ask for nothing in particular. */
export const hello = { "Say hello": [{ text: "Hello." }] } satisfies Parameters<typeof world>[0]

/** A message of the user. */
export const user = (content: string) => ({ role: "user" as const, content })
/** A tool of the caller. */
export const weather = {
  type: "function" as const,
  function: {
    name: "weather",
    description: "The weather",
    parameters: { type: "object", properties: { place: { type: "string" } } }
  }
}

/** Waits for something that is told a moment later. */
export const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 10))
}

/** Reads the events of a session as they come. */
export const readEvents = (url: string, headers: Record<string, string> = {}) => {
  const events: Array<{ readonly id: number; readonly at: string; readonly data: Record<string, unknown> }> = []
  const ending = new AbortController()
  const read = async () => {
    const response = await fetch(url, { headers, signal: ending.signal })
    let text = ""
    for await (const bytes of response.body ?? []) {
      text += Buffer.from(bytes).toString("utf8")
      for (let end = text.indexOf("\n\n"); end !== -1; end = text.indexOf("\n\n")) {
        const [, at, data] = /^id: (\d\S*)\ndata: (.*)$/u.exec(text.slice(0, end)) ?? []
        text = text.slice(end + 2)
        if (at !== undefined && data !== undefined)
          events.push({ id: Number.parseInt(at, 10), at, data: JSON.parse(data) })
      }
    }
  }
  const ended = read().then(
    () => "ended" as const,
    () => "cut" as const
  )
  const types = () => events.map(({ data }) => data["type"])
  return { events, types, ended, stop: () => (ending.abort(), ended) }
}
