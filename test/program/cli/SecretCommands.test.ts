// Commands of the real program besides a chat: the server for other programs, jobs, plugin commands, what breaks, and
// the setting up of a model. Whatever repeats the values that the program holds, they are in nothing that it prints,
// sends or keeps.
import { assert, describe, it } from "@effect/vitest"
import { Client } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import * as Effect from "effect/Effect"
import { dirname } from "node:path"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine, program, standInWhereUnset } from "../../support/hermes.ts"
import { encoded, isWhole } from "../../support/plantedKeys.ts"
import { launcher, open } from "../../support/pseudoTerminal.ts"
import { everything, filesOf, found, plantedText } from "../../support/secretSearch.ts"
import { call, environmentFile, user, withoutAnswers } from "../../support/secretWorld.ts"
import { eventually } from "../../support/waiting.ts"

/** A plugin that says every value in all that it is and does. */
const plugin = (planted: (name: string) => string) => `
import { readFileSync } from "node:fs"
const text = readFileSync(${JSON.stringify(planted("all.txt"))}, "utf8")
export const register = (ctx) => {
  console.log("at load " + text)
  const tool = (name, handler, parameters = {}) =>
    ctx.registerTool({ name, description: "Does. " + text, parameters: { type: "object", properties: parameters }, readonly: true, handler })
  tool("leak", () => ({ text, list: [text] }), { x: { type: "string", description: text, default: text } })
  tool("broken", () => { throw new Error(text) })
  tool("thrown", () => { throw text })
  tool("later", () => { setTimeout(() => { throw new Error("nobody catches " + text) }); return new Promise((done) => setTimeout(() => done("went on"), 50)) })
  tool("plain", () => { setTimeout(() => { throw "no error " + text }); return new Promise(() => {}) })
  ctx.registerMiddleware("tool_execution", async (call) => {
    if (call.args.fail) throw new Error("the wrapper broke " + text)
    return await call.next_call()
  })
  ctx.registerCliCommand("tell", () => { console.log(text); process.stdout.write("written " + text); console.error("aside " + text) }, { description: "Tells " + text })
  ctx.registerCliCommand("boom", () => { throw new Error("boom " + text) })
}`

/** A plugin that cannot be loaded. */
const unloadable = (planted: (name: string) => string) => `
import { readFileSync } from "node:fs"
export const register = () => { throw new Error("cannot load " + readFileSync(${JSON.stringify(planted("all.txt"))}, "utf8")) }`

const said = (messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }>): string =>
  JSON.stringify(messages)

describe("hermes mcp serve", () => {
  it.live("gives other programs no value that it holds: descriptions, results, failures, answers", () =>
    Effect.gen(function* () {
      const { cwd, home, leaks, put, search, searchFiles } = yield* user({
        plugin,
        turnOf: ({ messages }) =>
          messages.some(({ role }) => role === "tool")
            ? { text: `Here it is.\n${everything}` }
            : { calls: [call("c1", "read_file", { path: "planted/all.txt" }), call("c2", "broken", {})] }
      })
      put("planted/all.txt", everything)
      const transport = new StdioClientTransport({
        command: process.execPath,
        args: [program, "mcp", "serve", "--tools", "read_file,leak,broken,thrown"],
        cwd,
        env: {
          PATH: process.env["PATH"] ?? "",
          HOME: dirname(home),
          HERMES_HOME: home,
          ...standInWhereUnset([], { home })
        },
        stderr: "pipe"
      })
      let stderr = ""
      transport.stderr?.on("data", (data) => {
        stderr += String(data)
      })
      const client = new Client({ name: "test", version: "1" })
      yield* Effect.acquireRelease(
        Effect.promise(() => client.connect(transport)),
        () => Effect.promise(() => client.close())
      )
      search("tools/list", JSON.stringify(yield* Effect.promise(() => client.listTools())))
      const calls: ReadonlyArray<readonly [string, Record<string, unknown>, text: string]> = [
        ["read_file", { path: "planted/all.txt" }, "openai plain"],
        ["read_file", { path: everything }, "error"],
        ["leak", {}, "openai plain"],
        ["leak", { fail: true }, "openai plain"],
        ["broken", {}, "openai plain"],
        ["thrown", {}, "openai plain"],
        ["hermes_ask", { prompt: "go" }, "Here it is."],
        ["hermes_ask", { prompt: "go", session_id: everything }, "Unknown session_id"],
        ["hermes_ask", { prompt: 1, [everything]: 1 }, "takes a prompt"],
        [plantedText(0, 1), {}, "no tool"]
      ]
      for (const [name, args, text] of calls) {
        const result = JSON.stringify(
          yield* Effect.promise(() => client.callTool({ name, arguments: args }).catch(String))
        )
        assert.include(result, text, name)
        search(`${name.slice(0, 12)} ${text}`, result)
      }
      search("stderr", stderr)
      searchFiles()
      assert.deepStrictEqual(leaks(), [])
    }).pipe(Effect.scoped)
  )
})

describe("hermes cron", () => {
  it.live("keeps no value that it holds of a job that an agent does, nor delivers one", () =>
    Effect.gen(function* () {
      let refuses = false
      const { hermes, home, keep, leaks, put, search, searchFiles, sent } = yield* user({
        turnOf: ({ messages }) =>
          messages.some(({ role }) => role === "tool")
            ? { text: `Here it is.\n${everything}` }
            : {
                calls: [
                  call("c1", "read_file", { path: "planted/all.txt" }),
                  call("c2", "terminal", {
                    command: `echo ${JSON.stringify(everything)} > /dev/null; cat planted/all.txt >&2; exit 3`
                  })
                ]
              },
        refuse: (response) => refuses && HttpServer.json(response, 401, { error: { message: `No: ${everything}` } })
      })
      const planted = put("planted/all.txt", everything)
      keep("scripts/tell.sh", `cat ${planted}\n`)
      const job = (name: string, ...more: ReadonlyArray<string>) =>
        hermes([
          "cron",
          "create",
          "every 2h",
          "look at what the script says",
          "--name",
          name,
          "--script",
          "tell.sh",
          ...more
        ])
      for (const name of ["good", "refused"]) {
        refuses = name === "refused"
        const made = yield* job(name)
        assert.strictEqual(made.code, 0, made.stderr)
        const ran = yield* hermes(["cron", "run", name])
        assert.strictEqual(ran.code, refuses ? 1 : 0, ran.stderr.slice(-500))
        search(`cron run ${name}`, ran.stdout + ran.stderr)
      }
      for (const command of [
        ["cron", "list"],
        ["sessions", "export"],
        ...(isWhole
          ? [
              ["cron", "list", "--json"],
              ["sessions", "list"]
            ]
          : [])
      ]) {
        const shown = yield* hermes(command)
        search(command.join(" "), shown.stdout + shown.stderr)
      }
      search("requests", sent.map(withoutAnswers).join("\n"))
      searchFiles()
      assert.isAtLeast(filesOf(home).filter((file) => file.includes("/cron/output/")).length, 2)
      assert.deepStrictEqual(leaks(), [])
    })
  )
})

describe("what breaks", () => {
  it.live(
    "says no value that the program holds: a plugin's command, one that cannot be loaded, errors that nobody catches",
    () =>
      Effect.gen(function* () {
        const { hermes, keep, leaks, put, search, searchFiles } = yield* user({
          plugin,
          turnOf: ({ messages }) =>
            messages.some(({ role }) => role === "tool")
              ? { text: "over" }
              : { calls: [call("c1", said(messages).includes("plainly") ? "plain" : "later", {})] }
        })
        put("planted/all.txt", everything)
        const runs: ReadonlyArray<readonly [args: ReadonlyArray<string>, code: number, text: string]> = [
          [["tell"], 0, "1password"],
          [["boom"], 1, "boom"],
          ...(isWhole
            ? ([
                [["tools"], 0, "leak"],
                [["plugins", "list"], 0, "planted"],
                [["doctor"], 0, "program"]
              ] as const)
            : []),
          // An error of a plugin's timer is a warning; a thrown value without a stack is nobody's, and ends the program.
          [["chat", "--yolo", "-q", "break"], 0, "nobody catches"],
          [["chat", "--yolo", "--format", "stream-json", "-q", "break plainly"], 1, "no error"]
        ]
        for (const [args, code, text] of runs) {
          const ran = yield* hermes(args)
          assert.strictEqual(ran.code, code, `${args.join(" ")}: ${ran.stderr.slice(-300)}`)
          assert.include(ran.stdout + ran.stderr, text, args.join(" "))
          if (args[0] === "tell") assert.include(ran.stdout, "written ")
          search(args.join(" "), ran.stdout + ran.stderr)
        }
        keep(
          "plugins/planted/index.js",
          unloadable((name) => `${dirname(put("planted/all.txt", everything))}/${name}`)
        )
        for (const args of [["plugins", "list"], ...(isWhole ? [["tools"], ["doctor"]] : [])]) {
          const ran = yield* hermes(args)
          search(`unloadable: ${args.join(" ")}`, ran.stdout + ran.stderr)
        }
        searchFiles()
        assert.deepStrictEqual(leaks(), [])
      })
  )
})

describe.skipIf(launcher === undefined)("hermes model", () => {
  it.live("masks a refusal that repeats the key that was typed, or any other value, in every form", () =>
    Effect.gen(function* () {
      if (launcher === undefined) return
      const typed = "Wq7-typed-in-the-dialogue-zT4mXc9"
      const forms = Object.values(encoded).map((encode) => encode(typed))
      const { cwd, home, keep } = yield* machine
      const server = yield* HttpServer.make((_, response) =>
        HttpServer.json(response, 401, {
          error: { message: `Incorrect API key provided: ${forms.join(" ")} ${everything}`, code: "invalid_api_key" }
        })
      )
      keep(".env", environmentFile)
      const { type, written } = yield* open(
        launcher,
        `cd '${cwd}' && '${process.execPath}' '${program}' model`,
        { HERMES_HOME: home, HOME: cwd },
        400
      )
      let seen = 0
      const until = Effect.fnUntraced(function* (text: string) {
        yield* eventually(
          text,
          Effect.sync(() => written().includes(text, seen))
        )
        seen = written().indexOf(text, seen) + text.length
      })
      const answers: ReadonlyArray<readonly [question: string, answer: string]> = [
        ["Provider", "custom"],
        ["Address of the API", `${server.url}/v1`],
        ["API key for", typed],
        ["Name of the model", "m"],
        ["Not saved:", ""]
      ]
      for (const [question, answer] of answers) {
        yield* until(question)
        if (answer !== "") yield* type(`${answer}\r`)
      }
      yield* until("API key for")
      yield* type("\u0003")
      const bare = (text: string): string => text.replaceAll(/\s+|\\+[nrt]/g, "")
      const shown = written()
      assert.include(shown, "Incorrect API key provided")
      assert.deepStrictEqual(found(shown), [])
      // Ends of base64 are letters of what stands beside the value, too.
      for (const form of forms)
        assert.notInclude(
          bare(shown),
          bare(form)
            .replaceAll(/^["{}x:\\]+|["{}\\]+$/g, "")
            .slice(4, -6),
          form
        )
    }).pipe(Effect.scoped)
  )
})
