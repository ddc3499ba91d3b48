/**
 * The bridge between a script and the tools of its agent. The script's side is a prelude in the script's language, with
 * a function for each tool that it may call. The agent's side runs and counts the calls and writes the answers. A call
 * is a line of JSON on file descriptor 3, and its answer is a line on file descriptor 4.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Queue from "effect/Queue"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import type { PlatformError } from "effect/PlatformError"
import * as Prompt from "effect/ai/Prompt"
import * as Json from "../../base/domain/Json.ts"
import type { NestedRun, ToolContext } from "../ToolContext.ts"
import * as Framing from "../mcp/Framing.ts"

/** The tools that a script may call. */
export const callable: ReadonlyArray<string> = [
  "web_search",
  "web_extract",
  "read_file",
  "write_file",
  "search_files",
  "patch",
  "terminal"
]

const names = JSON.stringify(callable)

/**
 * Prelude for Node: `read_file({ path })` returns the tool's result synchronously, and throws an error if the call
 * fails.
 */
export const javascript = `
import { readSync, writeSync } from "node:fs"
let rest = Buffer.alloc(0)
const line = () => {
  for (;;) {
    const end = rest.indexOf(10)
    if (end >= 0) {
      const text = rest.subarray(0, end).toString("utf8")
      rest = rest.subarray(end + 1)
      return text
    }
    const chunk = Buffer.alloc(65536)
    let size = 0
    try {
      size = readSync(4, chunk)
    } catch (error) {
      if (error.code === "EAGAIN") {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
        continue
      }
      throw error
    }
    if (size === 0) throw new Error("the agent went away")
    rest = Buffer.concat([rest, chunk.subarray(0, size)])
  }
}
const send = (text) => {
  let bytes = Buffer.from(text + "\\n")
  while (bytes.length > 0) {
    try {
      bytes = bytes.subarray(writeSync(3, bytes))
    } catch (error) {
      if (error.code !== "EAGAIN") throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
    }
  }
}
for (const name of ${names}) {
  globalThis[name] = (args = {}) => {
    send(JSON.stringify({ name, args }))
    const { error, result } = JSON.parse(line())
    if (error !== undefined) throw new Error(error)
    return result
  }
}
`

/**
 * Prelude for Python: `read_file(path=…)` and `read_file({…})` return the tool's result, and raise an error if the call
 * fails.
 */
export const python = `
import json, os, runpy, sys, threading
_out = os.fdopen(3, "w", encoding="utf-8", newline="\\n")
_in = os.fdopen(4, "r", encoding="utf-8", newline="\\n")
_lock = threading.Lock()
class ToolError(Exception):
    pass
def _tool(name):
    def call(*given, **args):
        for more in given:
            args = {**more, **args}
        with _lock:
            _out.write(json.dumps({"name": name, "args": args}) + "\\n")
            _out.flush()
            text = _in.readline()
        if text == "":
            raise ToolError("the agent went away")
        answer = json.loads(text)
        if "error" in answer:
            raise ToolError(answer["error"])
        return answer["result"]
    call.__name__ = name
    return call
_tools = {name: _tool(name) for name in ${names}}
_tools["ToolError"] = ToolError
_module = type(sys)("hermes_tools")
_module.__dict__.update(_tools)
sys.modules["hermes_tools"] = _module
_script = sys.argv[1]
sys.argv = [_script]
runpy.run_path(_script, init_globals=_tools, run_name="__main__")
`

const maxRequestBytes = 5 * 1024 * 1024
/** Maximum number of answers that a script has not read yet. Further calls wait until the script reads an answer. */
const maxUnread = 16

type Answer = { readonly result: unknown } | { readonly error: string }

/** Returns the error text of a failed call. */
const readError = (output: unknown): string => {
  const value = typeof output === "string" ? Option.getOrElse(Json.parse(output), () => output) : output
  return Predicate.hasProperty(value, "error") && typeof value.error === "string" ? value.error : Json.toText(value)
}

const parseResult = (output: unknown): unknown =>
  typeof output === "string" ? Option.getOrElse(Json.parse(output), () => output) : output

const parseRequest = (line: Framing.Line): { readonly name: string; readonly args: object } | undefined => {
  const value = line._tag === "Line" ? Option.getOrUndefined(Json.parse(line.text)) : undefined
  return Predicate.hasProperty(value, "name") &&
    typeof value.name === "string" &&
    Predicate.hasProperty(value, "args") &&
    Predicate.isObject(value.args)
    ? { name: value.name, args: value.args }
    : undefined
}

/** The agent's side of a script's tool calls. */
interface Bridge {
  /** Answers incoming calls until the script closes its end. */
  readonly serve: (
    requests: Stream.Stream<Uint8Array, PlatformError>
  ) => Effect.Effect<void, PlatformError, ToolContext>
  readonly answers: Stream.Stream<Uint8Array>
  /** Returns the number of calls that were run. */
  readonly made: () => number
}

/** Creates a bridge for one script. Without `run`, the script has no tools. */
export const make = Effect.fnUntraced(function* (
  run: NestedRun | undefined,
  maxCalls: number
): Effect.fn.Return<Bridge> {
  const answers = yield* Queue.bounded<Uint8Array, Cause.Done>(maxUnread)
  const prefix = yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)
  const encoder = new TextEncoder()
  let made = 0

  const answerRequest = Effect.fnUntraced(function* (line: Framing.Line): Effect.fn.Return<Answer, never, ToolContext> {
    const request = parseRequest(line)
    if (request === undefined) return { error: "this is no tool call: call the functions that the script was given" }
    const { args, name } = request
    if (!callable.includes(name)) return { error: `a script cannot call ${name}: it has ${callable.join(", ")}` }
    if (name === "terminal" && Predicate.hasProperty(args, "background") && args.background === true) {
      return { error: "a script runs commands in the foreground only" }
    }
    if (made >= maxCalls)
      return { error: `the limit of ${maxCalls} tool calls is reached: print what you have and finish` }
    if (run === undefined) return { error: "there are no tools in this run" }
    made++
    const call = Prompt.makePart("tool-call", {
      id: `code_${prefix.toString(36)}_${made}`,
      name,
      params: args,
      providerExecuted: false
    })
    const { isFailure, output } = yield* run(call)
    return isFailure ? { error: readError(output) } : { result: parseResult(output) }
  })

  const frame = Framing.make(maxRequestBytes)
  return {
    made: () => made,
    answers: Stream.fromQueue(answers),
    serve: (requests) =>
      Stream.runForEach(requests, (chunk) =>
        Effect.forEach(
          frame(chunk),
          (line) =>
            Effect.flatMap(answerRequest(line), (value) =>
              Queue.offer(answers, encoder.encode(`${JSON.stringify(value)}\n`))
            ),
          { discard: true }
        )
      )
  }
})
