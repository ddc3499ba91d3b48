/**
 * A small server in the place of the studio's: answers the types of `StudioApi` from memory, on the loopback address.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import type {
  About,
  Comparison,
  Message,
  ResultPart,
  RunSummary,
  SessionDetail,
  SessionEvent,
  SessionsEvent,
  SessionSummary,
  Side,
  Totals
} from "../../src/observe/studio/StudioApi.ts"
import * as ToolView from "../../src/base/domain/ToolView.ts"
import type { Aggregates, Share } from "../../src/observe/studio/StudioSums.ts"
import { script, style } from "#pages/studio"
import * as TraceView from "../../src/observe/TraceView.ts"
import * as Samples from "./samples.ts"

const now = Date.UTC(2026, 10, 22, 20)
const hour = 3_600_000

export const totals = (size: number, more: Partial<Totals> = {}): Totals => ({
  runs: 1,
  steps: 4 * size,
  modelCalls: 4 * size,
  toolCalls: 3 * size,
  errors: 0,
  unpriced: 0,
  cost: 0.0123 * size,
  tokens: { input: 1600 * size, output: 690 * size, cacheRead: 6000 * size, cacheWrite: 0, reasoning: 0 },
  ...more
})

export const summary = (id: string, title: string, more: Partial<SessionSummary> = {}): SessionSummary => ({
  ...totals(1),
  id,
  title,
  prompt: "Why did the service stop last night?",
  source: "cli",
  models: ["claude-sonnet", "gpt-5-mini"],
  tools: ["read_file", "terminal", "delegate_task"],
  cwd: "/home/me/service",
  startedAt: now - hour,
  activeAt: now - hour / 2,
  endedAt: now - hour / 2,
  duration: 8120,
  status: "ok",
  children: 0,
  replays: [],
  scores: [],
  notes: 0,
  ...more
})

/** A name that is long enough to be cut. */
export const longTitle =
  "Find out why the nightly import of the customers of the northern region stops after exactly four hours, and mend it without touching the schema"

const many = Array.from({ length: 70 }, (_, index) =>
  summary(`s-${index + 10}`, `Session number ${index}`, {
    activeAt: now - (index + 8) * hour,
    errors: index % 7 === 0 ? 1 : 0,
    status: index % 7 === 0 ? "error" : "ok",
    ...(index % 7 === 0 ? { failure: "openai returned 401 Unauthorized: check OPENAI_API_KEY" } : {})
  })
)

export const sessions = (): ReadonlyArray<SessionSummary> => [
  summary("demo", "The service stopped", {
    children: 1,
    scores: [{ name: "correctness", value: 0.9, at: now }],
    notes: 1,
    replays: ["replay"]
  }),
  summary("other", "The service stopped, again"),
  summary("replay", longTitle, {
    replayOf: { session: "demo", position: 1, changed: ["prompt"] },
    status: "interrupted",
    models: ["a-vendor/an-extraordinarily-long-model-name-2026-11-preview"]
  }),
  summary("live", "Running now", { status: "running", activeAt: now, endedAt: undefined }),
  ...many
]

export const hostileText = [
  "# A report",
  "",
  "The **disk** was full, see [the log](https://example.test/log) or [this](javascript:globalThis.hacked=1) and [that](data:text/html,x).",
  "",
  '<script>globalThis.hacked = 2</script><img src=x onerror="globalThis.hacked = 3">',
  "",
  "![a picture](https://example.test/beacon.png)",
  "",
  "| what | how much |",
  "| --- | ---: |",
  "| logs | 12 GB |",
  "| rest with a long name that does not break | 1 GB |",
  "",
  "1. first",
  "2. second with `code`",
  "   - inside",
  "",
  "- [x] done",
  "- [ ] open",
  "",
  "```ts",
  "const answer: number = 42 // a line of code that is rather long, longer than a small screen is wide, so that it has to scroll sideways",
  "```",
  "",
  "> quoted",
  "",
  "a&lt;b &amp; c"
].join("\n")

const result = (id: string, name: string, status: "ok" | "error", text: string, duration: number): ResultPart => ({
  type: "result",
  id,
  name,
  text,
  status,
  duration,
  view: ToolView.toWire(ToolView.presentResult(name, status, text))
})

const at = now - hour

export const messages = (): ReadonlyArray<Message> => [
  {
    role: "system",
    origin: "runtime",
    at,
    parts: [{ type: "text", text: "You are Hermes, an agent that works with tools.\n\n".repeat(40) }]
  },
  {
    role: "user",
    origin: "user",
    position: 0,
    run: "t1",
    at,
    row: 1,
    parts: [
      { type: "text", text: "Why did the service stop last night?" },
      { type: "image", mediaType: "image/png", url: "/api/sessions/demo/images/0", local: true }
    ]
  },
  {
    role: "assistant",
    origin: "model",
    position: 1,
    run: "t1",
    at: at + 2400,
    model: "claude-sonnet",
    row: 2,
    parts: [
      { type: "reasoning", text: "The user wants the cause. I look at the files first." },
      { type: "text", text: "I look at the files, and have somebody look at the logs." },
      { type: "call", id: "c1", name: "read_file", args: '{\n  "path": "src/main.ts"\n}', children: [], diffs: [] },
      {
        type: "call",
        id: "c2",
        name: "delegate_task",
        args: '{\n  "goal": "look at the logs of last night"\n}',
        children: ["demo-child"],
        diffs: []
      },
      {
        type: "call",
        id: "c3",
        name: "patch",
        args: '{\n  "path": "src/main.ts"\n}',
        children: [],
        diffs: [{ path: "src/main.ts", text: "@@ -1,3 +1,3 @@\n import a\n-keep(100)\n+keep(7)\n done()" }]
      }
    ]
  },
  {
    role: "tool",
    origin: "tool",
    position: 2,
    run: "t1",
    at: at + 2450,
    parts: [result("c1", "read_file", "ok", "1|import a\n2|keep(100)", 40)]
  },
  {
    role: "tool",
    origin: "tool",
    position: 3,
    run: "t1",
    at: at + 6350,
    parts: [result("c2", "delegate_task", "ok", '{"results":[{"summary":"the disk is full"}]}', 3940)]
  },
  {
    role: "tool",
    origin: "tool",
    position: 4,
    run: "t1",
    at: at + 6360,
    parts: [result("c3", "patch", "error", '{"error":"not writable"}', 3)]
  },
  {
    role: "user",
    origin: "runtime",
    position: 5,
    run: "t1",
    at: at + 6400,
    parts: [{ type: "text", text: "A background command ended with exit code 1." }]
  },
  {
    role: "assistant",
    origin: "model",
    position: 6,
    run: "t1",
    at: at + 8100,
    model: "claude-sonnet",
    row: 11,
    parts: [{ type: "text", text: hostileText }]
  }
]

const runs: ReadonlyArray<RunSummary> = ["t1", "t2"].map((id, index) => ({
  ...totals(1),
  id,
  startedAt: at + index * 600_000,
  endedAt: at + index * 600_000 + 8120,
  status: "ok",
  exit: "text_response",
  model: "claude-sonnet",
  prompt: index === 0 ? "Why did the service stop last night?" : "And now?"
}))

/** Texts that are made to break or to delay whoever reads them as Markdown. */
const nested = [
  ">".repeat(30_000),
  "> ".repeat(15_000),
  "1. ".repeat(10_000),
  "- ".repeat(10_000),
  `a${" ".repeat(100_000)}b`,
  "[".repeat(30_000),
  "*_".repeat(15_000),
  "a*".repeat(15_000),
  `${"| a ".repeat(2000)}|\n${"| - ".repeat(2000)}|\n${"| b ".repeat(2000)}|`,
  "<a ".repeat(10_000),
  "x".repeat(150_000)
]

/** Messages of a session of three thousand. */
const manyMessages = (): ReadonlyArray<Message> =>
  Array.from({ length: 3000 }, (_, position): Message =>
    position % 2 === 0
      ? { role: "user", origin: "user", position, parts: [{ type: "text", text: `question ${position}` }] }
      : {
          role: "assistant",
          origin: "model",
          position,
          model: "claude-sonnet",
          parts: [
            { type: "text", text: `**answer** ${position}` },
            { type: "call", id: `c${position}`, name: "read_file", args: "{}", children: [], diffs: [] }
          ]
        }
  )

export const detailOf = (one: SessionSummary): SessionDetail => ({
  sequence: 1,
  summary: one,
  data: TraceView.buildData([one.id === "other" ? Samples.other() : Samples.run()]),
  messages:
    one.id === "long"
      ? manyMessages()
      : one.id === "nested"
        ? nested.map((text, position): Message => ({
            role: "assistant",
            origin: "model",
            position,
            parts: [{ type: "text", text }]
          }))
        : messages(),
  runs,
  agents: [
    { ...totals(1), session: one.id, name: "main", status: one.status, duration: 8120 },
    {
      ...totals(0.2, { errors: 1 }),
      session: "demo-child",
      name: "look at the logs of last night",
      parent: one.id,
      status: "ok",
      duration: 3800
    }
  ],
  models: [
    {
      model: "claude-sonnet",
      calls: 3,
      errors: 1,
      tokens: totals(1).tokens,
      cost: 0.0121,
      latency: { p50: 1500, p90: 1740, p99: 1740 }
    }
  ],
  scores: one.scores,
  notes: one.notes === 0 ? [] : [{ text: "The answer names the cause.\nIt does not name the command.", at: now }],
  warnings:
    one.id === "other" ? ["2 entries of a newer version are left out: read them with the version that wrote them."] : []
})

const days = Array.from({ length: 21 }, (_, index) => `2026-11-${String(index + 2).padStart(2, "0")}`)
const wave = (index: number): number => 1 + Math.abs(Math.sin(index)) * 4

const share = (name: string, calls: number, errors: number): Share => ({
  name,
  calls,
  errors,
  sessions: Math.ceil(calls / 9),
  tokens: totals(calls / 4).tokens,
  cost: 0.01 * calls,
  latency: { p50: 900, p90: 4200, p99: 21_000 },
  days: days.map((day, index) => ({
    day,
    calls: Math.round(wave(index)),
    errors: index % 5 === 0 ? errors : 0,
    tokens: 1000 * index,
    cost: 0.001 * index
  }))
})

const aggregates = (all: ReadonlyArray<SessionSummary>): Aggregates => ({
  ...totals(all.length, { errors: 13, unpriced: 2 }),
  sessions: all.length,
  cacheHit: 0.79,
  active: 3_600_000,
  messages: 812,
  userMessages: 96,
  skills: [
    { name: "release-notes", loads: 12, edits: 2, lastUsed: now },
    { name: "a-skill-with-quite-a-long-name-for-a-table", loads: 1, edits: 0, lastUsed: now - 86_400_000 }
  ],
  misses: [{ reason: "a pause of more than five minutes", calls: 3, tokens: 84_000, price: 0.23, unpriced: 0 }],
  middleware: [{ kind: "llm_execution", name: "redactor", calls: 140, faults: 1, ownMillis: 320 }],
  notable: all
    .slice(0, 2)
    .map((one, index) => ({
      name: index === 0 ? "Longest" : "Most tokens",
      session: { id: one.id, title: one.title, duration: one.duration, messages: 31, tokens: 120_000, toolCalls: 14 }
    })),
  costs: {
    actual: { calls: 0, cost: 0 },
    estimated: { calls: 278, cost: 2.8 },
    included: { calls: 0, cost: 0 },
    unknown: { calls: 2, cost: 0 }
  },
  sources: [share("cli", 280, 6)],
  tenants: [],
  hours: Array.from({ length: 24 }, (_, hour) => Math.round(wave(hour))),
  modelLatency: { p50: 900, p90: 4200, p99: 21_000 },
  firstPart: { p50: 300, p90: 800, p99: 2000 },
  toolLatency: { p50: 12, p90: 700, p99: 30_000 },
  days: days.map((day, index) => ({
    ...totals(wave(index)),
    day,
    latency: { p50: 800 + wave(index) * 100, p90: 3000 + wave(index) * 300, p99: 9000 + wave(index) * 2000 }
  })),
  models: [share("claude-sonnet", 220, 4), share("a-vendor/an-extraordinarily-long-model-name-2026-11-preview", 60, 2)],
  tools: [share("terminal", 300, 6), share("read_file", 120, 0), share("delegate_task", 20, 1)],
  agents: [share("main", 240, 4), share("leaf", 40, 2)],
  failures: [
    {
      name: "claude-sonnet",
      kind: "model",
      reason: "rate_limit",
      count: 4,
      message: "529 overloaded: try again",
      session: "demo"
    },
    {
      name: "terminal",
      kind: "tool",
      reason: "error",
      count: 6,
      message: "bash: line 1: some-command-with-a-long-name: command not found, and more text to be long",
      session: "other"
    }
  ]
})

const side = (one: SessionSummary, factor: number): Side => ({
  ...totals(factor),
  session: one.id,
  name: one.title ?? one.id,
  duration: 8120 * factor,
  status: one.status,
  models: one.models,
  tools: one.tools
})

const comparison = (left: SessionSummary, right: SessionSummary): Comparison => {
  const data = TraceView.buildData([
    { ...Samples.run(), name: left.title ?? left.id },
    { ...Samples.other(), name: right.title ?? right.id }
  ])
  const change = data.diff?.findIndex(({ state }) => state !== "same") ?? -1
  return {
    left: side(left, 1),
    right: side(right, 1.4),
    data,
    first: {
      change,
      state: "changed",
      left: "The disk was full. Remove the old logs, and it starts again.",
      right: "The disk was full. I removed nothing: you denied it."
    }
  }
}

// One pixel.
const picture = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64"
)

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

const shell =
  '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>hermes studio</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/studio.css"><script defer src="/studio.js"></script></head><body></body></html>'

/** A server that was asked. */
export interface StandIn {
  readonly url: string
  /** Paths of GET requests, in order. */
  readonly asked: ReadonlyArray<string>
  /** Requests other than GET, in order. */
  readonly posts: ReadonlyArray<{ readonly path: string; readonly body: unknown }>
  /** Sends an event to everyone who listens to a session. */
  readonly tell: (session: string, event: SessionEvent) => void
  /** Sends an event to everyone who listens to the list. */
  readonly tellList: (event: SessionsEvent) => void
  /** Breaks off all streams of events. */
  readonly drop: () => void
  readonly close: () => Promise<void>
}

const bodyOf = async (request: IncomingMessage): Promise<unknown> => {
  let text = ""
  for await (const chunk of request) text += String(chunk)
  return JSON.parse(text)
}

/** Serves as long as it is not closed. */
export const serve = async (write: boolean): Promise<StandIn> => {
  const posts: Array<{ readonly path: string; readonly body: unknown }> = []
  const asked: Array<string> = []
  const listeners = new Map<ServerResponse, string>()
  const all = sessions()
  const of = (id: string): SessionSummary => all.find((one) => one.id === id) ?? summary(id, `Session ${id}`)
  const about: About = {
    version: "0.1.0",
    home: "/home/me/.hermes",
    write,
    unread: write ? 2 : 0,
    models: ["claude-sonnet", "gpt-5-mini"]
  }

  const found = (query: URLSearchParams): ReadonlyArray<SessionSummary> => {
    const words = query.get("q")?.toLowerCase() ?? ""
    const states = query.getAll("status")
    return all.filter(
      (one) => (one.title ?? "").toLowerCase().includes(words) && (states.length === 0 || states.includes(one.status))
    )
  }

  const get = (path: string, query: URLSearchParams): unknown => {
    const id = /^\/api\/sessions\/([^/]+)$/u.exec(path)?.[1]
    if (id === "gone") return undefined
    if (id !== undefined) return detailOf(of(decodeURIComponent(id)))
    switch (path) {
      case "/api/about":
        return about
      case "/api/sessions": {
        const offset = Number(query.get("offset") ?? 0)
        const list = found(query)
        return {
          sessions: list.slice(offset, offset + Number(query.get("limit") ?? 50)),
          total: list.length,
          known: { sources: ["cli", "acp"], models: ["claude-sonnet", "gpt-5-mini"], tools: ["terminal", "read_file"] },
          sequence: 1
        }
      }
      case "/api/aggregates":
        return aggregates(found(query))
      case "/api/compare":
        return comparison(of(query.get("left") ?? ""), of(query.get("right") ?? ""))
      default:
        return undefined
    }
  }

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? "/", "http://localhost")
    const send = (status: number, type: string, body: string | Buffer, more: Record<string, string> = {}): void => {
      response
        .writeHead(status, {
          "content-type": type,
          "content-security-policy": policy,
          "cache-control": "no-store",
          ...more
        })
        .end(body)
    }
    const json = (value: unknown, status = 200): void => send(status, "application/json", JSON.stringify(value))
    if (request.method === "POST") {
      const body = await bodyOf(request)
      posts.push({ path: url.pathname, body })
      return json(url.pathname.endsWith("/replay") ? { session: "replay" } : { at: now, ...Object(body) }, 201)
    }
    asked.push(url.pathname)
    if (url.pathname === "/api/events") {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(": hello\n\n")
      listeners.set(response, url.searchParams.get("session") ?? "")
      response.on("close", () => listeners.delete(response))
      return
    }
    if (url.pathname === "/") return send(200, "text/html; charset=utf-8", shell)
    if (url.pathname === "/studio.js") return send(200, "text/javascript; charset=utf-8", script)
    if (url.pathname === "/studio.css") return send(200, "text/css; charset=utf-8", style)
    if (url.pathname.includes("/images/")) return send(200, "image/png", picture)
    if (url.pathname === "/api/export")
      return send(
        200,
        "application/x-ndjson",
        `${url.searchParams
          .getAll("id")
          .map((id) => JSON.stringify({ id }))
          .join("\n")}\n`,
        { "content-disposition": 'attachment; filename="sessions.jsonl"' }
      )
    const value = get(url.pathname, url.searchParams)
    json(
      value ?? { error: "There is no such session: it was removed, or the address is wrong. Go back to the list." },
      value === undefined ? 404 : 200
    )
  }

  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)))
  })
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve)
  })
  // A TCP server has this kind of address.
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/`,
    asked,
    posts,
    tell: (session, event) => {
      for (const [response, wanted] of listeners)
        if (wanted === session)
          response.write(`event: session\nid: ${event.sequence}\ndata: ${JSON.stringify(event)}\n\n`)
    },
    tellList: (event) => {
      for (const [response, wanted] of listeners)
        if (wanted === "") response.write(`event: sessions\nid: 2\ndata: ${JSON.stringify(event)}\n\n`)
    },
    drop: () => {
      for (const response of listeners.keys()) response.destroy()
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      })
  }
}
