// A library is quiet: an application that builds a runtime and runs it finds nothing on its own output.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { src } from "../../support/sources.ts"

const moduleUrl = (path: string): string => JSON.stringify(pathToFileURL(join(src, path)).href)

/** Runs a script in a process without settings of this one, and returns what it wrote. */
const runScript = (script: string) =>
  Effect.promise(
    () =>
      new Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }>((resolve) => {
        const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", "--input-type=module"], {
          cwd: join(src, ".."),
          env: { PATH: process.env["PATH"] }
        })
        const written = { stdout: "", stderr: "" }
        child.stdout.setEncoding("utf8").on("data", (text: string) => (written.stdout += text))
        child.stderr.setEncoding("utf8").on("data", (text: string) => (written.stderr += text))
        child.once("close", (code) => resolve({ code, ...written }))
        child.stdin.end(script)
      })
  )

const facade = (on: string): string => `
  import * as Schema from "effect/Schema"
  import { createHermes } from ${moduleUrl("kit/promise/CreateHermes.ts")}
  import { tool } from ${moduleUrl("kit/promise/StandardTool.ts")}
  const add = tool({
    name: "add",
    description: "Adds",
    input: Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(Schema.Struct({ a: Schema.Finite }))),
    execute: ({ a }) => a + 1
  })
  const hermes = createHermes({ model: "offline", tools: [add], on: ${on} })
  const { text } = await hermes.run("Reply exactly hello")
  if (text !== "hello") throw new Error(text)
  await hermes.dispose()
`

const layers = `
  import * as Effect from "effect/Effect"
  import * as Tool from "effect/ai/Tool"
  import * as Toolkit from "effect/ai/Toolkit"
  import * as Agent from ${moduleUrl("agent/Agent.ts")}
  import * as Runtime from ${moduleUrl("program/Runtime.ts")}
  import * as Toolset from ${moduleUrl("tools/Toolset.ts")}
  const kit = Toolkit.make(Tool.make("add", { description: "Adds" }))
  const tools = [Toolset.make("maths", kit, kit.toLayer({ add: () => Effect.void }))]
  const run = Agent.run({ prompt: "Reply exactly hello" })
  const { text } = await Effect.runPromise(Effect.provide(run, Runtime.layer({ tools })))
  if (text !== "hello") throw new Error(text)
`

describe("a library", () => {
  for (const [name, script] of [
    ["createHermes with a plain tool", facade("{}")],
    ["Runtime.layer with a tool without annotations", layers]
  ] as const)
    it.live(`${name}: nothing on stdout and stderr`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* runScript(script), { code: 0, stdout: "", stderr: "" })
      })
    )

  it.live("a fault is on stderr, and stdout belongs to the application", () =>
    Effect.gen(function* () {
      const failing = '{ on_session_start: () => { throw new Error("no listener") } }'
      const { code, stderr, stdout } = yield* runScript(facade(failing))
      assert.deepStrictEqual({ code, stdout }, { code: 0, stdout: "" })
      assert.include(stderr, "no listener")
    })
  )
})
