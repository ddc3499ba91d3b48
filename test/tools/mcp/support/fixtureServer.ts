// An MCP server of 2024 by hand, which can be told to misbehave: `node fixtureServer.ts <mode> [file]`.
import { spawn } from "node:child_process"
import { appendFileSync, existsSync, rmSync } from "node:fs"
import { createInterface } from "node:readline"

const [mode = "good", file] = process.argv.slice(2)

interface Request {
  readonly id?: number
  readonly method: string
  readonly params?: { readonly name?: string; readonly arguments?: Record<string, unknown>; readonly _meta?: unknown }
}

const say = (message: unknown): void => {
  process.stdout.write(`${JSON.stringify(message)}\n`)
}

const tool = (name: string, annotations?: Record<string, boolean>) => ({
  name,
  description: `The tool ${name}`,
  inputSchema: { type: "object", properties: { n: { type: "number" } } },
  ...(annotations === undefined ? {} : { annotations })
})

let tools: ReadonlyArray<unknown> = [
  tool("plain"),
  tool("look up!", { readOnlyHint: true }),
  tool("add", { destructiveHint: false, idempotentHint: true }),
  tool("huge"),
  tool("big"),
  tool("crash"),
  tool("grow"),
  tool("slow"),
  tool("environment")
]
if (mode === "many") tools = Array.from({ length: 100 }, (_, index) => tool(`thing_${index}`))
if (mode === "odd") tools = [{ name: 7, inputSchema: "no" }]

const text = (id: number | undefined, text: string, more: Record<string, unknown> = {}): void =>
  say({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text }], ...more } })

/** 100 MB in one message, written in pieces. */
const huge = (id: number | undefined): void => {
  process.stdout.write(`{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"`)
  const piece = "x".repeat(1024 * 1024)
  for (let i = 0; i < 100; i++) process.stdout.write(piece)
  process.stdout.write(`"}]}}\n`)
}

const call = ({ id, params }: Request): void => {
  const { arguments: args = {}, name } = params ?? {}
  switch (name) {
    case "huge":
      return huge(id)
    case "big":
      return text(id, "y".repeat(2_000_000))
    case "crash":
      process.stderr.write("it broke on purpose\n")
      return process.exit(3)
    case "slow":
      if (file !== undefined) appendFileSync(file, `start ${args["n"]}\n`)
      setTimeout(() => {
        if (file !== undefined) appendFileSync(file, `end ${args["n"]}\n`)
        text(id, "done")
      }, 100)
      return
    case "grow":
      tools = [...tools, tool("grown")]
      text(id, "grew")
      return say({ jsonrpc: "2.0", method: "notifications/tools/list_changed" })
    case "add":
      return text(id, "it did not work", { isError: true })
    case "environment":
      return text(id, JSON.stringify({ ...process.env, meta: params?._meta }))
    default:
      return text(id, `${name} ${JSON.stringify(args)}`)
  }
}

let silent = false

const answer = (request: Request): void => {
  if (silent) return
  switch (request.method) {
    case "ping":
      // Once, and then it stands still.
      if (mode === "freezes") silent = true
      return say({ jsonrpc: "2.0", id: request.id, result: {} })
    case "initialize":
      return say({
        jsonrpc: "2.0",
        id: request.id,
        result: {
          protocolVersion: "2024-11-05",
          capabilities: { tools: { listChanged: true } },
          serverInfo: { name: "fixture", version: "1" }
        }
      })
    case "tools/list":
      return say({ jsonrpc: "2.0", id: request.id, result: { tools } })
    case "tools/call":
      return call(request)
    default:
      if (request.id !== undefined) {
        say({ jsonrpc: "2.0", id: request.id, error: { code: -32601, message: "no such method" } })
      }
  }
}

/** Fails as long as a file is there that says so, and takes it away. */
const failsOnce = mode === "late" && file !== undefined && existsSync(file)
if (failsOnce) rmSync(file)

if (mode === "dies" || failsOnce) {
  process.stderr.write("no licence found\n")
  process.exit(1)
} else if (mode === "garbage") {
  for (let i = 0; i < 50; i++) process.stdout.write(`Listening for customers ${i}\n`)
  setInterval(() => undefined, 1000)
} else if (mode === "hangs") {
  process.on("SIGTERM", () => undefined)
  setInterval(() => undefined, 1000)
} else {
  if (mode === "family" && file !== undefined) {
    const child = spawn("sleep", ["600"], { stdio: "ignore", detached: true })
    appendFileSync(file, `${process.pid}\n${child.pid}\n`)
  }
  if (mode === "chatty") process.stdout.write("starting up…\n")
  createInterface({ input: process.stdin }).on("line", (line) => answer(JSON.parse(line) as Request))
}
