// The studio of a home directory as its user starts it, a server in a process of its own, asked by a browser's means;
// sessions for it, made by the program with a model behind HTTP.
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { dirname } from "node:path"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { program, sessionIdOf, standInWhereUnset } from "../../support/hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"

/** A value that was read: tests say of what form it is. */
export type Json = ReturnType<typeof JSON.parse>

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly bytes: Uint8Array
  readonly text: string
  readonly json: Json
}

/** A server-sent event with its data read. */
export interface Event {
  readonly event: string
  readonly id: string | undefined
  readonly data: Json
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Starts `hermes trace serve` and stops it by Ctrl+C at the end of the test. */
export const start = (home: string, cwd: string, args: ReadonlyArray<string> = []) =>
  Effect.gen(function* () {
    const server = yield* Effect.acquireRelease(
      Effect.promise(
        () =>
          new Promise<{
            readonly url: string
            readonly pid: number
            readonly stop: () => Promise<{
              readonly code: number | null
              readonly stderr: string
              readonly stdout: string
            }>
          }>((resolve, reject) => {
            const child = spawn(process.execPath, [program, "trace", "serve", ...args], {
              cwd,
              env: {
                PATH: process.env["PATH"],
                HOME: dirname(home),
                HERMES_HOME: home,
                TERM: "dumb",
                ...standInWhereUnset([], { home })
              },
              stdio: ["ignore", "pipe", "pipe"]
            })
            let [stdout, stderr] = ["", ""]
            const ended = new Promise<{
              readonly code: number | null
              readonly stderr: string
              readonly stdout: string
            }>((done) => child.once("close", (code) => done({ code, stderr, stdout })))
            const stop = () => {
              child.kill("SIGINT")
              return ended
            }
            child.stderr.setEncoding("utf8").on("data", (text: string) => void (stderr += text))
            child.stdout.setEncoding("utf8").on("data", (text: string) => {
              stdout += text
              const url = /http:\S+/.exec(stdout)?.[0]
              if (url !== undefined && stdout.includes("\n")) resolve({ url, pid: child.pid ?? 0, stop })
            })
            void ended.then(({ code }) => reject(new Error(`ended with ${code}: ${stderr}`)))
          })
      ),
      ({ stop }) => Effect.promise(stop)
    )
    const { origin } = new URL(server.url)
    const first = yield* Effect.promise(() => fetch(server.url, { redirect: "manual" }))
    const cookie = (first.headers.get("set-cookie") ?? "").split(";")[0] ?? ""
    const ask = (path: string, init: RequestInit = {}) =>
      Effect.promise(async (): Promise<Answer> => {
        const response = await fetch(`${origin}${path}`, { ...init, headers: { cookie, ...init.headers } })
        const bytes = new Uint8Array(await response.arrayBuffer())
        const text = new TextDecoder().decode(bytes)
        return { status: response.status, headers: response.headers, bytes, text, json: parsed(text) }
      })
    const post = (path: string, body: unknown) =>
      ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })
    /** Reads events until one is the last; gives all of them. */
    const events = (
      path: string,
      isLast: (event: Event) => boolean,
      headers: Record<string, string> = {},
      onOpen = () => {}
    ) =>
      Effect.promise(async () => {
        const stop = new AbortController()
        const response = await fetch(`${origin}${path}`, { headers: { cookie, ...headers }, signal: stop.signal })
        onOpen()
        const found: Array<Event> = []
        let text = ""
        for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
          text += chunk
          for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
            const lines = text.slice(0, end).split("\n")
            text = text.slice(end + 2)
            const of = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
            const event = of("event")
            if (event === undefined) continue
            const made = { event, id: of("id"), data: parsed(of("data") ?? "") }
            found.push(made)
            if (isLast(made)) {
              stop.abort()
              return found
            }
          }
        }
        return found
      })
    return { url: server.url, origin, cookie, first, ask, post, events, pid: server.pid, stop: server.stop }
  })

/** A session as a page keeps it, with the changes of an event. */
export const applied = (before: Json, { data: { messages, pool, rows, sums, ...rest } }: Event): Json => {
  const tail = (
    known: ReadonlyArray<unknown>,
    change: { readonly from: number; readonly items: ReadonlyArray<unknown> }
  ) => [...known.slice(0, change.from), ...change.items]
  const [run] = before.data.runs
  return {
    ...rest,
    data: {
      ...before.data,
      runs: [
        {
          ...run,
          sums,
          rows: tail(run.rows, rows).map((row, index) => rows.changed.find(([at]: Json) => at === index)?.[1] ?? row)
        }
      ],
      pool: tail(before.data.pool, pool)
    },
    messages: tail(before.messages, messages)
  }
}

/** A key that the model says when it refuses. */
export const key = "sk-proj-Zk3mQ8vT1xW5yB7nC2dF4gH6jK9pL0rS"

export interface Sent {
  readonly role: string
  readonly content: Json
}

const called = (id: string, name: string, args: object) => ({
  tool_calls: [{ id, type: "function", function: { name, arguments: JSON.stringify(args) } }]
})

/** The model: its answer to the last message of a request; undefined for one that it refuses. */
const reply = (messages: ReadonlyArray<Sent>): object | undefined => {
  const last = messages.at(-1)
  const asked = JSON.stringify(messages.findLast(({ role }) => role === "user")?.content)
  if (last?.role === "tool")
    return { content: `The result was ${JSON.stringify(last.content).includes("rye") ? "rye" : "other"}.` }
  if (asked.includes("delegate")) return called("d1", "delegate_task", { goal: "read the notes" })
  if (asked.includes("wait")) return called("w1", "terminal", { command: "sleep 60", timeout: 60 })
  if (asked.includes("read")) return called("c1", "read_file", { path: "notes.txt" })
  if (asked.includes("write")) return called("c2", "write_file", { path: "made.txt", content: "one\ntwo\n" })
  if (asked.includes("fail")) return undefined
  return {
    content: `You said ${messages.filter(({ role }) => role === "user").length} things.`,
    reasoning_content: "Counting."
  }
}

interface Model {
  /** Held answers: those to requests whose last message is a tool's. */
  hold: Promise<void> | undefined
  readonly seen: Array<{ readonly model: string; readonly messages: ReadonlyArray<Sent> }>
}

/** A machine with a model behind HTTP that tells its costs. */
export const world = Effect.gen(function* () {
  const made = yield* machine
  const model: Model = { hold: undefined, seen: [] }
  const server = yield* HttpServer.make(({ body, method }, response) => {
    if (method !== "POST") return HttpServer.json(response, 404, { error: { message: "nothing here" } })
    const request = JSON.parse(body)
    if (request.tools === undefined) return HttpServer.json(response, 400, { error: { message: "no side tasks" } })
    model.seen.push(request)
    const message = reply(request.messages)
    if (message === undefined)
      return HttpServer.json(response, 400, { error: { message: `the model refuses, says ${key}` } })
    const answer = () =>
      HttpServer.json(response, 200, {
        id: "a1",
        model: request.model,
        choices: [
          {
            index: 0,
            message: { role: "assistant", content: null, ...message },
            finish_reason: "tool_calls" in message ? "tool_calls" : "stop"
          }
        ],
        usage: { prompt_tokens: 100, completion_tokens: 10, prompt_tokens_details: { cached_tokens: 40 } }
      })
    if (request.messages.at(-1).role === "tool" && model.hold !== undefined) void model.hold.then(answer)
    else answer()
  })
  made.keep(
    "config.yaml",
    [
      "model:",
      "  provider: openai",
      "  default: gpt-4o",
      "  api_mode: chat_completions",
      `  base_url: ${server.url}/v1`,
      "  api_key: k",
      "  streaming: false",
      ""
    ].join("\n")
  )
  made.put("notes.txt", "rye bread\n")
  const saidBy =
    (run: typeof made.hermes) =>
    (...args: ReadonlyArray<string>) =>
      Effect.map(run(["chat", "-q", ...args]), ({ code, stderr }) => ({ code, id: sessionIdOf(stderr) }))
  /** A run in this process, and one in its own. */
  const say = saidBy(made.hermes)
  const sayElsewhere = saidBy(made.start)
  const serve = (...args: ReadonlyArray<string>) => start(made.home, made.cwd, args)
  return { ...made, model, say, sayElsewhere, serve }
})

/** A value without its times, which differ from run to run. */
export const timeless = (value: Json): Json =>
  Array.isArray(value)
    ? value.map(timeless)
    : typeof value !== "object" || value === null
      ? value
      : Object.fromEntries(
          Object.entries(value).flatMap(([name, inner]) =>
            [
              "startedAt",
              "activeAt",
              "endedAt",
              "at",
              "duration",
              "latency",
              "modelLatency",
              "firstPart",
              "toolLatency",
              "start",
              "end",
              "sequence",
              "day",
              "timestamp"
            ].includes(name)
              ? []
              : [[name, timeless(inner)]]
          )
        )

export const tokens = (calls: number) => ({
  input: 60 * calls,
  output: 10 * calls,
  cacheRead: 40 * calls,
  cacheWrite: 0,
  reasoning: 0
})

/** US dollars by the list of prices: 60 tokens at 2.50, 40 of the cache at 1.25, 10 of output at 10 for a million. */
export const price = (calls: number): number => (3 * calls) / 10_000

export const totals = (calls: number, more: object = {}) => ({
  runs: 1,
  steps: calls,
  modelCalls: calls,
  toolCalls: 0,
  tokens: tokens(calls),
  cost: price(calls),
  unpriced: 0,
  errors: 0,
  ...more
})
