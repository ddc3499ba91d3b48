/**
 * Preludes of scripts: a function for each tool that it may call. A call is a line of JSON on descriptor 3, its
 * answer a line on descriptor 4.
 */

// The program that runs this one, to run scripts with.

/** Path of Node. */
export const node = process.execPath

/** The tools that a script may call. */
export const callable: ReadonlyArray<string> = [
  "web_search", "web_extract", "read_file", "write_file", "search_files", "patch", "terminal"
]

const names = JSON.stringify(callable)

/** For Node: `read_file({ path })` returns at once what the tool gave, and throws what went wrong. */
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

/** For Python: `read_file(path=…)` and `read_file({…})` return what the tool gave, and raise what went wrong. */
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
