import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Prompt from "effect/ai/Prompt"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as CommandEnvironment from "../../src/places/CommandEnvironment.ts"
import { CodeSettings } from "../../src/tools/builtin/BuiltinSettings.ts"
import { NestedCalls, StopRequested } from "../../src/tools/ToolContext.ts"
import * as ExecuteCode from "../../src/tools/builtin/ExecuteCode.ts"
import { callTool } from "../support/callTool.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { isAlive } from "../support/terminalTools.ts"
import { eventually } from "../support/waiting.ts"

const settings = {
  mode: "project" as const,
  timeoutSeconds: 30,
  maxToolCalls: 50,
  environment: { passThrough: [], reserved: [] }
}

const execute = (
  code: string,
  language = "javascript",
  more: Partial<typeof settings> = {},
  calls: Array<Prompt.ToolCallPart> = []
) =>
  callTool(ExecuteCode.toolset, "execute_code", { code, language }, { cwd: "/tmp" }).pipe(
    Effect.provideService(CodeSettings, { ...settings, ...more }),
    Effect.provideService(NestedCalls, (call) =>
      Effect.sync(() => {
        calls.push(call)
        return call.name === "patch"
          ? { output: { success: false, error: "no such text" }, isFailure: true }
          : { output: JSON.stringify({ content: `what ${call.name} gave` }), isFailure: false }
      })
    ),
    Effect.provide(CommandEnvironment.layerLocal.pipe(Layer.provideMerge(NodeServices.layer)))
  )

describe("execute_code", () => {
  it.live("a script calls tools and prints, in each language", () =>
    Effect.gen(function* () {
      const calls: Array<Prompt.ToolCallPart> = []
      const scripts = {
        javascript: `const { content } = read_file({ path: "a" }); console.log(content); try { patch({}) } catch (e) { console.log(e.message) }`,
        typescript: `const found: { content: string } = await search_files({ pattern: "x" }); console.log(found.content)`,
        python: `from hermes_tools import terminal\nprint(read_file(path="é")["content"], terminal({"command": "ls"})["content"])\ntry:\n  patch()\nexcept ToolError as e:\n  print(e)`
      }
      const outputs: Array<unknown> = []
      for (const [language, code] of Object.entries(scripts)) {
        const { body } = yield* execute(code, language, {}, calls)
        assert.strictEqual(body["status"], "success", JSON.stringify(body))
        outputs.push(body["output"], body["tool_calls_made"])
      }
      assert.deepStrictEqual(outputs, [
        "what read_file gave\nno such text\n",
        2,
        "what search_files gave\n",
        1,
        "what read_file gave what terminal gave\nno such text\n",
        3
      ])
      assert.deepStrictEqual(calls.at(-3)?.params, { path: "é" })
      assert.strictEqual(new Set(calls.map(({ id }) => id)).size, calls.length)
    })
  )

  it.live("it can not call itself, children, other tools or commands in the background", () =>
    Effect.gen(function* () {
      const calls: Array<Prompt.ToolCallPart> = []
      const { body } = yield* execute(
        `import { writeSync, readSync } from "node:fs"
         console.log(typeof execute_code, typeof delegate_task)
         for (const name of ["execute_code", "delegate_task", "mcp__x__y"]) {
           writeSync(3, JSON.stringify({ name, args: {} }) + "\\n")
         }
         writeSync(3, "no json\\n")
         try { terminal({ command: "x", background: true }) } catch (e) { console.log(e.message) }`,
        "javascript",
        {},
        calls
      )
      assert.isEmpty(calls)
      assert.include(String(body["output"]), "undefined undefined")
      assert.include(String(body["output"]), "cannot call execute_code")
    })
  )

  it.live("an error, a syntax error and an exit code are told", () =>
    Effect.gen(function* () {
      const thrown = yield* execute(`console.log("before"); throw new Error("on purpose")`)
      assert.deepStrictEqual([thrown.body["status"], thrown.body["output"]], ["error", "before\n"])
      assert.include(String(thrown.body["error"]), "on purpose")
      assert.include(String((yield* execute("def f(:", "python")).body["error"]), "SyntaxError")
      assert.include(String((yield* execute("process.exit(7)")).body["error"]), "7")
      assert.isTrue((yield* execute("  ")).isFailure)
    })
  )

  it.live("output is bounded at both ends, and read while the script runs", () =>
    Effect.gen(function* () {
      const { body } = yield* execute(`console.log("first"); console.log("x".repeat(20_000_000)); console.log("last")`)
      const output = String(body["output"])
      assert.isBelow(output.length, 51_000)
      assert.isTrue(output.startsWith("first\n") && output.endsWith("last\n"))
      assert.include(output, "bytes left out")
    })
  )

  it.live("no key of ours is in its environment", () =>
    Effect.gen(function* () {
      process.env["OPENAI_API_KEY"] = "sk-secret"
      process.env["NODE_OPTIONS"] = ""
      const { body } = yield* execute(`console.log(JSON.stringify(process.env))`)
      delete process.env["OPENAI_API_KEY"]
      assert.notInclude(String(body["output"]), "sk-secret")
      assert.include(String(body["output"]), "PATH")
    })
  )

  it.live("one that goes on too long is ended with all that it started", () =>
    Effect.gen(function* () {
      const file = join(yield* temporaryDirectory, "pids")
      const { body } = yield* execute(
        `import os, subprocess, time\nchild = subprocess.Popen(["sleep", "600"], start_new_session=True)\n` +
          `open(${JSON.stringify(file)}, "w").write(f"{os.getpid()}\\n{child.pid}")\nprint("started", flush=True)\ntime.sleep(600)`,
        "python",
        { timeoutSeconds: 2 }
      )
      assert.strictEqual(body["status"], "timeout")
      assert.include(String(body["output"]), "started")
      const pids = readFileSync(file, "utf8").split("\n").map(Number)
      yield* eventually(
        "both ended",
        Effect.map(Effect.all(pids.map((pid) => isAlive(pid))), (alive) => alive.every((is) => !is))
      )
    }).pipe(Effect.provide(CommandEnvironment.layerLocal.pipe(Layer.provideMerge(NodeServices.layer))))
  )

  it.live("one that ends and leaves others running leaves none behind", () =>
    Effect.gen(function* () {
      const file = join(yield* temporaryDirectory, "pids")
      const { body } = yield* execute(
        `import subprocess\nchildren = [subprocess.Popen(["sleep", "600"], start_new_session=own) for own in (False, True)]\n` +
          `open(${JSON.stringify(file)}, "w").write("\\n".join(str(c.pid) for c in children))`,
        "python"
      )
      assert.strictEqual(body["status"], "success", JSON.stringify(body))
      const pids = readFileSync(file, "utf8").split("\n").map(Number)
      yield* eventually(
        "both ended",
        Effect.map(Effect.all(pids.map((pid) => isAlive(pid))), (alive) => alive.every((is) => !is))
      )
    }).pipe(Effect.provide(CommandEnvironment.layerLocal.pipe(Layer.provideMerge(NodeServices.layer))))
  )

  it.live("one that asks without end and reads no answer waits, and takes no memory", () =>
    Effect.gen(function* () {
      const before = process.memoryUsage().rss
      const { body } = yield* execute(
        `import { writeSync } from "node:fs"\nfor (;;) try { writeSync(3, "no json\\n".repeat(1000)) } catch (e) { if (e.code !== "EAGAIN") throw e }`,
        "javascript",
        { timeoutSeconds: 2 }
      )
      assert.strictEqual(body["status"], "timeout")
      assert.isBelow(process.memoryUsage().rss - before, 100 * 1024 * 1024)
    })
  )

  it.live("one that is stopped by the user gives what it printed", () =>
    Effect.gen(function* () {
      const begun = join(yield* temporaryDirectory, "begun")
      const { body } = yield* execute(
        `import { writeFileSync } from "node:fs"\nconsole.log("begun"); writeFileSync(${JSON.stringify(begun)}, ""); setInterval(() => {}, 1000)`
      ).pipe(
        Effect.provideService(
          StopRequested,
          eventually(
            "begun",
            Effect.sync(() => existsSync(begun))
          )
        )
      )
      assert.strictEqual(body["status"], "interrupted")
      assert.include(body["output"], "begun")
    })
  )
})
