// Which functions of the bundled program its commands call: it runs them with a home directory of its own, and a model
// on the loopback.
import { spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type ServerResponse } from "node:http"
import { tmpdir } from "node:os"
import { join, relative, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import type { FunctionRange } from "./eagerFunctions.ts"

/** Commands whose starts are profiled. */
const commands: ReadonlyArray<ReadonlyArray<string>> = [
  ["chat", "-q", "read the file"],
  ["chat", "-Q", "-q", "again", "--continue"],
  ["chat", "-q", "hello", "--provider", "offline"],
  ["sessions", "list"],
  ["config", "show"],
  ["help"]
]

const toChunk = (delta: object, finish: string | null = null): string =>
  `data: ${JSON.stringify({
    id: "chunk",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [{ index: 0, delta, finish_reason: finish }]
  })}\n\n`

/** Calls a tool once in a conversation, then answers. */
const answerRequest = (body: string, response: ServerResponse): void => {
  const call = { name: "read_file", arguments: JSON.stringify({ path: "notes.txt" }) }
  const chunks = body.includes('"role":"tool"')
    ? [toChunk({ role: "assistant", content: "It" }), toChunk({ content: " says hello." }), toChunk({}, "stop")]
    : [
        toChunk({ role: "assistant", tool_calls: [{ index: 0, id: "call", type: "function", function: call }] }),
        toChunk({}, "tool_calls")
      ]
  response.writeHead(200, { "content-type": "text/event-stream" })
  response.end(`${chunks.join("")}data: [DONE]\n\n`)
}

interface CommandOptions {
  readonly cwd: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Text in the output at which a server is stopped. */
  readonly stopAt?: string | undefined
}

const runCommand = async (args: ReadonlyArray<string>, { stopAt, ...options }: CommandOptions): Promise<void> => {
  const child = spawn(process.execPath, args, { ...options, stdio: ["ignore", "pipe", "pipe"] })
  let output = ""
  const collectOutput = (text: string): void => {
    const isReached = stopAt !== undefined && !output.includes(stopAt) && `${output}${text}`.includes(stopAt)
    output += text
    if (isReached) child.kill("SIGTERM")
  }
  child.stdout.setEncoding("utf8").on("data", collectOutput)
  child.stderr.setEncoding("utf8").on("data", collectOutput)
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve))
  if (code !== 0) throw new Error(`hermes ${args.slice(1).join(" ")} ended with ${code}:\n${output}`)
}

interface Coverage {
  readonly result: ReadonlyArray<{
    readonly url: string
    readonly functions: ReadonlyArray<{
      readonly ranges: ReadonlyArray<{
        readonly startOffset: number
        readonly endOffset: number
        readonly count: number
      }>
    }>
  }>
}

/** Reads what V8 counted: ranges of the functions that ran, by file of the directory. */
const readCoverage = (folder: string, directory: string): ReadonlyMap<string, ReadonlyArray<FunctionRange>> => {
  const called = new Map<string, Map<string, FunctionRange>>()
  for (const name of readdirSync(folder)) {
    const { result }: Coverage = JSON.parse(readFileSync(join(folder, name), "utf8"))
    for (const { functions, url } of result) {
      if (!url.startsWith("file:")) continue
      const file = relative(directory, fileURLToPath(url))
      if (file.startsWith("..")) continue
      const ranges = called.get(file) ?? new Map<string, FunctionRange>()
      called.set(file, ranges)
      for (const {
        ranges: [whole]
      } of functions)
        if (whole !== undefined && whole.count > 0)
          ranges.set(`${whole.startOffset}-${whole.endOffset}`, [whole.startOffset, whole.endOffset])
    }
  }
  return new Map(Array.from(called, ([file, ranges]) => [file, Array.from(ranges.values())]))
}

/** Returns the functions that the commands call, by file of the program's directory. */
export const profileStarts = async (program: string): Promise<ReadonlyMap<string, ReadonlyArray<FunctionRange>>> => {
  // The commands run in another directory.
  const directory = resolve(program)
  const folder = mkdtempSync(join(tmpdir(), "hermes-profile-"))
  const server = createServer((request, response) => {
    let body = ""
    request.setEncoding("utf8").on("data", (text: string) => (body += text))
    request.once("end", () => {
      if (request.url?.endsWith("/chat/completions") === true) answerRequest(body, response)
      else response.writeHead(404, { "content-type": "application/json" }).end("{}")
    })
  })
  try {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const address = server.address()
    if (address === null || typeof address === "string") throw new Error("the model of the profile has no port")
    const model = `{ provider: custom, default: m, base_url: "http://127.0.0.1:${address.port}/v1", api_key: k, context_length: 100000 }`
    const [home, cwd, coverage] = ["home", "work", "coverage"].map((name) => join(folder, name))
    if (home === undefined || cwd === undefined || coverage === undefined) throw new Error("no folder")
    for (const path of [home, cwd]) mkdirSync(path)
    writeFileSync(join(home, "config.yaml"), `model: ${model}\nterminal: { backend: local }\n`)
    writeFileSync(join(cwd, "notes.txt"), "hello\n")
    const env = { PATH: process.env["PATH"], HOME: folder, HERMES_HOME: home, NODE_DISABLE_COMPILE_CACHE: "1" }
    // The first start also asks for the data of the model.
    for (const args of [commands[0] ?? [], ...commands])
      await runCommand([join(directory, "main.js"), ...args], { cwd, env: { ...env, NODE_V8_COVERAGE: coverage } })
    await runCommand([join(directory, "main.js"), "serve", "--port", "0"], {
      cwd,
      env: { ...env, NODE_V8_COVERAGE: coverage },
      stopAt: "/openapi.json"
    })
    return readCoverage(coverage, directory)
  } finally {
    server.closeAllConnections()
    server.close()
    rmSync(folder, { recursive: true, force: true })
  }
}
